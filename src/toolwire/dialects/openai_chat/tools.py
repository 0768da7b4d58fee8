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
    left, is_custom = inner.copy(), key == "custom"
    name, is_escaped = WIRE.restore_name(left.pop("name"))
    description = take(left, "description", str)
    parameters, strict = (None, None) if is_custom else (take(left, "parameters", dict), take(left, "strict", bool))
    grammar = take(left, "format", dict) if is_custom else None
    if left:
        unparsed[key] = left
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
        ledger.lose("opaque.custom", "custom_tool", "this server takes no free text")
        del body["custom"]
    return body


def _encode_function(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    inner = begin_tool(tool, ledger)
    lose_format(tool, ledger)
    if tool.plain_parameters is not None:
        inner["parameters"] = tool.plain_parameters if made_by(tool.opaque, DIALECT) else _fit(tool, ledger)
    if tool.strict is not None:
        inner["strict"] = tool.strict
    return inner


def _fit(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    schema: Any = tool.plain_parameters
    return ledger.fit(schema, "openai-strict") if tool.strict else ledger.fit_root(schema, "openai")


def _encode_custom(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    inner = begin_tool(tool, ledger)
    ledger.lose_fields(tool, "custom_tool", "parameters", "strict")
    if tool.plain_format is not None:
        inner["format"] = tool.plain_format
    return inner


def decode_choice(value: Any) -> Understood | None:
    """Read a `tool_choice`, in each of its forms.

    `any` is Mistral's word (https://docs.mistral.ai/api/endpoint/chat).
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
            left = {**value, "allowed_tools": {**value["allowed_tools"], "tools": others}} if others else ABSENT
            return replace(_named(names, mode, keep=True), unparsed=left) if names else None
    return None


def _named(names: list[Any], mode: Any = "required", *, keep: bool = False) -> Understood:
    """Return a choice of these tools. One that had an escaped name is stored as written, as is any if `keep` is set."""
    restored = [WIRE.restore_name(name) for name in names]
    choice = ToolChoice(mode, [name for name, _ in restored])
    return Understood({"tool_choice": choice}, keep=keep or any(is_escaped for _, is_escaped in restored))


def _allowed_name(tool: Any) -> str | None:
    match tool:
        case {"type": "function", "function": {"name": str(name)}} | {"type": "custom", "custom": {"name": str(name)}}:
            return name
    return None


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Write the choice among tools; a narrowed one lists the tools that are allowed."""
    is_native = made_by(request.opaque, DIALECT)
    if _LEGACY in shared_spelling_of(request.opaque, DIALECT, RequestSpelling).settings:
        return ABSENT

    def entry(key: str, name: str) -> Any:
        return {"type": key, key: {"name": ledger.names.choose(name, own=is_native)}}

    return write_choice(request, ledger, entry, lambda **allowed: {"allowed_tools": allowed})


_LEGACY = "function_call"


def decode_legacy_choice(value: Any) -> Understood | None:
    """Read the deprecated choice among `functions`."""
    match value:
        case "auto" | "none":
            return Understood({"tool_choice": ToolChoice(value)}, keep=True)
        case {"name": str(name)} if len(value) == 1:
            return _named([name], keep=True)
    return None


def encode_legacy_choice(request: Request, ledger: Ledger) -> Any:
    """Write the choice where it came in the deprecated form."""
    choice = request.tool_choice
    if choice is None or _LEGACY not in shared_spelling_of(request.opaque, DIALECT, RequestSpelling).settings:
        return ABSENT
    if choice.names is None and choice.mode != "required":
        return choice.mode
    if choice.names is not None and len(choice.names) == 1 and choice.mode == "required":
        return {"name": ledger.names.choose(choice.names[0], own=True)}
    ledger.lose("tool_choice", "tool_choice", "the deprecated `function_call` cannot say it")
    return ABSENT
