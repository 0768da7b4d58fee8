"""Several subschemas as one: those that hold at once (`allOf`, what stands beside a `$ref`), and alternatives.

Rules of this file:
- Properties, lists and bounds are combined, with the meaning of the draft: what one forbids stays forbidden.
- What one subschema cannot say (two patterns) is left over: it stays in `allOf`, and is described from there.
- A reference that leads to itself with nothing in between can never be written out.
- `oneOf` becomes `anyOf`; that exactly one may hold is said in words, unless they exclude each other.
- Where nothing may stand beside `anyOf`, it moves into every alternative: the meaning is the same.
- The parameters of a tool are one object: alternatives at the root become one with the properties of all.
"""

import math
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

from msgspec.structs import replace as moved

from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.document import MAX_DEPTH, TEXT_UNIT, RootSchema, Site, measure, too_deep
from toolwire.schema.draft import as_list, exact, inside, present, replace, same, settle_evaluated
from toolwire.schema.targets import CONSTRAINTS, IDENTIFIERS, Schema

_SEES_THROUGH = "unevaluatedProperties"
_MERGED_AT_ONCE = 16
_PAIRED_UP_TO = 16
_LOOK_INTO = 4
_SHAPE = frozenset({"properties", "additionalProperties", "patternProperties"})
_GROUPS = (
    frozenset({"if", "then", "else"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"unevaluatedProperties", *_SHAPE}),
    frozenset({"prefixItems", "items", "unevaluatedItems"}),
)


def _both(first: Any, second: Any) -> Any:
    """One schema for what two schemas accept; merged where it is used."""
    if first is True or second is False or first == {}:
        return second
    if second is True or first is False or second == {} or same(first, second):
        return first
    return {"allOf": [first, second]}


def any_of(schemas: list[Any]) -> Any:
    """Make one schema of what any of several accepts."""
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


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


_COMBINE: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _in_both,
    "required": _in_either,
    "propertyOrdering": _in_either,
    "description": lambda first, second: first if second in first else f"{first} {second}",
    "multipleOf": lambda first, second: math.lcm(first, second) if type(first) is type(second) is int else None,
    "items": _both,
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


def _property_of(node: Schema, name: str) -> Any:
    properties = node.get("properties", {})
    return properties[name] if name in properties else node.get("additionalProperties", True)


