"""The zones of a text in which no call is read: code, comments, thoughts, raw HTML. Lines open and close them.

Rules of this file:
- A fence of three or more backticks or tildes, indented by at most three spaces, opens code. A line with at least as
  many of the same character, and nothing else, closes it. This follows Markdown, whose other rules do not apply here.
- A tag opens its zone at the start of a line. The zone ends with the line that contains its end tag.
- Each test examines one line once, so the time is proportional to the length of the text.
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
    """A zone without calls: the character and length of its fence, or the text that ends it."""

    mark: str
    length: int = 0

    def ends(self, line: str) -> bool:
        """Return True if `line` is the last line of the zone."""
        if not self.length:
            return self.mark in line.lower()
        fence = line.rstrip(BLANK)
        indent = len(fence) - len(fence.lstrip(" "))
        fence = fence[indent:]
        return indent <= INDENT and len(fence) >= self.length and not fence.strip(self.mark)

    @property
    def end(self) -> str:
        """A line that closes the zone."""
        return self.mark * (self.length or 1)


def zone_of(line: str) -> Zone | None:
    """Return the zone that `line` opens, or None."""
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
    """Return True if the beginning of `line` may still open or close a zone."""
    bare = line.lstrip(" ")
    return len(line) - len(bare) <= INDENT and (not bare or bare[0] in _MARKS)
