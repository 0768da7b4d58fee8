"""From an annotation to JSON Schema (draft 2020-12), and to the reading of such JSON.

Rules of this file:
- What the schema takes, the annotation's Python value can be made of; what cannot be said is InvalidSchema.
- Classes and named aliases go to `$defs`. An object of named fields takes no others, so that none is lost.
- A default is said where JSON can say it; nothing is called to find it out.
- pydantic writes and reads its own classes; it is never imported here.
"""

import types
import typing
from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Annotated, Any, ForwardRef, Literal, NewType, TypeVar, Union, get_args, get_origin

from toolwire.errors import InvalidSchema
from toolwire.resolvers.functions import foreign, shapes
from toolwire.resolvers.functions.constraints import annotated
from toolwire.resolvers.functions.containers import ARRAYS, MAPS, array, mapping, pair
from toolwire.resolvers.functions.definitions import Definitions
from toolwire.resolvers.functions.enumerations import enumeration, literal
from toolwire.resolvers.functions.forms import TEXT, ValueForm
from toolwire.resolvers.functions.scalars import LEAVES, scalar_of
from toolwire.resolvers.functions.scopes import NameScope, scope_of_module
from toolwire.resolvers.functions.sites import AnnotationSite
from toolwire.resolvers.functions.unions import union_of

Handler = Callable[[Any, AnnotationSite], ValueForm]

# Words around an annotation that say nothing of its values.
WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final", "ClassVar"})
INSTEAD = {
    "Callable": "a model sends JSON, which has no functions; take a name (Literal or Enum) and look it up",
    "type": "a model sends JSON, which has no classes; take a name (Literal or Enum) and look it up",
    **dict.fromkeys(
        ("Iterator", "Generator", "AsyncIterator", "AsyncGenerator", "AsyncIterable"),
        "arguments come whole; use list[...]",
    ),
    **dict.fromkeys(("Never", "NoReturn"), "no value fits it, so that the tool could never be called"),
    **dict.fromkeys(("Awaitable", "Coroutine"), "arguments are values; nothing can be awaited"),
}
CLASSES = "use a dataclass, a TypedDict, a NamedTuple, a msgspec Struct or a pydantic model"


def schema_of(annotation: Any, *, path: str = "") -> dict[str, Any]:
    """Give the JSON Schema of an annotation, with its `$defs`."""
    definitions = Definitions()
    return definitions.whole(form_at(annotation, site_for(definitions, path)).schema)


def site_for(definitions: Definitions, path: str = "", scope: NameScope | None = None) -> AnnotationSite:
    """Give a place to start from; the classes that are met go to `definitions`."""
    return AnnotationSite(_walk, definitions, path, scope or NameScope())


def form_at(annotation: Any, site: AnnotationSite) -> ValueForm:
    """Give the form of an annotation at a place."""
    try:
        return _walk(annotation, site)
    except RecursionError:
        raise site.refuse("the annotation is nested too deeply, or without end") from None


def _walk(annotation: Any, site: AnnotationSite) -> ValueForm:
    if isinstance(annotation, str | ForwardRef):
        annotation = site.evaluate(annotation)
    annotation = site.scope.bind(annotation)
    origin = get_origin(annotation) or annotation
    try:
        leaf, handler = (LEAVES.get(origin) if origin is annotation else None), ORIGINS.get(origin)
    except TypeError:
        raise site.refuse(f"{annotation!r} is not an annotation; {CLASSES}") from None
    if leaf is not None:
        return leaf
    if handler is not None:
        return handler(annotation, site)
    if getattr(origin, "_name", None) in WRAPPERS:
        return site.form(next(iter(get_args(annotation)), Any))
    special = SPECIAL.get(type(origin).__name__)
    if special is not None:
        return special(annotation, site)
    if isinstance(origin, type):
        return _of_class(annotation, origin, site)
    raise _refused(annotation, origin, site)


