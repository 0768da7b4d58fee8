"""Tool declarations and the choice among them, in Chat Completions."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_chat.parts import DIALECT, WIRE
from toolwire.encoding.ledger import Ledger, made_by, shared_spelling_of, spelling_of, take, unparsed_of
from toolwire.encoding.request_fields import ABSENT
from toolwire.encoding.settings import Understood
from toolwire.encoding.tools import (
    as_function,
    begin_tool,
    encode_tools,
    lose_format,
    lose_metadata,
    read_allowed,
    unparsed_tool,
    write_choice,
)
from toolwire.types import Request, ServerTool, Tool, ToolChoice
from toolwire.types.spelling import RequestSpelling
from toolwire.types.spelling.openai_chat import ChatToolSpelling

# The error `array_above_max_length` of OpenAI's server (seen 2026-03-26).
TOOL_LIMIT = 128


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration. The server runs a tool that is neither a function nor a custom tool."""
    key: Any = body.get("type", "function") if type(body) is dict else None
    inner = body.get(key) if key in ("function", "custom") else None
    if type(inner) is not dict or type(inner.get("name")) is not str:
        return unparsed_tool(body, DIALECT)
    unparsed = body.copy()
    del unparsed[key]
    has_no_type = unparsed.pop("type", None) is None
    return _decode_inner(key, inner, unparsed, ChatToolSpelling(has_no_type=has_no_type))


def _decode_inner(key: str, inner: dict[str, Any], unparsed: dict[str, Any], spelling: ChatToolSpelling) -> Tool:
    """Read a tool from the object `inner`, and add its other keys to `unparsed` under `key`."""
    inner_unparsed, is_custom = inner.copy(), key == "custom"
    name, is_escaped = WIRE.restore_name(inner_unparsed.pop("name"))
    description = take(inner_unparsed, "description", str)
    parameters, strict = (
        (None, None) if is_custom else (take(inner_unparsed, "parameters", dict), take(inner_unparsed, "strict", bool))
    )
    grammar = take(inner_unparsed, "format", dict) if is_custom else None
    if inner_unparsed:
        unparsed[key] = inner_unparsed
    opaque = WIRE.mark(unparsed, replace(spelling, is_escaped=is_escaped))
    return Tool(name, description, parameters, strict=strict, custom=is_custom, format=grammar, opaque=opaque)


def decode_functions(bodies: list[Any]) -> list[Tool] | None:
    """Read the deprecated `functions`. Return None if one of them is not a function."""
    tools = []
    for body in bodies:
        if type(body) is not dict or type(body.get("name")) is not str:
            return None
        tools.append(_decode_inner("functions", body, {}, ChatToolSpelling(is_deprecated_function=True)))
    return tools


def write_tools(tools: Iterable[Tool | ServerTool], ledger: Ledger) -> dict[str, Any]:
    """Write the declarations of `tools`, under `tools` and the deprecated `functions`."""
    written = encode_tools(tools, ledger, _encode_tool)
    functions = [body for body in written if type(body) is _Function]
    if not functions:
        return {"tools": written} if written else {}
    others = [body for body in written if type(body) is not _Function]
    return {"tools": others, "functions": functions} if others else {"functions": functions}


class _Function(dict[str, Any]):
    """A declaration of the deprecated `functions`."""


def _encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration. A custom tool is written as a function if the server has no custom tools."""
    spelling = spelling_of(tool.opaque, ChatToolSpelling)
    if spelling.is_deprecated_function:
        return _Function(unparsed_of(tool.opaque, DIALECT, "functions") | _encode_function(tool, ledger))
    if tool.custom and not ledger.quirks.custom_tools:
        return without_custom(_encode_tool(as_function(tool, ledger), ledger), ledger)
    key = "custom" if tool.custom else "function"
    inner = _encode_custom(tool, ledger) if tool.custom else _encode_function(tool, ledger)
    lose_metadata(tool, ledger)
    body: dict[str, Any] = {} if spelling.has_no_type else {"type": key}
    body[key] = unparsed_of(tool.opaque, DIALECT, key) | inner
    return ledger.finish(body, tool)


def without_custom(body: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Report the loss of the unparsed keys of a custom tool or of its call, which is written as a function."""
    if "custom" in body:
        ledger.lose("opaque.custom", "custom_tool", "this server has no custom tools")
        del body["custom"]
    return body


