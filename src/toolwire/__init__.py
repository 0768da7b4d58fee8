"""toolwire speaks every LLM's tool-calling format, loses nothing in silence, and runs the tools.

Every public name stands here once, under the module that it comes from. The canonical types are imported at
once, everything else when it is first used. Type checkers read `__init__.pyi`, which `make docs` writes.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

_HOMES = {
    "types": (
        "Audio Cache CallDelta CallEnd CallStart Choice ChoiceEnd Citation CitationDelta Context Document "
        "Encoded Error ErrorEnd ErrorReply Event Image Loss Message MessageDelta MessageEnd MessageStart "
        "Opaque OpaqueDelta Output PartEnd PartStart Refusal RefusalDelta Request Response ServerTool "
        "ServerToolCall ServerToolResult SignatureDelta Text TextDelta Thinking ThinkingDelta Tool "
        "ToolCall ToolChoice ToolResult Usage UsageDelta"
    ),
    "client.clearing": "Clearing",
    "client.factory": "LLMFactory LLMResponse",
    "client.failures": "ProviderError",
    "client.sync": "Client generate stream",
    "codetools": "CodeTools",
    "dialects": "dialect",
    "encoding.ledger": "Quirks",
    "errors": "LossyTranslation NoStructuredOutput ToolError ToolwireError UnknownDialect UnknownTool",
    "loop": "LoopLimits tool_loop",
    "providers": "Provider",
    "providers.catalogue": "cost",
    "resolvers": "AgentResolver Composition Plan Step ToolResolver approved filtered prefixed renamed",
    "resolvers.execution": "Cancel Limits execute",
    "resolvers.functions": "tool",
    "streams.accumulation": "Accumulator accumulate events_of",
    "traces": "Trace",
    "wire.partial_json": "Preview partial_json",
}
_DOORS = (
    "aio catalogue codec declarations errors loop mcp providers repair resolvers schema session_tools "
    "testing text text_tagged tool_calls traces translate"
)
_HOME = {name: f"toolwire.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_HOME, *_DOORS.split()])  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> _Any:
    if name in _HOME:
        value = getattr(_import_module(_HOME[name]), name)
    elif name in _DOORS.split():
        value = _import_module(f"toolwire.{name}")
    else:
        raise AttributeError(f"module 'toolwire' has no attribute {name!r}")
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return __all__


for _name in _HOMES["types"].split():
    __getattr__(_name)
