"""The JSON Schema keywords that each target supports, as tables, and the notes about the keywords that it does not.

Rules of this file:
- A keyword that is in no table is an annotation: it has no effect that we know of.
- A limit restricts the value of a supported keyword: the known formats, or a bound of 0 or 1.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

Schema = dict[str, Any]
Action = Literal["dropped", "described", "approximated"]
"""What happened to a keyword that a target does not support."""

TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
SCALARS = ("string", "number", "integer", "boolean", "null")

_NUMBER_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"})
OBJECT_KEYWORDS = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties"}
    | {"maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "propertyOrdering"}
)
KEYWORDS_OF: Mapping[str, frozenset[str]] = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}),
    "number": _NUMBER_KEYWORDS,
    "integer": _NUMBER_KEYWORDS,
    "boolean": frozenset(),
    "null": frozenset(),
    "array": frozenset(
        {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"}
        | {"unevaluatedItems"}
    ),
    "object": OBJECT_KEYWORDS,
}
COMBINERS = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"})
TYPED_KEYWORDS: frozenset[str] = frozenset().union(*KEYWORDS_OF.values())
CONSTRAINTS: frozenset[str] = TYPED_KEYWORDS | COMBINERS | {"type", "enum", "const"}
DESCRIBABLE: frozenset[str] = CONSTRAINTS | {"default", "example", "examples"}
_MODEL_VISIBLE = (DESCRIBABLE | {"description"}) - {"propertyOrdering"}
IDENTIFIERS = frozenset(
    {"$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}
    | {"$defs", "definitions"}
)
_NEUTRAL_VALUES: Mapping[str, Any] = {
    "additionalProperties": True,
    "default": None,
    "minItems": 0,
    "minLength": 0,
    "minProperties": 0,
    "unevaluatedItems": True,
    "unevaluatedProperties": True,
    "uniqueItems": False,
}


def changes_calls(keyword: str, value: Any) -> bool:
    """Return True if a model may make other calls because of `keyword` with this value."""
    return keyword in _MODEL_VISIBLE and not is_droppable(keyword, value)


def is_droppable(keyword: str, value: Any) -> bool:
    """Return True if `keyword` is dropped even where the description could hold it."""
    return (keyword == "additionalProperties" and value is False) or _is_neutral(keyword, value)


class Note(Struct, frozen=True):
    """One change in a fitted schema: the path, the keyword, and what happened to it.

    `dropped`: the keyword is gone. `described`: it moved to the description. `approximated`: a similar constraint
    replaced it. `changes` is True if a model may make other calls because of the change. It is False for a title, an
    unknown keyword, a keyword without effect, and for an additional property that is not forbidden.
    A path is written as in a loss: names joined by dots, indexes in brackets. The path of the root is empty.
    """

    path: str
    keyword: str
    action: Action
    detail: str
    changes: bool = True


class Fitted(Struct, frozen=True):
    """A schema that a target supports, and the changes that were necessary.

    >>> from toolwire.schema import fit
    >>> schema = {"type": "object", "properties": {"word": {"type": "string", "pattern": "^a"}}}
    >>> [(note.path, note.action) for note in fit(schema, "gemini").notes]
    [('properties.word', 'described')]
    """

    schema: Schema
    notes: tuple[Note, ...] = ()


def _is_neutral(keyword: str, value: Any) -> bool:
    """Return True if `keyword` with this value has the same effect as no keyword."""
    if keyword not in _NEUTRAL_VALUES:
        return False
    neutral = _NEUTRAL_VALUES[keyword]
    return type(value) is type(neutral) and bool(value == neutral)


class Target(Struct, frozen=True, kw_only=True):
    """A target of schemas: the keywords that it supports, and its other requirements.

    `typed`: every schema needs a type, every array its items. `typed_literals`: the same beside `enum` and `const`.
    `closed`, `all_required`: the two parts of strict mode. `pure_unions`: no constraint is allowed beside `anyOf`.
    `inlined`: references are not supported. `nullable`: null is written as that keyword.
    `text_literals`: literals must be strings. `listed`: an object at the root must have `properties`, even if empty.
    `cycle_through`: the members through which a reference cycle must pass to be supported.
    """

    name: str
    keywords: frozenset[str]
    root_keywords: frozenset[str]
    spelling: Mapping[str, str]
    spelled: tuple[str, ...]
    scalars: tuple[str, ...]
    type_lists: bool = False
    typed: bool = False
    typed_literals: bool = False
    closed: bool = False
    all_required: bool = False
    pure_unions: bool = False
    inlined: bool = False
    nullable: bool = False
    text_literals: bool = False
    listed: bool = False
    cycle_through: frozenset[str] = frozenset()
    limits: Mapping[str, Callable[[Any], bool]] = {}

    def why_dropped(self, keyword: str, value: Any) -> str:
        """Return the reason why `keyword` appears neither in the fitted schema nor in its description."""
        if _is_neutral(keyword, value):
            return "constrains nothing"
        if keyword == "additionalProperties" and value is False:
            return f"{self.name} cannot forbid extra properties"
        return f"{self.name} does not support this"


def _is_primitive(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _all_primitive(values: Any) -> bool:
    return all(map(_is_primitive, values))


def _has_no_lookaround(pattern: str) -> bool:
    """Return True if `pattern` has no look-around, which OpenAI's servers reject (vercel/ai#21037, 2026-09-17)."""
    return _LOOKAROUND.search(pattern) is None


