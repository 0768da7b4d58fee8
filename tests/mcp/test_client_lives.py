"""The life of a server's process: started, timed, killed, started again, closed."""

import asyncio
import contextlib
import fcntl
import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.serving import BY_HAND, PATHS, about, by_hand, do, is_alive, wait_for
from tests.timing import within
from toolwire import (
    ToolCall,
    ToolResult,
    execute,
    mcp,
)
from toolwire.errors import ServerUnavailable
from toolwire.mcp import McpResolver
from toolwire.mcp.targets import Terms
from toolwire.waiting.results import FAILED

pytestmark = pytest.mark.slow


def test_a_server_that_is_silent_costs_one_call() -> None:
    with by_hand(timeout=0.1) as resolver:
        assert do(resolver, "silent").content == f"{FAILED}it took longer than 0.1 s"
        assert not do(resolver, "about").is_error
        [result] = execute([ToolCall("c1", "do", {"silent": 1})], resolver, timeout=0.05)
        assert result.content == f"{FAILED}it took longer than 0.05 s"


def test_a_server_that_was_killed_is_started_again_and_no_call_is_repeated(tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    with by_hand() as resolver:
        first = about(resolver)[0]
        os.kill(first, signal.SIGKILL)
        assert wait_for(lambda: not is_alive(first))
        second = about(resolver)[0]
        assert second != first
        results: list[ToolResult] = []
        told = {"path": str(effects), "wait": 60}
        calling = threading.Thread(target=lambda: results.append(do(resolver, "count", told)))
        calling.start()
        assert wait_for(effects.exists)
        os.kill(second, signal.SIGKILL)
        calling.join(20)
        assert results[0].is_error
        ended = "ended during the call, which may have had effects (killed by SIGKILL)"
        assert ended in str(results[0].content)
        third = about(resolver)[0]
        assert third not in {first, second}
        assert effects.read_text() == "once\n"
    assert not any(map(is_alive, (first, second, third)))


@pytest.mark.parametrize(
    ("mode", "said"),
    [("--strict", {}), ("--silent", {"connect_timeout": 1}), ("--begins-late", {"connect_timeout": 1})],
)
def test_a_server_that_does_not_take_the_first_question_is_asked_the_other_way(mode: str, said: dict[str, Any]) -> None:
    """It ends, it says nothing, or it had taken the question too late to be waited for."""
    with by_hand(mode, **said) as resolver:
        first = about(resolver)[0]
        os.kill(first, signal.SIGKILL)
        assert wait_for(lambda: not is_alive(first))
        assert about(resolver)[0] != first


@pytest.mark.parametrize("mode", ["--silent", "--begins-late", "--strict"])
def test_a_server_that_does_not_take_the_first_question_starts_soon(mode: str) -> None:
    start = time.monotonic()
    with by_hand(mode) as resolver:
        assert not do(resolver, "about").is_error
        assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("modes", "newer"), [(["--newer"], True), (["--both"], True), ([], False), (["--strict"], False)]
)
def test_a_server_that_begins_late_is_asked_as_one_that_does_not(modes: list[str], newer: bool) -> None:
    """It reads both first questions at once, and answers the first one first."""
    for more in ([], ["--sleeps"]):
        start = time.monotonic()
        with by_hand(*modes, *more) as resolver:
            assert resolver.available_tools()[0].name == "do"
            assert time.monotonic() - start < 5
            assert resolver._thread.connection._connection._is_modern is newer


@pytest.mark.parametrize("method", ["notifications/progress", "notifications/message", "notifications/odd"])
def test_a_server_that_tells_without_end_costs_one_call_up_to_its_time(method: str) -> None:
    assert Terms().timeout == 300
    with by_hand(timeout=1.0) as resolver, by_hand() as other:
        resolver.connect()
        start = time.monotonic()
        assert do(resolver, "flood", method).content == f"{FAILED}it took longer than 1 s"
        assert time.monotonic() - start < 5
        assert not do(other, "about").is_error


def test_a_server_that_always_dies_is_started_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.mcp.connection.PAUSES", (0.0, 0.0, 1.9, 1.9))
    with by_hand() as resolver:
        words = [str(do(resolver, "die", 3).content) for _ in range(4)]
        assert all("(exit code 3; its last output: last words)" in said for said in words[:2])
        assert re.search(r"failed 2 times in a row: the next attempt is in [01]\.", words[2])
        time.sleep(1.9)
        assert not do(resolver, "about").is_error
        assert "exit code 4" in str(do(resolver, "die", 4).content)
        assert not do(resolver, "about").is_error


def test_a_message_has_a_limit() -> None:
    with by_hand(max_message=100_000) as resolver:
        assert len(do(resolver, "size", 90_000).content) == 90_000
        assert "it sent a message of more than 100000 bytes" in str(do(resolver, "size", 10_000_000).content)
        assert not do(resolver, "about").is_error


