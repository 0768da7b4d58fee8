"""What each target makes of each keyword of a subschema."""

import copy
import json
from typing import Any

import pytest

from tests.schemas import ANY, INTEGER, NULL, STRICT, STRING, Schema, all_of, of_p, upper, words
from toolwire.schema import TARGETS

DESCRIBED = "described"
# A type, a keyword, and what becomes of it in the order of TARGETS: None stays, "=" is described.
KEYWORDS: list[tuple[str, Any, tuple[Any, Any, Any, Any, Any]]] = [
    ("string", "minLength: 1", ("=", "=", "=", None, "=")),
    ("string", "maxLength: 9", ("=", "=", "=", None, "=")),
    ("string", 'pattern: "^a"', (None, "=", "=", None, "=")),
    ("string", r'pattern: "^\\(?=a"', (None, "=", "=", None, "=")),
    ("string", 'pattern: "^(?!a)b"', ("=", "=", "=", None, "=")),
    ("string", r'pattern: "\\\\(?<=a)b"', ("=", "=", "=", None, "=")),
    ("string", 'format: "date"', (None, None, None, None, "=")),
    ("string", 'format: "uri"', ("=", None, None, None, "=")),
    ("string", 'format: "path"', ("=", "=", None, None, "=")),
    ("string", 'contentEncoding: "base64"', ("=", "=", "=", "=", "=")),
    ("string", 'default: "a"', ("=", "=", "=", None, "=")),
    ("string", 'examples: ["a", "b"]', ("=", "=", "=", "=", "=")),
    ("string", 'example: "a"', ("=", "=", "=", None, "=")),
    ("integer", "minimum: 1", (None, "=", None, None, "=")),
    ("integer", "maximum: 1", (None, "=", None, None, "=")),
    ("number", "exclusiveMinimum: 1", (None, "=", "=", "=", "=")),
    ("number", "exclusiveMaximum: 1.5", (None, "=", "=", "=", "=")),
    ("integer", "multipleOf: 5", (None, "=", "=", "=", "=")),
    ("integer", 'not: {"const": 3}', ("=", "=", "=", "=", "=")),
]
ARRAY_KEYWORDS: list[tuple[str, Any, tuple[Any, Any, Any, Any, Any]]] = [
    ("array", "minItems: 1", (None, None, None, None, "=")),
    ("array", "minItems: 2", (None, "=", None, None, "=")),
    ("array", "maxItems: 2", (None, "=", None, None, "=")),
    ("array", "uniqueItems: true", ("=", "=", "=", "=", "=")),
    ("array", 'contains: {"const": "a"}', ("=", "=", "=", "=", "=")),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("kind", "text", "outcomes"), KEYWORDS + ARRAY_KEYWORDS)
def test_a_constraint_stays_or_is_described(kind: str, text: str, outcomes: tuple[Any, ...], target: str) -> None:
    keyword, _, value = text.partition(": ")
    base = {"type": kind, **({"items": STRING} if kind == "array" else {})}
    outcome = outcomes[TARGETS.index(target)]
    expected = {**base, keyword: json.loads(value)} if outcome is None else words(text, **base)
    if target == "gemini-openapi":
        expected = upper(expected)
    notes = [] if outcome is None else [(keyword, DESCRIBED)]
    assert of_p(target, {**base, keyword: json.loads(value)}) == (expected, notes)
    assert of_p(target, {**base, keyword: json.loads(value)}, additionalProperties=False) == (expected, notes)


