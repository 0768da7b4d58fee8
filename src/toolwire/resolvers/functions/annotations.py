"""From an annotation to JSON Schema (draft 2020-12), and to the reading of such JSON.

Rules of this file:
- What the schema takes, the annotation's Python value can be made of; what cannot be said is InvalidSchema.
- Classes and named aliases go to `$defs`. An object of named fields takes no others, so that none is lost.
- A class of single values is known by its qualified name, so that nothing is imported that the annotation did
  not import. Text is read as its format says, and no more loosely: a date-time is one of RFC 3339.
- Of a Literal and an Enum the model sees the values, and the function gets the members. Equal is what JSON
  Schema calls equal: 1 and 1.0 are, 1 and true are not.
- pydantic writes and reads its own classes; it is never imported here.
"""

import json
import math
import re
import typing
from collections import OrderedDict, abc, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, NewType, Union, get_args, get_origin

from msgspec import ValidationError, convert
from msgspec.structs import replace

from toolwire.resolvers.functions import foreign
from toolwire.resolvers.functions.classes import class_of_fields, has_fields
from toolwire.resolvers.functions.constraints import annotated
from toolwire.resolvers.functions.json_types import (
    NUMBERS,
    PLAIN,
    PREFIX,
    TEXT,
    Definitions,
    JsonType,
    Read,
    Schema,
    UnreadableValue,
    array_reader,
    kind_in_schema,
    object_reader,
    of_kind,
    places_reader,
    read_text,
    union_of,
    wrong,
)
from toolwire.resolvers.functions.walk import Namespace, Walk, namespace_of_module

_Handler = Callable[[Any, Walk], JsonType]


def json_type_of(annotation: Any, *, path: str = "") -> JsonType:
    """Give the type of an annotation; its schema stands alone, with its `$defs`."""
    walk = start(path)
    made = type_at(annotation, walk)
    return replace(made, schema=walk.definitions.whole(made.schema))


def start(path: str = "", namespace: Namespace | None = None) -> Walk:
    """Give a walk to start from; the classes that are met go to its definitions."""
    return Walk(_read, Definitions(), path, namespace or Namespace())


def type_at(annotation: Any, walk: Walk) -> JsonType:
    """Give the type of an annotation at a place."""
    try:
        return _read(annotation, walk)
    except RecursionError:
        raise walk.refuse("the annotation is nested too deeply, or without end") from None


def _read(annotation: Any, walk: Walk) -> JsonType:
    annotation = walk.namespace.bind(walk.evaluate(annotation))
    origin = get_origin(annotation) or annotation
    try:
        handler = PLAIN.get(origin) or _ORIGINS.get(origin)
    except TypeError:
        raise walk.refuse(f"{annotation!r} is not an annotation; {_CLASSES}") from None
    if isinstance(handler, JsonType):
        return handler
    if handler is None and getattr(origin, "_name", None) in _WRAPPERS:
        return walk.type_of(next(iter(get_args(annotation)), Any))
    handler = handler or _SPECIAL.get(type(origin).__name__) or (_class if isinstance(origin, type) else _refuse)
    return handler(annotation, walk)


# Words around an annotation that say nothing of its values.
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final", "ClassVar"})
_INSTEAD = {
    "Callable": "a model sends JSON, which has no functions; take a name (Literal or Enum) and look it up",
    "type": "a model sends JSON, which has no classes; take a name (Literal or Enum) and look it up",
    **dict.fromkeys(
        ("Iterator", "Generator", "AsyncIterator", "AsyncGenerator", "AsyncIterable"),
        "arguments come whole; use list[...]",
    ),
    **dict.fromkeys(("Never", "NoReturn"), "no value fits it, so that the tool could never be called"),
    **dict.fromkeys(("Awaitable", "Coroutine"), "arguments are values; nothing can be awaited"),
}
_CLASSES = "use a dataclass, a TypedDict, a NamedTuple, a msgspec Struct or a pydantic model"


