"""Say where a text that is not in a file nearly is, and in what the two differ; pure.

Rules of this file:
- It is said only, never used: a file is not changed where the text only nearly is.
- Each loosening keeps the line breaks, so that a place in the loosened text has a line.
- The work is bounded: of a large file only some lines are compared one by one.
"""

import difflib
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from itertools import islice
from os.path import commonprefix

SHOWN_LINES = 12
SHOWN_CHARACTERS = 300
AROUND = 60
COMPARED = 3000
CANDIDATES = 200
ANCHORS = 3
LEAST_ANCHOR = 4
ALIKE = 0.6

Loosen = Callable[[str], str]
LOOK_ALIKES = str.maketrans(
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


def _same(text: str) -> str:
    return text


def _unmarked(text: str) -> str:
    return text.translate(LOOK_ALIKES)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _solid(text: str) -> str:
    return _WHITE.sub("", text)


def _plain(text: str) -> str:
    return _solid(unicodedata.normalize("NFKC", _unmarked(text)).casefold())


def _unescaped(text: str) -> str:
    for escape, meant in _ESCAPES:
        text = text.replace(escape, meant)
    return text


# In what a text differs that is only nearly there, and how the file and `oldText` are loosened to find it.
LOOSENINGS: tuple[tuple[str, Loosen, Loosen], ...] = (
    ("in line breaks at its ends", _same, lambda text: text.strip("\n")),
    ("in white space (spaces, tabs)", _solid, _solid),
    ("in quotes, dashes or spaces that look alike", _unmarked, _unmarked),
    ("in the form of its letters (NFC or NFD of Unicode)", _composed, _composed),
    ("in capital and small letters", str.casefold, str.casefold),
    (r"in escapes (oldText has \n or \t where the file has the character)", _same, _unescaped),
    ("in line numbers, which are not in the file", _same, partial(_NUMBERS.sub, "")),
    ("in more than one way", _plain, lambda text: _plain(text.strip("\n"))),
)


def hint(text: str, old: str) -> str:
    """Say what is nearest; nothing if nothing is near. Both texts have LF alone as line breaks."""
    for what, loosen, loosen_old in LOOSENINGS:
        wanted = loosen_old(old)
        if not wanted.strip() or (wanted == old and loosen is _same):
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
    shown = [f"{first + place + 1}: {found[place][:SHOWN_CHARACTERS]}" for place in range(len(found))]
    more = [f"[{len(shown) - SHOWN_LINES} more lines]"] if len(shown) > SHOWN_LINES else []
    return "\n".join([said, *shown[:SHOWN_LINES], *more, *_difference(found, old.split("\n"), first)])


def _difference(found: list[str], olds: list[str], first: int) -> list[str]:
    """Show the first line that differs, so that nothing in it looks like something else."""
    last = len(olds) - 1
    for place, (line, old) in enumerate(zip(found, olds, strict=False)):
        partly = (place == 0 and line.endswith(old)) or (place == last and line.startswith(old))
        if line == old or partly or (last == 0 and old in line):
            continue
        at = len(commonprefix((line, old)))  # noqa: RUF071 - it is characters that are compared
        begin = max(0, at - AROUND // 2)
        pair = (ascii(one[begin : begin + AROUND]) for one in (line, old))
        return [f"In line {first + place + 1} the file has {next(pair)}, oldText has {next(pair)}."]
    return []


def _similar(lines: list[str], olds: list[str]) -> int | None:
    """Find the line at which most lines are the same, or else a line that is like the longest."""
    bare = [line.strip() for line in lines]
    wanted = [line.strip() for line in olds]
    anchors = sorted(range(len(wanted)), key=lambda place: -len(wanted[place]))[:ANCHORS]
    best: tuple[int, int] | None = None
    for anchor in anchors:
        if len(wanted[anchor]) < LEAST_ANCHOR:
            continue
        same = (place for place, line in enumerate(bare) if line == wanted[anchor])
        for place in islice(same, CANDIDATES):
            score = _score(bare, wanted, place - anchor)
            best = max(best or (0, 0), (score, anchor - place))
    if best is not None:
        return -best[1]
    return _alike(bare, wanted, anchors[0]) if len(wanted[anchors[0]]) >= LEAST_ANCHOR else None


def _score(bare: list[str], wanted: list[str], start: int) -> int:
    begin = max(start, 0)
    return sum(map(str.__eq__, bare[begin : start + len(wanted)], wanted[begin - start :]))


def _alike(bare: list[str], wanted: list[str], anchor: int) -> int | None:
    length = len(wanted[anchor])
    near = (line for line in bare if length / 2 <= len(line) <= length * 2)
    some = [line[:SHOWN_CHARACTERS] for line, _ in zip(dict.fromkeys(near), range(COMPARED), strict=False)]
    found = difflib.get_close_matches(wanted[anchor][:SHOWN_CHARACTERS], some, 1, ALIKE)
    if not found:
        return None
    place = next(place for place, line in enumerate(bare) if line[:SHOWN_CHARACTERS] == found[0])
    return place - anchor
