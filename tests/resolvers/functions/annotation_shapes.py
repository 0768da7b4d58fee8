"""Classes of every shape that an annotation can name; `typing_extensions` where pydantic asks for it."""

import dataclasses
import datetime as dt
import enum
import re
from collections import namedtuple
from typing import Annotated, Generic, Literal, NamedTuple, NewType, TypeVar

import annotated_types
import pydantic
import typing_extensions as te


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Unit(enum.StrEnum):
    C = "c"
    F = "f"


class Mixed(enum.Enum):
    """What a switch may be."""

    ON = "on"
    ONE = 1
    NOTHING = None


class Alone(enum.Enum):
    ONLY = "only"


@dataclasses.dataclass
class Point:
    """A place in the plane."""

    x: int
    y: float = 0.5
    labels: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Point3(Point):
    z: "int | None" = None


@dataclasses.dataclass(kw_only=True, frozen=True, slots=True)
class Search:
    query: str
    unit: Unit = Unit.C
    around: Point | None = None


@dataclasses.dataclass
class Node:
    value: int
    children: list["Node"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Derived:
    a: int
    b: int = dataclasses.field(init=False, default=7)
    c: dataclasses.InitVar[int] = 2

    def __post_init__(self, c: int) -> None:
        self.b = self.a * c


T = TypeVar("T")
Bound = TypeVar("Bound", bound=int)
Either = TypeVar("Either", int, str)


@dataclasses.dataclass
class Box(Generic[T]):
    held: T
    more: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class IntBox(Box[int]):
    note: str = ""


class Movie(te.TypedDict):
    """What is shown."""

    name: str
    year: int


class Options(te.TypedDict, total=False):
    limit: te.Required[int]
    unit: Unit
    tags: list[str]


class MoreOptions(Options):
    depth: te.NotRequired[int]
    deep: bool


class Pair(NamedTuple):
    left: int
    right: str = "r"


Loose = namedtuple("Loose", ["a", "b"])  # noqa: PYI024 - the untyped one is meant


UserId = NewType("UserId", int)
Deep = NewType("Deep", list[UserId])

Json = te.TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")
Age = te.TypeAliasType("Age", Annotated[int, annotated_types.Ge(0)])
S = TypeVar("S")
Several = te.TypeAliasType("Several", list[S], type_params=(S,))


class Address(pydantic.BaseModel):
    """Where somebody lives."""

    street: str = pydantic.Field(description="With the number.")
    zip_code: Annotated[str, pydantic.Field(pattern="^[0-9]{5}$")] = "00000"


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName", min_length=1)
    born: dt.date | None = None
    home: Address
    friends: list["Person"] = []


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    name: str


@pydantic.dataclasses.dataclass
class Checked:
    n: Annotated[int, pydantic.Field(ge=1)]
    at: dt.datetime | None = None


ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # where an object is, is no part of a test's name
