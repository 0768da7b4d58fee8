"""Wrappers around a resolver: other names, fewer tools, and an approval before a call is run.

Rules of this file:
- A wrapper changes names in listings, calls, recipes and sensitive fields. Results carry the outer name.
- `approved` fails closed: without a clear yes nothing is run, and the model reads the reason. No approval is requested
  for a call that would be rejected anyway.
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
from toolwire.resolvers.recipes import RefusedPlan, name_mapping, plan_steps
from toolwire.scrubbing import scrub, secrets_of
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.waiting.results import CallNote, current_secrets, failure, format_traceback, invalid
from toolwire.waiting.steps import Ask, Emit, Work, count_positional, run
from toolwire.wire.arguments import input_of

logger: logging.Logger = logging.getLogger("toolwire")
_DENIED = "the call was not approved"


class _WrappedRecipe:
    """The recipe of a wrapped resolver. It applies the wrapper's checks, and its steps have the outer names."""

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
        """Return the plan of a call by its outer name, or its refusal, as steps."""
        refusal = yield from self._wrapper.checking(call, context)
        if refusal is not None:
            return RefusedPlan(refusal)
        planned = yield from plan_steps(self._recipe, replace(call, name=self._inner), context)
        return RefusedPlan(replace(planned.result, name=call.name)) if isinstance(planned, RefusedPlan) else planned

    def outer(self, name: str) -> str | None:
        """Return the outer name of a tool that the recipe names."""
        inner = name_mapping(self._recipe)(name)
        return None if inner is None else self._wrapper.outer(inner)