def test_long_messages_are_read_in_time_that_grows_with_them() -> None:
    with by_hand() as resolver, within(2):
        assert len(do(resolver, "size", 12_000_000).content) == 12_000_000


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: mcp.stdio("/no/such/server"), "No such file"),
        (lambda: mcp.stdio("/bin/sh", ["-c", "echo oops >&2; exit 7"]), "exit code 7; its last output: oops"),
        (lambda: mcp.stdio("/bin/sh", ["-c", "kill -9 $$"]), "killed by SIGKILL"),
        (lambda: by_hand("--deaf", connect_timeout=0.1), "it did not answer within 0.1 s"),
        (lambda: mcp.http("http://127.0.0.1:9/mcp"), "cannot be reached: "),
        (lambda: mcp.http("http://no.such.host.invalid/mcp"), "cannot be reached: "),
    ],
    ids=["absent", "ends", "killed", "deaf", "no port", "no host"],
)
def test_a_server_that_cannot_be_used_says_why(make: Callable[[], McpResolver], reason: str) -> None:
    with contextlib.closing(make()) as resolver:
        with pytest.raises(ServerUnavailable, match=reason):
            resolver.connect()
        result = resolver.resolve(ToolCall("c1", "do"))
        assert result.is_error
        assert str(result.content).startswith(f"{FAILED}MCP server ")


def test_a_server_gets_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "canary")
    monkeypatch.setenv("TOOLWIRE_COMMAND", "of the command that this program is a part of")
    with by_hand(env={"OWN": "value"}, cwd=tmp_path) as resolver:
        _, folder, environment = about(resolver)
    assert folder == str(tmp_path)
    assert environment["OWN"] == "value"
    usual = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
    assert environment["TOOLWIRE_COMMAND"] == "of the command that this program is a part of"
    marks = {"TOOLWIRE_COMMAND", "TOOLWIRE_SERVER"}
    assert set(environment) - usual - marks <= {"OWN", "LC_CTYPE", "PWD", "SHLVL", "_", "__CF_USER_TEXT_ENCODING"}


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


APART = pytest.param(["--apart"], marks=pytest.mark.skipif(sys.platform != "linux", reason="marks are read in /proc"))


@pytest.mark.parametrize("apart", [[], APART], ids=["in the group", "in a session of its own"])
def test_nothing_is_left_after_close(apart: list[str], tmp_path: Path) -> None:
    """Control: the server, its child and the thread are there before."""
    before, lock = set(threading.enumerate()), tmp_path / "lock"
    lock.touch()
    resolver = by_hand(*apart, "--child", str(lock))
    assert set(threading.enumerate()) <= before, "nothing begins before its first use"
    process = about(resolver)[0]
    assert is_alive(process)
    assert wait_for(lambda: is_locked(lock))
    assert set(threading.enumerate()) - before
    resolver.close()
    resolver.close()
    assert not is_alive(process)
    assert wait_for(lambda: not is_locked(lock))
    assert wait_for(lambda: set(threading.enumerate()) <= before)
    assert "was closed" in str(do(resolver, "about").content)


@pytest.mark.usefixtures("little_garbage")
def test_what_is_no_longer_used_is_closed() -> None:
    resolver: McpResolver | None = by_hand()
    assert resolver is not None
    process = about(resolver)[0]
    resolver = None
    gc.collect()
    assert wait_for(lambda: not is_alive(process))


def test_a_program_that_ends_leaves_no_server() -> None:
    """Control: while the program runs, the server does."""
    program = (
        "import logging, sys\n"
        "logging.disable()\n"
        "from toolwire import mcp, ToolCall\n"
        f"resolver = mcp.stdio(sys.executable, ['-I', '-S', {BY_HAND!r}])\n"
        "print(resolver.resolve(ToolCall('c1', 'do', {'about': 1})).content, flush=True)\n"
        "sys.stdin.read()\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **PATHS},
        text=True,
    )
    assert running.stdout is not None
    process = json.loads(running.stdout.readline())[0]
    assert is_alive(process)
    _, errors = running.communicate(timeout=30)
    assert (running.returncode, errors) == (0, "")
    assert not is_alive(process)


def test_a_call_that_is_closed_upon_has_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.mcp.process.GRACE", 0.1)
    effects = tmp_path / "effects"
    resolver = by_hand().connect()
    results: list[ToolResult] = []
    told = {"path": str(effects), "wait": 60}
    calling = threading.Thread(target=lambda: results.append(do(resolver, "count", told)))
    calling.start()
    assert wait_for(effects.exists)
    begun = time.perf_counter()
    resolver.close()
    calling.join(20)
    assert results[0].is_error
    assert time.perf_counter() - begun < 20


def test_a_block_that_could_not_begin_leaves_nothing() -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        async with mcp.stdio("/no/such/server"):
            pass

    with pytest.raises(ServerUnavailable), mcp.stdio("/no/such/server"):
        pass
    with pytest.raises(ServerUnavailable):
        asyncio.run(main())
    assert wait_for(lambda: set(threading.enumerate()) <= before)
