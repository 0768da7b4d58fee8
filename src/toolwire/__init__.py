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
    from toolwire import (
        aio,
        catalogue,
        codec,
        declarations,
        errors,
        mcp,
        repair,
        resolvers,
        schema,
        session_tools,
        translate,
    )
    from toolwire.accumulation import Accumulator, accumulate, events_of
    from toolwire.catalogue import cost
    from toolwire.dialects import dialect
    from toolwire.errors import LossyTranslation, ToolError, ToolwireError, UnknownDialect, UnknownTool
    from toolwire.execution import Cancel, Limits, execute
    from toolwire.functions import tool
    from toolwire.ledger import Quirks
    from toolwire.preview import Preview, partial_json
    from toolwire.resolvers import (
        AgentResolver,
        Composition,
        Plan,
        Step,
        ToolResolver,
        approved,
        filtered,
        prefixed,
        renamed,
    )

__all__ = [
    "Accumulator",
    "AgentResolver",
    "Audio",
    "Cache",
    "CallDelta",
    "CallEnd",
    "CallStart",
    "Cancel",
    "Choice",
    "ChoiceEnd",
    "Citation",
    "CitationDelta",
    "Composition",
    "Context",
    "Document",
    "Encoded",
    "Error",
    "ErrorEnd",
    "ErrorReply",
    "Event",
    "Image",
    "Limits",
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
    "Plan",
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
    "Step",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolError",
    "ToolResolver",
    "ToolResult",
    "ToolwireError",
    "UnknownDialect",
    "UnknownTool",
    "Usage",
    "UsageDelta",
    "accumulate",
    "aio",
    "approved",
    "catalogue",
    "codec",
    "cost",
    "declarations",
    "dialect",
    "errors",
    "events_of",
    "execute",
    "filtered",
    "mcp",
    "partial_json",
    "prefixed",
    "renamed",
    "repair",
    "resolvers",
    "schema",
    "session_tools",
    "tool",
    "translate",
]

_LAZY = {
    "Accumulator": "toolwire.accumulation",
    "accumulate": "toolwire.accumulation",
    "events_of": "toolwire.accumulation",
    "cost": "toolwire.catalogue",
    "dialect": "toolwire.dialects",
    "LossyTranslation": "toolwire.errors",
    "ToolError": "toolwire.errors",
    "ToolwireError": "toolwire.errors",
    "UnknownDialect": "toolwire.errors",
    "UnknownTool": "toolwire.errors",
    "Cancel": "toolwire.execution",
    "Limits": "toolwire.execution",
    "execute": "toolwire.execution",
    "tool": "toolwire.functions",
    "Quirks": "toolwire.ledger",
    "Preview": "toolwire.preview",
    "partial_json": "toolwire.preview",
    "AgentResolver": "toolwire.resolvers",
    "Composition": "toolwire.resolvers",
    "Plan": "toolwire.resolvers",
    "Step": "toolwire.resolvers",
    "ToolResolver": "toolwire.resolvers",
    "approved": "toolwire.resolvers",
    "filtered": "toolwire.resolvers",
    "prefixed": "toolwire.resolvers",
    "renamed": "toolwire.resolvers",
}
_MODULES = frozenset(
    "aio catalogue codec declarations errors mcp repair resolvers schema session_tools translate".split()
)


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _importlib.import_module(f"toolwire.{name}")
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module 'toolwire' has no attribute {name!r}")
    return getattr(_importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
