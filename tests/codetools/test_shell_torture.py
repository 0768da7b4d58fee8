"""Group C of the cases, often: short in every run, in full where TOOLWIRE_TORTURE=full is set."""

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.amounts import FULL
from tests.codetools.commands import (
    ESCAPES,
    LEVELS,
    bearing,
    descriptors,
    gone,
    mark,
    names_in,
    run,
    said,
    tools_at,
    zombies,
)
from toolwire.codetools import CodeTools
from toolwire.codetools.definitions import OUTPUT_BYTES
from toolwire.types import ToolCall
from toolwire.waiting.process_marks import sweep_orphans

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="commands run on Linux only"),
]
TIMEOUTS = 500 if FULL else 8
CANCELS = 200 if FULL else 20
DEATHS = 200 if FULL else 8
AT_ONCE = 8
numbers = itertools.count(-1, -1)


def chance(seed: str) -> random.Random:
    """Give chance that comes out the same each time."""
    return random.Random(seed)  # noqa: S311 - it keeps no secret


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("style", ESCAPES)
@pytest.mark.row("C3", "C4")
def test_timeouts_leave_nothing(tmp_path: Path, level: str, style: str, tally: Counter[str]) -> None:
    tools = tools_at(tmp_path, level)

    def once(number: int) -> tuple[bool, int]:
        token = mark()
        seconds = chance(f"{style} {number}").uniform(0.01, 0.2)
        result = run(tools, ESCAPES[style].format(token), timeout=seconds)
        left = bearing(token)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return result.is_error, len(left)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(once, range(TIMEOUTS)))
    tally[f"timeouts of commands that try to escape ({level}: no process left)"] += len(outcomes)
    assert outcomes == [(True, 0)] * TIMEOUTS
    assert zombies() == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("C5")
def test_cancelling_at_any_time_leaves_nothing(tmp_path: Path, level: str, tally: Counter[str]) -> None:
    tools = tools_at(tmp_path, level)
    rolled = chance(level)

    async def once() -> None:
        token = mark()
        command = ESCAPES[rolled.choice(sorted(ESCAPES))].format(token)
        task = asyncio.ensure_future(tools.aresolve(ToolCall("1", "bash", {"command": command})))
        await asyncio.sleep(rolled.uniform(0, 0.1))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bearing(token) == []

    async def main() -> None:
        for _ in range(CANCELS):
            await once()

    asyncio.run(once())
    before = descriptors()
    asyncio.run(main())
    tally[f"cancellations of commands ({level}: no process, no zombie, no descriptor left)"] += CANCELS
    assert zombies() == []
    assert descriptors() == before


HOST = """
import sys
from toolwire import ToolCall
from toolwire.codetools import CodeTools
CodeTools(sys.argv[1], sandbox=sys.argv[2]).resolve(ToolCall("1", "bash", {"command": sys.argv[3]}))
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.row("C24")
def test_commands_die_with_their_host(tmp_path: Path, level: str, tally: Counter[str]) -> None:
    tools_at(tmp_path, level)
    rolled = chance(level)
    for _ in range(DEATHS):
        token = mark()
        command = ESCAPES[rolled.choice(sorted(ESCAPES))].format(token)
        with subprocess.Popen([sys.executable, "-c", HOST, tmp_path, level, command]) as host:
            # The command is on the line of its host, too: two of them is when it is being started.
            while len(bearing(token)) < 2 and host.poll() is None:
                time.sleep(0.001)
            time.sleep(rolled.uniform(0, 0.05))
            host.kill()
        if not gone(token, patience=2):
            # Killed while it makes the sandbox, bubblewrap may leave a process that waits for it for ever.
            assert [Path("/proc", str(pid), "comm").read_text() for pid in bearing(token)] == ["bwrap\n"]
            tally["of these: processes of a sandbox half made, ended when the next command began"] += 1
            sweep_orphans(next(numbers))
        assert gone(token, patience=2)
    tally[f"hosts killed with -9 while a command ran ({level}: no process left)"] += DEATHS
    assert said(tools_at(tmp_path, level), "ls -A | grep -v ^.git; exit 0") == "(no output)"


MEMORY = """
import sys, threading
from toolwire import ToolCall
from toolwire.codetools import CodeTools
tools = CodeTools(sys.argv[1], sandbox=sys.argv[2])
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def run(command):
    return tools.resolve(ToolCall("1", "bash", {"command": command, "timeout": 120}))
run("yes | head -c 3M; yes | head -c 3M >&2")
before = peak()
result = run(sys.argv[3])
print(peak() - before, len(result.content))
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "command",
    [
        "yes | head -c {size}",
        "head -c {size} /dev/urandom",
        "head -c {size} /dev/zero >&2",
        "yes | head -c {size} | tee /dev/stderr",
    ],
)
@pytest.mark.row("C6")
def test_memory_is_bounded(tmp_path: Path, level: str, command: str, tally: Counter[str]) -> None:
    tools_at(tmp_path, level)
    size = 1 << 30 if FULL else 64 << 20
    code = [sys.executable, "-c", MEMORY, str(tmp_path), level, command.format(size=size)]
    grown, length = map(int, subprocess.check_output(code, text=True).split())
    tally[f"MB of output, of which {OUTPUT_BYTES >> 10} KB and 1 MB were held at most"] += size >> 20
    assert grown * 1024 <= OUTPUT_BYTES + (1 << 20)
    assert length <= 2 * OUTPUT_BYTES


@pytest.mark.row("C15")
def test_a_fork_bomb_is_ended(tmp_path: Path) -> None:
    token = mark()
    # It doubles eleven times and no more, so that it hurts nobody should it not be ended.
    bomb = "bomb() { [ $1 = 0 ] || { bomb $(($1 - 1)) & bomb $(($1 - 1)) & }; sleep 60; }; bomb 11"
    begun = time.monotonic()
    result = run(tools_at(tmp_path), f": {token}; {bomb}", timeout=40)
    assert "started too many processes" in str(result.content)
    assert bearing(token) == []
    assert time.monotonic() - begun < 30


@pytest.mark.row("C23")
def test_many_at_once_keep_apart(tmp_path: Path, tally: Counter[str]) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
        tools_at(folder)
    count = 50 if FULL else 8

    async def main() -> list[str]:
        calls = [
            CodeTools(folder).aresolve(
                ToolCall("1", "bash", {"command": f"echo {folder.name}-{n}; sleep 0.1; pwd; echo {n} >&2"})
            )
            for folder in folders
            for n in range(count)
        ]
        return [str(result.content) for result in await asyncio.gather(*calls)]

    texts = asyncio.run(main())
    assert texts == [f"{f.name}-{n}\n{f}\n[stderr]\n{n}" for f in folders for n in range(count)]
    tally["commands at once, in three folders"] += len(texts)
    assert [names_in(folder) for folder in folders] == [[], [], []], "the placeholders are gone"
    assert zombies() == []
