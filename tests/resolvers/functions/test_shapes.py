"""Classes of fields: what their schema says, what they take, and what they are called."""

import dataclasses
import enum
import json
import pathlib
import typing
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest
import typing_extensions as te

from tests.resolvers.functions import annotation_shapes as shapes
from tests.resolvers.functions.test_annotations import normal, schema_of, signature_of
from toolwire.errors import InvalidField
from toolwire.resolvers.functions.annotations import read_annotation, start_walk


class Plain(msgspec.Struct):
    """A struct."""

    a: int
    b: str = "b"
    c: list[int] = []
    d: float | msgspec.UnsetType = msgspec.UNSET


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str
    last_name: str | None = None


class Tagged(msgspec.Struct, tag="t", tag_field="kind"):
    x: int


class OtherTag(msgspec.Struct, tag="o", tag_field="kind"):
    x: int


class AsArray(msgspec.Struct, array_like=True):
    x: int
    y: str = "y"


class TaggedArray(msgspec.Struct, array_like=True, tag=True):
    x: int


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    early: int = 1
    late: int


class Outer(msgspec.Struct):
    inner: Plain | None
    items: list[Renamed] = []
    limited: Annotated[int, msgspec.Meta(ge=1)] = 1


class Held(msgspec.Struct, typing.Generic[shapes.T]):
    held: shapes.T


class Tree(msgspec.Struct):
    value: int
    children: list["Tree"] = []


STRUCTS: list[tuple[Any, list[Any]]] = [
    (Plain, [Plain(1), Plain(1, "x", [2], 0.5)]),
    (Renamed, [Renamed("a"), Renamed("a", "b")]),
    (Tagged, [Tagged(1)]),
    (Tagged | OtherTag, [Tagged(1), OtherTag(2)]),
    (AsArray, [AsArray(1), AsArray(1, "z")]),
    (TaggedArray, [TaggedArray(1)]),
    (Strict, [Strict(late=2)]),
    (Outer, [Outer(None), Outer(Plain(1), [Renamed("a")], 5)]),
    (Held[int], [Held(1)]),
    (list[Tree], [[Tree(1, [Tree(2)])]]),
]


