"""The laws of fitting: over generated schemas, a public suite and recorded tools."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import found
from tests.schemas import (
    JUNK,
    PARAMETERS,
    STANDARD_PARAMETERS,
    STRICT,
    SUBSCHEMAS,
    Schema,
    around,
    closed,
    instance_of,
)
from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema import TARGETS, Fitted, fit, fitting, prune_nulls
from toolwire.schema.conformance import fit_quickly
from toolwire.schema.targets import BY_NAME

ANY_TARGET = st.sampled_from(TARGETS)
DEFINED: Schema = {"$defs": {"A": closed({"n": {"type": "integer"}})}}
ANNOTATIONS = {"default", "examples", "example"}


def attempt(schema: Any, target: str) -> Fitted | None:
    """Fit a schema, or nothing where that is refused by one of the two documented errors."""
    try:
        return fit(schema, target)
    except (InvalidSchema, SchemaRecursive):
        return None


def subschemas(schema: Schema, *, root: bool = True) -> Iterator[tuple[Schema, bool]]:
    """Walk a fitted schema; the second value tells the root from the rest."""
    yield schema, root
    for keyword in ("properties", "$defs"):
        for below in schema.get(keyword, {}).values():
            yield from subschemas(below, root=False)
    for keyword in ("anyOf", "prefixItems"):
        for below in schema.get(keyword, ()):
            yield from subschemas(below, root=False)
    for keyword in ("items", "additionalProperties"):
        if isinstance(below := schema.get(keyword), dict):
            yield from subschemas(below, root=False)


def check_vocabulary(schema: Schema, target: str) -> None:
    """Hold what a target insists on: its keywords, and strictness."""
    rules = BY_NAME[target]
    for node, root in subschemas(schema):
        assert node.keys() <= (rules.root_keywords if root else rules.keywords), node
        if target in STRICT and (node.get("type") == "object" or "properties" in node):
            assert node["additionalProperties"] is False, node
        if target == "openai-strict" and "properties" in node:
            assert sorted(node["required"]) == sorted(node["properties"]), node
        if rules.typed:
            assert node.keys() & {"type", "anyOf", "$ref", "enum", "const"}, node
        if rules.pure_unions and "anyOf" in node:
            assert node.keys() <= {
                "anyOf",
                "description",
                "title",
                "default",
                "example",
                "nullable",
                "$defs",
            }, node


@given(PARAMETERS | JUNK, ANY_TARGET)
def test_any_schema_is_answered_the_same_way_twice_and_left_alone(schema: Schema, target: str) -> None:
    before = json.dumps(schema)
    fitted = attempt(schema, target)
    assert json.dumps(schema) == before
    again = attempt(copy.deepcopy(schema), target)
    assert (fitted is None) == (again is None)
    if fitted is not None and again is not None:
        assert json.dumps(fitted.schema) == json.dumps(again.schema)
        assert fitted.notes == again.notes
        check_vocabulary(fitted.schema, target)


@given(PARAMETERS, ANY_TARGET)
def test_a_fitted_schema_fits(schema: Schema, target: str) -> None:
    fitted = attempt(schema, target)
    if fitted is not None:
        assert fit(fitted.schema, target) == Fitted(fitted.schema)


def fit_the_long_way(schema: Schema, target: str) -> Fitted:
    """Fit without looking first whether anything has to change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "fit_quickly", lambda *_: None)
        return fit(schema, target)


def outcome(fitting_way: Callable[[Schema, str], Fitted], schema: Schema, target: str) -> Any:
    """What comes of a fit, in one way or the other: a schema and notes, or an error and its words."""
    try:
        return fitting_way(schema, target)
    except (InvalidSchema, SchemaRecursive) as problem:
        return type(problem), str(problem)


def check_both_ways(schema: Schema, target: str) -> None:
    """Hold that the quick yes changes no result: of a schema, and of what it was fitted to."""
    quick = outcome(fit, schema, target)
    assert outcome(fit_the_long_way, schema, target) == quick
    if isinstance(quick, Fitted):
        assert outcome(fit_the_long_way, quick.schema, target) == fit(quick.schema, target) == Fitted(quick.schema)


@given(PARAMETERS | STANDARD_PARAMETERS | JUNK, ANY_TARGET)
def test_the_quick_yes_changes_no_result(schema: Schema, target: str) -> None:
    check_both_ways(schema, target)


@pytest.mark.slow
def test_the_quick_yes_changes_no_result_of_the_public_suite(suites: Path) -> None:
    quick = 0
    for _, schema, _ in cases(suites):
        for target in TARGETS:
            check_both_ways(schema, target)
            fitted = attempt(schema, target)
            quick += fitted is not None and fit_quickly(fitted.schema, BY_NAME[target]) is not None
    assert quick > 200


@given(PARAMETERS, ANY_TARGET.filter(lambda target: target != "gemini-openapi"))
def test_what_conforms_is_not_changed_by_the_long_way_either(schema: Schema, target: str) -> None:
    fitted = attempt(schema, target)
    if fitted is not None and fit_quickly(fitted.schema, BY_NAME[target]) == Fitted(fitted.schema):
        long_way = fit_the_long_way(fitted.schema, target)
        assert long_way == Fitted(fitted.schema)
        assert long_way.schema is fitted.schema


