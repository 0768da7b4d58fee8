"""Which schemas are admitted, and what a validator promises of any schema and any value."""

import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schemas import INTEGER, JUNK, PARAMETERS, STANDARD_PARAMETERS, STRING, VALUES, Schema, around
from toolwire.errors import InvalidSchema
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

REFUSED: list[tuple[Any, str]] = [
    ([], "the parameters of a tool are a JSON Schema object, not list"),
    (None, "the parameters of a tool are a JSON Schema object, not NoneType"),
    ({"type": "string"}, "type: the parameters of a tool are an object, not string; make it a property"),
    ({"anyOf": [STRING, INTEGER]}, "anyOf: the parameters of a tool are an object; no alternative is one"),
    (around({"type": "any"}), "properties.p.type: unknown type 'any'; the types are string, number,"),
    (around({"type": [{}]}), "properties.p.type: unknown type this dict; the types are string, number,"),
    ({"required": "x"}, "required: must be a list of property names, not 'x'"),
    (around({"dependentRequired": {"a": 1}}), "properties.p.dependentRequired.a: "),
    (around({"anyOf": [STRING, 5]}), "properties.p.anyOf[1]: a schema is an object or a boolean, not 5"),
    (
        {"requierd": ["a"]},
        "requierd: 'requierd' is not a keyword and would be ignored; did you mean 'required'?",
    ),
    (
        around({"min_length": 1}),
        "properties.p.min_length: 'min_length' is not a keyword and would be ignored; did",
    ),
    (
        around({"item": STRING}),
        "properties.p.item: 'item' is not a keyword and would be ignored; did you mean 'i",
    ),
    ({"$schema": "https://e.org/mine"}, "$schema: unknown draft 'https://e.org/mine'; known drafts are"),
    ({"$schema": 7}, "$schema: unknown draft '7'"),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", **around({"prefixItems": [STRING]})},
        "properties.p.prefixItems: the draft that $schema names does not know 'prefixItems' and would",
    ),
    (
        around({"$ref": "#/$defs/gone"}),
        "properties.p.$ref: '#/$defs/gone' points to no schema in this document",
    ),
    (around({"const": 10**5000}), "the schema holds an integer of more than 4,096 bits"),
    (around({"maximum": math.inf}), "properties.p.maximum: is inf, which is not a JSON number"),
    (
        around({"const": "\ud800"}),
        "properties.p.const: holds half of a surrogate pair, which is not a character",
    ),
    (around({"const": {1}}), "the schema is not JSON: it holds a value of type set"),
]


