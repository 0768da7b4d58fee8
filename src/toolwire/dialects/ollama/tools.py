"""Tool declarations of Ollama, and the substitute for a tool choice, which this wire does not have.

Rules of this file:
- A tool that must not be called is not offered. A required call is requested in the last message of the user.
- Ollama's server renders few keywords of a schema. Those that it drops from a declaration of another wire move to
  descriptions.
"""

from collections.abc import Collection
from typing import Any

from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, unparsed_of
from toolwire.encoding.tools import as_function, lose_format, lose_metadata, lose_strict, unparsed_tool
from toolwire.types import Request, ServerTool, Tool
from toolwire.types.spelling.ollama import OllamaToolSpelling

_CALL_ANY = "Answer this by calling a tool."
_CALL_NAMED = "Answer this by calling one of these tools: {names}."


def decode_tool(body: Any) -> Tool | ServerTool:
    """Decode one declaration. A tool that is not a function becomes a `ServerTool`, which the server runs."""
    inner = body.get("function") if type(body) is dict and body.get("type", "function") == "function" else None
    if type(inner) is not dict or type(inner.get("name")) is not str:
        return unparsed_tool(body, DIALECT)
    unparsed, inner_unparsed = body.copy(), inner.copy()
    name = inner_unparsed.pop("name")
    del unparsed["function"]
    has_no_type = unparsed.pop("type", None) is None
    description, parameters = take(inner_unparsed, "description", str), take(inner_unparsed, "parameters", dict)
    if inner_unparsed:
        unparsed["function"] = inner_unparsed
    opaque = WIRE.mark(unparsed, OllamaToolSpelling(has_no_type=has_no_type))
    return Tool(name, description, parameters, opaque=opaque)


def encode_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Encode one declaration. Keywords of the schema that the server drops move to descriptions."""
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
    """Return the names of the tools to offer (None for all), and the sentence that asks the model for a call."""
    choice = request.tool_choice
    if choice is None or (choice.mode == "auto" and choice.names is None):
        return None, ""
    if choice.mode == "none":
        ledger.lose(
            "tool_choice", "tool_choice", f"{DIALECT} has no tool choice: no tool is declared", "approximated", "minor"
        )
        return (), ""
    offered = None
    if choice.names is not None:
        declared = {tool.name for tool in request.tools if isinstance(tool, Tool)}
        offered = [name for name in choice.names if name in declared] or None
    if choice.mode == "auto":
        ledger.lose(
            "tool_choice.names",
            "tool_choice",
            f"{DIALECT} has no tool choice: the other tools are not declared",
            "approximated",
            "minor",
        )
        return offered, ""
    ledger.lose(
        "tool_choice",
        "tool_choice",
        f"{DIALECT} cannot force a call: a sentence in the user's message asks for it",
        "approximated",
    )
    return offered, _CALL_ANY if offered is None else _CALL_NAMED.format(names=", ".join(offered))
