"""A fitted schema accepts what its schema accepts, or a note says "narrowed"."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.test_laws import attempt, cases
from tests.schemas import INTEGER, STRICT, STRING, Schema, around
from toolwire.schema import TARGETS, Fitted, fit
from toolwire.schema.document import resolve_pointer

_NAMES = st.sampled_from(["a", "b", "ab", "c"])
_LEAVES = st.sampled_from(
    [STRING, INTEGER, {"type": "number"}, {"type": ["string", "null"]}, {"const": 1}, {"enum": ["x", 1, None]}, {}]
) | st.sampled_from([True, False, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}])


def _keywords(below: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {
        "type": st.sampled_from(["object", "array", ["object", "null"], ["array", "string"]]),
        "properties": st.dictionaries(_NAMES, below, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), below, min_size=1, max_size=2),
        "additionalProperties": below,
        "unevaluatedProperties": below,
        "propertyNames": st.just({"maxLength": 3}),
        "required": st.lists(_NAMES, max_size=2, unique=True),
        "prefixItems": st.lists(below, min_size=1, max_size=2),
        "items": below,
        "maxItems": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "exclusiveMinimum": st.integers(-1, 2),
        **dict.fromkeys(("anyOf", "oneOf", "allOf"), st.lists(below, min_size=1, max_size=2)),
        "not": below,
        "if": below,
        "then": below,
    }


def _some(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    keywords = _keywords(below)
    names = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen}))


_PARAMETERS = _some(st.recursive(_LEAVES, _some, max_leaves=6)).map(
    lambda schema: {
        **schema,
        "type": "object",
        "$defs": {"a": STRING, "b": {"type": "array", "prefixItems": [INTEGER]}},
    }
)
_VALUES = st.sampled_from([None, True, 0, 1, 3, 1.5, "x", "", [], ["x", 1], {}, {"a": 1}, {"c": "x"}])


def value_of(draw: st.DrawFn, root: Schema, schema: Any, depth: int = 0) -> Any:
    """Draw a value that a schema of any form is likely to accept."""
    if type(schema) is not dict or depth > 5 or not draw(st.integers(0, 5)):
        return draw(_VALUES)
    if "$ref" in schema:
        return value_of(draw, root, resolve_pointer(root, schema["$ref"]), depth + 1)
    branches = [branch for key in ("anyOf", "oneOf", "allOf", "then") for branch in _listed(schema.get(key, []))]
    takes_branch = draw(st.booleans())
    if branches and takes_branch:
        return value_of(draw, root, draw(st.sampled_from(branches)), depth + 1)
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    kinds = _listed(schema.get("type", ["object", "array", "string"]))
    match draw(st.sampled_from(kinds)):
        case "object":
            names = {*draw(st.lists(_NAMES, max_size=2)), *schema.get("required", ())}
            return {name: value_of(draw, root, _property(schema, name), depth + 1) for name in sorted(names)}
        case "array":
            members = schema.get("prefixItems", [])
            nodes = [*members, *[schema.get("items", True)] * 2][: draw(st.integers(0, len(members) + 2))]
            return [value_of(draw, root, node, depth + 1) for node in nodes]
    return draw(_VALUES)


@st.composite
def _values(draw: st.DrawFn, schema: Schema) -> Any:
    return value_of(draw, schema, schema)


def _listed(value: Any) -> list[Any]:
    return value if type(value) is list else [value]


def _property(schema: Schema, name: str) -> Any:
    patterns = schema.get("patternProperties", {})
    matching = [node for pattern, node in patterns.items() if (name[0] if pattern == "^a" else name).count(pattern[-1])]
    return schema.get("properties", {}).get(name, matching[0] if matching else schema.get("additionalProperties", True))


def as_standard(schema: Any, target: str) -> Any:
    """Write a fitted schema in the words of the draft, without what strict mode itself demands.

    Servers resolve references from the root, also beside an `$id`.
    """
    if type(schema) is list:
        return [as_standard(item, target) for item in schema]
    if type(schema) is not dict:
        return schema
    out: Schema = {}
    for key, value in schema.items():
        if key in {"properties", "$defs"}:
            out[key] = {name: as_standard(node, target) for name, node in value.items()}
        elif key == "type" and target == "gemini-openapi":
            out[key] = value.lower()
        elif key != "$id" and not (key == "required" and target == "openai-strict"):
            out[key] = value if key in {"enum", "required"} else as_standard(value, target)
    if target in STRICT and "properties" in out:
        out.pop("additionalProperties")
    return {"anyOf": [out, {"type": "null"}]} if out.pop("nullable", False) else out


def check(schema: Schema, values: list[Any], target: str, fitted: Fitted) -> int:
    """Hold the law for some values. Return how many of them the schema accepts."""
    try:
        original = jsonschema_rs.Draft202012Validator(schema)
    except jsonschema_rs.ValidationError:  # a reference that points nowhere
        return 0
    standard = jsonschema_rs.Draft202012Validator(as_standard(fitted.schema, target))
    accepted = [value for value in values if original.is_valid(value)]
    if not any("narrowed" in note.detail for note in fitted.notes):
        for value in accepted:
            assert standard.is_valid(value), (target, json.dumps(schema), json.dumps(fitted.schema), value)
    return len(accepted)


@given(_PARAMETERS, st.data())
def test_what_was_allowed_is_allowed_or_said_to_be_narrowed(schema: Schema, data: st.DataObject) -> None:
    values = [data.draw(_values(schema)) for _ in range(3)]
    for target in TARGETS:
        fitted = attempt(schema, target)
        if fitted is not None:
            check(schema, values, target, fitted)


def test_the_public_suite_is_never_narrowed_in_silence(suites: Path, tally: Counter[str]) -> None:
    checked = 0
    for _, schema, values in cases(suites):
        for target in TARGETS:
            fitted = attempt(schema, target)
            if fitted is not None:
                checked += check(schema, values, target, fitted)
    assert checked > 2000
    tally["values of the public suite that a fitted schema still accepts, or says that it does not"] += checked


PATTERNS = {"type": "object", "patternProperties": {"^v": {}}}


@pytest.mark.parametrize("target", [target for target in TARGETS if target not in STRICT])
@pytest.mark.parametrize("extra", [False, {"type": "integer"}, {"not": {}}])
def test_an_object_with_patterns_is_not_closed_where_there_are_none(target: str, extra: Any) -> None:
    for schema in (around({**PATTERNS, "additionalProperties": extra}), {**PATTERNS, "additionalProperties": extra}):
        fitted = fit(schema, target)
        assert "additionalProperties" not in json.dumps(fitted.schema).split('"description"')[0]
        assert check(schema, [{"p": {"v1": "x"}}, {"v1": "x"}], target, fitted) == 1
    required = fit(around({**PATTERNS, "additionalProperties": False, "required": ["v1"]}), target)
    assert check(around({**PATTERNS, "required": ["v1"]}), [{"p": {"v1": "x"}}], target, required) == 1


@pytest.mark.parametrize("target", STRICT)
def test_strict_mode_says_that_it_closes_an_object_with_patterns(target: str) -> None:
    for more in ({}, {"properties": {"a": STRING}}, {"additionalProperties": False}):
        details = [note.detail for note in fit(around({**PATTERNS, **more}), target).notes]
        assert "narrowed: closed, only listed properties are accepted" in details


@pytest.mark.parametrize("target", TARGETS)
def test_only_the_innermost_rule_for_unevaluated_properties_applies(target: str) -> None:
    schema = {"type": "object", "unevaluatedProperties": STRING, "oneOf": [{"unevaluatedProperties": INTEGER}]}
    assert check(schema, [{"a": 1}, {"a": "x"}], target, fit(schema, target)) == 1


def test_a_tuple_that_is_open_is_a_list_of_anything() -> None:
    pair = {"type": "array", "prefixItems": [STRING, INTEGER]}
    assert "items" not in fit(around(pair), "ollama").schema["properties"]["p"]
    either = {"anyOf": [STRING, INTEGER]}
    for closed in ({"maxItems": 2}, {"items": False}):
        fitted = fit(around({**pair, **closed}), "ollama")
        assert fitted.schema["properties"]["p"]["items"] == either
        assert check(around({**pair, **closed}), [{"p": ["x", 1]}, {"p": ["x"]}], "ollama", fitted) == 2
    third = fit(around({**pair, "items": {"type": "boolean"}}), "ollama")
    assert third.schema["properties"]["p"]["items"] == {"anyOf": [STRING, INTEGER, {"type": "boolean"}]}
    for target in ("openai-strict", "anthropic-strict", "gemini-openapi"):
        assert any("narrowed" in note.detail for note in fit(around(pair), target).notes)