def _refuse(annotation: Any, walk: Walk) -> JsonType:
    origin = get_origin(annotation) or annotation
    name = getattr(origin, "__name__", None) or getattr(origin, "_name", None) or ""
    known = getattr(origin, "__module__", "") in ("builtins", "collections.abc", "typing", "typing_extensions")
    shown = annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)
    raise walk.refuse(f"{shown} has no JSON Schema: {_INSTEAD.get(name, _CLASSES) if known else _CLASSES}")


def _class(annotation: Any, walk: Walk) -> JsonType:
    origin = get_origin(annotation) or annotation
    if origin is Decimal:
        return _DECIMAL
    if (text := _written_as_text(origin)) is not None:
        return text
    if foreign.is_pydantic(annotation):
        return foreign.pydantic_type(annotation, walk)
    if issubclass(origin, Enum):
        return _enumeration(origin, walk)
    return (class_of_fields if has_fields(origin) else _refuse)(annotation, walk)


# Classes that JSON writes as text: the keywords of the schema, and the words for what is right.
_BASE64 = ({"contentEncoding": "base64"}, "base64")
_TEXTS: dict[str, tuple[dict[str, str], str]] = {
    "datetime.datetime": ({"format": "date-time"}, "a date-time such as 2030-01-31T12:00:00Z"),
    "datetime.date": ({"format": "date"}, "a date such as 2030-01-31"),
    "datetime.time": ({"format": "time"}, "a time such as 12:00:00"),
    "datetime.timedelta": ({"format": "duration"}, "an ISO 8601 duration such as PT1H30M"),
    "uuid.UUID": ({"format": "uuid"}, "a UUID such as 123e4567-e89b-12d3-a456-426614174000"),
    "builtins.bytes": _BASE64,
    "builtins.bytearray": _BASE64,
    "ipaddress.IPv4Address": ({"format": "ipv4"}, "an IPv4 address"),
    "ipaddress.IPv6Address": ({"format": "ipv6"}, "an IPv6 address"),
    "ipaddress.IPv4Network": ({"format": "ipv4network"}, "an IPv4 network"),
    "ipaddress.IPv6Network": ({"format": "ipv6network"}, "an IPv6 network"),
}


