"""Tools with the code that runs them, and the resolver of such tools.

Rules of this file:
- A broken call, or one with invalid arguments, is not run. Its result says what to correct.
- The code receives a copy of the arguments, and the session's context. Without a context, `execute` receives an empty
  map.
- An exception of a tool becomes an error result, and is logged without secrets. Exceptions that stop the program are
  raised.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from toolwire.errors import InvalidField, ToolError, UnknownTool
from toolwire.resolvers.functions import FunctionTool, tool
from toolwire.resolvers.protocol import Resolver, on_the_class
from toolwire.schema.validator import Validator
from toolwire.streams.call_normalizer import without_nulls
from toolwire.types import DeclaredTool, ServerTool, Tool, ToolCall, ToolResult
from toolwire.types.conversation import SCHEMA_KEYS, called_name, read_declaration
from toolwire.types.frozen import copy_json
from toolwire.waiting.results import (
    CallNote,
    describe_error,
    error_result,
    failure,
    invalid,
    result_of,
    result_of_answer,
)
from toolwire.waiting.steps import Ask, Emit, Work, count_positional

_BoundArguments = tuple[Sequence[Any], dict[str, Any]]
_Bind = Callable[[dict[str, Any], Any], _BoundArguments]
_handler_cache: "WeakKeyDictionary[FunctionTool, Handler]" = WeakKeyDictionary()


class Handler:
    """A tool and the function that runs it.

    `declaration` is what the model gets: the tool, or the declaration of a provider's own tool of its name. `bind`
    turns the arguments and the context into the arguments of `function`. `read` turns its return value into a result.
    """

    __slots__ = ("bind", "declaration", "function", "preview", "read", "sensitive", "tool", "validator")

    def __init__(
        self,
        tool: Tool,
        function: Callable[..., object],
        bind: _Bind | None = None,
        *,
        sensitive: Collection[str] = (),
        preview: Callable[..., object] | None = None,
        read: Callable[[Any, ToolCall], ToolResult] = result_of_answer,
        declaration: Tool | ServerTool | None = None,
    ) -> None:
        self.tool: Tool = tool
        self.declaration: Tool | ServerTool = tool if declaration is None else declaration
        self.function: Callable[..., object] = function
        self.bind: _Bind = bind or _bind_map(function)
        self.sensitive: tuple[str, ...] = tuple(sensitive)
        self.preview: Callable[..., object] | None = preview
        self.read: Callable[[Any, ToolCall], ToolResult] = read
        takes_text = tool.custom or tool.plain_parameters is None
        self.validator: Validator | None = (
            None if takes_text else Validator(tool.plain_parameters, sensitive=frozenset(sensitive), name=tool.name)
        )

    def problems(self, call: ToolCall) -> list[str]:
        """Return why `call` cannot be run. Empty if it can."""
        if not call.runs:
            return [call.error or "they were cut off"]
        if call.custom or self.tool.custom:
            is_mismatch = not self.tool.custom or not _has_text(call)
            return (
                ["the tool takes text" if self.tool.custom else "the tool takes a JSON object"] if is_mismatch else []
            )
        return self.validator.problems(call.plain_arguments) if self.validator is not None else []

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run `call` as steps, and return its result."""
        call = without_nulls(call, self.tool)
        bound_arguments, problems = self._bound(call, context)
        if problems:
            yield Emit(CallNote("invalid"))
            return invalid(call, problems)
        try:
            value = yield Ask(self.function, *bound_arguments)
        except ToolError as problem:
            return failure(
                call, describe_error(problem, sys.maxsize)
            )  # the text is for the model, uncut: its end has the cause
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a tool may raise anything
            return (yield from error_result(problem, call, self.sensitive))
        return self.read(value, call)

    def _bound(self, call: ToolCall, context: Any) -> tuple[_BoundArguments, list[str]]:
        """Return the arguments for the function, and the reasons why the call cannot be run."""
        problems = self.problems(call)
        if not problems:
            try:
                return self.bind({"input": call.raw} if call.custom else call.plain_arguments, context), []
            except InvalidField as problem:
                problems = [f"field {problem.field}: {problem.reason}"]
        return ((), {}), problems

    def refusal(self, call: ToolCall, context: Any = None) -> list[str]:
        """Return why `call` would be rejected, including values that only Python can check. Empty if it would run."""
        return self._bound(without_nulls(call, self.tool), context)[1]

    def shown(self, preview: Callable[..., object], call: ToolCall, context: Any = None) -> str:
        """Return the preview of `call`, or the reason why it would be rejected.

        Context and key are passed to `preview` only if it takes them.
        """
        call = without_nulls(call, self.tool)
        (positional, keywords), problems = self._bound(call, context)
        if problems:
            return f"it would be refused: {'; '.join(problems)}"
        accepted = {*call.plain_arguments, *inspect.signature(preview).parameters}
        positional = positional[: int(min(len(positional), count_positional(preview)))]
        return str(preview(*positional, **{name: value for name, value in keywords.items() if name in accepted}))


