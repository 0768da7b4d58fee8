"""The JSON types of classes with fields: dataclasses, TypedDicts, NamedTuples and msgspec Structs.

Rules of this file:
- An object accepts the fields of its class and no others, so that a misspelled field is reported and not lost.
  A TypedDict with `extra_items` accepts those as well.
- An instance is created by calling the class, so that its defaults, InitVars and `__post_init__` apply.
- The description is the class's own docstring. The descriptions of fields come from it, too.
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
    default_keyword,
    nullable,
    object_reader,
    read_text,
    single_type,
    tuple_reader,
)
from toolwire.resolvers.functions.walk import Hints, Namespace, Walk, class_hints


class _Field(NamedTuple):
    """A field: its Python name, its JSON key, its annotation, and its default.

    The tag of a Struct has no name, and its value takes the place of the annotation.
    """

    name: str | None
    key: str
    hint: tuple[Any, Namespace] = (Any, Namespace())
    default: Any = NODEFAULT
    factory: Any = None


_Members = list[tuple[_Field, JsonType]]


def has_fields(cls: type) -> bool:
    """Return True if `cls` is a class with fields."""
    markers = ((dict, "__total__"), (tuple, "_fields"), (Struct, "__struct_fields__"))
    return is_dataclass(cls) or any(issubclass(cls, base) and hasattr(cls, attribute) for base, attribute in markers)


def type_of_fields_class(annotation: Any, walk: Walk) -> JsonType:
    """Return the type of a class with fields."""
    cls = get_origin(annotation) or annotation
    return walk.definitions.named(annotation, lambda: _build_type(annotation, cls, walk))


def _build_type(annotation: Any, cls: Any, walk: Walk) -> JsonType:
    docstring = walk.docstring(cls)
    hints = class_hints(cls, get_args(annotation), walk.namespace)
    members = [(field, _type_of_field(field, docstring, walk)) for field in _iter_fields(cls, hints, walk)]
    required = [field.key for field, _ in members if field.default is NODEFAULT and field.factory is None]
    described: Schema = {"description": docstring.description} if docstring.description else {}
    config = getattr(cls, "__struct_config__", None)
    if issubclass(cls, tuple) or (config is not None and config.array_like):
        return _array_type(cls, members, len(required), described)
    return _object_type(cls, members, required, described, walk)


def _type_of_field(field: _Field, docstring: Docstring, walk: Walk) -> JsonType:
    """Return the type of a field. Its schema has the default, and the description from the docstring."""
    hint, namespace = field.hint
    if field.name is None:
        return _tag_type(hint)
    json_type = walk.with_namespace(namespace).type_of(hint, f".{field.key}")
    default = default_keyword(field.default, field.factory)
    if default == {"default": None}:
        json_type = nullable(json_type, walk.definitions)
    description = {"description": docstring.parameters[field.name]} if field.name in docstring.parameters else {}
    return replace(json_type, schema=description | json_type.schema | default)


def _tag_type(expected: Any) -> JsonType:
    def read(value: Any) -> Any:
        if value != expected or isinstance(value, bool):
            raise UnreadableValue(f"must be {expected!r}")
        return value

    return JsonType({"const": expected}, read)


def _object_type(cls: Any, members: _Members, required: list[str], described: Schema, walk: Walk) -> JsonType:
    extra = getattr(cls, "__extra_items__", None)
    closed = extra is None or str(extra).endswith(("NoExtraItems", "Never"))
    others = None if closed else walk.type_of(extra, "{}")
    known = ", ".join(field.key for field, _ in sorted(members, key=lambda member: member[0].name is None))

    def reject(_value: Any) -> Any:
        raise UnreadableValue(f"is not a field of {cls.__name__}; it has {known or 'none'}")

    readers = {field.key: (field.name, one.read) for field, one in members}
    read = object_reader(readers, (read_text, others.read if others else reject), required, _constructor(cls, members))
    schema: Schema = {"properties": {field.key: one.schema for field, one in members}}
    schema |= {"required": required} if required else {}
    additional = others.schema if others else False
    return single_type("object", read, plain=False, **described, **schema, additionalProperties=additional)


def _array_type(cls: Any, members: _Members, required_count: int, described: Schema) -> JsonType:
    """Return the type of a class that is an array in JSON. Each item is titled with the name of its field."""
    construct, names = _constructor(cls, members), [field.name for field, _ in members]
    read = tuple_reader(
        [one.read for _, one in members],
        required_count,
        lambda values: construct(dict(zip(names, values, strict=False))),
    )
    schemas = [({"title": field.name} if field.name else {}) | one.schema for field, one in members]
    items: Schema = {"prefixItems": schemas} if schemas else {}
    return single_type("array", read, plain=False, **items, minItems=required_count, maxItems=len(members), **described)


def _constructor(cls: Any, members: _Members) -> Callable[[dict[Any, Any]], Any]:
    """Return the function that creates an instance from its fields, without the tag."""
    call, name = (dict if issubclass(cls, dict) else cls), cls.__name__
    has_tag = any(field.name is None for field, _ in members)

    def construct(fields: dict[Any, Any]) -> Any:
        if has_tag:
            del fields[None]
        try:
            return call(**fields)
        except Exception as problem:
            raise UnreadableValue(f"makes no {name}: {problem}") from problem

    return construct


def _iter_fields(cls: Any, hints: Hints, walk: Walk) -> Iterator[_Field]:
    """Yield the fields of a class of any kind."""
    if is_dataclass(cls):
        declared: Any = cls.__dataclass_fields__
        for field in declared.values():
            if field.init and "ClassVar" not in repr(field._field_type):  # noqa: SLF001 - it has no public name
                default = NODEFAULT if field.default is MISSING else field.default
                factory = None if field.default_factory is MISSING else field.default_factory
                yield _Field(field.name, field.name, hints[field.name], default, factory)
    elif issubclass(cls, dict):
        for name, (hint, namespace) in hints.items():
            value = walk.with_namespace(namespace).at(f".{name}").evaluate(hint)
            default = NODEFAULT if _is_required(value, name in cls.__required_keys__) else UNSET
            yield _Field(name, name, (value, namespace), default)
    elif issubclass(cls, tuple):
        for name in cls._fields:
            yield _Field(name, name, hints.get(name, (Any, Namespace())), cls._field_defaults.get(name, NODEFAULT))
    else:
        config = cls.__struct_config__
        if config.tag is not None:
            yield _Field(None, config.tag_field, (config.tag, Namespace()))
        names, defaults = cls.__struct_fields__, cls.__struct_defaults__
        defaults = (NODEFAULT,) * (len(names) - len(defaults)) + defaults
        for name, key, default in zip(names, cls.__struct_encode_fields__, defaults, strict=True):
            factory = getattr(default, "factory", None) if type(default).__name__ == "Factory" else None
            yield _Field(name, key, hints[name], NODEFAULT if factory else default, factory)


def _is_required(hint: Any, default: bool) -> bool:
    """Return True if a key is required, by the outermost Required or NotRequired, or by the class default."""
    while (name := getattr(get_origin(hint), "_name", None)) in ("Required", "NotRequired", "ReadOnly"):
        if name != "ReadOnly":
            return bool(name == "Required")
        hint = get_args(hint)[0]
    return default
