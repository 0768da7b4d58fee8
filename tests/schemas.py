"""Schemas for tests: short ways to write them, strategies that generate them, values that fit them."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from toolwire.schema import Action, fit

Schema = dict[str, Any]

STRICT = ("openai-strict", "anthropic-strict")
NULL = {"type": "null"}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
ANY = [STRING, {"type": "number"}, {"type": "boolean"}]


def around(schema: Any, **more: Any) -> Schema:
    """Make tool parameters with one required property, `p`."""
    return {"type": "object", "properties": {"p": schema}, "required": ["p"], **more}


def closed(properties: Schema, required: list[str] | None = None, **more: Any) -> Schema:
    """Make a closed object; all its properties are required where nothing else is said."""
    names = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        **more,
        "additionalProperties": False,
    }


def of_p(target: str, schema: Any, **more: Any) -> tuple[Any, list[tuple[str, Action]]]:
    """Fit a property; give what became of it, and the notes at and below it as keyword and action."""
    fitted = fit(around(schema, **more), target)
    notes = [(note.keyword, note.action) for note in fitted.notes if note.path.startswith("properties.p")]
    return fitted.schema["properties"]["p"], notes


def words(text: str, **rest: Any) -> Schema:
    """Make a schema that says something in its description."""
    return {**rest, "description": f"({text})"}


def upper(schema: Any) -> Any:
    """Write a schema's types as OpenAPI's enum does."""
    if isinstance(schema, list):
        return [upper(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: value.upper() if key == "type" else upper(value) for key, value in schema.items()}


def all_of(targets: Iterable[str], expected: Any) -> dict[str, Any]:
    """Expect the same of several targets."""
    return {target: expected for target in targets}  # noqa: C420 - the value is only read


NAMES = st.sampled_from(["a", "b", "c"])
LITERALS = st.sampled_from([None, True, 1, 2, "x", "yy", 1.5])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 5) | st.text(max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=6,
)
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/definitions/a", "#anchor", "#/x"])
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
TYPE_LISTS = st.sampled_from([["string", "null"], ["object", "null"], ["integer", "string"]])
"""Keywords that mean the same to every validator of the draft, with their values."""


def _some_of(keywords: dict[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[Schema]:
    names = st.lists(st.sampled_from(sorted(keywords)), max_size=most, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen}))


def _standard(below: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {
        "type": TYPES | st.just("object") | TYPE_LISTS,
        "properties": st.dictionaries(NAMES, below, min_size=1, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "items": below,
        "anyOf": st.lists(below, min_size=1, max_size=3),
        "oneOf": st.lists(below, min_size=1, max_size=2),
        "allOf": st.lists(below, min_size=1, max_size=2),
        "enum": st.lists(LITERALS, min_size=1, max_size=3, unique_by=repr),
        "const": LITERALS,
        "minimum": st.integers(0, 3),
        "maxItems": st.integers(0, 2),
        "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b"]),
        "additionalProperties": below | st.booleans(),
        "description": st.just("d"),
        "unevaluatedProperties": st.just(False),
    }


def _everything(below: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """Also what other drafts, OpenAPI and protobuf write, and what no draft knows."""
    return {
        **_standard(below),
        "type": TYPES | TYPE_LISTS | st.sampled_from(["OBJECT", 6]),
        "required": st.lists(NAMES, max_size=3),
        "items": below | st.lists(below, max_size=2),
        "prefixItems": st.lists(below, min_size=1, max_size=2),
        "allOf": st.lists(below, max_size=3),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "$ref": REFERENCES,
        **dict.fromkeys(("$defs", "definitions"), st.dictionaries(NAMES, below, max_size=2)),
        **dict.fromkeys(("not", "if", "then", "contains", "additionalItems", "unevaluatedProperties"), below),
        **dict.fromkeys(("minLength", "minItems", "maxLength"), st.integers(0, 3)),
        **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), st.integers(-2, 5) | st.booleans()),
        **dict.fromkeys(("uniqueItems", "nullable", "deprecated"), st.booleans()),
        **dict.fromkeys(("default", "x-note"), VALUES),
        "multipleOf": st.integers(1, 3),
        "pattern": st.sampled_from(["^a", "(", "b$"]),
        "format": st.sampled_from(["date", "uri", "path", "int32"]),
        "patternProperties": st.dictionaries(st.just("^a"), below, max_size=1),
        "title": st.text(max_size=4),
        "examples": st.lists(VALUES, max_size=2),
        "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
        "$anchor": st.just("anchor"),
        "$dynamicRef": st.just("#anchor"),
        "propertyOrdering": st.just(["a"]),
        **dict.fromkeys(("dependentRequired", "dependencies"), st.just({"a": ["b"]})),
    }


_LEAVES = TYPES.filter(lambda kind: kind not in ("array", "object")).map(lambda kind: {"type": kind})
_REFERRING = st.sampled_from(["#/$defs/a", "#"]).map(lambda ref: {"$ref": ref})

ANY_SCHEMAS = st.recursive(
    st.booleans() | _LEAVES | _REFERRING | st.just({}),
    lambda below: _some_of(_everything(below), 5),
    max_leaves=8,
)
PARAMETERS = _some_of(_everything(ANY_SCHEMAS), 5).map(
    lambda schema: {**schema, "type": "object", "$defs": {"a": STRING, **schema.get("$defs", {})}}
)
"""Tool parameters, well-formed up to their references."""

SUBSCHEMAS = _some_of(_everything(_LEAVES), 2).flatmap(
    lambda schema: TYPES.map(lambda kind: {"type": kind, "items": STRING, **schema})
)
"""Subschemas of one level with a type, of which some fit a target as they are."""

JUNK = st.dictionaries(st.sampled_from(sorted(_everything(st.none()))), VALUES | ANY_SCHEMAS, max_size=5)
"""JSON objects with the keywords of a schema and any values."""


def _objects(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, below, min_size=1, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.just(False),
        },
    )


def _unions(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries({"anyOf": st.lists(below, min_size=2, max_size=3)})


_STANDARD = st.recursive(
    _LEAVES | _REFERRING | st.sampled_from([{"const": 1}, {"enum": ["x", "yy", None]}, {**STRING, "const": "x"}]),
    lambda below: _objects(below) | _objects(below) | _unions(below) | _some_of(_standard(below), 4),
    max_leaves=10,
)
STANDARD_PARAMETERS = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(NAMES, _STANDARD, min_size=1, max_size=3),
        "$defs": st.fixed_dictionaries({"a": _STANDARD, "b": _STANDARD}),
    },
    optional={
        "required": st.lists(NAMES, max_size=2, unique=True),
        "allOf": st.lists(_STANDARD, min_size=1, max_size=1),
    },
)
"""Tool parameters whose meaning every validator of the draft agrees on."""

_DEEP = 12
_SCALARS: dict[str | None, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["x", "yy", "z"]),
    "integer": st.integers(-1, 5),
    "number": st.sampled_from([1.5, 2]),
    "boolean": st.booleans(),
    "null": st.none(),
    None: st.none(),
}


def instance_of(draw: st.DrawFn, root: Schema, schema: Schema, depth: int = 0) -> Any:
    """Draw a value that a fitted schema is likely to accept."""
    if depth > _DEEP:
        return None
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return instance_of(draw, root, root if name == "#" else root["$defs"][name], depth + 1)
    if "anyOf" in schema:
        return instance_of(draw, root, draw(st.sampled_from(schema["anyOf"])), depth + 1)
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    kind = schema.get("type")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if kind == "array":
        most = min(schema.get("maxItems", 2), 2 if depth < _DEEP // 2 else 0)
        return [instance_of(draw, root, schema["items"], depth + 1) for _ in range(draw(st.integers(0, most)))]
    if kind != "object":
        return draw(_SCALARS[kind])
    required = schema.get("required", ())
    return {
        name: instance_of(draw, root, said, depth + 1)
        for name, said in schema["properties"].items()
        if name in required or draw(st.booleans())
    }
