"""Tools with what runs them, and the resolver of such tools: whatever may declare one, read once, and run the same way.

Rules of this file:
- A call that came broken, or whose arguments do not fit, is not run: its result says what to mend.
- What runs gets a copy of the arguments, and the context as it was given; an `execute` without one gets an empty map.
- Whatever a tool raises becomes its result and is logged, scrubbed; what stops the program goes through.
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
from toolwire.streams.settling import without_nulls
from toolwire.types import DeclaredTool, Tool, ToolCall, ToolResult
from toolwire.types.conversation import SCHEMA_KEYS
from toolwire.types.frozen import copied
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

_Bound = tuple[Sequence[Any], dict[str, Any]]
_Bind = Callable[[dict[str, Any], Any], _Bound]
_made: "WeakKeyDictionary[FunctionTool, Handler]" = WeakKeyDictionary()


class Handler:
    """A tool and the function that runs it.

    `bind` makes of arguments and context what `function` is called with; `read` makes a result of its value.
    """

    __slots__ = ("bind", "function", "preview", "read", "sensitive", "tool", "validator")

    def __init__(
        self,
        tool: Tool,
        function: Callable[..., object],
        bind: _Bind | None = None,
        *,
        sensitive: Collection[str] = (),
        preview: Callable[..., object] | None = None,
        read: Callable[[Any, ToolCall], ToolResult] = result_of_answer,
    ) -> None:
        self.tool: Tool = tool
        self.function: Callable[..., object] = function
        self.bind: _Bind = bind or _bind_whole(function)
        self.sensitive: tuple[str, ...] = tuple(sensitive)
        self.preview: Callable[..., object] | None = preview
        self.read: Callable[[Any, ToolCall], ToolResult] = read
        takes_text = tool.custom or tool.plain_parameters is None
        self.validator: Validator | None = (
            None if takes_text else Validator(tool.plain_parameters, sensitive=frozenset(sensitive), name=tool.name)
        )

    def problems(self, call: ToolCall) -> list[str]:
        """Say why the call cannot be run; nothing if it can."""
        if not call.runs:
            return [call.error or "they were cut off"]
        if call.custom or self.tool.custom:
            mixed = not self.tool.custom or not _has_text(call)
            return ["the tool takes text" if self.tool.custom else "the tool takes a JSON object"] if mixed else []
        return self.validator.problems(call.plain_arguments) if self.validator is not None else []

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run the call, and give its result."""
        call = without_nulls(call, self.tool)
        bound, problems = self._bound(call, context)
        if problems:
            yield Emit(CallNote("invalid"))
            return invalid(call, problems)
        try:
            value = yield Ask(self.function, *bound)
        except ToolError as problem:
            return failure(
                call, describe_error(problem, sys.maxsize)
            )  # it is for the model, and its end says how it ended
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a tool may raise anything
            return (yield from error_result(problem, call, self.sensitive))
        return self.read(value, call)

    def _bound(self, call: ToolCall, context: Any) -> tuple[_Bound, list[str]]:
        """Give what the function is called with, or say why the call cannot be run."""
        problems = self.problems(call)
        if not problems:
            try:
                return self.bind({"input": call.raw} if call.custom else call.plain_arguments, context), []
            except InvalidField as problem:
                problems = [f"field {problem.field}: {problem.reason}"]
        return ((), {}), problems

    def refusal(self, call: ToolCall, context: Any = None) -> list[str]:
        """Say why the call would not be run, be it for a value that only Python finds wrong; nothing if it would."""
        return self._bound(without_nulls(call, self.tool), context)[1]

    def shown(self, show: Callable[..., object], call: ToolCall, context: Any = None) -> str:
        """Show what the call would do, or why it would be refused; what is no argument is given where it is taken."""
        call = without_nulls(call, self.tool)
        (places, keywords), problems = self._bound(call, context)
        if problems:
            return f"it would be refused: {'; '.join(problems)}"
        taken = {*call.plain_arguments, *inspect.signature(show).parameters}
        places = places[: int(min(len(places), count_positional(show)))]
        return str(show(*places, **{name: value for name, value in keywords.items() if name in taken}))


RunnableTool = Handler | DeclaredTool | Callable[..., object]
"""A tool that can run: a function, a `@tool`, a class or an object that declares itself."""


def _has_text(call: ToolCall) -> bool:
    """Whether a call has free text, or the object that it stands in on wires without such calls."""
    return call.custom or (call.plain_arguments.keys() == {"input"} and type(call.plain_arguments["input"]) is str)


def bind_text(arguments: dict[str, Any], _context: Any) -> _Bound:
    """Call with the text of the model, and nothing else."""
    return (arguments["input"],), {}


def _bind_whole(function: Callable[..., Any]) -> _Bind:
    """Call with all arguments as one map, and with the context if it is taken."""
    if count_positional(function) == 1:
        return lambda arguments, _context: ((copied(arguments),), {})
    return lambda arguments, context: ((copied(arguments), {} if context is None else context), {})


