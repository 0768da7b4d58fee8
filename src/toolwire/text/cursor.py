"""A text that comes in pieces, and a reading that asks it for marks.

Rules of this file:
- A reading is a generator: it yields what it looks for, and is sent what was found. However the text was cut, it is
  sent the same.
- Each character is looked at once, and what may still begin a mark waits: never more than one mark.
- `taken` is the text of the block that is being read, and `give_back` lets it be read again as something else.
"""

import re
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

_BLANK = re.compile(r"\s*")


class Found(NamedTuple):
    """What was found: the mark, the text before it, and whether the text ended instead."""

    mark: str
    before: str
    end: bool = False


class Find:
    """Marks that are looked for together. The first is taken, and of those that begin there the longest.

    With `near`, only blanks may stand before it. With `tells`, the text before is told as it comes.
    """

    __slots__ = ("_firsts", "_longest", "_prefixes", "near", "pattern", "tells")

    def __init__(self, marks: Iterable[str], *, near: bool = False, tells: bool = False) -> None:
        known = sorted({mark for mark in marks if mark}, key=len, reverse=True)
        self.pattern: re.Pattern[str] = re.compile("|".join(map(re.escape, known)) or r"(?!)")
        self._prefixes = frozenset(mark[:size] for mark in known for size in range(1, len(mark)))
        self._firsts = frozenset(mark[0] for mark in known)
        self._longest = max(map(len, known), default=1)
        self.near: bool = near
        self.tells: bool = tells

    def held(self, window: str, at: int) -> int:
        """Say from where on the end of a text may begin a mark."""
        for place in range(max(at, len(window) - self._longest + 1), len(window)):
            if window[place] in self._firsts and window[place:] in self._prefixes:
                return place
        return len(window)


class FindPattern(Find):
    """Single characters, or a backslash with what it escapes."""

    __slots__ = ()

    def __init__(self, pattern: str) -> None:
        super().__init__(())
        self.pattern: re.Pattern[str] = re.compile(pattern, re.DOTALL)

    def held(self, window: str, at: int) -> int:
        """Say that a last backslash waits for what it escapes."""
        return len(window) - 1 if len(window) > at and window[-1] == "\\" else len(window)


Reading = Generator[Find, Found, Any]


class Cursor:
    """Where a reading stands in its text. `say` is told of the words that need not wait."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.taken: list[str] = []
        self.length: int = 0
        self.ended: bool = False
        self._say = say
        self._window = ""
        self._at = 0
        self._before: list[str] = []
        self._steps: Reading | None = None
        self._wanted: Any = None

    def start(self, steps: Reading) -> None:
        """Begin a reading."""
        self._steps = steps
        self._wanted = next(steps)

    def feed(self, piece: str) -> None:
        """Take a piece of the text."""
        self._window = self._window[self._at :] + piece
        self._at = 0
        self._run()

    def close(self) -> None:
        """Take the end of the text."""
        self.ended = True
        self._run()

    def _run(self) -> None:
        while self._steps is not None:
            answer = self._look_near(self._wanted) if self._wanted.near else self._look(self._wanted)
            if answer is None:
                return
            try:
                self._wanted = self._steps.send(answer)
            except StopIteration:
                self._steps = None

    def begin(self, mark: str) -> None:
        """Begin a block with its mark."""
        self.taken = [mark]
        self.length = len(mark)

    def text(self) -> str:
        """Give the text of the block so far."""
        return "".join(self.taken)

    def give_back(self, size: int) -> None:
        """Let all of the block but its first characters be read again."""
        whole = self.text()
        back = self.length - size
        if back <= self._at:
            self._at -= back
        else:
            self._window = whole[size:] + self._window[self._at :]
            self._at = 0
        self.taken = [whole[:size]]
        self.length = size

    def _look(self, wanted: Find) -> Found | None:
        window, at = self._window, self._at
        match = wanted.pattern.search(window, at)
        if not self.ended:
            held = wanted.held(window, at)
            if match is None or held <= match.start():
                self._skip(window[at:held], tells=wanted.tells)
                self._at = held
                return None
        if match is None:
            return self._found("", window[at:], len(window), wanted)
        return self._found(match[0], window[at : match.start()], match.end(), wanted)

    def _look_near(self, wanted: Find) -> Found | None:
        window = self._window
        at = _BLANK.match(window, self._at).end()  # type: ignore[union-attr]
        if not self.ended and wanted.held(window, at) == at:
            self._skip(window[self._at : at], tells=False)
            self._at = at
            return None
        match = wanted.pattern.match(window, at)
        end = match.end() if match is not None else at
        return self._found(match[0] if match is not None else "", window[self._at : at], end, wanted)

    def _found(self, mark: str, before: str, at: int, wanted: Find) -> Found:
        self._skip(before, tells=wanted.tells)
        words, self._before, self._at = "".join(self._before), [], at
        self.taken.append(mark)
        self.length += len(mark)
        return Found(mark, words, self.ended and not mark and at == len(self._window))

    def _skip(self, text: str, *, tells: bool) -> None:
        if not text:
            return
        if tells:
            self._say(text)
            return
        self._before.append(text)
        self.taken.append(text)
        self.length += len(text)
