"""The body of an answer, unpacked as it comes, and never beyond a limit.

Rules of this file:
- gzip is the one coding that is read, and it is read once. What is packed twice or otherwise is refused.
- However little comes, no more than a piece of it is unpacked at a time.
- What ends too early is an error, and so is what follows a packed body and is none.
"""

import zlib
from typing import Any

from toolwire.codetools.spelling import shown
from toolwire.errors import ToolError

PIECE_BYTES = 64 * 1024
MAX_MEMBERS = 1000
GZIP = zlib.MAX_WBITS | 16
CODINGS = {"": False, "identity": False, "gzip": True, "x-gzip": True}


class Unpacking:
    """The first bytes of a body, at most `limit`; `cut` says that there are more."""

    def __init__(self, coding: str, limit: int) -> None:
        packed = CODINGS.get(coding.strip().lower())
        if packed is None:
            raise ToolError(f"the content is packed as {shown(coding[:80])}, which is not read: only gzip is")
        self.packed, self.limit = packed, limit
        self.data = bytearray()
        self.cut = False
        self.member: Any = None
        self.members = 0

    def feed(self, piece: bytes) -> None:
        """Take what came."""
        if self.packed:
            self._unpack(piece)
        else:
            self._add(piece)

    def _add(self, piece: bytes) -> None:
        left = self.limit - len(self.data)
        self.cut = self.cut or len(piece) > left
        self.data += piece[:left] if len(piece) > left else piece

    def _unpack(self, piece: bytes) -> None:
        while piece and not self.cut:
            if self.member is None:
                piece = self._begin(piece)
                continue
            try:
                self._add(self.member.decompress(piece, PIECE_BYTES))
            except zlib.error:
                raise ToolError("the content is no proper gzip, so it was not read") from None
            piece = self.member.unused_data if self.member.eof else self.member.unconsumed_tail
            if self.member.eof:
                self.member = None

    def _begin(self, piece: bytes) -> bytes:
        """Begin a part that is packed on its own; zeros may stand between two."""
        piece = piece.lstrip(b"\0") if self.members else piece
        if piece:
            self.member = zlib.decompressobj(GZIP)
            self.members += 1
        if self.members > MAX_MEMBERS:
            raise ToolError(f"the content is packed in more than {MAX_MEMBERS} parts, which is not read")
        return piece

    def finish(self) -> None:
        """Say that nothing more comes."""
        if self.member is not None and not self.cut:
            raise ToolError("the content ends too early: the gzip is not whole, so it was not read")
