"""Small wrappers around a resolver: other names, fewer tools, and a question before a call is run.

Rules of this file:
- A wrapper changes names in listings, calls, recipes and sensitive fields; results carry the outer name.
- `approved` fails closed: without a plain yes nothing is run, and the model reads why. Nobody is asked about a call
  that would not run whatever they said.
"""

import json
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.errors import InvalidField, ToolError, UnknownTool
from toolwire.resolvers.protocol import (
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
from toolwire.resolvers.recipes import RefusedPlan, outer_of, planning
from toolwire.scrubbing import scrub, secrets_of
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.waiting.results import CallNote, current_secrets, failure, format_traceback, invalid
from toolwire.waiting.steps import Ask, Emit, Work, count_positional, run
from toolwire.wire.arguments import input_of

logger: logging.Logger = logging.getLogger("toolwire")
_DENIED = "the call was not approved"


class _WrappedRecipe:
    """A recipe of a wrapped resolver: it asks as its wrapper does, and its steps go by the outer names."""

    def __init__(self, wrapper: "_Renamed", recipe: Callable[[dict[str, Any]], Any], inner: str) -> None:
        self._wrapper = wrapper
        self._recipe = recipe
        self._inner = inner

    def __call__(self, arguments: dict[str, Any]) -> Any:
        name = self._wrapper.outer(self._inner) or self._inner
        plan = run(self.planning(ToolCall(None, name, arguments)))
        if isinstance(plan, RefusedPlan):
            raise ToolError(str(plan.result.content))
        return plan

    def planning(self, call: ToolCall, context: Any = None) -> Work[Any]:
        """Give the plan of a call by its outer name, or its refusal."""
        refusal = yield from self._wrapper.refusing(call, context)
        if refusal is not None:
            return RefusedPlan(refusal)
        planned = yield from planning(self._recipe, replace(call, name=self._inner), context)
        return RefusedPlan(replace(planned.result, name=call.name)) if isinstance(planned, RefusedPlan) else planned

    def outer(self, name: str) -> str | None:
        """Give the outer name of a tool that the recipe names."""
        inner = outer_of(self._recipe)(name)
        return None if inner is None else self._wrapper.outer(inner)


class _Renamed(Resolver):
    """A resolver whose tools go by other names; a name that gives None is left out."""

    def __init__(self, resolver: Any, outer: Callable[[str], str | None], inner: Callable[[str], str | None]) -> None:
        self.resolver = resolver_of(resolver, "resolver")
        self._outer = outer
        self._inner = inner

    def available_tools(self) -> list[Tool]:
        named = [(tool, self._outer(tool.name)) for tool in tools_of(self.resolver)]
        return [tool if tool.name == name else replace(tool, name=name) for tool, name in named if name is not None]

    def _own(self, name: str) -> str:
        """Give the inner name; what has none is unknown here."""
        inner = self._inner(name)
        if inner is None:
            raise UnknownTool(name, [tool.name for tool in self.available_tools()])
        return inner

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        inner = self._own(call.name)
        try:
            result = yield from resolving(self.resolver, replace(call, name=inner), context)
        except UnknownTool as problem:
            if problem.name != inner:
                raise
            raise UnknownTool(call.name, [tool.name for tool in self.available_tools()]) from None
        return replace(result, name=call.name)

    def dispatch_recipe(self, name: str) -> Callable[[dict[str, Any]], object] | None:
        inner = self._inner(name)
        recipe = None if inner is None else recipe_of(self.resolver, inner)
        return None if inner is None or recipe is None else _WrappedRecipe(self, recipe, inner)

    def refusing(self, call: ToolCall, context: Any = None) -> Work[ToolResult | None]:
        """Give the result of a call that must not be run."""
        del call, context
        yield from ()
        return None

    def outer(self, name: str) -> str | None:
        """Give the outer name of a tool."""
        return self._outer(name)

    def sensitive_fields_for(self, name: str) -> list[str]:
        inner = self._inner(name)
        return [] if inner is None else fields_of(self.resolver, inner)

    def cover_files(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        cover_files(self.resolver, paths)

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        say, inner = getattr(self.resolver, "preview", None), self._inner(call.name)
        return say(replace(call, name=inner), context) if callable(say) and inner is not None else None

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        inner = self._inner(call.name)
        return [] if inner is None else problems_of(self.resolver, replace(call, name=inner), context)


def prefixed(resolver: AnyResolver, prefix: str) -> Resolver:
    """Put a prefix before each tool's name."""
    return _Renamed(
        resolver, lambda name: prefix + name, lambda name: name[len(prefix) :] if name.startswith(prefix) else None
    )


def renamed(resolver: AnyResolver, names: Mapping[str, str]) -> Resolver:
    """Give some tools other names, by a map from old to new; no two tools may have the same name."""
    resolver = resolver_of(resolver, "renamed")
    there = [tool.name for tool in tools_of(resolver)]
    missing = [name for name in names if name not in there]
    if missing:
        raise InvalidField("names", f"has {missing[0]!r}, which the resolver does not have", path="renamed")
    kept = [name for name in there if name not in names]
    taken = [*names.values(), *dict.fromkeys(kept)]
    if len(set(taken)) != len(taken):
        raise InvalidField("names", "would give two tools the same name", path="renamed")
    back = {new: old for old, new in names.items()}
    return _Renamed(
        resolver, lambda name: names.get(name, name), lambda name: back.get(name, None if name in names else name)
    )


def filtered(resolver: AnyResolver, keep: Collection[str] | Callable[[Tool], bool]) -> Resolver:
    """Keep the tools with these names, or those for which a function says yes; the others are hidden."""
    resolver = resolver_of(resolver, "filtered")
    if isinstance(keep, str):
        raise InvalidField("keep", "must be a list of names, or a function", path="filtered")
    names = frozenset(() if callable(keep) else keep)

    def keeps(name: str) -> str | None:
        if callable(keep):
            return name if any(tool.name == name and keep(tool) for tool in tools_of(resolver)) else None
        return name if name in names else None

    return _Renamed(resolver, keeps, keeps)


Approve = Callable[[ToolCall, str], bool | str | Awaitable[bool | str | None] | None]
"""Is asked with a call and its preview, sync or async: True lets the call run, a text is the reason why not."""


class _Approved(_Renamed):
    def __init__(self, resolver: Any, ask: Approve, only: Collection[str] | None = None) -> None:
        super().__init__(resolver, lambda name: name, lambda name: name)
        self._ask = ask
        self._only = None if only is None else frozenset(only)

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        if self._asks_about(call.name) and (problems := self.problems(call, context)):
            yield Emit(CallNote("invalid"))
            return invalid(call, problems)
        refusal = yield from self.refusing(call, context)
        return refusal if refusal is not None else (yield from super().resolving(call, context))

    def refusing(self, call: ToolCall, context: Any = None) -> Work[ToolResult | None]:
        """Ask whether a call may be run, if it is one of those that are asked about."""
        return (yield from self.asking(call, context)) if self._asks_about(call.name) else None

    def _asks_about(self, name: str) -> bool:
        return self._only is None or name in self._only

    def asking(self, call: ToolCall, context: Any = None) -> Work[ToolResult | None]:
        """Ask whether a call may be run; its refusal is the result of the call."""
        if not any(tool.name == call.name for tool in self.available_tools()):
            raise UnknownTool(call.name, [tool.name for tool in self.available_tools()])
        try:
            shown = yield Ask(self._shown, (call, context))
            yield Emit(CallNote(approval="asked"))
            answer = yield Ask(self._ask, (call, shown))
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - who is asked may raise anything
            own = secrets_of(input_of(call), self.sensitive_fields_for(call.name))
            why = format_traceback(problem, [*(yield from current_secrets()), *own])
            logger.error("nobody could be asked whether %r may run\n%s", call.name, why)  # noqa: TRY400 - scrubbed
            answer = "nobody could be asked"
        if answer is True:
            yield Emit(CallNote(approval="granted"))
            return None
        yield Emit(CallNote("denied", "denied"))
        return failure(call, f"{_DENIED}: {answer}" if isinstance(answer, str) and answer else _DENIED)

    def _shown(self, call: ToolCall, context: Any) -> str:
        preview = self.preview(call, context)
        if preview is not None:
            return preview
        arguments = scrub(call.plain_arguments, self.sensitive_fields_for(call.name))
        return f"{call.name}({json.dumps(arguments, ensure_ascii=False)})"


def approved(resolver: AnyResolver, ask: Approve, *, only: Collection[str] | None = None) -> Resolver:
    """Ask before a call runs, for all tools or for `only` these: `ask(call, preview)`, sync or async.

    True lets the call run. Any other answer refuses it; the model reads a text as the reason.
    """
    if count_positional(ask) < 2:
        raise InvalidField("ask", "must take a call and its preview", path="approved")
    return _Approved(resolver, ask, only)
