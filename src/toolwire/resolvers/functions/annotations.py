"""The conversion of a Python annotation to a JSON Schema (draft 2020-12), and to a reader for such JSON.

Rules of this file:
- Every JSON value that the schema accepts can be read as the annotation's Python value. An annotation without a JSON
  form raises InvalidSchema.
- Classes and named aliases go to `$defs`. An object with named fields accepts no others, so that no field is lost.
- A class of single values is recognized by its qualified name, so that no module is imported that the program did not
  import. Text is read strictly by its format: a date-time is one of RFC 3339.
- For a Literal and an Enum, the model sees the values and the function receives the members. Values are equal if JSON
  Schema calls them equal: 1 and 1.0 are, 1 and true are not.
- pydantic's own classes are converted and read by pydantic, which is never imported here.
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
from toolwire.resolvers.functions.classes import has_fields, type_of_fields_class
from toolwire.resolvers.functions.constraints import apply_metadata
from toolwire.resolvers.functions.json_types import (
    NUMBER_TYPES,
    PREFIX,
    SCALAR_TYPES,
    STRING_TYPE,
    Definitions,
    JsonType,
    Read,
    Schema,
    UnreadableValue,
    array_reader,
    object_reader,
    read_text,
    schema_type_of,
    single_type,
    tuple_reader,
    union_type,
    wrong_type,
)
from toolwire.resolvers.functions.walk import Namespace, Walk, module_namespace

_TypeBuilder = Callable[[Any, Walk], JsonType]


def json_type_of(annotation: Any, *, path: str = "") -> JsonType:
    """Return the type of `annotation`. Its schema stands alone, with its `$defs`."""
    walk = start_walk(path)
    json_type = read_annotation(annotation, walk)
    return replace(json_type, schema=walk.definitions.standalone(json_type.schema))


def start_walk(path: str = "", namespace: Namespace | None = None) -> Walk:
    """Return a new walk. The schemas of classes go to its definitions."""
    return Walk(_build_type, Definitions(), path, namespace or Namespace())


def read_annotation(annotation: Any, walk: Walk) -> JsonType:
    """Return the type of `annotation`. Raise `InvalidSchema` if it is nested without end."""
    try:
        return _build_type(annotation, walk)
    except RecursionError:
        raise walk.refuse("the annotation is nested too deeply, or without end") from None


def _build_type(annotation: Any, walk: Walk) -> JsonType:
    annotation = walk.namespace.bind(walk.evaluate(annotation))
    origin = get_origin(annotation) or annotation
    try:
        handler = SCALAR_TYPES.get(origin) or _BUILDERS.get(origin)
    except TypeError:
        raise walk.refuse(f"{annotation!r} is not an annotation; {_CLASS_ADVICE}") from None
    if isinstance(handler, JsonType):
        return handler
    if handler is None and getattr(origin, "_name", None) in _QUALIFIERS:
        return walk.type_of(next(iter(get_args(annotation)), Any))
    handler = (
        handler
        or _BUILDERS_BY_CLASS_NAME.get(type(origin).__name__)
        or (_class_type if isinstance(origin, type) else _reject)
    )
    return handler(annotation, walk)


# Qualifiers that do not change the values of an annotation.
_QUALIFIERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final", "ClassVar"})
_ADVICE = {
    "Callable": "a model sends JSON, which has no functions; take a name (Literal or Enum) and look it up",
    "type": "a model sends JSON, which has no classes; take a name (Literal or Enum) and look it up",
    **dict.fromkeys(
        ("Iterator", "Generator", "AsyncIterator", "AsyncGenerator", "AsyncIterable"),
        "arguments come whole; use list[...]",
    ),
    **dict.fromkeys(("Never", "NoReturn"), "no value fits it, so that the tool could never be called"),
    **dict.fromkeys(("Awaitable", "Coroutine"), "arguments are values; nothing can be awaited"),
}
_CLASS_ADVICE = "use a dataclass, a TypedDict, a NamedTuple, a msgspec Struct or a pydantic model"


def _reject(annotation: Any, walk: Walk) -> JsonType:
    origin = get_origin(annotation) or annotation
    name = getattr(origin, "__name__", None) or getattr(origin, "_name", None) or ""
    is_builtin = getattr(origin, "__module__", "") in ("builtins", "collections.abc", "typing", "typing_extensions")
    annotation_text = annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)
    raise walk.refuse(
        f"{annotation_text} has no JSON Schema: {_ADVICE.get(name, _CLASS_ADVICE) if is_builtin else _CLASS_ADVICE}"
    )


def _class_type(annotation: Any, walk: Walk) -> JsonType:
    origin = get_origin(annotation) or annotation
    if origin is Decimal:
        return _DECIMAL
    if (text := _text_type(origin)) is not None:
        return text
    if foreign.is_pydantic(annotation):
        return foreign.pydantic_type(annotation, walk)
    if issubclass(origin, Enum):
        return _enum_type(origin, walk)
    return (type_of_fields_class if has_fields(origin) else _reject)(annotation, walk)


# Classes that are text in JSON: the keywords of the schema, and the description for errors.
_BASE64 = ({"contentEncoding": "base64"}, "base64")
_TEXT_FORMATS: dict[str, tuple[dict[str, str], str]] = {
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


def _text_type(cls: type) -> JsonType | None:
    """Return the type of a class that is written as text in JSON, or None for any other class."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    constructor = Path if name == "os.PathLike" else cls
    keywords, expected = _TEXT_FORMATS.get(name, ({"format": "path"}, "a path"))
    if name not in _TEXT_FORMATS and not issubclass(constructor, PurePath):
        return None

    def read(value: Any) -> Any:
        text = read_text(value)
        try:
            return convert(text, constructor, dec_hook=lambda cls, text: cls(text))
        except (ValidationError, ValueError, ArithmeticError):
            raise UnreadableValue(f"must be {expected}") from None

    return single_type("string", read, plain=False, **keywords)


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
    raise wrong_type("a finite number", value)


