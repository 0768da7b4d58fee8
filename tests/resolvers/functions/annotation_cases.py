"""Annotations, with values of them, and where their schema is meant to be another than pydantic's.

Rule: `ours` is the whole schema where it differs, and `because` says why.
"""

import collections
import datetime as dt
import pathlib
import uuid
from collections import abc
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Optional, Union

import annotated_types as at
import pydantic
import typing_extensions as te
from msgspec import Meta

from tests.resolvers.functions import annotation_shapes as shapes
from tests.resolvers.functions.annotation_shapes import Colour, Level, Mixed, Unit

UTC = dt.UTC
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


@dataclass(frozen=True)
class Case:
    id: str
    annotation: Any
    values: tuple[Any, ...] = ()
    ours: dict[str, Any] | None = None
    because: str = ""


def case(id: str, annotation: Any, *values: Any, ours: Any = None, because: str = "") -> Case:  # noqa: A002
    return Case(id, annotation, values, ours, because)


BASE64 = "JSON has no bytes: they come as base64, while pydantic takes the bytes of the text"
PLAIN_KEYS = "a key is text, so the schema says of which form; pydantic's says nothing of keys that are numbers"
UNKNOWN = "pydantic does not know it"

SCALARS = [
    case("Any", Any, 1, "a", [1, {"a": None}]),
    case("object", object, 1, {"a": [None]}),
    case("None", None, None),
    case("bool", bool, True, False),
    case("int", int, 0, -5, 10**30),
    case("float", float, 0.5, 3.0),
    case("str", str, "", "a"),
    case("bytes", bytes, b"", b"\x00\xff", ours={**STRING, "contentEncoding": "base64"}, because=BASE64),
    case("Decimal", Decimal, Decimal("1.50"), Decimal(7)),
    case("datetime", dt.datetime, dt.datetime(2030, 1, 31, 12, tzinfo=UTC)),
    case("date", dt.date, dt.date(2030, 1, 31)),
    case("time", dt.time, dt.time(12, 30)),
    case("timedelta", dt.timedelta, dt.timedelta(days=1, seconds=1.5)),
    case("UUID", uuid.UUID, uuid.UUID(int=5)),
    case("Path", pathlib.Path, pathlib.Path("a/b.txt")),
    case("PurePosixPath", pathlib.PurePosixPath, pathlib.PurePosixPath("/a")),
    case("LiteralString", te.LiteralString, ours=STRING, because=UNKNOWN),
]
CHOICES = [
    case("Enum", Colour, Colour.RED),
    case("IntEnum", Level, Level.HIGH),
    case("StrEnum", Unit, Unit.F),
    case("mixed Enum", Mixed, *Mixed),
    case("Enum of one", shapes.Alone, shapes.Alone.ONLY),
    case("Literal", Literal["a"], "a"),
    case("Literal of texts", Literal["a", "b"], "a", "b"),
    case("Literal of numbers", Literal[1, 2], 1, 2),
    case("Literal of booleans", Literal[True], True),
    case("mixed Literal", Literal["a", 1, None], "a", 1, None),  # noqa: PYI061 - it is meant
    case("Literal of None", Literal[None], None),  # noqa: PYI061 - it is meant
    case("Literal of members", Literal[Colour.RED, Colour.BLUE], Colour.BLUE),
]
UNIONS = [
    case("Optional", Optional[int], 1, None),  # noqa: UP045 - the old spelling is meant
    case("Union", Union[int, str], 1, "a"),  # noqa: UP007 - the old spelling is meant
    case("X | Y", int | str | None, 1, "a", None),
    case("int | float", int | float, 1, 1.5),
    case("bool | int", bool | int, True, 1),
    case("date | datetime", dt.date | dt.datetime, dt.date(2030, 1, 31)),
    case("list | list", list[int] | list[str], [1], ["a"]),
    case("Any | None", Any | None, None, 1),
    case("Literal | None", Literal["a", "b"] | None, "a", None),
    case("class | None", shapes.Point | None, shapes.Point(1), None),
    case("class | class", shapes.Point | shapes.Search, shapes.Point(1), shapes.Search(query="q")),
    case("nested", list[int | None] | dict[str, int | str], [1, None], {"a": "b"}),
]
CONTAINERS = [
    case("list", list, [1, "a"]),
    case("list[int]", list[int], [], [1, 2]),
    case("list[list]", list[list[str]], [["a"], []]),
    case("Sequence", abc.Sequence[int], [1]),
    case("MutableSequence", abc.MutableSequence[int], [1]),
    case("Collection", abc.Collection[int], ours={"type": "array", "items": INTEGER}, because=UNKNOWN),
    case("Iterable", abc.Iterable[int], [1]),
    case("deque", collections.deque[int], collections.deque([1, 2])),
    case("tuple", tuple, (1, "a")),
    case("tuple[X, ...]", tuple[int, ...], (), (1, 2)),
    case("tuple[X, Y]", tuple[int, str], (1, "a")),
    case("tuple[()]", tuple[()], ()),
    case("set", set[int], {1, 2}),
    case("frozenset", frozenset[str], frozenset({"a"})),
    case("abstract set", abc.Set[int], frozenset({1})),
    case("set of members", set[Colour], {Colour.RED}),
    case("dict", dict, {"a": 1}),
    case("dict[str, int]", dict[str, int], {"a": 1}),
    case("dict[str, Any]", dict[str, Any], {"a": [1]}),
    case("Mapping", abc.Mapping[str, int], {"a": 1}),
    case("MutableMapping", abc.MutableMapping[str, int], {"a": 1}),
    case("OrderedDict", collections.OrderedDict[str, int], collections.OrderedDict(a=1)),
    case("defaultdict", collections.defaultdict[str, list[int]], collections.defaultdict(list, a=[1])),
    case(
        "dict[int, X]",
        dict[int, str],
        {1: "a", -2: "b"},
        because=PLAIN_KEYS,
        ours={
            "type": "object",
            "additionalProperties": STRING,
            "propertyNames": {"pattern": "^-?(0|[1-9][0-9]*)$"},
        },
    ),
    case("dict[Enum, X]", dict[Unit, int], {Unit.C: 1}),
    case(
        "dict[IntEnum, X]",
        dict[Literal[1, 2], int],
        {1: 5},
        because=PLAIN_KEYS,
        ours={"type": "object", "additionalProperties": INTEGER, "propertyNames": {"enum": ["1", "2"]}},
    ),
    case("dict[Literal, X]", dict[Literal["a", "b"], int], {"a": 1}),
    case("dict[UUID, X]", dict[uuid.UUID, int], {uuid.UUID(int=1): 1}),
]
CLASSES = [
    case("dataclass", shapes.Point, shapes.Point(1), shapes.Point(1, 2.5, ["a"])),
    case("inherited dataclass", shapes.Point3, shapes.Point3(1, z=4)),
    case("dataclass of classes", shapes.Search, shapes.Search(query="q", unit=Unit.F, around=shapes.Point(1))),
    case("recursive dataclass", shapes.Node, shapes.Node(1, [shapes.Node(2, [shapes.Node(3)])])),
    case(
        "dataclass with InitVar",
        shapes.Derived,
        because="a field that no caller can give is not shown",
        ours={
            "type": "object",
            "properties": {"a": INTEGER, "c": {**INTEGER, "default": 2}},
            "required": ["a"],
        },
    ),
    case("generic dataclass", shapes.Box[int], shapes.Box(1, [2])),
    case("list of generics", list[shapes.Box[str]], [shapes.Box("a")]),
    case("two of one generic", tuple[shapes.Box[int], shapes.Box[str]], (shapes.Box(1), shapes.Box("a"))),
    case(
        "inherited generic",
        shapes.IntBox,
        shapes.IntBox(1, [2], "n"),
        because="what a base class is of is known; pydantic shows any value",
        ours={
            "type": "object",
            "required": ["held"],
            "properties": {
                "held": INTEGER,
                "more": {"type": "array", "items": INTEGER},
                "note": {**STRING, "default": ""},
            },
        },
    ),
    case("TypedDict", shapes.Movie, {"name": "a", "year": 1}),
    case("partial TypedDict", shapes.Options, {"limit": 1}, {"limit": 1, "unit": Unit.C, "tags": ["a"]}),
    case("inherited TypedDict", shapes.MoreOptions, {"limit": 1, "deep": True}),
    case("NamedTuple", shapes.Pair, shapes.Pair(1), shapes.Pair(1, "a")),
    case("namedtuple", shapes.Loose, shapes.Loose(1, "a")),
    case("list of one class", list[shapes.Point], [shapes.Point(1)]),
    case("one class twice", tuple[shapes.Point, shapes.Point], (shapes.Point(1), shapes.Point(2))),
]
NAMES = [
    case("NewType", shapes.UserId, 5),
    case("NewType of NewType", shapes.Deep, [5]),
    case("alias", shapes.Age, 5),
    case("list of an alias", list[shapes.Age], [5]),
    case("recursive alias", shapes.Json, {"a": [1, "b", None]}, "a"),
    case("generic alias", list[shapes.Several[int]], [[1]]),
    case("TypeVar", shapes.T, 1),
    case("bound TypeVar", shapes.Bound, 1),
    case("constrained TypeVar", shapes.Either, 1, "a"),
    case("Final", Final[int], 1),
]
CONSTRAINED = [
    case(
        "description",
        Annotated[int, "How many."],
        1,
        ours={**INTEGER, "description": "How many."},
        because="a plain text in Annotated is a description",
    ),
    case(
        "Doc",
        Annotated[int, te.Doc("How many.")],
        1,
        ours={**INTEGER, "description": "How many."},
        because="Doc is a description, as PEP 727 has it",
    ),
    case("Gt, Le", Annotated[int, at.Gt(0), at.Le(9)], 1, 9),
    case("Interval", Annotated[float, at.Interval(ge=0, lt=1)], 0.5),
    case("MultipleOf", Annotated[int, at.MultipleOf(5)], 10),
    case("MinLen of text", Annotated[str, at.MinLen(1)], "a"),
    case("Len of a list", Annotated[list[int], at.Len(1, 2)], [1], [1, 2]),
    case("Len of a dict", Annotated[dict[str, int], at.Len(1, 2)], {"a": 1}),
    case("Len of a set", Annotated[set[int], at.MaxLen(2)], {1, 2}),
    case("inside of a list", list[Annotated[int, at.Ge(1)]], [1]),
    case("across Optional", Annotated[int | None, at.Ge(1)], 1, None),
    case("Predicate", Annotated[str, at.Predicate(str.islower)], "a"),
    case("Ge of a date", Annotated[dt.date, at.Ge(dt.date(2030, 1, 1))], dt.date(2030, 1, 31)),
    case("Gt of a Decimal", Annotated[Decimal, at.Gt(Decimal(1))], Decimal("1.5")),
    case("Field", Annotated[int, pydantic.Field(ge=1, description="d", examples=[3], title="T")], 1),
    case("Field with a pattern", Annotated[str, pydantic.Field(pattern="^a+$", max_length=5)], "aa"),
    case("Field of a class", Annotated[Unit, pydantic.Field(description="Which.")], Unit.C),
    case(
        "msgspec.Meta",
        Annotated[int, Meta(ge=1, lt=5, description="d")],
        1,
        ours={**INTEGER, "minimum": 1, "exclusiveMaximum": 5, "description": "d"},
        because=UNKNOWN,
    ),
    case(
        "msgspec.Meta of text",
        Annotated[str, Meta(min_length=1, pattern="^a")],
        "ab",
        ours={**STRING, "minLength": 1, "pattern": "^a"},
        because=UNKNOWN,
    ),
]
FOREIGN = [
    case("model", shapes.Address, shapes.Address(street="s")),
    case(
        "recursive model",
        shapes.Person,
        shapes.Person(fullName="n", home=shapes.Address(street="s"), born=dt.date(2030, 1, 31)),
    ),
    case("list of models", list[shapes.Address], [shapes.Address(street="s")]),
    case("union of models", shapes.Cat | shapes.Dog, shapes.Cat(kind="cat"), shapes.Dog(kind="dog", name="n")),
    case(
        "discriminated",
        Annotated[shapes.Cat | shapes.Dog, pydantic.Field(discriminator="kind")],
        shapes.Cat(kind="cat"),
    ),
    case("pydantic dataclass", shapes.Checked, shapes.Checked(1)),
    case("PositiveInt", pydantic.PositiveInt, 5),
    case("StringConstraints", Annotated[str, pydantic.StringConstraints(min_length=2)], "ab"),
    case("HttpUrl", pydantic.HttpUrl, pydantic.HttpUrl("https://example.org/")),
    case("validator", Annotated[int, pydantic.AfterValidator(abs)], 5),
]
CASES = [*SCALARS, *CHOICES, *UNIONS, *CONTAINERS, *CLASSES, *NAMES, *CONSTRAINED, *FOREIGN]
