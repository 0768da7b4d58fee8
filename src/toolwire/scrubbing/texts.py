"""Secrets in a text: where they stand, and the text without them.

Rules of this file:
- A text is hidden where it looks like a key, where it is a form of a known secret, and where it is the value
  of a sensitive name: `name=value`, `"name": "value"`, in URLs, environments, logs and broken JSON.
- A value that has no end is hidden to the end of the text.
"""

import re
from collections.abc import Iterator, Sequence

from toolwire.scrubbing.fields import HEADERS, NOWHERE, Fields, plain, usual
from toolwire.scrubbing.keys import Span, keys_in
from toolwire.scrubbing.masks import HIDDEN, MASK, mask

NAMED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
LONGEST_NAME = 80
SIGN = re.compile("[=:]")
OPENING = re.compile(r"\s{0,8}(\\{0,80}[\"'])?")
# How a value ends that has no quotes: after `=`, and after a name in quotes.
BARE = re.compile(r"[^\s&;,\"'<>]+")
BARE_IN_JSON = re.compile(r"[^\s,}\])\"']+")
LINE = re.compile(r"[ \t]{0,8}[\"']?([^\s\"'][^\r\n\"']*)")
BRACKET = re.compile(r"[\[\]{}]")


def spans(text: str, fields: Fields, forms: Sequence[str]) -> list[Span]:
    """Find what has to be hidden, in order; what overlaps is one."""
    found = [*keys_in(text), *_known(text, forms)] if forms else list(keys_in(text))
    if fields.hinted(text):
        found += _named(text, fields)
    if len(found) < 2:
        return found
    found.sort(key=lambda span: (span[0], -span[1]))
    joined: list[Span] = []
    for start, end, name in found:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]), joined[-1][2])
        else:
            joined.append((start, end, name))
    return joined


def without(text: str, hidden: Sequence[Span]) -> str:
    """Give the text with masks where something has to be hidden."""
    pieces, place = [], 0
    for start, end, name in hidden:
        pieces += [text[place:start], mask(name)]
        place = end
    return "".join([*pieces, text[place:]]) if pieces else text


def _known(text: str, forms: Sequence[str]) -> Iterator[Span]:
    for form in forms:
        place = text.find(form) if len(form) <= len(text) else -1
        while place >= 0:
            if form not in HIDDEN:
                yield place, place + len(form), ""
            place = text.find(form, place + len(form))


def _named(text: str, fields: Fields) -> Iterator[Span]:
    """Find the values of sensitive names."""
    past = 0
    for sign in SIGN.finditer(text):
        at = sign.start()
        if at < past:
            continue
        before = text[max(0, at - LONGEST_NAME) : at].rstrip(" \t")
        key = before.rstrip("\"'").rstrip("\\")
        name = key[len(key.rstrip(NAMED)) :] if key.isascii() else _last_name(key)
        label, whole = fields.below(NOWHERE, name)[0] if name else None, True
        if label is None and name:
            label, whole = usual(plain(name)), False
        if label is None:
            continue
        quoted = len(key) < len(before) and sign[0] == ":"
        if label in HEADERS and sign[0] == ":" and not quoted:
            value = _line(text, at + 1)
        else:
            value = _value(text, at + 1, quoted=quoted, whole=whole)
        if value is not None:
            past = value[1]
            yield (*value, label)


def _last_name(key: str) -> str:
    start = len(key)
    while start and (key[start - 1].isalnum() or key[start - 1] in "_.-"):
        start -= 1
    return key[start:]


def _line(text: str, at: int) -> tuple[int, int] | None:
    """Find the value of a header: the rest of its line, or of what is in quotes."""
    found = LINE.match(text, at)
    return None if found is None or MASK.match(text, found.start(1)) else found.span(1)


def _value(text: str, at: int, *, quoted: bool, whole: bool) -> tuple[int, int] | None:
    """Find the value that begins here; one in brackets is a value if it is to be hidden whole."""
    opening = OPENING.match(text, at)
    start = opening.end() if opening is not None else at
    if MASK.match(text, start):
        return None
    if opening is not None and opening[1]:
        end = _closing(text, start, opening[1])
        return (start, end) if end > start else None
    if text[start : start + 1] in ("{", "["):
        return (start, _bracketed(text, start)) if whole else None
    bare = (BARE_IN_JSON if quoted else BARE).match(text, start)
    if bare is None or bare[0] in ("true", "false", "null", "None", "True", "False") or bare[0][0] == "=":
        return None
    return bare.span()


def _closing(text: str, start: int, quote: str) -> int:
    """Find the quote that closes: one that is escaped once more does not."""
    end = text.find(quote, start)
    while end > start:
        before = text[max(start, end - 100) : end]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return end
        end = text.find(quote, end + 1)
    return len(text) if end < 0 else end


def _bracketed(text: str, start: int) -> int:
    depth = 0
    for bracket in BRACKET.finditer(text, start):
        depth += 1 if bracket[0] in "[{" else -1
        if depth <= 0:
            return bracket.end()
    return len(text)
