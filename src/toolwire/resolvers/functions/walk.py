"""The position of a walk over annotations, and the meaning of names at that position.

Rules of this file:
- An annotation that is text is evaluated in the scope where it was written, as Python does it.
- A class inside a function is found while that function runs, which is when its tools are declared.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ForwardRef, Generic, Protocol, TypeVar, get_args, get_origin

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidSchema, ToolwireError
from toolwire.resolvers.functions.docstrings import Docstring, class_docstring
from toolwire.resolvers.functions.json_types import Definitions, JsonType


class Namespace(Struct, frozen=True):
    """The names that an annotation can use, innermost scope first, and the values of type variables."""

    maps: tuple[Mapping[str, Any], ...] = ()
    qualname: str = ""
    body: Mapping[str, Any] = {}
    types: Mapping[Any, Any] = {}

    def evaluate(self, text: str) -> Any:
        """Evaluate the text of an annotation."""
        return eval(text, {}, _Lookup(self))  # noqa: S307 - it is code of the declared function itself

    def bind(self, annotation: Any) -> Any:
        """Replace the type variables in `annotation` by their values."""
        if not self.types:
            return annotation
        if isinstance(annotation, TypeVar):
            return self.types.get(annotation, annotation)
        parameters = () if isinstance(annotation, type) else getattr(annotation, "__parameters__", ())
        return annotation[tuple(self.types.get(name, name) for name in parameters)] if parameters else annotation


# The annotation of each field of a class, with the namespace of the class that it was written in.
Hints = dict[str, tuple[Any, Namespace]]


class Walk(Struct, frozen=True):
    """The position of a walk. `read` returns the type of an annotation, and `path` is used in errors."""

    read: Callable[[Any, "Walk"], JsonType]
    definitions: Definitions
    path: str = ""
    namespace: Namespace = Namespace()

    def type_of(self, annotation: Any, step: str = "") -> JsonType:
        """Return the type of an annotation one step further down."""
        return self.read(annotation, self.at(step))

    def at(self, step: str) -> "Walk":
        """Return the position one step further down: `.name` for a field, `[]` for elements."""
        return replace(self, path=(self.path + step).removeprefix(".")) if step else self

    def with_namespace(self, namespace: Namespace) -> "Walk":
        """Return the same position with another namespace."""
        return replace(self, namespace=namespace)

    def refuse(self, message: str) -> InvalidSchema:
        """Return an `InvalidSchema` error for this position."""
        return InvalidSchema(message, path=self.path)

    def evaluate(self, reference: Any) -> Any:
        """Evaluate an annotation that is text. Return any other annotation unchanged."""
        if not isinstance(reference, str | ForwardRef):
            return reference
        text = reference if isinstance(reference, str) else reference.__forward_arg__
        module = getattr(reference, "__forward_module__", None)
        namespace = self.namespace
        if module is not None:
            namespace = module_namespace(getattr(module, "__name__", module), {}, namespace)
        try:
            return namespace.evaluate(text)
        except NameError as problem:
            raise self.refuse(
                f"the name {problem.name!r} of the annotation {text!r} is not known here; "
                "import it in the module, outside of `if TYPE_CHECKING`, or define it before the tool"
            ) from problem
        except RecursionError:
            raise  # of an annotation without end, which the caller reports
        except Exception as problem:
            raise self.refuse(f"the annotation {text!r} cannot be evaluated: {problem!r}") from problem

    def docstring(self, cls: type) -> Docstring:
        """Return the docstring of a class."""
        try:
            return class_docstring(cls)
        except ToolwireError as problem:
            problem.path = problem.path or self.path
            raise


class _Lookup(dict[str, Any]):
    """The names of a namespace as a map that looks up each name when it is used."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self.namespace: Namespace = namespace

    def __missing__(self, name: str) -> Any:
        inner, module = self.namespace.maps[:-1], self.namespace.maps[-1:]
        for names in (*inner, *_enclosing_scopes(self.namespace.qualname, *module), *module, self.namespace.body):
            if name in names:
                return names[name]
        raise KeyError(name)


