"""Values that look like keys, hidden without being named.

Rules of this file:
- Every repetition is bounded, or cannot be read in two ways: the time is linear in the text.
- A key is more than a word: it is long, and where words could look like it, it has a digit.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

Span = tuple[int, int, str]


class Kind(NamedTuple):
    """A kind of key: its name, and its patterns; group 1 is hidden."""

    name: str
    patterns: tuple[re.Pattern[str], ...]


def _kind(name: str, *patterns: str) -> Kind:
    return Kind(name, tuple(re.compile(pattern, re.DOTALL) for pattern in patterns))


def _long(*starts: str) -> list[str]:
    """Give the patterns of keys that have a start of their own, where a word may begin."""
    return [rf"({start}(?<![A-Za-z0-9]{start})[A-Za-z0-9_-]{{20,}})" for start in starts]


WORD = r"[A-Za-z0-9_-]"
USERINFO = r"[^\s/?#@:\"'<>]{0,256}:[^\s/?#\"'<>]{1,256}|[^\s/?#@:\"'<>]{16,256}"
OF_BEARER = r"\s{1,8}((?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{8,}|[A-Za-z0-9._~+/=-]{20,})"
# A pattern begins with plain letters, for those are found fast; what may not stand before is looked at after.
KINDS = (
    _kind(
        "api key",
        rf"(sk-(?<![A-Za-z0-9]sk-)(?=[A-Za-z_-]{{0,64}}[0-9]){WORD}{{16,}})",
        r"(AIza[A-Za-z0-9_-]{30,})",
        *_long("gsk_", "xai-", "pplx-", "nvapi-", "hf_"),
        r"(sk_(?:live|test)_[A-Za-z0-9]{10,})",
        r"(rk_(?:live|test)_[A-Za-z0-9]{10,})",
    ),
    _kind(
        "access key",
        r"(AKIA(?<![A-Za-z0-9]AKIA)[A-Z0-9]{16})(?![A-Za-z0-9])",
        r"(ASIA(?<![A-Za-z0-9]ASIA)[A-Z0-9]{16})(?![A-Za-z0-9])",
    ),
    _kind(
        "token",
        r"(gh[pousr]_[A-Za-z0-9]{20,})",
        r"(xox[abeoprs]-[A-Za-z0-9-]{10,})",
        r"(xapp-[A-Za-z0-9-]{10,})",
        *_long("github_pat_", "glpat-", "npm_"),
        rf"(ya29\.{WORD}{{20,}})",
        rf"(SG\.(?<![A-Za-z0-9]SG\.){WORD}{{16,64}}\.{WORD}{{16,64}})",
        *(start + OF_BEARER for start in ("Bearer", "bearer", "BEARER")),
    ),
    _kind("jwt", rf"(eyJ(?<!{WORD}eyJ){WORD}{{8,}}\.{WORD}{{4,}}\.{WORD}*(?:\.{WORD}*){{0,2}})"),
    _kind(
        "private key",
        r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z))",
    ),
    _kind("userinfo", rf"://({USERINFO})@"),
)
SHORTEST_KEY = 20
SIGNS = re.compile(r"[-_:. ]")


def keys_in(text: str) -> Iterator[Span]:
    """Find what looks like a key: where it begins, where it ends, and what it is."""
    if len(text) < SHORTEST_KEY and not SIGNS.search(text):
        return
    for name, patterns in KINDS:
        for pattern in patterns:
            for found in pattern.finditer(text):
                yield found.start(1), found.end(1), name
