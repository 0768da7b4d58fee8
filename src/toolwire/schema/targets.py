"""What each target can say in a JSON Schema, as tables, and the form of what is told about the rest.

Rules of this file:
- A keyword that is in no table constrains nothing that we know of: it is an annotation.
- A limit is about the value of a keyword that the target takes otherwise: a known format, a bound of 0 or 1.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

Schema = dict[str, Any]
Action = Literal["dropped", "described", "approximated"]
"""What became of a keyword that a target does not take."""

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
SPOKEN: frozenset[str] = CONSTRAINTS | {"default", "example", "examples"}
_ASKING = (SPOKEN | {"description"}) - {"propertyOrdering"}
IDENTIFIERS = frozenset(
    {"$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}
    | {"$defs", "definitions"}
)
_CONSTRAINS_NOTHING: Mapping[str, Any] = {
    "additionalProperties": True,
    "default": None,
    "minItems": 0,
    "minLength": 0,
    "minProperties": 0,
    "unevaluatedItems": True,
    "unevaluatedProperties": True,
    "uniqueItems": False,
}


def asks_for_calls(keyword: str, value: Any) -> bool:
    """Whether a keyword with this value asks the model for other calls than none would."""
    return keyword in _ASKING and not may_go(keyword, value)


def may_go(keyword: str, value: Any) -> bool:
    """Whether a keyword is dropped even where it could be put into words."""
    return (keyword == "additionalProperties" and value is False) or _constrains_nothing(keyword, value)


class Note(Struct, frozen=True):
    """One change in a fitted schema: its place, its keyword, and what became of it.

    `dropped`: it is gone. `described`: it stands in the description. `approximated`: it is said nearly so.
    `changes` says whether the schema asks for other calls than it did; a title, an unknown keyword and one that
    constrains nothing ask for none, nor does a property too many that is not forbidden.
    A path is written as in a loss: names joined by dots, positions in brackets; the root is the empty path.
    """

    path: str
    keyword: str
    action: Action
    detail: str
    changes: bool = True


class Fitted(Struct, frozen=True):
    """A schema that a target understands, and what was changed in it."""

    schema: Schema
    notes: tuple[Note, ...] = ()


def _constrains_nothing(keyword: str, value: Any) -> bool:
    """Whether a keyword with this value means the same as no keyword at all."""
    if keyword not in _CONSTRAINS_NOTHING:
        return False
    idle = _CONSTRAINS_NOTHING[keyword]
    return type(value) is type(idle) and bool(value == idle)


class Target(Struct, frozen=True, kw_only=True):
    """What one place for a schema understands, and what it insists on.

    `typed`: every schema says its type, every array its items; `typed_literals`: even beside `enum`, `const`.
    `closed`, `all_required`: the two halves of strictness. `pure_unions`: nothing constrains beside `anyOf`.
    `inlined`: no references. `nullable`: null is said by that keyword. `text_literals`: literals are strings.
    `listed`: an object at the root lists its properties, if only none.
    `cycle_through`: where a cycle of references must pass, so that it is understood.
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
        """Say why a keyword is not in the fitted schema, not even in words."""
        if _constrains_nothing(keyword, value):
            return "constrains nothing"
        if keyword == "additionalProperties" and value is False:
            return f"{self.name} cannot forbid extra properties"
        return f"{self.name} has no place for this"


def _is_primitive(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _all_primitive(values: Any) -> bool:
    return all(map(_is_primitive, values))


def _looks_nowhere(pattern: str) -> bool:
    """Whether a pattern has no lookaround, which OpenAI's servers refuse (vercel/ai#21037, 2026-09-17)."""
    return _LOOKAROUND.search(pattern) is None


_LOOKAROUND = re.compile(r"(?<!\\)(?:\\\\)*\(\?<?[=!]")
_LOWER = {name: name for name in TYPES}
_UPPER = {name: name.upper() for name in TYPES}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_COMMON = frozenset({"type", "title", "description", "enum", "items", "properties", "required", "anyOf"})
_STRICT = _COMMON | {"const", "format", "minItems", "additionalProperties", "$ref"}
_NUMERIC = _NUMBER_KEYWORDS - {"format"}


def _known_to(formats: set[str]) -> Callable[[Any], bool]:
    return lambda value: value in formats


def _target(name: str, keywords: frozenset[str], spelling: Mapping[str, str] = _LOWER, **rules: Any) -> Target:
    defs = frozenset() if rules.get("inlined") else {"$defs"}
    root = (rules.pop("root", keywords) - {"anyOf", "$ref"}) | defs
    return Target(
        name=name,
        keywords=keywords,
        root_keywords=root,
        spelling=spelling,
        spelled=tuple(spelling.values()),
        scalars=tuple(spelling[kind] for kind in SCALARS),
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
            "format": _known_to(_FORMATS),
            "pattern": _looks_nowhere,
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
            "format": _known_to(_FORMATS | {"uri"}),
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
        _UPPER,
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
"""The targets that a schema is fitted to."""

_COMBINED = {"allOf", "anyOf", "oneOf"}
# What parameters may say at their root where no model is held to them; below it they may say anything. The words of
# the servers' errors: langchainjs#9804 (2026-01-14), wake-ai#16 (2026-03-19); api.anthropic.com (2026-11-20).
_ROOTS = (
    _target("openai", CONSTRAINTS - _COMBINED - {"enum", "not"}, listed=True),
    _target("anthropic", CONSTRAINTS - _COMBINED),
)
ROOTS: Mapping[str, Target] = {target.name: target for target in _ROOTS}
