"""Alternatives: `oneOf` and `anyOf` in the form that a target understands.

Rules of this file:
- `oneOf` becomes `anyOf`; that exactly one may hold is said in words, unless they exclude each other.
- Where nothing may stand beside `anyOf`, it moves into every alternative: the meaning is the same.
- The parameters of a tool are one object: alternatives at the root become one with the properties of all.
"""

from itertools import combinations
from typing import Any

from toolwire.errors import InvalidSchema
from toolwire.schema.conjunction import SEES_THROUGH, any_of, as_list, conjoin, exact, merge, same
from toolwire.schema.document import MAX_DEPTH, RootSchema, measure, too_deep
from toolwire.schema.draft import present, replace
from toolwire.schema.site import Site
from toolwire.schema.targets import CONSTRAINTS, Schema

_PAIRED_UP_TO = 16
_LOOK_INTO = 4


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
    """Whether it is plain to see that no value fits both."""
    left, right = _resolved(first, document), _resolved(second, document)
    if "type" in left and "type" in right and "type" in merge({"type": left["type"]}, {"type": right["type"]})[1]:
        return True
    ours, theirs = _literals(left), _literals(right)
    if ours is not None and theirs is not None:
        return not ours & theirs
    if depth == 0 or "object" not in (left.get("type"), right.get("type")):
        return False
    shared = set(left.get("required", ())) & set(right.get("required", ()))
    mine, yours = left.get("properties", {}), right.get("properties", {})
    return any(
        _disjoint(mine[name], yours[name], document, depth - 1)
        for name in sorted(shared)
        if name in mine and name in yours
    )


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
        present(branch, f"{path}.{keyword}[{index}]" if path else f"{keyword}[{index}]")


def _distribute(view: Schema, site: Site) -> Schema:
    base = {key: value for key, value in view.items() if key in CONSTRAINTS and key != "anyOf"}
    split = isinstance(view.get("type"), list) and not site.target.type_lists
    if not base or not (split or site.target.pure_unions):
        return view
    branches = view["anyOf"]
    site.document.spend(measure(base) * len(branches), site.path)
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
    if node.keys() & {"$ref", "allOf", *SEES_THROUGH} or base.keys() & {"allOf", *SEES_THROUGH}:
        return _at_once(base, branch)
    merged, left = merge(base, node)
    return {**merged, "allOf": [left]} if left else merged


def _at_once(base: Schema, branch: Any) -> Schema:
    """Let an alternative and what stands beside it hold at once; what sees through both stands outside."""
    inner = {key: value for key, value in base.items() if key not in SEES_THROUGH}
    outer = {key: value for key, value in base.items() if key in SEES_THROUGH}
    return {"allOf": [inner, branch], **outer}


def flatten(view: Schema, site: Site, depth: int = 0) -> Schema:
    """Turn the alternatives of a root into one object."""
    if "anyOf" in view:
        return _one_object(view, "anyOf", site, depth)
    return _one_object(view, "oneOf", site, depth) if "oneOf" in view else view


def _one_object(view: Schema, keyword: str, site: Site, depth: int) -> Schema:
    if depth > MAX_DEPTH:
        raise too_deep(keyword)
    rest = {key: value for key, value in view.items() if key != keyword}
    base = {key: value for key, value in rest.items() if key in CONSTRAINTS}
    site.document.spend(measure(base) * len(view[keyword]), keyword)
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
    joined, _, _ = conjoin(_at_once(base, branch), site.document, site.path, site.trail)
    if any("type" in conflict for conflict in joined.get("allOf", ())):
        return None
    if "type" in joined and "object" not in as_list(joined["type"]):
        return None
    return flatten({**joined, "type": "object"}, site, depth + 1)


def _union(shapes: list[Schema], base: Schema, keyword: str) -> Schema:
    said: dict[str, dict[str, Any]] = {}
    for shape in shapes:
        for name, schema in shape.get("properties", {}).items():
            said.setdefault(name, {})[exact(schema)] = schema
    properties = {name: any_of(list(found.values())) for name, found in said.items()}
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
        name: {key: said[key] for key in ("const", "enum") if key in said}
        for name, said in shape.get("properties", {}).items()
        if isinstance(said, dict) and said.keys() & {"const", "enum"}
    }
    if literal:
        out["properties"] = literal
    out["required"] = [name for name in shape.get("required", ()) if name not in required]
    return out
