"""toolwire speaks every LLM's tool-calling format, loses nothing in silence, and runs the tools.

Every public name stands here once, under the module that it comes from, and every public module with its file. The
canonical types are imported at once, everything else when it is first used. Type checkers read `__init__.pyi`, which
`make docs` writes.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.1.0"
_HOMES = {
    "types": (
        "AnyMessage Audio Cache CallDelta CallEnd CallStart Choice ChoiceEnd Citation CitationDelta Context Document "
        "Encoded Error ErrorEnd ErrorReply Event Image Loss Message MessageDelta MessageEnd MessageStart "
        "Opaque OpaqueDelta Output Part PartEnd PartStart Refusal RefusalDelta Request Response ServerTool "
        "ServerToolCall ServerToolResult SignatureDelta Text TextDelta Thinking ThinkingDelta Tool "
        "ToolCall ToolChoice ToolResult Usage UsageDelta"
    ),
    "client.clearing": "Clearing",
    "client.exchange": "Retries",
    "client.factory": "LLMFactory LLMProvider LLMResponse",
    "client.failures": "ProviderError",
    "client.settings": (
        "AnyChoice ChatSettings ClientOptions ClientSettings OnChunk OnEvent OnceSettings Prompt "
        "Providers RequestSettings RunEvent RunSettings StreamItem"
    ),
    "client.sync": "Client Conversation Stream conversation generate stream",
    "codetools": "CodeTools resolver resolver_fn",
    "dialects": "Dialect dialect",
    "encoding.quirk_options": "QuirkOptions",
    "encoding.quirks": "Quirks",
    "errors": "LossyTranslation NoStructuredOutput ToolError ToolwireError UnknownDialect UnknownTool",
    "loop": "Done LoopLimits tool_loop",
    "providers": "AnyProvider Capabilities Provider ProviderOptions",
    "providers.catalogue": "cost",
    "resolvers": (
        "AgentResolver AnyResolver Approve Composition Plan Resolver Step ToolResolver "
        "approved filtered prefixed renamed"
    ),
    "resolvers.effects": "Checkable Effects Happened NotYet Unknown checkable",
    "resolvers.execution": "Cancel LimitOptions Limits execute",
    "resolvers.functions": "FunctionTool ToolOptions tool",
    "resolvers.reading": "AnyTool Tools",
    "runs": "Run Runs",
    "streams.accumulation": "Accumulator accumulate events_of",
    "traces": "Scope Store Trace",
    "wire.partial_json": "Preview partial_json",
    "wire.transport": "Bounds Timeouts Transport",
    "waiting.call_keys": "CallKey",
    "waiting.results": "Ran",
}
_DOORS = {
    **{
        name: name
        for name in (
            "aio catalogue declarations errors loop mcp providers records resolvers schema testing text text_tagged "
            "tool_calls traces translate"
        ).split()
    },
    "codec": "translation.codec",
    "repair": "encoding.repair",
    "session_tools": "resolvers.session",
}
_HOME = {name: f"toolwire.{home}" for home, names in _HOMES.items() for name in names.split()}

# What needs an extra is not listed: `from toolwire import *` takes what is there.
_UNLISTED = {"Store"}
__all__ = sorted({*_HOME, *_DOORS} - _UNLISTED)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> _Any:
    if name in _HOME:
        value = getattr(_import_module(_HOME[name]), name)
    elif name in _DOORS:
        value = _import_module(f"toolwire.{_DOORS[name]}")
    else:
        raise AttributeError(f"module 'toolwire' has no attribute {name!r}")
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return __all__


for _name in _HOMES["types"].split():
    __getattr__(_name)
