"""What a resolver is, and how any of them is asked: sync or async, ours or a caller's own.

Rules of this file:
- A resolver lists its tools and resolves calls. `resolve` gives a `ToolResult`; a failing tool is an error
  result. Only a name that is not its own is raised, as `UnknownTool`.
- A caller's resolver may be an object, a class or a module, or a pair of one and the folder where it works; its
  `resolve` may be async, take no context, give a string or `("ok" or "error", text)`, or say `Unknown tool: NAME` as
  the original did.
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
    """Offers tools and resolves calls; it may have `dispatch_recipe(name)` too."""

    def available_tools(self) -> Sequence[Tool]:
        """List the tools."""

    def resolve(self, call: ToolCall, context: Any = None) -> object:
        """Run a call and give its result: a `ToolResult`, a text, `("ok" or "error", text)`, or JSON."""


class _OtherResolver(Protocol):
    """A resolver with a `resolve` of any signature: it may be async, or take no context."""

    def available_tools(self) -> Iterable[Tool]: ...

    def resolve(self, *arguments: Any, **keywords: Any) -> object: ...


_Alone = ToolResolver | _OtherResolver | type[_OtherResolver]
AnyResolver = _Alone | tuple[_Alone, str | os.PathLike[str]]
"""A resolver: an object, a module, a class that needs no arguments, or a pair of one of these and its folder."""


if TYPE_CHECKING:

    def on_the_class(method: _F) -> _F:
        """Let a method be called on its class as well; checkers see the method alone."""
        return method

else:

    class on_the_class(Generic[_T]):  # noqa: N801 - written before a method, like `classmethod`
        """A method that can be called on its class as well: then of an instance that is made without arguments."""

        def __init__(self, method: Callable[..., _T]) -> None:
            self.method: Callable[..., _T] = method
            self.__doc__ = method.__doc__

        def __get__(self, one: Any, owner: type) -> Callable[..., _T]:
            if one is not None:
                return MethodType(self.method, one)

            @wraps(self.method)
            def called(*given: Any, **named: Any) -> _T:
                made = () if given and isinstance(given[0], owner) else (owner(),)
                return self.method(*made, *given, **named)

            return called


class Resolver:
    """A resolver of this package: `resolving` resolves a call, in sync and async code alike."""

    def available_tools(self) -> list[Tool]:
        """List the tools."""
        raise NotImplementedError

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run a call, as steps."""
        raise NotImplementedError

    def resolve(self, call: ToolCall, context: Any = None) -> ToolResult:
        """Run a call and give its result; in a running event loop, an async tool gives an awaitable result."""
        return run_or_await(self.resolving(call, context))

    async def aresolve(self, call: ToolCall, context: Any = None) -> ToolResult:
        """Run a call without blocking the event loop, and give its result."""
        return await arun(self.resolving(call, context))

    def dispatch_recipe(self, name: str) -> Callable[[dict[str, Any]], object] | None:
        """Give the recipe of a tool, if it has one."""
        del name
        return None

    def sensitive_fields_for(self, name: str) -> list[str]:
        """List the fields of a tool that are kept out of logs and traces."""
        del name
        return []

    def cover_files(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Keep files, by absolute paths, from the tools that use files."""
        del paths

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Show what a call would do, if its tool can tell before it runs."""
        del call, context
        return None

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        """Say why a call would not be run, as far as its arguments tell; nothing if it would."""
        del call, context
        return []


def cover_files(resolver: Any, paths: Iterable[str | os.PathLike[str]]) -> None:
    """Keep files from the tools of a resolver, if its tools use files."""
    if isinstance(resolver, Resolver):
        resolver.cover_files(paths)


def problems_of(resolver: Any, call: ToolCall, context: Any = None) -> list[str]:
    """Say why a call would not be run; of a caller's own resolver nobody knows before it is asked."""
    return resolver.problems(call, context) if isinstance(resolver, Resolver) else []


def resolver_of(given: Any, path: str) -> Any:
    """Give what can be asked: an instance as it is, a class made, a pair `(resolver, cwd)` bound to its folder."""
    pair = type(given) is tuple and len(given) == 2
    resolver = _bound_to(*given) if pair else _bound_to(given)
    for name in ("resolve", "available_tools"):
        if not callable(getattr(resolver, name, None)):
            raise InvalidField("resolver", f"must have `{name}`: {given!r} has not", path=path)
    return resolver


def _bound_to(resolver: Any, cwd: Any = HERE) -> Any:
    """Bind a resolver to a folder: by `at(cwd)`, or by making it there; one that minds none stays."""
    if inspect.isclass(resolver):
        if _takes_folder(resolver):
            return cast("Any", resolver)(cwd=cwd)
        resolve = inspect.getattr_static(resolver, "resolve", None)
        return resolver if isinstance(resolve, staticmethod | classmethod) else resolver()
    bind = None if cwd == HERE else getattr(resolver, "at", None)
    return bind(cwd) if callable(bind) else resolver


def _takes_folder(kind: type) -> bool:
    """Whether a class is made for a folder; some of Python's own do not say what they take."""
    try:
        return "cwd" in inspect.signature(kind).parameters
    except ValueError:
        return False


def offers_tools(given: Any) -> bool:
    """Whether something lists tools and runs them: a resolver, a class of them, or a pair of one and a folder."""
    if type(given) is tuple and len(given) == 2 and isinstance(given[1], str | os.PathLike):
        given = given[0]
    return callable(getattr(given, "available_tools", None))


def tools_of(resolver: Any) -> list[Tool]:
    """List the tools of a resolver."""
    return list(resolver.available_tools())


def recipe_of(resolver: Any, name: str) -> Callable[[dict[str, Any]], object] | None:
    """Give the recipe of a tool, from a resolver that has recipes."""
    find = getattr(resolver, "dispatch_recipe", None)
    return find(name) if callable(find) else None


def fields_of(resolver: Any, name: str) -> list[str]:
    """List the sensitive fields of a tool; if the resolver fails to say, all fields are sensitive."""
    find = getattr(resolver, "sensitive_fields_for", None)
    try:
        return list(find(name) or ()) if callable(find) else []
    except Exception:  # noqa: BLE001 - nobody can know, so everything is
        return ["*"]


def resolving(resolver: Any, call: ToolCall, context: Any = None) -> Work[ToolResult]:
    """Ask any resolver; its failure becomes an error result. Only a name that it does not have is raised."""
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
    if result.is_error and _names(str(result.content), call.name):
        raise UnknownTool(call.name, [tool.name for tool in tools_of(resolver)])
    return result


def _names(text: str, name: str) -> bool:
    """Whether `Unknown tool`, or `Unknown tool: NAME` of just this tool: a tool's own error may begin like that."""
    words, _, rest = text.partition(": ")
    if words != _UNKNOWN:
        return False
    if rest in ("", name):
        return True
    after = rest.removeprefix(name)[:1]
    return rest.startswith(name) and not (after.isalnum() or after in "_-./:")
