"""Replace the one occurrence of a text in a file, or describe where a similar text is. Everything here is pure.

Rules of this file:
- The text must occur exactly once; overlapping occurrences count separately.
- A line break in the text matches LF and CRLF. The replacement gets the line breaks of the place it is put in.
- Every byte outside of the replaced text stays the same.
- A similar text is only reported, never replaced. Each normalization keeps the line breaks, so that a match has a
  line number. The work is bounded: in a large file only some lines are compared.
"""

import difflib
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from itertools import islice
from os.path import commonprefix

from msgspec import Struct

from toolwire.codetools.lines import line_number_at, position_after_breaks
from toolwire.errors import ToolError

LF, CRLF = b"\n", b"\r\n"
_MAX_COUNT = 1000
_MAX_WORK = 64 * 1024 * 1024
_SHOWN_LINES = 10

_HINT_LINES = 12
_SHOWN_CHARACTERS = 300
_EXCERPT = 60
_MAX_COMPARED = 3000
_CANDIDATES = 200
_ANCHORS = 3
_MIN_ANCHOR = 4
_MIN_SIMILARITY = 0.6

_Normalize = Callable[[str], str]
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


class EditRefused(ToolError):
    """An edit that cannot be made; `code` is the reason in one word."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class _EditResult(Struct, frozen=True):
    """A file's content after an edit, and the line in which the edit begins."""

    data: bytes
    line: int


def edit(data: bytes, old: bytes, new: bytes) -> _EditResult:
    """Replace the one occurrence of `old` in `data` with `new`.

    Raise `EditRefused` if `old` does not occur exactly once, or if nothing would change.
    """
    if not old:
        raise EditRefused("empty", "oldText is empty: give the text to replace")
    if old == new:
        raise EditRefused("no_change", "newText is the same as oldText: nothing would change")
    start, end, exact = find_once(data, old)
    replaced = data[start:end]
    replacement = new if exact else _adapt_breaks(data, start, end, replaced, old, new)
    if replacement == replaced:
        raise EditRefused("no_change", "the file has newText there already: nothing would change")
    view = memoryview(data)
    return _EditResult(b"".join((view[:start], replacement, view[end:])), line_number_at(data, start))


def find_once(data: bytes, old: bytes) -> tuple[int, int, bool]:
    """Return the start and the end of the one occurrence of `old`, and whether it was found byte for byte.

    That is the case only if `old` has a CR that is not part of a line break.
    """
    is_folded = b"\r" in data and CRLF in data
    unfolded = data.replace(CRLF, LF) if is_folded else data
    wanted = old.replace(CRLF, LF)
    positions = find_positions(unfolded, wanted)
    exact = not positions and b"\r" in old
    if exact:
        is_folded, unfolded, wanted = False, data, old
        spans = ((position, position + len(old)) for position in find_positions(data, old))
        positions = [start for start, end in spans if not (_splits(data, start) or _splits(data, end))]
    if not positions:
        raise EditRefused("no_match", "oldText is not in the file")
    if len(positions) > 1:
        raise EditRefused("ambiguous", _describe_matches(unfolded, positions, _match_limit(wanted)))
    start, end = positions[0], positions[0] + len(wanted)
    if is_folded:
        start, end = (_position_in_file(data, unfolded, position) for position in (start, end))
    return start, end, exact


def _splits(data: bytes, position: int) -> bool:
    return position > 0 and data[position - 1 : position + 1] == CRLF


def find_positions(data: bytes, wanted: bytes) -> list[int]:
    """Return the positions of `wanted` in `data`, overlapping ones included, up to a limit."""
    positions: list[int] = []
    limit = _match_limit(wanted)
    position = data.find(wanted)
    while position >= 0 and len(positions) < limit:
        positions.append(position)
        position = data.find(wanted, position + 1)
    return positions


