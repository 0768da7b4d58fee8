"""A JSON type: what the values of one annotation look like in JSON, and how such JSON is read to them.

Rules of this file:
- One annotation gives both halves at once, so that what a schema takes can always be read.
- Reading is strict about kinds: "5" is no integer and 1 no boolean; 5.0 is the integer 5, as in JSON Schema.
- What is read shares nothing that can be changed with the JSON it came from.
- A default is told to the model, and given by Python itself: it is never put into the arguments of a call.
- The kind of the JSON decides between the alternatives of a union where it can: 5 is the int and 5.0 the float
  of `int | float`. Where several take the same kind, it is the first, as written, whose schema takes the value
  and which can be read.
- A class is written once in `$defs` and referred to by `$ref`, so that it may hold itself. Two classes of one
  name get `Name` and `Name_2`, in the order in which they are met. What another generator has written is
  adopted under free names, and its references follow.
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

from toolwire.types.frozen import copied
from toolwire.wire.arguments import kind_of

Schema = dict[str, Any]
Read = Callable[[Any], Any]

_WORDS = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_KIND_OF = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
KINDS = frozenset(_WORDS)
NUMBERS = frozenset({"integer", "number"})
PREFIX = "#/$defs/"
_UNSAYABLE = re.compile(r"[^a-zA-Z0-9.\-_]")
NOTES = ("title", "description", "examples", "deprecated")
_STEPS = 100_000
# Nothing is called to find a default out, but the factories that always give the same empty value.
_FACTORIES = frozenset({list, dict, set, frozenset, tuple, str, int, float, bool, bytes})


class UnreadableValue(Exception):
    """A JSON value that cannot be read: the reason, and the steps to its place, the innermost first."""

    def __init__(self, reason: str, *steps: str | int) -> None:
        super().__init__(reason)
        self.reason: str = reason
        self.steps: list[str | int] = list(steps)

    def inside(self, step: str | int) -> "UnreadableValue":
        """Say in what the value lies."""
        self.steps.append(step)
        return self

    def place(self) -> str:
        """Write the place as `items[2].when`."""
        parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.steps)]
        return "".join(parts).removeprefix(".")


class JsonType(Struct, frozen=True):
    """The schema and the reading of an annotation.

    `kinds` are the kinds of JSON that it takes. It is `plain` if a keyword of JSON Schema says of the Python
    value what it says of the JSON. `alternatives` are those of a union.
    """

    schema: Schema
    read: Read
    kinds: frozenset[str] = KINDS
    plain: bool = True
    alternatives: tuple["JsonType", ...] = ()


def of_kind(kind: str, read: Read, *, plain: bool = True, **keywords: Any) -> JsonType:
    """Make the type of one kind of JSON."""
    return JsonType({"type": kind, **keywords}, read, frozenset({kind}), plain)


def kind_in_schema(value: Any) -> str:
    """Name the kind of a JSON value as a schema does."""
    return _KIND_OF.get(type(value), "null")


def default_in(default: Any = msgspec.NODEFAULT, factory: Any = None) -> Schema:
    """Give `{"default": ...}`, or nothing where there is no default or JSON cannot say it."""
    if factory in _FACTORIES:
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


def wrong(expected: str, value: Any) -> UnreadableValue:
    """Say what was expected instead of the value, without the value."""
    return UnreadableValue(f"must be {expected}, not {kind_of(value)}")


def _reading(kind: type, expected: str) -> Read:
    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise wrong(expected, value)

    return read


def _read_integer(value: Any) -> int:
    """Read a whole number; 5.0 is one."""
    if type(value) is int:
        return value
    whole = value.is_integer() if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)
    if not whole:
        raise wrong("an integer", value)
    return int(value)


def _read_number(value: Any) -> float:
    """Read a number; an integer that no float can say stays an integer."""
    if isinstance(value, float):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong("a number", value)
    try:
        number = float(value)
    except OverflowError:
        return value
    return number if number == value else value


read_text: Read = _reading(str, "a string")
_NULL = of_kind("null", _reading(NoneType, "null"))
TEXT = of_kind("string", read_text)
_ANYTHING = JsonType({}, copied)
# The classes of single values that are known as they are.
PLAIN: dict[Any, JsonType] = {
    **dict.fromkeys((Any, object), _ANYTHING),
    **dict.fromkeys((None, NoneType), _NULL),
    **dict.fromkeys((str, LiteralString), TEXT),
    bool: of_kind("boolean", _reading(bool, "a boolean")),
    int: of_kind("integer", _read_integer),
    float: JsonType({"type": "number"}, _read_number, NUMBERS),
}


def array_reader(element: Read, make: Callable[[list[Any]], Any] | None = None) -> Read:
    """Read an array whose elements are alike, and make of the list what is wanted."""

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise wrong("an array", value)
        made: list[Any] = []
        try:
            for item in value:
                made.append(element(item))  # noqa: PERF401 - the place is named where one fails
        except UnreadableValue as problem:
            raise problem.inside(len(made)) from None
        try:
            return made if make is None else make(made)
        except TypeError:
            raise UnreadableValue("must hold values of which a set can be made: no arrays, no objects") from None

    return read


def places_reader(places: Sequence[Read], least: int, make: Callable[[list[Any]], Any]) -> Read:
    """Read an array that has its own reading in each place; the first `least` must be there."""

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise wrong("an array", value)
        if not least <= len(value) <= len(places):
            count = str(least) if least == len(places) else f"{least} to {len(places)}"
            raise UnreadableValue(f"must have {count} elements, not {len(value)}")
        made: list[Any] = []
        try:
            for read_one, item in zip(places, value, strict=False):
                made.append(read_one(item))
        except UnreadableValue as problem:
            raise problem.inside(len(made)) from None
        return make(made)

    return read


def object_reader(
    fields: Mapping[str, tuple[Any, Read]],
    others: tuple[Read, Read],
    required: Sequence[str] = (),
    make: Callable[[dict[Any, Any]], Any] | None = None,
) -> Read:
    """Read an object: `fields` by key, with their names in Python; of all others `others` reads key and value."""
    read_key, read_other = others

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise wrong("an object", value)
        made: dict[Any, Any] = {}
        key = ""
        try:
            for key, item in value.items():
                if key in fields:
                    name, read_field = fields[key]
                    made[name] = read_field(item)
                else:
                    made[read_key(key)] = read_other(item)
        except UnreadableValue as problem:
            raise problem.inside(key) from None
        if len(made) < len(value):
            raise UnreadableValue("has two keys that mean the same")
        if required and (lacking := [key for key in required if key not in value]):
            raise UnreadableValue(f"must have {', '.join(lacking)}")
        return made if make is None else make(made)

    return read


class Definitions:
    """Named schemas; `schemas` is what `$defs` holds."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[Hashable, str] = {}
        self._types: dict[str, JsonType] = {}

    def named(self, annotation: Any, build: Callable[[], JsonType]) -> JsonType:
        """Refer to the schema of a class, or of an alias, which is built when it is first met.

        It is named `Box` or, with what it is of, `Box_int_`.
        """
        kind, inner = get_origin(annotation) or annotation, get_args(annotation)
        of = ", ".join(getattr(one, "__name__", repr(one)) for one in inner)
        name = f"{kind.__name__}[{of}]" if inner else kind.__name__
        key: Hashable = kind, inner
        try:
            hash(key)
        except TypeError:  # Metadata may be what cannot be hashed.
            key = kind, repr(inner)
        if key not in self._names:
            free = self._names[key] = self._free(name)
            self.schemas[free] = {}
            self._types[free] = build()
            self.schemas[free] = self._types[free].schema
        name = self._names[key]
        reference, built = {"$ref": PREFIX + name}, self._types.get(name)
        if built is None:
            return JsonType(reference, partial(self._read_later, name), KINDS, plain=False)
        return JsonType(reference, built.read, built.kinds, built.plain)

    def _read_later(self, name: str, value: Any) -> Any:
        """Read by a type that was not yet known where it was referred to: it holds itself."""
        return self._types[name].read(value)

    def adopt(self, foreign: dict[str, Schema]) -> dict[str, str]:
        """Take in definitions that were written elsewhere; gives the name that each has here."""
        names: dict[str, str] = {}
        for name in foreign:
            needed = _reached({"$ref": PREFIX + name}, foreign)
            differs = any(
                one in self.schemas and _written(self.schemas[one]) != _written(needed[one]) for one in needed
            )
            key = name, _written(needed)
            if key not in self._names:
                self._names[key] = self._free(name, foreign) if differs and name in self.schemas else name
            names[name] = self._names[key]
        for name, body in foreign.items():
            self.schemas.setdefault(names[name], renamed(body, names))
        return names

    def _free(self, name: str, foreign: dict[str, Schema] | None = None) -> str:
        clean = plain_name(name)
        taken = self.schemas.keys() | (foreign or {}).keys()
        number, free = 1, clean
        while free in taken:
            number += 1
            free = f"{clean}_{number}"
        return free

    def whole(self, schema: Schema) -> Schema:
        """Give a schema that stands alone: with its `$defs`, or the definition itself where that is all."""
        needed = _reached(schema, self.schemas)
        name = str(schema.get("$ref", "")).removeprefix(PREFIX)
        if len(schema) == 1 and name in needed and name not in _reached(self.schemas[name], self.schemas):
            schema = needed.pop(name)
        made: Schema = copied(schema)
        return made | ({"$defs": copied(needed)} if needed else {})


