"""Tool declarations and the choice among them, in Responses.

Rules of this file:
- A function without `strict` is tried strictly by the server, so a tool from elsewhere says which it is.
- What Chat Completions nests is flat here: the name of a choice, the grammar of a custom tool.
"""

from collections.abc import Iterable
from typing import Any

from toolwire.dialects.openai_responses.parts import DIALECT, WIRE, lose_cache
from toolwire.ledger import Ledger, form_of, made_by, take
from toolwire.schema import fit
from toolwire.settings import ABSENT, Understood
from toolwire.types import Request, ServerTool, Tool, ToolChoice

KINDS = frozenset({"function", "custom"})


def decode_tools(bodies: list[Any]) -> list[Tool | ServerTool]:
    """Read the declarations of a request."""
    return [decode_tool(body) for body in bodies]


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration; what is neither a function nor a custom tool is the server's own."""
    kind = body.get("type") if type(body) is dict else None
    if type(kind) is not str or kind not in KINDS or type(body.get("name")) is not str:
        return ServerTool(kind if type(kind) is str else "", DIALECT, body)
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


def encode_tools(tools: Iterable[Tool | ServerTool], ledger: Ledger) -> list[Any]:
    """Write the declarations of a request."""
    bodies: list[Any] = []
    for place, tool in enumerate(tools):
        ledger.at = ("tools", place)
        if not isinstance(tool, ServerTool):
            bodies.append(encode_tool(tool, ledger))
        elif tool.dialect == DIALECT:
            bodies.append(tool.value)
        else:
            ledger.lose("", "server_tool", f"only {tool.dialect} runs {tool.type}")
    ledger.at = ()
    return bodies


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    mine = made_by(tool.opaque, DIALECT)
    verbatim = mine and "escaped" not in form_of(tool.opaque, DIALECT)
    body: dict[str, Any] = {
        "type": "custom" if tool.custom else "function",
        "name": ledger.names.keep(tool.name) if verbatim else ledger.names.write(tool.name),
    }
    if tool.description is not None:
        body["description"] = tool.description
    if tool.custom:
        ledger.lose_fields(tool, "custom_tool", "parameters", "strict")
        if tool.format is not None:
            body["format"] = _encode_format(tool.format)
    elif mine:
        if tool.parameters is not None:
            body["parameters"] = tool.parameters
        if tool.strict is not None:
            body["strict"] = tool.strict
    else:
        body["parameters"] = _fit(tool, ledger)
        body["strict"] = bool(tool.strict)
        ledger.lose_fields(tool, "custom_tool", "format")
    if tool.metadata:
        ledger.lose("metadata", "tool_metadata", "metadata stays here", severity="minor")
    lose_cache(tool, ledger)
    return body if tool.opaque is None else ledger.replay(body, tool.opaque)


def _fit(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters
    if not tool.strict:
        return schema
    return fit_strictly(schema, ledger)


def fit_strictly(schema: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Make a schema one that the server can hold the model to, and say what that took."""
    fitted = fit(schema, "openai-strict")
    ledger.note_schema(fitted.notes)
    if fitted.schema is not schema and not fitted.notes:
        detail = "every property is required; one that was optional may be null"
        ledger.lose("parameters", "schema_required", detail, "approximated", "minor")
    return fitted.schema


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
    choice = request.tool_choice
    if choice is None:
        return ABSENT
    if choice.names is None:
        return choice.mode
    if choice.mode == "none":
        ledger.lose("tool_choice.names", "tool_choice", "no tool may be called at all")
        return "none"
    custom = {tool.name for tool in request.tools if isinstance(tool, Tool) and tool.custom}
    entries = [
        {"type": "custom" if name in custom else "function", "name": ledger.names.write(name)}
        for name in choice.names
    ]
    if len(entries) == 1 and choice.mode == "required":
        return entries[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": entries}
