"""Several resolvers as one: the first that knows a tool runs it.

Rules of this file:
- Tools are listed in the order of the resolvers; a name that two of them have is listed twice.
- Those that list a tool are asked first, in their order. Only `UnknownTool` goes on to the next resolver; any other
  answer, an error too, is final.
- A pair `(resolver, cwd)` binds a resolver to a folder, if it minds one.
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
    """Merges resolvers; each is a resolver, or a pair of a resolver and the folder in which it works."""

    def __init__(self, resolvers: Iterable[AnyResolver] = ()) -> None:
        folders = [(entry, entry[1] if type(entry) is tuple and len(entry) == 2 else HERE) for entry in resolvers]
        self.resolvers: list[tuple[Any, Any]] = [
            (resolver_of(entry, f"Composition[{index}]"), cwd) for index, (entry, cwd) in enumerate(folders)
        ]

    @classmethod
    def new(cls, resolvers: Iterable[AnyResolver]) -> "Composition":
        """Merge resolvers."""
        return cls(resolvers)

    def available_tools(self) -> list[Tool]:
        """List the tools of all resolvers, in their order."""
        return [tool for resolver, _ in self.resolvers for tool in tools_of(resolver)]

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run a call, as steps."""
        for resolver in self._as_asked(call.name):
            try:
                return (yield from resolving(resolver, call, context))
            except UnknownTool as problem:
                if problem.name != call.name:
                    raise
        raise UnknownTool(call.name, [tool.name for tool in self.available_tools()])

    def dispatch_recipe(self, name: str) -> Callable[[dict[str, Any]], object] | None:
        """Give the recipe of the first resolver that has one for this tool."""
        recipes = (recipe_of(resolver, name) for resolver, _ in self.resolvers)
        return next((recipe for recipe in recipes if recipe is not None), None)

    def sensitive_fields_for(self, name: str) -> list[str]:
        """List the sensitive fields of a tool, of all resolvers that have a tool of this name."""
        fields = (field for resolver, _ in self.resolvers for field in fields_of(resolver, name))
        return list(dict.fromkeys(fields))

    def cover_files(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Keep files from the tools of all resolvers, by absolute paths."""
        kept = tuple(paths)
        for resolver, _ in self.resolvers:
            cover_files(resolver, kept)

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Show what a call would do, as the resolver that would run it says."""
        say = getattr(self._first_asked(call.name), "preview", None)
        return say(call, context) if callable(say) else None

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        """Say why a call would not be run, as the resolver that would run it says."""
        return problems_of(self._first_asked(call.name), call, context)

    def _as_asked(self, name: str) -> list[Any]:
        """Give the resolvers in the order in which they are asked to run a tool."""
        every = [resolver for resolver, _ in self.resolvers]
        return sorted(every, key=lambda one: all(tool.name != name for tool in tools_of(one)))

    def _first_asked(self, name: str) -> Any:
        return next(iter(self._as_asked(name)), None)
