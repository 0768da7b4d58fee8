"""`toolwire run` and `toolwire chat` as one who uses them: in this process, or on a terminal of their own."""

import contextlib
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from toolwire.cli import main
from toolwire.types import ToolCall

SOURCE = Path(__file__).resolve().parent.parent.parent / "src"
PATIENCE = 30.0
WROTE = ToolCall(None, "write_file", {"path": "made.txt", "content": "one\ntwo\n"})
PROVIDERS = ("openai", "openai-responses", "anthropic", "gemini", "ollama")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Give the variables of a command: no keys, and a state folder of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    state = {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color"}
    state["XDG_CONFIG_HOME"] = str(folder / "config")
    return {**kept, **state, **dict.fromkeys(KEYS, "no-key"), **more}


KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


def project(folder: Path) -> Path:
    """Make a project folder."""
    made = folder / "project"
    made.mkdir(exist_ok=True)
    return made


def at(model: Any, folder: Path, provider: str = "openai") -> list[str]:
    """Give the options that point at a simulated model and a project folder."""
    return ["--model", f"{provider}/m", "--base-url", model.url, "--cwd", str(project(folder))]


def system_of(sent: Any) -> str:
    """Return the system prompt of a request to a simulated model, whatever its wire."""
    messages = [message.text for message in sent.request.messages if message.role in ("system", "developer")]
    return messages[0] if messages else str(sent.request.context.system)


def tool_names(sent: Any) -> list[str]:
    """Return the names of the tools that a request to a simulated model offers."""
    return [tool.name for tool in sent.request.context.tools]


class Said(NamedTuple):
    """What a command wrote, to standard output and to standard error, and its exit code."""

    code: int
    out: str
    told: str

    @property
    def text(self) -> str:
        """All that it wrote."""
        return self.out + self.told


def say(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *arguments: str,
    given: str | bytes = "",
) -> Said:
    """Run a command in this process; all that it wrote, to both outputs."""
    for name, value in environment(folder).items():
        monkeypatch.setenv(name, value)
    stdin = io.StringIO(given) if isinstance(given, str) else io.TextIOWrapper(io.BytesIO(given), "utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    capfd.readouterr()
    code = main(arguments)
    out, told = capfd.readouterr()
    return Said(code, out, told)


# A session of its own, whose terminal sends it what Ctrl-C means.
OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


TOOLWIRE = (sys.executable, "-m", "toolwire")


class Terminal:
    """A command on a terminal of its own: what it wrote so far, and a way to type."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        columns: int = 0,
        out: Path | None = None,
        program: Sequence[str] = TOOLWIRE,
        **more: str,
    ) -> None:
        self.fd, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))
        self.looks = termios.tcgetattr(inner)
        self.inner = os.dup(inner)
        self.said = ""
        taken = os.dup(inner) if out is None else os.open(out, os.O_WRONLY | os.O_CREAT)
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *program, *arguments],
            stdin=inner,
            stdout=taken,
            stderr=inner,
            env=environment(folder, **more),
            cwd=folder,
            start_new_session=True,
        )
        os.close(inner)
        os.close(taken)

    def until(self, words: str, times: int = 1) -> str:
        """Read until it has written something so often; give all of it."""
        return self.when(lambda: self.said.count(words) >= times)

    def when(self, condition: Callable[[], object]) -> str:
        """Read until something holds; give all that was written."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"never came to it: {self.said}"
            assert self.read() or condition(), f"ended before: {self.said}"
        return self.said

    def read(self) -> bool:
        """Read what there is; whether there may be more."""
        written = select.poll()
        written.register(self.fd, select.POLLIN)
        if not written.poll(20):
            return self.process.poll() is None
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # what a terminal says when nobody is at its other side
            return False
        self.said += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def type(self, text: str) -> None:
        """Type."""
        os.write(self.fd, text.encode())

    def prompted(self) -> None:
        """Read until a chat waits for a prompt, and forget what was before."""
        self.until("you> ")
        time.sleep(0.3)
        self.said = ""

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal sends it to all that runs on it."""
        self.type("\x03")

    def is_as_it_was(self) -> bool:
        """Whether the terminal has the settings that it had before."""
        return termios.tcgetattr(self.inner) == self.looks

    def end(self) -> int:
        """Read to the end, and give the exit code."""
        end = time.monotonic() + PATIENCE
        while self.read():
            assert time.monotonic() < end, f"never ended: {self.said}"
        return self.process.wait(PATIENCE)

    @property
    def plain(self) -> str:
        """What it wrote, without the looks that it has itself."""
        return re.sub(r"\x1b\[[0-9;?]*[a-z]", "", re.sub(r"[^\n]*\r\x1b\[K", "", self.said))


@contextlib.contextmanager
def terminal(folder: Path, *arguments: str, columns: int = 0, **more: Any) -> Iterator[Terminal]:
    """Run a command on a terminal; nothing of it is left afterwards."""
    made = Terminal(folder, *arguments, columns=columns, **more)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.process.wait(PATIENCE)
        os.close(made.inner)
        os.close(made.fd)


def running(words: str) -> list[str]:
    """List the processes whose command line has these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if words in line:
                found.append(line)
    return found
