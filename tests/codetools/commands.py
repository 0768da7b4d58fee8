"""Commands that try to outlive their call, and what finds those that did."""

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolwire.codetools import CodeTools
from toolwire.codetools.sandbox import in_force
from toolwire.types import ToolCall, ToolResult

LEVELS = ("bubblewrap", "none")

# {0} is how long they would sleep, which tells them apart.
ESCAPES = {
    "plain": "sleep {0}",
    "background": "sleep {0} & sleep {0} & sleep {0}",
    "setsid": "(setsid sleep {0} &); sleep {0}",
    "double fork": "( ( (sleep {0} &) & ) & ); sleep {0}",
    "nohup": "nohup sleep {0} >/dev/null 2>&1 & disown; sleep {0}",
    "trap": "trap '' TERM INT HUP QUIT; (trap '' TERM; sleep {0}) & while :; do sleep {0}; done",
    "daemon": "setsid sh -c 'cd /; (sleep {0} &) ; exec sleep {0}' <&- >&- 2>&- & sleep {0}",
    "respawn": "while :; do (setsid sh -c 'trap \"\" TERM; sleep {0}' &); sleep 0.01; done",
}


def needs(level: str) -> None:
    """Skip where a level is not to be had, and say so."""
    if in_force({"sandbox": level}) != level:
        pytest.skip(f"the level {level!r} is not to be had on this machine: bubblewrap is missing or blocked")


def tools_at(folder: Path | str, level: str = "auto", **options: Any) -> CodeTools:
    """Give tools for a folder at a level."""
    needs("bubblewrap" if level == "auto" else level)
    return CodeTools(folder, sandbox=level, **options)


def run(tools: CodeTools, command: str, **more: Any) -> ToolResult:
    """Run a command as a call."""
    return tools.resolve(ToolCall("call_1", "bash", {"command": command, **more}))


def said(tools: CodeTools, command: str, **more: Any) -> str:
    """Run a command that ends well, and give what it said."""
    result = run(tools, command, **more)
    assert not result.is_error, result.content
    assert isinstance(result.content, str)
    return result.content


def mark() -> str:
    """Give how long to sleep: a number that no other process has on its line."""
    return f"31536000.{secrets.randbelow(10**12):012d}"


def names_in(folder: Path) -> list[str]:
    """List a folder."""
    return sorted(path.name for path in folder.iterdir())


def pids() -> list[str]:
    """List the processes of this machine."""
    return [name for name in names_in(Path("/proc")) if name.isdigit()]


def bearing(token: str) -> list[int]:
    """Find the processes that have this on their command line, and the dead ones that nobody reaped."""
    found = []
    for name in pids():
        try:
            line = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in line:
            found.append(int(name))
    return found


def zombies() -> list[int]:
    """Find the children of this process that ended and were not reaped."""
    found = []
    for name in pids():
        try:
            state, parent = Path("/proc", name, "stat").read_text("ascii", "replace").rsplit(")", 1)[1].split()[:2]
        except (OSError, IndexError):
            continue
        if state == "Z" and int(parent) == os.getpid():
            found.append(int(name))
    return found


def descriptors() -> int:
    """Count what is open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def gone(token: str, patience: float = 0.0) -> bool:
    """Whether nothing bears a token; at once, or within some seconds."""
    deadline = time.monotonic() + patience
    while bearing(token):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True


def environment_with(**more: str) -> Mapping[str, str]:
    """Give the environment of the tests, and more."""
    return {**os.environ, **more}