def _written_as_text(kind: type) -> JsonType | None:
    """Give the type of a class of single values; nothing if it is none."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    make = Path if name == "os.PathLike" else kind
    keywords, expected = _TEXTS.get(name, ({"format": "path"}, "a path"))
    if name not in _TEXTS and not issubclass(make, PurePath):
        return None

    def read(value: Any) -> Any:
        text = read_text(value)
        try:
            return convert(text, make, dec_hook=lambda kind, text: kind(text))
        except (ValidationError, ValueError, ArithmeticError):
            raise UnreadableValue(f"must be {expected}") from None

    return of_kind("string", read, plain=False, **keywords)


def _read_decimal(value: Any) -> Decimal:
    if isinstance(value, str):
        try:
            number = Decimal(value)
        except ArithmeticError:
            number = Decimal("nan")
        if not number.is_finite():
            raise UnreadableValue("must be a decimal number such as 12.50")
        return number
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(repr(value))
    raise wrong("a finite number", value)


_DECIMALS = (
    JsonType({"type": "number"}, _read_decimal, NUMBERS, plain=False),
    of_kind("string", _read_decimal, plain=False),
)
_DECIMAL = JsonType({"anyOf": [one.schema for one in _DECIMALS]}, _read_decimal, NUMBERS | {"string"}, False, _DECIMALS)


def _enumeration(kind: type[Enum], walk: Walk) -> JsonType:
    """Give the type of an Enum: one of the values of its members."""
    members = list(kind)
    if not members:
        raise walk.refuse(f"{kind.__name__} has no members; an Enum is the list of the values to choose from")

    def build() -> JsonType:
        described = walk.docstring(kind).description
        keywords = {"description": described} if described else {}
        return _one_of(members, walk, many=True, **keywords)

    return walk.definitions.named(kind, build)


def _one_of(members: list[Any], walk: Walk, *, many: bool = False, **keywords: Any) -> JsonType:
    values = [_value_of(member, walk) for member in members]
    kinds = {kind_in_schema(value) for value in values}
    schema: Schema = {"const": values[0]} if len(values) == 1 and not many else {"enum": values}
    if len(kinds) == 1:
        schema["type"] = next(iter(kinds))
    table = {(isinstance(value, bool), value): member for value, member in zip(values, members, strict=True)}
    if len(table) < len(members):
        raise walk.refuse("two of the values are the same in JSON, which cannot tell them apart")
    listed = ", ".join(json.dumps(value, ensure_ascii=False) for value in values)

    def read(value: Any) -> Any:
        try:
            return table[isinstance(value, bool), value]
        except (KeyError, TypeError):
            raise UnreadableValue(f"must be one of {listed}") from None

    return JsonType(schema | keywords, read, frozenset(kinds | NUMBERS if kinds & NUMBERS else kinds))


def _value_of(member: Any, walk: Walk) -> Any:
    """Give the plain value of a member, which may be the member of another Enum."""
    value: Any = member.value if isinstance(member, Enum) else member
    kind: Any = next((kind for kind in (str, bool, int, float, NoneType) if isinstance(value, kind)), None)
    if kind is None or (kind is float and not math.isfinite(value)):
        raise walk.refuse(
            f"the value {value!r} is not JSON; a Literal or an Enum has strings, numbers, booleans or None"
        )
    return value if value is None else kind(value)


def _array(make: Any, keywords: Schema, annotation: Any, walk: Walk) -> JsonType:
    element = walk.type_of(next(iter(get_args(annotation)), Any), "[]")
    return of_kind("array", array_reader(element.read, make), items=element.schema, **keywords)


def _tuple(annotation: Any, walk: Walk) -> JsonType:
    """Give the type of a tuple: of one kind of element, or of one kind in each place."""
    inner = get_args(annotation)
    if annotation in (tuple, typing.Tuple) or inner[1:] == (Ellipsis,):  # noqa: UP006 - it is asked for
        return _array(tuple, {}, annotation, walk)
    if any(getattr(one, "__unpacked__", False) or "Unpack" in repr(one) for one in inner):
        raise walk.refuse("a tuple with an unpacked part has no JSON Schema; use tuple[X, ...] or a class")
    places = [walk.type_of(one, f"[{number}]") for number, one in enumerate(inner)]
    keywords: Schema = {"prefixItems": [place.schema for place in places]} if places else {}
    read = places_reader([place.read for place in places], len(places), tuple)
    return of_kind("array", read, **keywords, minItems=len(places), maxItems=len(places))


_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)


def _map(make: Any, annotation: Any, walk: Walk) -> JsonType:
    key, value = get_args(annotation) or (Any, Any)
    keys = TEXT if key in (str, Any, object) else walk.at("{}").type_of(key)
    inner = walk.type_of(value, "{}")
    names, read_key = _keys(keys, walk)
    if make is defaultdict:
        factory = getattr(value, "__origin__", value)
        if factory not in (list, dict, set, int, float, str):
            raise walk.refuse("a defaultdict of these values has no known default; use dict")
        make = partial(defaultdict, factory)
    keywords: Schema = {"propertyNames": names} if names else {}
    read = object_reader({}, (read_key, inner.read), (), make)
    return of_kind("object", read, additionalProperties=inner.schema or True, **keywords)


def _keys(keys: JsonType, walk: Walk) -> tuple[Schema, Read]:
    """Give what is said of the names of properties, and how they are read."""
    if keys.kinds == {"string"}:
        return {name: value for name, value in keys.schema.items() if name != "type"}, keys.read
    if keys.schema.get("type") != "integer":
        raise walk.refuse(
            "the keys of a JSON object are text; use str, int, a Literal or Enum of those, or a list of pairs"
        )

    def read_key(value: Any) -> Any:
        if not _WHOLE.fullmatch(read_text(value)):
            raise UnreadableValue("must have whole numbers as keys")
        try:
            return keys.read(int(value))
        except ValueError:
            raise UnreadableValue("has a key of too many digits") from None

    listed = keys.schema.get("enum", [keys.schema["const"]] if "const" in keys.schema else None)
    pattern: Schema = {"pattern": f"^{_WHOLE.pattern}$"}
    return (pattern if listed is None else {"enum": [str(value) for value in listed]}), read_key


def _union(annotation: Any, walk: Walk) -> JsonType:
    members = get_args(annotation)
    if not members:
        raise walk.refuse(f"{annotation!r} does not say which types it takes; write Optional[X], Union[X, Y] or X | Y")
    present = [member for member in members if getattr(member, "__qualname__", "") != "UnsetType"]
    return union_of([walk.type_of(member) for member in present], walk.definitions)


def _new_type(annotation: Any, walk: Walk) -> JsonType:
    module = getattr(annotation, "__module__", None)
    return walk.seen_from(namespace_of_module(module, {}, walk.namespace)).type_of(annotation.__supertype__)


def _type_variable(variable: Any, walk: Walk) -> JsonType:
    if variable.__constraints__:
        return union_of([walk.type_of(one) for one in variable.__constraints__], walk.definitions)
    default = getattr(variable, "__default__", None)
    stands_for = variable.__bound__ if variable.__bound__ is not None else default
    named = isinstance(stands_for, type | ForwardRef | str) or get_origin(stands_for) is not None
    return walk.type_of(stands_for if named else Any)


def _alias(annotation: Any, walk: Walk) -> JsonType:
    alias = get_origin(annotation) or annotation
    try:
        value = alias.__value__
    except NameError as problem:
        raise walk.refuse(f"the name {problem.name!r} of the alias {alias.__name__} is not known") from problem
    bound = dict(zip(getattr(alias, "__type_params__", ()), get_args(annotation), strict=False))
    outer = namespace_of_module(getattr(alias, "__module__", None), {alias.__name__: alias}, walk.namespace)
    inner = walk.seen_from(Namespace(outer.maps, outer.qualname, outer.own, bound))
    made = walk.definitions.named(annotation, lambda: inner.type_of(value))
    if walk.definitions.schemas[made.schema["$ref"].removeprefix(PREFIX)] == made.schema:
        raise walk.refuse(f"the alias {alias.__name__} stands for itself")
    return made


def _annotated(annotation: Any, walk: Walk) -> JsonType:
    inner, *metadata = get_args(annotation)
    if foreign.needs_pydantic(metadata):
        return annotated(foreign.pydantic_type(annotation, walk), foreign.beside(metadata), walk)
    return annotated(walk.type_of(inner), metadata, walk)


_UNIQUE = {"uniqueItems": True}
_ORIGINS: dict[Any, _Handler] = {
    Annotated: _annotated,
    Literal: lambda annotation, walk: _one_of(list(get_args(annotation)), walk),
    **dict.fromkeys((Union, UnionType, typing.Optional), _union),
    tuple: _tuple,
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence), partial(_array, None, {})),
    **dict.fromkeys((abc.Collection, abc.Iterable, abc.Reversible), partial(_array, None, {})),
    deque: partial(_array, deque, {}),
    **dict.fromkeys((set, abc.MutableSet), partial(_array, set, _UNIQUE)),
    **dict.fromkeys((frozenset, abc.Set), partial(_array, frozenset, _UNIQUE)),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), partial(_map, None)),
    OrderedDict: partial(_map, OrderedDict),
    defaultdict: partial(_map, defaultdict),
}
_SPECIAL: dict[str, _Handler] = {
    NewType.__name__: _new_type,
    "TypeVar": _type_variable,
    "TypeAliasType": _alias,
    "InitVar": lambda annotation, walk: walk.type_of(annotation.type),
}
