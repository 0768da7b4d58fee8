"""The provider's search of deferred tools in Messages, and the references to tools that a search has found."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolwire.encoding.ledger import spelling_of
from toolwire.encoding.traits import ToolSearchForm
from toolwire.types import Opaque, Part, ServerTool, ServerToolCall, ServerToolResult, Text, Tool, ToolResult
from toolwire.types.spelling.anthropic import MessagesTextSpelling

_DIALECT = "anthropic"
# anthropic 2.14.0, ToolSearchToolBm25_20251119Param and ToolSearchToolRegex20251119Param (2026-11-27).
_SEARCH = "tool_search_tool_"
_RESULT = "tool_search_tool_result"


def _is_search(tool: ServerTool) -> bool:
    return tool.type.startswith(_SEARCH)


def _is_search_call(call: ServerToolCall) -> bool:
    return call.name.startswith(_SEARCH)


def _names_in(part: Part) -> Sequence[str] | None:
    """Return the names in the result of the provider's search, or of a search that the client runs."""
    match part:
        case ServerToolResult(name=str(name), content=content) if name == _RESULT:
            found = content.get("tool_references") if isinstance(content, Mapping) else None
            blocks = found if isinstance(found, list) else []
            return [str(block["tool_name"]) for block in blocks if isinstance(block, Mapping) and "tool_name" in block]
        case ToolResult(content=list(inner)):
            return [one.text for one in inner if type(one) is Text and _is_reference(one)] or None
    return None


def _is_reference(text: Text) -> bool:
    return spelling_of(text.opaque, MessagesTextSpelling).is_tool_reference


def _search_parts(tool: ServerTool, call_id: str, arguments: Mapping[str, Any], found: Sequence[Tool]) -> list[Part]:
    own = Opaque(_DIALECT, {})
    references = [{"type": "tool_reference", "tool_name": one.name} for one in found]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    return [
        ServerToolCall(call_id, str(tool.value.get("name") or tool.type), dict(arguments), opaque=own),
        ServerToolResult(call_id, _RESULT, content, opaque=own),
    ]


TOOL_SEARCH = ToolSearchForm(_is_search, _is_search_call, _names_in, _search_parts, "srvtoolu_")
