"""What is said of arguments that do not fit: where, what was expected, what came; nothing that is secret."""

import math
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given

from tests.schemas import INTEGER, STRING, VALUES, Schema, around
from toolwire.schema.validator import Validator


def problems(schema: Schema, arguments: Any, **options: Any) -> list[str]:
    return Validator(schema, **options).problems(arguments)


def of_p(schema: Any, value: Any, **more: Any) -> list[str]:
    return problems(around(schema, **more), {"p": value})


WEATHER = {
    "type": "object",
    "properties": {
        "city": STRING,
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {**INTEGER, "minimum": 1},
    },
    "required": ["city"],
    "additionalProperties": False,
}

CALLS: list[tuple[Any, list[str]]] = [
    ({"city": "Tokyo"}, []),
    ({"city": "Tokyo", "unit": "celsius", "days": 3}, []),
    ({}, ["missing required field: city"]),
    ({"city": 1}, ["field city: expected type string, got 1"]),
    (
        {"city": "Tokyo", "unit": "kelvin"},
        ['field unit: value "kelvin" not in allowed values ["celsius", "fahrenheit"]'],
    ),
    (
        {"unit": "kelvin", "days": 0, "citi": "x"},
        [
            'field unit: value "kelvin" not in allowed values ["celsius", "fahrenheit"]',
            "field days: expected a number of at least 1, got 0",
            "missing required field: city",
            "unknown field: citi; the known fields are city, unit, days; did you mean city?",
        ],
    ),
    (
        {"city": "x", "\u202e": 1},
        ['unknown field: ["\\u202e"]; the known fields are city, unit, days'],
    ),
    ([], ["arguments: expected type object, got an array of 0 items"]),
    (None, ["arguments: expected type object, got null"]),
]


@pytest.mark.parametrize(("arguments", "expected"), CALLS)
@pytest.mark.row("I-09")
def test_what_is_said_of_a_call(arguments: Any, expected: list[str]) -> None:
    assert problems(WEATHER, arguments) == expected


CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
    "required": ["kind", "r"],
}
SQUARE = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
    "required": ["kind", "side"],
}

