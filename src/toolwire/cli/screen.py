r"""The text output for a person: styled on a terminal, plain everywhere else.

Rules of this file:
- Text of a model, a tool or a file is escaped before it reaches a terminal: characters that could control it, hide text
  or change the writing direction are shown as numbers (`\x1b`). Only line breaks and tabs keep their effect.
- Styles need rich and a terminal. The text is the same without them.
- On a terminal, words are wrapped whole: the last word is held until it ends, or until no text arrives for a moment.
- A status line ("waiting for the model") appears below all other output after one second, and is erased before anything
  else is written. It is not written into a pipe, or to a terminal that cannot erase it.
- When the reader has closed the pipe, `problem` holds the error, and nothing more is written.
"""

import contextlib
import io
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any, Self, TextIO
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
    "heading": "bold magenta",
    "strong": "bold",
    "emphasis": "italic",
    "code": "cyan",
    "quote": "italic",
    "link": "underline",
}
# The styles that are shown even with `quiet`.
_ALWAYS = frozenset({"error", "question"})
# The styles of prose, which is wrapped at words. Code, changes and results keep their lines.
_WRAPPED = frozenset({"call", "error", "note", "words"})
# A word of narrow characters, or one wide character, because a line may end after each of those.
_PIECE_PATTERN = re.compile(r"\n|[^\S\n]+|[!-\u10ff]+|.", re.DOTALL)
_STATUS_DELAY, _TICK = 1.0, 0.2
_StatusText = Callable[[float], str]


