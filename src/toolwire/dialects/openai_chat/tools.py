"""Tool declarations and the choice among them, in Chat Completions."""

from collections.abc import Iterable
from typing import Any

from toolwire.dialects.openai_chat.parts import DIALECT, WIRE, finish
from toolwire.encoding.ledger import Ledger, form_of, made_by, take
from toolwire.encoding.settings import ABSENT, Understood
from toolwire.types import Request, ServerTool, Tool, ToolChoice

TOOL_LIMIT = 128


def decode_tools(bodies: list[Any]) -> list[Tool | ServerTool]:
    """Read the declarations of a request."""
    return [decode_tool(body) for body in bodies]


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration; what is neither a function nor a custom tool is the server's own."""
    inner = body.get("function") if type(body) is dict and len(body) == 2 and body.get("type") == "function" else None
    if type(inner) is dict and type(name := inner.get("name")) is str and "__tw" not in name:
        description, parameters = inner.get("description"), inner.get("parameters")
        if len(inner) == 3 and type(description) is str and type(parameters) is dict:
            return Tool(name, description, parameters, opaque=WIRE.plain)
        return _make_tool(name, "function", {key: inner[key] for key in inner if key != "name"}, {}, {})
    match body:
        case {"type": "function", "function": {"name": str(name)} as inner}:
            key = "function"
        case {"type": "custom", "custom": {"name": str(name)} as inner}:
            key = "custom"
        case {"type": str(kind)}:
            return ServerTool(kind, DIALECT, body)
        case _:
            return ServerTool("", DIALECT, body)
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


def encode_tools(tools: Iterable[Tool | ServerTool], ledger: Ledger) -> dict[str, Any]:
    """Write the declarations under the keys where they belong."""
    body: dict[str, Any] = {}
    for place, tool in enumerate(tools):
        ledger.at = ("tools", place)
        if isinstance(tool, ServerTool):
            if tool.dialect == DIALECT:
                body.setdefault("tools", []).append(tool.value)
            else:
                ledger.lose("", "server_tool", f"only {tool.dialect} runs {tool.type}")
        elif form_of(tool.opaque, DIALECT).get("key") == "functions":
            left = tool.opaque.value.get("functions", {}) if tool.opaque else {}
            body.setdefault("functions", []).append({**left, **_encode_function(tool, ledger)})
        else:
            body.setdefault("tools", []).append(encode_tool(tool, ledger))
    ledger.at = ()
    return body


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    opaque = tool.opaque
    own = opaque is WIRE.plain
    if own or opaque is None or (not opaque.value and opaque.dialect != DIALECT):
        said = tool.description is not None and tool.parameters is not None
        if said and tool.strict is None and not (tool.custom or tool.cache or tool.metadata or tool.format):
            name = ledger.names.keep(tool.name) if own else ledger.names.write(tool.name)
            inner = {"name": name, "description": tool.description, "parameters": tool.parameters}
            return {"type": "function", "function": inner}
    return _encode_odd_tool(tool, ledger)


def _encode_odd_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    key = "custom" if tool.custom else "function"
    inner = _encode_custom(tool, ledger) if tool.custom else _encode_function(tool, ledger)
    mine = made_by(tool.opaque, DIALECT)
    if mine and isinstance(left := tool.opaque.value.get(key), dict):  # type: ignore[union-attr]
        inner = {**left, **inner}
    if tool.metadata:
        ledger.lose("metadata", "tool_metadata", "metadata stays here", severity="minor")
    return finish({"type": key, key: inner}, tool, ledger)


def _encode_name(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    mine = made_by(tool.opaque, DIALECT) and "escaped" not in form_of(tool.opaque, DIALECT)
    inner: dict[str, Any] = {"name": ledger.names.keep(tool.name) if mine else ledger.names.write(tool.name)}
    if tool.description is not None:
        inner["description"] = tool.description
    return inner


def _encode_function(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    inner = _encode_name(tool, ledger)
    ledger.lose_fields(tool, "custom_tool", "format")
    if tool.parameters is not None:
        inner["parameters"] = tool.parameters
        if tool.strict and not made_by(tool.opaque, DIALECT):
            inner["parameters"] = ledger.fit(tool.parameters, "openai-strict")
    if tool.strict is not None:
        inner["strict"] = tool.strict
    return inner


def _encode_custom(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    inner = _encode_name(tool, ledger)
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
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(tools)},
        }:
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
        case {"type": "function", "function": {"name": str(name)}} | {
            "type": "custom",
            "custom": {"name": str(name)},
        }:
            return name
    return None


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Write the choice among tools; a narrowed one lists the tools that are allowed."""
    choice = request.tool_choice
    if choice is None:
        return ABSENT
    if choice.names is None:
        return choice.mode
    if choice.mode == "none":
        ledger.lose("tool_choice.names", "tool_choice", "no tool may be called at all")
        return "none"
    mine = made_by(request.opaque, DIALECT)
    custom = {tool.name for tool in request.tools if isinstance(tool, Tool) and tool.custom}
    entries = []
    for name in choice.names:
        key = "custom" if name in custom else "function"
        entries.append({"type": key, key: {"name": ledger.names.choose(name, own=mine)}})
    if len(entries) == 1 and choice.mode == "required":
        return entries[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": entries}}