WORDING: dict[str, tuple[Any, Any, list[str]]] = {
    "type": (INTEGER, "5", ['field p: expected type integer, got "5"']),
    "types": (
        {"type": ["string", "null"]},
        [1],
        ["field p: expected type string or null, got an array of 1 item"],
    ),
    "const": ({"const": True}, 1, ["field p: value 1 not in allowed values [true]"]),
    "maximum": ({"maximum": 3}, 4.5, ["field p: expected a number of at most 3, got 4.5"]),
    "exclusiveMinimum": ({"exclusiveMinimum": 3}, 3, ["field p: expected a number above 3, got 3"]),
    "exclusiveMaximum": ({"exclusiveMaximum": 3}, 3, ["field p: expected a number below 3, got 3"]),
    "multipleOf": (
        {"multipleOf": 0.5},
        0.7,
        ["field p: expected a number that is a multiple of 0.5, got 0.7"],
    ),
    "minLength": ({"minLength": 2}, "é", ["field p: expected at least 2 characters, got 1"]),
    "maxLength": ({"maxLength": 1}, "ab", ["field p: expected at most 1 character, got 2"]),
    "pattern": ({"pattern": "^a+$"}, "b", ['field p: value "b" does not match the pattern ^a+$']),
    "minItems": ({"minItems": 2}, [1], ["field p: expected at least 2 items, got 1"]),
    "maxItems": ({"maxItems": 1}, [1, 2], ["field p: expected at most 1 item, got 2"]),
    "uniqueItems": (
        {"uniqueItems": True},
        [1, 1.0],
        ["field p: expected items that all differ, got some twice"],
    ),
    "minProperties": ({"minProperties": 1}, {}, ["field p: expected at least 1 field, got 0"]),
    "maxProperties": ({"maxProperties": 1}, {"a": 1, "b": 2}, ["field p: expected at most 1 field, got 2"]),
    "dependentRequired": (
        {"dependentRequired": {"a": ["b"]}},
        {"a": 1},
        ["missing required field: p.b (needed beside a)"],
    ),
    "dependentSchemas": (
        {"dependentSchemas": {"a": {"required": ["b"]}}},
        {"a": 1},
        ["missing required field: p.b"],
    ),
    "propertyNames": (
        {"propertyNames": {"maxLength": 2}},
        {"abc": 1},
        ["field name p.abc: expected at most 2 characters, got 3"],
    ),
    "patternProperties": (
        {"patternProperties": {"^n": INTEGER}},
        {"n1": "x"},
        ['field p.n1: expected type integer, got "x"'],
    ),
    "additionalProperties": (
        {"additionalProperties": INTEGER},
        {"a b": "x"},
        ['field p["a b"]: expected type integer, got "x"'],
    ),
    "no fields": (
        {"additionalProperties": False},
        {"a": 1},
        ["unknown field: p.a; no fields are known here"],
    ),
    "unevaluatedProperties": (
        {"allOf": [{"properties": {"name": STRING}}], "unevaluatedProperties": False},
        {"nam": "x"},
        ["unknown field: p.nam; the known fields are name; did you mean name?"],
    ),
    "unevaluatedItems": (
        {"prefixItems": [STRING], "unevaluatedItems": False},
        ["a", 1],
        ["field p: expected no more than the 1 item that the schema knows, got 2"],
    ),
    "items": (
        {"items": {"properties": {"b": INTEGER}}},
        [{}, {"b": "x"}],
        ['field p[1].b: expected type integer, got "x"'],
    ),
    "prefixItems": (
        {"prefixItems": [STRING], "items": False},
        [1, 2],
        ["field p[0]: expected type string, got 1", "field p: expected at most 1 item, got 2"],
    ),
    "contains": (
        {"contains": STRING},
        [1],
        ["field p: expected at least 1 item of this form: type string; got 0"],
    ),
    "maxContains": (
        {"contains": {"const": 1}, "maxContains": 1},
        [1, 1],
        ["field p: expected at most 1 item of this form: 1; got 2"],
    ),
    "not": (
        {"not": {"enum": ["root", "admin"]}},
        "root",
        ['field p: value "root" is excluded: it must not be one of ["root", "admin"]'],
    ),
    "false": (False, 1, ["field p: is not allowed here"]),
    "if": (
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
        {"a": 1},
        ["missing required field: p.b"],
    ),
    "allOf": ({"allOf": [INTEGER, {"minimum": 2}]}, 1, ["field p: expected a number of at least 2, got 1"]),
    "types of alternatives": (
        {"anyOf": [STRING, {"type": "null"}]},
        1,
        ["field p: expected type string or null, got 1"],
    ),
    "literals of alternatives": (
        {"anyOf": [{"const": "a"}, {"enum": ["b", 2]}]},
        "c",
        ['field p: value "c" not in allowed values ["a", "b", 2]'],
    ),
    "the alternative of the type": (
        {"anyOf": [{**STRING, "minLength": 3}, {**INTEGER, "minimum": 10}]},
        5,
        ["field p: expected a number of at least 10, got 5"],
    ),
    "the alternative of the literal": (
        {"oneOf": [CIRCLE, SQUARE]},
        {"kind": "square", "side": "x"},
        ['field p.side: expected type number, got "x"'],
    ),
    "no alternative of the literal": (
        {"oneOf": [CIRCLE, SQUARE]},
        {"kind": "hexagon"},
        ['field p.kind: value "hexagon" not in allowed values ["circle", "square"]'],
    ),
    "the alternative of fewest problems": (
        {"anyOf": [{"required": ["a", "b"]}, {"required": ["c"]}]},
        {},
        ["missing required field: p.c (the closest of 2 alternatives)"],
    ),
    "several alternatives": (
        {"oneOf": [{"minimum": 1}, STRING, INTEGER]},
        2,
        ["field p: value 2 fits alternatives 1 and 3 of 3; exactly one may fit"],
    ),
    "long text": (
        {"const": 1},
        "x" * 1000,
        [f'field p: value "{"x" * 60}..." (1,000 characters) not in allowed values [1]'],
    ),
    "a strange name": (
        {"properties": {"a.b": INTEGER}},
        {"a.b": ""},
        ['field p["a.b"]: expected type integer, got ""'],
    ),
}


@pytest.mark.parametrize("name", WORDING)
def test_each_keyword_has_its_words(name: str) -> None:
    schema, value, expected = WORDING[name]
    assert of_p(schema, value) == expected