def _enclosing_scopes(qualname: str, globals_: Mapping[str, Any] | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the scopes of the classes and running functions that enclose a definition."""
    parts = qualname.split(".")[:-1]
    if not parts or globals_ is None:
        return
    names = globals_
    for part in parts:
        if not isinstance(inner := names.get(part), type):
            break
        yield (names := vars(inner))
    qualnames = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_qualname in qualnames and frame.f_globals is globals_:
            yield frame.f_locals
        frame = frame.f_back


def unwrap_callable(function: Any) -> list[Any]:
    """Return `function` and the callables under it, through partials, methods, objects and decorators."""
    layers = [function]
    while True:
        match function:
            case functools.partial():
                function = function.func
            case staticmethod() | classmethod():
                function = function.__func__
            case _ if inspect.ismethod(function):
                function = function.__func__
            case _ if hasattr(function, "__wrapped__"):
                function = function.__wrapped__
            case _ if inspect.isroutine(function):
                return layers
            case type():
                function = inspect.getattr_static(function, "__init__")
            case _:
                function = inspect.getattr_static(type(function), "__call__", None)
        layers.append(function)


def function_namespace(function: Any) -> Namespace:
    """Return the namespace for the annotations of `function`."""
    innermost = unwrap_callable(function)[-1]
    code = getattr(innermost, "__code__", None)
    if code is None:
        return Namespace()
    cells = zip(code.co_freevars, getattr(innermost, "__closure__", None) or (), strict=False)
    closure = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return Namespace((closure, _type_parameters(innermost), innermost.__globals__), innermost.__qualname__)


def module_namespace(name: str | None, names: Mapping[str, Any], outer: Namespace) -> Namespace:
    """Return the namespace of an alias, or of a reference that names its module."""
    module = sys.modules.get(name or "")
    in_same_module = module is None or (outer.maps and outer.maps[-1] is vars(module))
    return Namespace(
        (names, *outer.maps) if in_same_module else (names, vars(module)), outer.qualname, outer.body, outer.types
    )


def class_hints(cls: Any, arguments: tuple[Any, ...], outer: Namespace) -> Hints:
    """Return the annotations of all fields of a class, including inherited ones."""
    hints: Hints = {}
    bindings = _type_bindings(cls, arguments)
    for owner in reversed(cls.__mro__):
        module = sys.modules.get(owner.__module__)
        globals_ = {} if module is None else vars(module)
        enclosing = outer.maps[:-1] if outer.maps and outer.maps[-1] is globals_ else ()
        maps = ({owner.__name__: owner}, _type_parameters(owner), *enclosing, globals_)
        namespace = Namespace(maps, owner.__qualname__, vars(owner), bindings.get(owner, {}))
        hints |= {name: (hint, namespace) for name, hint in _annotations(owner).items()}
    return hints


def _annotations(owner: Any) -> dict[str, Any]:
    """Return the annotations in the body of a class, unevaluated."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations  # noqa: PLC0415 - it came with this version

        return get_annotations(owner, format=Format.FORWARDREF)
    return inspect.get_annotations(owner)


def _type_bindings(cls: Any, arguments: tuple[Any, ...]) -> dict[Any, dict[Any, Any]]:
    """Return the values of the type variables of a generic class and its bases."""
    namespace = Namespace(types=dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False)))
    bindings = {cls: dict(namespace.types)}
    for base in vars(cls).get("__orig_bases__", ()):
        origin = get_origin(base)
        if origin not in (None, Generic, Protocol) and isinstance(origin, type):
            bindings |= _type_bindings(origin, tuple(map(namespace.bind, get_args(base))))
    return bindings


def _type_parameters(thing: Any) -> dict[str, Any]:
    return {parameter.__name__: parameter for parameter in getattr(thing, "__type_params__", ())}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises where the variable has no value yet
    except ValueError:
        return False
    return True
