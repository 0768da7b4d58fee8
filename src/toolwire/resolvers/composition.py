"""Several resolvers as one: the first that has a tool runs it.

Rules of this file:
- Tools are listed in the order of the resolvers. A name that two resolvers have is listed twice.
- The resolvers that list a tool are tried first, in their order. The next resolver is tried only after `UnknownTool`.
  Any other result, including an error, is final.
- A pair `(resolver, cwd)` binds a resolver to a folder, if it supports that.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

from toolwire.errors import UnknownTool
from toolwire.resolvers.protocol import (
    HERE,
    AnyResolver,
    Resolver,
    cover_files,
    fields_of,
    problems_of,
    recipe_of,
    resolver_of,
    resolving,
    tools_of,
)
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.waiting.steps import Work


class Composition(Resolver):
    """Combines `resolvers`. Each one is a resolver, or a pair of a resolver and its working folder.

    It runs a call by the first resolver that has the tool, and raises `UnknownTool` if none has it.

    >>> from toolwire import AgentResolver, Composition, ToolCall, prefixed
    >>> def read(path: str) -> str:
    ...     return f"contents of {path}"
    >>> resolver = Composition([AgentResolver([read]), prefixed(AgentResolver([read]), "remote_")])
    >>> [tool.name for tool in resolver.available_tools()]
    ['read', 'remote_read']
    >>> resolver.resolve(ToolCall("call_1", "remote_read", {"path": "a"})).content
    'contents of a'
    """

    def __init__(self, resolvers: Iterable[AnyResolver] = ()) -> None:
        folders = [(entry, entry[1] if type(entry) is tuple and len(entry) == 2 else HERE) for entry in resolvers]
        self.resolvers: list[tuple[Any, Any]] = [
            (resolver_of(entry, f"Composition[{index}]"), cwd) for index, (entry, cwd) in enumerate(folders)
        ]

    @classmethod
    def new(cls, resolvers: Iterable[AnyResolver]) -> "Composition":
        """Combine resolvers."""
        return cls(resolvers)

    def available_tools(self) -> list[Tool]:
        """Return the tools of all resolvers, in their order."""
        return [tool for resolver, _ in self.resolvers for tool in tools_of(resolver)]

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run `call` as steps, by the first resolver that has its tool. Raise `UnknownTool` if none has it."""
        for resolver in self._in_call_order(call.name):
            try:
                return (yield from resolving(resolver, call, context))
            except UnknownTool as problem:
                if problem.name != call.name:
                    raise
        raise UnknownTool(call.name, [tool.name for tool in self.available_tools()])

    def dispatch_recipe(self, name: str) -> Callable[[dict[str, Any]], object] | None:
        """Return the recipe of the first resolver that has one for the tool `name`."""
        recipes = (recipe_of(resolver, name) for resolver, _ in self.resolvers)
        return next((recipe for recipe in recipes if recipe is not None), None)

    def sensitive_fields_for(self, name: str) -> list[str]:
        """Return the sensitive fields of the tool `name` from all resolvers that have such a tool."""
        fields = (field for resolver, _ in self.resolvers for field in fields_of(resolver, name))
        return list(dict.fromkeys(fields))

    def cover_files(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Hide the files at these absolute paths from the tools of all resolvers."""
        absolute = tuple(paths)
        for resolver, _ in self.resolvers:
            cover_files(resolver, absolute)

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Return the preview of `call` from the resolver that would run it."""
        describe = getattr(self._first_choice(call.name), "preview", None)
        return describe(call, context) if callable(describe) else None

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        """Return why the resolver that would run `call` would reject it."""
        return problems_of(self._first_choice(call.name), call, context)

    def _in_call_order(self, name: str) -> list[Any]:
        """Return the resolvers in the order in which they are tried for the tool `name`."""
        every = [resolver for resolver, _ in self.resolvers]
        return sorted(every, key=lambda one: all(tool.name != name for tool in tools_of(one)))

    def _first_choice(self, name: str) -> Any:
        return next(iter(self._in_call_order(name)), None)
