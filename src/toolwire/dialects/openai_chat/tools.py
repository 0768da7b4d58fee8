"""Tool declarations and the choice among them, in Chat Completions."""

from collections.abc import Iterable
from typing import Any

from toolwire.dialects.openai_chat.parts import DIALECT, WIRE
from toolwire.encoding import short_ways
from toolwire.encoding.ledger import Ledger, form_of, left_of, made_by, take
from toolwire.encoding.settings import Understood
from toolwire.encoding.tools import begin_tool, encode_tools, keep_tool, lose_metadata, write_choice
from toolwire.types import Request, ServerTool, Tool, ToolChoice

# The server's error `array_above_max_length` (seen 2026-03-26).
TOOL_LIMIT = 128


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration; what is neither a function nor a custom tool is the server's own."""
    inner = body.get("function") if type(body) is dict and len(body) == 2 and body.get("type") == "function" else None
    if type(inner) is dict and (tool := short_ways.read_tool(inner, "parameters", WIRE)) is not None:
        return tool
    match body:
        case {"type": "function", "function": {"name": str(name)} as inner}:
            key = "function"
        case {"type": "custom", "custom": {"name": str(name)} as inner}:
            key = "custom"
        case _:
            return keep_tool(body, DIALECT)
    form: dict[str, Any] = {}
    rest, left = body.copy(), inner.copy()
    del rest[key], rest["type"], left["name"]
    return _make_tool(WIRE.read_name(name, form), key, left, rest, form)


def _make_tool(name: str, key: str, left: dict[str, Any], rest: dict[str, Any], form: dict[str, Any]) -> Tool:
    description = take(left, "description", str)
    if key == "custom":
        fields: dict[str, Any] = {"custom": True, "format": take(left, "format", dict)}
    else:
        fields = {"parameters": take(left, "parameters", dict), "strict": take(left, "strict", bool)}
    if left:
        rest[key] = left
    return Tool(name, description, opaque=WIRE.own(rest, form), **fields)


def decode_functions(bodies: list[Any]) -> list[Tool] | None:
    """Read the deprecated `functions`, or None where one of them is none."""
    tools = []
    for body in bodies:
        if type(body) is not dict or type(body.get("name")) is not str:
            return None
        left, form = body.copy(), {"key": "functions"}
        tools.append(_make_tool(WIRE.read_name(left.pop("name"), form), "functions", left, {}, form))
    return tools


def write_tools(tools: Iterable[Tool | ServerTool], ledger: Ledger) -> dict[str, Any]:
    """Write the declarations under the keys where they belong."""
    bodies = encode_tools(tools, ledger, encode_tool)
    functions = [dict(body) for body in bodies if type(body) is _LegacyFunction]
    if functions:
        bodies = [body for body in bodies if type(body) is not _LegacyFunction]
    written = {"tools": bodies} if bodies else {}
    return {**written, "functions": functions} if functions else written


class _LegacyFunction(dict[str, Any]):
    """A declaration that was read from the deprecated `functions`."""


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    if tool.strict is None and (said := short_ways.write_tool(tool, ledger)) is not None:
        return {"type": "function", "function": said}
    if form_of(tool.opaque, DIALECT).get("key") == "functions":
        return _LegacyFunction(left_of(tool.opaque, DIALECT, "functions") | _encode_function(tool, ledger))
    key = "custom" if tool.custom else "function"
    inner = _encode_custom(tool, ledger) if tool.custom else _encode_function(tool, ledger)
    lose_metadata(tool, ledger)
    return ledger.finish({"type": key, key: left_of(tool.opaque, DIALECT, key) | inner}, tool)


def _encode_function(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    inner = begin_tool(tool, ledger)
    ledger.lose_fields(tool, "custom_tool", "format")
    if tool.parameters is not None:
        inner["parameters"] = tool.parameters
        if tool.strict and not made_by(tool.opaque, DIALECT):
            inner["parameters"] = ledger.fit(tool.parameters, "openai-strict")
    if tool.strict is not None:
        inner["strict"] = tool.strict
    return inner


def _encode_custom(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    inner = begin_tool(tool, ledger)
    ledger.lose_fields(tool, "custom_tool", "parameters", "strict")
    if tool.format is not None:
        inner["format"] = tool.format
    return inner


def decode_choice(value: Any) -> Understood | None:
    """Read a `tool_choice`, in each of its forms."""
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
            names = [_allowed_name(tool) for tool in tools]
            if names and None not in names:
                return _named(names, mode, keep=True)
    return None


def _named(names: list[Any], mode: Any = "required", *, keep: bool = False) -> Understood:
    form: dict[str, Any] = {}
    read = [WIRE.read_name(name, form) for name in names]
    return Understood({"tool_choice": ToolChoice(mode, read)}, keep=keep or bool(form))


def _allowed_name(tool: Any) -> str | None:
    match tool:
        case {"type": "function", "function": {"name": str(name)}} | {"type": "custom", "custom": {"name": str(name)}}:
            return name
    return None


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Write the choice among tools; a narrowed one lists the tools that are allowed."""
    return write_choice(request, ledger, _encode_chosen, "allowed_tools")


def _encode_chosen(request: Request, ledger: Ledger, key: str, name: str) -> Any:
    return {"type": key, key: {"name": ledger.names.choose(name, own=made_by(request.opaque, DIALECT))}}
