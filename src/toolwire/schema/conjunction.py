"""Several subschemas that hold at once, as one: what `allOf`, and anything beside a `$ref`, means.

Rules of this file:
- Properties, lists and bounds are combined, with the meaning of the draft: what one forbids stays forbidden.
- What one subschema cannot say (two patterns) is left over: it stays in `allOf`, and is described from there.
- A reference that leads to itself with nothing in between can never be written out.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.document import MAX_DEPTH, RootSchema
from toolwire.schema.draft import present, settle_evaluated
from toolwire.schema.targets import CONSTRAINTS, IDENTIFIERS, Schema

SEES_THROUGH = ("unevaluatedProperties",)
_MERGED_AT_ONCE = 16
_SHAPE = frozenset({"properties", "additionalProperties", "patternProperties"})
_GROUPS = (
    frozenset({"if", "then", "else"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"unevaluatedProperties", *_SHAPE}),
    frozenset({"prefixItems", "items", "unevaluatedItems"}),
)


def same(first: Any, second: Any) -> bool:
    """Whether two values are the same JSON; true is not 1."""
    return first is second or (first == second and exact(first) == exact(second))


def exact(value: Any) -> str:
    """Write a JSON value as text that tells it from every other one."""
    return json.dumps(value, sort_keys=True)


def both(first: Any, second: Any) -> Any:
    """One schema for what two schemas accept; merged where it is used."""
    if first is True or second is False or first == {}:
        return second
    if second is True or first is False or second == {} or same(first, second):
        return first
    return {"allOf": [first, second]}


def any_of(schemas: list[Any]) -> Any:
    """Make one schema of what any of several accepts."""
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def as_list(types: Any) -> list[str]:
    """List the types that a `type` keyword names."""
    return types if isinstance(types, list) else [types]


def _types(first: Any, second: Any) -> Any:
    left, right = as_list(first), as_list(second)
    meaning = [t for t in left if t in right or (t == "integer" and "number" in right)]
    meaning += [t for t in right if t == "integer" and "number" in left and t not in left]
    return meaning if len(meaning) > 1 else next(iter(meaning), None)


def _in_both(first: list[Any], second: list[Any]) -> list[Any] | None:
    known = set(map(exact, second))
    return [value for value in first if exact(value) in known] or None


def _in_either(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _multiple(first: Any, second: Any) -> Any:
    return math.lcm(first, second) if isinstance(first, int) and isinstance(second, int) else None


def _sentences(first: str, second: str) -> str:
    return first if second in first else f"{first} {second}"


_COMBINE: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _in_both,
    "required": _in_either,
    "propertyOrdering": _in_either,
    "description": _sentences,
    "multipleOf": _multiple,
    "items": both,
    "allOf": lambda first, second: first + second,
    "uniqueItems": lambda first, second: first or second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


def _open(node: Schema) -> bool:
    return node.get("additionalProperties", True) is True and "unevaluatedProperties" not in node


def _collide(group: frozenset[str], first: Schema, second: Schema) -> bool:
    """Whether the keywords of a group mean something only together, and differ in the two subschemas."""
    ours, theirs = first.keys() & group, second.keys() & group
    if not ours or not theirs:
        return False
    if "properties" in group:
        alone = _open(first) and _open(second)
        return not alone and bool((ours | theirs) & {"patternProperties", "unevaluatedProperties"})
    if "items" in group and (ours | theirs) == {"items"}:
        return False
    return ours != theirs or any(not same(first[key], second[key]) for key in ours)


def _said_of(node: Schema, name: str) -> Any:
    properties = node.get("properties", {})
    return properties[name] if name in properties else node.get("additionalProperties", True)


def _shape(first: Schema, second: Schema) -> Schema:
    """Combine the properties of two object schemas; what each says of extra ones counts for the other's."""
    names = dict.fromkeys((*first.get("properties", ()), *second.get("properties", ())))
    shape: Schema = {}
    if names or "properties" in first or "properties" in second:
        shape["properties"] = {name: both(_said_of(first, name), _said_of(second, name)) for name in names}
    if "additionalProperties" in first or "additionalProperties" in second:
        extra = [node.get("additionalProperties", True) for node in (first, second)]
        shape["additionalProperties"] = both(*extra)
    if "patternProperties" in first and "patternProperties" in second:
        ours, theirs = first["patternProperties"], second["patternProperties"]
        shape["patternProperties"] = {
            pattern: both(ours.get(pattern, True), theirs.get(pattern, True)) for pattern in {**ours, **theirs}
        }
    return shape


def merge(first: Schema, second: Schema) -> tuple[Schema, Schema]:
    """Merge two subschemas without references; also give what of the second has no place beside the first."""
    left: Schema = {}
    for group in _GROUPS:
        if _collide(group, first, second):
            left |= {key: second[key] for key in second if key in group}
    merged = dict(first)
    for keyword, value in second.items():
        if keyword in left or keyword in IDENTIFIERS:
            continue
        if keyword not in merged:
            merged[keyword] = value
        elif keyword not in _SHAPE and not same(merged[keyword], value):
            combine = _COMBINE.get(keyword)
            meaning = combine(merged[keyword], value) if combine else None
            if meaning is None:
                left[keyword] = value
            else:
                merged[keyword] = meaning
    if not left.keys() & _SHAPE:
        merged |= _shape(first, second)
    return merged, left


def _members(
    view: Schema, document: RootSchema, path: str, trail: frozenset[str]
) -> tuple[list[Schema], frozenset[str]]:
    """List what holds at once, in order, without references; also give the references written out for it."""
    members: list[Schema] = []
    expanded: set[str] = set()
    pending: list[tuple[Any, tuple[str, ...]]] = [(view, ())]
    while pending:
        raw, route = pending.pop()
        node = present(raw, path)
        members.append({key: value for key, value in node.items() if key not in ("$ref", "allOf")})
        parts: list[tuple[Any, tuple[str, ...]]] = []
        if (ref := node.get("$ref")) is not None:
            _refuse_return(ref, route, trail, path)
            if ref not in expanded:
                expanded.add(ref)
                parts.append((document.expand(ref, path), (*route, ref)))
        parts += [(member, route) for member in node.get("allOf", ())]
        pending += reversed(parts)
    return members, trail | expanded


def _refuse_return(ref: str, route: tuple[str, ...], trail: frozenset[str], path: str) -> None:
    if ref in route or ref in trail:
        place = f"{path}.$ref" if path else "$ref"
        raise SchemaRecursive(
            f"$ref {ref!r} leads back to itself, so it cannot be written out in its place", path=place
        )
    if len(route) >= MAX_DEPTH:
        raise InvalidSchema(f"more than {MAX_DEPTH} references follow each other, the last is {ref!r}", path=path)


def conjoin(
    view: Schema, document: RootSchema, path: str, trail: frozenset[str]
) -> tuple[Schema, frozenset[str], list[str]]:
    """Write out `$ref` and `allOf`; also give the references on the way and the annotations that are lost."""
    (joined, *members), trail = _members(view, document, path, trail)
    outer = {key: joined.pop(key) for key in SEES_THROUGH if key in joined}
    conflicts: list[Schema] = []
    lost: list[str] = []
    for member in members:
        document.spend(len(joined.get("properties", ())) // _MERGED_AT_ONCE, path)
        joined, left = merge(joined, member)
        lost += [keyword for keyword in left if keyword not in CONSTRAINTS]
        if conflict := {key: value for key, value in left.items() if key in CONSTRAINTS}:
            conflicts.append(conflict)
    if conflicts:
        joined["allOf"] = conflicts
    return settle_evaluated({**joined, **outer}), trail, lost
