"""Objects, references and roots: what a fitted schema looks like as a whole, and what is noted."""

import copy

import pytest

from tests.schemas import INTEGER, NULL, STRICT, STRING, Schema, around, closed, of_p, upper, words
from toolwire.errors import SchemaRecursive
from toolwire.schema import TARGETS, Action, Fitted, Note, fit


@pytest.mark.parametrize(
    ("target", "schema", "notes"),
    [
        ("openai-strict", {**STRING, "default": None}, [("default", "dropped")]),
        ("openai-strict", {"oneOf": [STRING, INTEGER]}, []),
        ("openai-strict", {"enum": ["a"]}, []),
        ("openai-strict", {}, [("type", "approximated")]),
        ("openai-strict", {"minLength": 2}, [("type", "approximated"), ("minLength", "described")]),
        (
            "anthropic-strict",
            {**STRING, "deprecated": True, "x-order": 1},
            [("deprecated", "dropped"), ("x-order", "dropped")],
        ),
        ("anthropic-strict", {"type": ["string", "null"], "minimum": 3}, [("minimum", "dropped")]),
        ("gemini", {**STRING, "$comment": "c", "$anchor": "a"}, []),
        ("gemini-openapi", {"enum": [1, 2]}, [("enum", "approximated")]),
        (
            "gemini-openapi",
            {"type": "object", "additionalProperties": False},
            [("additionalProperties", "dropped")],
        ),
        (
            "gemini-openapi",
            {"type": "object", "additionalProperties": STRING},
            [("additionalProperties", "described")],
        ),
        ("ollama", {**STRING, "title": "T", "$id": "i"}, [("title", "dropped")]),
        ("ollama", {"type": "array", "items": STRING, "minItems": 0}, [("minItems", "dropped")]),
        ("ollama", {"allOf": [{"title": "A"}, {"title": "B", "type": "string"}]}, [("title", "dropped")] * 2),
    ],
)
def test_what_is_said_otherwise_is_noted(target: str, schema: Schema, notes: list[tuple[str, Action]]) -> None:
    assert of_p(target, schema)[1] == notes


def test_a_note_says_where_and_why() -> None:
    schema = around({"type": "array", "items": {"anyOf": [STRING, {**INTEGER, "default": 3}]}})
    assert fit(schema, "gemini") == Fitted(
        around({"type": "array", "items": {"anyOf": [STRING, words("default: 3", type="integer")]}}),
        (
            Note(
                "properties.p.items.anyOf[1]",
                "default",
                "described",
                "gemini does not support this here; it was moved to the description",
            ),
        ),
    )


@pytest.mark.parametrize("target", TARGETS)
def test_an_unknown_target_is_refused_with_the_known_ones(target: str) -> None:
    with pytest.raises(ValueError, match=target):
        fit({}, "bedrock")


def test_a_strict_schema_of_openai_requires_all_and_allows_null_for_what_was_optional() -> None:
    defs: Schema = {"$defs": {"Other": closed({"n": INTEGER})}}
    schema = {
        "type": "object",
        "properties": {
            "path": STRING,
            "limit": {"type": "integer", "default": 10},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "kind": {"const": "x"},
            "filter": {"type": "object", "properties": {"glob": STRING}},
            "either": {"anyOf": [STRING, INTEGER]},
            "other": {"$ref": "#/$defs/Other"},
            "maybe": {"type": ["string", "null"]},
        },
        "required": ["path"],
        "$defs": {"Other": {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}},
    }
    given = copy.deepcopy(schema)
    assert (
        fit(schema, "openai-strict").schema
        == closed(
            {
                "path": STRING,
                "limit": {"type": ["integer", "null"], "description": "(default: 10)"},
                "mode": {"type": ["string", "null"], "enum": ["a", "b", None]},
                "kind": {"anyOf": [{"type": "string", "const": "x"}, NULL]},
                "filter": {"anyOf": [closed({"glob": {"type": ["string", "null"]}}), NULL]},
                "either": {"anyOf": [STRING, INTEGER, NULL]},
                "other": {"anyOf": [{"$ref": "#/$defs/Other"}, NULL]},
                "maybe": {"type": ["string", "null"]},
            }
        )
        | defs
    )
    assert schema == given


