"""The tools of a caller, in the order in which they were given: what is declared to the model, and what runs its calls.

`generate(tools=...)`, `Context(tools=...)`, `execute` and `mcp.serve` read tools here, so all of them accept the same.

Rules of this file:
- The order is kept, and the first match wins: among the declarations of one name, and among what can run a call.
- A declaration alone (a `Tool`, a map) runs nothing. A resolver that comes later may run its calls.
- A tool that its provider defines and the client runs, such as Claude's text editor, keeps the provider's declaration.
  A resolver or a function of its name runs it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from toolwire.errors import InvalidField
from toolwire.resolvers.composition import Composition
from toolwire.resolvers.handler import AgentResolver, Handler, RunnableTool, attribute_value, handlers_of
from toolwire.resolvers.protocol import AnyResolver, offers_tools, resolver_of, tools_of
from toolwire.types import ServerTool, Tool
from toolwire.types.conversation import called_name, read_declaration

_DECLARATIONS = (Tool, ServerTool, dict, Mapping)
AnyTool = Tool | ServerTool | Mapping[str, Any] | RunnableTool | AnyResolver
"""A tool in any form: declared, runnable, or a resolver of several tools."""
Tools = Iterable[AnyTool] | AnyTool
"""The tools of a conversation: one, or several in any mixture."""


class _ToolSet(Struct, frozen=True):
    """Tools in the order in which they were given.

    `declared` has the declaration of each. `resolver` runs those that can run; it is None if none can.
    """

    declared: list[Tool | ServerTool]
    resolver: Any = None


class _Functions(Struct):
    """The handlers of a function, or of a class or an object with `execute`."""

    handlers: list[Handler]


def read_tools(tools: Tools | None, path: str = "tools") -> _ToolSet:
    """Return the declarations in `tools`, and a resolver of those that can run.

    `tools` is one tool or several: declarations, functions, `@tool`s, classes and objects with `definition` and
    `execute`, resolvers, and pairs of a resolver and its folder. `path` is where the caller has them. Raise
    `InvalidField` for another value; the error names its position.
    """
    entries = _entries(tools, path)
    declared: list[Tool | ServerTool] = []
    for entry in entries:
        match entry:
            case Tool() | ServerTool():
                declared.append(entry)
            case _Functions(handlers):
                declared += [handler.declaration for handler in handlers]
            case resolver:
                declared += tools_of(resolver)
    return _ToolSet(declared, _composed(entries))


def runnable_of(tools: Tools | None, path: str) -> Any:
    """Return a resolver of the `tools` that can run. Their resolvers are not asked for their tools yet.

    Raise `InvalidField` if none can run.
    """
    resolver = _composed(_entries(tools, path))
    if resolver is None:
        raise InvalidField("resolver", f"has no tool that can run: {tools!r}", path=path)
    return resolver


def _entries(tools: Tools | None, path: str) -> list[Any]:
    """Return declarations, functions and resolvers, in the order in which they were given."""
    entries: list[Any] = []
    for index, tool in enumerate(tool_list(tools)):
        if isinstance(tool, _DECLARATIONS):
            entries.append(read_declaration(tool))
        elif offers_tools(tool):
            entries.append(resolver_of(tool, f"{path}[{index}]"))
        elif not hasattr(tool, "execute") and hasattr(tool, "definition"):
            entries.append(read_declaration(attribute_value(tool, "definition")))
        else:
            entries.append(_Functions(_handlers_of(tool, f"{path}[{index}]")))
    return entries


def _composed(entries: list[Any]) -> Any:
    """Return one resolver of the entries that can run, or None if there is none."""
    resolvers: list[Any] = []
    functions: list[Handler] = []
    for entry in entries:
        if isinstance(entry, Tool | ServerTool):
            continue
        if isinstance(entry, _Functions):
            functions += entry.handlers
            continue
        resolvers += [*_agents(functions), entry]
        functions = []
    resolvers += _agents(functions)
    return None if not resolvers else resolvers[0] if len(resolvers) == 1 else Composition(resolvers)


def _agents(handlers: list[Handler]) -> list[AgentResolver]:
    return [AgentResolver(handlers)] if handlers else []


def _handlers_of(tool: Any, path: str) -> list[Handler]:
    try:
        return handlers_of(tool)
    except InvalidField as problem:
        raise InvalidField(problem.field, problem.reason, path=path) from None


def tool_list(tools: Tools | None) -> Iterable[Any]:
    """Return the tools as an iterable; a single tool is a list of one."""
    if tools is None:
        return ()
    if offers_tools(tools) or isinstance(tools, _DECLARATIONS) or callable(tools) or hasattr(tools, "execute"):
        return [tools]
    if isinstance(tools, str | bytes) or not isinstance(tools, Iterable):
        raise InvalidField("tools", f"must be tools in a list, or one tool, not {tools!r}", path="settings")
    return tools


def unique_tools(tools: Iterable[Tool | ServerTool]) -> list[Tool | ServerTool]:
    """Return the first tool of each name, because providers reject a name that is declared twice.

    A provider's own declaration replaces a function of its name. Two of a provider's tools are both kept: the provider
    judges them.
    """
    first: dict[object, Tool | ServerTool] = {}
    for index, tool in enumerate(tools):
        name = called_name(tool)
        earlier = first.get(name)
        if isinstance(tool, ServerTool) and isinstance(earlier, ServerTool):
            first[index] = tool
        elif earlier is None or (isinstance(tool, ServerTool) and isinstance(earlier, Tool)):
            first[name] = tool
    return list(first.values())
