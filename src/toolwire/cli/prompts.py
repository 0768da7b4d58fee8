"""The user's input: the task of `run`, with piped standard input, and the prompts of a chat.

Rules of this file:
- Lines that arrive at once are one prompt, whether or not the terminal marks pasted text. A line that ends with a
  backslash continues on the next line. From a pipe, each line is a prompt.
- Earlier prompts can be recalled, also in later chats.
"""

import contextlib
import glob
import os
import select
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolwire.cli.screen import Screen, is_terminal
from toolwire.cli.state_paths import state_folder
from toolwire.errors import UserError

_PROMPT, _MORE = "you> ", "...> "
_PATIENCE, _AT_ONCE = 2.0, 0.05
_HISTORY = 1000
_END = "\x04"
_WITH_FILE = ("/attach", "/save")
_SETTINGS = (r'"\e\C-m": "\C-v\C-j"', "tab: complete")
_MARKED = "set enable-bracketed-paste on"


def read_task(task: str | None) -> str | None:
    """Return the `task` with piped standard input appended; None if there is neither.

    A task of `-` reads standard input.
    """
    piped = sys.stdin.read() if task == "-" and is_terminal(sys.stdin) else _piped()
    text = "" if task in (None, "-") else str(task).strip()
    if task == "-" and not piped.strip():
        raise UserError("standard input is empty: pipe a task, or pass it as an argument", path="run")
    if text and piped.strip():
        return f"{text}\n\nStandard input:\n\n{piped}"
    return text or piped.strip() or None


def as_utf_8(words: str) -> str:
    """Return `words` with each byte that is not UTF-8 replaced, so that a model can read it."""
    return words.encode(errors="surrogateescape").decode(errors="replace")


def _piped() -> str:
    return read_piped().decode(errors="replace")


def read_piped() -> bytes:
    """Return what is piped to standard input. A terminal or a device counts as empty."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return b""
    with contextlib.suppress(OSError, ValueError):
        fd = sys.stdin.fileno()
        if stat.S_ISCHR(os.fstat(fd).st_mode):
            return b""
        if not select.select([fd], [], [], _PATIENCE)[0]:
            print("toolwire: reading standard input; pass `< /dev/null` if there is none", file=sys.stderr)
        return sys.stdin.buffer.read()
    with contextlib.suppress(OSError):  # a replacement of sys.stdin without a descriptor
        return sys.stdin.read().encode(errors="surrogateescape")
    return b""


def _completions(text: str, commands: list[str]) -> list[str]:
    """Return what `text` may become: a command, or a command with a file."""
    command, space, name = text.partition(" ")
    if not space:
        return [one for one in commands if one.startswith(text)]
    if command not in _WITH_FILE:
        return []
    files = sorted(glob.glob(f"{glob.escape(os.path.expanduser(name))}*"))  # noqa: PTH111, PTH207 - keeps how it is typed
    return [f"{command} {file}{'/' if os.path.isdir(file) else ''}" for file in files]  # noqa: PTH112 - the same


def _completer(commands: list[str]) -> Callable[[str, int], str | None]:
    """Return the function that readline calls with 0, 1, 2 and so on for one text: it looks for files at 0 alone."""
    found: list[str] = []

    def complete(text: str, index: int) -> str | None:
        if index == 0:
            found[:] = _completions(text, commands)
        return found[index] if index < len(found) else None

    return complete


def read_input() -> bytes:
    """Return all of standard input, which may be typed at a terminal."""
    return sys.stdin.buffer.read() if is_terminal(sys.stdin) else read_piped()


class Prompts:
    """The prompts of a chat."""

    def __init__(self, screen: Screen, commands: list[str]) -> None:
        self.screen: Screen = screen
        self._history: Path | None = None
        self._over = False
        if is_terminal(sys.stdin):
            with contextlib.suppress(ImportError):
                self._edit(commands)

    def _edit(self, commands: list[str]) -> None:
        """Enable line editing, completion of `commands`, and the history of earlier chats."""
        import readline  # noqa: PLC0415 - absent on Windows; importing it enables line editing

        for setting in _SETTINGS if os.environ.get("TERM") == "dumb" else (*_SETTINGS, _MARKED):
            readline.parse_and_bind(setting)
        readline.set_completer_delims("")
        readline.set_completer(_completer(commands))
        readline.set_history_length(_HISTORY)
        with contextlib.suppress(OSError, UserError):
            self._history = state_folder("nothing") / "history"
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.read_history_file(self._history)

    def next(self) -> str | None:
        """Return the next prompt; None at the end of the input."""
        if self._over or not is_terminal(sys.stdin):
            return None if self._over else sys.stdin.readline() or None
        try:
            text = self._line(_PROMPT)
            while text.endswith("\\"):
                text = f"{text[:-1]}\n{self._line(_MORE)}"
        except EOFError:
            self.screen.line()
            return None
        except KeyboardInterrupt:
            self.screen.line("\n[/quit or Ctrl-D ends the chat]", "note")
            return ""
        self._remember(text)
        return text

    def _line(self, prompt: str) -> str:
        """Read a line and the further lines of the same paste."""
        if sys.stdout.isatty():
            line = input(prompt)
        else:
            print(prompt, end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline().removesuffix("\n")
        more, end, _ = _read_pending(sys.stdin.fileno()).partition(_END)
        self._over = bool(end)
        if more:
            self.screen.write(more.rstrip("\n"))
            self.screen.start_line()
        return f"{line}\n{more}".rstrip("\n")

    def _remember(self, text: str) -> None:
        if self._history is not None:
            import readline  # noqa: PLC0415 - present, because there is a history

            if "\n" in text:
                readline.replace_history_item(readline.get_current_history_length() - 1, text)
            with contextlib.suppress(OSError):
                readline.write_history_file(self._history)


def _read_pending(fd: int) -> str:
    """Return what was typed already, even if its last line is not finished."""
    try:
        import termios  # noqa: PLC0415 - not on every system
    except ImportError:
        return ""
    settings: list[Any] = termios.tcgetattr(fd)
    unbuffered = list(settings)
    unbuffered[3] &= ~(termios.ICANON | termios.ECHO)
    data = b""
    termios.tcsetattr(fd, termios.TCSANOW, unbuffered)
    try:
        while select.select([fd], [], [], _AT_ONCE)[0] and (piece := os.read(fd, 65536)):
            data += piece
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, settings)
    return data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
