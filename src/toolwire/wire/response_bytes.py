"""Split the bytes of an HTTP/1.1 connection so that no piece extends beyond the end of a response.

An HTTP parser buffers bytes beyond the end of a response, and takes them for the start of the next one. Its public
interface does not show such bytes. So the bytes are split before the parser gets them, at every position where a
response may end. A parser that reads only while its response is incomplete leaves later bytes here, and `size` counts
them.

Rules of this file:
- A split where no response ends costs only one more call. A missing split would give one request's response to another.
- Bytes are never held back. `take` returns all bytes up to the next split.
"""

import re
from collections import deque
from typing import Literal

_BLANK_LINE = re.compile(rb"(?<=\n\r)\n|(?<=\n)\r?\n")
_STATUS = re.compile(rb"HTTP/\d\.\d (\d{3})")
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:\s*(\d{1,18})", re.IGNORECASE)
_CHUNKED = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_LAST_CHUNK = b"\n0"
_LONGEST_HEAD = 1 << 20
_WITHOUT_BODY = frozenset({b"204", b"304"})
_UPGRADED = b"101"
_Section = Literal["head", "sized", "chunks", "last chunks", "endless"]


class ResponseBytes:
    """Bytes received and not yet read."""

    def __init__(self) -> None:
        self.size: int = 0
        self._pieces: deque[bytes] = deque()
        self._start = 0  # the position of the next byte in the first piece
        self.begin()

    def begin(self) -> None:
        """Expect the head of a response, because a request was sent."""
        self._section: _Section = "head"
        self._head = bytearray()
        self._missing = 0
        self._before = b"\n"  # the last bytes that were returned, because the size of a chunk starts a line

    def add(self, data: bytes) -> None:
        """Add received bytes."""
        self._pieces.append(data)
        self.size += len(data)

    def take(self) -> bytes:
        """Return the next bytes, at most up to where a response may end. Return no bytes if there are none."""
        if not self._pieces:
            return b""
        piece = self._pieces[0][self._start :] if self._start else self._pieces[0]
        end = self._cut(piece)
        if end == len(piece):
            self._pieces.popleft()
            self._start = 0
        else:
            self._start += end
            piece = piece[:end]
        self.size -= end
        return piece

    def _cut(self, piece: bytes) -> int:
        """Return how many bytes of `piece` may belong to the current response."""
        match self._section:
            case "head":
                return self._cut_head(piece)
            case "sized":
                end = min(self._missing, len(piece))
                self._missing -= end
                if not self._missing:
                    self.begin()
                return end
            case "chunks" if _LAST_CHUNK not in self._before[-1:] + piece:
                self._before = piece[-2:]
                return len(piece)
            case "chunks" | "last chunks":
                self._section = "last chunks"
                return self._cut_at_blank_line(piece)
        return len(piece)

    def _cut_head(self, piece: bytes) -> int:
        length = len(self._head)
        self._head += piece
        blank = _BLANK_LINE.search(self._head, length)
        if blank is None:
            if len(self._head) > _LONGEST_HEAD:  # every parser has rejected it
                self._section = "endless"
            return len(piece)
        self._read_head(bytes(self._head[: blank.end()]))
        return blank.end() - length

    def _read_head(self, head: bytes) -> None:
        """Store how the end of the body is found (RFC 9112, section 6.3)."""
        status, length = _STATUS.match(head), _LENGTH.search(head)
        code = status.group(1) if status is not None else b""
        self.begin()
        if code in _WITHOUT_BODY or (code.startswith(b"1") and code != _UPGRADED):
            return
        if _CHUNKED.search(head):
            self._section = "chunks"
        elif length is None:
            self._section = "endless"
        elif missing := int(length.group(1)):
            self._section, self._missing = "sized", missing

    def _cut_at_blank_line(self, piece: bytes) -> int:
        length = len(self._before)
        blank = _BLANK_LINE.search(self._before + piece, length)
        end = len(piece) if blank is None else blank.end() - length
        self._before = (self._before + piece[:end])[-2:]
        return end