@given(SUBSCHEMAS, ANY_TARGET)
def test_a_yes_is_never_wrong(schema: Any, target: str) -> None:
    parameters = closed({"p": schema, "q": {"anyOf": [schema, {"type": "integer"}]}})
    quick = fit_quickly(parameters, BY_NAME[target])
    if quick is not None:
        assert fit_the_long_way(parameters, target) == quick


@pytest.mark.parametrize("target", TARGETS)
def test_a_schema_that_needs_no_change_is_the_same_object(target: str) -> None:
    schema = closed({"a": {"type": "string", "description": "d"}, "b": {"type": "array", "items": {"type": "integer"}}})
    fitted = fit(schema, target)
    assert fit(fitted.schema, target).schema is fitted.schema
    if target in {*STRICT, "gemini"}:
        assert fitted.schema is schema


@pytest.mark.parametrize("target", ["openai-strict", "anthropic-strict", "gemini"])
def test_references_that_may_stay_change_nothing(target: str) -> None:
    schema = {**closed({"a": {"$ref": "#/$defs/A"}}), **DEFINED}
    assert fit(schema, target).schema is schema


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_touched_is_shared(target: str) -> None:
    same = {"type": "string", "enum": ["a", "b"], "description": "d"}
    schema = {
        "type": "object",
        "properties": {"a": same, "b": {"type": "string", "contentEncoding": "base64"}},
        "required": ["a"],
    }
    fitted = fit(schema, target).schema["properties"]["a"]
    assert fitted["enum"] is same["enum"]
    assert (fitted is same) == (target != "gemini-openapi")


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[Schema, Schema, list[Any]] | None:
    """Draw a schema, its strict form where nothing had to be put into words, and values of that form."""
    schema = draw(STANDARD_PARAMETERS)
    fitted = attempt(schema, draw(st.sampled_from(STRICT)))
    if fitted is None or constraints_described(fitted):
        return None
    return schema, fitted.schema, [instance_of(draw, fitted.schema, fitted.schema) for _ in range(3)]


def constraints_described(fitted: Fitted) -> bool:
    return any(note.action == "described" and note.keyword not in ANNOTATIONS for note in fitted.notes)


@given(exchanges())
def test_what_a_strict_schema_accepts_the_original_accepts(
    exchange: tuple[Schema, Schema, list[Any]] | None,
) -> None:
    if exchange is None:
        return
    schema, strict, values = exchange
    original, fitted = (jsonschema_rs.Draft202012Validator(each) for each in (schema, strict))
    for value in values:
        if fitted.is_valid(value):
            assert original.is_valid(prune_nulls(value, schema)), (schema, strict, value)


def test_a_schema_that_is_too_wide_is_found_out() -> None:
    """Control: the law above can fail."""
    schema = closed({"a": {"type": "string"}, "b": {"type": "integer"}}, ["a"])
    strict = fit(schema, "openai-strict").schema
    value = {"a": "x", "b": None}
    assert jsonschema_rs.is_valid(strict, value)
    assert not jsonschema_rs.is_valid(schema, value)
    assert jsonschema_rs.is_valid(schema, prune_nulls(value, schema))


def cases(folder: Path) -> Iterator[tuple[str, Schema, list[Any]]]:
    """Read the groups of the public suite: a name, the schema as tool parameters, values as arguments."""
    for path in sorted((folder / "json-schema-2020-12" / "tests" / "draft2020-12").rglob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            values = [{"p": test["data"]} for test in group["tests"]]
            yield (
                f"{path.stem}: {group['description']}",
                around(group["schema"], additionalProperties=False),
                values,
            )


def test_the_public_suite_is_answered_and_never_widened(suites: Path) -> None:
    checked = 0
    for name, schema, values in cases(suites):
        for target in TARGETS:
            fitted = attempt(schema, target)
            if fitted is None:
                continue
            check_vocabulary(fitted.schema, target)
            assert fit(fitted.schema, target).schema == fitted.schema, name
            if target in STRICT and not constraints_described(fitted):
                original, strict = (jsonschema_rs.Draft202012Validator(each) for each in (schema, fitted.schema))
                for value in filter(strict.is_valid, values):
                    assert original.is_valid(prune_nulls(value, schema)), (name, target, value)
                    checked += 1
    assert checked > 500


def declared(value: Any) -> Iterator[Schema]:
    """Find the schemas of the tools that a recorded request declares."""
    if isinstance(value, list):
        for item in value:
            yield from declared(item)
    elif isinstance(value, dict):
        if isinstance(value.get("name"), str):
            for key in (
                "parameters",
                "input_schema",
                "parametersJsonSchema",
                "parameters_json_schema",
                "inputSchema",
            ):
                schema = value.get(key)
                if isinstance(schema, dict):
                    yield schema.get("json", schema) if key == "inputSchema" else schema
        for item in value.values():
            yield from declared(item)


@pytest.mark.corpus
def test_recorded_tools_fit_every_target() -> None:
    schemas = {}
    for path in sorted(found("TOOLWIRE_CORPUS", "corpus").glob("*/*.json")):
        request = json.loads(path.read_text("utf-8")).get("request")
        for schema in declared(request.get("tools") if isinstance(request, dict) else None):
            schemas[json.dumps(schema)] = schema
    assert len(schemas) > 100
    for schema in schemas.values():
        for target in TARGETS:
            try:
                fitted = fit(schema, target)
            except SchemaRecursive:
                continue
            check_vocabulary(fitted.schema, target)
            assert fit(fitted.schema, target).schema == fitted.schema
            assert fitted.schema["properties"].keys() == schema.get("properties", {}).keys()