RunnableTool = Handler | DeclaredTool | Callable[..., object]
"""A tool that can run: a function, a `@tool`, or a class or an object with a declaration."""


def _has_text(call: ToolCall) -> bool:
    """Return True if the call has free text, or the object that replaces it on wires without custom tools."""
    return call.custom or (call.plain_arguments.keys() == {"input"} and type(call.plain_arguments["input"]) is str)


def bind_text(arguments: dict[str, Any], _context: Any) -> _BoundArguments:
    """Bind the free text of the model as the only argument."""
    return (arguments["input"],), {}


def _bind_map(function: Callable[..., Any]) -> _Bind:
    """Bind all arguments as one map, and the context if the function takes it."""
    if count_positional(function) == 1:
        return lambda arguments, _context: ((copy_json(arguments),), {})
    return lambda arguments, context: ((copy_json(arguments), {} if context is None else context), {})


def handlers_of(source: Any) -> list[Handler]:
    """Return the handlers of a `@tool`, a function, a class, or an object, which may have several tools."""
    if isinstance(source, Handler):
        return [source]
    if isinstance(source, FunctionTool):
        return [_function_handler(source)]
    if getattr(source, "execute", None) is not None and _is_declared(source):
        return [_object_handler(source() if inspect.isclass(source) else source)]
    several = _tools_inside(source)
    if several:
        return [_function_handler(one) for one in several]
    if callable(source) and not inspect.isclass(source):
        return [_function_handler(tool(source))]
    raise InvalidField(
        "tools",
        f"must be functions, `@tool`s, or classes and objects with `definition` and `execute`, not {source!r}",
        path="AgentResolver",
    )


def _tools_inside(source: Any) -> list[FunctionTool]:
    """Return the `@tool` methods of an object or a module, in the order of their definition."""
    if inspect.isclass(source):
        source = source() if any(isinstance(one, FunctionTool) for one in vars(source).values()) else None
    names = dict.fromkeys(
        name
        for owner in (*reversed(type(source).__mro__), source)
        for name in getattr(owner, "__dict__", {})
        if isinstance(getattr(owner, "__dict__", {})[name], FunctionTool)
    )
    return [getattr(source, name) for name in names]


def _function_handler(source: FunctionTool) -> Handler:
    """Return the handler of a `@tool`. It is cached, because compiling a schema takes longer than running a call."""
    cached, declaration = _handler_cache.get(source), (source.tool, source.function, source.sensitive, source.preview)
    if cached is not None and (cached.tool, cached.function, cached.sensitive, cached.preview) == declaration:
        return cached
    function, signature = source.function, source.signature
    if not source.bound:
        raise InvalidField(
            "tools",
            f"has the method {source.tool.name!r} without its object: pass the method of an object",
            path="AgentResolver",
        )
    bind: _Bind = bind_text if source.tool.custom else signature.bind
    handler = Handler(source.tool, function, bind, sensitive=source.sensitive, preview=source.preview, read=result_of)
    _handler_cache[source] = handler
    return handler


