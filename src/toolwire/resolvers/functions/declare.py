"""`@tool`: a function, a method or a class, declared as a tool by what it says of itself.

Rules of this file:
- What is declared is called as before. Its name, docstring and annotations are the declaration, unless said.
- A first parameter called `self` or `cls` is the object of a method, and no argument of the tool.
- What cannot be declared is an error where it is declared, not where it is first called.
"""

import functools
import inspect
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from toolwire.errors import InvalidField
from toolwire.resolvers.effects import Effects, checked_effects
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

# What is used as it was: classes, and methods of classes.
C = TypeVar("C", bound="type[Any] | staticmethod[..., Any] | classmethod[Any, ..., Any]")
Q = ParamSpec("Q")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class FunctionTool(Generic[P, R_co]):
    """A function that is a tool as well, and is called as before.

    `tool` is its declaration, `signature` says how its arguments are passed, `bound` whether it has its object.
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
        """Call the function as if it were no tool."""
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
        """Give the declaration."""
        return self.tool

    def to_openai_format(self) -> dict[str, Any]:
        """Write the declaration in the most widely known spelling."""
        return self.tool.to_openai_format()

    def execute(self, arguments: dict[str, Any], context: object = None) -> R_co:
        """Call the function with the arguments of a call that is valid."""
        positional, keywords = self.signature.bind(arguments, context)
        return self.function(*positional, **keywords)

    def sensitive_fields(self) -> list[str]:
        """List the fields that are kept out of logs and traces."""
        return list(self.sensitive)


class ToolOptions(TypedDict, total=False):
    """The options of `@tool(...)`; the name, the docstring and the annotations give the others."""

    name: str | None
    """The name by which the model calls the tool."""
    description: str | None
    """The description that the model reads."""
    parameters: dict[str, Any] | None
    """The JSON Schema of the arguments."""
    context: str | None
    """The parameter that gets the context of the session and is no argument of the tool (`"context"`)."""
    sensitive: Collection[str]
    """The fields that are kept out of logs and traces."""
    strict: bool | None
    """Whether the provider has to keep to the schema."""
    custom: bool
    """Whether the tool takes the model's text as it is."""
    parallel: bool | None
    """Whether a call may run at the same time as its neighbours."""
    timeout: float | None
    """The seconds that a call may take."""
    output_limit: int | None
    """The characters that a result may have; the rest is cut."""
    effects: Effects | None
    """What it means to run a call twice: `none`, `idempotent`, `once` (the usual), or `checkable(probe)`."""
    metadata: dict[str, Any] | None
    """Anything else about the tool, for programs; no model sees it."""
    preview: Callable[..., object] | None
    """Shows a person who approves a call what it would do; it takes the tool's arguments."""


class _Declaring(Protocol):
    """What `tool(...)` gives when it is called with options alone: it declares a function or a class."""

    @overload
    def __call__(self, given: C, /) -> C: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, given: Callable[P, R_co], /) -> FunctionTool[P, R_co]: ...


@overload
def tool(given: C, /, **options: Unpack[ToolOptions]) -> C: ...  # type: ignore[overload-overlap]
@overload
def tool(given: Callable[P, R_co], /, **options: Unpack[ToolOptions]) -> FunctionTool[P, R_co]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> _Declaring: ...
def tool(given: Any = None, /, **options: Any) -> Any:
    """Declare a function, a method or a class as a tool; `ToolOptions` lists the options."""
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise InvalidField(unknown[0], f"is not an option; there are: {', '.join(sorted(_OPTIONS))}", path="tool")
    if given is None:
        return lambda later: _declare(later, **options)
    return _declare(given, **options)


_RUNNING = ("parallel", "timeout", "output_limit")
_OPTIONS = frozenset(ToolOptions.__annotations__)


def _declare(declared: Any, **options: Any) -> Any:
    if inspect.isclass(declared):
        return _declare_class(declared, options)
    if isinstance(declared, FunctionTool):
        declared = declared.function
    plain = declared.__func__ if isinstance(declared, staticmethod | classmethod) else declared
    missing = isinstance(declared, classmethod) or _has_object(plain)
    function = plain if isinstance(declared, staticmethod) else declared
    signature = read_signature(plain, context=options.get("context", "context"), skip=int(missing))
    made = _tool_of(getattr(plain, "__name__", None), signature, options)
    sensitive = tuple(options.get("sensitive", ()))
    return FunctionTool(function, made, signature, sensitive, options.get("preview"), bound=not missing)


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
    metadata |= {key: options[key] for key in _RUNNING if options.get(key) is not None}
    if options.get("effects") is not None:
        metadata["effects"] = checked_effects(options["effects"])
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


def _declare_class(kind: type, options: dict[str, Any]) -> type:
    """Declare a class by its `execute`; one that has a `definition` is declared already."""
    execute = getattr(kind, "execute", None)
    if execute is None:
        raise InvalidField("execute", "is missing: the tool needs it to run", path=kind.__name__)
    if getattr(kind, "definition", None) is not None:
        if options:
            raise InvalidField("definition", "is complete: pass no options with it", path=kind.__name__)
        return kind
    skip = not isinstance(inspect.getattr_static(kind, "execute"), staticmethod | classmethod)
    signature = read_signature(execute, context=options.get("context", "context"), skip=int(skip))
    doc = inspect.cleandoc(kind.__doc__) if kind.__doc__ else None
    made = _tool_of(_HUMP.sub("_", kind.__name__).lower(), signature, {"description": doc, **options})
    kind.definition = staticmethod(lambda: made)  # type: ignore[attr-defined]
    kind.__signature_of_tool__ = signature  # type: ignore[attr-defined]
    if "sensitive" in options:
        kind.sensitive_fields = tuple(options["sensitive"])  # type: ignore[attr-defined]
    return kind
