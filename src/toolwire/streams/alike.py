"""Frames of a stream that repeat each other: read by what differs in them.

Rules of this file:
- A pattern is learned from two frames in a row that each told some words. What they share is fixed; between
  it stand the words, as one JSON string, and what the wire pads with or dates.
- A frame that fits is the JSON of the others with other words, so reading it in full would tell the same.
"""

import msgspec

from toolwire.wire.framing import LIMIT

_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
Found = tuple[str, int]
"""The words of a frame, and the place where it ends."""


SAYS, COUNTS, PADS = "says", "counts", "pads"


class Alike:
    """How the next frame will look, if it only says more words.

    A hole is what differs: the words, the number of the step, or plain text that tells nothing. It ends where
    its piece begins. The number goes up with each frame that fits.
    """

    __slots__ = ("_begin", "_counts", "_ending", "_holes", "_number", "_pads", "_size")

    def __init__(self, begin: bytes, holes: list[tuple[str, bytes]], number: int = 0) -> None:
        self._begin = begin
        self._size = len(begin)
        self._holes = holes
        self._number = number
        kinds = [kind for kind, _ in holes]
        place = kinds.index(SAYS)
        simple = kinds[:place].count(PADS) == place and kinds[place + 1 :] in ([], [COUNTS])
        self._pads = [piece for _, piece in holes[:place]]
        endings = [piece.replace(b"%", b"%%") for _, piece in holes[place:]]
        self._counts = len(endings) > 1
        whole = b"%d".join(endings)
        self._ending = None if not simple else whole if self._counts else holes[place][1]

    def words(self, data: bytes) -> str | None:
        """Read one frame; None where it does not fit."""
        ending, begin = self._ending, self._size
        if ending is None or len(data) > LIMIT:
            found = self.read(data)
            return found[0] if found is not None and found[1] == len(data) else None
        if not data.startswith(self._begin):
            return None
        for piece in self._pads:
            end = data.find(b'"', begin)
            if not data.startswith(piece, end) or data.find(b"\\", begin, end) >= 0:
                return None
            begin = end + len(piece)
        if self._counts:
            ending %= self._number
        if not data.endswith(ending):
            return None
        try:
            words = _decode_text(data[begin - 1 : 1 - len(ending)])
        except UNREADABLE:
            return None
        self._number += 1
        return words

    def read(self, data: bytes, place: int = 0) -> Found | None:
        """Read the frame that begins at a place; None where it does not fit, or is too large for one."""
        if not data.startswith(self._begin, place):
            return None
        begin, words = place + self._size, ""
        for kind, piece in self._holes:
            if kind is COUNTS:
                counted = b"%d%b" % (self._number, piece)
                end = begin + len(counted) - len(piece) if data.startswith(counted, begin) else -1
            else:
                end = data.find(piece if kind is SAYS else b'"', begin)
            if end < 0:
                return None
            if kind is SAYS:
                try:
                    words = _decode_text(data[begin - 1 : end + 1])
                except UNREADABLE:
                    return None
            elif kind is PADS and not (data.startswith(piece, end) and data.find(b"\\", begin, end) < 0):
                return None
            begin = end + len(piece)
        if begin - place > LIMIT:
            return None
        self._number += 1
        return words, begin


def stands_once(data: bytes, text: bytes) -> bool:
    """Whether words that a frame says stand at one place of it, so that it is there that they come from.

    Nothing beside them is spelled with a backslash: it could be the same words, spelled in another way.
    """
    return data.count(text) == 1 and data.count(b"\\") == text.count(b"\\")


def learn(
    data: bytes, words: str, before: tuple[bytes, str] | None, marks: tuple[bytes, ...], number: int | None
) -> Alike | None:
    """Learn from a frame and its words how the next one may look; the one before, if given, has to fit too.

    The words of the two are not the same, and what stands around them is: so it is there that they come from.
    What differs and tells nothing begins after one of these marks: it ends with a quote, or is the number.
    """
    text = _encode(words)
    place = data.find(text)
    if place < 0 or (words == before[1] if before is not None else not stands_once(data, text)):
        return None
    holes = [(place + 1, place + len(text) - 1, SAYS)]
    for mark in marks:
        begin = data.find(mark) + len(mark)
        if begin < len(mark) or data.find(mark, begin) >= 0:
            continue
        if mark.endswith(b'"'):
            holes.append((begin, data.find(b'"', begin), PADS))
        elif number is not None and data.startswith(b"%d" % number, begin):
            holes.append((begin, begin + len(b"%d" % number), COUNTS))
    holes.sort()
    ends = [begin for begin, _, _ in holes[1:]] + [len(data)]
    if any(end > after for (_, end, _), after in zip(holes, ends, strict=True)):
        return None
    pieces = [(kind, data[end:after]) for (_, end, kind), after in zip(holes, ends, strict=True)]
    head, counted = data[: holes[0][0]], number or 0
    if before is None:
        return Alike(head, pieces, counted + 1)
    made = Alike(head, pieces, counted - 1)
    fits = made.read(before[0]) == (before[1], len(before[0])) and made.read(data) == (words, len(data))
    return made if fits else None
