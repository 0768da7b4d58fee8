"""The parts of a tool declaration that several dialects write in the same way, and the losses of the other parts."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from toolwire.encoding.calls import lose_free_text
from toolwire.encoding.ledger import Ledger, made_by
from toolwire.encoding.request_fields import ABSENT
from toolwire.types import Request, ServerTool, Tool
from toolwire.types.spelling.base import ToolSpelling

_FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


def unparsed_tool(body: Any, dialect: str) -> ServerTool:
    """Return the tool of a declaration that is not a function: the server runs it, and `body` is not parsed."""
    tool_type = body.get("type") if type(body) is dict else None
    return ServerTool(tool_type if type(tool_type) is str else "", dialect, body)


def encode_tools(
    tools: Iterable[Tool | ServerTool],
    ledger: Ledger,
    encode: Callable[[Tool, Ledger], Any],
    offered: Collection[str] | None = None,
) -> list[Any]:
    """Write the declarations of `tools`: of all of them, or only of those whose names are in `offered`."""
    bodies = []
    for index, tool in enumerate(tools):
        ledger.path = ("tools", index)
        if offered is not None and (isinstance(tool, ServerTool) or tool.name not in offered):
            ledger.lose("", "tool_choice", "the tool choice excludes it, so it is not declared")
        elif not isinstance(tool, ServerTool):
            bodies.append(encode(tool, ledger))
        elif tool.dialect == ledger.dialect:
            bodies.append(tool.value)
        else:
            lose_server_tool(tool, ledger)
    ledger.path = ()
    return bodies


def functions_of(tools: Sequence[Tool | ServerTool]) -> Sequence[Any]:
    """Return the tools that no server runs."""
    if ServerTool not in map(type, tools):
        return tools
    return [tool for tool in tools if isinstance(tool, Tool)]


def limit_tools(request: Request, ledger: Ledger, most: int) -> Request:
    """Return `request` with at most `most` tools, unless it was read from this wire."""
    tools = request.context.tools
    if len(tools) <= most or made_by(request.opaque, ledger.dialect):
        return request
    for index in range(most, len(tools)):
        ledger.lose(f"tools[{index}]", "tool_limit", f"{ledger.dialect} accepts at most {most} tools")
    return replace(request, context=replace(request.context, tools=tools[:most]))


def lose_server_tool(tool: ServerTool, ledger: Ledger) -> None:
    """Report the loss of a tool that another provider runs."""
    ledger.lose("", "server_tool", f"only {tool.dialect} runs {tool.type}")


def is_escaped(tool: Tool) -> bool:
    """Return True if the declaration of `tool` had an escaped name."""
    spelling = None if tool.opaque is None else tool.opaque.spelling
    return isinstance(spelling, ToolSpelling) and spelling.is_escaped


def begin_tool(tool: Tool, ledger: Ledger) -> dict[str, Any]:
    """Write the name and the description of `tool`. The name of a tool of this wire is written as it was read."""
    is_native = made_by(tool.opaque, ledger.dialect) and not is_escaped(tool)
    name = ledger.names.keep(tool.name) if is_native else ledger.names.write(tool.name)
    return {"name": name} if tool.description is None else {"name": name, "description": tool.description}


def as_function(tool: Tool, ledger: Ledger) -> Tool:
    """Return a tool of free text as a function with one text parameter. Its description states its grammar."""
    lose_free_text(ledger)
    ledger.lose_fields(tool, "custom_tool", "parameters")
    words = [] if tool.description is None else [tool.description]
    match tool.plain_format:
        case {"type": "grammar", "grammar": {"syntax": str(syntax), "definition": str(definition)}}:
            ledger.lose("format", "custom_tool", "its grammar is sent in the description", "moved")
            words.append(f"The text follows this {syntax} grammar:\n{definition}")
        case {"type": "text"}:
            ledger.lose("format", "custom_tool", "its format allows any text", severity="formal")
        case _:
            lose_format(tool, ledger)
    description = "\n\n".join(words) if words else None
    return replace(tool, custom=False, format=None, parameters=_FREE_TEXT, description=description)


def lose_strict(tool: Tool, ledger: Ledger) -> None:
    """Report the loss of `strict`, on a wire that cannot ask for it.

    It is minor, because the loop validates the arguments of every call. The loss of `false` is only formal.
    """
    if tool.strict is not None:
        detail = f"{ledger.dialect} cannot enforce the schema of a single tool"
        ledger.lose("strict", "strict", detail, severity="minor" if tool.strict else "formal")


def lose_format(tool: Tool, ledger: Ledger) -> None:
    """Report the loss of the format of a custom tool's text, on a wire that has none."""
    if tool.plain_format:
        ledger.lose("format", "custom_tool", f"{ledger.dialect} has no format for the text of a tool")


def lose_metadata(tool: Tool, ledger: Ledger) -> None:
    """Report the loss of the metadata of an application, which no server receives."""
    if tool.plain_metadata:
        ledger.lose("metadata", "tool_metadata", "metadata is for the application, and is not sent")


def read_allowed(tools: Sequence[Any], name_of: Callable[[Any], str | None]) -> tuple[list[str], list[Any]]:
    """Return the names of the client's tools that a choice allows, and the entries of the other allowed tools."""
    named = [(name_of(tool), tool) for tool in tools]
    return [name for name, _ in named if name is not None], [tool for name, tool in named if name is None]


def write_choice(request: Request, ledger: Ledger, entry: Callable[[str, str], Any], allow: Callable[..., Any]) -> Any:
    """Write a tool choice as both wires of OpenAI do: a mode, one tool, or a list of allowed tools."""
    choice = request.tool_choice
    if choice is None:
        return ABSENT
    if choice.names is None:
        return choice.mode
    if choice.mode == "none":
        ledger.lose("tool_choice.names", "tool_choice", "the choice is that no tool may be called")
        return "none"
    takes = ledger.quirks.custom_tools
    custom = {tool.name for tool in request.tools if takes and isinstance(tool, Tool) and tool.custom}
    entries = [entry("custom" if name in custom else "function", name) for name in choice.names]
    if len(entries) == 1 and choice.mode == "required":
        return entries[0]
    return {"type": "allowed_tools", **allow(mode=choice.mode, tools=entries)}