def test_a_strict_schema_of_anthropic_is_closed_and_leaves_optional_what_was() -> None:
    schema = {
        "type": "object",
        "properties": {"a": STRING, "b": {"type": "object", "properties": {"c": INTEGER}, "required": []}},
        "required": ["a"],
    }
    b = closed({"c": INTEGER}, [])
    assert fit(schema, "anthropic-strict") == Fitted(closed({"a": STRING, "b": b}, ["a"]))


@pytest.mark.parametrize("target", STRICT)
@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        (
            {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": True},
            "additionalProperties",
        ),
        (
            {
                "type": "object",
                "properties": {"a": STRING},
                "required": ["a"],
                "additionalProperties": INTEGER,
            },
            "additionalProperties",
        ),
    ],
)
def test_an_open_object_is_closed_and_noted(schema: Schema, keyword: str, target: str) -> None:
    assert of_p(target, schema) == (closed({"a": STRING}), [(keyword, "approximated")])


@pytest.mark.parametrize("target", STRICT)
def test_an_object_of_anything_is_closed_and_noted(target: str) -> None:
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    expected = {**empty, "required": []} if target == "openai-strict" else empty
    assert of_p(target, {"type": "object"}) == (expected, [("properties", "approximated")])


@pytest.mark.parametrize(
    ("target", "schema", "expected"),
    [
        (
            "gemini",
            {"type": "object", "required": ["a"]},
            {"type": "object", "required": ["a"], "properties": {"a": {}}},
        ),
        (
            "gemini",
            {"type": "object", "required": ["a"], "additionalProperties": STRING},
            {
                "type": "object",
                "required": ["a"],
                "additionalProperties": STRING,
                "properties": {"a": STRING},
            },
        ),
        ("anthropic-strict", closed({"a": STRING, "b": False}, ["a"]), closed({"a": STRING}, ["a"])),
        (
            "anthropic-strict",
            {"allOf": [closed({"a": STRING}), {"properties": {"b": INTEGER}}]},
            closed({"a": STRING}),
        ),
        (
            "gemini",
            {
                "allOf": [
                    {"properties": {"a": STRING}, "required": ["a"]},
                    {"properties": {"b": INTEGER}, "required": ["b"]},
                ],
                "type": "object",
            },
            {"type": "object", "properties": {"a": STRING, "b": INTEGER}, "required": ["a", "b"]},
        ),
        (
            "gemini",
            {
                "type": "object",
                "allOf": [{"properties": {"a": STRING}}, {"properties": {"a": {"maxLength": 3}}}],
            },
            {"type": "object", "properties": {"a": words("maxLength: 3", type="string")}},
        ),
        (
            "gemini",
            {"type": "object", "allOf": [{"properties": {"a": STRING}}], "unevaluatedProperties": False},
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        ),
        (
            "gemini",
            {"type": "object", "properties": {"a": STRING}, "unevaluatedProperties": False},
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        ),
        (
            "anthropic-strict",
            {"allOf": [{"properties": {"a": STRING}}, closed({"a": False, "b": STRING}, [])]},
            closed({"b": STRING}, []),
        ),
    ],
)
def test_properties_are_declared_combined_or_left_out(target: str, schema: Schema, expected: Schema) -> None:
    assert of_p(target, schema)[0] == expected


DEFS = {"$defs": {"Color": {"enum": ["red", "blue"], "description": "A colour."}}}


@pytest.mark.parametrize(
    ("schema", "kept", "written_out"),
    [
        ({"$ref": "#/$defs/Color"}, {"$ref": "#/$defs/Color"}, DEFS["$defs"]["Color"]),
        (
            {"$ref": "#/$defs/Color", "description": "Of the car."},
            {"anyOf": [{"$ref": "#/$defs/Color"}], "description": "Of the car."},
            {"enum": ["red", "blue"], "description": "Of the car. A colour."},
        ),
        (
            {"allOf": [{"$ref": "#/$defs/Color"}], "examples": ["red"]},
            words('examples: ["red"]', anyOf=[{"$ref": "#/$defs/Color"}]),
            {"enum": ["red", "blue"], "description": 'A colour. (examples: ["red"])'},
        ),
        (
            {"$ref": "#/$defs/Color", "enum": ["red", "green"]},
            {"enum": ["red"], "description": "A colour."},
            {"enum": ["red"], "description": "A colour."},
        ),
    ],
)
def test_a_reference_is_kept_or_written_out(schema: Schema, kept: Schema, written_out: Schema) -> None:
    parameters = around(schema, **DEFS)
    assert fit(parameters, "gemini").schema == around(kept, **DEFS)
    assert fit(parameters, "ollama").schema == around(written_out)
    assert fit(parameters, "gemini-openapi").schema == upper(around({"type": "string", **written_out}))


