"""Classes with fields: dataclasses, TypedDicts, NamedTuples and msgspec Structs.

Rules of this file:
- An object takes the fields of its class and no others, so that a misspelled one is found and not lost;
  a TypedDict that says `extra_items` takes those.
- A class is made by calling it, so that its defaults, its InitVars and its `__post_init__` hold.
- A description is the class's own docstring, and what that says of each field.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ForwardRef, Generic, Protocol, get_args, get_origin

from msgspec import NODEFAULT, Struct

from toolwire.resolvers.functions.containers import places_form
from toolwire.resolvers.functions.defaults import default_in
from toolwire.resolvers.functions.forms import Read, Schema, UnreadableValue, ValueForm, of_kind, wrong
from toolwire.resolvers.functions.scopes import NameScope, scope_of_class
from toolwire.resolvers.functions.sites import AnnotationSite
from toolwire.resolvers.functions.unions import nullable

Hints = dict[str, tuple[Any, NameScope]]
Shape = Callable[[Any, Any, AnnotationSite], ValueForm]


class Field(Struct, frozen=True):
    """A field: its name in Python, its key in JSON, what it takes and what it is if left out."""

    name: str
    key: str
    hint: tuple[Any, NameScope]
    required: bool = True
    default: Schema = {}


def shape_of(kind: type) -> Shape | None:
    """Find how a class is read; nothing if it is no class of fields."""
    if dataclasses.is_dataclass(kind):
        return _dataclass
    if issubclass(kind, dict) and hasattr(kind, "__total__"):
        return _typed_dict
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple
    return _struct if issubclass(kind, Struct) else None


def name_of(annotation: Any, kind: Any) -> str:
    """Name a class in `$defs`: `Box` or, with what it is of, `Box_int_`."""
    inner = ", ".join(getattr(one, "__name__", repr(one)) for one in get_args(annotation))
    return f"{kind.__name__}[{inner}]" if inner else str(kind.__name__)


def key_of(annotation: Any, kind: Any) -> tuple[Any, ...]:
    """Tell a class, with what it is of, from every other; metadata may be what cannot be hashed."""
    inner = get_args(annotation)
    try:
        hash(inner)
    except TypeError:
        return kind, repr(inner)
    return kind, inner


def _dataclass(annotation: Any, kind: Any, site: AnnotationSite) -> ValueForm:
    def fields() -> list[Field]:
        hints = _hints(annotation, kind, site)
        return [
            Field(
                name,
                name,
                _without_init_var(*hints[name]),
                field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
                default_in(
                    NODEFAULT if field.default is dataclasses.MISSING else field.default,
                    field.default_factory,
                ),
            )
            for name, field in kind.__dataclass_fields__.items()
            if field.init and "ClassVar" not in repr(field._field_type)  # noqa: SLF001 - it has no public name
        ]

    return _object(annotation, kind, site, fields, kind)


def _without_init_var(hint: Any, scope: NameScope) -> tuple[Any, NameScope]:
    if isinstance(hint, str) and "InitVar" in hint:
        hint = scope.evaluate(hint)
    return (hint.type if isinstance(hint, dataclasses.InitVar) else hint), scope


def _typed_dict(annotation: Any, kind: Any, site: AnnotationSite) -> ValueForm:
    def fields() -> list[Field]:
        found = []
        for name, (hint, scope) in _hints(annotation, kind, site).items():
            value = site.seen_from(scope).at(f".{name}").evaluate(hint) if isinstance(hint, str | ForwardRef) else hint
            found.append(Field(name, name, (value, scope), _is_required(value, name in kind.__required_keys__)))
        return found

    extra = getattr(kind, "__extra_items__", None)
    extra = None if str(extra).endswith(("NoExtraItems", "Never")) else extra
    return _object(annotation, kind, site, fields, dict, extra=extra)


def _is_required(hint: Any, usual: bool) -> bool:
    """Whether a key must be there: the outermost of Required and NotRequired says it, or else the class."""
    while (name := getattr(get_origin(hint), "_name", None)) in ("Required", "NotRequired", "ReadOnly"):
        if name != "ReadOnly":
            return bool(name == "Required")
        hint = get_args(hint)[0]
    return usual


def _struct(annotation: Any, kind: Any, site: AnnotationSite) -> ValueForm:
    config = kind.__struct_config__
    tag = {} if config.tag is None else {config.tag_field: config.tag}
    if config.array_like:
        return _array(annotation, kind, site, lambda: _struct_fields(annotation, kind, site), tag)
    return _object(annotation, kind, site, lambda: _struct_fields(annotation, kind, site), kind, tag)


def _struct_fields(annotation: Any, kind: Any, site: AnnotationSite) -> list[Field]:
    hints = _hints(annotation, kind, site)
    names = kind.__struct_fields__
    defaults = (NODEFAULT,) * (len(names) - len(kind.__struct_defaults__)) + kind.__struct_defaults__
    found = []
    for name, key, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True):
        factory = getattr(default, "factory", None) if type(default).__name__ == "Factory" else None
        said = default_in(NODEFAULT if factory else default, factory)
        found.append(Field(name, key, hints[name], default is NODEFAULT, said))
    return found


def _named_tuple(annotation: Any, kind: Any, site: AnnotationSite) -> ValueForm:
    def fields() -> list[Field]:
        hints = _hints(annotation, kind, site)
        defaults = kind._field_defaults
        return [
            Field(
                name,
                name,
                hints.get(name, (Any, NameScope())),
                name not in defaults,
                default_in(defaults.get(name, NODEFAULT)),
            )
            for name in kind._fields
        ]

    return _array(annotation, kind, site, fields, {})


def _object(
    annotation: Any,
    kind: Any,
    site: AnnotationSite,
    fields: Callable[[], Iterable[Field]],
    make: Callable[..., Any],
    tag: Mapping[str, Any] | None = None,
    extra: Any = None,
) -> ValueForm:
    """Give the form of a class that is an object in JSON."""

    def build() -> ValueForm:
        found = list(fields())
        forms, schemas = _of_fields(found, kind, site)
        constants = tag or {}
        properties = {key: {"const": value} for key, value in constants.items()} | dict(
            zip([field.key for field in found], schemas, strict=True)
        )
        required = [*constants, *(field.key for field in found if field.required)]
        others = None if extra is None else site.form(extra, "{}")
        reads = {field.key: (field.name, form.read) for field, form in zip(found, forms, strict=True)}
        read = _reading(kind.__name__, reads, required, constants, make, others.read if others else None)
        keywords: Schema = {"properties": properties} | ({"required": required} if required else {})
        closing = {"additionalProperties": others.schema if others else False}
        return of_kind("object", read, plain=False, **_described(kind, site), **keywords, **closing)

    return site.definitions.named(key_of(annotation, kind), name_of(annotation, kind), build)


def _array(
    annotation: Any,
    kind: Any,
    site: AnnotationSite,
    fields: Callable[[], Iterable[Field]],
    tag: Mapping[str, Any],
) -> ValueForm:
    """Give the form of a class that is an array in JSON, each place titled with the name of its field."""

    def build() -> ValueForm:
        found = list(fields())
        forms, schemas = _of_fields(found, kind, site)
        titled = [{"title": field.name, **schema} for field, schema in zip(found, schemas, strict=True)]
        names = [field.name for field in found]
        least = sum(field.required for field in found)

        def make(values: list[Any]) -> Any:
            return _made(kind.__name__, kind, dict(zip(names, values[len(tag) :], strict=False)))

        tags = [ValueForm({"const": value}, _expecting(value)) for value in tag.values()]
        schemas = [one.schema for one in tags] + titled
        form = places_form([*tags, *forms], schemas, least + len(tags), make)
        return of_kind("array", form.read, plain=False, **{**form.schema, **_described(kind, site)})

    return site.definitions.named(key_of(annotation, kind), name_of(annotation, kind), build)


def _of_fields(fields: list[Field], kind: type, site: AnnotationSite) -> tuple[list[ValueForm], list[Schema]]:
    """Give the form of each field, and its schema with its default and what the docstring says of it."""
    said = site.docstring(kind).parameters
    forms, schemas = [], []
    for field in fields:
        hint, scope = field.hint
        form = site.seen_from(scope).form(hint, f".{field.key}")
        if field.default == {"default": None}:
            form = nullable(form, site.definitions)
        words = {"description": said[field.name]} if field.name in said else {}
        forms.append(form)
        schemas.append(words | form.schema | field.default)
    return forms, schemas


def _reading(
    name: str,
    reads: dict[str, tuple[str, Read]],
    required: list[str],
    constants: Mapping[str, Any],
    make: Callable[..., Any],
    extra: Read | None,
) -> Read:
    known = reads | {key: ("", _expecting(value)) for key, value in constants.items()}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise wrong("an object", value)
        made: dict[str, Any] = {}
        key = ""
        try:
            for key, item in value.items():
                field, read_field = known.get(key) or (key, extra or _refusing(name, known))
                made[field] = read_field(item)
        except UnreadableValue as problem:
            raise problem.inside(key) from None
        lacking = [key for key in required if key not in value]
        if lacking:
            raise UnreadableValue(f"must have {', '.join(lacking)}")
        if constants:
            made.pop("", None)
        return _made(name, make, made)

    return read


def _refusing(name: str, known: Iterable[str]) -> Read:
    def refuse(_value: Any) -> Any:
        raise UnreadableValue(f"is no field of {name}; it has {', '.join(known) or 'none'}")

    return refuse


def _expecting(expected: Any) -> Read:
    def read(value: Any) -> Any:
        if value != expected or isinstance(value, bool):
            raise UnreadableValue(f"must be {expected!r}")
        return value

    return read


def _made(name: str, make: Callable[..., Any], fields: dict[str, Any]) -> Any:
    try:
        return make(**fields)
    except Exception as problem:
        raise UnreadableValue(f"makes no {name}: {problem}") from problem


def _described(kind: type, site: AnnotationSite) -> Schema:
    description = site.docstring(kind).description
    return {"description": description} if description else {}


def _hints(annotation: Any, kind: Any, site: AnnotationSite) -> Hints:
    """Find the annotations of all fields, with the scope of the class that each was written in."""
    found: Hints = {}
    bindings = _bindings(kind, get_args(annotation))
    for owner in reversed(kind.__mro__):
        scope = scope_of_class(owner, site.scope, bindings.get(owner, {}))
        for name, hint in own_annotations(owner).items():
            found[name] = hint, scope
    return found


def own_annotations(owner: Any) -> dict[str, Any]:
    """Give the annotations in the body of a class, as they were written."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations  # noqa: PLC0415 - it came with this version

        return get_annotations(owner, format=Format.FORWARDREF)
    return dict(inspect.get_annotations(owner))


def _bindings(kind: Any, args: tuple[Any, ...]) -> dict[Any, dict[Any, Any]]:
    """Find what the type variables of a generic class, and of those that it inherits from, stand for."""
    own = dict(zip(getattr(kind, "__parameters__", ()), args, strict=False))
    found = {kind: own}
    scope = NameScope(types=own)
    for base in vars(kind).get("__orig_bases__", ()):
        origin = get_origin(base)
        if origin not in (None, Generic, Protocol) and isinstance(origin, type):
            found |= _bindings(origin, tuple(map(scope.bind, get_args(base))))
    return found
