"""OpenAI's own search of deferred tools in Responses."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolwire.dialects.openai_responses.parts import DIALECT, WIRE
from toolwire.dialects.openai_responses.tools import encode_tool, flat_name_of, flat_names, merge_namespaces
from toolwire.encoding.ledger import Ledger, spelling_of
from toolwire.encoding.traits import ToolSearchForm
from toolwire.types import Opaque, Part, ServerTool, ServerToolCall, ServerToolResult, Tool, ToolResult
from toolwire.types.spelling.openai_responses import ResponsesResultSpelling, ResponsesServerCallSpelling

# openai 3.57.0, ToolSearchToolParam, ResponseToolSearchCall and ResponseToolSearchOutputItem (2026-11-27).
_SEARCH = "tool_search"
_RESULT = "tool_search_output"


def _is_search(tool: ServerTool) -> bool:
    return tool.type == _SEARCH


def _is_search_call(call: ServerToolCall) -> bool:
    return call.name == _SEARCH


def _names_in(part: Part) -> Sequence[str] | None:
    """Return the names in the result of OpenAI's search, or of a search that the client runs."""
    match part:
        case ServerToolResult(name=name, content=content) if name == _RESULT:
            return list(_names(content, None))
        case ToolResult():
            layout = spelling_of(part.opaque, ResponsesResultSpelling).tools
            return None if layout is None else list(flat_names(layout))
    return None


def _names(bodies: Any, namespace: str | None) -> Iterator[str]:
    """Yield the flat names of declared tools."""
    for body in bodies if isinstance(bodies, list) else ():
        match body:
            case {"type": "namespace", "name": str(name), "tools": tools} if namespace is None:
                yield from _names(tools, name)
            case {"name": str(name)}:
                yield flat_name_of(namespace, WIRE.restore_name(name)[0])


def _search_parts(_tool: ServerTool, call_id: str, arguments: Mapping[str, Any], found: Sequence[Tool]) -> list[Part]:
    ledger, state = Ledger(WIRE), {"execution": "server", "call_id": None, "status": "completed"}
    bodies = merge_namespaces([encode_tool(tool, ledger) for tool in found])
    spelling = ResponsesServerCallSpelling(input_key="arguments")
    return [
        ServerToolCall(call_id, _SEARCH, dict(arguments), opaque=Opaque(DIALECT, state, spelling=spelling)),
        ServerToolResult(None, _RESULT, bodies, opaque=Opaque(DIALECT, {"id": f"{_OUTPUT_PREFIX}{call_id}", **state})),
    ]


_OUTPUT_PREFIX = "tso_"
TOOL_SEARCH = ToolSearchForm(_is_search, _is_search_call, _names_in, _search_parts, "tsc_")
