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
        loop,
        mcp,
        providers,
        repair,
        resolvers,
        schema,
        session_tools,
        testing,
        text_tagged,
        tool_calls,
        traces,
        translate,
    )
    from toolwire.accumulation import Accumulator, accumulate, events_of
    from toolwire.catalogue import cost
    from toolwire.clearing import Clearing
    from toolwire.codetools import CodeTools
    from toolwire.dialects import dialect
    from toolwire.errors import (
        LossyTranslation,
        NoStructuredOutput,
        ToolError,
        ToolwireError,
        UnknownDialect,
        UnknownTool,
    )
    from toolwire.execution import Cancel, Limits, execute
    from toolwire.factory import LLMFactory, LLMResponse
    from toolwire.failures import ProviderError
    from toolwire.functions import tool
    from toolwire.ledger import Quirks
    from toolwire.loop import LoopLimits, tool_loop
    from toolwire.preview import Preview, partial_json
    from toolwire.providers import Provider
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
    from toolwire.sync import Client, generate, stream
    from toolwire.traces import Trace

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
    "Clearing",
    "Client",
    "CodeTools",
    "Composition",
    "Context",
    "Document",
    "Encoded",
    "Error",
    "ErrorEnd",
    "ErrorReply",
    "Event",
    "Image",
    "LLMFactory",
    "LLMResponse",
    "Limits",
    "LoopLimits",
    "Loss",
    "LossyTranslation",
    "Message",
    "MessageDelta",
    "MessageEnd",
    "MessageStart",
    "NoStructuredOutput",
    "Opaque",
    "OpaqueDelta",
    "Output",
    "PartEnd",
    "PartStart",
    "Plan",
    "Preview",
    "Provider",
    "ProviderError",
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
    "Trace",
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
    "generate",
    "loop",
    "mcp",
    "partial_json",
    "prefixed",
    "providers",
    "renamed",
    "repair",
    "resolvers",
    "schema",
    "session_tools",
    "stream",
    "testing",
    "text_tagged",
    "tool",
    "tool_calls",
    "tool_loop",
    "traces",
    "translate",
]

_LAZY = {
    "Accumulator": "toolwire.accumulation",
    "accumulate": "toolwire.accumulation",
    "events_of": "toolwire.accumulation",
    "cost": "toolwire.catalogue",
    "Clearing": "toolwire.clearing",
    "CodeTools": "toolwire.codetools",
    "dialect": "toolwire.dialects",
    "LossyTranslation": "toolwire.errors",
    "NoStructuredOutput": "toolwire.errors",
    "ToolError": "toolwire.errors",
    "ToolwireError": "toolwire.errors",
    "UnknownDialect": "toolwire.errors",
    "UnknownTool": "toolwire.errors",
    "Cancel": "toolwire.execution",
    "Limits": "toolwire.execution",
    "execute": "toolwire.execution",
    "LLMFactory": "toolwire.factory",
    "LLMResponse": "toolwire.factory",
    "ProviderError": "toolwire.failures",
    "tool": "toolwire.functions",
    "Quirks": "toolwire.ledger",
    "LoopLimits": "toolwire.loop",
    "tool_loop": "toolwire.loop",
    "Preview": "toolwire.preview",
    "partial_json": "toolwire.preview",
    "Provider": "toolwire.providers",
    "AgentResolver": "toolwire.resolvers",
    "Composition": "toolwire.resolvers",
    "Plan": "toolwire.resolvers",
    "Step": "toolwire.resolvers",
    "ToolResolver": "toolwire.resolvers",
    "approved": "toolwire.resolvers",
    "filtered": "toolwire.resolvers",
    "prefixed": "toolwire.resolvers",
    "renamed": "toolwire.resolvers",
    "Client": "toolwire.sync",
    "generate": "toolwire.sync",
    "stream": "toolwire.sync",
    "Trace": "toolwire.traces",
}
_MODULES = frozenset(
    [
        *"aio catalogue codec declarations errors loop mcp providers".split(),
        *"repair resolvers schema session_tools testing text_tagged tool_calls traces translate".split(),
    ]
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