_DECIMALS = (
    JsonType({"type": "number"}, _read_decimal, NUMBER_TYPES, plain=False),
    single_type("string", _read_decimal, plain=False),
)
_DECIMAL = JsonType(
    {"anyOf": [one.schema for one in _DECIMALS]}, _read_decimal, NUMBER_TYPES | {"string"}, False, _DECIMALS
)


def _enum_type(cls: type[Enum], walk: Walk) -> JsonType:
    """Return the type of an Enum: one of the values of its members."""
    members = list(cls)
    if not members:
        raise walk.refuse(f"{cls.__name__} has no members; an Enum is the list of the values to choose from")

    def build() -> JsonType:
        described = walk.docstring(cls).description
        keywords = {"description": described} if described else {}
        return _literal_type(members, walk, as_enum=True, **keywords)

    return walk.definitions.named(cls, build)


def _literal_type(members: list[Any], walk: Walk, *, as_enum: bool = False, **keywords: Any) -> JsonType:
    values = [_json_value(member, walk) for member in members]
    json_types = {schema_type_of(value) for value in values}
    schema: Schema = {"const": values[0]} if len(values) == 1 and not as_enum else {"enum": values}
    if len(json_types) == 1:
        schema["type"] = next(iter(json_types))
    table = {(isinstance(value, bool), value): member for value, member in zip(values, members, strict=True)}
    if len(table) < len(members):
        raise walk.refuse("two of the values are the same in JSON, which cannot tell them apart")
    listed = ", ".join(json.dumps(value, ensure_ascii=False) for value in values)

    def read(value: Any) -> Any:
        try:
            return table[isinstance(value, bool), value]
        except (KeyError, TypeError):
            raise UnreadableValue(f"must be one of {listed}") from None

    return JsonType(
        schema | keywords, read, frozenset(json_types | NUMBER_TYPES if json_types & NUMBER_TYPES else json_types)
    )


def _json_value(member: Any, walk: Walk) -> Any:
    """Return the plain value of an Enum member or a literal."""
    value: Any = member.value if isinstance(member, Enum) else member
    plain_type: Any = next(
        (plain_type for plain_type in (str, bool, int, float, NoneType) if isinstance(value, plain_type)), None
    )
    if plain_type is None or (plain_type is float and not math.isfinite(value)):
        raise walk.refuse(
            f"the value {value!r} is not JSON; a Literal or an Enum has strings, numbers, booleans or None"
        )
    return value if value is None else plain_type(value)


def _array_type(constructor: Any, keywords: Schema, annotation: Any, walk: Walk) -> JsonType:
    element = walk.type_of(next(iter(get_args(annotation)), Any), "[]")
    return single_type("array", array_reader(element.read, constructor), items=element.schema, **keywords)


def _tuple_type(annotation: Any, walk: Walk) -> JsonType:
    """Return the type of a tuple, with one type for all elements, or one for each."""
    arguments = get_args(annotation)
    if annotation in (tuple, typing.Tuple) or arguments[1:] == (Ellipsis,):  # noqa: UP006 - a program may use it
        return _array_type(tuple, {}, annotation, walk)
    if any(getattr(one, "__unpacked__", False) or "Unpack" in repr(one) for one in arguments):
        raise walk.refuse("a tuple with an unpacked part has no JSON Schema; use tuple[X, ...] or a class")
    elements = [walk.type_of(one, f"[{number}]") for number, one in enumerate(arguments)]
    keywords: Schema = {"prefixItems": [element.schema for element in elements]} if elements else {}
    read = tuple_reader([element.read for element in elements], len(elements), tuple)
    return single_type("array", read, **keywords, minItems=len(elements), maxItems=len(elements))


_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)


def _map_type(constructor: Any, annotation: Any, walk: Walk) -> JsonType:
    key, value = get_args(annotation) or (Any, Any)
    keys = STRING_TYPE if key in (str, Any, object) else walk.at("{}").type_of(key)
    value_type = walk.type_of(value, "{}")
    names, read_key = _key_reader(keys, walk)
    if constructor is defaultdict:
        factory = getattr(value, "__origin__", value)
        if factory not in (list, dict, set, int, float, str):
            raise walk.refuse("a defaultdict of these values has no known default; use dict")
        constructor = partial(defaultdict, factory)
    keywords: Schema = {"propertyNames": names} if names else {}
    read = object_reader({}, (read_key, value_type.read), (), constructor)
    return single_type("object", read, additionalProperties=value_type.schema or True, **keywords)


