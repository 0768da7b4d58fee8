"""What no schema can say is refused where the tool is declared, by name and with what would be right."""

import collections
import dataclasses
import enum
import io
import re
import typing
from collections import abc
from typing import Annotated, Any, Literal, NamedTuple

import annotated_types as at
import pydantic
import pytest
import typing_extensions as te

from tests.resolvers.functions.test_annotations import schema_of
from toolwire.errors import InvalidSchema
from toolwire.resolvers.functions.signature import read_signature


class Arbitrary: ...


class Nothing(enum.Enum): ...


class Tuples(enum.Enum):
    A = (1, 2)


@dataclasses.dataclass
class Holding:
    inside: list[Arbitrary]


class Endless(typing.Generic[te.TypeVar("T")]):  # type: ignore[misc]
    ...


T = typing.TypeVar("T")


@dataclasses.dataclass
class Growing(typing.Generic[T]):
    inner: "Growing[list[T]] | None"


class Bare(NamedTuple):
    call: abc.Callable[[], int]


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    inside: Arbitrary


Itself = te.TypeAliasType("Itself", "Itself")  # type: ignore[misc]
Lost = te.TypeAliasType("Lost", "list[Missing]")  # type: ignore[name-defined]  # noqa: F821 - it is missing

CLASSES = "use a dataclass, a TypedDict, a NamedTuple, a msgspec Struct or a pydantic model"
REFUSED: list[tuple[str, Any, str, str]] = [
    ("Callable", abc.Callable[[int], str], "", "take a name (Literal or Enum) and look it up"),
    ("bare Callable", abc.Callable, "", "take a name (Literal or Enum) and look it up"),
    ("typing.Callable", typing.Callable[..., int], "", "take a name (Literal or Enum) and look it up"),
    ("class", Arbitrary, "", f"Arbitrary has no JSON Schema: {CLASSES}"),
    ("generic class", Endless, "", CLASSES),
    ("module class", io.StringIO, "", CLASSES),
    ("complex", complex, "", CLASSES),
    ("type", type[int], "", "JSON, which has no classes"),
    ("Generator", abc.Generator[int, None, None], "", "arguments come whole; use list[...]"),
    ("AsyncIterator", abc.AsyncIterator[int], "", "arguments come whole; use list[...]"),
    ("Iterator", typing.Iterator[int], "", "arguments come whole; use list[...]"),
    ("Awaitable", abc.Awaitable[int], "", "nothing can be awaited"),
    ("Never", typing.Never, "", "the tool could never be called"),
    ("value", 5, "", CLASSES),
    ("list of types", [int], "", "is not an annotation"),
    ("bare Union", typing.Union, "", "write Optional[X], Union[X, Y] or X | Y"),
    ("Counter", collections.Counter[str], "", CLASSES),
    ("empty Enum", Nothing, "", "Nothing has no members"),
    ("Enum of tuples", Tuples, "", "the value (1, 2) is not JSON"),
    ("Literal of bytes", Literal[b"a"], "", "the value b'a' is not JSON"),
    ("Literal of 1 and 1.0", Literal[1, Decimal] if (Decimal := 1.0) else None, "", "the same in JSON"),
    ("in a list", list[Arbitrary], "[]", "Arbitrary has no JSON Schema"),
    ("in a dict", dict[str, list[Arbitrary]], "{}[]", "Arbitrary has no JSON Schema"),
    ("in a tuple", tuple[int, Arbitrary], "[1]", "Arbitrary has no JSON Schema"),
    ("in a union", int | list[Arbitrary], "[]", "Arbitrary has no JSON Schema"),
    ("in a dataclass", Holding, ".inside[]", "Arbitrary has no JSON Schema"),
    ("in a NamedTuple", list[Bare], "[].call", "JSON, which has no functions"),
    ("in a model", Model, "", "pydantic has no JSON Schema for"),
    ("keys", dict[float, int], "", "the keys of a JSON object are text"),
    ("keys of tuples", dict[tuple[int, int], int], "", "the keys of a JSON object are text"),
    ("defaultdict", collections.defaultdict[str, Any], "", "has no known default; use dict"),
    ("unpacked tuple", tuple[int, *tuple[str, ...]], "", "use tuple[X, ...] or a class"),
    ("endless", Growing[int], "", "nested too deeply, or without end"),
    ("alias of itself", Itself, "", "the alias Itself stands for itself"),
    ("alias of what is missing", Lost, "", "the name 'Missing'"),
    ("unknown name", "Unheard", "", "the name 'Unheard' of the annotation 'Unheard' is not known here"),
    ("unknown name inside", list["Unheard"], "[]", "define it before the tool"),  # type: ignore[name-defined]  # noqa: F821
    ("no Python", "list[", "", "cannot be evaluated"),
    ("wrong Python", "int[str]", "", "cannot be evaluated"),
    ("length of a number", Annotated[int, at.MinLen(1)], "", "min_length does not apply to integer"),
    ("bound of text", Annotated[str, at.Gt(1)], "", "gt does not apply to string"),
    ("bound that is not valid", Annotated[float, at.Lt(float("inf"))], "", "inf is not a bound"),
    ("negative length", Annotated[str, at.MaxLen(-1)], "", "must be a whole number of at least 0, not -1"),
    ("pattern", Annotated[str, pydantic.Field(pattern="(")], "", "the pattern '(' is not valid"),
]


@pytest.mark.parametrize(
    ("annotation", "step", "message"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
def test_what_cannot_be_said_is_refused_with_what_would_be_right(annotation: Any, step: str, message: str) -> None:
    def search(query: str, of=None) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    search.__annotations__["of"] = annotation
    with pytest.raises(InvalidSchema, match=re.escape(message)) as caught:
        read_signature(search)
    assert caught.value.path == f"search.of{step}"
    assert str(caught.value).startswith(f"search.of{step}: ")


def test_the_path_of_a_schema_begins_where_it_is_told_to() -> None:
    with pytest.raises(InvalidSchema, match=r"^here\[\]: "):
        schema_of(list[Arbitrary], path="here")


@pytest.mark.parametrize("function", [5, "text", None, type("Plain", (), {})(), max, dict.update])
def test_what_has_no_signature_is_refused(function: Any) -> None:
    with pytest.raises(InvalidSchema, match=r"its parameters cannot be read .*; write a Python function around it"):
        read_signature(function)


def test_a_field_with_an_alias_is_refused() -> None:
    def search(query: Annotated[str, pydantic.Field(alias="q")]) -> None: ...

    with pytest.raises(InvalidSchema, match=r"^search\.query: a parameter has no alias; call it q"):
        read_signature(search)
