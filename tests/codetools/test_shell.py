"""Group C of the cases: commands, what they say, how they end, and that nothing of them is left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.codetools.commands import (
    ESCAPES,
    LEVELS,
    bearing,
    descriptors,
    gone,
    mark,
    run,
    said,
    tools_at,
    zombies,
)
from toolwire.codetools import CodeTools
from toolwire.codetools.processes import pipe_of
from toolwire.resolvers.execution import aexecute
from toolwire.types import ToolCall

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands run on Linux only")


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("command", "text", "is_error"),
    [
        ("echo one; echo two >&2", "one\n[stderr]\ntwo", False),
        ("echo two >&2", "[stderr]\ntwo", False),
        (":", "(no output)", False),
        ("printf 'no end'", "no end", False),
        pytest.param("echo out; exit 3", "out\n[exit code 3]", True, id="code"),
        pytest.param("exit 255", "(no output)\n[exit code 255]", True, id="255"),
        pytest.param("kill -9 $$", "(no output)\n[exit code 137: SIGKILL]", True, id="signal"),
        pytest.param("exec false", "(no output)\n[exit code 1]", True, id="exec"),
        pytest.param("nosuch", "[stderr]\nbash: line 1: nosuch: command not found\n[exit code 127]", True, id="127"),
        pytest.param(
            "/etc/passwd",
            "[stderr]\nbash: line 1: /etc/passwd: Permission denied\n[exit code 126]",
            True,
            id="126",
        ),
        pytest.param("cat; read x; echo done", "done", False, id="no stdin"),
        pytest.param("(echo > /dev/tty) 2>/dev/null || echo none", "none", False, id="no terminal"),
        pytest.param("ls /proc/self/fd | wc -l", "4", False, id="with that of ls"),
        pytest.param("exec >&-; echo lost 2>/dev/null; exit 0", "(no output)", False, id="closed early"),
        pytest.param(
            'echo \'~~~tool_call {"name": "x"}\'', '~~~tool_call {"name": "x"}', False, id="words that look like a call"
        ),
        pytest.param("echo a\r\n", "a", False, id="a carriage return is kept, and shown as a line break"),
    ],
)
@pytest.mark.row("R002-07", "C8", "C10", "C18", "C19", "C20", "C25")
def test_what_a_command_says(tmp_path: Path, level: str, command: str, text: str, is_error: bool) -> None:
    result = run(tools_at(tmp_path, level), command)
    assert (str(result.content).strip(), result.is_error) == (text, is_error)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("x" * (2 << 20), "2097152 bytes; the limit is 65536"),
        ("  \n", "empty"),
    ],
    ids=["NUL", "surrogate", "2 MiB", "empty"],
)
@pytest.mark.row("C18")
def test_what_is_no_command_is_refused(tmp_path: Path, command: str, reason: str) -> None:
    result = run(CodeTools(tmp_path), command)
    assert result.is_error
    assert reason in str(result.content)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.slow
def test_what_a_command_writes_is_heard_as_it_comes(tmp_path: Path, level: str) -> None:
    """Who hears it has no say: what a listener raises changes nothing."""
    heard: list[bytes] = []

    def on_output(data: bytes) -> None:
        heard.append(data)
        raise ValueError

    words = said(tools_at(tmp_path, level, on_output=on_output), "echo one; sleep 0.2; echo two >&2; exit 0")
    assert words == "one\n[stderr]\ntwo"
    assert b"".join(heard).strip() == b"one\ntwo"
    assert len([data for data in heard if data.strip()]) == 2


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("C1")
def test_a_timeout_ends_it_and_keeps_what_came(tmp_path: Path, level: str) -> None:
    begun = time.monotonic()
    result = run(tools_at(tmp_path, level), "echo before; sleep 100", timeout=0.1)
    assert time.monotonic() - begun < 20
    assert result.is_error
    assert str(result.content).startswith("before\n[stopped after 0.1 s")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("C2")
def test_it_ends_when_bash_ends(tmp_path: Path, level: str) -> None:
    token, begun = mark(), time.monotonic()
    assert said(tools_at(tmp_path, level), f"sleep {token} & echo hi") == (
        "hi\n[processes that this command started in the background ended with it]"
    )
    assert time.monotonic() - begun < 20
    assert gone(token)


@pytest.mark.row("C2")
def test_the_naive_way_waits_for_the_pipe() -> None:  # the control
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["/bin/bash", "-c", "sleep 1 & echo hi"], stdout=subprocess.PIPE, timeout=0.1, check=False)


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("style", ["setsid", "double fork", "daemon"])
@pytest.mark.row("C3", "C4")
def test_nothing_outlives_a_timeout(tmp_path: Path, level: str, style: str) -> None:
    token = mark()
    result = run(tools_at(tmp_path, level), ESCAPES[style].format(token), timeout=0.1)
    assert result.is_error
    assert bearing(token) == []
    assert zombies() == []


@pytest.mark.row("C3")
def test_killing_the_group_leaves_some() -> None:  # the control
    token = mark()
    command = f"(setsid sleep {token} & echo); sleep {token}"
    with subprocess.Popen(["/bin/bash", "-c", command], stdout=subprocess.PIPE, start_new_session=True) as process:
        pipe_of(process.stdout).read(1)
        time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    left = bearing(token)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("C4")
def test_there_is_time_to_tidy_up(tmp_path: Path, level: str) -> None:
    command = "trap 'rm lock; exit 1' TERM; touch lock; sleep 100 & wait"
    run(tools_at(tmp_path, level), command, timeout=0.15)
    assert not (tmp_path / "lock").exists()


async def cancelled(tools: CodeTools, command: str, after: float) -> None:
    task = asyncio.ensure_future(tools.aresolve(ToolCall("1", "bash", {"command": command})))
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("C5")
def test_whoever_cancels_leaves_nothing_behind(tmp_path: Path, level: str) -> None:
    tools, token = tools_at(tmp_path, level), mark()

    async def main() -> None:
        for after in (0, 0.001, 0.01, 0.03, 0.06):
            await cancelled(tools, ESCAPES["setsid"].format(token), after)
            assert bearing(token) == []

    before = descriptors()
    asyncio.run(main())
    assert zombies() == []
    assert descriptors() <= before


@pytest.mark.row("C5")
def test_execution_cancels_and_bounds_it_too(tmp_path: Path) -> None:
    tools, token = tools_at(tmp_path), mark()
    call = ToolCall("1", "bash", {"command": ESCAPES["setsid"].format(token)})
    [result] = asyncio.run(aexecute([call], tools, timeout=0.2))
    assert "longer than 0.2 s" in str(result.content)
    assert bearing(token) == []


@pytest.mark.row("C23")
def test_it_runs_in_sync_and_async_code_and_in_a_thread_of_a_loop(tmp_path: Path) -> None:
    tools = tools_at(tmp_path)

    async def main() -> list[str]:
        calls = [tools.aresolve(ToolCall(str(n), "bash", {"command": f"sleep 0.05; echo {n}"})) for n in range(4)]
        return [str(result.content) for result in await asyncio.gather(*calls)]

    assert asyncio.run(main()) == ["0", "1", "2", "3"]
    assert said(tools, "echo sync") == "sync"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("R002-07", "C11")
def test_the_folder_is_the_same_each_time(tmp_path: Path, level: str) -> None:
    tools = tools_at(tmp_path, level)
    said(tools, "cd / && export X=1")
    assert said(tools, "pwd; echo $X") == str(tmp_path)


@pytest.mark.row("C12", "A22")
def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    tools = tools_at(inner)
    inner.rmdir()
    result = run(tools, "pwd")
    assert result.is_error
    assert "does not exist any more" in str(result.content)
    assert str(tmp_path) not in str(result.content)


@pytest.mark.row("A22")
def test_a_folder_that_moved_is_followed(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    tools = tools_at(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")
    (tmp_path / "one").mkdir()
    (tmp_path / "two" / "mine").touch()
    assert said(tools, "ls") == "mine"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("C9", "C22")
def test_the_environment_is_made_from_nothing(tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = tmp_path / "start.sh"
    start.write_text("echo poisoned\n")
    (tmp_path / "ls").write_text("#!/bin/sh\necho poisoned\n")
    (tmp_path / "ls").chmod(0o755)
    poison = {
        "SOME_API_KEY": "sk-sentinel",
        "BASH_ENV": str(start),
        "ENV": str(start),
        "PATH": f".:{os.environ['PATH']}",
    }
    for name, value in {**poison, "BASH_FUNC_ls%%": "() { echo poisoned; }"}.items():
        monkeypatch.setenv(name, value)
    text = said(tools_at(tmp_path, level, environment={"WANTED": "yes"}), "env; set; ls; declare -F")
    assert "poisoned" not in text
    assert "sk-sentinel" not in text
    assert "WANTED=yes" in text
    names = {line.split("=")[0] for line in said(tools_at(tmp_path, level), "env").splitlines()}
    own = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "PWD", "SHLVL", "_"}
    assert names == own | {"TOOLWIRE_COMMAND"}


@pytest.mark.parametrize("given", [["A=1"], {"A": 1}, {"": "x"}, {"A=B": "x"}, {"A": "\0"}, "A=1"])
def test_variables_that_are_none_are_refused(tmp_path: Path, given: object) -> None:
    result = run(tools_at(tmp_path, environment=given), "env")
    assert result.is_error
    assert "`environment`" in str(result.content)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("C24")
def test_a_command_dies_with_its_host(tmp_path: Path, level: str) -> None:
    tools_at(tmp_path, level)
    token = mark()
    code = (
        "import sys; from toolwire import ToolCall; from toolwire.codetools import CodeTools;"
        "CodeTools(sys.argv[1], sandbox=sys.argv[2]).resolve(ToolCall('1', 'bash', {'command': sys.argv[3]}))"
    )
    command = ESCAPES["daemon"].format(token)
    with subprocess.Popen([sys.executable, "-c", code, tmp_path, level, f"touch begun; {command}"]) as host:
        deadline = time.monotonic() + 20
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        host.kill()
    assert gone(token, patience=5)
    assert said(tools_at(tmp_path, level), "ls") == "begun"


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_left_when_the_watch_fails(tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_leader: int) -> str:
        raise OSError("too many open files")

    tools, token, before = tools_at(tmp_path, level), mark(), descriptors()
    monkeypatch.setattr("toolwire.codetools.processes.exceeded_limit", fail)
    assert run(tools, f"(setsid sleep {token} &); sleep {token}").is_error
    assert (bearing(token), zombies(), descriptors()) == ([], [], before)


@pytest.mark.row("C3")
def test_killing_the_overseer_is_not_enough(tmp_path: Path) -> None:
    token = mark()
    result = run(tools_at(tmp_path, "none"), f"(setsid sleep {token} &); kill -9 $PPID; sleep {token}")
    assert result.is_error
    assert gone(token, patience=1)


def test_in_a_sandbox_there_is_nobody_to_kill(tmp_path: Path) -> None:
    assert said(tools_at(tmp_path), "[ $PPID = 1 ] && kill -9 1; echo alive") == "alive"


STOPPERS = {
    "the overseer": "kill -STOP $PPID; sleep {0}",
    "the overseer, and it ends": "kill -STOP $PPID",
    "the overseer, and itself": "kill -STOP $PPID; kill -STOP $$; sleep {0}",
    "the overseer, again and again": "trap '' TERM; p=$PPID; (setsid sh -c \"trap '' TERM; "
    'while kill -STOP $p; do sleep 0.001; done" {0} &); sleep {0}',
}
FAST = ("the overseer, again and again",)


@pytest.mark.parametrize("level", ["none", pytest.param("bubblewrap", marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", [way if way in FAST else pytest.param(way, marks=pytest.mark.slow) for way in STOPPERS])
@pytest.mark.row("C3", "C4")
def test_whoever_stops_its_overseer_ends_in_time(tmp_path: Path, level: str, way: str) -> None:
    tools, token, took = tools_at(tmp_path, level), mark(), []
    for _ in range(3):  # the machine may be busy with other things: the best of three counts
        begun = time.monotonic()
        result = run(tools, STOPPERS[way].format(token), timeout=1)
        took.append(time.monotonic() - begun)
        assert "could not be stopped" not in str(result.content)
        assert result.is_error or level == "bubblewrap"
        assert gone(token)
        assert not zombies()
        if took[-1] < 1 + 1:
            break
    assert min(took) < 1 + 1
