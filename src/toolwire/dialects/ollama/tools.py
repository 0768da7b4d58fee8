"""Tool declarations of Ollama, and what stands in for the choice among them that it lacks.

Rules of this file:
- A tool that must not be called is not offered; for a call that must come, the user asks in the last words.
- A server keeps few keywords of a schema; those of a declaration from elsewhere go into descriptions.
"""

from collections.abc import Collection
from typing import Any

from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.encoding.ledger import Ledger, form_of, left_of, made_by, take
from toolwire.encoding.tools import as_function, keep_tool, lose_format, lose_metadata, lose_strict
from toolwire.types import Request, ServerTool, Tool

REQUIRED = "Answer this by calling a tool."
_NAMED = "Answer this by calling one of these tools: {names}."


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration; what is no function is the server's own."""
    inner = body.get("function") if type(body) is dict and body.get("type", "function") == "function" else None
    if type(inner) is not dict or type(inner.get("name")) is not str:
        return keep_tool(body, DIALECT)
    rest, left, form = body.copy(), inner.copy(), {}
    name = left.pop("name")
    del rest["function"]
    if rest.pop("type", None) is None:
        form["untyped"] = True
    description, parameters = take(left, "description", str), take(left, "parameters", dict)
    if left:
        rest["function"] = left
    return Tool(name, description, parameters, opaque=WIRE.own(rest, form))


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    mine = made_by(tool.opaque, DIALECT)
    tool = as_function(tool, ledger) if tool.custom else tool
    inner: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        inner["description"] = tool.description
    if tool.plain_parameters is not None:
        inner["parameters"] = tool.plain_parameters if mine else ledger.fit(tool.plain_parameters, "ollama")
    lose_format(tool, ledger)
    lose_strict(tool, ledger)
    lose_metadata(tool, ledger)
    body = {"function": left_of(tool.opaque, DIALECT, "function") | inner}
    untyped = "untyped" in form_of(tool.opaque, DIALECT)
    return ledger.finish(body if untyped else {"type": "function", **body}, tool)


def encode_choice(request: Request, ledger: Ledger) -> tuple[Collection[str] | None, str]:
    """Say a choice among tools: the names that are offered (None: all), and what the user asks for."""
    choice = request.tool_choice
    if choice is None or (choice.mode == "auto" and choice.names is None):
        return None, ""
    if choice.mode == "none":
        ledger.lose("tool_choice", "tool_choice", "no tool is offered", "approximated", "minor")
        return (), ""
    offered = None
    if choice.names is not None:
        declared = {tool.name for tool in request.tools if isinstance(tool, Tool)}
        offered = [name for name in choice.names if name in declared] or None
    if choice.mode == "auto":
        ledger.lose("tool_choice.names", "tool_choice", "no other tool is offered", "approximated", "minor")
        return offered, ""
    ledger.lose("tool_choice", "tool_choice", f"{DIALECT} cannot force a call; the user asks for it", "approximated")
    return offered, REQUIRED if offered is None else _NAMED.format(names=", ".join(offered))