def _refused(annotation: Any, origin: Any, site: AnnotationSite) -> InvalidSchema:
    name = getattr(origin, "__name__", None) or getattr(origin, "_name", None) or ""
    known = getattr(origin, "__module__", "") in (
        "builtins",
        "collections.abc",
        "typing",
        "typing_extensions",
    )
    shown = annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)
    return site.refuse(f"{shown} has no JSON Schema: {INSTEAD.get(name, CLASSES) if known else CLASSES}")


def _of_class(annotation: Any, origin: type, site: AnnotationSite) -> ValueForm:
    form = scalar_of(origin)
    if form is not None:
        return form
    if foreign.is_pydantic(annotation):
        return foreign.pydantic_form(annotation, site)
    if issubclass(origin, Enum):
        return enumeration(origin, site)
    shape = shapes.shape_of(origin)
    if shape is None:
        raise _refused(annotation, origin, site)
    return shape(annotation, origin, site)


def _union(annotation: Any, site: AnnotationSite) -> ValueForm:
    members = get_args(annotation)
    if not members:
        raise site.refuse(f"{annotation!r} says nothing of what it takes; write Optional[X], Union[X, Y] or X | Y")
    present = [member for member in members if getattr(member, "__qualname__", "") != "UnsetType"]
    return union_of([site.form(member) for member in present], site.definitions)


def _new_type(annotation: Any, site: AnnotationSite) -> ValueForm:
    supertype = annotation.__supertype__
    module = getattr(annotation, "__module__", None)
    return site.seen_from(scope_of_module(module, {}, site.scope)).form(supertype)


def _type_variable(variable: TypeVar, site: AnnotationSite) -> ValueForm:
    if variable.__constraints__:
        return union_of([site.form(one) for one in variable.__constraints__], site.definitions)
    default = getattr(variable, "__default__", None)
    stands_for = variable.__bound__ if variable.__bound__ is not None else default
    named = isinstance(stands_for, type) or get_origin(stands_for) is not None
    return site.form(stands_for if named or isinstance(stands_for, ForwardRef | str) else Any)


def _alias(annotation: Any, site: AnnotationSite) -> ValueForm:
    alias = get_origin(annotation) or annotation
    try:
        value = alias.__value__
    except NameError as problem:
        raise site.refuse(f"the name {problem.name!r} of the alias {alias.__name__} is not known") from problem
    bound = dict(zip(getattr(alias, "__type_params__", ()), get_args(annotation), strict=False))
    outer = scope_of_module(getattr(alias, "__module__", None), {alias.__name__: alias}, site.scope)
    inner = NameScope(outer.maps, outer.qualname, outer.own, bound)
    building = site.seen_from(inner)
    name = shapes.name_of(annotation, alias)
    key = shapes.key_of(annotation, alias)
    form = site.definitions.named(key, name, lambda: building.form(value))
    if site.definitions.schemas[form.schema["$ref"].removeprefix("#/$defs/")] == form.schema:
        raise site.refuse(f"the alias {alias.__name__} stands for itself")
    return form


def _bare(annotation: Any, site: AnnotationSite) -> ValueForm:
    return pair(annotation, site, bare=annotation in (tuple, typing.Tuple))  # noqa: UP006 - it is asked for


def _annotated(annotation: Any, site: AnnotationSite) -> ValueForm:
    inner, *metadata = get_args(annotation)
    if foreign.needs_pydantic(metadata):
        return annotated(foreign.pydantic_form(annotation, site), foreign.beside(metadata), site)
    return annotated(site.form(inner), metadata, site)


ORIGINS: dict[Any, Handler] = {
    Annotated: _annotated,
    Literal: literal,
    Union: _union,
    types.UnionType: _union,
    typing.Optional: _union,
    tuple: _bare,
    typing.LiteralString: lambda _annotation, _site: TEXT,
    defaultdict: partial(mapping, defaultdict),
    **{kind: partial(array, kind) for kind in ARRAYS},
    **{kind: partial(mapping, kind) for kind in MAPS},
}
SPECIAL: dict[str, Handler] = {
    NewType.__name__: _new_type,
    "TypeVar": _type_variable,
    "TypeAliasType": _alias,
}