@pytest.mark.parametrize(
    ("ref", "more", "kept", "defined"),
    [
        ("#/definitions/N", {"definitions": {"N": INTEGER}}, "#/$defs/N", {"N": INTEGER}),
        (
            "#n",
            {"$defs": {"M": {**INTEGER, "$anchor": "n"}}},
            "#/$defs/n",
            {"M": {**INTEGER, "$anchor": "n"}, "n": {**INTEGER, "$anchor": "n"}},
        ),
        (
            "https://a/b#/$defs/N",
            {"$id": "https://a/b", "$defs": {"N": INTEGER}},
            "#/$defs/N",
            {"N": INTEGER},
        ),
        ("#/$defs/a~1b%25", {"$defs": {"a/b%": INTEGER}}, "#/$defs/a~1b%25", {"a/b%": INTEGER}),
        ("#/properties/q", {}, "#/$defs/q", {"q": INTEGER}),
        (
            "#/definitions/N",
            {"$defs": {"N": STRING}, "definitions": {"N": INTEGER}},
            "#/$defs/N_2",
            {"N": STRING, "N_2": INTEGER},
        ),
    ],
)
def test_every_way_to_name_a_definition_leads_to_defs(ref: str, more: Schema, kept: str, defined: Schema) -> None:
    schema = around({"$ref": ref}, **more)
    schema["properties"]["q"] = INTEGER
    fitted = fit(schema, "gemini").schema
    assert (fitted["properties"]["p"], fitted["$defs"]) == ({"$ref": kept}, defined)
    assert fit(schema, "ollama").schema["properties"]["p"] == INTEGER


TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
NEEDY = {**TREE, "required": ["children"]}
LOOP = {"$ref": "#/$defs/Tree"}


@pytest.mark.parametrize(
    ("tree", "accepting"),
    [(TREE, {"openai-strict", "gemini"}), (NEEDY, {"openai-strict"}), (LOOP, set())],
)
@pytest.mark.parametrize("target", TARGETS)
def test_recursion_is_left_where_it_is_understood(tree: Schema, accepting: set[str], target: str) -> None:
    schema = around({"$ref": "#/$defs/Tree"}, **{"$defs": {"Tree": tree}})
    if target in accepting:
        assert fit(schema, target).schema["properties"]["p"] == {"$ref": "#/$defs/Tree"}
        return
    with pytest.raises(SchemaRecursive, match=r"^[$.\w\[\]]+\.\$ref: \$ref '#/\$defs/Tree' leads back to itself"):
        fit(schema, target)


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "OBJECT", "$schema": "s"}, {"properties": {}}])
@pytest.mark.parametrize("target", TARGETS)
def test_parameters_are_an_object_with_properties(schema: Schema, target: str) -> None:
    fitted = fit(schema, target)
    more: dict[str, Schema] = {
        "openai-strict": {"additionalProperties": False, "required": []},
        "anthropic-strict": {"additionalProperties": False},
    }
    kind = "OBJECT" if target == "gemini-openapi" else "object"
    assert fitted == Fitted({"type": kind, "properties": {}, **more.get(target, {})})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"$ref": "#/$defs/A", "$defs": {"A": around(STRING)}},
            around(STRING, **{"$defs": {"A": around(STRING)}}),
        ),
        ({"allOf": [around(STRING), {"description": "d"}]}, around(STRING, description="d")),
        ({"anyOf": [around(STRING), NULL]}, around(STRING)),
        ({"type": ["object", "null"], "properties": {"p": STRING}, "required": ["p"]}, around(STRING)),
        (
            {
                "oneOf": [
                    closed({"kind": {"const": "a"}, "x": STRING}),
                    closed({"kind": {"const": "b"}, "y": INTEGER}, ["kind"]),
                ]
            },
            closed(
                {"kind": {"anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]}, "x": STRING, "y": INTEGER},
                ["kind"],
                description='(oneOf: [{"required": ["x"], "properties": {"kind": {"const": "a"}}},'
                ' {"required": [], "properties": {"kind": {"const": "b"}}}])',
            ),
        ),
    ],
)
def test_a_root_becomes_one_object(schema: Schema, expected: Schema) -> None:
    assert fit(schema, "gemini").schema == expected
