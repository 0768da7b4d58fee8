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
from typing import Any, TypeVar, overload

from toolwire.errors import InvalidField
from toolwire.resolvers.functions.signature import Signature, read_signature
from toolwire.types import Tool

C = TypeVar("C")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class FunctionTool:
    """A function that is a tool as well.

    `tool` is its declaration, `signature` says how arguments are given to it, `bound` that it has its object.
    """

    __name__: str

    def __init__(
        self, function: Any, tool: Tool, signature: Signature, sensitive: tuple[str, ...], preview: Any, *, bound: bool
    ) -> None:
        self.function = function
        self.tool = tool
        self.signature = signature
        self.sensitive = sensitive
        self.preview = preview
        self.bound = bound
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function as if it were no tool."""
        return self.function(*arguments, **keywords)

    def __get__(self, instance: Any, owner: type | None = None) -> "FunctionTool":
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

    def execute(self, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call the function with the arguments of a call that is valid."""
        positional, keywords = self.signature.bind(arguments, context)
        return self.function(*positional, **keywords)

    def sensitive_fields(self) -> list[str]:
        """List the fields that are kept out of logs and traces."""
        return list(self.sensitive)


@overload
def tool(given: type[C], /) -> type[C]: ...  # type: ignore[overload-overlap]
@overload
def tool(given: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
    context: str | None = "context",
    sensitive: Collection[str] = (),
    strict: bool | None = None,
    custom: bool = False,
    parallel: bool | None = None,
    timeout: float | None = None,
    output_limit: int | None = None,
    metadata: dict[str, Any] | None = None,
    preview: Callable[..., Any] | None = None,
) -> Callable[[Any], Any]: ...
def tool(given: Any = None, /, **options: Any) -> Any:
    """Declare a function, a method or a class as a tool.

    `context` names the parameter that gets the context of the session and is no argument of the tool;
    `sensitive` names fields that are kept out of logs and traces; `parallel`, `timeout` (in seconds) and
    `output_limit` (in characters) say how calls are run; a `custom` tool takes the model's text as it is.
    """
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise InvalidField(unknown[0], f"is no option; there are: {', '.join(sorted(_OPTIONS))}", path="tool")
    if given is None:
        return lambda later: _declare(later, **options)
    return _declare(given, **options)


_RUNNING = ("parallel", "timeout", "output_limit")
_OPTIONS = frozenset(
    (*"name description parameters context sensitive strict custom metadata preview".split(), *_RUNNING)
)


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
    """Whether the first parameter is the object of a method."""
    code = getattr(function, "__code__", None)
    return code is not None and not inspect.ismethod(function) and code.co_varnames[:1] in (("self",), ("cls",))


def _tool_of(name: str | None, signature: Signature, options: dict[str, Any]) -> Tool:
    name = options.get("name") or name
    if not name or name == "<lambda>":
        raise InvalidField("name", "must be given: what is declared has no name of its own", path="tool")
    metadata = dict(options.get("metadata") or {})
    metadata |= {key: options[key] for key in _RUNNING if options.get(key) is not None}
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
        raise InvalidField("execute", "must be there: it is what the tool does", path=kind.__name__)
    if getattr(kind, "definition", None) is not None:
        if options:
            raise InvalidField("definition", "says it all: give no options beside it", path=kind.__name__)
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
