"""Constraints and descriptions in Annotated: said where JSON Schema can say them, checked where it cannot."""

import datetime as dt
import math
from decimal import Decimal
from typing import Annotated, Any, Literal

import annotated_types as at
import jsonschema_rs
import msgspec
import pydantic
import pytest
import typing_extensions as te

from tests.resolvers.functions.annotation_shapes import ADDRESS, Age, Box, Point
from tests.resolvers.functions.test_annotations import schema_of, signature_of
from toolwire.errors import InvalidField

UTC = dt.UTC
NOON, AWARE = "2030-01-31T12:00:00", "2030-01-31T12:00:00Z"
STRING = {"type": "string"}
CHECKED: list[tuple[Any, list[Any], list[Any], str]] = [
    (Annotated[dt.date, at.Ge(dt.date(2030, 1, 1))], ["2030-01-01"], ["2029-12-31"], "at least 2030-01-01"),
    (Annotated[dt.datetime, at.Timezone(...)], [AWARE], [NOON], "with a time zone"),
    (Annotated[dt.datetime, at.Timezone(None)], [NOON], [AWARE], "without a time zone"),
    (Annotated[dt.datetime, msgspec.Meta(tz=True)], [AWARE], [NOON], "with a time zone"),
    (Annotated[dt.datetime, msgspec.Meta(tz=False)], [NOON], [AWARE], "without a time zone"),
    (Annotated[dt.datetime, at.Gt(dt.datetime(2030, 1, 1, tzinfo=UTC))], [AWARE], [NOON], "offset-naive"),
    (Annotated[bytes, at.Len(1, 2)], ["AA==", "AAA="], ["", "AAAA"], "long"),
    (Annotated[Decimal, at.Gt(1)], [1.5, "1.5", 2], ["1", "0.5"], "above 1"),
    (Annotated[Decimal, at.MultipleOf(Decimal("0.5"))], ["1.5", 2], ["1.7"], "a multiple of 0.5"),
    (at.LowerCase[str], ["a"], ["A"], "what islower is true of"),
    (Annotated[str, at.Predicate(at.Not(str.islower))], ["A"], ["a"], "islower is false of"),
    (Annotated[float, at.Predicate(math.isfinite)] | None, [1.5, None], [], ""),
    (Annotated[list[int], at.Predicate(any)], [[0, 1]], [[0], []], "what any is true of"),
    (list[Annotated[dt.timedelta, at.Le(dt.timedelta(hours=1))]], [["PT1H"]], [["PT2H"]], "at most 1:00:00"),
    (Annotated[dt.date | None, at.Lt(dt.date(2030, 1, 1))], [None, "2029-12-31"], ["2030-01-01"], "below"),
]


@pytest.mark.parametrize(("annotation", "good", "bad", "words"), CHECKED, ids=str)
def test_what_no_keyword_says_is_checked(annotation: Any, good: list[Any], bad: list[Any], words: str) -> None:
    signature = signature_of(annotation)
    for value in [*good, *bad]:
        assert jsonschema_rs.is_valid(signature.parameters, {"value": value})
    for value in good:
        signature.bind({"value": value})
    for value in bad:
        with pytest.raises(InvalidField, match=f"^value.* must be .*{words}"):
            signature.bind({"value": value})


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[int, "How", "many."], {"type": "integer", "description": "How many."}),
        (Annotated[int, at.doc("Many.")], {"type": "integer", "description": "Many."}),
        (Annotated[int, te.Doc("Many.")], {"type": "integer", "description": "Many."}),
        (
            Annotated[Annotated[int, at.Ge(1)], at.Lt(5)],
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 5},
        ),
        (Annotated[float, at.Ge(Decimal("0.5"))], {"type": "number", "minimum": 0.5}),
        (Annotated[int, at.Ge(Decimal(3))], {"type": "integer", "minimum": 3}),
        (
            Annotated[str, msgspec.Meta(title="T", examples=["a"], extra_json_schema={"x-a": 1})],
            {**STRING, "title": "T", "examples": ["a"], "x-a": 1},
        ),
        (
            Annotated[str, pydantic.Field(json_schema_extra={"x-a": 1}, deprecated=True)],
            {**STRING, "x-a": 1, "deprecated": True},
        ),
        (Annotated[str, 5, object(), {"a": 1}, ["x"]], STRING),
        (list[Annotated[str, ["x"]]], {"type": "array", "items": STRING}),
        (Annotated[Any, at.MinLen(2)], {"minLength": 2, "minItems": 2, "minProperties": 2}),
        (Annotated[Any, at.Gt(2)], {"exclusiveMinimum": 2}),
        (
            Annotated[int | list[int] | str, at.MaxLen(2)],
            {
                "anyOf": [
                    {"type": "integer"},
                    {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
                    {**STRING, "maxLength": 2},
                ]
            },
        ),
        (Annotated[Literal["a", "bb"], at.MaxLen(1)], {**STRING, "enum": ["a", "bb"], "maxLength": 1}),
    ],
    ids=lambda value: ADDRESS.sub("", str(value)),
)
def test_what_a_keyword_says_is_said(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_of(annotation) == schema


def test_what_is_said_of_a_class_stands_beside_its_reference() -> None:
    schema = schema_of(Annotated[Age, at.Lt(150), "In years."])
    assert {key: value for key, value in schema.items() if key != "$defs"} == {
        "$ref": "#/$defs/Age",
        "exclusiveMaximum": 150,
        "description": "In years.",
    }
    assert schema_of(Annotated[Point, "Where."])["description"] == "Where."
    assert schema_of(Annotated[Point, "Where."])["$defs"]["Point"]["description"] == "A place in the plane."


def test_metadata_without_a_hash_is_no_obstacle() -> None:
    schema = schema_of(Box[Annotated[int, ["x"]]])
    assert schema["properties"]["held"] == {"type": "integer"}


def test_metadata_that_is_changed_later_changes_no_schema() -> None:
    examples: list[Any] = [{"a": 1}]
    annotation = Annotated[dict[str, int], msgspec.Meta(examples=examples)]
    schema = schema_of(annotation)
    examples[0]["a"] = 2
    assert schema["examples"] == [{"a": 1}]
