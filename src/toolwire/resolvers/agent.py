"""A resolver of tools that are written in Python."""

from collections.abc import Callable, Iterable
from typing import Any

from toolwire.errors import InvalidField, UnknownTool
from toolwire.resolvers.handler import Handler, handlers_of
from toolwire.resolvers.protocol import Resolver
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.work.waiting import Work


class AgentResolver(Resolver):
    """Resolves calls with functions, `@tool`s, classes and objects with `definition` and `execute`."""

    def __init__(
        self, tools: Iterable[Any] = (), *, recipes: dict[str, Callable[[dict[str, Any]], Any]] | None = None
    ) -> None:
        self._handlers: dict[str, Handler] = {}
        for given in tools:
            for handler in handlers_of(given):
                if handler.tool.name in self._handlers:
                    raise InvalidField("tools", f"has {handler.tool.name!r} twice", path="AgentResolver")
                self._handlers[handler.tool.name] = handler
        self._recipes = dict(recipes or {})

    def available_tools(self) -> list[Tool]:
        """List the tools, in the order in which they were given."""
        return [handler.tool for handler in self._handlers.values()]

    def handler(self, name: str) -> Handler:
        """Give the tool of a name with what runs it."""
        found = self._handlers.get(name)
        if found is None:
            raise UnknownTool(name, self._handlers)
        return found

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run a call, as steps."""
        return (yield from self.handler(call.name).resolving(call, context))

    def dispatch_recipe(self, name: str) -> Callable[[dict[str, Any]], Any] | None:
        """Give the recipe of a tool, if it has one."""
        return self._recipes.get(name)

    def sensitive_fields_for(self, name: str) -> list[str]:
        """List the fields that a tool declared as sensitive; none for a tool that is not here."""
        found = self._handlers.get(name)
        return list(found.sensitive) if found is not None else []

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Say what a call would do, if its tool says so."""
        found = self._handlers.get(call.name)
        if found is None or found.preview is None:
            return None
        arguments, keywords = found.bind(call.arguments, context)
        return str(found.preview(*arguments, **keywords))
