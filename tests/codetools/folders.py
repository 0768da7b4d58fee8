"""A project folder with the code tools on it, and a folder beside it that they must never touch."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import FULL
from toolwire import CodeTools, ToolCall
from toolwire.codetools import paths

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
KEPT = "outside: root:x:0:0"
NOBODY = 65534


def sized(full: int, short: int) -> int:
    """Say how many rounds a heavy test makes."""
    return full if FULL else short


class Project:
    """The code tools of a folder; `outside` lies beside it."""

    def __init__(self, top: Path, **options: Any) -> None:
        self.root = top / "proj"
        self.outside = top / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        (self.outside / "f.txt").write_text(KEPT)
        self.before = self._outside_now()
        self.options = options
        self.tools = CodeTools(self.root, **options)

    def restart(self) -> None:
        """Start the tools anew, as another process would."""
        self.tools = CodeTools(self.root, **self.options)

    def call(self, name: str, **arguments: Any) -> tuple[Any, bool]:
        """Call a tool; gives what it said, and whether that is an error."""
        result = self.tools.resolve(ToolCall("1", name, arguments))
        assert "Traceback" not in str(result.content)
        return result.content, result.is_error

    def ok(self, name: str, **arguments: Any) -> str:
        """Call a tool that has to succeed."""
        said, failed = self.call(name, **arguments)
        assert not failed, said
        return str(said)

    def refused(self, name: str, **arguments: Any) -> str:
        """Call a tool that has to refuse: in its own words, without a path of the host."""
        said, failed = self.call(name, **arguments)
        assert failed, said
        assert str(self.root) not in said.replace(str(arguments.get("path")), "")
        assert "Tool execution failed" not in said, "an exception came out that is no ToolError"
        assert KEPT not in said
        return str(said)

    def file(self, path: str, data: bytes | str = b"", mode: int | None = None) -> Path:
        """Put a file there, with the folders on the way."""
        made = self.root / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_bytes(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            made.chmod(mode)
        return made

    def read(self, path: str) -> bytes:
        """Read a file past the tools."""
        return (self.root / path).read_bytes()

    def names(self, path: str) -> list[str]:
        """List a folder past the tools."""
        return sorted(one.name for one in (self.root / path).iterdir())

    def left_over(self) -> list[str]:
        """List what is named as our own files are."""
        return [str(path) for path in self.root.rglob(".toolwire-*")]

    def untouched(self) -> None:
        """Hold that nothing outside was read into, made or changed."""
        assert self._outside_now() == self.before

    def _outside_now(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.outside.iterdir()}


OPENERS = ("openat2", "walk")


@contextlib.contextmanager
def confined(top: Path, monkeypatch: pytest.MonkeyPatch, opener: str) -> Iterator[Project]:
    """Confine by the kernel, or name by name; nothing outside may be touched, nothing of ours left over."""
    if opener == "walk":
        monkeypatch.setitem(paths._kernel, "openat2", value=False)
    elif not paths.has_openat2():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(os, "fsync", lambda _: None)
    made = Project(top)
    made.file("f.txt", "old inside")
    made.file("d/f.txt", "old in d")
    yield made
    made.untouched()
    assert not made.left_over()


WRITING: dict[str, dict[str, Any]] = {
    "write_file": {"content": "new"},
    "append_to_file": {"content": "new"},
    "edit_file": {"oldText": "old", "newText": "new"},
    "multi_edit": {"edits": [{"oldText": "old", "newText": "new"}]},
}
EACH: dict[str, dict[str, Any]] = {"read_file": {}, **WRITING}


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Be a user without rights; whoever is not root is one already."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def other_process(script: str, *arguments: object, **more: Any) -> subprocess.Popen[str]:
    """Start a script of this folder as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}{os.pathsep}{REPOSITORY}"}
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **more)


def said_by(process: subprocess.Popen[str], timeout: float = 3000) -> dict[str, Any]:
    """Wait for a script, and read the JSON that it printed last."""
    out, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0, out
    return dict(json.loads(out.splitlines()[-1]))
