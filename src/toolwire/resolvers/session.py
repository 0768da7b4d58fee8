"""The tools of one turn: those that were declared for it, bound to one context.

Rules of this file:
- What was not declared is refused, even when the resolver has it; the refusal names only what was declared.
- Nothing is kept outside the closure: two sessions never see each other's context.
"""

from collections.abc import Collection
from typing import Any

from toolwire.errors import InvalidField, UnknownTool
from toolwire.resolvers.protocol import AnyResolver, fields_of, problems_of, recipe_of, resolver_of, tools_of
from toolwire.resolvers.recipes import dispatching
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.waiting.steps import Work, arun, run_or_await

__all__ = ["Session", "prepare"]


class Session:
    """Resolves the calls of one turn: `resolve(call)`. A tool with a recipe runs by its recipe."""

    __slots__ = ("_context", "_names", "_resolver", "tools")

    def __init__(self, resolver: AnyResolver, tools: list[Tool], context: object) -> None:
        self._resolver = resolver
        self._names = frozenset(tool.name for tool in tools)
        self._context = context
        self.tools: list[Tool] = tools

    def __call__(self, call: ToolCall) -> ToolResult:
        """Run a call and give its result; in a running event loop, an async tool gives an awaitable result."""
        return run_or_await(self.resolving(call))

    async def aresolve(self, call: ToolCall) -> ToolResult:
        """Run a call without blocking the event loop, and give its result."""
        return await arun(self.resolving(call))

    def resolving(self, call: ToolCall, _context: Any = None) -> Work[ToolResult]:
        """Run a call, as steps; the context is that of the session."""
        if call.name not in self._names:
            raise UnknownTool(call.name, self._declared())
        try:
            return (yield from dispatching(self._resolver, call, self._context))
        except UnknownTool as problem:
            if problem.name != call.name:
                raise
            raise UnknownTool(call.name, [name for name in self._declared() if name != call.name]) from None

    def problems(self, call: ToolCall) -> list[str]:
        """Say why a call would not be run; a recipe takes any arguments."""
        by_recipe = recipe_of(self._resolver, call.name) is not None
        return [] if by_recipe else problems_of(self._resolver, call, self._context)

    def _declared(self) -> list[str]:
        return [tool.name for tool in self.tools]

    def available_tools(self) -> list[Tool]:
        """List the tools that were declared."""
        return list(self.tools)

    def sensitive_fields_for(self, name: str) -> list[str]:
        """List the fields of a tool that are kept out of logs and traces."""
        return fields_of(self._resolver, name) if name in self._names else []


def prepare(
    resolver: AnyResolver, names: Collection[str] | None, context: object = None
) -> tuple[list[Tool], Session | None]:
    """Give the declared tools, each once, and a function that resolves their calls; without tools, `([], None)`."""
    if isinstance(names, str):
        raise InvalidField("names", "must be a list of names, not a string", path="session_tools.prepare")
    resolver = resolver_of(resolver, "session_tools.prepare")
    wanted, declared = frozenset(names or ()), dict[str, Tool]()
    for tool in tools_of(resolver) if wanted else ():
        if tool.name in wanted:
            declared.setdefault(tool.name, tool)
    tools = list(declared.values())
    return (tools, Session(resolver, list(tools), context)) if tools else ([], None)
