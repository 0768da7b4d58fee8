"""Find the one place of a text in a file, and put another in its place; pure.

Rules of this file:
- The text must be there exactly once; places that overlap are counted each.
- A line break of the text stands for LF and CRLF alike. What takes its place gets the line breaks of there.
- Every byte outside of the place stays as it is.
"""

from msgspec import Struct

from toolwire.codetools.lines import after_break, line_at
from toolwire.errors import ToolError

LF, CRLF = b"\n", b"\r\n"
MAX_COUNT = 1000
MAX_WORK = 64 * 1024 * 1024
SHOWN_LINES = 10


class Unmatched(ToolError):
    """An edit that cannot be made; `code` says why in one word."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Edited(Struct, frozen=True):
    """What a file holds after an edit, and the line in which the edit begins."""

    data: bytes
    line: int


def edit(data: bytes, old: bytes, new: bytes) -> Edited:
    """Put `new` in the one place where `old` is."""
    if not old:
        raise Unmatched("empty", "oldText is empty: give the text that is to be replaced")
    if old == new:
        raise Unmatched("no_change", "newText is the same as oldText: nothing would change")
    start, end, exact = find(data, old)
    was = data[start:end]
    piece = new if exact else with_breaks_of(data, start, end, was, old, new)
    if piece == was:
        raise Unmatched("no_change", "newText is what is there already: nothing would change")
    rest = memoryview(data)
    return Edited(b"".join((rest[:start], piece, rest[end:])), line_at(data, start))


def find(data: bytes, old: bytes) -> tuple[int, int, bool]:
    """Give the one place; and whether it was found by its very bytes, with a CR that is no line break."""
    folds = b"\r" in data and CRLF in data
    plain = data.replace(CRLF, LF) if folds else data
    wanted = old.replace(CRLF, LF)
    places = places_of(plain, wanted)
    exact = not places and b"\r" in old
    if exact:
        folds, plain, wanted = False, data, old
        found = ((place, place + len(old)) for place in places_of(data, old))
        places = [start for start, end in found if not (_splits(data, start) or _splits(data, end))]
    if not places:
        raise Unmatched("no_match", "oldText is not in the file")
    if len(places) > 1:
        raise Unmatched("ambiguous", _several(plain, places, _most(wanted)))
    ends = places[0], places[0] + len(wanted)
    start, end = (_unfolded(data, plain, place) for place in ends) if folds else ends
    return start, end, exact


def _splits(data: bytes, place: int) -> bool:
    return place > 0 and data[place - 1 : place + 1] == CRLF


def places_of(data: bytes, wanted: bytes) -> list[int]:
    """Find all places, those that overlap too, up to a number."""
    found: list[int] = []
    most = _most(wanted)
    place = data.find(wanted)
    while place >= 0 and len(found) < most:
        found.append(place)
        place = data.find(wanted, place + 1)
    return found


def _most(wanted: bytes) -> int:
    """Say how many places are counted: fewer of a long text, so that counting ends soon."""
    return max(2, min(MAX_COUNT, MAX_WORK // len(wanted)))


def _several(plain: bytes, places: list[int], most: int) -> str:
    lines, line, before = [], 1, 0
    for place in places[:SHOWN_LINES]:
        line += plain.count(LF, before, place)
        lines.append(str(line))
        before = place
    count = f"at least {len(places)}" if len(places) >= most else str(len(places))
    where = f"{', '.join(lines)}{' and more' if len(places) > SHOWN_LINES else ''}"
    return (
        f"oldText is in the file {count} times, beginning in lines {where}: "
        "give more of the lines around the one that is meant"
    )


def _unfolded(data: bytes, plain: bytes, place: int) -> int:
    """Give the place in a file of a place in its text with LF alone: both have as many LF."""
    column = place - (plain.rfind(LF, 0, place) + 1)
    return after_break(data, plain.count(LF, 0, place)) + column


def with_breaks_of(data: bytes, start: int, end: int, was: bytes, old: bytes, new: bytes) -> bytes:
    """Give the new text with the line breaks of its place."""
    if CRLF in was:
        return _aligned(was, new.replace(CRLF, LF))
    if LF not in was and ends_in_crlf(data, start, end):
        return new.replace(CRLF, LF).replace(LF, CRLF)
    return new.replace(CRLF, LF) if CRLF in old else new


def ends_in_crlf(data: bytes, start: int, end: int) -> bool:
    """Whether the line of a place ends in CRLF; where it has no end, the line before it."""
    after = data.find(LF, end)
    found = after if after >= 0 else data.rfind(LF, 0, start)
    return found > 0 and data[found - 1 : found] == b"\r"


def _aligned(was: bytes, new: bytes) -> bytes:
    """Give each line that stays its own line break; lines that are new get that of the first that goes."""
    olds = was.split(LF)
    breaks = [CRLF if line.endswith(b"\r") else LF for line in olds[:-1]]
    olds = [line.removesuffix(b"\r") for line in olds[:-1]] + olds[-1:]
    news = new.split(LF)
    head = _common(olds[:-1], news[:-1])
    tail = min(_common(olds[::-1], news[::-1]), len(olds) - head, len(news) - head)
    middle = breaks[min(head, len(breaks) - 1)]
    kept = max(tail - 1, 0)
    count = len(news) - 1 - head - kept
    ends = breaks[:head] + [middle] * count + breaks[len(breaks) - kept :]
    return b"".join(part for pair in zip(news, [*ends, b""], strict=True) for part in pair)


def _common(olds: list[bytes], news: list[bytes]) -> int:
    """Count the lines at the beginning that are the same."""
    count = 0
    for old, new in zip(olds, news, strict=False):
        if old != new:
            break
        count += 1
    return count
