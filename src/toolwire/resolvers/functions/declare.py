"""`@tool`: declares a function, a method or a class as a tool.

Rules of this file:
- A declared function is called as before. The declaration consists of its name, docstring and annotations, unless
  options replace them.
- A first parameter named `self` or `cls` is the object of a method, and no argument of the tool.
- An error in the declaration is raised where the tool is declared, not when it is first called.
"""

import functools
import inspect
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from toolwire.errors import InvalidField
from toolwire.resolvers.effects import Effects, check_effects
from toolwire.resolvers.functions.signature import Signature, read_signature
from toolwire.types import Tool

if TYPE_CHECKING:
    from typing_extensions import ParamSpec
    from typing_extensions import TypeVar as DefaultedTypeVar

    P = ParamSpec("P", default=...)
    R_co = DefaultedTypeVar("R_co", default=Any, covariant=True)
else:
    from typing import ParamSpec

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

# Classes, and methods of classes, keep their type.
C = TypeVar("C", bound="type[Any] | staticmethod[..., Any] | classmethod[Any, ..., Any]")
Q = ParamSpec("Q")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class FunctionTool(Generic[P, R_co]):
    """A function that is also a tool. It is called as before.

    `tool` is its declaration, and `signature` describes how arguments are passed to it. `bound` is False for a method
    without its object.

    >>> from toolwire import FunctionTool, tool
    >>> @tool
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> (isinstance(add, FunctionTool), add(2, 3), add.tool.name)
    (True, 5, 'add')
    """

    __name__: str

    def __init__(
        self,
        function: Callable[P, R_co],
        tool: Tool,
        signature: Signature,
        sensitive: tuple[str, ...],
        preview: Callable[..., object] | None,
        *,
        bound: bool,
    ) -> None:
        self.function: Callable[P, R_co] = function
        self.tool: Tool = tool
        self.signature: Signature = signature
        self.sensitive: tuple[str, ...] = sensitive
        self.preview: Callable[..., object] | None = preview
        self.bound: bool = bound
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R_co:
        """Call the function directly."""
        return self.function(*arguments, **keywords)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> "FunctionTool[P, R_co]": ...
    @overload
    def __get__(
        self: "FunctionTool[Concatenate[Any, Q], R_co]", instance: object, owner: type | None = None
    ) -> "FunctionTool[Q, R_co]": ...
    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool[..., R_co]":
        """Bind a method to its object."""
        if self.bound or (instance is None and not isinstance(self.function, classmethod)):
            return self
        function = self.function.__get__(instance, owner)
        return FunctionTool(function, self.tool, self.signature, self.sensitive, self.preview, bound=True)

    def __repr__(self) -> str:
        return f"<tool {self.tool.name!r}>"

    def definition(self) -> Tool:
        """Return the declaration."""
        return self.tool

    def to_openai_format(self) -> dict[str, Any]:
        """Return the declaration in the format of OpenAI's Chat Completions."""
        return self.tool.to_openai_format()

    def execute(self, arguments: dict[str, Any], context: object = None) -> R_co:
        """Call the function with the valid arguments of a tool call."""
        positional, keywords = self.signature.bind(arguments, context)
        return self.function(*positional, **keywords)

    def sensitive_fields(self) -> list[str]:
        """Return the fields that are kept out of logs and traces."""
        return list(self.sensitive)


class ToolOptions(TypedDict, total=False):
    """The options of `@tool(...)`. By default the name, the docstring and the annotations are used.

    >>> from toolwire import ToolOptions, tool
    >>> options: ToolOptions = {"name": "sum", "effects": "none"}
    >>> tool(**options)(lambda a, b: a + b).tool.name
    'sum'
    """

    name: str | None
    """The name by which the model calls the tool."""
    description: str | None
    """The description that the model reads."""
    parameters: dict[str, Any] | None
    """The JSON Schema of the arguments."""
    context: str | None
    """The parameter that receives the context of the session and is no argument of the tool (`"context"`)."""
    sensitive: Collection[str]
    """The fields that are kept out of logs and traces."""
    strict: bool | None
    """Whether the provider must enforce the schema (strict mode)."""
    custom: bool
    """Whether the tool receives the model's text unparsed (a custom tool)."""
    parallel: bool | None
    """Whether a call may run at the same time as its neighbours."""
    timeout: float | None
    """The maximum duration of a call, in seconds."""
    output_limit: int | None
    """The maximum length of a result, in characters. The rest is cut off."""
    effects: Effects | None
    """The effect of running a call twice: `none`, `idempotent`, `once` (the default), or `checkable(probe)`."""
    metadata: dict[str, Any] | None
    """Further data about the tool for programs. It is not sent to the model."""
    preview: Callable[..., object] | None
    """A function of the tool's arguments that returns a preview of the call, for the person who approves it."""


