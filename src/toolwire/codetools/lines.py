"""Lines of a file as bytes: which is where, and a window of them.

Rules of this file:
- A line ends in LF; a CR before it belongs to the break, any other CR and all else belongs to the line.
- What is read is a piece at a time, however large the file or a line is.
"""

from collections.abc import Callable

from msgspec import Struct

Read = Callable[[int, int], bytes]
PIECE = 256 * 1024


class LineWindow(Struct, frozen=True):
    """Some lines of a file: their bytes, the numbers of the first and the last, and how many there are.

    `exact` says whether they were counted; `cut` says that the first line is too long, and is given in part.
    """

    data: bytes
    start: int
    first: int
    last: int
    total: int
    exact: bool
    cut: bool

    @property
    def more(self) -> bool:
        """Whether there are lines after these."""
        return self.cut or self.last < self.total


class Beyond(Exception):
    """A line that is not there; `total` is how many there are, None if they are too many to count."""

    def __init__(self, total: int | None) -> None:
        super().__init__(total)
        self.total = total


def after_break(data: bytes, count: int) -> int:
    """Give the place after so many line breaks; there are as many."""
    low, high = 0, len(data)
    if not count:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        before = data.count(b"\n", low, middle)
        if before >= count:
            high = middle
        else:
            low, count = middle, count - before
    return high


def line_at(data: bytes, place: int) -> int:
    """Give the number of the line in which a place is."""
    return data.count(b"\n", 0, place) + 1


def window(read: Read, size: int, offset: int, limit: int, most: int, *, counted: int, searched: int) -> LineWindow:
    """Read lines from `offset` on, at most `limit` of them, in at most so many bytes.

    The lines after them are counted where the file has at most `counted` bytes; a line is searched for in the
    first `searched` bytes.
    """
    start = _start_of(read, offset, searched)
    block = read(most + 1, start)
    if not block:
        raise Beyond(offset - 1)
    breaks = block.count(b"\n", 0, most)
    cut = False
    if breaks >= limit:
        end = after_break(block, limit)
    elif len(block) <= most:
        end = len(block)
    else:
        end = block.rfind(b"\n", 0, most) + 1
        cut = not end
        end = end or _whole_characters(block, most)
    shown = block[:end]
    last = offset + min(breaks, limit) - (shown[-1:] == b"\n")
    if start + end >= size:
        return LineWindow(shown, start, offset, last, last, exact=True, cut=False)
    if size > counted:
        about = last if cut else max(last + 1, round(size / (start + end) * last))
        return LineWindow(shown, start, offset, last, about, exact=False, cut=cut)
    total = last - cut + _lines_after(read, start + end)
    return LineWindow(shown, start, offset, last, total, exact=True, cut=cut)


def _start_of(read: Read, offset: int, searched: int) -> int:
    """Find where a line starts; where there is none, the end of the file."""
    left, place = offset - 1, 0
    while left:
        piece = read(PIECE, place)
        if not piece:
            ended = place == 0 or read(1, place - 1) == b"\n"
            raise Beyond(offset - 1 - left + (not ended))
        breaks = piece.count(b"\n")
        if breaks >= left:
            return place + after_break(piece, left)
        left -= breaks
        place += len(piece)
        if place >= searched:
            raise Beyond(None)
    return place


def _lines_after(read: Read, place: int) -> int:
    total = 0
    while piece := read(PIECE, place):
        total += piece.count(b"\n")
        place += len(piece)
    return total + (read(1, place - 1) != b"\n")


def _whole_characters(block: bytes, end: int) -> int:
    """Step back to the beginning of a character of UTF-8."""
    for back in range(4):
        if block[end - back] & 0xC0 != 0x80:
            return end - back
    return end