class Screen:
    """An output for a person. `write` continues the current line, and `line` writes lines of its own.

    With `quiet`, only errors and questions are shown.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self.stream: TextIO = sys.stdout if stream is None else stream
        self.terminal: bool = self.stream.isatty()
        self.quiet: bool = quiet
        self.problem: OSError | None = None
        self._console = _Console.of(self.stream) if self.terminal else None
        self.coloured: bool = self._console is not None and _has_colours()
        self.wipes: bool = self.terminal and not quiet and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
        self.margin: str = ""  # begins each line that wrapping adds
        self._column = 0
        self._gap = ("", "")
        self._word: list[tuple[str, str]] = []
        self._ready: list[tuple[str, str]] = []
        self._changed = time.monotonic()
        self._waiting: tuple[float, _StatusText] | None = None
        self._drawn = ""
        self._ticking = False
        self._lock = threading.RLock()
        if isinstance(self.stream, io.TextIOWrapper):
            self.stream.reconfigure(errors="backslashreplace")

    def write(self, text: str, look: str = "") -> None:
        """Write `text` after the last text, in the style `look`."""
        if not text or (self.quiet and look not in _ALWAYS):
            return
        with self._lock:
            if not self.terminal:
                self._put(safe(text), look)
                self._column = 0 if text.endswith("\n") else 1
                return
            self._changed = time.monotonic()
            self._start_ticking()
            for piece in _PIECE_PATTERN.findall(safe(text)):
                self._add_piece(piece, look)
            if look == "question":  # the user answers on the same line
                self._place_word()
            self._write_ready()

    def _add_piece(self, piece: str, look: str) -> None:
        """Add a word, a gap or a line end. A word is written when it has ended; its parts may differ in style."""
        if piece == "\n":
            self._place_word()
            self._ready.append(("\n", ""))
            self._column = 0
        elif piece.isspace():
            self._place_word()
            self._gap = (piece, look)
        else:
            if self._word and (_is_wide(piece) or _is_wide(self._word[-1][0][-1])):
                self._place_word()
            self._word.append((piece, look))

    def _place_word(self) -> None:
        """Place the held word, on the next line if it does not fit on this one."""
        (gap, look), word, width = self._gap, self._word, self.width
        self._gap, self._word = ("", ""), []
        if not (gap or word):
            return
        size = sum(count_columns(text) for text, _ in word)
        needed = count_columns(gap, self._column) + size
        if word and width and self._column and self._column + needed > width:
            gap, look = f"\n{self.margin}", ""
            needed, self._column = count_columns(self.margin) + size, 0
        if look and "\t" in gap:  # rich expands tabs from the beginning of each styled text
            gap = " " * count_columns(gap, self._column)
        self._ready += [(gap, look), *word]
        self._column += needed

    def _write_ready(self) -> None:
        ready, self._ready = self._ready, []
        for look, pieces in groupby(ready, key=lambda piece: piece[1]):
            if text := "".join(text for text, _ in pieces):
                self._put(text, look)

    def line(self, text: str = "", look: str = "") -> None:
        """Write `text` on a line of its own."""
        if self.quiet and look not in _ALWAYS:
            return
        with self._lock:
            self.start_line()
            self._changed = time.monotonic()
            if self.terminal and look in _WRAPPED:
                self.write(f"{text}\n", look)
            else:
                self._put(f"{safe(text)}\n", look)

    def print(self, renderable: Any) -> None:
        """Write a renderable of rich on lines of its own. Its text must be safe."""
        with self._lock:
            self.start_line()
            self._changed = time.monotonic()
            console, width = self._console, self.width
            if console is not None and not self.quiet and self.problem is None:
                self._wipe_status()
                self._guard(lambda: console.show(renderable, width))

    def write_raw(self, text: str) -> None:
        """Write text for another program, without escapes and styles."""
        with self._lock:
            self._put(text, "")

    def start_line(self) -> None:
        """End the current line if it has text."""
        with self._lock:
            self.flush()
            if self._column:
                self._put("\n", "")
            self._column = 0

    def line_entered(self) -> None:
        """Note that the user has ended the line by pressing Enter."""
        with self._lock:
            self.flush()
            self._column = 0

    def flush(self) -> None:
        """Write all held text."""
        with self._lock:
            self._place_word()
            self._write_ready()

    def wait(self, words: _StatusText | None) -> None:
        """Show a status line; `words` makes its text from the seconds passed. None removes the line."""
        with self._lock:
            self._wipe_status()
            self._waiting = None if words is None else (time.monotonic(), words)
            if words is not None:
                self._start_ticking()

    def _start_ticking(self) -> None:
        if self.terminal and not self._ticking:
            self._ticking = True
            threading.Thread(target=self._tick, name="screen", daemon=True).start()

    def _tick(self) -> None:
        while self.problem is None:
            time.sleep(_TICK)
            with self._lock:
                now = time.monotonic()
                if (self._word or self._gap[0]) and now - self._changed > _TICK:
                    self.flush()
                if now - self._changed < _STATUS_DELAY:
                    continue
                if self._waiting is None:
                    self._ticking = False
                    return
                since, words = self._waiting
                if not self._column and now - since >= _STATUS_DELAY:
                    self._draw_status(words(now - since))

    @property
    def width(self) -> int:
        """The terminal's number of columns; 0 if it is unknown."""
        with contextlib.suppress(OSError, ValueError):
            return os.get_terminal_size(self.stream.fileno()).columns
        return 0

    def _draw_status(self, words: str) -> None:
        if not self.wipes:
            return
        words = " ".join(safe(words).split())
        room = max(10, (self.width or 80) - 1)
        while count_columns(words) > room:
            words = words[: room - count_columns(words)]
        if words != self._drawn:
            self._put(words, "note")
            self._drawn = words

    def _wipe_status(self) -> None:
        if self._drawn:
            self._drawn = ""
            self._put("\r\x1b[K", "")

    def _put(self, text: str, look: str) -> None:
        if self.problem is not None:
            return
        self._wipe_status()
        console = self._console
        if console is None or not look:
            self._guard(lambda: self.stream.write(text))
        else:
            self._guard(lambda: console.put(text, LOOKS[look]))

    def _guard(self, write: Callable[[], object]) -> None:
        """Write and flush. Store the error if the reader has closed the output."""
        try:
            write()
            self.stream.flush()
        except OSError as problem:
            self.problem = problem
            _discard_output(self.stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Return True if `stream` is a terminal. It may be closed or None."""
    return stream is not None and not stream.closed and stream.isatty()


def shorten(text: str, limit: int) -> str:
    """Return `text`, cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def count_columns(text: str, column: int = 0) -> int:
    """Return the number of terminal columns that `text` takes, if it starts in `column`."""
    if text.isascii() and "\t" not in text:
        return len(text)
    if "\t" in text:
        return len((" " * column + text).expandtabs()) - column
    return sum(2 if _is_wide(one) else not combining(one) for one in text)


def _is_wide(text: str) -> bool:
    return len(text) == 1 and east_asian_width(text) in "WF"


def _has_colours() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


class _Console:
    """Styled output with rich."""

    def __init__(self, console: Any, text: Any) -> None:
        self._console = console
        self._text = text

    @classmethod
    def of(cls, stream: TextIO) -> "Self | None":
        """Return the output for `stream`; None if rich is not installed."""
        try:
            from rich.console import Console  # noqa: PLC0415 - an extra, and only for a terminal
            from rich.text import Text  # noqa: PLC0415 - the same
        except ImportError:
            return None
        return cls(Console(file=stream, highlight=False, markup=False, emoji=False), Text)

    def put(self, text: str, style: str) -> None:
        """Write `text` in a style."""
        self._console.print(self._text(text, style=style, end=""), end="", soft_wrap=True)

    def show(self, renderable: Any, width: int) -> None:
        """Write a renderable, wrapped to `width` without blank lines around it. The lines of a `Text` stay whole."""
        if isinstance(renderable, self._text):
            self._console.print(renderable, soft_wrap=True)
            return
        options = self._console.options.update(width=width) if width else self._console.options
        lines = [
            self._text.assemble(*((segment.text, segment.style or "") for segment in line))
            for line in self._console.render_lines(renderable, options, pad=False)
        ]
        first = next((index for index, line in enumerate(lines) if line.plain.strip()), len(lines))
        last = next((index for index in range(len(lines), first, -1) if lines[index - 1].plain.strip()), first)
        for line in lines[first:last]:
            line.rstrip()
            self._console.print(line, soft_wrap=True)


def _discard_output(stream: TextIO) -> None:
    """Send the buffered output of a closed pipe to the null device: Python would report an error on exit."""
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