def _key_reader(keys: JsonType, walk: Walk) -> tuple[Schema, Read]:
    """Return the schema for the keys of a map, and their reader."""
    if keys.kinds == {"string"}:
        return {name: value for name, value in keys.schema.items() if name != "type"}, keys.read
    if keys.schema.get("type") != "integer":
        raise walk.refuse(
            "the keys of a JSON object are text; use str, int, a Literal or Enum of those, or a list of pairs"
        )

    def read_key(value: Any) -> Any:
        if not _INTEGER.fullmatch(read_text(value)):
            raise UnreadableValue("must have whole numbers as keys")
        try:
            return keys.read(int(value))
        except ValueError:
            raise UnreadableValue("has a key of too many digits") from None

    listed = keys.schema.get("enum", [keys.schema["const"]] if "const" in keys.schema else None)
    pattern: Schema = {"pattern": f"^{_INTEGER.pattern}$"}
    return (pattern if listed is None else {"enum": [str(value) for value in listed]}), read_key


def _union_type(annotation: Any, walk: Walk) -> JsonType:
    members = get_args(annotation)
    if not members:
        raise walk.refuse(f"{annotation!r} does not say which types it takes; write Optional[X], Union[X, Y] or X | Y")
    given_members = [member for member in members if getattr(member, "__qualname__", "") != "UnsetType"]
    return union_type([walk.type_of(member) for member in given_members], walk.definitions)


def _new_type_type(annotation: Any, walk: Walk) -> JsonType:
    module = getattr(annotation, "__module__", None)
    return walk.with_namespace(module_namespace(module, {}, walk.namespace)).type_of(annotation.__supertype__)


def _type_variable_type(variable: Any, walk: Walk) -> JsonType:
    if variable.__constraints__:
        return union_type([walk.type_of(one) for one in variable.__constraints__], walk.definitions)
    default = getattr(variable, "__default__", None)
    substitute = variable.__bound__ if variable.__bound__ is not None else default
    is_type = isinstance(substitute, type | ForwardRef | str) or get_origin(substitute) is not None
    return walk.type_of(substitute if is_type else Any)


def _alias_type(annotation: Any, walk: Walk) -> JsonType:
    alias = get_origin(annotation) or annotation
    try:
        value = alias.__value__
    except NameError as problem:
        raise walk.refuse(f"the name {problem.name!r} of the alias {alias.__name__} is not known") from problem
    bound = dict(zip(getattr(alias, "__type_params__", ()), get_args(annotation), strict=False))
    namespace = module_namespace(getattr(alias, "__module__", None), {alias.__name__: alias}, walk.namespace)
    inner = walk.with_namespace(Namespace(namespace.maps, namespace.qualname, namespace.body, bound))
    json_type = walk.definitions.named(annotation, lambda: inner.type_of(value))
    if walk.definitions.schemas[json_type.schema["$ref"].removeprefix(PREFIX)] == json_type.schema:
        raise walk.refuse(f"the alias {alias.__name__} stands for itself")
    return json_type


def _annotated_type(annotation: Any, walk: Walk) -> JsonType:
    inner, *metadata = get_args(annotation)
    if foreign.needs_pydantic(metadata):
        return apply_metadata(foreign.pydantic_type(annotation, walk), foreign.metadata_beside_pydantic(metadata), walk)
    return apply_metadata(walk.type_of(inner), metadata, walk)


_UNIQUE_ITEMS = {"uniqueItems": True}
_BUILDERS: dict[Any, _TypeBuilder] = {
    Annotated: _annotated_type,
    Literal: lambda annotation, walk: _literal_type(list(get_args(annotation)), walk),
    **dict.fromkeys((Union, UnionType, typing.Optional), _union_type),
    tuple: _tuple_type,
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence), partial(_array_type, None, {})),
    **dict.fromkeys((abc.Collection, abc.Iterable, abc.Reversible), partial(_array_type, None, {})),
    deque: partial(_array_type, deque, {}),
    **dict.fromkeys((set, abc.MutableSet), partial(_array_type, set, _UNIQUE_ITEMS)),
    **dict.fromkeys((frozenset, abc.Set), partial(_array_type, frozenset, _UNIQUE_ITEMS)),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), partial(_map_type, None)),
    OrderedDict: partial(_map_type, OrderedDict),
    defaultdict: partial(_map_type, defaultdict),
}
_BUILDERS_BY_CLASS_NAME: dict[str, _TypeBuilder] = {
    NewType.__name__: _new_type_type,
    "TypeVar": _type_variable_type,
    "TypeAliasType": _alias_type,
    "InitVar": lambda annotation, walk: walk.type_of(annotation.type),
}