_LOOKAROUND = re.compile(r"(?<!\\)(?:\\\\)*\(\?<?[=!]")
_LOWER_CASE = {name: name for name in TYPES}
_UPPER_CASE = {name: name.upper() for name in TYPES}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_COMMON = frozenset({"type", "title", "description", "enum", "items", "properties", "required", "anyOf"})
_STRICT = _COMMON | {"const", "format", "minItems", "additionalProperties", "$ref"}
_NUMERIC = _NUMBER_KEYWORDS - {"format"}


def _is_one_of(formats: set[str]) -> Callable[[Any], bool]:
    return lambda value: value in formats


def _target(name: str, keywords: frozenset[str], spelling: Mapping[str, str] = _LOWER_CASE, **rules: Any) -> Target:
    defs = frozenset() if rules.get("inlined") else {"$defs"}
    root = (rules.pop("root", keywords) - {"anyOf", "$ref"}) | defs
    return Target(
        name=name,
        keywords=keywords,
        root_keywords=root,
        spelling=spelling,
        spelled=tuple(spelling.values()),
        scalars=tuple(spelling[json_type] for json_type in SCALARS),
        **rules,
    )


_TABLE = (
    _target(
        "openai-strict",
        _STRICT | {"pattern", "maxItems"} | _NUMERIC,
        type_lists=True,
        typed=True,
        typed_literals=True,
        closed=True,
        all_required=True,
        pure_unions=True,
        cycle_through=frozenset({"property", "optional", "items"}),
        limits={
            "format": _is_one_of(_FORMATS),
            "pattern": _has_no_lookaround,
            "enum": _all_primitive,
            "const": _is_primitive,
        },
    ),
    _target(
        "anthropic-strict",
        _STRICT,
        typed=True,
        closed=True,
        pure_unions=True,
        limits={
            "format": _is_one_of(_FORMATS | {"uri"}),
            "minItems": lambda value: value in (0, 1),
            "enum": _all_primitive,
            "const": _is_primitive,
        },
    ),
    _target(
        "gemini",
        _COMMON
        | {"$id", "$ref", "$anchor", "format", "prefixItems", "minItems", "maxItems", "minimum", "maximum"}
        | {"additionalProperties", "propertyOrdering"},
        cycle_through=frozenset({"optional"}),
    ),
    _target(
        "gemini-openapi",
        _COMMON
        | {"default", "example", "format", "maxItems", "maxLength", "maxProperties", "maximum", "minItems"}
        | {"minLength", "minProperties", "minimum", "nullable", "pattern", "propertyOrdering"},
        _UPPER_CASE,
        typed=True,
        typed_literals=True,
        pure_unions=True,
        inlined=True,
        nullable=True,
        text_literals=True,
        limits={"enum": _all_primitive},
    ),
    _target(
        "ollama",
        _COMMON - {"title"},
        root=frozenset({"type", "items", "required", "properties"}),
        type_lists=True,
        inlined=True,
    ),
)
BY_NAME: Mapping[str, Target] = {target.name: target for target in _TABLE}
TARGETS: tuple[str, ...] = tuple(BY_NAME)
"""The names of the targets that `fit` supports."""

_COMBINED = {"allOf", "anyOf", "oneOf"}
# The keywords that OpenAI and Anthropic accept at the root of parameters without strict mode. Below the root they
# accept all. Sources: langchainjs#9804 (2026-01-14), wake-ai#16 (2026-03-19), errors of api.anthropic.com (2026-11-20).
_ROOTS = (
    _target("openai", CONSTRAINTS - _COMBINED - {"enum", "not"}, listed=True),
    _target("anthropic", CONSTRAINTS - _COMBINED),
)
ROOTS: Mapping[str, Target] = {target.name: target for target in _ROOTS}