ROWS: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "a bound that excludes an integer",
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
        {
            "openai-strict": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
            "anthropic-strict": words("exclusiveMaximum: 10, exclusiveMinimum: 0", type="integer"),
            "gemini": {"type": "integer", "minimum": 1, "maximum": 9},
            "gemini-openapi": {"type": "INTEGER", "minimum": 1, "maximum": 9},
            "ollama": words("exclusiveMaximum: 10, exclusiveMinimum: 0", type="integer"),
        },
    ),
    (
        "a bound of draft 4 that excludes",
        {"type": "number", "minimum": 1, "exclusiveMinimum": True},
        {"openai-strict": {"type": "number", "exclusiveMinimum": 1}},
    ),
    (
        "one literal of several",
        {"type": "string", "const": "a", "enum": ["a", "b"]},
        {"openai-strict": {"type": "string", "const": "a"}, "ollama": {"type": "string", "enum": ["a"]}},
    ),
    (
        "several, after what the author says",
        {"type": "string", "minLength": 1, "description": "A word.", "maxLength": 3, "default": "ab"},
        {
            **all_of(
                ("openai-strict", "anthropic-strict", "gemini", "ollama"),
                {"type": "string", "description": 'A word. (default: "ab", maxLength: 3, minLength: 1)'},
            ),
            "gemini-openapi": {
                "type": "STRING",
                "minLength": 1,
                "description": "A word.",
                "maxLength": 3,
                "default": "ab",
            },
        },
    ),
    (
        "a list of types",
        {"type": ["string", "null"], "maxLength": 3, "description": "d"},
        {
            "openai-strict": {"type": ["string", "null"], "description": "d (maxLength: 3)"},
            "anthropic-strict": {"anyOf": [words("maxLength: 3", type="string"), NULL], "description": "d"},
            "gemini": {"anyOf": [words("maxLength: 3", type="string"), NULL], "description": "d"},
            "gemini-openapi": {"type": "STRING", "maxLength": 3, "description": "d", "nullable": True},
            "ollama": {"type": ["string", "null"], "description": "d (maxLength: 3)"},
        },
    ),
    (
        "three types, with literals of each",
        {"type": ["string", "integer", "null"], "enum": ["a", 1, None]},
        {
            "openai-strict": {"type": ["string", "integer", "null"], "enum": ["a", 1, None]},
            "anthropic-strict": {"anyOf": [{**STRING, "enum": ["a"]}, {**INTEGER, "enum": [1]}, NULL]},
            "gemini": {"anyOf": [{**STRING, "enum": ["a"]}, {**INTEGER, "enum": [1]}, NULL]},
            "gemini-openapi": {
                "anyOf": [{"type": "STRING", "enum": ["a"]}, {"type": "INTEGER", "enum": ["1"]}],
                "nullable": True,
            },
            "ollama": {"type": ["string", "integer", "null"], "enum": ["a", 1, None]},
        },
    ),
    (
        "nullable",
        {"type": "string", "nullable": True},
        {
            "openai-strict": {"type": ["string", "null"]},
            "anthropic-strict": {"anyOf": [STRING, NULL]},
            "gemini": {"anyOf": [STRING, NULL]},
            "gemini-openapi": {"type": "STRING", "nullable": True},
            "ollama": {"type": ["string", "null"]},
        },
    ),
    (
        "one alternative beside null",
        {"anyOf": [{**STRING, "description": "d"}, NULL], "title": "T"},
        {
            **all_of(
                ("openai-strict", "anthropic-strict", "gemini"),
                {"anyOf": [{**STRING, "description": "d"}, NULL], "title": "T"},
            ),
            "gemini-openapi": {"type": "STRING", "description": "d", "title": "T", "nullable": True},
            "ollama": {"anyOf": [{**STRING, "description": "d"}, NULL]},
        },
    ),
    (
        "const",
        {"const": "a"},
        {
            "openai-strict": {"type": "string", "const": "a"},
            "anthropic-strict": {"const": "a"},
            "gemini": {"enum": ["a"]},
            "gemini-openapi": {"type": "STRING", "enum": ["a"]},
            "ollama": {"enum": ["a"]},
        },
    ),
    (
        "literals that are no strings",
        {"enum": [1, 2.5, True]},
        {
            "openai-strict": {"type": ["number", "boolean"], "enum": [1, 2.5, True]},
            "anthropic-strict": {"enum": [1, 2.5, True]},
            "gemini": {"enum": [1, 2.5, True]},
            "gemini-openapi": {
                "anyOf": [
                    {"type": "NUMBER", "enum": ["1", "2.5"]},
                    {"type": "BOOLEAN", "enum": ["true"]},
                ]
            },
            "ollama": {"enum": [1, 2.5, True]},
        },
    ),
    (
        "alternatives of which exactly one holds anyway",
        {"oneOf": [STRING, {"type": "array", "items": STRING}]},
        {
            **all_of(TARGETS, {"anyOf": [STRING, {"type": "array", "items": STRING}]}),
            "gemini-openapi": upper({"anyOf": [STRING, {"type": "array", "items": STRING}]}),
        },
    ),
    (
        "alternatives of which both may hold",
        {"oneOf": [INTEGER, {"type": "number"}]},
        {
            **all_of(
                TARGETS,
                words('oneOf: "exactly one of the alternatives"', anyOf=[INTEGER, {"type": "number"}]),
            ),
            "gemini-openapi": words(
                'oneOf: "exactly one of the alternatives"', anyOf=upper([INTEGER, {"type": "number"}])
            ),
        },
    ),
    (
        "a constraint beside alternatives",
        {"type": "string", "anyOf": [{"format": "date"}, {"format": "time"}]},
        {
            **all_of(STRICT, {"anyOf": [{**STRING, "format": "date"}, {**STRING, "format": "time"}]}),
            "gemini": {"type": "string", "anyOf": [{"format": "date"}, {"format": "time"}]},
            "gemini-openapi": {"anyOf": [{"type": "STRING", "format": "date"}, {"type": "STRING", "format": "time"}]},
            "ollama": {
                "type": "string",
                "anyOf": [words('format: "date"'), words('format: "time"')],
            },
        },
    ),
    (
        "what holds at once and can be one",
        {"allOf": [{"type": "integer", "minimum": 1}, {"type": "number", "minimum": 3, "maximum": 9}]},
        {
            "openai-strict": {"type": "integer", "minimum": 3, "maximum": 9},
            "anthropic-strict": words("maximum: 9, minimum: 3", type="integer"),
            "gemini": {"type": "integer", "minimum": 3, "maximum": 9},
            "gemini-openapi": {"type": "INTEGER", "minimum": 3, "maximum": 9},
            "ollama": words("maximum: 9, minimum: 3", type="integer"),
        },
    ),
    (
        "what holds at once and cannot be one",
        {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}]},
        {
            "openai-strict": words('allOf: [{"pattern": "b$"}]', type="string", pattern="^a"),
            "gemini-openapi": words('allOf: [{"pattern": "b$"}]', type="STRING", pattern="^a"),
            **all_of(
                ("anthropic-strict", "gemini", "ollama"),
                words('allOf: [{"pattern": "b$"}], pattern: "^a"', type="string"),
            ),
        },
    ),
    (
        "a tuple",
        {"type": "array", "prefixItems": [STRING, INTEGER], "items": False},
        {
            "openai-strict": words(
                'prefixItems: [{"type": "string"}, {"type": "integer"}]',
                type="array",
                maxItems=2,
                items={"anyOf": [STRING, INTEGER]},
            ),
            "anthropic-strict": words(
                'maxItems: 2, prefixItems: [{"type": "string"}, {"type": "integer"}]',
                type="array",
                items={"anyOf": [STRING, INTEGER]},
            ),
            "gemini": {"type": "array", "prefixItems": [STRING, INTEGER], "maxItems": 2},
            "gemini-openapi": words(
                'prefixItems: [{"type": "string"}, {"type": "integer"}]',
                type="ARRAY",
                maxItems=2,
                items={"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
            ),
            "ollama": words(
                'maxItems: 2, prefixItems: [{"type": "string"}, {"type": "integer"}]',
                type="array",
                items={"anyOf": [STRING, INTEGER]},
            ),
        },
    ),
    (
        "an array of anything",
        {"type": "array"},
        {
            "openai-strict": {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}},
            "anthropic-strict": {"type": "array", "items": {"anyOf": [*ANY, NULL]}},
            "gemini": {"type": "array"},
            "gemini-openapi": {"type": "ARRAY", "items": {"anyOf": upper(ANY), "nullable": True}},
            "ollama": {"type": "array"},
        },
    ),
    (
        "no type but its keywords",
        {"properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
        {
            **all_of(
                STRICT,
                {
                    "type": "object",
                    "properties": {"a": STRING},
                    "required": ["a"],
                    "additionalProperties": False,
                },
            ),
            "gemini": {"properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
            "gemini-openapi": {
                "type": "OBJECT",
                "properties": {"a": {"type": "STRING"}},
                "required": ["a"],
            },
            "ollama": {"properties": {"a": STRING}, "required": ["a"]},
        },
    ),
    (
        "old drafts and other spellings",
        {"type": "ARRAY", "items": [{"type": 1}, {"type": "Integer"}], "additionalItems": False},
        {
            "gemini": {"type": "array", "prefixItems": [STRING, INTEGER], "maxItems": 2},
            "ollama": words(
                'maxItems: 2, prefixItems: [{"type": 1}, {"type": "Integer"}]',
                type="array",
                items={"anyOf": [STRING, INTEGER]},
            ),
        },
    ),
]


@pytest.mark.parametrize(
    ("schema", "target", "expected"),
    [
        pytest.param(schema, target, expected, id=f"{name}-{target}")
        for name, schema, table in ROWS
        for target, expected in table.items()
    ],
)
def test_a_subschema_in_the_words_of_a_target(schema: Any, target: str, expected: Schema) -> None:
    given = copy.deepcopy(schema)
    assert of_p(target, schema)[0] == expected
    assert of_p(target, schema, additionalProperties=False)[0] == expected
    assert schema == given
