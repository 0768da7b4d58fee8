"""What is refused, and how it is named; nothing is too deep, too large or too strange to be answered."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.schemas import INTEGER, STRING, Schema, around
from tests.timing import within
from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema import TARGETS, fit
from toolwire.schema.document import MAX_DEPTH, MAX_SIZE

pytestmark = pytest.mark.slow  # what is given is large

ILL_FORMED: list[tuple[Any, str]] = [
    ({"properties": 5}, "properties: must be an object of schemas, not 5"),
    ({"required": "a"}, "required: must be a list of property names, not 'a'"),
    ({"type": "string"}, "type: the parameters of a tool are an object, not string; make it a property"),
    ({"type": ["array", "null"]}, "type: the parameters of a tool are an object, not array or null"),
    ({"anyOf": [STRING, INTEGER]}, "anyOf: the parameters of a tool are an object; no alternative is one"),
    ([], "the parameters of a tool are a JSON Schema object, not list"),
    (None, "the parameters of a tool are a JSON Schema object, not NoneType"),
    (True, "the parameters of a tool are a JSON Schema object, not bool"),
    (around(5), r"properties\.p: a schema is an object or a boolean, not 5"),
    (
        around({"type": "any"}),
        r"properties\.p\.type: unknown type 'any'; the types are string, number, integer",
    ),
    (around({"type": []}), r"properties\.p\.type: must name at least one type"),
    (around({"enum": []}), r"properties\.p\.enum: must be a list of at least one value, not an empty list"),
    (around({"anyOf": []}), r"properties\.p\.anyOf: must be a list of at least one schema"),
    (
        around({"anyOf": [STRING, {"minimum": "1"}]}),
        r"properties\.p\.anyOf\[1\]\.minimum: must be a number, not '1'",
    ),
    (
        around({"items": {"multipleOf": 0}}),
        r"properties\.p\.items\.multipleOf: must be a number above 0, not 0",
    ),
    (around({"minLength": -1}), r"properties\.p\.minLength: must be a whole number of at least 0, not -1"),
    (around({"description": ["d"]}), r"properties\.p\.description: must be a string, not this list"),
    (
        around({"$ref": "#/$defs/A"}),
        r"properties\.p: \$ref '#/\$defs/A' points to no schema in this document",
    ),
    (around({"$ref": "https://e.org/s.json"}), r"properties\.p: \$ref 'https://e.org/s.json' points outside"),
    (
        around({"$ref": "file:///s.json"}),
        r"properties\.p: \$ref 'file:///s.json' points outside the schema",
    ),
    (around({"default": {1, 2}}), "the schema is not JSON: it holds a value of type set"),
    (around({"default": {1: 2}}), "the schema is not JSON: every key must be a string"),
    (around({"default": 10**5000}), "the schema holds an integer of more than 4,096 bits"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("schema", "message"), ILL_FORMED)
def test_what_is_ill_formed_is_refused_by_name(schema: Any, message: str, target: str) -> None:
    with pytest.raises(InvalidSchema, match=f"^{message}"):
        fit({**schema, "x": 1} if isinstance(schema, dict) else schema, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "schema",
    [
        {"required": None, "properties": None, "description": None},
        {"properties": {"p": {"pattern": "("}}},
        {"properties": {"p": {"minimum": 3, "maximum": 1}}},
        {"properties": {"p": {"type": "integer", "exclusiveMinimum": float("inf"), "minimum": float("nan")}}},
        {"properties": {"p": {"const": "\ud800", "default": "\udfff"}}},
        {"properties": {"p": {"type": "integer", "exclusiveMaximum": 10**400}}},
        {"properties": {"": {"type": "string", "x": {"$ref": 5}}}},
    ],
)
def test_what_is_strange_is_answered(schema: Schema, target: str) -> None:
    fitted = fit(schema, target)
    assert fitted.schema["properties"].keys() == (schema["properties"] or {}).keys()
    assert fit(fitted.schema, target).schema == fitted.schema


def nested(levels: int, step: Callable[[Any], Any], innermost: Any = STRING) -> Any:
    value = innermost
    for _ in range(levels):
        value = step(value)
    return value


STEPS: dict[str, Callable[[Any], Any]] = {
    "properties": around,
    "items": lambda below: {"type": "array", "items": below},
    "anyOf": lambda below: {"anyOf": [below, INTEGER]},
    "prefixItems": lambda below: {"type": "array", "prefixItems": [below]},
    "allOf": lambda below: {"allOf": [below, {"description": "d"}]},
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keyword", STEPS)
def test_a_schema_is_fitted_down_to_the_limit_and_refused_below(keyword: str, target: str) -> None:
    deepest = around(nested(MAX_DEPTH - 1, STEPS[keyword]))
    fit(around(STRING), target)  # what is imported or kept at first use needs frames as well
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_frames() + 800)
    try:
        assert fit(deepest, target).schema["required"] == ["p"]
        for levels in (MAX_DEPTH + 30, 1000, 20_000):
            with pytest.raises(InvalidSchema, match="nested too deeply: at most 100 levels"):
                fit(around(nested(levels, STEPS[keyword])), target)
    finally:
        sys.setrecursionlimit(limit)


def _frames() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back:
        frame, count = frame.f_back, count + 1
    return count


@pytest.mark.parametrize("keyword", ["enum", "default", "const"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_value_that_is_nested_too_deeply_is_refused(keyword: str, target: str) -> None:
    value = nested(1000, lambda below: [below], [])
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        fit(around({keyword: value, "x": 1, "minLength": 0, "title": None}), target)


def doubling(step: Callable[[str], Schema]) -> Schema:
    """Make twenty definitions of which each refers twice to the next."""
    defs = {f"d{index}": step(f"#/$defs/d{index + 1}") for index in range(20)}
    return around({"$ref": "#/$defs/d0"}, **{"$defs": {**defs, "d20": STRING}})


HUGE: dict[str, Schema] = {
    "properties": doubling(lambda ref: {"type": "object", "properties": {"a": {"$ref": ref}, "b": {"$ref": ref}}}),
    "alternatives": doubling(lambda ref: {"minLength": 1, "anyOf": [{"$ref": ref}, {"$ref": ref}]}),
    "10 MiB": {"properties": {f"p{index}": {**STRING, "default": "x" * 1000} for index in range(10_000)}},
    "text": around(
        {"type": "object", "properties": {f"p{index}": {"$ref": "#/$defs/t"} for index in range(1000)}},
        **{"$defs": {"t": {**STRING, "examples": ["x" * 100_000]}}},
    ),
    "members": around({"allOf": [{"properties": {f"p{index}": STRING}} for index in range(5000)]}),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in {"alternatives", "members"} else ()) for name in HUGE],
)
def test_what_would_grow_without_bound_is_refused_in_time(name: str) -> None:
    refused = f"the schema is too large: more than {MAX_SIZE:,} JSON values"
    with within(5), pytest.raises(InvalidSchema, match=refused):
        fit(HUGE[name], "ollama")


def test_what_holds_twice_is_written_out_once() -> None:
    schema = doubling(lambda ref: {"allOf": [{"$ref": ref}, {"$ref": ref}]})
    assert fit(schema, "ollama").schema == around(STRING)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ref", ["#", "#/$defs/A", "#/properties/p", "#/$defs/B"])
def test_a_reference_to_itself_is_refused_everywhere(ref: str, target: str) -> None:
    schema = around({"$ref": ref}, **{"$defs": {"A": {"$ref": "#/$defs/A"}, "B": {"allOf": [{"$ref": "#/$defs/B"}]}}})
    if ref == "#":
        schema = {"$ref": "#"}
    with pytest.raises(SchemaRecursive, match="leads back to itself"):
        fit(schema, target)
