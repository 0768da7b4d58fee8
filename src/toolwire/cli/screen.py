r"""What is shown to a person: words with a look, on a terminal with colours or plainly anywhere else.

Rules of this file:
- Nothing that came from a model, a tool or a file reaches a terminal as it is: whatever could steer it, hide,
  or turn the writing around is shown as its number (`\x1b`). Only line breaks and tabs do what they do.
- The looks are those of rich where it is installed and the output is a terminal; the words are the same.
- Who does not read any more (a closed pipe) ends it: `problem` says so, and nothing is written after that.
"""

import contextlib
import io
import sys
from typing import Any, TextIO

from toolwire.work.results import safe

LOOKS = {
    "thinking": "dim italic",
    "call": "bold cyan",
    "error": "red",
    "added": "green",
    "removed": "red",
    "note": "dim",
    "question": "bold yellow",
}


class Screen:
    """Where words are shown: `write` goes on in the line, `line` has lines of its own."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.terminal = self.stream.isatty()
        self.problem: OSError | None = None
        self._begun = False
        self._console = _console(self.stream) if self.terminal else None
        if isinstance(self.stream, io.TextIOWrapper):
            self.stream.reconfigure(errors="backslashreplace")

    def write(self, text: str, look: str = "") -> None:
        """Show words where the last ones ended."""
        if text:
            self._put(safe(text), look)
            self._begun = not text.endswith("\n")

    def line(self, text: str = "", look: str = "") -> None:
        """Show words on a line of their own."""
        self.fresh()
        self._put(f"{safe(text)}\n", look)

    def fresh(self) -> None:
        """Begin a new line, if there are words on this one."""
        if self._begun:
            self._put("\n", "")
        self._begun = False

    def entered(self) -> None:
        """Note that a person has ended the line."""
        self._begun = False

    def _put(self, text: str, look: str) -> None:
        if self.problem is not None:
            return
        try:
            if self._console is None or not look:
                self.stream.write(text)
            else:
                self._console(text, LOOKS[look])
            self.stream.flush()
        except OSError as problem:
            self.problem = problem
            _give_up(self.stream)


def _console(stream: TextIO) -> Any:
    """Give what writes with a look; None where there is no rich."""
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra, and only for a terminal
        from rich.text import Text  # noqa: PLC0415 - the same
    except ImportError:
        return None
    console = Console(file=stream, highlight=False, markup=False, emoji=False)

    def put(text: str, style: str) -> None:
        console.print(Text(text, style=style, end=""), end="", soft_wrap=True)

    return put


def _give_up(stream: TextIO) -> None:
    """Let what is left in the buffer of a closed pipe go nowhere, or Python complains at its end."""
    import os  # noqa: PLC0415 - only where a pipe was closed

    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