def _shape(first: Schema, second: Schema) -> Schema:
    """Combine the properties of two object schemas; what each says of extra ones counts for the other's."""
    shape: Schema = {}
    limited = "additionalProperties" in first or "additionalProperties" in second
    if "properties" in first or "properties" in second:
        ours, theirs = first.get("properties", {}), second.get("properties", {})
        # Without a word on extra properties, those that only the first names stay as they are.
        names = {**ours, **theirs} if limited else theirs
        shape["properties"] = {
            **ours,
            **{name: _both(_property_of(first, name), _property_of(second, name)) for name in names},
        }
    if limited:
        extra = [node.get("additionalProperties", True) for node in (first, second)]
        shape["additionalProperties"] = _both(*extra)
    if "patternProperties" in first and "patternProperties" in second:
        ours, theirs = first["patternProperties"], second["patternProperties"]
        shape["patternProperties"] = {
            pattern: _both(ours.get(pattern, True), theirs.get(pattern, True)) for pattern in {**ours, **theirs}
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


class _Merging:
    """Subschemas without references that are merged one after the other, as `merge` does it with two.

    Where nothing speaks of properties that are not declared, a member only adds to what is there: that is not copied.
    """

    __slots__ = ("_blank", "_joined", "_owned", "_required")

    def __init__(self, first: Schema) -> None:
        self._joined = first
        self._owned = False  # whether the properties are a copy
        self._blank: list[str] = []  # the properties of the copy that are {}
        self._required: dict[str, None] | None = None  # the required names, where they have grown

    def strain(self, member: Schema) -> int:
        """Say how much it takes to look through what is there once more."""
        words = len(self._joined.get("description", "")) // TEXT_UNIT if "description" in member else 0
        patterns = len(self._joined.get("patternProperties", ())) if "patternProperties" in member else 0
        return (len(self._joined.get("properties", ())) + patterns) // _MERGED_AT_ONCE + words

    def add(self, member: Schema) -> Schema:
        """Merge a member; give what of it has no place."""
        if not (_EXTRA.isdisjoint(self._joined) and _EXTRA.isdisjoint(member)):
            self._joined, left = merge(self.close(), member)
            self._owned, self._required = False, None
            return left
        rest = {key: value for key, value in member.items() if key not in _GATHERED}
        beside = {key: self._joined[key] for key in (*rest, *_GROUPED) if key in self._joined}
        merged, left = merge(beside, rest)
        self._settle_blank()
        for key, value in member.items():
            if key == "properties":
                self._add_properties(value)
            elif key == "required":
                self._add_required(value)
            elif key in merged:
                self._joined[key] = merged[key]
        return left

    def _settle_blank(self) -> None:
        """Say of each property that accepts anything what `_both` says of it, where another schema lacks it."""
        if not self._owned and "properties" in self._joined:
            self._joined["properties"] = dict(self._joined["properties"])
            self._blank = [name for name, node in self._joined["properties"].items() if node == {}]
            self._owned = True
        if self._blank:
            self._joined["properties"].update(dict.fromkeys(self._blank, True))
            self._blank = []

    def _add_properties(self, more: Schema) -> None:
        properties = self._joined.setdefault("properties", {})
        self._owned = True
        for name, node in more.items():
            properties[name] = _both(properties.get(name, True), node)
            if properties[name] == {}:
                self._blank.append(name)

    def _add_required(self, names: list[str]) -> None:
        if "required" not in self._joined:
            self._joined["required"] = names
            return
        if self._required is None:
            self._required = dict.fromkeys(self._joined["required"])
        self._required.update(dict.fromkeys(names))

    def close(self) -> Schema:
        """Give what came of it."""
        if self._required is not None:
            self._joined["required"] = list(self._required)
            self._required = None
        return self._joined


_GATHERED = frozenset({"properties", "required"})
_EXTRA = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
_GROUPED = frozenset().union(*_GROUPS) - _GATHERED - _EXTRA


def _members(view: Schema, site: Site) -> tuple[list[Schema], frozenset[str]]:
    """List what holds at once, in order, without references; also give the references written out for it."""
    members: list[Schema] = []
    expanded: set[str] = set()
    pending: list[tuple[Any, tuple[str, ...]]] = [(view, ())]
    while pending:
        raw, route = pending.pop()
        node = present(raw, site.path)
        members.append({key: value for key, value in node.items() if key not in ("$ref", "allOf")})
        parts: list[tuple[Any, tuple[str, ...]]] = []
        if (ref := node.get("$ref")) is not None:
            _refuse_return(ref, route, site)
            if ref not in expanded:
                expanded.add(ref)
                parts.append((site.document.expand(ref, site.path), (*route, ref)))
        parts += [(member, route) for member in node.get("allOf", ())]
        pending += reversed(parts)
    return members, site.trail | expanded


def _refuse_return(ref: str, route: tuple[str, ...], site: Site) -> None:
    if ref in route or ref in site.trail:
        message = f"$ref {ref!r} leads back to itself, so it cannot be written out in its place"
        raise SchemaRecursive(message, path=inside(site.path, "$ref"))
    if len(route) >= MAX_DEPTH:
        message = f"more than {MAX_DEPTH} references follow each other, the last is {ref!r}"
        raise InvalidSchema(message, path=site.path)


def conjoin(view: Schema, site: Site) -> tuple[Schema, Site, list[str]]:
    """Write out `$ref` and `allOf`; also give the site after it, and the annotations that are lost."""
    (joined, *members), trail = _members(view, site)
    outer = {_SEES_THROUGH: joined.pop(_SEES_THROUGH)} if _SEES_THROUGH in joined else {}
    conflicts: list[Schema] = []
    lost: list[str] = []
    merging = _Merging(joined)
    for member in members:
        site.document.multiply(merging.strain(member), site.path)
        left = merging.add(member)
        lost += [keyword for keyword in left if keyword not in CONSTRAINTS]
        if conflict := {key: value for key, value in left.items() if key in CONSTRAINTS}:
            conflicts.append(conflict)
    joined = merging.close()
    if conflicts:
        joined["allOf"] = conflicts
    return settle_evaluated({**joined, **outer}), moved(site, trail=trail), lost


def _resolved(raw: Any, document: RootSchema) -> Schema:
    """Follow a chain of plain references to a subschema."""
    node = present(raw, "")
    for _ in range(_LOOK_INTO):
        if node.keys() & CONSTRAINTS != {"$ref"}:
            break
        node = present(document.find(node["$ref"]), "")
    return node


def _literals(node: Schema) -> set[str] | None:
    if "const" in node:
        return {exact(node["const"])}
    return set(map(exact, node["enum"])) if "enum" in node else None


def _disjoint(first: Any, second: Any, document: RootSchema, depth: int = _LOOK_INTO) -> bool:
    """Whether it is plain to see that no value fits both; what takes too long to see is not plain."""
    if not document.allowance.may_compare():
        return False
    left, right = _resolved(first, document), _resolved(second, document)
    if "type" in left and "type" in right and _types(left["type"], right["type"]) is None:
        return True
    ours, theirs = _literals(left), _literals(right)
    if ours is not None and theirs is not None:
        return not ours & theirs
    if depth == 0 or "object" not in (left.get("type"), right.get("type")):
        return False
    mine, yours = left.get("properties", {}), right.get("properties", {})
    shared = {*left.get("required", ())} & {*right.get("required", ())} & mine.keys() & yours.keys()
    return any(_disjoint(mine[name], yours[name], document, depth - 1) for name in sorted(shared))


def _exclusive(branches: list[Any], document: RootSchema) -> bool:
    return len(branches) <= _PAIRED_UP_TO and all(
        _disjoint(first, second, document) for first, second in combinations(branches, 2)
    )


def unite(view: Schema, site: Site) -> Schema:
    """Bring alternatives into `anyOf`, alone where the target wants it alone."""
    if site.root:
        return view
    words: Schema = {}
    for keyword in view.keys() & {"anyOf", "oneOf"}:
        _checked(view, keyword, site.path)
    if "oneOf" in view and "anyOf" not in view:
        if not _exclusive(view["oneOf"], site.document):
            words = {"oneOf": "exactly one of the alternatives"}
        view = replace(view, "oneOf", {"anyOf": view["oneOf"]})
    if "anyOf" in view:
        view = _distribute(view, site)
    return {**view, **words} if words else view


def _checked(view: Schema, keyword: str, path: str) -> None:
    """Refuse an ill-formed alternative under its own path."""
    for index, branch in enumerate(view[keyword]):
        present(branch, inside(path, f"{keyword}[{index}]"))


def _distribute(view: Schema, site: Site) -> Schema:
    base = {key: value for key, value in view.items() if key in CONSTRAINTS and key != "anyOf"}
    split = isinstance(view.get("type"), list) and not site.target.type_lists
    if not base or not (split or site.target.pure_unions):
        return view
    branches = view["anyOf"]
    site.document.multiply(measure(base) * len(branches), site.path)
    possible = [branch for branch in branches if not _disjoint(base, branch, site.document)] or branches
    outer = {key: value for key, value in view.items() if key not in base}
    return {**outer, "anyOf": [_narrowed(base, branch, site) for branch in possible]}


def _narrowed(base: Schema, branch: Any, site: Site) -> Any:
    """Make an alternative hold what stands beside it as well."""
    if base.keys() == {"type"}:
        types = _resolved(branch, site.document).get("type")
        if types is not None and set(as_list(types)) <= set(as_list(base["type"])):
            return branch
    node = present(branch, site.path)
    if node.keys() & {"$ref", "allOf", _SEES_THROUGH} or base.keys() & {"allOf", _SEES_THROUGH}:
        return _at_once(base, branch)
    merged, left = merge(base, node)
    return {**merged, "allOf": [left]} if left else merged


def _at_once(base: Schema, branch: Any) -> Schema:
    """Let an alternative and what stands beside it hold at once; what sees through both stands outside."""
    inner = dict(base)
    outer = {_SEES_THROUGH: inner.pop(_SEES_THROUGH)} if _SEES_THROUGH in inner else {}
    return {"allOf": [inner, branch], **outer}


def flatten(view: Schema, site: Site, depth: int = 0) -> Schema:
    """Turn the alternatives of a root into one object."""
    keyword = next((keyword for keyword in ("anyOf", "oneOf") if keyword in view), None)
    if keyword is None:
        return view
    if depth > MAX_DEPTH:
        raise too_deep(keyword)
    rest = {key: value for key, value in view.items() if key != keyword}
    base = {key: value for key, value in rest.items() if key in CONSTRAINTS}
    site.document.multiply(measure(base) * len(view[keyword]), keyword)
    _checked(view, keyword, "")
    shapes = [shape for branch in view[keyword] if (shape := _shape_of(base, branch, site, depth))]
    if not shapes:
        raise InvalidSchema("the parameters of a tool are an object; no alternative is one", path=keyword)
    if len(shapes) == 1:
        return {**shapes[0], **{key: value for key, value in rest.items() if key not in base}}
    site.note(keyword, "approximated", "the alternatives became one object with the properties of all")
    outer = {key: value for key, value in view.items() if key not in ("anyOf", "oneOf") or key == keyword}
    return replace(outer, keyword, _union(shapes, base, keyword))


def _shape_of(base: Schema, branch: Any, site: Site, depth: int) -> Schema | None:
    """Join an alternative of the root with what stands beside it; none when it is no object."""
    if branch is False:
        return None
    joined, _, _ = conjoin(_at_once(base, branch), site)
    if any("type" in conflict for conflict in joined.get("allOf", ())):
        return None
    if "type" in joined and "object" not in as_list(joined["type"]):
        return None
    return flatten({**joined, "type": "object"}, site, depth + 1)


def _union(shapes: list[Schema], base: Schema, keyword: str) -> Schema:
    declared: dict[str, dict[str, Any]] = {}
    for shape in shapes:
        for name, schema in shape.get("properties", {}).items():
            declared.setdefault(name, {})[exact(schema)] = schema
    properties = {name: any_of(list(schemas.values())) for name, schemas in declared.items()}
    common = set.intersection(*(set(shape.get("required", ())) for shape in shapes))
    required = [name for name in shapes[0].get("required", ()) if name in common]
    union: Schema = {"type": "object", "properties": properties}
    if required:
        union["required"] = required
    if all(shape.get("additionalProperties") is False for shape in shapes):
        union["additionalProperties"] = False
    union[keyword] = [_distinction(shape, base, required) for shape in shapes]
    return union


def _distinction(shape: Schema, base: Schema, required: list[str]) -> Schema:
    """Say in few words what tells one alternative from the others."""
    out = {key: value for key, value in shape.items() if key not in ("type", "properties", "additionalProperties")}
    out = {key: value for key, value in out.items() if key not in base or not same(value, base[key])}
    literal = {
        name: {key: node[key] for key in ("const", "enum") if key in node}
        for name, node in shape.get("properties", {}).items()
        if isinstance(node, dict) and node.keys() & {"const", "enum"}
    }
    if literal:
        out["properties"] = literal
    out["required"] = [name for name in shape.get("required", ()) if name not in required]
    return out