def _match_limit(wanted: bytes) -> int:
    """Return how many occurrences are counted: fewer for a long text, so that counting ends soon."""
    return max(2, min(_MAX_COUNT, _MAX_WORK // len(wanted)))


def _describe_matches(text: bytes, positions: list[int], limit: int) -> str:
    lines, line, previous = [], 1, 0
    for position in positions[:_SHOWN_LINES]:
        line += text.count(LF, previous, position)
        lines.append(str(line))
        previous = position
    count = f"at least {len(positions)}" if len(positions) >= limit else str(len(positions))
    numbers = f"{', '.join(lines)}{' and more' if len(positions) > _SHOWN_LINES else ''}"
    return (
        f"oldText is in the file {count} times, beginning in lines {numbers}: "
        "add more of the surrounding lines, so that it matches one place only"
    )


def _position_in_file(data: bytes, unfolded: bytes, position: int) -> int:
    """Return the position in `data` of a position in `unfolded`, which has LF in place of each CRLF."""
    column = position - (unfolded.rfind(LF, 0, position) + 1)
    return position_after_breaks(data, unfolded.count(LF, 0, position)) + column


def _adapt_breaks(data: bytes, start: int, end: int, replaced: bytes, old: bytes, new: bytes) -> bytes:
    """Return `new` with the line breaks of the text that it replaces."""
    if CRLF in replaced:
        return _align_breaks(replaced, new.replace(CRLF, LF))
    if LF not in replaced and ends_in_crlf(data, start, end):
        return new.replace(CRLF, LF).replace(LF, CRLF)
    return new.replace(CRLF, LF) if CRLF in old else new


def ends_in_crlf(data: bytes, start: int, end: int) -> bool:
    """Return True if the line at `start` to `end` ends in CRLF. If it has no line break, look at the line before it."""
    next_break = data.find(LF, end)
    line_break = next_break if next_break >= 0 else data.rfind(LF, 0, start)
    return line_break > 0 and data[line_break - 1 : line_break] == b"\r"


def _align_breaks(replaced: bytes, new: bytes) -> bytes:
    """Return `new` with the line breaks of the lines it keeps.

    A new line gets the line break of the first replaced line.
    """
    olds = replaced.split(LF)
    breaks = [CRLF if line.endswith(b"\r") else LF for line in olds[:-1]]
    olds = [line.removesuffix(b"\r") for line in olds[:-1]] + olds[-1:]
    news = new.split(LF)
    head = _count_common(olds[:-1], news[:-1])
    tail = min(_count_common(olds[::-1], news[::-1]), len(olds) - head, len(news) - head)
    middle = breaks[min(head, len(breaks) - 1)]
    tail_breaks = max(tail - 1, 0)
    count = len(news) - 1 - head - tail_breaks
    ends = breaks[:head] + [middle] * count + breaks[len(breaks) - tail_breaks :]
    return b"".join(part for pair in zip(news, [*ends, b""], strict=True) for part in pair)


def _count_common(olds: list[bytes], news: list[bytes]) -> int:
    """Return how many lines at the beginning are the same."""
    return len(commonprefix((olds, news)))  # noqa: RUF071 - this compares lines


def _replace_lookalikes(text: str) -> str:
    return text.translate(_LOOK_ALIKES)


_drop_spaces = partial(_WHITE.sub, "")
_compose = partial(unicodedata.normalize, "NFC")


def _normalize_all(text: str) -> str:
    return _drop_spaces(unicodedata.normalize("NFKC", _replace_lookalikes(text)).casefold())


def _unescape(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text


# How a similar text may differ, and how the file and `oldText` are normalized to find it.
_NORMALIZATIONS: tuple[tuple[str, _Normalize, _Normalize], ...] = (
    ("in line breaks at its ends", str, lambda text: text.strip("\n")),
    ("in white space (spaces, tabs)", _drop_spaces, _drop_spaces),
    ("in quotes, dashes or spaces that look alike", _replace_lookalikes, _replace_lookalikes),
    ("in the form of its letters (NFC or NFD of Unicode)", _compose, _compose),
    ("in capital and small letters", str.casefold, str.casefold),
    (r"in escapes (oldText has \n or \t where the file has the character)", str, _unescape),
    ("in line numbers, which are not in the file", str, partial(_NUMBERS.sub, "")),
    ("in more than one way", _normalize_all, lambda text: _normalize_all(text.strip("\n"))),
)


def hint(text: str, old: str) -> str:
    """Describe the text in `text` that is most similar to `old`; return "" if none is similar.

    Both texts have LF as their only line breaks.
    """
    for difference, normalize, normalize_old in _NORMALIZATIONS:
        wanted = normalize_old(old)
        if not wanted.strip() or (wanted == old and normalize is str):
            continue
        position = (normalized := normalize(text)).find(wanted)
        if position >= 0:
            first = normalized.count("\n", 0, position)
            return _describe_similar(text.split("\n"), first, wanted.rstrip("\n").count("\n") + 1, old, difference)
    lines = text.split("\n")
    start = _find_similar(lines, old.split("\n"))
    return "" if start is None else _describe_similar(lines, start, old.rstrip("\n").count("\n") + 1, old, "")


def _describe_similar(lines: list[str], first: int, count: int, old: str, difference: str) -> str:
    first = max(first, 0)
    nearest = lines[first : first + count]
    span = f"line {first + 1}" if len(nearest) == 1 else f"lines {first + 1}-{first + len(nearest)}"
    if difference:
        summary = f"A similar text is in {span}, but differs {difference}."
    else:
        summary = f"The most similar text is in {span}."
    rows = [f"{first + index + 1}: {nearest[index][:_SHOWN_CHARACTERS]}" for index in range(len(nearest))]
    more = [f"[{len(rows) - _HINT_LINES} more lines]"] if len(rows) > _HINT_LINES else []
    return "\n".join([summary, *rows[:_HINT_LINES], *more, *_difference(nearest, old.split("\n"), first)])


def _difference(nearest: list[str], olds: list[str], first: int) -> list[str]:
    """Quote the first line that differs in ASCII, so that characters that look alike can be distinguished."""
    last = len(olds) - 1
    for index, (line, old) in enumerate(zip(nearest, olds, strict=False)):
        partly = (index == 0 and line.endswith(old)) or (index == last and line.startswith(old))
        if line == old or partly or (last == 0 and old in line):
            continue
        column = len(commonprefix((line, old)))  # noqa: RUF071 - this compares characters
        begin = max(0, column - _EXCERPT // 2)
        pair = (ascii(text[begin : begin + _EXCERPT]) for text in (line, old))
        return [f"In line {first + index + 1} the file has {next(pair)}, oldText has {next(pair)}."]
    return []


def _find_similar(lines: list[str], olds: list[str]) -> int | None:
    """Return the index of the line where most lines equal those of `olds`.

    If no long line is equal, return the index of a line that is close to the longest.
    """
    bare = [line.strip() for line in lines]
    wanted = [line.strip() for line in olds]
    anchors = sorted(range(len(wanted)), key=lambda index: -len(wanted[index]))[:_ANCHORS]
    best: tuple[int, int] | None = None
    for anchor in anchors:
        if len(wanted[anchor]) < _MIN_ANCHOR:
            continue
        same = (index for index, line in enumerate(bare) if line == wanted[anchor])
        for index in islice(same, _CANDIDATES):
            score = _score(bare, wanted, index - anchor)
            best = max(best or (0, 0), (score, anchor - index))
    if best is not None:
        return -best[1]
    return _find_close_line(bare, wanted, anchors[0]) if len(wanted[anchors[0]]) >= _MIN_ANCHOR else None


def _score(bare: list[str], wanted: list[str], start: int) -> int:
    begin = max(start, 0)
    return sum(map(str.__eq__, bare[begin : start + len(wanted)], wanted[begin - start :]))


def _find_close_line(bare: list[str], wanted: list[str], anchor: int) -> int | None:
    length = len(wanted[anchor])
    candidates = (line for line in bare if length / 2 <= len(line) <= length * 2)
    lines = [line[:_SHOWN_CHARACTERS] for line, _ in zip(dict.fromkeys(candidates), range(_MAX_COMPARED), strict=False)]
    closest = difflib.get_close_matches(wanted[anchor][:_SHOWN_CHARACTERS], lines, 1, _MIN_SIMILARITY)
    if not closest:
        return None
    index = next(index for index, line in enumerate(bare) if line[:_SHOWN_CHARACTERS] == closest[0])
    return index - anchor
