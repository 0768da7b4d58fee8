"""Frames of a stream that repeat each other: read by what differs in them.

Rules of this file:
- A pattern is learned from two frames in a row that each told some words. What they share is fixed; between
  it stand the words, as one JSON string, and what the wire counts up or pads with.
- A frame that fits is the JSON of the others with other words, so reading it in full would tell the same.
"""

from typing import Any

import msgspec

from toolwire.framing import write_event

_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
WORDS, NUMBER, PADDING = range(3)
LONGEST_NUMBER = 16
Volatile = tuple[tuple[bytes, int], ...]
"""What stands before a value that differs in every frame and tells nothing, and of which kind it is."""
Found = tuple[str, int, int]
"""The words of a frame, its number (or -1), and the place where it ends."""


class Alike:
    """How the next frame will look, if it only says more words."""

    __slots__ = ("_begin", "_end", "_holes", "_only", "_size", "_tail")

    def __init__(self, begin: bytes, holes: list[tuple[int, bytes]]) -> None:
        self._begin = begin
        self._size = len(begin)
        self._holes = holes
        self._only = holes[0][1] if len(holes) == 1 else None
        self._tail = len(holes[0][1])
        self._end = 1 - self._tail

    def words(self, data: bytes) -> str | None:
        """Read one frame that differs in nothing but its words; None where it does not fit."""
        if self._only is None or not (data.startswith(self._begin) and data.endswith(self._only)):
            return None
        try:
            return _decode_text(data[self._size - 1 : self._end])
        except UNREADABLE:
            return None

    def read(self, data: bytes, place: int = 0) -> Found | None:
        """Read the frame that begins at a place; None where it does not fit."""
        if not data.startswith(self._begin, place):
            return None
        begin = place + self._size
        if self._only is None:
            return self._read_holes(data, begin)
        end = data.find(self._only, begin)
        try:
            return (_decode_text(data[begin - 1 : end + 1]), -1, end + self._tail) if end > 0 else None
        except UNREADABLE:
            return None

    def _read_holes(self, data: bytes, begin: int) -> Found | None:
        words, number = "", -1
        for kind, piece in self._holes:
            end = data.find(piece, begin)
            if end < 0:
                return None
            if kind == WORDS:
                try:
                    words = _decode_text(data[begin - 1 : end + 1])
                except UNREADABLE:
                    return None
            elif kind == NUMBER and data[begin:end].isdigit() and end - begin < LONGEST_NUMBER:
                number = int(data[begin:end])
            elif kind == NUMBER or data.find(b'"', begin, end) >= 0 or data.find(b"\\", begin, end) >= 0:
                return None
            begin = end + len(piece)
        return words, number, begin


def learn(
    name: bytes, frame: bytes, words: str, before: tuple[bytes, str], volatile: Volatile
) -> Alike | None:
    """Learn from a frame and its words how the next one may look; the one before has to fit as well.

    The words of the two are not the same, and what stands around them is: so it is there that they come from.
    """
    last, said = before
    data, text = write_event(frame, name), _encode(words)
    place = data.find(text)
    if words == said or place < 0:
        return None
    holes = [(place + 1, place + len(text) - 1, WORDS)]
    for mark, kind in volatile:
        begin = data.find(mark) + len(mark)
        if begin >= len(mark) and data.find(mark, begin) < 0:
            holes.append((begin, _end_of(data, begin, kind), kind))
    holes.sort()
    ends = [begin for begin, _, _ in holes[1:]] + [len(data)]
    if any(end > after for (_, end, _), after in zip(holes, ends, strict=True)):
        return None
    made = Alike(
        data[: holes[0][0]],
        [(kind, data[end:after]) for (_, end, kind), after in zip(holes, ends, strict=True)],
    )
    earlier: Any = write_event(last, name)
    found = made.read(earlier)
    return made if found is not None and found[0] == said and found[2] == len(earlier) else None


def _end_of(data: bytes, begin: int, kind: int) -> int:
    if kind == PADDING:
        return data.find(b'"', begin)
    return len(data) - len(data[begin:].lstrip(b"0123456789"))
