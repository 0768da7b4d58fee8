"""What the names in an annotation mean: where the function or the class stands that has the annotation.

Rules of this file:
- An annotation that is text is evaluated where it was written, as Python would have done.
- A class inside of a function is found while that function runs, which is when its tools are declared.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ForwardRef, TypeVar

from msgspec import Struct


class NameScope(Struct, frozen=True):
    """Names and what they mean, the nearest first, and what type variables stand for."""

    maps: tuple[Mapping[str, Any], ...] = ()
    qualname: str = ""
    own: Mapping[str, Any] = {}
    types: Mapping[Any, Any] = {}

    def evaluate(self, text: str) -> Any:
        """Give what the text of an annotation means."""
        return eval(text, {}, _Names(self))  # noqa: S307 - it is code of the declared function itself

    def bind(self, annotation: Any) -> Any:
        """Put what type variables stand for in their place."""
        if not self.types:
            return annotation
        if isinstance(annotation, TypeVar):
            return self.types.get(annotation, annotation)
        wanted = () if isinstance(annotation, type) else getattr(annotation, "__parameters__", ())
        return annotation[tuple(self.types.get(name, name) for name in wanted)] if wanted else annotation


class _Names(dict[str, Any]):
    """The names of a scope, each looked up when it is needed."""

    def __init__(self, scope: NameScope) -> None:
        super().__init__()
        self.scope = scope

    def __missing__(self, name: str) -> Any:
        near, far = self.scope.maps[:-1], self.scope.maps[-1:]
        for names in (*near, *_enclosing(self.scope.qualname, *far), *far, self.scope.own):
            if name in names:
                return names[name]
        raise KeyError(name)


def _enclosing(qualname: str, globals_: Mapping[str, Any] | None = None) -> Iterator[Mapping[str, Any]]:
    """Find the names of the classes, and of the running functions, in which something was defined."""
    parts = qualname.split(".")[:-1]
    if not parts or globals_ is None:
        return
    yield from _classes(parts, globals_)
    wanted = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_qualname in wanted and frame.f_globals is globals_:
            yield frame.f_locals
        frame = frame.f_back


def _classes(parts: list[str], globals_: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    names = globals_
    for part in parts:
        inner = names.get(part)
        if not isinstance(inner, type):
            return
        names = vars(inner)
        yield names


def innermost(function: Any) -> Any:
    """Find the function that was written, under partials, methods, callable objects and decorators."""
    return list(layers(function))[-1]


def layers(function: Any) -> Iterator[Any]:
    """Give what is called, and what that calls in turn."""
    while True:
        yield function
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
                return
            case type():
                function = inspect.getattr_static(function, "__init__")
            case _:
                function = inspect.getattr_static(type(function), "__call__", None)


def scope_of_function(function: Any) -> NameScope:
    """Give the scope of the annotations of a function."""
    written: Callable[..., Any] = innermost(function)
    code = getattr(written, "__code__", None)
    if code is None:
        return NameScope()
    cells = zip(code.co_freevars, getattr(written, "__closure__", None) or (), strict=False)
    closure = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return NameScope((closure, _type_parameters(written), written.__globals__), written.__qualname__)


def scope_of_class(kind: Any, outer: NameScope, types: Mapping[Any, Any]) -> NameScope:
    """Give the scope of the annotations in the body of a class."""
    module = sys.modules.get(kind.__module__)
    globals_ = {} if module is None else vars(module)
    near = ({kind.__name__: kind}, _type_parameters(kind))
    here = outer.maps[:-1] if outer.maps and outer.maps[-1] is globals_ else ()
    return NameScope((*near, *here, globals_), kind.__qualname__, vars(kind), types)


def scope_of_module(name: str | None, own: Mapping[str, Any], outer: NameScope) -> NameScope:
    """Give the scope of an alias, or of a reference that says which module it is from."""
    module = sys.modules.get(name or "")
    if module is None or (outer.maps and outer.maps[-1] is vars(module)):
        return NameScope((own, *outer.maps), outer.qualname, outer.own, outer.types)
    return NameScope((own, vars(module)), outer.qualname, outer.own, outer.types)


def text_of(reference: str | ForwardRef) -> str:
    """Give the text of an annotation that has not been evaluated."""
    return reference if isinstance(reference, str) else reference.__forward_arg__


def _type_parameters(thing: Any) -> dict[str, Any]:
    return {parameter.__name__: parameter for parameter in getattr(thing, "__type_params__", ())}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises where the variable has no value yet
    except ValueError:
        return False
    return True