def plain_name(name: str) -> str:
    """Write a name so that a reference can hold it as it is."""
    return _UNSAYABLE.sub("_", name) or "_"


def renamed(schema: Any, names: dict[str, str]) -> Any:
    """Write a schema with other names in its references."""
    if isinstance(schema, list):
        return [renamed(value, names) for value in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: renamed(value, names) for key, value in schema.items()}
    if name := _referred(made.get("$ref")):
        made["$ref"] = PREFIX + names.get(name, name)
    return made


def _written(schema: Any) -> str:
    """Write a schema so that equal ones are equal text; true and 1 are not equal."""
    return json.dumps(schema, sort_keys=True)


def _reached(schema: Schema, definitions: dict[str, Schema]) -> dict[str, Schema]:
    reached: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            name = _referred(node.get("$ref"))
            if name in definitions and name not in reached:
                reached.add(name)
                waiting.append(definitions[name])
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return {name: body for name, body in definitions.items() if name in reached}


def _referred(reference: Any) -> str:
    return reference.removeprefix(PREFIX) if isinstance(reference, str) and reference.startswith(PREFIX) else ""


def union_of(members: Iterable[JsonType], definitions: Definitions) -> JsonType:
    """Give the type of one of several; a union inside is opened, and what is there twice is there once."""
    flat: dict[str, JsonType] = {}
    for member in members:
        for one in member.alternatives if member.schema.keys() == {"anyOf"} else (member,):
            flat.setdefault(_written(one.schema), one)
    types = tuple(flat.values())
    if len(types) == 1:
        return types[0]
    kinds = frozenset[str]().union(*(one.kinds for one in types))
    schema: Schema = {"anyOf": [one.schema for one in types]}
    return JsonType(schema, _choosing(types, kinds, definitions), kinds, plain=False, alternatives=types)


