"""The interface of resolvers, and the functions that call any of them: sync or async, ours or a program's own.

Rules of this file:
- A resolver lists its tools and runs calls. `resolve` returns a `ToolResult`, and a failing tool is an error result.
  `UnknownTool` is raised only for a name that the resolver does not have.
- A program's resolver may be an object, a class, a module, or a pair of one of these and its working folder. Its
  `resolve` may be async, may take no context, and may return a string or `("ok" or "error", text)`. It may also
  report an unknown tool by the error text `Unknown tool: NAME`, as the original interface did.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from toolwire.errors import InvalidField, UnknownTool
from toolwire.types import Tool, ToolCall, ToolResult
from toolwire.waiting.results import FAILED, error_result, failure, result_of_answer
from toolwire.waiting.steps import Ask, Work, arun, count_positional, run_or_await

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., object])
HERE = "."
_UNKNOWN = "Unknown tool"


@runtime_checkable
class ToolResolver(Protocol):
    """Lists tools and runs calls. It may also have `dispatch_recipe(name)`.

    >>> from toolwire import Tool, ToolCall, execute
    >>> class Clock:
    ...     def available_tools(self):
    ...         return [Tool("now", "Return the time.", {"type": "object"})]
    ...
    ...     def resolve(self, call, context=None):
    ...         return "12:00"
    >>> execute([ToolCall("call_1", "now", {})], Clock())[0].content
    '12:00'
    """

    def available_tools(self) -> Sequence[Tool]:
        """Return the tools."""

    def resolve(self, call: ToolCall, context: Any = None) -> object:
        """Run `call` and return its result: a `ToolResult`, a text, `("ok" or "error", text)`, or JSON."""


class _OtherResolver(Protocol):
    """A resolver whose `resolve` has any signature: it may be async, or take no context."""

    def available_tools(self) -> Iterable[Tool]: ...

    def resolve(self, *arguments: Any, **keywords: Any) -> object: ...


_UnboundResolver = ToolResolver | _OtherResolver | type[_OtherResolver]
AnyResolver = _UnboundResolver | tuple[_UnboundResolver, str | os.PathLike[str]]
"""A resolver: an object, a module, a class that needs no arguments, or a pair of one of these and its folder."""


if TYPE_CHECKING:

    def on_the_class(method: _F) -> _F:
        """Allow a method to be called on its class as well. Type checkers see the method itself."""
        return method

else:

    class on_the_class(Generic[_T]):  # noqa: N801 - written before a method, like `classmethod`
        """A method that can also be called on its class, which then creates an instance without arguments."""

        def __init__(self, method: Callable[..., _T]) -> None:
            self.method: Callable[..., _T] = method
            self.__doc__ = method.__doc__

        def __get__(self, one: Any, owner: type) -> Callable[..., _T]:
            if one is not None:
                return MethodType(self.method, one)

            @wraps(self.method)
            def call(*arguments: Any, **keywords: Any) -> _T:
                instance = () if arguments and isinstance(arguments[0], owner) else (owner(),)
                return self.method(*instance, *arguments, **keywords)

            return call


class Resolver:
    """A resolver of this package. `resolving` runs a call as steps, in sync and async code alike.

    >>> from toolwire import AgentResolver, Resolver
    >>> def ping() -> str:
    ...     return "pong"
    >>> resolver: Resolver = AgentResolver([ping])
    >>> [tool.name for tool in resolver.available_tools()]
    ['ping']
    """

    def available_tools(self) -> list[Tool]:
        """Return the tools."""
        raise NotImplementedError

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run `call` as steps."""
        raise NotImplementedError

    def resolve(self, call: ToolCall, context: Any = None) -> ToolResult:
        """Run `call` and return its result. In a running event loop, an async tool returns an awaitable result."""
        return run_or_await(self.resolving(call, context))

    async def aresolve(self, call: ToolCall, context: Any = None) -> ToolResult:
        """Run `call` without blocking the event loop, and return its result."""
        return await arun(self.resolving(call, context))

    def dispatch_recipe(self, name: str) -> Callable[[dict[str, Any]], object] | None:
        """Return the recipe of the tool `name`, if it has one."""
        del name
        return None

    def sensitive_fields_for(self, name: str) -> list[str]:
        """Return the fields of the tool `name` that are kept out of logs and traces."""
        del name
        return []

    def cover_files(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Hide the files at these absolute paths from the tools that use files."""
        del paths

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Describe what `call` would do, if its tool can describe it before it runs."""
        del call, context
        return None

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        """Return why `call` would be rejected because of its arguments. Empty if it would run."""
        del call, context
        return []


def cover_files(resolver: Any, paths: Iterable[str | os.PathLike[str]]) -> None:
    """Hide the files at `paths` from the tools of `resolver`, if they use files.

    >>> import tempfile
    >>> from toolwire import CodeTools, ToolCall
    >>> from toolwire.resolvers import cover_files
    >>> folder = tempfile.mkdtemp()
    >>> tools = CodeTools(folder)
    >>> cover_files(tools, [f"{folder}/traces.db"])
    >>> tools.resolve(ToolCall("call_1", "read_file", {"path": "traces.db"})).is_error
    True
    """
    if isinstance(resolver, Resolver):
        resolver.cover_files(paths)


def problems_of(resolver: Any, call: ToolCall, context: Any = None) -> list[str]:
    """Return why `resolver` would reject `call`. Always empty for a program's own resolver, which has no such check."""
    return resolver.problems(call, context) if isinstance(resolver, Resolver) else []


def resolver_of(source: Any, path: str) -> Any:
    """Return a resolver instance from `source`: an instance, a class, or a pair `(resolver, cwd)`.

    Raises `InvalidField`, with `path`, if it lacks `resolve` or `available_tools`.

    >>> from toolwire.resolvers import AgentResolver, resolver_of
    >>> type(resolver_of(AgentResolver, "resolver")).__name__
    'AgentResolver'
    """
    pair = type(source) is tuple and len(source) == 2
    resolver = _bind_folder(*source) if pair else _bind_folder(source)
    for name in ("resolve", "available_tools"):
        if not callable(getattr(resolver, name, None)):
            raise InvalidField("resolver", f"must have `{name}`: {source!r} has not", path=path)
    return resolver


def _bind_folder(resolver: Any, cwd: Any = HERE) -> Any:
    """Bind a resolver to a folder, by `at(cwd)` or by its constructor. A resolver without either stays as it is."""
    if inspect.isclass(resolver):
        if _takes_folder(resolver):
            return cast("Any", resolver)(cwd=cwd)
        resolve = inspect.getattr_static(resolver, "resolve", None)
        return resolver if isinstance(resolve, staticmethod | classmethod) else resolver()
    bind = None if cwd == HERE else getattr(resolver, "at", None)
    return bind(cwd) if callable(bind) else resolver


def _takes_folder(cls: type) -> bool:
    """Return True if the class takes a folder. Some built-in classes have no readable signature."""
    try:
        return "cwd" in inspect.signature(cls).parameters
    except ValueError:
        return False


def offers_tools(source: Any) -> bool:
    """Return True if `source` is a resolver, a resolver class, or a pair of one and a folder.

    >>> from toolwire import CodeTools
    >>> from toolwire.resolvers import offers_tools
    >>> offers_tools((CodeTools, "/project")), offers_tools("read_file")
    (True, False)
    """
    if type(source) is tuple and len(source) == 2 and isinstance(source[1], str | os.PathLike):
        source = source[0]
    return callable(getattr(source, "available_tools", None))


def tools_of(resolver: Any) -> list[Tool]:
    """Return the tools of `resolver`.

    >>> from toolwire.resolvers import AgentResolver, tools_of
    >>> def read(path: str) -> str:
    ...     return f"contents of {path}"
    >>> [tool.name for tool in tools_of(AgentResolver([read]))]
    ['read']
    """
    return list(resolver.available_tools())


def recipe_of(resolver: Any, name: str) -> Callable[[dict[str, Any]], object] | None:
    """Return the recipe of the tool `name`, if `resolver` has recipes.

    >>> from toolwire.resolvers import AgentResolver, recipe_of
    >>> recipe_of(AgentResolver([]), "research") is None
    True
    """
    find = getattr(resolver, "dispatch_recipe", None)
    return find(name) if callable(find) else None


def fields_of(resolver: Any, name: str) -> list[str]:
    """Return the sensitive fields of the tool `name` of `resolver`. If the resolver fails, all fields are sensitive.

    >>> from toolwire import AgentResolver, tool
    >>> from toolwire.resolvers import fields_of
    >>> @tool(sensitive=["pin"])
    ... def pay(pin: str) -> str:
    ...     return "paid"
    >>> fields_of(AgentResolver([pay]), "pay")
    ['pin']
    """
    find = getattr(resolver, "sensitive_fields_for", None)
    try:
        return list(find(name) or ()) if callable(find) else []
    except Exception:  # noqa: BLE001 - unknown, so all are sensitive
        return ["*"]


def resolving(resolver: Any, call: ToolCall, context: Any = None) -> Work[ToolResult]:
    """Run `call` by any `resolver`, as steps, with `context`. A failure is an error result. Raises `UnknownTool`."""
    steps = getattr(resolver, "resolving", None)
    if steps is not None:
        return (yield from steps(call, context))  # type: ignore[no-any-return]
    arguments = (call, context) if count_positional(resolver.resolve) > 1 else (call,)
    try:
        value = yield Ask(resolver.resolve, arguments, {}, getattr(resolver, "aresolve", None))
    except UnknownTool as problem:
        if problem.name == call.name:
            raise
        return failure(call, f"{FAILED}{problem}")
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a resolver may raise anything, and the model reads it
        return (yield from error_result(problem, call, fields_of(resolver, call.name)))
    result = result_of_answer(value, call)
    if result.is_error and _refers_to(str(result.content), call.name):
        raise UnknownTool(call.name, [tool.name for tool in tools_of(resolver)])
    return result


def _refers_to(text: str, name: str) -> bool:
    """Return True if `text` is `Unknown tool`, or `Unknown tool: NAME` for exactly this `name`.

    A tool's own error may begin in the same way.
    """
    prefix, _, detail = text.partition(": ")
    if prefix != _UNKNOWN:
        return False
    if detail in ("", name):
        return True
    next_character = detail.removeprefix(name)[:1]
    return detail.startswith(name) and not (next_character.isalnum() or next_character in "_-./:")
