"""Values that look like keys, hidden without being named.

Rules of this file:
- Every repetition is bounded, or cannot be read in two ways: the time is linear in the text.
- A key is more than a word: it is long, and where words could look like it, it has a digit.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

Span = tuple[int, int, str]


class _KeyKind(NamedTuple):
    """A kind of key: what each begins with, its name, and its pattern; group 1 is hidden."""

    start: str
    name: str
    pattern: re.Pattern[str]


def _kind(name: str, *patterns: str) -> list[_KeyKind]:
    return [_KeyKind(_start(pattern), name, re.compile(pattern, re.DOTALL)) for pattern in patterns]


def _start(pattern: str) -> str:
    """Give the plain letters that a pattern begins with."""
    found = PLAIN.match(pattern)
    return found[1] if found is not None else ""


def _long(*starts: str) -> list[str]:
    """Give the patterns of keys that have a start of their own, where a word may begin."""
    return [rf"({start}(?<![A-Za-z0-9]{start})[A-Za-z0-9_-]{{20,}})" for start in starts]


WORD = r"[A-Za-z0-9_-]"
USERINFO = r"[^\s/?#@:\"'<>]{0,256}:[^\s/?#\"'<>]{1,256}|[^\s/?#@:\"'<>]{16,256}"
OF_BEARER = r"\s{1,8}((?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{8,}|[A-Za-z0-9._~+/=-]{20,})"
PLAIN = re.compile(r"\(?([A-Za-z0-9_:/ -]+)(?![*+?{])")
# A pattern begins with plain letters, for those are found fast; what may not stand before is looked at after.
KINDS = (
    *_kind(
        "api key",
        rf"(sk-(?<![A-Za-z0-9]sk-)(?=[A-Za-z_-]{{0,64}}[0-9]){WORD}{{16,}})",
        r"(AIza[A-Za-z0-9_-]{30,})",
        *_long("gsk_", "xai-", "pplx-", "nvapi-", "hf_"),
        r"(sk_(?:live|test)_[A-Za-z0-9]{10,})",
        r"(rk_(?:live|test)_[A-Za-z0-9]{10,})",
    ),
    *_kind(
        "access key",
        r"(AKIA(?<![A-Za-z0-9]AKIA)[A-Z0-9]{16})(?![A-Za-z0-9])",
        r"(ASIA(?<![A-Za-z0-9]ASIA)[A-Z0-9]{16})(?![A-Za-z0-9])",
    ),
    *_kind(
        "token",
        r"(gh[pousr]_[A-Za-z0-9]{20,})",
        r"(xox[abeoprs]-[A-Za-z0-9-]{10,})",
        r"(xapp-[A-Za-z0-9-]{10,})",
        *_long("github_pat_", "glpat-", "npm_"),
        rf"(ya29\.{WORD}{{20,}})",
        rf"(SG\.(?<![A-Za-z0-9]SG\.){WORD}{{16,64}}\.{WORD}{{16,64}})",
        *(start + OF_BEARER for start in ("Bearer", "bearer", "BEARER")),
    ),
    *_kind("jwt", rf"(eyJ(?<!{WORD}eyJ){WORD}{{8,}}\.{WORD}{{4,}}\.{WORD}*(?:\.{WORD}*){{0,2}})"),
    *_kind(
        "private key",
        r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z))",
    ),
    *_kind("userinfo", rf"://({USERINFO})@"),
)
# No key is shorter, but in an address; and none is so short that it has none of these.
SHORTEST_KEY, PLAIN_KEY = 15, 20
SIGNS = re.compile(r"[-_:. ]")


def keys_in(text: str) -> Iterator[Span]:
    """Find what looks like a key: where it begins, where it ends, and what it is."""
    size = len(text)
    if (size < SHORTEST_KEY and "://" not in text) or (size < PLAIN_KEY and not SIGNS.search(text)):
        return
    for start, name, pattern in KINDS:
        if start in text:
            for found in pattern.finditer(text):
                yield found.start(1), found.end(1), name