def _is_declared(source: Any) -> bool:
    """Return True if `source` has a `definition`, or a name and a schema."""
    has_name = getattr(source, "name", None) is not None
    has_schema = any(getattr(source, key, None) is not None for key in SCHEMA_KEYS)
    return (has_name and has_schema) or getattr(source, "definition", None) is not None


def attribute_value(source: Any, name: str) -> Any:
    """Return the attribute `name`, or what it returns if it is a method."""
    value = getattr(source, name, None)
    return value() if callable(value) else value


def _object_handler(source: Any) -> Handler:
    declared = attribute_value(source, "definition")
    if declared is None:
        declared = {name: attribute_value(source, name) for name in ("name", "description", "strict", *SCHEMA_KEYS)}
    declaration = read_declaration(declared)
    tool = declaration if isinstance(declaration, Tool) else Tool(called_name(declaration))
    sensitive = getattr(source, "sensitive_fields", ())
    fields = tuple((sensitive() if callable(sensitive) else sensitive) or ())
    signature = getattr(source, "__signature_of_tool__", None)
    bind = None if signature is None else signature.bind
    read = result_of_answer if signature is None else result_of
    preview = getattr(source, "preview", None)
    return Handler(tool, source.execute, bind, sensitive=fields, preview=preview, read=read, declaration=declaration)


class AgentResolver(Resolver):
    """Runs calls by functions, `@tool`s, and classes and objects with `definition` and `execute`.

    A subclass may define its `tools`. It can also be used as a class: `MyTools.resolve(call, context)`. Creating one
    raises `InvalidField` for two tools with the same name.

    >>> from toolwire import AgentResolver, ToolCall
    >>> def get_weather(city: str) -> str:
    ...     return f"25 degrees in {city}"
    >>> resolver = AgentResolver([get_weather])
    >>> resolver.resolve(ToolCall("call_1", "get_weather", {"city": "Oslo"})).content
    '25 degrees in Oslo'
    >>> resolver.resolve(ToolCall("call_2", "get_weather", {})).is_error
    True
    """

    tools: Iterable[object] = ()

    def __init__(
        self,
        tools: Iterable[object] | None = None,
        *,
        recipes: dict[str, Callable[[dict[str, Any]], object]] | None = None,
    ) -> None:
        self._handlers: dict[str, Handler] = {}
        for declared in type(self).tools if tools is None else tools:
            for handler in handlers_of(declared):
                if handler.tool.name in self._handlers:
                    raise InvalidField("tools", f"has {handler.tool.name!r} twice", path="AgentResolver")
                self._handlers[handler.tool.name] = handler
        self._recipes = dict(recipes or {})

    if not TYPE_CHECKING:  # checkers see those of `Resolver`
        resolve = on_the_class(Resolver.resolve)
        aresolve = on_the_class(Resolver.aresolve)

    @on_the_class
    def available_tools(self) -> list[Tool]:
        """Return the tools, in the order in which they were given."""
        return [handler.tool for handler in self._handlers.values()]

    def handler(self, name: str) -> Handler:
        """Return the handler of the tool `name`. Raise `UnknownTool` if there is none."""
        if name not in self._handlers:
            raise UnknownTool(name, self._handlers)
        return self._handlers[name]

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run `call` as steps."""
        return (yield from self.handler(call.name).resolving(call, context))

    def dispatch_recipe(self, name: str) -> Callable[[dict[str, Any]], object] | None:
        """Return the recipe of the tool `name`, if it has one."""
        return self._recipes.get(name)

    def sensitive_fields_for(self, name: str) -> list[str]:
        """Return the sensitive fields of the tool `name`. Empty for an unknown tool."""
        handler = self._handlers.get(name)
        return list(handler.sensitive) if handler is not None else []

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Describe what `call` would do, if its tool has a preview."""
        handler = self._handlers.get(call.name)
        if handler is None or handler.preview is None:
            return None
        return handler.shown(handler.preview, call, context)

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        """Return why `call` would be rejected. Empty if it would run, or if the tool is not here."""
        handler = self._handlers.get(call.name)
        return [] if handler is None else handler.refusal(call, context)
