"""The tools of one turn: those that were declared for it, bound to one context.

Rules of this file:
- A tool that was not declared is rejected, even if the resolver has it. The error names only declared tools.
- A session holds its context itself, so that two sessions never see each other's context.
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
    """Runs the calls of one turn: `resolve(call)`. A tool with a recipe is run by its recipe."""

    __slots__ = ("_context", "_names", "_resolver", "tools")

    def __init__(self, resolver: AnyResolver, tools: list[Tool], context: object) -> None:
        self._resolver = resolver
        self._names = frozenset(tool.name for tool in tools)
        self._context = context
        self.tools: list[Tool] = tools

    def __call__(self, call: ToolCall) -> ToolResult:
        """Run `call` and return its result. In a running event loop, an async tool returns an awaitable result."""
        return run_or_await(self.resolving(call))

    async def aresolve(self, call: ToolCall) -> ToolResult:
        """Run `call` without blocking the event loop, and return its result."""
        return await arun(self.resolving(call))

    def resolving(self, call: ToolCall, _context: Any = None) -> Work[ToolResult]:
        """Run `call` as steps, with the context of the session."""
        if call.name not in self._names:
            raise UnknownTool(call.name, self._declared())
        try:
            return (yield from dispatching(self._resolver, call, self._context))
        except UnknownTool as problem:
            if problem.name != call.name:
                raise
            raise UnknownTool(call.name, [name for name in self._declared() if name != call.name]) from None

    def problems(self, call: ToolCall) -> list[str]:
        """Return why `call` would be rejected. A recipe accepts any arguments."""
        by_recipe = recipe_of(self._resolver, call.name) is not None
        return [] if by_recipe else problems_of(self._resolver, call, self._context)

    def _declared(self) -> list[str]:
        return [tool.name for tool in self.tools]

    def available_tools(self) -> list[Tool]:
        """Return the declared tools."""
        return list(self.tools)

    def sensitive_fields_for(self, name: str) -> list[str]:
        """Return the fields of the tool `name` that are kept out of logs and traces."""
        return fields_of(self._resolver, name) if name in self._names else []


def prepare(
    resolver: AnyResolver, names: Collection[str] | None, context: object = None
) -> tuple[list[Tool], Session | None]:
    """Return the tools of `resolver` in `names`, each once, and a function that runs their calls with `context`.

    Without any such tool, return `([], None)`. Raises `InvalidField` if `names` is a single string.

    >>> from toolwire import AgentResolver, ToolCall, session_tools
    >>> def whoami(context) -> str:
    ...     return context["user_id"]
    >>> tools, run = session_tools.prepare(AgentResolver([whoami]), ["whoami"], {"user_id": "ann"})
    >>> run(ToolCall("call_1", "whoami", {})).content
    'ann'
    """
    if isinstance(names, str):
        raise InvalidField("names", "must be a list of names, not a string", path="session_tools.prepare")
    resolver = resolver_of(resolver, "session_tools.prepare")
    wanted, declared = frozenset(names or ()), dict[str, Tool]()
    for tool in tools_of(resolver) if wanted else ():
        if tool.name in wanted:
            declared.setdefault(tool.name, tool)
    tools = list(declared.values())
    return (tools, Session(resolver, list(tools), context)) if tools else ([], None)