def test_every_kind_of_error_of_the_library_is_told_where_it_lies() -> None:
    """Control: what is told is found by the library too, keyword by keyword."""
    for schema, value, _ in WORDING.values():
        assert not jsonschema_rs.Draft202012Validator(schema).is_valid(value)


def test_problems_below_references_are_told_by_their_path() -> None:
    tree = {
        "type": "object",
        "properties": {"value": INTEGER, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "required": ["value"],
    }
    schema = {"$ref": "#/$defs/tree", "$defs": {"tree": tree}}
    arguments = {"value": 1, "kids": [{"value": 2}, {"kids": [{"value": "x"}]}]}
    assert problems(schema, arguments) == [
        'field kids[1].kids[0].value: expected type integer, got "x"',
        "missing required field: kids[1].value",
    ]


def test_only_so_much_is_listed() -> None:
    schema = around({"items": STRING})
    few, many = Validator(schema).problems({"p": [1] * 21}), Validator(schema).problems({"p": [1] * 50_000})
    assert (len(few), few[-1]) == (21, "and 1 more problem")
    assert (len(many), many[:20]) == (21, few[:20])
    assert many[-1].startswith("and more than ")
    names = {f"property_{'x' * 500}_{index}": INTEGER for index in range(500)}
    [told] = problems({"properties": names, "additionalProperties": False}, {"y" * 1000: 1})
    assert len(told) < 1500


SENSITIVE = {
    "type": "object",
    "properties": {
        "user": {"enum": ["root"]},
        "password": {**STRING, "minLength": 40, "pattern": "^x"},
        "nested": {"additionalProperties": {"additionalProperties": False}},
        "list": {"items": {"properties": {"token": INTEGER}}},
        "note": {"pattern": "^x", "maxLength": 3},
    },
    "propertyNames": {"maxLength": 12},
    "additionalProperties": False,
}
SECRET = "hunter2-canary"  # noqa: S105 - what a test looks for
HIDING: list[Any] = [
    {"password": SECRET},
    {"PASSWORD": SECRET, "user": SECRET},
    {"password": {"inner": [SECRET]}, "user": SECRET},
    {"password": {SECRET: 1}, "user": SECRET},
    {"password": SECRET, SECRET: 1},
    {"password": SECRET, "note": f"my password is {SECRET}!"},
    {"nested": {"password": {SECRET: 1}}},
    {"nested": {"password": {SECRET: 1}, SECRET: {"x": 1}}},
    {"list": [{"token": SECRET}], "user": SECRET},
    {"password": f"\ud800{SECRET}", f"\ud800{SECRET}": 1},
    {"password": {"a": math.nan, SECRET: 1}},
]


@pytest.mark.parametrize("arguments", HIDING, ids=range(len(HIDING)))
@pytest.mark.row("H7")
def test_a_secret_is_never_shown(arguments: Any) -> None:
    told = problems(SENSITIVE, arguments, sensitive={"password", "token"})
    assert told
    assert SECRET not in "\n".join(told)


def test_what_nobody_called_sensitive_is_shown() -> None:
    """Control: the same calls show the text, where no field is sensitive."""
    shown = [SECRET in "\n".join(problems(SENSITIVE, arguments)) for arguments in HIDING]
    assert sum(shown) >= 6


@pytest.mark.row("H7")
def test_of_a_secret_the_type_is_said() -> None:
    told = problems(SENSITIVE, {"password": "x" * 5, "user": "x" * 5}, sensitive={"Password"})
    assert told == [
        'field user: value (a string) not in allowed values ["root"]',
        "field password: expected at least 40 characters, got a string",
    ]
    [said] = problems(around({"maximum": 5}), {"p": 1234}, sensitive={"p"})
    assert said == "field p: expected a number of at most 5, got a number"


@given(value=VALUES, other=VALUES)
def test_no_value_below_a_sensitive_name_is_told(value: Any, other: Any) -> None:
    arguments = {"secret": {"a": [value, "c4n4ry"]}, "c4n4ry": other, "x": "c4n4ry", "y": [other, "c4n4ry"]}
    schema = {
        "properties": {
            "secret": {"additionalProperties": {"items": {"not": {}}}},
            "x": {"const": 1},
            "y": {"items": {"type": "boolean", "pattern": "^z"}},
        },
        "additionalProperties": False,
    }
    assert "c4n4ry" not in "\n".join(problems(schema, arguments, sensitive={"Secret"}))
