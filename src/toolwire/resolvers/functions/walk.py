"""A walk over annotations: where it stands, and what the names in an annotation mean there.

Rules of this file:
- An annotation that is text is evaluated where it was written, as Python would have done.
- A class inside of a function is found while that function runs, which is when its tools are declared.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ForwardRef, Generic, Protocol, TypeVar, get_args, get_origin

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidSchema, ToolwireError
from toolwire.resolvers.functions.docstrings import Docstring, docstring_of_class
from toolwire.resolvers.functions.json_types import Definitions, JsonType


class Namespace(Struct, frozen=True):
    """Names and what they mean, the nearest first, and what type variables stand for."""

    maps: tuple[Mapping[str, Any], ...] = ()
    qualname: str = ""
    own: Mapping[str, Any] = {}
    types: Mapping[Any, Any] = {}

    def evaluate(self, text: str) -> Any:
        """Give what the text of an annotation means."""
        return eval(text, {}, _Lookup(self))  # noqa: S307 - it is code of the declared function itself

    def bind(self, annotation: Any) -> Any:
        """Put what type variables stand for in their place."""
        if not self.types:
            return annotation
        if isinstance(annotation, TypeVar):
            return self.types.get(annotation, annotation)
        wanted = () if isinstance(annotation, type) else getattr(annotation, "__parameters__", ())
        return annotation[tuple(self.types.get(name, name) for name in wanted)] if wanted else annotation


# The annotation of each field of a class, with the namespace of the class that it was written in.
Hints = dict[str, tuple[Any, Namespace]]


class Walk(Struct, frozen=True):
    """Where a walk stands; `read` gives the type of an annotation at a place, `path` names it in errors."""

    read: Callable[[Any, "Walk"], JsonType]
    definitions: Definitions
    path: str = ""
    namespace: Namespace = Namespace()

    def type_of(self, annotation: Any, step: str = "") -> JsonType:
        """Give the type of an annotation that lies one step further."""
        return self.read(annotation, self.at(step))

    def at(self, step: str) -> "Walk":
        """Go one step further: `.name` for a field, `[]` for elements."""
        return replace(self, path=(self.path + step).removeprefix(".")) if step else self

    def seen_from(self, namespace: Namespace) -> "Walk":
        """Stay, with other meanings of names."""
        return replace(self, namespace=namespace)

    def refuse(self, message: str) -> InvalidSchema:
        """Make the error that names this place."""
        return InvalidSchema(message, path=self.path)

    def evaluate(self, reference: Any) -> Any:
        """Give what an annotation means that is text; any other is given back as it is."""
        if not isinstance(reference, str | ForwardRef):
            return reference
        text = reference if isinstance(reference, str) else reference.__forward_arg__
        module = getattr(reference, "__forward_module__", None)
        namespace = self.namespace
        if module is not None:
            namespace = namespace_of_module(getattr(module, "__name__", module), {}, namespace)
        try:
            return namespace.evaluate(text)
        except NameError as problem:
            raise self.refuse(
                f"the name {problem.name!r} of the annotation {text!r} is not known here; "
                "import it in the module, outside of `if TYPE_CHECKING`, or define it before the tool"
            ) from problem
        except RecursionError:
            raise  # of an annotation without end, which is told as that
        except Exception as problem:
            raise self.refuse(f"the annotation {text!r} cannot be evaluated: {problem!r}") from problem

    def docstring(self, kind: type) -> Docstring:
        """Read what a class says of itself."""
        try:
            return docstring_of_class(kind)
        except ToolwireError as problem:
            problem.path = problem.path or self.path
            raise


class _Lookup(dict[str, Any]):
    """The names of a namespace, each looked up when it is needed."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self.namespace: Namespace = namespace

    def __missing__(self, name: str) -> Any:
        near, far = self.namespace.maps[:-1], self.namespace.maps[-1:]
        for names in (*near, *_enclosing(self.namespace.qualname, *far), *far, self.namespace.own):
            if name in names:
                return names[name]
        raise KeyError(name)


def _enclosing(qualname: str, globals_: Mapping[str, Any] | None = None) -> Iterator[Mapping[str, Any]]:
    """Find the names of the classes, and of the running functions, in which something was defined."""
    parts = qualname.split(".")[:-1]
    if not parts or globals_ is None:
        return
    names = globals_
    for part in parts:
        if not isinstance(inner := names.get(part), type):
            break
        yield (names := vars(inner))
    wanted = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_qualname in wanted and frame.f_globals is globals_:
            yield frame.f_locals
        frame = frame.f_back


def layers(function: Any) -> list[Any]:
    """List what is called and what that calls in turn, under partials, methods, objects and decorators."""
    called = [function]
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
                return called
            case type():
                function = inspect.getattr_static(function, "__init__")
            case _:
                function = inspect.getattr_static(type(function), "__call__", None)
        called.append(function)


def namespace_of_function(function: Any) -> Namespace:
    """Give the namespace of the annotations of a function."""
    written = layers(function)[-1]
    code = getattr(written, "__code__", None)
    if code is None:
        return Namespace()
    cells = zip(code.co_freevars, getattr(written, "__closure__", None) or (), strict=False)
    closure = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return Namespace((closure, _type_parameters(written), written.__globals__), written.__qualname__)


def namespace_of_module(name: str | None, own: Mapping[str, Any], outer: Namespace) -> Namespace:
    """Give the namespace of an alias, or of a reference that says which module it is from."""
    module = sys.modules.get(name or "")
    inside = module is None or (outer.maps and outer.maps[-1] is vars(module))
    return Namespace((own, *outer.maps) if inside else (own, vars(module)), outer.qualname, outer.own, outer.types)


def hints_of_class(kind: Any, arguments: tuple[Any, ...], outer: Namespace) -> Hints:
    """Find the annotations of all fields of a class, and of those that it inherits from."""
    hints: Hints = {}
    bindings = _bindings(kind, arguments)
    for owner in reversed(kind.__mro__):
        module = sys.modules.get(owner.__module__)
        globals_ = {} if module is None else vars(module)
        here = outer.maps[:-1] if outer.maps and outer.maps[-1] is globals_ else ()
        maps = ({owner.__name__: owner}, _type_parameters(owner), *here, globals_)
        namespace = Namespace(maps, owner.__qualname__, vars(owner), bindings.get(owner, {}))
        hints |= {name: (hint, namespace) for name, hint in _annotations(owner).items()}
    return hints


def _annotations(owner: Any) -> dict[str, Any]:
    """Give the annotations in the body of a class, as they were written."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations  # noqa: PLC0415 - it came with this version

        return get_annotations(owner, format=Format.FORWARDREF)
    return inspect.get_annotations(owner)


def _bindings(kind: Any, arguments: tuple[Any, ...]) -> dict[Any, dict[Any, Any]]:
    """Find what the type variables of a generic class, and of those that it inherits from, stand for."""
    own = Namespace(types=dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False)))
    bindings = {kind: dict(own.types)}
    for base in vars(kind).get("__orig_bases__", ()):
        origin = get_origin(base)
        if origin not in (None, Generic, Protocol) and isinstance(origin, type):
            bindings |= _bindings(origin, tuple(map(own.bind, get_args(base))))
    return bindings


def _type_parameters(thing: Any) -> dict[str, Any]:
    return {parameter.__name__: parameter for parameter in getattr(thing, "__type_params__", ())}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises where the variable has no value yet
    except ValueError:
        return False
    return True
