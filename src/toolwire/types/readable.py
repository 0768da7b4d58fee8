"""Classes into which JSON is parsed, prepared so that any thread may use them.

Rules of this file:
- msgspec (0.22.0, 2026-11-23) stores its information about a class before that information is complete. If two threads
  are the first to parse into the class, the process crashes. So each class is prepared while its module is imported,
  which only one thread does.
- The canonical classes are prepared here, because more than one module parses into them.
"""

from typing import TypeVar

import msgspec

from toolwire.types.answer import Error, Response
from toolwire.types.conversation import Message, Request
from toolwire.types.parts import Opaque, ToolResult

_Class = TypeVar("_Class")


def readable(value_type: _Class) -> _Class:
    """Prepare `value_type`, so that any thread may parse JSON into it, and return it."""
    msgspec.json.Decoder(value_type)
    return value_type


for _value_type in (Error, Message, Opaque, Request, Response, ToolResult):
    readable(_value_type)
