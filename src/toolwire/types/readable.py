"""Classes as which JSON is read.

Rules of this file:
- A class is looked at while a module is imported, which one thread does alone. msgspec (0.22.0, 2026-11-23) keeps what
  it knows of a class while it still looks at it: two threads that are the first to read as it end the process.
- The canonical classes are looked at here, because more than one module reads as them.
"""

from typing import TypeVar

import msgspec

from toolwire.types.answer import Error, Response
from toolwire.types.conversation import Message, Request
from toolwire.types.parts import Opaque, ToolResult

_Kind = TypeVar("_Kind")


def readable(kind: _Kind) -> _Kind:
    """Give a class that msgspec has looked at."""
    msgspec.json.Decoder(kind)
    return kind


for _one in (Error, Message, Opaque, Request, Response, ToolResult):
    readable(_one)
