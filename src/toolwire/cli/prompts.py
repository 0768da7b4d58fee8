"""What a person, or a pipe, says to the model: a task with what stands on standard input, the prompts of a chat.

Rules of this file:
- Lines that arrive at once are one prompt, whether or not the terminal marks what is pasted. A line that ends with a
  backslash goes on in the next one. From a pipe each line is a prompt.
- What was typed before is offered again, in later chats too.
"""

import contextlib
import os
import select
import stat
import sys
from pathlib import Path
from typing import Any

from toolwire.cli.keeping import state_folder
from toolwire.cli.screen import Screen, is_terminal
from toolwire.errors import UserError

_PROMPT, _MORE = "you> ", "...> "
_PATIENCE, _AT_ONCE = 2.0, 0.05
_HISTORY = 1000
_END = "\x04"
_SETTINGS = (r'"\e\C-m": "\C-v\C-j"', "tab: complete")
_MARKED = "set enable-bracketed-paste on"


def task_of(task: str | None) -> str | None:
    """Give a task with what stands on standard input, which may be the task itself; None where there is neither."""
    given = sys.stdin.read() if task == "-" and is_terminal(sys.stdin) else _piped()
    words = "" if task in (None, "-") else str(task).strip()
    if task == "-" and not given.strip():
        raise UserError("standard input has no task", path="run")
    if words and given.strip():
        return f"{words}\n\nStandard input:\n\n{given}"
    return words or given.strip() or None


def as_utf_8(words: str) -> str:
    """Give what was typed as a model can be told it: what is not UTF-8 is shown as such, in every locale."""
    return words.encode(errors="surrogateescape").decode(errors="replace")


def _piped() -> str:
    """Read what is piped in; a terminal and a device have nothing to read."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    with contextlib.suppress(OSError, ValueError):
        fd = sys.stdin.fileno()
        if stat.S_ISCHR(os.fstat(fd).st_mode):
            return ""
        if not select.select([fd], [], [], _PATIENCE)[0]:
            print("toolwire: reading standard input; pass `< /dev/null` if there is none", file=sys.stderr)
        return sys.stdin.buffer.read().decode(errors="replace")
    with contextlib.suppress(OSError):  # a stand-in for standard input, which may not be there to be read
        return sys.stdin.read()
    return ""


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
        """Let lines be edited, and completed, with those of earlier chats at hand."""
        import readline  # noqa: PLC0415 - it is not everywhere, and edits once it is there

        for setting in _SETTINGS if os.environ.get("TERM") == "dumb" else (*_SETTINGS, _MARKED):
            readline.parse_and_bind(setting)
        readline.set_completer_delims("")
        readline.set_completer(lambda text, n: [*(one for one in commands if one.startswith(text)), None][n])
        readline.set_history_length(_HISTORY)
        with contextlib.suppress(OSError, UserError):
            self._history = state_folder("nothing") / "history"
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.read_history_file(self._history)

    def next(self) -> str | None:
        """Read a prompt; None at the end of the input."""
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
        """Read a line, and those that came with it."""
        if sys.stdout.isatty():
            line = input(prompt)
        else:
            print(prompt, end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline().removesuffix("\n")
        more, end, _ = _at_once(sys.stdin.fileno()).partition(_END)
        self._over = bool(end)
        if more:
            self.screen.write(more.rstrip("\n"))
            self.screen.fresh()
        return f"{line}\n{more}".rstrip("\n")

    def _remember(self, text: str) -> None:
        if self._history is not None:
            import readline  # noqa: PLC0415 - it is there, as there is a history

            if "\n" in text:
                readline.replace_history_item(readline.get_current_history_length() - 1, text)
            with contextlib.suppress(OSError):
                readline.write_history_file(self._history)


def _at_once(fd: int) -> str:
    """Read what has been typed already, whether or not its last line has an end."""
    try:
        import termios  # noqa: PLC0415 - not on every system
    except ImportError:
        return ""
    before: list[Any] = termios.tcgetattr(fd)
    now = list(before)
    now[3] &= ~(termios.ICANON | termios.ECHO)
    data = b""
    termios.tcsetattr(fd, termios.TCSANOW, now)
    try:
        while select.select([fd], [], [], _AT_ONCE)[0] and (piece := os.read(fd, 65536)):
            data += piece
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)
    return data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