def as_msgspec_writes(schema: Any) -> Any:
    """Take out in what msgspec differs: a tag is an enum of one there, and an array may go on."""
    if isinstance(schema, list):
        return [as_msgspec_writes(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: as_msgspec_writes(inner) for key, inner in schema.items() if key not in ("maxItems", "discriminator")}
    if len(made.get("enum", ())) == 1:
        made = {"const": made["enum"][0]}
    return made


@pytest.mark.parametrize(("annotation", "values"), STRUCTS, ids=str)
def test_the_schema_of_a_struct_is_that_of_msgspec(annotation: Any, values: list[Any]) -> None:
    theirs = as_msgspec_writes(normal(msgspec.json.schema(annotation)))
    name = theirs.get("$ref", "").removeprefix("#/$defs/")
    if name:
        definitions = theirs.pop("$defs")
        theirs = definitions.pop(name) | ({"$defs": definitions} if definitions else {})
    names = {"Held_int_": "Held[int]"}
    text = json.dumps(as_msgspec_writes(normal(schema_of(annotation))))
    assert json.loads(text.replace("Held_int_", names["Held_int_"])) == theirs
    assert values


@pytest.mark.parametrize(("annotation", "values"), STRUCTS, ids=str)
def test_a_struct_comes_back_through_json(annotation: Any, values: list[Any]) -> None:
    signature = signature_of(annotation)
    takes = jsonschema_rs.Draft202012Validator(signature.parameters)
    for value in values:
        arguments = {"value": json.loads(msgspec.json.encode(value))}
        takes.validate(arguments)
        assert signature.bind(arguments)[1]["value"] == value


class Own(TypedDict):
    a: int
    b: typing.NotRequired[str]


class Open(te.TypedDict, extra_items=int):  # type: ignore[call-arg]
    a: str


class Shut(te.TypedDict, closed=True):
    a: str


@pytest.mark.parametrize(
    ("annotation", "closing"),
    [
        (shapes.Point, False),
        (shapes.Movie, False),
        (Own, False),
        (Shut, False),
        (Open, {"type": "integer"}),
        (Plain, False),
        (Strict, False),
        (shapes.Address, None),
        (pydantic.create_model("Forbidding", __config__=pydantic.ConfigDict(extra="forbid"), a=int), False),
        (pydantic.create_model("Allowing", __config__=pydantic.ConfigDict(extra="allow"), a=int), True),
    ],
)
def test_what_an_object_takes_beside_its_fields(annotation: Any, closing: Any) -> None:
    assert schema_of(annotation).get("additionalProperties") == closing


def test_items_that_are_extra_are_read_as_what_they_are() -> None:
    signature = signature_of(Open)
    assert signature.bind({"value": {"a": "x", "b": 5.0}})[1] == {"value": {"a": "x", "b": 5}}
    with pytest.raises(InvalidField, match=r"value\.b must be an integer, not a string"):
        signature.bind({"value": {"a": "x", "b": "5"}})


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (shapes.Point, {"x": 1, "z": 2}, r"^value\.z is not a field of Point; it has x, y, labels$"),
        (shapes.Point, {}, r"^value must have x$"),
        (shapes.Point, [], r"^value must be an object, not an array$"),
        (list[shapes.Point], [{"x": 1}, {"x": "1"}], r"^value\[1\]\.x must be an integer, not a string$"),
        (dict[str, list[int]], {"a": [1, None]}, r"^value\.a\[1\] must be an integer, not null$"),
        (shapes.Pair, [], r"^value must have 1 to 2 elements, not 0$"),
        (tuple[int, str], [1], r"^value must have 2 elements, not 1$"),
        (Tagged, {"kind": "o", "x": 1}, r"^value\.kind must be 't'$"),
        (set[list[int]], [[1]], r"^value must hold values of which a set can be made"),
        (dict[int, int], {"1": 1, "a": 1}, r"^value\.a must have whole numbers as keys$"),
        (shapes.Colour, "green", r'^value must be one of "red", "blue"$'),
        (Literal[1, "a"], True, r'^value must be one of 1, "a"$'),
        (
            shapes.Address,
            {"street": "s", "zip_code": "1"},
            r"^value\.zip_code cannot be used: String should match",
        ),
        (int | None, "a", r"^value must be null or an integer$"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidField, match=message) as caught:
        signature_of(annotation).bind({"value": value})
    assert caught.value.path == caught.value.field
    assert caught.value.field.startswith("value")


class Refusing(msgspec.Struct):
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a is negative")


@dataclasses.dataclass
class Failing:
    a: int

    def __post_init__(self) -> None:
        raise KeyError(self.a)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [(Refusing, "value makes no Refusing: a is negative"), (Failing, "value makes no Failing: -1")],
)
def test_what_a_class_refuses_is_a_field_that_is_invalid(annotation: Any, message: str) -> None:
    with pytest.raises(InvalidField, match=message):
        signature_of(annotation).bind({"value": {"a": -1}})


def test_alternatives_of_one_kind_are_told_apart_by_their_schemas() -> None:
    @dataclasses.dataclass
    class Small:
        n: Annotated[int, msgspec.Meta(le=10)]

    @dataclasses.dataclass
    class Big:
        n: int

    signature = signature_of(Small | Big)
    assert signature.bind({"value": {"n": 5}})[1]["value"] == Small(5)
    assert signature.bind({"value": {"n": 50}})[1]["value"] == Big(50)


