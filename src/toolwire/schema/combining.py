"""Several subschemas as one: conjunctions (`allOf`, the keywords beside a `$ref`) and alternatives.

Rules of this file:
- Properties, lists and bounds are merged with the meaning of the draft: the result rejects what one of them rejects.
- Constraints that cannot be merged, such as two patterns, stay in `allOf`. The fitting describes them in words.
- A reference that leads to itself with nothing in between can never be written out.
- `oneOf` becomes `anyOf`. That exactly one alternative may match is described in words, unless they exclude each other.
- Where a target allows nothing beside `anyOf`, the other constraints move into every alternative.
- The parameters of a tool are one object. Alternatives at the root become one object with the properties of all.
"""

import math
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

from msgspec.structs import replace as struct_replace

from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.document import MAX_DEPTH, TEXT_UNIT, RootSchema, Site, measure, too_deep
from toolwire.schema.draft import (
    as_list,
    canonical_json,
    is_same_json,
    join_path,
    normalize_subschema,
    replace_keyword,
    simplify_unevaluated,
)
from toolwire.schema.targets import CONSTRAINTS, IDENTIFIERS, Schema

_WHOLE_VIEW = "unevaluatedProperties"
_PROPERTIES_PER_STEP = 16
_MAX_PAIRED = 16
_COMPARED_LEVELS = 4
_OBJECT_SHAPE = frozenset({"properties", "additionalProperties", "patternProperties"})
_GROUPS = (
    frozenset({"if", "then", "else"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"unevaluatedProperties", *_OBJECT_SHAPE}),
    frozenset({"prefixItems", "items", "unevaluatedItems"}),
)


def _both_schemas(first: Any, second: Any) -> Any:
    """Return one schema for the values that both schemas accept. A conjunction is merged where it is used."""
    if first is True or second is False or first == {}:
        return second
    if second is True or first is False or second == {} or is_same_json(first, second):
        return first
    return {"allOf": [first, second]}


def any_of(schemas: list[Any]) -> Any:
    """Return one schema for the values that any of `schemas` accepts."""
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _common_types(first: Any, second: Any) -> Any:
    first_types, second_types = as_list(first), as_list(second)
    common = [t for t in first_types if t in second_types or (t == "integer" and "number" in second_types)]
    common += [t for t in second_types if t == "integer" and "number" in first_types and t not in first_types]
    return common if len(common) > 1 else next(iter(common), None)


def _common_values(first: list[Any], second: list[Any]) -> list[Any] | None:
    known = set(map(canonical_json, second))
    return [value for value in first if canonical_json(value) in known] or None


