"""Lines of a file as bytes: where a line begins, and a window of lines.

Rules of this file:
- A line ends in LF. A CR directly before it belongs to the line break; any other CR belongs to the line.
- A file is read in pieces, however large it or a line of it is.
"""

from collections.abc import Callable

from msgspec import Struct

Read = Callable[[int, int], bytes]
PIECE = 256 * 1024


class LineWindow(Struct, frozen=True):
    """Some lines of a file: their bytes, the numbers of the first and the last, and the file's line count.

    `exact` is False if the line count is an estimate. `cut` is True if the first line is too long and only its
    beginning is in `data`.
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
        """True if the file has lines after these."""
        return self.cut or self.last < self.total


class BeyondEnd(Exception):
    """A line beyond the end of the file; `total` is the file's line count, None if the file is too large to count."""

    def __init__(self, total: int | None) -> None:
        super().__init__(total)
        self.total = total


def position_after_breaks(data: bytes, count: int) -> int:
    """Return the position after `count` line breaks; `data` must have that many."""
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


def line_number_at(data: bytes, position: int) -> int:
    """Return the number of the line that contains `position`."""
    return data.count(b"\n", 0, position) + 1


def window(
    read: Read, size: int, offset: int, limit: int, max_bytes: int, *, count_limit: int, search_limit: int
) -> LineWindow:
    """Read at most `limit` lines from line `offset` on, in at most `max_bytes`.

    The lines after them are counted in a file of at most `count_limit` bytes, and estimated in a larger one. The
    first line is searched for in the first `search_limit` bytes. Raise `BeyondEnd` if it is not there.
    """
    start = _find_line(read, offset, search_limit)
    block = read(max_bytes + 1, start)
    if not block:
        raise BeyondEnd(offset - 1)
    breaks = block.count(b"\n", 0, max_bytes)
    cut = False
    if breaks >= limit:
        end = position_after_breaks(block, limit)
    elif len(block) <= max_bytes:
        end = len(block)
    else:
        end = block.rfind(b"\n", 0, max_bytes) + 1
        cut = not end
        end = end or _character_start(block, max_bytes)
    lines = block[:end]
    last = offset + min(breaks, limit) - (lines[-1:] == b"\n")
    if start + end >= size:
        return LineWindow(lines, start, offset, last, last, exact=True, cut=False)
    if size > count_limit:
        estimate = last if cut else max(last + 1, round(size / (start + end) * last))
        return LineWindow(lines, start, offset, last, estimate, exact=False, cut=cut)
    total = last - cut + _count_lines_after(read, start + end)
    return LineWindow(lines, start, offset, last, total, exact=True, cut=cut)


def _find_line(read: Read, offset: int, search_limit: int) -> int:
    """Return where line `offset` starts; the end of the file if the line before it is the last one."""
    remaining, position = offset - 1, 0
    while remaining:
        piece = read(PIECE, position)
        if not piece:
            ends_in_break = position == 0 or read(1, position - 1) == b"\n"
            raise BeyondEnd(offset - 1 - remaining + (not ends_in_break))
        breaks = piece.count(b"\n")
        if breaks >= remaining:
            return position + position_after_breaks(piece, remaining)
        remaining -= breaks
        position += len(piece)
        if position >= search_limit:
            raise BeyondEnd(None)
    return position


def _count_lines_after(read: Read, position: int) -> int:
    total = 0
    while piece := read(PIECE, position):
        total += piece.count(b"\n")
        position += len(piece)
    return total + (read(1, position - 1) != b"\n")


def _character_start(block: bytes, end: int) -> int:
    """Return `end`, or the start of the UTF-8 character that it would cut."""
    for back in range(4):
        if block[end - back] & 0xC0 != 0x80:
            return end - back
    return end