@pytest.mark.parametrize(
    ("annotation", "value", "read"),
    [
        (int | float, 5, 5),
        (int | float, 5.0, 5.0),
        (float | int, 5, 5),
        (float | str, 5, 5.0),
        (bool | int, True, True),
        (str | pathlib.Path, "a", "a"),
        (pathlib.Path | str, "a", pathlib.Path("a")),
        (tuple[int, ...] | list[str], ["a"], ["a"]),
    ],
)
def test_an_alternative_is_chosen_by_kind_and_then_by_order(annotation: Any, value: Any, read: Any) -> None:
    made = signature_of(annotation).bind({"value": value})[1]["value"]
    assert (type(made), made) == (type(read), read)


def twin() -> type:
    @dataclasses.dataclass
    class Point:
        angle: float

    return Point


def test_two_classes_of_one_name_get_two_names() -> None:
    other, third = twin(), twin()
    schema = schema_of(tuple[shapes.Point, other, third, other])  # type: ignore[valid-type]
    assert [item["$ref"] for item in schema["prefixItems"]] == [
        "#/$defs/Point",
        "#/$defs/Point_2",
        "#/$defs/Point_3",
        "#/$defs/Point_2",
    ]
    assert list(schema["$defs"]["Point_2"]["properties"]) == ["angle"]
    assert schema == schema_of(tuple[shapes.Point, other, third, other])  # type: ignore[valid-type]


def test_what_pydantic_defines_is_renamed_where_its_name_is_taken() -> None:
    class Point(pydantic.BaseModel):
        inner: "Leaf"

    class Leaf(pydantic.BaseModel):
        n: int

    class Holder(pydantic.BaseModel):
        points: list[Point]

    Point.model_rebuild(_types_namespace={"Leaf": Leaf})
    Holder.model_rebuild()
    schema = schema_of(tuple[shapes.Point, Holder, Point, Leaf])
    assert sorted(schema["$defs"]) == ["Holder", "Leaf", "Point", "Point_2"]
    assert schema["$defs"]["Holder"]["properties"]["points"]["items"] == {"$ref": "#/$defs/Point_2"}
    assert [item["$ref"] for item in schema["prefixItems"]] == [
        "#/$defs/Point",
        "#/$defs/Holder",
        "#/$defs/Point_2",
        "#/$defs/Leaf",
    ]


def test_names_in_definitions_are_plain() -> None:
    schema = schema_of(list[Held[dict[str, int]]])
    [name] = schema["$defs"]
    assert set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
    jsonschema_rs.Draft202012Validator(schema).validate([{"held": {"a": 1}}])


def test_definitions_are_shared_by_several_annotations() -> None:
    walk = start_walk()
    types = [read_annotation(annotation, walk) for annotation in (shapes.Point, list[shapes.Point], shapes.Unit)]
    assert [one.schema for one in types] == [
        {"$ref": "#/$defs/Point"},
        {"type": "array", "items": {"$ref": "#/$defs/Point"}},
        {"$ref": "#/$defs/Unit"},
    ]
    assert list(walk.definitions.schemas) == ["Point", "Unit"]


class Documented(TypedDict):
    """What to look for.

    Attributes:
        query: The words.
        limit: How many, at most.
    """

    query: str
    limit: Annotated[int, "Never more."]


def test_a_class_says_of_itself_what_its_docstring_says() -> None:
    schema = schema_of(Documented)
    assert schema["description"] == "What to look for."
    assert [field["description"] for field in schema["properties"].values()] == ["The words.", "Never more."]


def test_what_python_wrote_is_no_docstring() -> None:
    @dataclasses.dataclass
    class Silent:
        a: int

    class Couple(NamedTuple):
        a: int

    class Letter(enum.Enum):
        A = "a"

    for kind in (Silent, Couple, Letter, Own):
        assert "description" not in schema_of(kind)


def test_the_schema_that_is_given_out_is_the_callers_own() -> None:
    one = schema_of(list[shapes.Point])
    one["$defs"]["Point"]["properties"].clear()
    one["items"]["x"] = 1
    assert schema_of(list[shapes.Point])["$defs"]["Point"]["properties"]
    walk = start_walk()
    made = read_annotation(Literal["a"], walk)
    walk.definitions.standalone(made.schema)["const"] = "b"
    assert made.schema["const"] == "a"
