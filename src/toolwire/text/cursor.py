"""A text that arrives in pieces, and the generators that search it for marks.

Rules of this file:
- A reader is a generator of type `ReadSteps`: it yields a search and is sent the hit. However the text is split into
  pieces, it is sent the same hits.
- Each character is examined once. Text is held back only while it may be the start of a mark, so at most the length of
  one mark waits.
- The block is the text that is being read. `rewind_to` returns its end to the input, to be read as something else.
"""

import re
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

_BLANK = re.compile(r"\s*")


class _Hit(NamedTuple):
    """The result of a search: the mark, the text before it, and whether the text ended without a mark."""

    mark: str
    before: str
    end: bool = False


class MarkSearch:
    """A search for any of several marks: the first occurrence, and at one position the longest mark.

    With `adjacent`, only white space may precede the mark. With `streams_text`, the text before it is not held back.
    """

    __slots__ = ("_firsts", "_longest", "_prefixes", "adjacent", "pattern", "streams_text")

    def __init__(self, marks: Iterable[str], *, adjacent: bool = False, streams_text: bool = False) -> None:
        known = sorted({mark for mark in marks if mark}, key=len, reverse=True)
        self.pattern: re.Pattern[str] = re.compile("|".join(map(re.escape, known)) or r"(?!)")
        self._prefixes = frozenset(mark[:size] for mark in known for size in range(1, len(mark)))
        self._firsts = frozenset(mark[0] for mark in known)
        self._longest = max(map(len, known), default=1)
        self.adjacent: bool = adjacent
        self.streams_text: bool = streams_text

    def held_from(self, window: str, start: int) -> int:
        """Return the index from which the end of `window` may be the start of a mark."""
        for index in range(max(start, len(window) - self._longest + 1), len(window)):
            if window[index] in self._firsts and window[index:] in self._prefixes:
                return index
        return len(window)


class PatternSearch(MarkSearch):
    """A search for single characters, or for a backslash and the character that it escapes."""

    __slots__ = ()

    def __init__(self, pattern: str) -> None:
        super().__init__(())
        self.pattern: re.Pattern[str] = re.compile(pattern, re.DOTALL)

    def held_from(self, window: str, start: int) -> int:
        """Hold back a final backslash until the character that it escapes arrives."""
        return len(window) - 1 if len(window) > start and window[-1] == "\\" else len(window)


ReadSteps = Generator[MarkSearch, _Hit, Any]


class Cursor:
    """The reading position in a text. `on_text` receives text that does not have to wait.

    `length` is the length of the current block, and `ended` is True once the end of the text is known.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._block: list[str] = []
        self.length: int = 0
        self.ended: bool = False
        self._on_text = on_text
        self._window = ""
        self._position = 0
        self._text_before: list[str] = []
        self._steps: ReadSteps | None = None
        self._target: Any = None

    def start(self, steps: ReadSteps) -> None:
        """Start the reader `steps`."""
        self._steps = steps
        self._target = next(steps)

    def feed(self, piece: str) -> None:
        """Append a piece of the text, and continue the reader."""
        self._window = self._window[self._position :] + piece
        self._position = 0
        self._run()

    def close(self) -> None:
        """Mark the end of the text, and continue the reader."""
        self.ended = True
        self._run()

    def _run(self) -> None:
        while self._steps is not None:
            hit = self._search_adjacent(self._target) if self._target.adjacent else self._search(self._target)
            if hit is None:
                return
            try:
                self._target = self._steps.send(hit)
            except StopIteration:
                self._steps = None

    @property
    def is_at_end(self) -> bool:
        """True if the end of the text is known and was reached."""
        return self.ended and self._position == len(self._window)

    def begin_block(self, mark: str) -> None:
        """Start a new block with its opening mark."""
        self._block = [mark]
        self.length = len(mark)

    def block_text(self) -> str:
        """Return the text of the current block."""
        return "".join(self._block)

    def rewind_to(self, size: int) -> None:
        """Keep the first `size` characters of the block, and read everything after them again."""
        block = self.block_text()
        back = self.length - size
        if back <= self._position:
            self._position -= back
        else:
            self._window = block[size:] + self._window[self._position :]
            self._position = 0
        self._block = [block[:size]]
        self.length = size

    def _search(self, target: MarkSearch) -> _Hit | None:
        """Return the hit of a search, or None if more text is needed."""
        window, position = self._window, self._position
        match = target.pattern.search(window, position)
        if not self.ended:
            held_from = target.held_from(window, position)
            if match is None or held_from <= match.start():
                self._pass_over(window[position:held_from], streams_text=target.streams_text)
                self._position = held_from
                return None
        if match is None:
            return self._make_hit("", window[position:], len(window), target)
        return self._make_hit(match[0], window[position : match.start()], match.end(), target)

    def _search_adjacent(self, target: MarkSearch) -> _Hit | None:
        """Return the hit of a search at the current position, or None if more text is needed."""
        window = self._window
        position = _BLANK.match(window, self._position).end()  # type: ignore[union-attr]
        if not self.ended and target.held_from(window, position) == position:
            self._pass_over(window[self._position : position], streams_text=False)
            self._position = position
            return None
        match = target.pattern.match(window, position)
        end = match.end() if match is not None else position
        return self._make_hit(match[0] if match is not None else "", window[self._position : position], end, target)

    def _make_hit(self, mark: str, before: str, position: int, target: MarkSearch) -> _Hit:
        self._pass_over(before, streams_text=target.streams_text)
        text, self._text_before, self._position = "".join(self._text_before), [], position
        self._block.append(mark)
        self.length += len(mark)
        return _Hit(mark, text, self.ended and not mark and position == len(self._window))

    def _pass_over(self, text: str, *, streams_text: bool) -> None:
        """Pass text on, or add it to the current block."""
        if not text:
            return
        if streams_text:
            self._on_text(text)
            return
        self._text_before.append(text)
        self._block.append(text)
        self.length += len(text)
