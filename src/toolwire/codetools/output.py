r"""The output of a command: bounded while it arrives, and rendered as plain text.

Rules of this file:
- The first and the last bytes of each stream are stored, and all bytes are counted. So memory is bounded.
- Bytes that are not UTF-8 become U+FFFD. Terminal colours are removed; other control characters are written `\xNN`. A
  character is never cut in two.
- A cut is marked where it is, and in a last line.
"""

import re

from toolwire.codetools.definitions import OUTPUT_BYTES
from toolwire.waiting.results import escape_character

CHUNK = 64 * 1024
_MAX_UNPRINTABLE = 0.3
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78cM])")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
CUT = "output was cut: write it to a file and read that in parts, or filter it with grep, head or tail"


class Captured:
    """One output stream of a command: its first and last bytes, and how many bytes it had."""

    def __init__(self, limit: int = OUTPUT_BYTES) -> None:
        self.limit = limit
        self.total: int = 0
        self.head: bytearray = bytearray()
        self.tail: bytearray = bytearray()

    def add(self, data: bytes) -> None:
        """Store the next bytes of the stream."""
        self.total += len(data)
        room = self.limit - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data
            if len(self.tail) > self.limit + CHUNK:
                del self.tail[: -self.limit]

    def discard(self) -> None:
        """Discard everything received so far."""
        self.total = 0
        self.head.clear()
        self.tail.clear()

    def render(self, limit: int) -> str:
        """Return the stream as text of about `limit` bytes."""
        data = bytes(self.head + self.tail[-self.limit :])
        if self.total <= limit:
            return _render(data, self.total)
        head_size, tail_size = limit * 2 // 5, limit - limit * 2 // 5
        head, tail = _trim_end(data[:head_size]), _trim_start(data[-tail_size:])
        omitted = self.total - len(head) - len(tail)
        parts = (_render(head, self.total), _render(tail, self.total))
        if _is_binary(head):
            return parts[0]
        return f"{parts[0]}\n[{omitted} bytes were left out here]\n{parts[1]}"


def render_both(stdout: Captured, stderr: Captured, limit: int = OUTPUT_BYTES) -> tuple[str, str, bool]:
    """Return both streams as text that fits `limit` together, and whether any of it was cut.

    A stream that needs less than half of the limit leaves the rest to the other one.
    """
    half = limit // 2
    stdout_limit = stdout.total if stdout.total <= half else max(half, limit - stderr.total)
    stderr_limit = limit - min(stdout_limit, stdout.total)
    return (
        stdout.render(stdout_limit),
        stderr.render(stderr_limit),
        stdout.total > stdout_limit or stderr.total > stderr_limit,
    )


def _trim_end(data: bytes) -> bytes:
    """Return `data` without a character that is cut at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < needed else data
        if byte < 0x80:
            break
    return data


def _trim_start(data: bytes) -> bytes:
    """Return `data` without a character that is cut at its start."""
    for index in range(min(4, len(data))):
        if not 0x80 <= data[index] < 0xC0:
            return data[index:]
    return data


def _is_binary(data: bytes) -> bool:
    """Return True if `data` is not text: many of its characters are unprintable."""
    text = _COLOURS.sub("", data.decode("utf-8", "replace"))
    unprintable = text.count("\ufffd") + sum(map(len, _UNPRINTABLE.findall(text))) - text.count("\r")
    return unprintable > _MAX_UNPRINTABLE * len(text) and len(text) > 64


def _render(data: bytes, total: int) -> str:
    if _is_binary(data):
        return f"[{total} bytes that are not text, and not shown]"
    return plain_text(data.decode("utf-8", "replace"))


def plain_text(text: str) -> str:
    """Return `text` without terminal colours, and with other control characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    text = _COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _UNPRINTABLE.sub(escape_character, text)
