"""Classes with fields: dataclasses, TypedDicts, NamedTuples and msgspec Structs.

Rules of this file:
- An object takes the fields of its class and no others, so that a misspelled one is found and not lost;
  a TypedDict that says `extra_items` takes those.
- A class is made by calling it, so that its defaults, its InitVars and its `__post_init__` hold.
- A description is the class's own docstring, and what that says of each field.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, is_dataclass
from typing import Any, NamedTuple, get_args, get_origin

from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import replace

from toolwire.resolvers.functions.docstrings import Docstring
from toolwire.resolvers.functions.json_types import (
    JsonType,
    Schema,
    UnreadableValue,
    default_in,
    nullable,
    object_reader,
    of_kind,
    places_reader,
    read_text,
)
from toolwire.resolvers.functions.walk import Hints, Namespace, Walk, hints_of_class


class _Field(NamedTuple):
    """A field: its name in Python, its key in JSON, its annotation, and what it is if left out.

    The tag of a Struct has no name; its value stands for the annotation.
    """

    name: str | None
    key: str
    hint: tuple[Any, Namespace] = (Any, Namespace())
    default: Any = NODEFAULT
    factory: Any = None


_Members = list[tuple[_Field, JsonType]]


def has_fields(kind: type) -> bool:
    """Whether it is a class with fields."""
    known = ((dict, "__total__"), (tuple, "_fields"), (Struct, "__struct_fields__"))
    return is_dataclass(kind) or any(issubclass(kind, of) and hasattr(kind, mark) for of, mark in known)


def class_of_fields(annotation: Any, walk: Walk) -> JsonType:
    """Give the type of a class with fields."""
    kind = get_origin(annotation) or annotation
    return walk.definitions.named(annotation, lambda: _build(annotation, kind, walk))


def _build(annotation: Any, kind: Any, walk: Walk) -> JsonType:
    docstring = walk.docstring(kind)
    hints = hints_of_class(kind, get_args(annotation), walk.namespace)
    members = [(field, _type_of_field(field, docstring, walk)) for field in _fields_of(kind, hints, walk)]
    required = [field.key for field, _ in members if field.default is NODEFAULT and field.factory is None]
    described: Schema = {"description": docstring.description} if docstring.description else {}
    config = getattr(kind, "__struct_config__", None)
    if issubclass(kind, tuple) or (config is not None and config.array_like):
        return _array(kind, members, len(required), described)
    return _object(kind, members, required, described, walk)


def _type_of_field(field: _Field, docstring: Docstring, walk: Walk) -> JsonType:
    """Give the type of a field; its schema has its default and what the docstring says of it."""
    hint, namespace = field.hint
    if field.name is None:
        return _constant(hint)
    made = walk.seen_from(namespace).type_of(hint, f".{field.key}")
    default = default_in(field.default, field.factory)
    if default == {"default": None}:
        made = nullable(made, walk.definitions)
    words = {"description": docstring.parameters[field.name]} if field.name in docstring.parameters else {}
    return replace(made, schema=words | made.schema | default)


def _constant(expected: Any) -> JsonType:
    def read(value: Any) -> Any:
        if value != expected or isinstance(value, bool):
            raise UnreadableValue(f"must be {expected!r}")
        return value

    return JsonType({"const": expected}, read)


def _object(kind: Any, members: _Members, required: list[str], described: Schema, walk: Walk) -> JsonType:
    extra = getattr(kind, "__extra_items__", None)
    closed = extra is None or str(extra).endswith(("NoExtraItems", "Never"))
    others = None if closed else walk.type_of(extra, "{}")
    known = ", ".join(field.key for field, _ in sorted(members, key=lambda member: member[0].name is None))

    def refuse(_value: Any) -> Any:
        raise UnreadableValue(f"is not a field of {kind.__name__}; it has {known or 'none'}")

    readers = {field.key: (field.name, one.read) for field, one in members}
    read = object_reader(readers, (read_text, others.read if others else refuse), required, _making(kind, members))
    schema: Schema = {"properties": {field.key: one.schema for field, one in members}}
    schema |= {"required": required} if required else {}
    closing = others.schema if others else False
    return of_kind("object", read, plain=False, **described, **schema, additionalProperties=closing)


def _array(kind: Any, members: _Members, least: int, described: Schema) -> JsonType:
    """Give the type of a class that is an array in JSON, each place titled with the name of its field."""
    make, names = _making(kind, members), [field.name for field, _ in members]
    read = places_reader(
        [one.read for _, one in members], least, lambda values: make(dict(zip(names, values, strict=False)))
    )
    titled = [({"title": field.name} if field.name else {}) | one.schema for field, one in members]
    places: Schema = {"prefixItems": titled} if titled else {}
    return of_kind("array", read, plain=False, **places, minItems=least, maxItems=len(members), **described)


def _making(kind: Any, members: _Members) -> Callable[[dict[Any, Any]], Any]:
    """Make the object of its fields, without the tag."""
    make, name = (dict if issubclass(kind, dict) else kind), kind.__name__
    tagged = any(field.name is None for field, _ in members)

    def made(fields: dict[Any, Any]) -> Any:
        if tagged:
            del fields[None]
        try:
            return make(**fields)
        except Exception as problem:
            raise UnreadableValue(f"makes no {name}: {problem}") from problem

    return made


def _fields_of(kind: Any, hints: Hints, walk: Walk) -> Iterator[_Field]:
    """Find the fields of a class of each shape."""
    if is_dataclass(kind):
        declared: Any = kind.__dataclass_fields__
        for field in declared.values():
            if field.init and "ClassVar" not in repr(field._field_type):  # noqa: SLF001 - it has no public name
                default = NODEFAULT if field.default is MISSING else field.default
                factory = None if field.default_factory is MISSING else field.default_factory
                yield _Field(field.name, field.name, hints[field.name], default, factory)
    elif issubclass(kind, dict):
        for name, (hint, namespace) in hints.items():
            value = walk.seen_from(namespace).at(f".{name}").evaluate(hint)
            default = NODEFAULT if _is_required(value, name in kind.__required_keys__) else UNSET
            yield _Field(name, name, (value, namespace), default)
    elif issubclass(kind, tuple):
        for name in kind._fields:
            yield _Field(name, name, hints.get(name, (Any, Namespace())), kind._field_defaults.get(name, NODEFAULT))
    else:
        config = kind.__struct_config__
        if config.tag is not None:
            yield _Field(None, config.tag_field, (config.tag, Namespace()))
        names, defaults = kind.__struct_fields__, kind.__struct_defaults__
        defaults = (NODEFAULT,) * (len(names) - len(defaults)) + defaults
        for name, key, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True):
            factory = getattr(default, "factory", None) if type(default).__name__ == "Factory" else None
            yield _Field(name, key, hints[name], NODEFAULT if factory else default, factory)


def _is_required(hint: Any, usual: bool) -> bool:
    """Whether a key must be there: the outermost of Required and NotRequired says it, or else the class."""
    while (name := getattr(get_origin(hint), "_name", None)) in ("Required", "NotRequired", "ReadOnly"):
        if name != "ReadOnly":
            return bool(name == "Required")
        hint = get_args(hint)[0]
    return usual