class _Renamed(Resolver):
    """A resolver whose tools have other names. A tool whose outer name is None is hidden."""

    def __init__(self, resolver: Any, outer: Callable[[str], str | None], inner: Callable[[str], str | None]) -> None:
        self.resolver = resolver_of(resolver, "resolver")
        self._outer = outer
        self._inner = inner

    def available_tools(self) -> list[Tool]:
        pairs = [(tool, self._outer(tool.name)) for tool in tools_of(self.resolver)]
        return [tool if tool.name == name else replace(tool, name=name) for tool, name in pairs if name is not None]

    def _inner_name(self, name: str) -> str:
        """Return the inner name. Raise `UnknownTool` if there is none."""
        inner = self._inner(name)
        if inner is None:
            raise UnknownTool(name, [tool.name for tool in self.available_tools()])
        return inner

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        inner = self._inner_name(call.name)
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

    def checking(self, call: ToolCall, context: Any = None) -> Work[ToolResult | None]:
        """Return the result of a call that must not be run, as steps. None if it may run."""
        del call, context
        yield from ()
        return None

    def outer(self, name: str) -> str | None:
        """Return the outer name of a tool."""
        return self._outer(name)

    def sensitive_fields_for(self, name: str) -> list[str]:
        inner = self._inner(name)
        return [] if inner is None else fields_of(self.resolver, inner)

    def cover_files(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        cover_files(self.resolver, paths)

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        describe, inner = getattr(self.resolver, "preview", None), self._inner(call.name)
        return describe(replace(call, name=inner), context) if callable(describe) and inner is not None else None

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        inner = self._inner(call.name)
        return [] if inner is None else problems_of(self.resolver, replace(call, name=inner), context)


def prefixed(resolver: AnyResolver, prefix: str) -> Resolver:
    """Return a resolver that adds `prefix` to the name of each tool of `resolver`.

    >>> from toolwire import AgentResolver, prefixed
    >>> def read(path: str) -> str:
    ...     return f"contents of {path}"
    >>> [tool.name for tool in prefixed(AgentResolver([read]), "fs_").available_tools()]
    ['fs_read']
    """
    return _Renamed(
        resolver, lambda name: prefix + name, lambda name: name[len(prefix) :] if name.startswith(prefix) else None
    )


def renamed(resolver: AnyResolver, names: Mapping[str, str]) -> Resolver:
    """Return a resolver with other names for some tools of `resolver`. `names` maps old names to new ones.

    Raises `InvalidField` for a name that the resolver does not have, or if two tools would have the same name.

    >>> from toolwire import AgentResolver, renamed
    >>> def read(path: str) -> str:
    ...     return f"contents of {path}"
    >>> [tool.name for tool in renamed(AgentResolver([read]), {"read": "read_file"}).available_tools()]
    ['read_file']
    """
    resolver = resolver_of(resolver, "renamed")
    names_before = [tool.name for tool in tools_of(resolver)]
    missing = [name for name in names if name not in names_before]
    if missing:
        raise InvalidField("names", f"has {missing[0]!r}, which the resolver does not have", path="renamed")
    unchanged = [name for name in names_before if name not in names]
    names_after = [*names.values(), *dict.fromkeys(unchanged)]
    if len(set(names_after)) != len(names_after):
        raise InvalidField("names", "would give two tools the same name", path="renamed")
    old_names = {new: old for old, new in names.items()}
    return _Renamed(
        resolver, lambda name: names.get(name, name), lambda name: old_names.get(name, None if name in names else name)
    )


def filtered(resolver: AnyResolver, keep: Collection[str] | Callable[[Tool], bool]) -> Resolver:
    """Return a resolver with only some tools of `resolver`: those named in `keep`, or for which `keep(tool)` is true.

    Raises `InvalidField` if `keep` is a single string.

    >>> from toolwire import AgentResolver, filtered
    >>> def read(path: str) -> str:
    ...     return f"contents of {path}"
    >>> def delete(path: str) -> str:
    ...     return f"deleted {path}"
    >>> [tool.name for tool in filtered(AgentResolver([read, delete]), ["read"]).available_tools()]
    ['read']
    """
    resolver = resolver_of(resolver, "filtered")
    if isinstance(keep, str):
        raise InvalidField("keep", "must be a list of names, or a function", path="filtered")
    names = frozenset(() if callable(keep) else keep)

    def kept_name(name: str) -> str | None:
        if callable(keep):
            return name if any(tool.name == name and keep(tool) for tool in tools_of(resolver)) else None
        return name if name in names else None

    return _Renamed(resolver, kept_name, kept_name)


Approve = Callable[[ToolCall, str], bool | str | Awaitable[bool | str | None] | None]
"""A sync or async function of a call and its preview. True approves the call. A text is the reason for a refusal."""


class _Approved(_Renamed):
    """A resolver that calls `ask` before it runs a call of the tools in `only`, or of any tool if that is None."""

    def __init__(self, resolver: Any, ask: Approve, only: Collection[str] | None = None) -> None:
        super().__init__(resolver, lambda name: name, lambda name: name)
        self._ask = ask
        self._only = None if only is None else frozenset(only)

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        if self._asks_about(call.name) and (problems := self.problems(call, context)):
            yield Emit(CallNote("invalid"))
            return invalid(call, problems)
        refusal = yield from self.checking(call, context)
        return refusal if refusal is not None else (yield from super().resolving(call, context))

    def checking(self, call: ToolCall, context: Any = None) -> Work[ToolResult | None]:
        """Request approval for the call if its tool needs one. Return the refusal, or None."""
        return (yield from self._request_approval(call, context)) if self._asks_about(call.name) else None

    def _asks_about(self, name: str) -> bool:
        return self._only is None or name in self._only

    def _request_approval(self, call: ToolCall, context: Any = None) -> Work[ToolResult | None]:
        """Request approval for `call`. Return the refusal as its result, or None if it was approved."""
        if not any(tool.name == call.name for tool in self.available_tools()):
            raise UnknownTool(call.name, [tool.name for tool in self.available_tools()])
        try:
            preview = yield Ask(self._preview_of, (call, context))
            yield Emit(CallNote(approval="asked"))
            answer = yield Ask(self._ask, (call, preview))
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - the approval function may raise anything
            call_secrets = secrets_of(input_of(call), self.sensitive_fields_for(call.name))
            details = format_traceback(problem, [*(yield from current_secrets()), *call_secrets])
            logger.error("the approval for %r could not be requested\n%s", call.name, details)  # noqa: TRY400 - scrubbed
            answer = "nobody could be asked"
        if answer is True:
            yield Emit(CallNote(approval="granted"))
            return None
        yield Emit(CallNote("denied", "denied"))
        return failure(call, f"{_DENIED}: {answer}" if isinstance(answer, str) and answer else _DENIED)

    def _preview_of(self, call: ToolCall, context: Any) -> str:
        preview = self.preview(call, context)
        if preview is not None:
            return preview
        arguments = scrub(call.plain_arguments, self.sensitive_fields_for(call.name))
        return f"{call.name}({json.dumps(arguments, ensure_ascii=False)})"


def approved(resolver: AnyResolver, ask: Approve, *, only: Collection[str] | None = None) -> Resolver:
    """Return a resolver that requests approval before `resolver` runs a call, for all tools or those in `only`.

    `ask(call, preview)` may be sync or async. True approves the call. Any other value refuses it, and the model reads a
    text as the reason. Raises `InvalidField` if `ask` does not take both arguments.

    >>> from toolwire import AgentResolver, ToolCall, approved
    >>> def delete(path: str) -> str:
    ...     return f"deleted {path}"
    >>> resolver = approved(AgentResolver([delete]), lambda call, preview: "not today", only=["delete"])
    >>> resolver.resolve(ToolCall("call_1", "delete", {"path": "a.txt"})).content
    'the call was not approved: not today'
    """
    if count_positional(ask) < 2:
        raise InvalidField("ask", "must take a call and its preview", path="approved")
    return _Approved(resolver, ask, only)