def _encode_function(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    inner = begin_tool(tool, ledger)
    lose_format(tool, ledger)
    if tool.plain_parameters is not None:
        inner["parameters"] = tool.plain_parameters if made_by(tool.opaque, DIALECT) else _fit_parameters(tool, ledger)
    if tool.strict is not None:
        inner["strict"] = tool.strict
    return inner


def _fit_parameters(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Return the parameters of a tool of another wire as OpenAI's server accepts them."""
    schema: Any = tool.plain_parameters
    return ledger.fit(schema, "openai-strict") if tool.strict else ledger.fit_root(schema, "openai")


def _encode_custom(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    inner = begin_tool(tool, ledger)
    ledger.lose_fields(tool, "custom_tool", "parameters", "strict")
    if tool.plain_format is not None:
        inner["format"] = tool.plain_format
    return inner


def decode_choice(value: Any) -> Understood | None:
    """Read a `tool_choice`. Return None if it is not understood.

    Mistral calls "required" `any` (https://docs.mistral.ai/api/endpoint/chat).
    """
    match value:
        case "auto" | "none" | "required":
            return Understood({"tool_choice": ToolChoice(value)})
        case "any":
            return Understood({"tool_choice": ToolChoice("required")}, keep=True)
        case {"type": "function", "function": {"name": str(name)}} if len(value) == 2 and len(value["function"]) == 1:
            return _named([name])
        case {"type": "custom", "custom": {"name": str(name)}}:
            return _named([name], keep=True)
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(tools)}}:
            names, others = read_allowed(tools, _allowed_name)
            unparsed = {**value, "allowed_tools": {**value["allowed_tools"], "tools": others}} if others else ABSENT
            return replace(_named(names, mode, keep=True), unparsed=unparsed) if names else None
    return None


def _named(names: list[Any], mode: Any = "required", *, keep: bool = False) -> Understood:
    """Return a choice of these tools. Its spelling is stored if a name was escaped, or if `keep` is true."""
    restored = [WIRE.restore_name(name) for name in names]
    choice = ToolChoice(mode, [name for name, _ in restored])
    return Understood({"tool_choice": choice}, keep=keep or any(is_escaped for _, is_escaped in restored))


def _allowed_name(tool: Any) -> str | None:
    """Return the name of a tool in `allowed_tools`, or None if it is no tool of the client."""
    match tool:
        case {"type": "function", "function": {"name": str(name)}} | {"type": "custom", "custom": {"name": str(name)}}:
            return name
    return None


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Write the `tool_choice`. A choice of several tools lists the allowed ones."""
    is_native = made_by(request.opaque, DIALECT)
    if _FUNCTION_CALL in shared_spelling_of(request.opaque, DIALECT, RequestSpelling).settings:
        return ABSENT

    def entry(key: str, name: str) -> Any:
        return {"type": key, key: {"name": ledger.names.choose(name, is_native=is_native)}}

    return write_choice(request, ledger, entry, lambda **allowed: {"allowed_tools": allowed})


_FUNCTION_CALL = "function_call"


def decode_deprecated_choice(value: Any) -> Understood | None:
    """Read the deprecated `function_call`, which chooses among `functions`."""
    match value:
        case "auto" | "none":
            return Understood({"tool_choice": ToolChoice(value)}, keep=True)
        case {"name": str(name)} if len(value) == 1:
            return _named([name], keep=True)
    return None


def encode_deprecated_choice(request: Request, ledger: Ledger) -> Any:
    """Write the choice as the deprecated `function_call`, if the client sent it as that."""
    choice = request.tool_choice
    if choice is None or _FUNCTION_CALL not in shared_spelling_of(request.opaque, DIALECT, RequestSpelling).settings:
        return ABSENT
    if choice.names is None and choice.mode != "required":
        return choice.mode
    if choice.names is not None and len(choice.names) == 1 and choice.mode == "required":
        return {"name": ledger.names.choose(choice.names[0], is_native=True)}
    ledger.lose("tool_choice", "tool_choice", "the deprecated `function_call` has no such choice")
    return ABSENT
