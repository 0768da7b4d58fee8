"""Where in a text no call is read: code, comments, thoughts, raw HTML. Lines open and close them.

Rules of this file:
- A fence of three or more backticks or tildes, indented by at most three spaces, opens code; as many or more
  of the same, alone on a line, close it. So Markdown has it, whose other rules play no part here.
- A tag opens its zone where it begins a line, and the zone ends with the line in which its end stands.
- Every test looks at one line once: a text of any length takes time in proportion to it.
"""

import re
from typing import NamedTuple

_TAGS = {
    "<!--": "-->",
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<pre": "</pre>",
    "<script": "</script>",
    "<style": "</style>",
    "<textarea": "</textarea>",
}
INDENT = 3
BLANK = " \t\r"
_MARKS = frozenset("`~<")
_FENCE = re.compile(r"(`{3,}|~{3,})([^\n]*)")
_LONGEST = max(map(len, _TAGS))


class Zone(NamedTuple):
    """What no call is read in, until its end: a fence's character and length, or the text that ends it."""

    mark: str
    length: int = 0

    def ends(self, line: str) -> bool:
        """Whether this line is its last."""
        if not self.length:
            return self.mark in line.lower()
        fence = line.rstrip(BLANK)
        indent = len(fence) - len(fence.lstrip(" "))
        fence = fence[indent:]
        return indent <= INDENT and len(fence) >= self.length and not fence.strip(self.mark)

    @property
    def end(self) -> str:
        """A line that ends it."""
        return self.mark * (self.length or 1)


def zone_of(line: str) -> Zone | None:
    """Give the zone that a line opens, if it opens one."""
    bare = line.lstrip(" ")
    if len(line) - len(bare) > INDENT or bare[:1] not in _MARKS:
        return None
    if bare[0] == "<":
        return _tagged(bare)
    fence = _FENCE.match(bare)
    if fence is None or (bare[0] == "`" and "`" in fence[2]):
        return None
    return Zone(bare[0], len(fence[1]))


def _tagged(bare: str) -> Zone | None:
    start = bare[:_LONGEST].lower()
    for tag, end in _TAGS.items():
        if start.startswith(tag):
            return None if end in bare[len(tag) :].lower() else Zone(end)
    return None


def may_matter(line: str) -> bool:
    """Whether the beginning of a line leaves open that it opens or ends a zone."""
    bare = line.lstrip(" ")
    return len(line) - len(bare) <= INDENT and (not bare or bare[0] in _MARKS)