def nullable(one: JsonType, definitions: Definitions) -> JsonType:
    """Let a type take null as well: the default of what it is for is None."""
    if "null" in one.kinds:
        return one
    notes = {key: one.schema[key] for key in NOTES if key in one.schema}
    bare = replace(one, schema={key: value for key, value in one.schema.items() if key not in notes})
    made = union_of([bare, _NULL], definitions)
    return replace(made, schema={**made.schema, **notes})


def _choosing(types: tuple[JsonType, ...], kinds: frozenset[str], definitions: Definitions) -> Read:
    ready: dict[str, list[tuple[Read, Callable[[Any], bool]]]] = {}
    expected = " or ".join(words for kind, words in _WORDS.items() if kind in kinds)

    def prepare(kind: str) -> list[tuple[Read, Callable[[Any], bool]]]:
        # Of integer and number, prefer what the value is written as.
        other = {"integer": "number", "number": "integer"}.get(kind, "")
        taking = [one for one in types if kind in one.kinds]
        taking.sort(key=lambda one: other in one.kinds and one.schema.get("type") == other)
        if len(taking) == 1:
            return [(taking[0].read, lambda _value: True)]
        return [(one.read, _checking(one.schema, definitions)) for one in taking]

    def read(value: Any) -> Any:
        kind = kind_in_schema(value)
        choices = ready.get(kind)
        if choices is None:
            choices = ready[kind] = prepare(kind)
        problem = None
        for read_one, takes in choices:
            if takes(value):
                try:
                    return read_one(value)
                except UnreadableValue as reason:
                    problem = reason
        raise problem or UnreadableValue("must be one of the allowed values" if choices else f"must be {expected}")

    return read


def _checking(schema: Schema, definitions: Definitions) -> Callable[[Any], bool]:
    """Check a value against the schema of an alternative, as the validation of arguments does."""
    import jsonschema_rs  # noqa: PLC0415 - only a union of like kinds needs it

    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_STEPS)
    try:
        validator = jsonschema_rs.Draft202012Validator(definitions.whole(schema), pattern_options=options, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return lambda _value: True

    def takes(value: Any) -> bool:
        try:
            return bool(validator.is_valid(value))
        except ValueError:
            return False

    return takes
