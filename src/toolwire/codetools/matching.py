"""Find the one place of a text in a file, and put another in its place; or say where it nearly is. All of it is pure.

Rules of this file:
- The text must be there exactly once; places that overlap are counted each.
- A line break of the text stands for LF and CRLF alike. What takes its place gets the line breaks of there.
- Every byte outside of the place stays as it is.
- Where the text nearly is, is said only: a file is not changed there. Each loosening of the text keeps the line
  breaks, so that a place in it has a line. The work is bounded: of a large file only some lines are compared.
"""

import difflib
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from itertools import islice
from os.path import commonprefix

from msgspec import Struct

from toolwire.codetools.lines import after_break, line_at
from toolwire.errors import ToolError

LF, CRLF = b"\n", b"\r\n"
_MAX_COUNT = 1000
_MAX_WORK = 64 * 1024 * 1024
_SHOWN_LINES = 10

_HINT_LINES = 12
_SHOWN_CHARACTERS = 300
_AROUND = 60
_COMPARED = 3000
_CANDIDATES = 200
_ANCHORS = 3
_LEAST_ANCHOR = 4
_ALIKE = 0.6

_Loosen = Callable[[str], str]
_LOOK_ALIKES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " ")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "")
    | {"\u2026": "..."}
)
_WHITE = re.compile(r"[^\S\n]+")
_NUMBERS = re.compile(r"^ *[0-9]+ ?(?:\t|: ?|\| ?)", re.MULTILINE)
_ESCAPES = (("\\r\\n", "\n"), ("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\'", "'"), ("\\\\", "\\"))


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
    piece = new if exact else _with_breaks_of(data, start, end, was, old, new)
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
    return max(2, min(_MAX_COUNT, _MAX_WORK // len(wanted)))


def _several(plain: bytes, places: list[int], most: int) -> str:
    lines, line, before = [], 1, 0
    for place in places[:_SHOWN_LINES]:
        line += plain.count(LF, before, place)
        lines.append(str(line))
        before = place
    count = f"at least {len(places)}" if len(places) >= most else str(len(places))
    where = f"{', '.join(lines)}{' and more' if len(places) > _SHOWN_LINES else ''}"
    return (
        f"oldText is in the file {count} times, beginning in lines {where}: "
        "give more of the lines around the one that is meant"
    )


def _unfolded(data: bytes, plain: bytes, place: int) -> int:
    """Give the place in a file of a place in its text with LF alone: both have as many LF."""
    column = place - (plain.rfind(LF, 0, place) + 1)
    return after_break(data, plain.count(LF, 0, place)) + column


def _with_breaks_of(data: bytes, start: int, end: int, was: bytes, old: bytes, new: bytes) -> bytes:
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
    return len(commonprefix((olds, news)))  # noqa: RUF071 - it is lines that are compared


def _unmarked(text: str) -> str:
    return text.translate(_LOOK_ALIKES)


_solid = partial(_WHITE.sub, "")
_composed = partial(unicodedata.normalize, "NFC")


def _plain(text: str) -> str:
    return _solid(unicodedata.normalize("NFKC", _unmarked(text)).casefold())


def _unescaped(text: str) -> str:
    for escape, meant in _ESCAPES:
        text = text.replace(escape, meant)
    return text


# In what a text differs that is only nearly there, and how the file and `oldText` are loosened to find it.
_LOOSENINGS: tuple[tuple[str, _Loosen, _Loosen], ...] = (
    ("in line breaks at its ends", str, lambda text: text.strip("\n")),
    ("in white space (spaces, tabs)", _solid, _solid),
    ("in quotes, dashes or spaces that look alike", _unmarked, _unmarked),
    ("in the form of its letters (NFC or NFD of Unicode)", _composed, _composed),
    ("in capital and small letters", str.casefold, str.casefold),
    (r"in escapes (oldText has \n or \t where the file has the character)", str, _unescaped),
    ("in line numbers, which are not in the file", str, partial(_NUMBERS.sub, "")),
    ("in more than one way", _plain, lambda text: _plain(text.strip("\n"))),
)


def hint(text: str, old: str) -> str:
    """Say what is nearest; nothing if nothing is near. Both texts have LF alone as line breaks."""
    for what, loosen, loosen_old in _LOOSENINGS:
        wanted = loosen_old(old)
        if not wanted.strip() or (wanted == old and loosen is str):
            continue
        place = (loosened := loosen(text)).find(wanted)
        if place >= 0:
            first = loosened.count("\n", 0, place)
            return _told(text.split("\n"), first, wanted.rstrip("\n").count("\n") + 1, old, what)
    lines = text.split("\n")
    near = _similar(lines, old.split("\n"))
    return "" if near is None else _told(lines, near, old.rstrip("\n").count("\n") + 1, old, "")


def _told(lines: list[str], first: int, count: int, old: str, what: str) -> str:
    first = max(first, 0)
    found = lines[first : first + count]
    where = f"line {first + 1}" if len(found) == 1 else f"lines {first + 1}-{first + len(found)}"
    said = f"It is nearly in {where}, but differs {what}." if what else f"The nearest is {where}."
    shown = [f"{first + place + 1}: {found[place][:_SHOWN_CHARACTERS]}" for place in range(len(found))]
    more = [f"[{len(shown) - _HINT_LINES} more lines]"] if len(shown) > _HINT_LINES else []
    return "\n".join([said, *shown[:_HINT_LINES], *more, *_difference(found, old.split("\n"), first)])


def _difference(found: list[str], olds: list[str], first: int) -> list[str]:
    """Show the first line that differs, so that nothing in it looks like something else."""
    last = len(olds) - 1
    for place, (line, old) in enumerate(zip(found, olds, strict=False)):
        partly = (place == 0 and line.endswith(old)) or (place == last and line.startswith(old))
        if line == old or partly or (last == 0 and old in line):
            continue
        at = len(commonprefix((line, old)))  # noqa: RUF071 - it is characters that are compared
        begin = max(0, at - _AROUND // 2)
        pair = (ascii(one[begin : begin + _AROUND]) for one in (line, old))
        return [f"In line {first + place + 1} the file has {next(pair)}, oldText has {next(pair)}."]
    return []


def _similar(lines: list[str], olds: list[str]) -> int | None:
    """Find the line at which most lines are the same, or else a line that is like the longest."""
    bare = [line.strip() for line in lines]
    wanted = [line.strip() for line in olds]
    anchors = sorted(range(len(wanted)), key=lambda place: -len(wanted[place]))[:_ANCHORS]
    best: tuple[int, int] | None = None
    for anchor in anchors:
        if len(wanted[anchor]) < _LEAST_ANCHOR:
            continue
        same = (place for place, line in enumerate(bare) if line == wanted[anchor])
        for place in islice(same, _CANDIDATES):
            score = _score(bare, wanted, place - anchor)
            best = max(best or (0, 0), (score, anchor - place))
    if best is not None:
        return -best[1]
    return _alike(bare, wanted, anchors[0]) if len(wanted[anchors[0]]) >= _LEAST_ANCHOR else None


def _score(bare: list[str], wanted: list[str], start: int) -> int:
    begin = max(start, 0)
    return sum(map(str.__eq__, bare[begin : start + len(wanted)], wanted[begin - start :]))


def _alike(bare: list[str], wanted: list[str], anchor: int) -> int | None:
    length = len(wanted[anchor])
    near = (line for line in bare if length / 2 <= len(line) <= length * 2)
    some = [line[:_SHOWN_CHARACTERS] for line, _ in zip(dict.fromkeys(near), range(_COMPARED), strict=False)]
    found = difflib.get_close_matches(wanted[anchor][:_SHOWN_CHARACTERS], some, 1, _ALIKE)
    if not found:
        return None
    place = next(place for place, line in enumerate(bare) if line[:_SHOWN_CHARACTERS] == found[0])
    return place - anchor
