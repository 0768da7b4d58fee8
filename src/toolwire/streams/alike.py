"""Frames of a stream that repeat each other: read by what differs in them.

Rules of this file:
- A pattern is learned from two frames in a row that each told some words. What they share is fixed; between
  it stand the words, as one JSON string, and what the wire pads with or dates.
- A frame that fits is the JSON of the others with other words, so reading it in full would tell the same.
"""

import msgspec

from toolwire.framing import LIMIT

_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
Found = tuple[str, int]
"""The words of a frame, and the place where it ends."""


class Alike:
    """How the next frame will look, if it only says more words.

    A hole is what differs: the words, or plain text that tells nothing. It ends where its piece begins.
    """

    __slots__ = ("_begin", "_end", "_holes", "_only", "_size")

    def __init__(self, begin: bytes, holes: list[tuple[bool, bytes]]) -> None:
        self._begin = begin
        self._size = len(begin)
        self._holes = holes
        self._only = holes[0][1] if len(holes) == 1 else None
        self._end = 1 - len(holes[0][1])

    def words(self, data: bytes) -> str | None:
        """Read one frame; None where it does not fit."""
        if self._only is None or len(data) > LIMIT:
            found = self.read(data)
            return found[0] if found is not None and found[1] == len(data) else None
        if not (data.startswith(self._begin) and data.endswith(self._only)):
            return None
        try:
            return _decode_text(data[self._size - 1 : self._end])
        except UNREADABLE:
            return None

    def read(self, data: bytes, place: int = 0) -> Found | None:
        """Read the frame that begins at a place; None where it does not fit, or is too large for one."""
        if not data.startswith(self._begin, place):
            return None
        begin, words = place + self._size, ""
        for says, piece in self._holes:
            end = data.find(piece if says else b'"', begin)
            if end < 0:
                return None
            if says:
                try:
                    words = _decode_text(data[begin - 1 : end + 1])
                except UNREADABLE:
                    return None
            elif not data.startswith(piece, end) or data.find(b"\\", begin, end) >= 0:
                return None
            begin = end + len(piece)
        return (words, begin) if begin - place <= LIMIT else None


def learn(data: bytes, words: str, before: tuple[bytes, str], volatile: tuple[bytes, ...]) -> Alike | None:
    """Learn from a frame and its words how the next one may look; the one before has to fit as well.

    The words of the two are not the same, and what stands around them is: so it is there that they come from.
    What is `volatile` begins after one of these marks and ends with a quote.
    """
    last, said = before
    text = _encode(words)
    place = data.find(text)
    if words == said or place < 0:
        return None
    holes = [(place + 1, place + len(text) - 1, True)]
    for mark in volatile:
        begin = data.find(mark) + len(mark)
        if begin >= len(mark) and data.find(mark, begin) < 0:
            holes.append((begin, data.find(b'"', begin), False))
    holes.sort()
    ends = [begin for begin, _, _ in holes[1:]] + [len(data)]
    if any(end > after for (_, end, _), after in zip(holes, ends, strict=True)):
        return None
    made = Alike(
        data[: holes[0][0]],
        [(says, data[end:after]) for (_, end, says), after in zip(holes, ends, strict=True)],
    )
    return made if made.read(last) == (said, len(last)) else None
