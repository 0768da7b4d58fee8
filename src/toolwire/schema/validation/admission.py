"""Which schemas are admitted, found out when a tool is declared; what is wrong with the others, and where.

Rules of this file:
- A schema is of draft 2020-12, or of the draft that its `$schema` names. In one of 2020-12 the spellings of
  OpenAPI and of older drafts (`nullable`, a list as `items`, a null that says nothing) keep their meaning.
- Nothing that looks like a constraint is ignored: a misspelled keyword is refused, and so is one that the
  draft does not know. What resembles no keyword is an annotation, and so is `format`.
- What no value can meet is refused: it is a mistake.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from toolwire.errors import InvalidSchema
from toolwire.schema.document import MAX_NESTING, measure
from toolwire.schema.draft import FORMS, as_list, is_number, present
from toolwire.schema.targets import CONSTRAINTS, TYPES, Schema
from toolwire.schema.validation.growth import cost
from toolwire.schema.validation.patterns import LIGHT, MAX_WEIGHT, weight
from toolwire.schema.validation.places import (
    NAMED,
    NO_BASE,
    ONE,
    REFERENCES,
    SEVERAL,
    Resources,
    Subschema,
    based,
    places,
)
from toolwire.schema.validation.values import Display, flaw_of, weigh

LATEST = "Draft202012Validator"
DRAFTS: Mapping[str, str] = {
    "json-schema.org/draft/2020-12/schema": LATEST,
    "json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
    "json-schema.org/draft-06/schema": "Draft6Validator",
    "json-schema.org/draft-04/schema": "Draft4Validator",
}
_SINCE_2020 = frozenset({"prefixItems", "$dynamicRef"})
_SINCE_2019 = _SINCE_2020 | {
    *("unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas"),
    *("minContains", "maxContains", "$recursiveRef"),
}
_SINCE_7 = _SINCE_2019 | {"if", "then", "else"}
UNKNOWN_TO: Mapping[str, frozenset[str]] = {
    LATEST: frozenset(),
    "Draft201909Validator": _SINCE_2020,
    "Draft7Validator": _SINCE_2019,
    "Draft6Validator": _SINCE_7,
    "Draft4Validator": _SINCE_7 | {"const", "contains", "propertyNames"},
}
REF_STANDS_ALONE = frozenset({"Draft7Validator", "Draft6Validator", "Draft4Validator"})
_ANNOTATIONS = frozenset(
    {"$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}
    | {"$defs", "definitions", "title", "description", "default", "example", "examples", "deprecated"}
    | {"readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "contentSchema", "nullable"}
    | {"propertyOrdering", "discriminator"}
)
_CONSTRAINING = (CONSTRAINTS | {"additionalItems", "dependencies", "$dynamicRef", "$recursiveRef"}) - _ANNOTATIONS
_KNOWN = _CONSTRAINING | _ANNOTATIONS | FORMS.keys()
_OPENLY_SPELLED = {keyword.lower().strip("$"): keyword for keyword in _CONSTRAINING}
_BOUNDS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
)
_ANYTHING = frozenset({"const", "default", "enum", "example", "examples"})
_TYPES = frozenset(TYPES)
_LOOSE = frozenset({"nullable", "dependencies", "$recursiveRef"})
_SHOWN = 80
_NEAR = 0.85
_LONGEST = 40


class Admitted(NamedTuple):
    """A schema to compile: its draft, the work it makes for each value, whether its patterns are heavy."""

    schema: Any
    draft: str
    work: int
    heavy: bool


def admit(schema: Any, *, arguments: bool = True) -> Admitted:
    """Look a schema over; `arguments` says that it describes those of a tool, which are an object."""
    if arguments and type(schema) is not dict:
        raise InvalidSchema(f"the parameters of a tool are a JSON Schema object, not {type(schema).__name__}")
    size = measure(schema)
    if (values := weigh(schema, MAX_NESTING)) < 0:
        spot, flaw = flaw_of(schema, values, Display({}, ()), MAX_NESTING)
        raise InvalidSchema(f"{'' if spot.path else 'the schema '}{flaw}", path=spot.path)
    draft = _draft_of(schema, "") if type(schema) is dict else LATEST
    root = Subschema(schema, base=based(schema, NO_BASE))
    found = list(places(root))
    if draft == LATEST and any(_is_loose(place.node) for place in found):
        root = root._replace(node=respelled(root))
        found = list(places(root))
    if arguments:
        _refuse_other_roots(root.node)
    refers, weights = False, [0]
    for place in found:
        if type(place.node) is dict:
            _look_at(place.node, place.path, draft)
            refers = refers or not place.node.keys().isdisjoint(REFERENCES)
            weights += _weights(place.node, place.path)
        elif type(place.node) is not bool:
            present(place.node, place.path)
    work = cost(root, Resources(root)) if refers else size
    return Admitted(root.node, draft, work + sum(weights), max(weights) > LIGHT)


def _draft_of(schema: Schema, path: str) -> str:
    """Find the draft that a schema is written in."""
    named = schema.get("$schema")
    if named is None:
        return LATEST
    if isinstance(named, str):
        known = DRAFTS.get(named.removesuffix("#").partition("://")[2])
        if known is not None:
            return known
    names = ", ".join(f"https://{name}" for name in DRAFTS)
    raise InvalidSchema(
        f"unknown draft {str(named)[:_SHOWN]!r}; those that are known are {names}", path=_at(path, "$schema")
    )


def _at(path: str, keyword: str) -> str:
    return f"{path}.{keyword}" if path else keyword


def _refuse_other_roots(schema: Schema) -> None:
    """Refuse parameters that no object can meet."""
    if not _may_be_object(schema):
        given = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        raise InvalidSchema(
            f"the parameters of a tool are an object, not {' or '.join(map(str, given))}; make it a property",
            path="type",
        )
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches and not any(map(_may_be_object, branches)):
            raise InvalidSchema("the parameters of a tool are an object; no alternative is one", path=keyword)


def _may_be_object(schema: Any) -> bool:
    if type(schema) is not dict:
        return schema is not False
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _is_loose(node: Any) -> bool:
    """Whether a subschema is spelled as OpenAPI or an older draft spells it."""
    if type(node) is not dict:
        return False
    if not node.keys().isdisjoint(_LOOSE):
        return True
    kinds = node.get("type", "object")
    if not all(isinstance(kind, str) and kind in _TYPES for kind in as_list(kinds)):
        return True
    tuple_ = type(node.get("items")) is list or node.get("allOf") == []
    exclusive = type(node.get("exclusiveMinimum")) is bool or type(node.get("exclusiveMaximum")) is bool
    return tuple_ or exclusive or None in [node[key] for key in node.keys() - _ANYTHING]


def respelled(place: Subschema) -> Any:
    """Write a schema in the words of draft 2020-12, wherever it is spelled otherwise."""
    node = present(place.node, place.path) if _is_loose(place.node) else place.node
    if type(node) is not dict:
        return node
    return {key: _respelled_below(place, key, value) for key, value in node.items()}


def _respelled_below(place: Subschema, keyword: str, value: Any) -> Any:
    if keyword in NAMED and type(value) is dict:
        return {
            name: node if type(node) is list else respelled(place.below(keyword, name, node))
            for name, node in value.items()
        }
    if keyword in SEVERAL and type(value) is list:
        return [respelled(place.below(keyword, index, node)) for index, node in enumerate(value)]
    if keyword in ONE and type(value) is dict:
        return respelled(place.below(keyword, None, value))
    return value


def _look_at(node: Schema, path: str, draft: str) -> None:
    """Refuse one subschema that is ill-formed, misspelled or cannot be met."""
    present(node, path)
    for keyword in node.keys() - _KNOWN:
        if meant := _resembled(keyword):
            raise InvalidSchema(
                f"{keyword!r} is no keyword and would be ignored; did you mean {meant!r}?",
                path=_at(path, keyword),
            )
    if path and "$schema" in node:
        _draft_of(node, path)
    if unknown := sorted(node.keys() & UNKNOWN_TO[draft]):
        raise InvalidSchema(
            f"the draft that $schema names does not know {unknown[0]!r} and would ignore it; "
            "leave $schema out, or name draft 2020-12",
            path=_at(path, unknown[0]),
        )
    for low, high in _BOUNDS:
        if low in node and high in node and node[low] > node[high]:
            raise InvalidSchema(f"{low} {node[low]} is above {high} {node[high]}", path=_at(path, low))
    if "exclusiveMinimum" in node or "exclusiveMaximum" in node:
        _refuse_empty_range(node, path)


def _refuse_empty_range(node: Schema, path: str) -> None:
    for low, high in (
        ("exclusiveMinimum", "maximum"),
        ("minimum", "exclusiveMaximum"),
        ("exclusiveMinimum", "exclusiveMaximum"),
    ):
        if is_number(node.get(low)) and is_number(node.get(high)) and node[low] >= node[high]:
            raise InvalidSchema(f"{low} {node[low]} leaves nothing below {high} {node[high]}", path=_at(path, low))


@lru_cache(maxsize=4096)
def _resembled(keyword: str) -> str:
    """Find the keyword that a word was probably meant for; none for an annotation."""
    if keyword.startswith(("x-", "X-")) or len(keyword) > _LONGEST:
        return ""
    plain = keyword.replace("_", "").replace("-", "").lower().strip("$")
    if plain in _OPENLY_SPELLED:
        return _OPENLY_SPELLED[plain]
    return next(iter(get_close_matches(keyword, _CONSTRAINING, 1, _NEAR)), "")


def _weights(node: Schema, path: str) -> list[int]:
    """Weigh the patterns of a subschema; refuse those that repeat too much."""
    if "pattern" not in node and "patternProperties" not in node:
        return []
    patterns = [(node["pattern"], "pattern")] if "pattern" in node else []
    patterns += ((pattern, "patternProperties") for pattern in node.get("patternProperties", {}))
    weights = []
    for pattern, keyword in patterns:
        weights.append(weight(pattern))
        if weights[-1] > MAX_WEIGHT:
            raise InvalidSchema(
                f"the pattern {pattern[:_SHOWN]!r} repeats too much: more than {MAX_WEIGHT:,} characters, "
                "once it is written out",
                path=_at(path, keyword),
            )
    return weights
