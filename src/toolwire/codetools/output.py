r"""What a command wrote: kept in bounds as it comes, and written as plain text.

Rules of this file:
- Of each stream the first bytes and the last ones are kept, and all are counted: memory does not grow.
- What is no UTF-8 becomes U+FFFD; what colours a terminal is taken away; other control characters are written
  `\xNN`. A character is never cut in two.
- What is cut says so where it is cut, and in a last line.
"""

import re

from toolwire.codetools.definitions import OUTPUT_BYTES
from toolwire.waiting.results import escape_character

CHUNK = 64 * 1024
_MOSTLY = 0.3
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78cM])")
_UNSAYABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
CUT = "output was cut: write it to a file and read that in parts, or filter it with grep, head or tail"


class Captured:
    """One stream of a command: its first and its last bytes, and how many there were."""

    def __init__(self, limit: int = OUTPUT_BYTES) -> None:
        self.limit = limit
        self.total: int = 0
        self.head: bytearray = bytearray()
        self.tail: bytearray = bytearray()

    def add(self, data: bytes) -> None:
        """Take what came."""
        self.total += len(data)
        room = self.limit - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data
            if len(self.tail) > self.limit + CHUNK:
                del self.tail[: -self.limit]

    def forget(self) -> None:
        """Begin anew."""
        self.total = 0
        self.head.clear()
        self.tail.clear()

    def within(self, limit: int) -> str:
        """Give it as text of about so many bytes."""
        kept = bytes(self.head + self.tail[-self.limit :])
        if self.total <= limit:
            return _said(kept, self.total)
        first, last = limit * 2 // 5, limit - limit * 2 // 5
        head, tail = _whole_end(kept[:first]), _whole_start(kept[-last:])
        left = self.total - len(head) - len(tail)
        shown = (_said(head, self.total), _said(tail, self.total))
        if _is_binary(head):
            return shown[0]
        return f"{shown[0]}\n[{left} bytes were left out here]\n{shown[1]}"


def share(one: Captured, other: Captured, limit: int = OUTPUT_BYTES) -> tuple[str, str, bool]:
    """Give both streams as text that together keeps within the limit, and whether any of it was cut."""
    half = limit // 2
    first = one.total if one.total <= half else max(half, limit - other.total)
    second = limit - min(first, one.total)
    return one.within(first), other.within(second), one.total > first or other.total > second


def _whole_end(data: bytes) -> bytes:
    """Leave out a character that is cut at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < needed else data
        if byte < 0x80:
            break
    return data


def _whole_start(data: bytes) -> bytes:
    """Leave out a character that is cut at the start."""
    for place in range(min(4, len(data))):
        if not 0x80 <= data[place] < 0xC0:
            return data[place:]
    return data


def _is_binary(data: bytes) -> bool:
    """Whether bytes are no text: many of their characters cannot be shown."""
    text = _COLOURS.sub("", data.decode("utf-8", "replace"))
    unsayable = text.count("\ufffd") + sum(map(len, _UNSAYABLE.findall(text))) - text.count("\r")
    return unsayable > _MOSTLY * len(text) and len(text) > 64


def _said(data: bytes, total: int) -> str:
    if _is_binary(data):
        return f"[{total} bytes that are not text, and not shown]"
    return plain(data.decode("utf-8", "replace"))


def plain(text: str) -> str:
    r"""Take colours away; write other control characters so that they do nothing."""
    if text.isascii() and text.isprintable():
        return text
    text = _COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _UNSAYABLE.sub(escape_character, text)
