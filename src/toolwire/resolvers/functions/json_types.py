"""A JSON type: the schema of one annotation, and the reader that turns such JSON into its Python values.

Rules of this file:
- Schema and reader are built together, so that every value that the schema accepts can be read.
- Reading is strict about types: "5" is not an integer, and 1 is not a boolean. 5.0 is the integer 5, as in JSON Schema.
- The result shares no mutable object with the JSON that it was read from.
- A default is shown to the model, but applied by Python itself. It is never written into the arguments of a call.
- If possible, the JSON type decides between the alternatives of a union: of `int | float`, 5 is the int and 5.0 the
  float. Otherwise the first alternative, in the order of the annotation, is used whose schema accepts the value and
  which can be read.
- A class is written once to `$defs` and referenced by `$ref`, so that it may contain itself. Two classes with the same
  name become `Name` and `Name_2`, in the order of their first use. Definitions of another generator, such as
  pydantic's, are added under unused names, and their references are rewritten.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import NoneType
from typing import Any, LiteralString, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.types.frozen import copy_json
from toolwire.wire.arguments import type_name

Schema = dict[str, Any]
Read = Callable[[Any], Any]

_TYPE_PHRASES = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_SCHEMA_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
JSON_TYPES = frozenset(_TYPE_PHRASES)
NUMBER_TYPES = frozenset({"integer", "number"})
PREFIX = "#/$defs/"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9.\-_]")
ANNOTATION_KEYWORDS = ("title", "description", "examples", "deprecated")
_MAX_BACKTRACKS = 100_000
# The only factories that are called to find out a default: they always return the same empty value.
_CONSTANT_FACTORIES = frozenset({list, dict, set, frozenset, tuple, str, int, float, bool, bytes})


class UnreadableValue(Exception):
    """A JSON value that cannot be read: the reason, and the steps to the value, the innermost first."""

    def __init__(self, reason: str, *steps: str | int) -> None:
        super().__init__(reason)
        self.reason: str = reason
        self.steps: list[str | int] = list(steps)

    def inside(self, step: str | int) -> "UnreadableValue":
        """Add `step`, the key or index of what contains the value."""
        self.steps.append(step)
        return self

    def path(self) -> str:
        """Return the path of the value as text: `items[2].when`."""
        parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.steps)]
        return "".join(parts).removeprefix(".")


class JsonType(Struct, frozen=True):
    """The schema and the reader of one annotation.

    `kinds` are the JSON types that it accepts. It is `plain` if a constraint on the JSON value means the same for the
    Python value. `alternatives` are the members of a union.
    """

    schema: Schema
    read: Read
    kinds: frozenset[str] = JSON_TYPES
    plain: bool = True
    alternatives: tuple["JsonType", ...] = ()


def single_type(json_type: str, read: Read, *, plain: bool = True, **keywords: Any) -> JsonType:
    """Return a type that accepts one JSON type."""
    return JsonType({"type": json_type, **keywords}, read, frozenset({json_type}), plain)


def schema_type_of(value: Any) -> str:
    """Return the JSON Schema type of `value`."""
    return _SCHEMA_TYPES.get(type(value), "null")


def default_keyword(default: Any = msgspec.NODEFAULT, factory: Any = None) -> Schema:
    """Return `{"default": ...}`, or an empty map if there is no default or JSON has no form for it."""
    if factory in _CONSTANT_FACTORIES:
        default = factory()
    if default is msgspec.NODEFAULT or default is msgspec.UNSET:
        return {}
    try:
        plain = msgspec.to_builtins(default, enc_hook=_in_json, order="deterministic", str_keys=True)
        return {"default": json.loads(json.dumps(plain, allow_nan=False))}
    except (TypeError, ValueError, OverflowError, RecursionError):
        return {}


def _in_json(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if hasattr(type(value), "__pydantic_serializer__") and hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def wrong_type(expected: str, value: Any) -> UnreadableValue:
    """Return the error for a value of the wrong type. The value itself does not appear in it."""
    return UnreadableValue(f"must be {expected}, not {type_name(value)}")


def _instance_reader(cls: type, expected: str) -> Read:
    def read(value: Any) -> Any:
        if isinstance(value, cls):
            return value
        raise wrong_type(expected, value)

    return read


def _read_integer(value: Any) -> int:
    """Read a whole number. 5.0 is one."""
    if type(value) is int:
        return value
    is_whole = (
        value.is_integer() if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)
    )
    if not is_whole:
        raise wrong_type("an integer", value)
    return int(value)


def _read_number(value: Any) -> float:
    """Read a number. An integer that no float can represent stays an integer."""
    if isinstance(value, float):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type("a number", value)
    try:
        number = float(value)
    except OverflowError:
        return value
    return number if number == value else value


read_text: Read = _instance_reader(str, "a string")
_NULL_TYPE = single_type("null", _instance_reader(NoneType, "null"))
STRING_TYPE = single_type("string", read_text)
_ANY_TYPE = JsonType({}, copy_json)
# The classes of single values, and their types.
SCALAR_TYPES: dict[Any, JsonType] = {
    **dict.fromkeys((Any, object), _ANY_TYPE),
    **dict.fromkeys((None, NoneType), _NULL_TYPE),
    **dict.fromkeys((str, LiteralString), STRING_TYPE),
    bool: single_type("boolean", _instance_reader(bool, "a boolean")),
    int: single_type("integer", _read_integer),
    float: JsonType({"type": "number"}, _read_number, NUMBER_TYPES),
}


def array_reader(element: Read, make: Callable[[list[Any]], Any] | None = None) -> Read:
    """Return a reader for an array whose items have the same reader. `make` converts the list."""

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise wrong_type("an array", value)
        items: list[Any] = []
        try:
            for item in value:
                items.append(element(item))  # noqa: PERF401 - an error needs the index of the item
        except UnreadableValue as problem:
            raise problem.inside(len(items)) from None
        try:
            return items if make is None else make(items)
        except TypeError:
            raise UnreadableValue("must hold values of which a set can be made: no arrays, no objects") from None

    return read


def tuple_reader(readers: Sequence[Read], required_count: int, make: Callable[[list[Any]], Any]) -> Read:
    """Return a reader for an array with a reader for each item. The first `required_count` items are required."""

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise wrong_type("an array", value)
        if not required_count <= len(value) <= len(readers):
            count = str(required_count) if required_count == len(readers) else f"{required_count} to {len(readers)}"
            raise UnreadableValue(f"must have {count} elements, not {len(value)}")
        items: list[Any] = []
        try:
            for read_one, item in zip(readers, value, strict=False):
                items.append(read_one(item))
        except UnreadableValue as problem:
            raise problem.inside(len(items)) from None
        return make(items)

    return read


def object_reader(
    fields: Mapping[str, tuple[Any, Read]],
    others: tuple[Read, Read],
    required: Sequence[str] = (),
    make: Callable[[dict[Any, Any]], Any] | None = None,
) -> Read:
    """Return a reader for an object.

    `fields` has the Python name and the reader for each key. `others` reads the keys and values of other members.
    """
    read_key, read_other = others

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise wrong_type("an object", value)
        members: dict[Any, Any] = {}
        key = ""
        try:
            for key, item in value.items():
                if key in fields:
                    name, read_field = fields[key]
                    members[name] = read_field(item)
                else:
                    members[read_key(key)] = read_other(item)
        except UnreadableValue as problem:
            raise problem.inside(key) from None
        if len(members) < len(value):
            raise UnreadableValue("has two keys that mean the same")
        if required and (missing := [key for key in required if key not in value]):
            raise UnreadableValue(f"must have {', '.join(missing)}")
        return members if make is None else make(members)

    return read


class Definitions:
    """The named schemas of one walk: `schemas` is the content of `$defs`."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[Hashable, str] = {}
        self._types: dict[str, JsonType] = {}

    def named(self, annotation: Any, build: Callable[[], JsonType]) -> JsonType:
        """Return a reference to the schema of a class or an alias, which `build` creates at its first use.

        Its name is `Box`, or `Box_int_` for a generic class with arguments.
        """
        cls, arguments = get_origin(annotation) or annotation, get_args(annotation)
        argument_names = ", ".join(getattr(one, "__name__", repr(one)) for one in arguments)
        name = f"{cls.__name__}[{argument_names}]" if arguments else cls.__name__
        key: Hashable = cls, arguments
        try:
            hash(key)
        except TypeError:  # Metadata may be unhashable.
            key = cls, repr(arguments)
        if key not in self._names:
            unused = self._names[key] = self._unused_name(name)
            self.schemas[unused] = {}
            self._types[unused] = build()
            self.schemas[unused] = self._types[unused].schema
        name = self._names[key]
        reference, built = {"$ref": PREFIX + name}, self._types.get(name)
        if built is None:
            return JsonType(reference, partial(self._read_later, name), JSON_TYPES, plain=False)
        return JsonType(reference, built.read, built.kinds, built.plain)

    def _read_later(self, name: str, value: Any) -> Any:
        """Read a value by a type that was incomplete when it was referenced, because it contains itself."""
        return self._types[name].read(value)

    def adopt(self, foreign: dict[str, Schema]) -> dict[str, str]:
        """Add the definitions of another generator. Return the name of each one here."""
        names: dict[str, str] = {}
        for name in foreign:
            referenced = _referenced_definitions({"$ref": PREFIX + name}, foreign)
            differs = any(
                one in self.schemas and _canonical_json(self.schemas[one]) != _canonical_json(referenced[one])
                for one in referenced
            )
            key = name, _canonical_json(referenced)
            if key not in self._names:
                self._names[key] = self._unused_name(name, foreign) if differs and name in self.schemas else name
            names[name] = self._names[key]
        for name, body in foreign.items():
            self.schemas.setdefault(names[name], rename_references(body, names))
        return names

    def _unused_name(self, name: str, others: dict[str, Schema] | None = None) -> str:
        base = reference_name(name)
        taken = self.schemas.keys() | (others or {}).keys()
        number, candidate = 1, base
        while candidate in taken:
            number += 1
            candidate = f"{base}_{number}"
        return candidate

    def standalone(self, schema: Schema) -> Schema:
        """Return `schema` with its `$defs`, or the definition itself if `schema` is only a reference to it."""
        referenced = _referenced_definitions(schema, self.schemas)
        name = str(schema.get("$ref", "")).removeprefix(PREFIX)
        if (
            len(schema) == 1
            and name in referenced
            and name not in _referenced_definitions(self.schemas[name], self.schemas)
        ):
            schema = referenced.pop(name)
        result: Schema = copy_json(schema)
        return result | ({"$defs": copy_json(referenced)} if referenced else {})