@pytest.mark.parametrize(("schema", "message"), REFUSED)
def test_a_schema_that_is_not_admitted_is_refused_by_its_path(schema: Any, message: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        Validator(schema)
    assert str(caught.value).startswith(message)
    place = message.partition(": ")[0]
    assert caught.value.path == ("" if " " in place else place)
    with pytest.raises(InvalidSchema, match=r"\(in the parameters of the tool\)"):
        Validator(schema, name="the tool")


ANNOTATED: list[Schema] = [
    {"x-requierd": ["a"], "title": "t", "deprecated": True, "examples": [{}], "markdownDescription": "m"},
    {"properties": {"requierd": INTEGER, "$ref": STRING, "enum": {"enum": [1]}}},
    {"default": {"$ref": "https://e.org/s.json", "requierd": []}, "$defs": {}},
    {"properties": {"p": {"format": "date-time", "enumNames": ["a"], "enumDescriptions": ["b"]}}},
]


@pytest.mark.parametrize("schema", ANNOTATED)
def test_what_resembles_no_keyword_is_an_annotation(schema: Schema) -> None:
    assert Validator(schema).problems({}) == []


def test_a_format_is_an_annotation() -> None:
    assert of_p({**STRING, "format": "date-time"}, "tomorrow") == []
    assert of_p({**STRING, "format": "date-time"}, "x", **{"$schema": "http://json-schema.org/draft-07/schema#"}) == []


DRAFT_7, DRAFT_4 = "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema"
DRAFTS: list[tuple[str | None, Any, Any, list[str]]] = [
    (
        DRAFT_7,
        {"items": [STRING], "additionalItems": False},
        ["a", 1],
        ["field p: expected at most 1 item, got 2"],
    ),
    (DRAFT_7, {"dependencies": {"a": ["b"]}}, {"a": 1}, ["missing required field: p.b (needed beside a)"]),
    (DRAFT_7, {"$ref": "#/definitions/s", "minLength": 9}, "a", []),
    (
        None,
        {"$ref": "#/definitions/s", "minLength": 9},
        "a",
        ["field p: expected at least 9 characters, got 1"],
    ),
    (
        DRAFT_4,
        {"minimum": 1, "exclusiveMinimum": True},
        1,
        ["field p: expected a number of at least 1, got 1"],
    ),
    (None, {"minimum": 1, "exclusiveMinimum": True}, 1, ["field p: expected a number above 1, got 1"]),
    (None, {"items": [STRING]}, [1], ["field p[0]: expected type string, got 1"]),
    (None, {"dependencies": {"a": ["b"]}}, {"a": 1}, ["missing required field: p.b (needed beside a)"]),
    (None, {"type": "string", "nullable": True}, None, []),
    (None, {"type": "STRING"}, 1, ["field p: expected type string, got 1"]),
    (None, {"type": "string", "minLength": None}, "", []),
]


@pytest.mark.parametrize(("draft", "schema", "value", "expected"), DRAFTS)
def test_older_spellings_keep_their_meaning(draft: Any, schema: Any, value: Any, expected: list[str]) -> None:
    named = {"$schema": draft} if draft else {}
    assert of_p(schema, value, definitions={"s": STRING}, **named) == expected


@pytest.mark.row("H9")
def test_nothing_is_changed_or_filled_in() -> None:
    schema = around({**INTEGER, "default": 5}, required=[])
    arguments: dict[str, Any] = {}
    before = copy.deepcopy(schema)
    assert problems(schema, arguments) == []
    assert arguments == {}
    assert schema == before
    assert problems(around({**INTEGER, "default": 5}), arguments) == ["missing required field: p"]


@pytest.mark.row("H6")
def test_a_schema_is_open_until_it_closes_itself() -> None:
    assert problems(around(STRING), {"p": "x", "more": 1}) == []
    assert problems(around(STRING, additionalProperties=False), {"p": "x", "more": 1}) == [
        "unknown field: more; the known fields are p"
    ]


@pytest.mark.row("H8")
def test_names_of_tools_are_only_told() -> None:
    for name in ("a b", "../x", "é" * 65, "a.b", "__proto__", "\ud800", "{0}%s"):
        with pytest.raises(InvalidSchema) as caught:
            Validator({"type": 5.5}, name=name)
        assert str(caught.value).endswith(f"(in the parameters of {name})")
        assert Validator({}, name=name).problems({}) == []


PYTHON_WORDS = (
    "__proto__",
    "__class__",
    "self",
    "cls",
    "*args",
    "**kwargs",
    "return",
    "__init__",
    "format",
    "{0}",
)


@pytest.mark.parametrize("name", PYTHON_WORDS)
@pytest.mark.row("G8")
def test_names_of_python_are_names_like_others(name: str) -> None:
    assert problems({"properties": {name: INTEGER}, "required": [name]}, {name: 1}) == []
    assert len(problems({"properties": {name: INTEGER}}, {name: "1"})) == 1
    assert len(problems(WEATHER, {"city": "x", name: 1})) == 1


JSON_TYPES: dict[str, list[Any]] = {
    "string": ["", "5", "true", "null", "[]"],
    "integer": [0, -1, 5.0, 2**70, -0.0],
    "number": [0.5, -1e-308],
    "boolean": [True, False],
    "null": [None],
    "array": [[], [1]],
    "object": [{}, {"a": 1}],
}


@pytest.mark.parametrize("kind", JSON_TYPES)
@pytest.mark.row("G9", "G10")
def test_each_type_is_only_itself(kind: str) -> None:
    for other, values in JSON_TYPES.items():
        for value in values:
            told = of_p({"type": kind}, value)
            if other == kind or (kind, other) == ("number", "integer"):
                assert told == []
            else:
                assert len(told) == 1
                assert told[0].startswith(f"field p: expected type {kind}, got ")


def test_the_library_is_loaded_with_the_first_schema() -> None:
    code = (
        "import sys, toolwire.schema.validator as v; assert 'jsonschema_rs' not in sys.modules;"
        "v.Validator({}); assert 'jsonschema_rs' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def attempt(schema: Any) -> Validator | None:
    try:
        return Validator(schema)
    except InvalidSchema:
        return None


@given(schema=STANDARD_PARAMETERS, value=VALUES, data=st.data())
def test_the_verdict_is_the_library_s(schema: Schema, value: Any, data: st.DataObject) -> None:
    validator = attempt(schema)
    if validator is None:
        return
    names = st.sampled_from(["a", "b", "c", "d"])
    for arguments in (data.draw(st.dictionaries(names, VALUES, max_size=3)), {"a": value}):
        told = validator.problems(arguments)
        assert (told == []) == jsonschema_rs.Draft202012Validator(schema).is_valid(arguments)
        assert told == Validator(copy.deepcopy(schema)).problems(copy.deepcopy(arguments))
        assert json.loads(json.dumps(told)) == told


@given(schema=PARAMETERS | JUNK, value=VALUES)
def test_any_schema_is_refused_or_answers(schema: Any, value: Any) -> None:
    validator = attempt(schema)
    if validator is not None:
        for arguments in (value, {"a": value, "b": value}, {"p": [value]}):
            told = validator.problems(arguments)
            assert len(told) <= 21
            assert all(len(each) < 2000 for each in told)


PROBES: list[Callable[[], Any]] = [lambda: Validator({}).problems, lambda: Validator(WEATHER).problems]


@pytest.mark.parametrize("make", PROBES)
@given(
    value=st.recursive(
        st.floats() | st.text() | st.binary() | st.none(),
        lambda below: (
            st.lists(below) | st.tuples(below) | st.dictionaries(st.text() | st.integers() | st.none(), below)
        ),
    )
)
def test_any_value_is_answered(make: Callable[[], Any], value: Any) -> None:
    check = make()
    for arguments in (value, {"city": value}, {"city": [value]}):
        told = check(arguments)
        assert isinstance(told, list)
