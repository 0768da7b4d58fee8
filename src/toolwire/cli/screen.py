r"""What is shown to a person: words with a look, on a terminal with colours or plainly anywhere else.

Rules of this file:
- Nothing that came from a model, a tool or a file reaches a terminal as it is: whatever could steer it, hide,
  or turn the writing around is shown as its number (`\x1b`). Only line breaks and tabs do what they do.
- The looks are those of rich where it is installed and the output is a terminal; the words are the same.
- On a terminal no word is cut at the edge: the last word waits for its end, or for a moment in which nothing comes.
- What is waited for stands below all else, from the first second on, and is taken away before anything is written. It
  is never written into a pipe, or to a terminal that cannot take it away.
- Who does not read any more (a closed pipe) ends it: `problem` says so, and nothing is written after that.
"""

import contextlib
import io
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO
from unicodedata import combining, east_asian_width

from toolwire.waiting.results import safe

LOOKS = {
    "thinking": "dim italic",
    "call": "bold cyan",
    "error": "red",
    "added": "green",
    "removed": "red",
    "note": "dim",
    "question": "bold yellow",
    "words": "",
}
# What is shown even where only the answer is wanted.
_ALWAYS = frozenset({"error", "question"})
# What consists of words: no word of it is cut. Code, changes and results have lines of their own.
_OURS = frozenset({"call", "error", "note", "words"})
# A word of narrow characters; each wide one stands for itself, for a line may end after it.
_PIECES = re.compile(r"\n|[^\S\n]+|[!-\u10ff]+|.", re.DOTALL)
_SOON, _TICK = 1.0, 0.2
_Words = Callable[[float], str]


class Screen:
    """Where words are shown: `write` goes on in the line, `line` has lines of its own.

    With `quiet` only errors and questions are shown.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self.stream: TextIO = sys.stdout if stream is None else stream
        self.terminal: bool = self.stream.isatty()
        self.quiet: bool = quiet
        self.problem: OSError | None = None
        self._console = _console(self.stream) if self.terminal else None
        self.coloured: bool = self._console is not None and _has_colours()
        self.wipes: bool = self.terminal and not quiet and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
        self._column, self._gap, self._word, self._ready, self._look = 0, "", "", "", ""
        self._changed = time.monotonic()
        self._waiting: tuple[float, _Words] | None = None
        self._drawn = ""
        self._ticking = False
        self._lock = threading.RLock()
        if isinstance(self.stream, io.TextIOWrapper):
            self.stream.reconfigure(errors="backslashreplace")

    def write(self, text: str, look: str = "") -> None:
        """Show words where the last ones ended."""
        if not text or (self.quiet and look not in _ALWAYS):
            return
        with self._lock:
            if not self.terminal:
                self._put(safe(text), look)
                self._column = 0 if text.endswith("\n") else 1
                return
            if look != self._look:
                self.settle()
            self._look, self._changed = look, time.monotonic()
            self._tick_from_now_on()
            for piece in _PIECES.findall(safe(text)):
                self._take(piece)
            if look == "question":  # it waits for an answer in its line
                self._settle()
            self._pour()

    def _take(self, piece: str) -> None:
        """Take a word, a gap or an end of a line; a word is written when it has ended."""
        if piece == "\n":
            self._settle()
            self._ready += "\n"
            self._column = 0
        elif piece.isspace():
            self._settle()
            self._gap = piece
        else:
            if self._word and (_is_wide(piece) or _is_wide(self._word[-1])):
                self._settle()
            self._word += piece

    def _settle(self) -> None:
        """Place the word that waits, on the next line if this one has no room for it."""
        gap, word, width = self._gap, self._word, self._width()
        self._gap = self._word = ""
        if not (gap or word):
            return
        needed = cells(gap, self._column) + cells(word)
        if word and width and self._column and self._column + needed > width:
            gap, needed, self._column = "\n", cells(word), 0
        self._ready += gap + word
        self._column += needed

    def _pour(self) -> None:
        ready, self._ready = self._ready, ""
        if ready:
            self._put(ready, self._look)

    def line(self, text: str = "", look: str = "") -> None:
        """Show words on a line of their own."""
        if self.quiet and look not in _ALWAYS:
            return
        with self._lock:
            self.fresh()
            self._changed = time.monotonic()
            if self.terminal and look in _OURS:
                self.write(f"{text}\n", look)
            else:
                self._put(f"{safe(text)}\n", look)

    def put_whole(self, text: str) -> None:
        """Write what is for another program, as it is."""
        with self._lock:
            self._put(text, "")

    def fresh(self) -> None:
        """Begin a new line, if there are words on this one."""
        with self._lock:
            self.settle()
            if self._column:
                self._put("\n", "")
            self._column = 0

    def entered(self) -> None:
        """Note that a person has ended the line."""
        with self._lock:
            self.settle()
            self._column = 0

    def settle(self) -> None:
        """Show all that was written so far."""
        with self._lock:
            self._settle()
            self._pour()

    def wait(self, words: _Words | None) -> None:
        """Say what is waited for, given the seconds; None where nothing is."""
        with self._lock:
            self._wipe()
            self._waiting = None if words is None else (time.monotonic(), words)
            if words is not None:
                self._tick_from_now_on()

    def _tick_from_now_on(self) -> None:
        if self.terminal and not self._ticking:
            self._ticking = True
            threading.Thread(target=self._tick, name="screen", daemon=True).start()

    def _tick(self) -> None:
        while self.problem is None:
            time.sleep(_TICK)
            with self._lock:
                now = time.monotonic()
                if (self._word or self._gap) and now - self._changed > _TICK:
                    self.settle()
                if now - self._changed < _SOON:
                    continue
                if self._waiting is None:
                    self._ticking = False
                    return
                since, words = self._waiting
                if not self._column and now - since >= _SOON:
                    self._draw(words(now - since))

    def _width(self) -> int:
        """Give the columns of the terminal; 0 where nobody knows."""
        with contextlib.suppress(OSError, ValueError):
            return os.get_terminal_size(self.stream.fileno()).columns
        return 0

    def _draw(self, words: str) -> None:
        if not self.wipes:
            return
        words = " ".join(safe(words).split())
        room = max(10, (self._width() or 80) - 1)
        while cells(words) > room:
            words = words[: room - cells(words)]
        if words != self._drawn:
            self._put(words, "note")
            self._drawn = words

    def _wipe(self) -> None:
        if self._drawn:
            self._drawn = ""
            self._put("\r\x1b[K", "")

    def _put(self, text: str, look: str) -> None:
        if self.problem is not None:
            return
        self._wipe()
        try:
            if self._console is None or not look:
                self.stream.write(text)
            else:
                self._console(text, LOOKS[look])
            self.stream.flush()
        except OSError as problem:
            self.problem = problem
            _give_up(self.stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person may be at this stream, which may be closed, or not be there at all."""
    return stream is not None and not stream.closed and stream.isatty()


def shortened(text: str, limit: int) -> str:
    """Cut a text to one short line."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def cells(text: str, column: int = 0) -> int:
    """Count the columns that a text takes on a terminal."""
    if text.isascii() and "\t" not in text:
        return len(text)
    if "\t" in text:
        return len((" " * column + text).expandtabs()) - column
    return sum(2 if _is_wide(one) else not combining(one) for one in text)


def _is_wide(text: str) -> bool:
    return len(text) == 1 and east_asian_width(text) in "WF"


def _has_colours() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


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
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