def reference_name(name: str) -> str:
    """Return `name` with the characters replaced that a reference cannot contain."""
    return _NOT_IN_NAMES.sub("_", name) or "_"


def rename_references(schema: Any, names: dict[str, str]) -> Any:
    """Return `schema` with its references renamed."""
    if isinstance(schema, list):
        return [rename_references(value, names) for value in schema]
    if not isinstance(schema, dict):
        return schema
    members = {key: rename_references(value, names) for key, value in schema.items()}
    if name := _definition_name(members.get("$ref")):
        members["$ref"] = PREFIX + names.get(name, name)
    return members


def _canonical_json(schema: Any) -> str:
    """Write `schema` as text that is the same for equal schemas. `true` and `1` are not equal."""
    return json.dumps(schema, sort_keys=True)


def _referenced_definitions(schema: Schema, definitions: dict[str, Schema]) -> dict[str, Schema]:
    names: set[str] = set()
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            name = _definition_name(node.get("$ref"))
            if name in definitions and name not in names:
                names.add(name)
                pending.append(definitions[name])
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return {name: body for name, body in definitions.items() if name in names}


def _definition_name(reference: Any) -> str:
    return reference.removeprefix(PREFIX) if isinstance(reference, str) and reference.startswith(PREFIX) else ""


def union_type(members: Iterable[JsonType], definitions: Definitions) -> JsonType:
    """Return the type of a union. Nested unions are flattened, and duplicates removed."""
    flat: dict[str, JsonType] = {}
    for member in members:
        for one in member.alternatives if member.schema.keys() == {"anyOf"} else (member,):
            flat.setdefault(_canonical_json(one.schema), one)
    types = tuple(flat.values())
    if len(types) == 1:
        return types[0]
    kinds = frozenset[str]().union(*(one.kinds for one in types))
    schema: Schema = {"anyOf": [one.schema for one in types]}
    return JsonType(schema, _union_reader(types, kinds, definitions), kinds, plain=False, alternatives=types)


