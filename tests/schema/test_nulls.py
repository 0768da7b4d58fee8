"""Which nulls of a strict model mean "absent"."""

import copy
from typing import Any

import pytest

from tests.schemas import INTEGER, NULL, STRING, Schema, closed
from toolwire.schema import fit, prune_nulls

A_AND_B: Schema = {"type": "object", "properties": {"a": STRING, "b": INTEGER}, "required": ["b"]}
CIRCLE = closed({"kind": {"const": "circle"}, "radius": INTEGER, "label": STRING}, ["kind", "radius"])
SQUARE = closed({"kind": {"const": "square"}, "side": INTEGER, "label": {"type": ["string", "null"]}}, ["kind", "side"])
TREE: Schema = {
    "type": "object",
    "properties": {"name": STRING, "left": {"$ref": "#"}, "more": {"type": "array", "items": {"$ref": "#"}}},
}


def of(schema: Any, required: tuple[str, ...] = ()) -> Schema:
    """Make an object whose property `a` has a schema."""
    return {"type": "object", "properties": {"a": schema}, "required": list(required)}


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (A_AND_B, {"a": None, "b": None}, {"b": None}),
        (A_AND_B, {"a": "x", "b": 1}, {"a": "x", "b": 1}),
        (A_AND_B, {"a": None, "b": 1, "c": None}, {"b": 1, "c": None}),
        (of({"type": ["string", "null"]}), {"a": None}, {"a": None}),
        (of({"type": "string", "nullable": True}), {"a": None}, {"a": None}),
        (of({"anyOf": [STRING, NULL]}), {"a": None}, {"a": None}),
        (of({"enum": ["x", None]}), {"a": None}, {"a": None}),
        (of({"const": None}), {"a": None}, {"a": None}),
        (of({}), {"a": None}, {"a": None}),
        (of(True), {"a": None}, {"a": None}),
        (of(False), {"a": None}, {}),
        (of({"type": ["string", "null"], "enum": ["x"]}), {"a": None}, {}),
        (of({"const": "x"}), {"a": None}, {}),
        (of({"allOf": [{"type": ["string", "null"]}, STRING]}), {"a": None}, {}),
        (of(STRING, ("a",)), {"a": None}, {"a": None}),
        (
            of({"type": "array", "items": A_AND_B}),
            {"a": [{"a": None, "b": 1}, None]},
            {"a": [{"b": 1}, None]},
        ),
        (of({"prefixItems": [A_AND_B, {}]}), {"a": [{"a": None}, {"a": None}]}, {"a": [{}, {"a": None}]}),
        (of({"additionalProperties": A_AND_B}), {"a": {"x": {"a": None, "b": 1}}}, {"a": {"x": {"b": 1}}}),
        ({"$defs": {"A": A_AND_B}, **of({"$ref": "#/$defs/A"})}, {"a": {"a": None, "b": 1}}, {"a": {"b": 1}}),
        ({"allOf": [of(STRING), {"required": ["a"]}]}, {"a": None}, {"a": None}),
        (TREE, {"name": None, "left": {"left": None, "more": [{"name": None}]}}, {"left": {"more": [{}]}}),
        (
            of({"anyOf": [CIRCLE, SQUARE]}),
            {"a": {"kind": "circle", "radius": 1, "label": None}},
            {"a": {"kind": "circle", "radius": 1}},
        ),
        (
            of({"oneOf": [CIRCLE, SQUARE]}),
            {"a": {"kind": "square", "side": 1, "label": None}},
            {"a": {"kind": "square", "side": 1, "label": None}},
        ),
        (of({"anyOf": [closed({"x": STRING}, []), of(STRING)]}), {"a": {"a": None}}, {"a": {}}),
        (of({"anyOf": [{"additionalProperties": STRING}, of(STRING)]}), {"a": {"a": None}}, {"a": {}}),
        (of({"anyOf": [of(STRING), {}]}), {"a": {"a": None}}, {"a": {}}),
        (of(STRING), {"a": 5}, {"a": 5}),
        (of(A_AND_B), {"a": "no object"}, {"a": "no object"}),
    ],
)
def test_a_null_goes_where_it_means_absent(schema: Schema, given: Schema, expected: Schema) -> None:
    before = copy.deepcopy(given)
    assert prune_nulls(given, schema) == expected
    assert given == before


@pytest.mark.parametrize("given", [{}, {"a": "x", "b": 1}, {"b": None}])
def test_arguments_that_need_no_change_are_the_same_object(given: Schema) -> None:
    assert prune_nulls(given, A_AND_B) is given


def test_what_has_no_null_is_shared() -> None:
    given = {"a": None, "b": {"deep": [1, 2]}}
    pruned = prune_nulls(given, {"properties": {"a": STRING, "b": {"type": "object"}}})
    assert pruned == {"b": {"deep": [1, 2]}}
    assert pruned["b"] is given["b"]


def test_the_original_schema_decides_and_not_the_fitted_one() -> None:
    fitted = fit(A_AND_B, "openai-strict").schema
    assert fitted["properties"]["a"] == {"type": ["string", "null"]}
    assert prune_nulls({"a": None, "b": 1}, A_AND_B) == {"b": 1}
    assert prune_nulls({"a": None, "b": 1}, fitted) == {"a": None, "b": 1}


def test_arguments_of_any_depth_are_answered() -> None:
    deep: Any = {"name": None}
    for _ in range(5000):
        deep = {"name": None, "left": deep}
    pruned = prune_nulls(deep, TREE)
    assert pruned.keys() == {"left"}


def test_alternatives_that_look_alike_take_no_exponential_time() -> None:
    node = {"properties": {"a": {"$ref": "#/$defs/n"}, "b": STRING}}
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{**node, "required": ["a"]}, node]}}}
    given: Any = {"b": None}
    for _ in range(60):
        given = {"a": given, "b": None}
    pruned = prune_nulls(given, schema)
    for _ in range(60):
        assert pruned.keys() == {"a"}
        pruned = pruned["a"]
    assert pruned == {}
