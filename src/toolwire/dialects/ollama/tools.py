"""Tool declarations of Ollama, and the substitute for a tool choice, which it does not have.

Rules of this file:
- A tool that must not be called is not offered. A required call is requested in the last message of the user.
- The server renders few keywords of a schema. The others of a declaration from another wire go into descriptions.
"""

from collections.abc import Collection
from typing import Any

from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, unparsed_of
from toolwire.encoding.tools import as_function, lose_format, lose_metadata, lose_strict, unparsed_tool
from toolwire.types import Request, ServerTool, Tool
from toolwire.types.spelling.ollama import OllamaToolSpelling

REQUIRED = "Answer this by calling a tool."
_NAMED = "Answer this by calling one of these tools: {names}."


def decode_tool(body: Any) -> Tool | ServerTool:
    """Read one declaration. The server runs a tool that is not a function."""
    inner = body.get("function") if type(body) is dict and body.get("type", "function") == "function" else None
    if type(inner) is not dict or type(inner.get("name")) is not str:
        return unparsed_tool(body, DIALECT)
    unparsed, left = body.copy(), inner.copy()
    name = left.pop("name")
    del unparsed["function"]
    has_no_type = unparsed.pop("type", None) is None
    description, parameters = take(left, "description", str), take(left, "parameters", dict)
    if left:
        unparsed["function"] = left
    opaque = WIRE.mark(unparsed, OllamaToolSpelling(has_no_type=has_no_type))
    return Tool(name, description, parameters, opaque=opaque)


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write one declaration."""
    is_native = made_by(tool.opaque, DIALECT)
    tool = as_function(tool, ledger) if tool.custom else tool
    inner: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        inner["description"] = tool.description
    if tool.plain_parameters is not None:
        inner["parameters"] = tool.plain_parameters if is_native else ledger.fit(tool.plain_parameters, "ollama")
    lose_format(tool, ledger)
    lose_strict(tool, ledger)
    lose_metadata(tool, ledger)
    body = {"function": unparsed_of(tool.opaque, DIALECT, "function") | inner}
    has_no_type = spelling_of(tool.opaque, OllamaToolSpelling).has_no_type
    return ledger.finish(body if has_no_type else {"type": "function", **body}, tool)


def encode_choice(request: Request, ledger: Ledger) -> tuple[Collection[str] | None, str]:
    """Return the names of the tools to offer (None for all), and the sentence that asks for a call."""
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
