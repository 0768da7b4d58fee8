"""toolwire speaks every LLM's tool-calling format, loses nothing in silence, and runs the tools.

The canonical types are here; everything else is imported when it is first used.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from toolwire.types import (
    Audio,
    Cache,
    Choice,
    Citation,
    Context,
    Document,
    Encoded,
    Error,
    ErrorReply,
    Image,
    Loss,
    Message,
    Opaque,
    Output,
    Refusal,
    Request,
    Response,
    ServerTool,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)

if _TYPE_CHECKING:
    from toolwire import catalogue, codec, errors, repair, schema, translate
    from toolwire.catalogue import cost
    from toolwire.dialects import dialect
    from toolwire.errors import LossyTranslation, ToolwireError, UnknownDialect
    from toolwire.ledger import Quirks

__all__ = [
    "Audio",
    "Cache",
    "Choice",
    "Citation",
    "Context",
    "Document",
    "Encoded",
    "Error",
    "ErrorReply",
    "Image",
    "Loss",
    "LossyTranslation",
    "Message",
    "Opaque",
    "Output",
    "Quirks",
    "Refusal",
    "Request",
    "Response",
    "ServerTool",
    "ServerToolCall",
    "ServerToolResult",
    "Text",
    "Thinking",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
    "ToolwireError",
    "UnknownDialect",
    "Usage",
    "catalogue",
    "codec",
    "cost",
    "dialect",
    "errors",
    "repair",
    "schema",
    "translate",
]

_LAZY = {
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
