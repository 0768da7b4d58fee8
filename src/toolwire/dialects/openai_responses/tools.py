"""Tool declarations, the choice among them, and the items of tools that the server runs itself.

Rules of this file:
- A function without `strict` is tried strictly by the server, so a tool from elsewhere says which it is.
- What Chat Completions nests is flat here: the name of a choice, the grammar of a custom tool.
- A tool of the server is told by its item's type: `web_search_call` calls `web_search`; where the item has a
  name of its own (`mcp_call`), that is the tool's. What an item holds beside call and result is replayed.
"""

from typing import Any

from toolwire.dialects.openai_responses.parts import DIALECT, WIRE, lose_cache
from toolwire.encoding.ledger import Ledger, form_of, kind_of_part, made_by, take
from toolwire.encoding.settings import Understood
from toolwire.encoding.tools import begin_tool, keep_tool, lose_metadata, write_choice
from toolwire.types import Opaque, Part, Request, ServerTool, ServerToolCall, ServerToolResult, Tool, ToolChoice
from toolwire.wire.arguments import format_arguments, parse_arguments

_KINDS = frozenset({"function", "custom"})
_PLAIN_TOOL = 5
_ACTIONS = ("action", "operation", "arguments")
_INPUTS = {"code_interpreter_call": "code", "file_search_call": "queries", "program": "code"}
_OUTCOMES = {"program_output": "result", "tool_search_output": "tools"}


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration; what is neither a function nor a custom tool is the server's own."""
    if type(body) is dict and len(body) == _PLAIN_TOOL and body.get("type") == "function":
        name, description, parameters = body.get("name"), body.get("description"), body.get("parameters")
        strict = body.get("strict")
        if (
            type(name) is str
            and type(description) is str
            and type(parameters) is dict
            and type(strict) is bool
            and "__tw" not in name
        ):
            return Tool(name, description, parameters, strict=strict, opaque=WIRE.plain)
    return _decode_odd_tool(body)


def _decode_odd_tool(body: Any) -> Tool | ServerTool:
    kind = body.get("type") if type(body) is dict else None
    if type(kind) is not str or kind not in _KINDS or type(body.get("name")) is not str:
        return keep_tool(body, DIALECT)
    rest = body.copy()
    form: dict[str, Any] = {}
    del rest["type"]
    name = WIRE.read_name(rest.pop("name"), form)
    description = take(rest, "description", str)
    if kind == "custom":
        return Tool(name, description, custom=True, format=_take_format(rest), opaque=WIRE.own(rest, form))
    return Tool(
        name,
        description,
        take(rest, "parameters", dict),
        strict=take(rest, "strict", bool),
        opaque=WIRE.own(rest, form),
    )


def _take_format(rest: dict[str, Any]) -> dict[str, Any] | None:
    """Take the form of a custom tool's text; the model keeps a grammar in a map of its own."""
    match rest.get("format"):
        case {"type": "grammar", **grammar} if "grammar" not in grammar:
            del rest["format"]
            return {"type": "grammar", "grammar": grammar}
        case {"type": "text"}:
            return rest.pop("format")  # type: ignore[no-any-return]
    return None


def _encode_format(given: dict[str, Any]) -> dict[str, Any]:
    match given:
        case {"type": "grammar", "grammar": dict(grammar), **others}:
            return {"type": "grammar", **grammar, **others}
    return given


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    return _encode_plain_tool(tool, ledger) or _encode_odd_tool(tool, ledger)


def _encode_plain_tool(tool: Tool, ledger: Ledger) -> dict[str, Any] | None:
    """Write a function that says nothing beside what every wire says; None where there is more to it."""
    opaque, strict, description, parameters = tool.opaque, tool.strict, tool.description, tool.plain_parameters
    own = opaque is WIRE.plain
    bare = own or (not strict and (opaque is None or (not opaque.value and opaque.dialect != DIALECT)))
    if not bare or description is None or parameters is None or tool.custom or tool.plain_metadata:
        return None
    if tool.cache is not None or tool.plain_format:
        return None
    name = ledger.names.keep(tool.name) if own else ledger.names.write(tool.name)
    if strict is None and own:
        return {"type": "function", "name": name, "description": description, "parameters": parameters}
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
        "strict": strict or False,
    }


def _encode_odd_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    mine = made_by(tool.opaque, DIALECT)
    body = {"type": "custom" if tool.custom else "function", **begin_tool(tool, ledger)}
    if tool.custom:
        ledger.lose_fields(tool, "custom_tool", "parameters", "strict")
        if tool.plain_format is not None:
            body["format"] = _encode_format(tool.plain_format)
    elif mine:
        if tool.plain_parameters is not None:
            body["parameters"] = tool.plain_parameters
        if tool.strict is not None:
            body["strict"] = tool.strict
    else:
        body["parameters"] = _fit(tool, ledger)
        body["strict"] = bool(tool.strict)
        ledger.lose_fields(tool, "custom_tool", "format")
    lose_metadata(tool, ledger)
    lose_cache(tool, ledger)
    return body if tool.opaque is None else ledger.replay(body, tool.opaque)