def _all_values(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


_COMBINERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _common_types,
    "enum": _common_values,
    "required": _all_values,
    "propertyOrdering": _all_values,
    "description": lambda first, second: first if second in first else f"{first} {second}",
    "multipleOf": lambda first, second: math.lcm(first, second) if type(first) is type(second) is int else None,
    "items": _both_schemas,
    "allOf": lambda first, second: first + second,
    "uniqueItems": lambda first, second: first or second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


def _is_open(node: Schema) -> bool:
    return node.get("additionalProperties", True) is True and "unevaluatedProperties" not in node


def _groups_conflict(group: frozenset[str], first: Schema, second: Schema) -> bool:
    """Return True if the keywords of `group` only have a meaning together, and differ in the two subschemas."""
    first_keys, second_keys = first.keys() & group, second.keys() & group
    if not first_keys or not second_keys:
        return False
    if "properties" in group:
        both_open = _is_open(first) and _is_open(second)
        return not both_open and bool((first_keys | second_keys) & {"patternProperties", "unevaluatedProperties"})
    if "items" in group and (first_keys | second_keys) == {"items"}:
        return False
    return first_keys != second_keys or any(not is_same_json(first[key], second[key]) for key in first_keys)


def _property_schema(node: Schema, name: str) -> Any:
    properties = node.get("properties", {})
    return properties[name] if name in properties else node.get("additionalProperties", True)


def _combine_objects(first: Schema, second: Schema) -> Schema:
    """Combine the properties of two object schemas.

    The rule of one schema for extra properties applies to the properties that only the other one declares.
    """
    combined: Schema = {}
    restricts_extra = "additionalProperties" in first or "additionalProperties" in second
    if "properties" in first or "properties" in second:
        first_members, second_members = first.get("properties", {}), second.get("properties", {})
        # If neither restricts extra properties, those that only the first declares stay as they are.
        names = {**first_members, **second_members} if restricts_extra else second_members
        combined["properties"] = {
            **first_members,
            **{name: _both_schemas(_property_schema(first, name), _property_schema(second, name)) for name in names},
        }
    if restricts_extra:
        extra = [node.get("additionalProperties", True) for node in (first, second)]
        combined["additionalProperties"] = _both_schemas(*extra)
    if "patternProperties" in first and "patternProperties" in second:
        first_members, second_members = first["patternProperties"], second["patternProperties"]
        combined["patternProperties"] = {
            pattern: _both_schemas(first_members.get(pattern, True), second_members.get(pattern, True))
            for pattern in {**first_members, **second_members}
        }
    return combined


def merge(first: Schema, second: Schema) -> tuple[Schema, Schema]:
    """Merge two subschemas without references. Return the result, and the keywords of `second` that do not fit in."""
    unmerged: Schema = {}
    for group in _GROUPS:
        if _groups_conflict(group, first, second):
            unmerged |= {key: second[key] for key in second if key in group}
    merged = dict(first)
    for keyword, value in second.items():
        if keyword in unmerged or keyword in IDENTIFIERS:
            continue
        if keyword not in merged:
            merged[keyword] = value
        elif keyword not in _OBJECT_SHAPE and not is_same_json(merged[keyword], value):
            combine = _COMBINERS.get(keyword)
            combined = combine(merged[keyword], value) if combine else None
            if combined is None:
                unmerged[keyword] = value
            else:
                merged[keyword] = combined
    if not unmerged.keys() & _OBJECT_SHAPE:
        merged |= _combine_objects(first, second)
    return merged, unmerged


class _Merger:
    """Merges subschemas without references one after the other, with the result of `merge`.

    Unless a schema restricts undeclared properties, a new member only adds properties, so that nothing is copied.
    """

    __slots__ = ("_empty_properties", "_is_copied", "_joined", "_required")

    def __init__(self, first: Schema) -> None:
        self._joined = first
        self._is_copied = False  # True if the properties are a copy
        self._empty_properties: list[str] = []  # the copied properties whose schema is {}
        self._required: dict[str, None] | None = None  # the required names, if some were added

    def cost(self, member: Schema) -> int:
        """Return the cost of visiting the merged schema once more for `member`."""
        text_cost = len(self._joined.get("description", "")) // TEXT_UNIT if "description" in member else 0
        patterns = len(self._joined.get("patternProperties", ())) if "patternProperties" in member else 0
        return (len(self._joined.get("properties", ())) + patterns) // _PROPERTIES_PER_STEP + text_cost

    def add(self, member: Schema) -> Schema:
        """Merge `member`. Return its keywords that could not be merged."""
        if not (_EXTRA_PROPERTY_KEYWORDS.isdisjoint(self._joined) and _EXTRA_PROPERTY_KEYWORDS.isdisjoint(member)):
            self._joined, unmerged = merge(self.close(), member)
            self._is_copied, self._required = False, None
            return unmerged
        others = {key: value for key, value in member.items() if key not in _COLLECTED}
        beside = {key: self._joined[key] for key in (*others, *_GROUPED) if key in self._joined}
        merged, unmerged = merge(beside, others)
        self._resolve_empty()
        for key, value in member.items():
            if key == "properties":
                self._add_properties(value)
            elif key == "required":
                self._add_required(value)
            elif key in merged:
                self._joined[key] = merged[key]
        return unmerged

    def _resolve_empty(self) -> None:
        """Replace empty property schemas by True, as `_both_schemas` does if the other schema lacks a property."""
        if not self._is_copied and "properties" in self._joined:
            self._joined["properties"] = dict(self._joined["properties"])
            self._empty_properties = [name for name, node in self._joined["properties"].items() if node == {}]
            self._is_copied = True
        if self._empty_properties:
            self._joined["properties"].update(dict.fromkeys(self._empty_properties, True))
            self._empty_properties = []

    def _add_properties(self, more: Schema) -> None:
        properties = self._joined.setdefault("properties", {})
        self._is_copied = True
        for name, node in more.items():
            properties[name] = _both_schemas(properties.get(name, True), node)
            if properties[name] == {}:
                self._empty_properties.append(name)

    def _add_required(self, names: list[str]) -> None:
        if "required" not in self._joined:
            self._joined["required"] = names
            return
        if self._required is None:
            self._required = dict.fromkeys(self._joined["required"])
        self._required.update(dict.fromkeys(names))

    def close(self) -> Schema:
        """Return the merged schema."""
        if self._required is not None:
            self._joined["required"] = list(self._required)
            self._required = None
        return self._joined


_COLLECTED = frozenset({"properties", "required"})
_EXTRA_PROPERTY_KEYWORDS = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
_GROUPED = frozenset().union(*_GROUPS) - _COLLECTED - _EXTRA_PROPERTY_KEYWORDS


def _conjuncts(view: Schema, site: Site) -> tuple[list[Schema], frozenset[str]]:
    """Return the subschemas that apply together, in order and without references, and the expanded references."""
    members: list[Schema] = []
    expanded: set[str] = set()
    pending: list[tuple[Any, tuple[str, ...]]] = [(view, ())]
    while pending:
        raw, ref_path = pending.pop()
        node = normalize_subschema(raw, site.path)
        members.append({key: value for key, value in node.items() if key not in ("$ref", "allOf")})
        parts: list[tuple[Any, tuple[str, ...]]] = []
        if (ref := node.get("$ref")) is not None:
            _reject_cycle(ref, ref_path, site)
            if ref not in expanded:
                expanded.add(ref)
                parts.append((site.document.expand(ref, site.path), (*ref_path, ref)))
        parts += [(member, ref_path) for member in node.get("allOf", ())]
        pending += reversed(parts)
    return members, site.expanded | expanded


def _reject_cycle(ref: str, ref_path: tuple[str, ...], site: Site) -> None:
    if ref in ref_path or ref in site.expanded:
        message = f"$ref {ref!r} leads back to itself, so it cannot be written out in its place"
        raise SchemaRecursive(message, path=join_path(site.path, "$ref"))
    if len(ref_path) >= MAX_DEPTH:
        message = f"more than {MAX_DEPTH} references follow each other, the last is {ref!r}"
        raise InvalidSchema(message, path=site.path)


def merge_conjunction(view: Schema, site: Site) -> tuple[Schema, Site, list[str]]:
    """Write out `$ref` and `allOf`. Return the schema, the site after it, and the annotations that were lost."""
    (joined, *members), expanded = _conjuncts(view, site)
    outer = {_WHOLE_VIEW: joined.pop(_WHOLE_VIEW)} if _WHOLE_VIEW in joined else {}
    conflicts: list[Schema] = []
    lost: list[str] = []
    merging = _Merger(joined)
    for member in members:
        site.document.multiply(merging.cost(member), site.path)
        unmerged = merging.add(member)
        lost += [keyword for keyword in unmerged if keyword not in CONSTRAINTS]
        if conflict := {key: value for key, value in unmerged.items() if key in CONSTRAINTS}:
            conflicts.append(conflict)
    joined = merging.close()
    if conflicts:
        joined["allOf"] = conflicts
    if _WHOLE_VIEW in joined:  # it has evaluated every property, so the outer one applies to none
        outer = {}
    return simplify_unevaluated({**joined, **outer}), struct_replace(site, expanded=expanded), lost


def _dereference(raw: Any, document: RootSchema) -> Schema:
    """Return the subschema at the end of a chain of plain references."""
    node = normalize_subschema(raw, "")
    for _ in range(_COMPARED_LEVELS):
        if node.keys() & CONSTRAINTS != {"$ref"}:
            break
        node = normalize_subschema(document.find(node["$ref"]), "")
    return node


def _literals(node: Schema) -> set[str] | None:
    if "const" in node:
        return {canonical_json(node["const"])}
    return set(map(canonical_json, node["enum"])) if "enum" in node else None


def _are_disjoint(first: Any, second: Any, document: RootSchema, depth: int = _COMPARED_LEVELS) -> bool:
    """Return True if it is quickly provable that no value matches both schemas."""
    if not document.allowance.try_compare():
        return False
    first_node, second_node = _dereference(first, document), _dereference(second, document)
    if (
        "type" in first_node
        and "type" in second_node
        and _common_types(first_node["type"], second_node["type"]) is None
    ):
        return True
    first_literals, second_literals = _literals(first_node), _literals(second_node)
    if first_literals is not None and second_literals is not None:
        return not first_literals & second_literals
    if depth == 0 or "object" not in (first_node.get("type"), second_node.get("type")):
        return False
    first_properties, second_properties = first_node.get("properties", {}), second_node.get("properties", {})
    shared = (
        {*first_node.get("required", ())}
        & {*second_node.get("required", ())}
        & first_properties.keys()
        & second_properties.keys()
    )
    return any(
        _are_disjoint(first_properties[name], second_properties[name], document, depth - 1) for name in sorted(shared)
    )


def _are_exclusive(branches: list[Any], document: RootSchema) -> bool:
    return len(branches) <= _MAX_PAIRED and all(
        _are_disjoint(first, second, document) for first, second in combinations(branches, 2)
    )


def normalize_unions(view: Schema, site: Site) -> Schema:
    """Rewrite alternatives as `anyOf`, and as the only constraint if the target requires it."""
    if site.root:
        return view
    described: Schema = {}
    for keyword in view.keys() & {"anyOf", "oneOf"}:
        _check_branches(view, keyword, site.path)
    if "oneOf" in view and "anyOf" not in view:
        if not _are_exclusive(view["oneOf"], site.document):
            described = {"oneOf": "exactly one of the alternatives"}
        view = replace_keyword(view, "oneOf", {"anyOf": view["oneOf"]})
    if "anyOf" in view:
        view = _distribute(view, site)
    return {**view, **described} if described else view


def _check_branches(view: Schema, keyword: str, path: str) -> None:
    """Raise `InvalidSchema` for an ill-formed alternative, with its own path."""
    for index, branch in enumerate(view[keyword]):
        normalize_subschema(branch, join_path(path, f"{keyword}[{index}]"))


def _distribute(view: Schema, site: Site) -> Schema:
    base = {key: value for key, value in view.items() if key in CONSTRAINTS and key != "anyOf"}
    split = isinstance(view.get("type"), list) and not site.target.type_lists
    if not base or not (split or site.target.pure_unions):
        return view
    branches = view["anyOf"]
    site.document.multiply(measure(base) * len(branches), site.path)
    branches_left = [branch for branch in branches if not _are_disjoint(base, branch, site.document)] or branches
    outer = {key: value for key, value in view.items() if key not in base}
    return {**outer, "anyOf": [_narrow_branch(base, branch, site) for branch in branches_left]}


def _narrow_branch(base: Schema, branch: Any, site: Site) -> Any:
    """Return the alternative `branch` with the constraints of `base` added."""
    if base.keys() == {"type"}:
        types = _dereference(branch, site.document).get("type")
        if types is not None and set(as_list(types)) <= set(as_list(base["type"])):
            return branch
    node = normalize_subschema(branch, site.path)
    if node.keys() & {"$ref", "allOf", _WHOLE_VIEW} or base.keys() & {"allOf", _WHOLE_VIEW}:
        return _conjunction(base, branch)
    merged, unmerged = merge(base, node)
    return {**merged, "allOf": [unmerged]} if unmerged else merged


def _conjunction(base: Schema, branch: Any) -> Schema:
    """Return the conjunction of `base` and `branch`. `unevaluatedProperties` stays outside, where it sees both."""
    inner = dict(base)
    outer = {_WHOLE_VIEW: inner.pop(_WHOLE_VIEW)} if _WHOLE_VIEW in inner else {}
    return {"allOf": [inner, branch], **outer}


def merge_root_alternatives(view: Schema, site: Site, depth: int = 0) -> Schema:
    """Merge the alternatives of a root into one object."""
    keyword = next((keyword for keyword in ("anyOf", "oneOf") if keyword in view), None)
    if keyword is None:
        return view
    if depth > MAX_DEPTH:
        raise too_deep(keyword)
    others = {key: value for key, value in view.items() if key != keyword}
    base = {key: value for key, value in others.items() if key in CONSTRAINTS}
    site.document.multiply(measure(base) * len(view[keyword]), keyword)
    _check_branches(view, keyword, "")
    shapes = [shape for branch in view[keyword] if (shape := _object_of(base, branch, site, depth))]
    if not shapes:
        raise InvalidSchema("the parameters of a tool are an object; no alternative is one", path=keyword)
    if len(shapes) == 1:
        return {**shapes[0], **{key: value for key, value in others.items() if key not in base}}
    detail = "the alternatives became one object with the properties of all"
    site.note(keyword, "approximated", f"narrowed: {detail}" if _restricts_others(shapes) else detail)
    outer = {key: value for key, value in view.items() if key not in ("anyOf", "oneOf") or key == keyword}
    return replace_keyword(outer, keyword, _union_of_objects(shapes, base, keyword))


def _object_of(base: Schema, branch: Any, site: Site, depth: int) -> Schema | None:
    """Return a root alternative merged with `base`, or None if it does not accept objects."""
    if branch is False:
        return None
    joined, _, _ = merge_conjunction(_conjunction(base, branch), site)
    if any("type" in conflict for conflict in joined.get("allOf", ())):
        return None
    if "type" in joined and "object" not in as_list(joined["type"]):
        return None
    return merge_root_alternatives({**joined, "type": "object"}, site, depth + 1)


def _is_closed(shape: Schema) -> bool:
    return shape.get("additionalProperties") is False and "patternProperties" not in shape


def _restricts_others(shapes: list[Schema]) -> bool:
    """Return True if an alternative accepts any value for a property that only another one declares."""
    names = {name for shape in shapes for name in shape.get("properties", {})}
    return any(not _is_closed(shape) and not names <= shape.get("properties", {}).keys() for shape in shapes)


def _union_of_objects(shapes: list[Schema], base: Schema, keyword: str) -> Schema:
    declared: dict[str, dict[str, Any]] = {}
    for shape in shapes:
        for name, schema in shape.get("properties", {}).items():
            declared.setdefault(name, {})[canonical_json(schema)] = schema
    properties = {name: any_of(list(schemas.values())) for name, schemas in declared.items()}
    common = set.intersection(*(set(shape.get("required", ())) for shape in shapes))
    required = [name for name in shapes[0].get("required", ()) if name in common]
    union: Schema = {"type": "object", "properties": properties}
    if required:
        union["required"] = required
    if all(map(_is_closed, shapes)):
        union["additionalProperties"] = False
    union[keyword] = [_distinguish(shape, base, required) for shape in shapes]
    return union


def _distinguish(shape: Schema, base: Schema, required: list[str]) -> Schema:
    """Return the few constraints that distinguish one alternative from the others."""
    constraints = {
        key: value for key, value in shape.items() if key not in ("type", "properties", "additionalProperties")
    }
    constraints = {
        key: value for key, value in constraints.items() if key not in base or not is_same_json(value, base[key])
    }
    literals = {
        name: {key: node[key] for key in ("const", "enum") if key in node}
        for name, node in shape.get("properties", {}).items()
        if isinstance(node, dict) and node.keys() & {"const", "enum"}
    }
    if literals:
        constraints["properties"] = literals
    constraints["required"] = [name for name in shape.get("required", ()) if name not in required]
    return constraints
