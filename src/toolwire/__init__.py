"""toolwire speaks every LLM's tool-calling format, loses nothing in silence, and runs the tools.

The canonical types are here; everything else is imported when it is first used.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from toolwire.types import (
    Audio,
    Cache,
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    Citation,
    CitationDelta,
    Context,
    Document,
    Encoded,
    Error,
    ErrorEnd,
    ErrorReply,
    Event,
    Image,
    Loss,
    Message,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    Output,
    PartEnd,
    PartStart,
    Refusal,
    RefusalDelta,
    Request,
    Response,
    ServerTool,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    UsageDelta,
)

if _TYPE_CHECKING:
    from toolwire import catalogue, codec, errors, repair, schema, translate
    from toolwire.accumulation import Accumulator, accumulate, events_of
    from toolwire.catalogue import cost
    from toolwire.dialects import dialect
    from toolwire.errors import LossyTranslation, ToolwireError, UnknownDialect
    from toolwire.ledger import Quirks
    from toolwire.preview import Preview, partial_json

__all__ = [
    "Accumulator",
    "Audio",
    "Cache",
    "CallDelta",
    "CallEnd",
    "CallStart",
    "Choice",
    "ChoiceEnd",
    "Citation",
    "CitationDelta",
    "Context",
    "Document",
    "Encoded",
    "Error",
    "ErrorEnd",
    "ErrorReply",
    "Event",
    "Image",
    "Loss",
    "LossyTranslation",
    "Message",
    "MessageDelta",
    "MessageEnd",
    "MessageStart",
    "Opaque",
    "OpaqueDelta",
    "Output",
    "PartEnd",
    "PartStart",
    "Preview",
    "Quirks",
    "Refusal",
    "RefusalDelta",
    "Request",
    "Response",
    "ServerTool",
    "ServerToolCall",
    "ServerToolResult",
    "SignatureDelta",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
    "ToolwireError",
    "UnknownDialect",
    "Usage",
    "UsageDelta",
    "accumulate",
    "catalogue",
    "codec",
    "cost",
    "dialect",
    "errors",
    "events_of",
    "partial_json",
    "repair",
    "schema",
    "translate",
]

_LAZY = {
    "Accumulator": "toolwire.accumulation",
    "accumulate": "toolwire.accumulation",
    "events_of": "toolwire.accumulation",
    "Preview": "toolwire.preview",
    "partial_json": "toolwire.preview",
    "LossyTranslation": "toolwire.errors",
    "Quirks": "toolwire.ledger",
    "ToolwireError": "toolwire.errors",
    "UnknownDialect": "toolwire.errors",
    "cost": "toolwire.catalogue",
    "dialect": "toolwire.dialects",
}
_MODULES = ("catalogue", "codec", "errors", "repair", "schema", "translate")


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _importlib.import_module(f"toolwire.{name}")
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module 'toolwire' has no attribute {name!r}")
    return getattr(_importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