def handlers_of(source: Any) -> list[Handler]:
    """Read whatever may declare tools: a `@tool`, a function, a class, an object, or one that has several."""
    if isinstance(source, Handler):
        return [source]
    if isinstance(source, FunctionTool):
        return [_of_function(source)]
    if getattr(source, "execute", None) is not None and _declares(source):
        return [_of_object(source() if inspect.isclass(source) else source)]
    several = _tools_inside(source)
    if several:
        return [_of_function(one) for one in several]
    if callable(source) and not inspect.isclass(source):
        return [_of_function(tool(source))]
    raise InvalidField(
        "tools",
        f"must be functions, `@tool`s, or classes and objects with `definition` and `execute`, not {source!r}",
        path="AgentResolver",
    )


def _tools_inside(source: Any) -> list[FunctionTool]:
    """List the `@tool` methods of an object, or of a module, in the order of their definition."""
    if inspect.isclass(source):
        source = source() if any(isinstance(one, FunctionTool) for one in vars(source).values()) else None
    names = dict.fromkeys(
        name
        for owner in (*reversed(type(source).__mro__), source)
        for name in getattr(owner, "__dict__", {})
        if isinstance(getattr(owner, "__dict__", {})[name], FunctionTool)
    )
    return [getattr(source, name) for name in names]


def _of_function(source: FunctionTool) -> Handler:
    """Give what runs a `@tool`; it is made once, for to read a schema takes longer than to run a call."""
    kept, said = _made.get(source), (source.tool, source.function, source.sensitive, source.preview)
    if kept is not None and (kept.tool, kept.function, kept.sensitive, kept.preview) == said:
        return kept
    function, signature = source.function, source.signature
    if not source.bound:
        raise InvalidField(
            "tools",
            f"has the method {source.tool.name!r} without its object: pass the method of an object",
            path="AgentResolver",
        )
    bind: _Bind = bind_text if source.tool.custom else signature.bind
    made = Handler(source.tool, function, bind, sensitive=source.sensitive, preview=source.preview, read=result_of)
    _made[source] = made
    return made


def _declares(source: Any) -> bool:
    """Whether something says which tool it is: in its `definition`, or in a name and a schema of its own."""
    named = getattr(source, "name", None) is not None
    schema = any(getattr(source, key, None) is not None for key in SCHEMA_KEYS)
    return (named and schema) or getattr(source, "definition", None) is not None


def _said(source: Any, name: str) -> Any:
    value = getattr(source, name, None)
    return value() if callable(value) else value


def _of_object(source: Any) -> Handler:
    declared = _said(source, "definition")
    if declared is None:
        declared = {name: _said(source, name) for name in ("name", "description", "strict", *SCHEMA_KEYS)}
    tool_of = declared if isinstance(declared, Tool) else Tool.from_map(declared)
    sensitive = getattr(source, "sensitive_fields", ())
    fields = tuple((sensitive() if callable(sensitive) else sensitive) or ())
    signature = getattr(source, "__signature_of_tool__", None)
    bind = None if signature is None else signature.bind
    read = result_of_answer if signature is None else result_of
    preview = getattr(source, "preview", None)
    return Handler(tool_of, source.execute, bind, sensitive=fields, preview=preview, read=read)


class AgentResolver(Resolver):
    """Resolves calls with functions, `@tool`s, classes and objects with `definition` and `execute`.

    A subclass may say its `tools`, and its class may be asked like an object: `MyTools.resolve(call, context)`.
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
        """List the tools, in the order in which they were given."""
        return [handler.tool for handler in self._handlers.values()]

    def handler(self, name: str) -> Handler:
        """Give the tool of a name, with its function."""
        if name not in self._handlers:
            raise UnknownTool(name, self._handlers)
        return self._handlers[name]

    def resolving(self, call: ToolCall, context: Any = None) -> Work[ToolResult]:
        """Run a call, as steps."""
        return (yield from self.handler(call.name).resolving(call, context))

    def dispatch_recipe(self, name: str) -> Callable[[dict[str, Any]], object] | None:
        """Give the recipe of a tool, if it has one."""
        return self._recipes.get(name)

    def sensitive_fields_for(self, name: str) -> list[str]:
        """List the fields that a tool declares as sensitive; none for an unknown tool."""
        handler = self._handlers.get(name)
        return list(handler.sensitive) if handler is not None else []

    def preview(self, call: ToolCall, context: Any = None) -> str | None:
        """Show what a call would do, if its tool can tell before it runs."""
        handler = self._handlers.get(call.name)
        if handler is None or handler.preview is None:
            return None
        return handler.shown(handler.preview, call, context)

    def problems(self, call: ToolCall, context: Any = None) -> list[str]:
        """Say why a call would not be run; nothing if it would, or if its tool is not here."""
        handler = self._handlers.get(call.name)
        return [] if handler is None else handler.refusal(call, context)