def _fit(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    schema = tool.plain_parameters
    if schema is None:
        ledger.lose("parameters", "schema_absent", "a function takes an object here", "defaulted", "minor")
        closed = {"additionalProperties": False, "required": []} if tool.strict else {}
        return {"type": "object", "properties": {}, **closed}
    if not tool.strict:
        return schema
    return ledger.fit(schema, "openai-strict")


def decode_choice(value: Any) -> Understood | None:
    """Read a `tool_choice`, in each of its forms that name functions and custom tools."""
    match value:
        case "auto" | "none" | "required":
            return Understood({"tool_choice": ToolChoice(value)})
        case {"type": "function" | "custom", "name": str(name)} if value.keys() == {"type", "name"}:
            choice = ToolChoice("required", [WIRE.read_name(name, {})])
            return Understood({"tool_choice": choice}, keep=True)
        case {"type": "allowed_tools", "mode": "auto" | "required" as mode, "tools": list(tools)}:
            names = [_allowed_name(tool) for tool in tools]
            if names and None not in names and value.keys() == {"type", "mode", "tools"}:
                return Understood({"tool_choice": ToolChoice(mode, names)}, keep=True)  # type: ignore[arg-type]
    return None


def _allowed_name(tool: Any) -> str | None:
    match tool:
        case {"type": "function" | "custom", "name": str(name)}:
            return WIRE.read_name(name, {})
    return None


def encode_choice(request: Request, ledger: Ledger) -> Any:
    """Write the choice among tools; a narrowed one lists the tools that are allowed."""

    def entry(kind: str, name: str) -> Any:
        return {"type": kind, "name": ledger.names.write(name)}

    return write_choice(request, ledger, entry, dict)


def decode_server_item(item: dict[str, Any]) -> Part:
    """Read an item of a tool that the server runs; any other item is kept whole."""
    kind = item["type"]
    if kind.endswith("_call") or kind == "program":
        return _decode_server_call(item, kind)
    if kind.endswith("_output"):
        return _decode_server_result(item, kind)
    return Opaque(DIALECT, item)


def _decode_server_call(item: dict[str, Any], kind: str) -> Part:
    rest = item.copy()
    del rest["type"]
    form: dict[str, Any] = {}
    name = take(rest, "name", str)
    if name is None:
        name = kind.removesuffix("_call")
    else:
        form["type"] = kind
    if rest.get("call_id"):
        form["key"] = "call_id"
    call_id = take(rest, form.get("key", "id"), str)
    return ServerToolCall(call_id, name, _take_input(rest, form, kind), opaque=WIRE.own(rest, form))


def _take_input(rest: dict[str, Any], form: dict[str, Any], kind: str) -> dict[str, Any] | None:
    for key in _ACTIONS:
        if type(given := rest.get(key)) is dict:
            form["input"] = key
            return rest.pop(key)  # type: ignore[no-any-return]
        if type(given) is str:
            arguments, error = parse_arguments(given)
            if error is None:
                form |= {"input": key, "raw": rest.pop(key)}
                return arguments
    key = _INPUTS.get(kind, "")
    return {key: rest.pop(key)} if rest.get(key) is not None else None


def encode_server_item(part: ServerToolCall | ServerToolResult, ledger: Ledger) -> dict[str, Any] | None:
    """Write an item of a tool that this server ran; what another one did cannot be told to it."""
    if not made_by(part.opaque, DIALECT):
        ledger.lose("", kind_of_part(part), "another provider ran this tool")
        return None
    lose_cache(part, ledger)
    body = _encode_server_call(part) if isinstance(part, ServerToolCall) else _encode_server_result(part)
    return ledger.replay(body, part.opaque)


def _encode_server_call(part: ServerToolCall) -> dict[str, Any]:
    form = form_of(part.opaque, DIALECT)
    kind = form.get("type") or (part.name if part.name == "program" else f"{part.name}_call")
    body: dict[str, Any] = {"type": kind}
    if "type" in form:
        body["name"] = part.name
    if part.id is not None:
        body[form.get("key", "id")] = part.id
    if part.arguments is not None:
        body |= _encode_input(part.arguments, form)
    return body


def _encode_input(arguments: dict[str, Any], form: Any) -> dict[str, Any]:
    key, raw = form.get("input"), form.get("raw")
    if key is None:
        return arguments
    if raw is None:
        return {key: arguments}
    return {key: raw if parse_arguments(raw)[0] == arguments else format_arguments(arguments)}


def _decode_server_result(item: dict[str, Any], kind: str) -> Part:
    rest = item.copy()
    del rest["type"]
    content = rest.pop(key, None) if rest.get(key := _OUTCOMES.get(kind, "output")) is not None else None
    return ServerToolResult(take(rest, "call_id", str), kind, content, opaque=WIRE.own(rest))


def _encode_server_result(part: ServerToolResult) -> dict[str, Any]:
    body: dict[str, Any] = {"type": part.name}
    if part.tool_call_id is not None:
        body["call_id"] = part.tool_call_id
    if part.content is not None:
        body[_OUTCOMES.get(part.name, "output")] = part.content
    return body