class _ToolDecorator(Protocol):
    """The result of `tool(...)` with options only: a decorator for a function or a class."""

    @overload
    def __call__(self, given: C, /) -> C: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, given: Callable[P, R_co], /) -> FunctionTool[P, R_co]: ...


@overload
def tool(given: C, /, **options: Unpack[ToolOptions]) -> C: ...  # type: ignore[overload-overlap]
@overload
def tool(given: Callable[P, R_co], /, **options: Unpack[ToolOptions]) -> FunctionTool[P, R_co]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> _ToolDecorator: ...
def tool(given: Any = None, /, **options: Any) -> Any:
    """Declare a function, a method or a class as a tool.

    `given` is what to declare; without it, `tool(...)` returns a decorator. `ToolOptions` lists the `options`.
    Raises `InvalidField` for a wrong option, and `InvalidSchema` for a signature that has no JSON Schema.

    >>> from toolwire import tool
    >>> @tool(sensitive=["api_key"])
    ... def get_weather(city: str, api_key: str = "") -> str:
    ...     '''Return the weather in a city.'''
    ...     return f"25 degrees in {city}"
    >>> get_weather.definition().parameters["required"]
    ['city']
    """
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise InvalidField(unknown[0], f"is not an option; there are: {', '.join(sorted(_OPTIONS))}", path="tool")
    if given is None:
        return lambda target: _declare(target, **options)
    return _declare(given, **options)


_EXECUTION_OPTIONS = ("parallel", "timeout", "output_limit")
_OPTIONS = frozenset(ToolOptions.__annotations__)


def _declare(target: Any, **options: Any) -> Any:
    if inspect.isclass(target):
        return _declare_class(target, options)
    if isinstance(target, FunctionTool):
        target = target.function
    unwrapped = target.__func__ if isinstance(target, staticmethod | classmethod) else target
    is_unbound = isinstance(target, classmethod) or _has_object(unwrapped)
    function = unwrapped if isinstance(target, staticmethod) else target
    signature = read_signature(unwrapped, context=options.get("context", "context"), skip=int(is_unbound))
    declaration = _tool_of(getattr(unwrapped, "__name__", None), signature, options)
    sensitive = tuple(options.get("sensitive", ()))
    return FunctionTool(function, declaration, signature, sensitive, options.get("preview"), bound=not is_unbound)


def _has_object(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and not inspect.ismethod(function) and code.co_varnames[:1] in (("self",), ("cls",))


def _tool_of(name: str | None, signature: Signature, options: dict[str, Any]) -> Tool:
    name = options.get("name") or name
    if not name or name == "<lambda>":
        raise InvalidField("name", "is missing: the declared object has no name of its own", path="tool")
    for limit in ("timeout", "output_limit"):
        amount = options.get(limit)
        if amount is not None and (type(amount) not in (int, float) or not amount > 0):
            raise InvalidField(limit, f"must be a number above 0, not {amount!r}", path="tool")
    metadata = dict(options.get("metadata") or {})
    metadata |= {key: options[key] for key in _EXECUTION_OPTIONS if options.get(key) is not None}
    if options.get("effects") is not None:
        metadata["effects"] = check_effects(options["effects"])
    custom = bool(options.get("custom"))
    parameters = options.get("parameters") or signature.parameters
    return Tool(
        name,
        options.get("description") or signature.description or "",
        None if custom else parameters,
        metadata,
        options.get("strict"),
        custom,
    )


def _declare_class(cls: type, options: dict[str, Any]) -> type:
    """Declare a class by its `execute` method. A class with a `definition` is already declared."""
    execute = getattr(cls, "execute", None)
    if execute is None:
        raise InvalidField("execute", "is missing: the tool needs it to run", path=cls.__name__)
    if getattr(cls, "definition", None) is not None:
        if options:
            raise InvalidField("definition", "is complete: pass no options with it", path=cls.__name__)
        return cls
    skip = not isinstance(inspect.getattr_static(cls, "execute"), staticmethod | classmethod)
    signature = read_signature(execute, context=options.get("context", "context"), skip=int(skip))
    doc = inspect.cleandoc(cls.__doc__) if cls.__doc__ else None
    declaration = _tool_of(_WORD_START.sub("_", cls.__name__).lower(), signature, {"description": doc, **options})
    cls.definition = staticmethod(lambda: declaration)  # type: ignore[attr-defined]
    cls.__signature_of_tool__ = signature  # type: ignore[attr-defined]
    if "sensitive" in options:
        cls.sensitive_fields = tuple(options["sensitive"])  # type: ignore[attr-defined]
    return cls