def nullable(json_type: JsonType, definitions: Definitions) -> JsonType:
    """Return a type that also accepts null, for a parameter whose default is None."""
    if "null" in json_type.kinds:
        return json_type
    annotations = {key: json_type.schema[key] for key in ANNOTATION_KEYWORDS if key in json_type.schema}
    unannotated = replace(
        json_type, schema={key: value for key, value in json_type.schema.items() if key not in annotations}
    )
    union = union_type([unannotated, _NULL_TYPE], definitions)
    return replace(union, schema={**union.schema, **annotations})


def _union_reader(types: tuple[JsonType, ...], kinds: frozenset[str], definitions: Definitions) -> Read:
    prepared: dict[str, list[tuple[Read, Callable[[Any], bool]]]] = {}
    expected = " or ".join(phrase for json_type, phrase in _TYPE_PHRASES.items() if json_type in kinds)

    def prepare(json_type: str) -> list[tuple[Read, Callable[[Any], bool]]]:
        # Of integer and number, prefer the type that the value is written as.
        other = {"integer": "number", "number": "integer"}.get(json_type, "")
        accepting = [one for one in types if json_type in one.kinds]
        accepting.sort(key=lambda one: other in one.kinds and one.schema.get("type") == other)
        if len(accepting) == 1:
            return [(accepting[0].read, lambda _value: True)]
        return [(one.read, _schema_check(one.schema, definitions)) for one in accepting]

    def read(value: Any) -> Any:
        json_type = schema_type_of(value)
        choices = prepared.get(json_type)
        if choices is None:
            choices = prepared[json_type] = prepare(json_type)
        problem = None
        for read_one, accepts in choices:
            if accepts(value):
                try:
                    return read_one(value)
                except UnreadableValue as reason:
                    problem = reason
        raise problem or UnreadableValue("must be one of the allowed values" if choices else f"must be {expected}")

    return read


def _schema_check(schema: Schema, definitions: Definitions) -> Callable[[Any], bool]:
    """Return a check against the schema of an alternative, with the same validation as for arguments."""
    import jsonschema_rs  # noqa: PLC0415 - only a union of like kinds needs it

    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            definitions.standalone(schema), pattern_options=options, offline=True
        )
    except (ValueError, jsonschema_rs.ReferencingError):
        return lambda _value: True

    def accepts(value: Any) -> bool:
        try:
            return bool(validator.is_valid(value))
        except ValueError:
            return False

    return accepts
