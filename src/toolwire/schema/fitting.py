"""A schema in the words of a target: read, respelled step by step, written out.

Rules of this file:
- What a target cannot say goes into the description of the same subschema, as `(maxLength: 5, minLength: 1)`:
  sorted by keyword, values as JSON. What constrains nothing is dropped. All is noted, but mere identifiers.
- What needs no change is the same object in the result; nothing that was given is ever changed.
- References are kept where the target follows them, and written out elsewhere.
- A schema is refused by name when it is ill-formed, recursive where that is not understood, or too large:
  more than 100 levels of subschemas, or 100,000 JSON values once references and unions are written out.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolwire.errors import InvalidSchema
from toolwire.schema.alternatives import flatten, unite
from toolwire.schema.conformance import conforms, is_plain
from toolwire.schema.conjunction import as_list, conjoin, merge, same
from toolwire.schema.document import MAX_DEPTH, TEXT_UNIT, RootSchema, measure, too_deep
from toolwire.schema.draft import present, replace
from toolwire.schema.kinds import (
    infer_type,
    settle_bounds,
    settle_const,
    settle_items,
    settle_texts,
    spell_null,
    split_types,
)
from toolwire.schema.objects import all_names, is_object, null_for_absent, settle_object
from toolwire.schema.site import Fitted, Note, References, Site
from toolwire.schema.targets import (
    BY_NAME,
    CONSTRAINS_NOTHING,
    CONSTRAINTS,
    IDENTIFIERS,
    SPOKEN,
    TARGETS,
    Schema,
    Target,
)

_STEPS: tuple[Callable[[Schema, Site], Schema], ...] = (
    unite,
    settle_const,
    infer_type,
    spell_null,
    split_types,
    settle_texts,
    settle_bounds,
    settle_items,
    settle_object,
)
# What many tools say at their root and no other keyword depends on, with the type of its value.
_LOOSE: Mapping[str, type] = {
    "$schema": str,
    "additionalProperties": bool,
    "description": str,
    "title": str,
}


def fit(schema: Schema, target: str) -> Fitted:
    """Say a tool's parameters as a target understands them; the same object where nothing has to change."""
    rules = BY_NAME.get(target)
    if rules is None:
        raise ValueError(f"unknown target {target!r}; known: {', '.join(TARGETS)}")
    if conforms(schema, rules):
        return Fitted(schema)
    if not isinstance(schema, dict):
        raise InvalidSchema(f"the parameters of a tool are a JSON Schema object, not {type(schema).__name__}")
    return _without_loose(schema, rules) or _fit_whole(schema, rules)


def _without_loose(schema: Schema, target: Target) -> Fitted | None:
    """Leave loose keywords out of a root, where nothing else has to change; None where something has."""
    kept: Schema = {}
    left: Schema = {}
    for keyword, value in schema.items():
        if keyword in target.root_keywords:
            kept[keyword] = value
        elif type(value) is _LOOSE.get(keyword):
            left[keyword] = value
        else:
            return None
    if not left or not conforms(kept, target):
        return None
    notes = [
        Note("", keyword, "dropped", _why_dropped(keyword, value, target))
        for keyword, value in left.items()
        if keyword not in IDENTIFIERS
    ]
    return Fitted(kept, tuple(notes))


def _fit_whole(schema: Schema, rules: Target) -> Fitted:
    document = RootSchema(schema)
    document.spend(measure(schema), "")
    references = References(document)
    site = Site(rules, document, references, [], root=True)
    fitted = _fit_root(schema, site)
    references.refuse_cycles(rules)
    return Fitted(fitted, tuple(site.notes))


def _fit_root(schema: Schema, site: Site) -> Schema:
    view = present(schema, "")
    if view.keys() & {"$ref", "allOf"}:
        view, site = _joined(view, site)
    view = _as_object(flatten(view, site))
    out = _emit(_respelled(view, site), site)
    hoisted: Schema = {}
    while site.references.pending:
        name, ref = site.references.pending.pop(0)
        hoisted[name] = fit_node(site.document.expand(ref, ""), site.defining(name))
    if hoisted:
        out = {**out, "$defs": {**out.get("$defs", {}), **hoisted}}
    return _kept(schema, out)


def _as_object(view: Schema) -> Schema:
    if "type" not in view:
        view = {"type": "object", **view}
    elif not is_object(view):
        kinds = " or ".join(as_list(view["type"]))
        raise InvalidSchema(f"the parameters of a tool are an object, not {kinds}; make it a property", path="type")
    elif view["type"] != "object":
        view = {**view, "type": "object"}
    return view if "properties" in view else {**view, "properties": {}}


def fit_node(raw: Any, site: Site) -> Schema:
    """Fit one subschema that is not the root."""
    if site.depth > MAX_DEPTH:
        raise too_deep(site.path)
    if isinstance(raw, dict) and is_plain(raw, site.target):
        return raw
    site.document.spend(1, site.path)
    view, site = _write_out(present(raw, site.path), site)
    return _kept(raw, _emit(_respelled(view, site), site))


def _respelled(view: Schema, site: Site) -> Schema:
    for step in _STEPS:
        view = step(view, site)
    return view


def _kept(raw: Any, out: Schema) -> Schema:
    """Give back what was given, where writing it has changed nothing."""
    if not isinstance(raw, dict) or len(raw) != len(out):
        return out
    pairs = zip(raw.items(), out.items(), strict=True)
    return raw if all(old == new and value is written for (old, value), (new, written) in pairs) else out


def _joined(view: Schema, site: Site) -> tuple[Schema, Site]:
    joined, trail, lost = conjoin(view, site.document, site.path, site.trail)
    _note_lost(lost, site)
    return joined, site.expanding(trail)


def _note_lost(keywords: Iterable[str], site: Site) -> None:
    for keyword in keywords:
        site.note(keyword, "dropped", "another schema that holds at once has the same keyword")


def _write_out(view: Schema, site: Site) -> tuple[Schema, Site]:
    """Write out what holds at once, and the references that cannot stay."""
    if view.keys() & {"$ref", "allOf"}:
        ref = _sole_reference(view)
        if ref is None or site.target.inlined:
            view, site = _joined(view, site)
        else:
            rest = {key: value for key, value in view.items() if key not in IDENTIFIERS}
            keyword = "$ref" if "$ref" in rest else "allOf"
            view = replace(rest, keyword, {"$ref": ref} if len(rest) == 1 else {"anyOf": [{"$ref": ref}]})
    return view, site


def _sole_reference(view: Schema) -> str | None:
    """Find the reference that is all that constrains here; annotations may stand beside it."""
    constraints = view.keys() & CONSTRAINTS
    if constraints == {"$ref"}:
        return str(view["$ref"])
    if constraints == {"allOf"} and len(view["allOf"]) == 1:
        (member,) = view["allOf"]
        if isinstance(member, dict) and member.keys() == {"$ref"} and isinstance(member["$ref"], str):
            return member["$ref"]
    return None


def _emit(view: Schema, site: Site) -> Schema:
    target = site.target
    keywords = target.root_keywords if site.root else target.keywords
    out: Schema = {}
    left: Schema = {}
    for keyword, value in view.items():
        if keyword in keywords and (keyword not in target.limits or target.limits[keyword](value)):
            write = _WRITE.get(keyword)
            out[keyword] = write(value, view, site) if write else value
        elif keyword not in IDENTIFIERS:
            left[keyword] = value
    if target.all_required and "required" not in view and is_object(view):
        out["required"] = all_names(view)
    if target.nullable and "anyOf" in out:
        out = _null_aside(out, site)
    return _described(out, left, "description" in keywords, site) if left else out


def _null_aside(out: Schema, site: Site) -> Schema:
    """Say null beside the other alternatives; one that is left alone is no alternative any more."""
    null = site.target.spelling["null"]
    others = [branch for branch in out["anyOf"] if branch.get("type") != null]
    if not 0 < len(others) < len(out["anyOf"]):
        return out
    if len(others) > 1:
        return {**out, "anyOf": others, "nullable": True}
    outer = {key: value for key, value in out.items() if key != "anyOf"}
    merged, left = merge(outer, others[0])
    _note_lost(left, site)
    return {key: merged[key] for key in replace(out, "anyOf", others[0])} | {"nullable": True}


def _type(value: Any, _view: Schema, site: Site) -> Any:
    spelling = site.target.spelling
    if isinstance(value, list):
        return value
    return value if spelling[value] == value else spelling[value]


def _reference(ref: Any, _view: Schema, site: Site) -> Any:
    kept = site.references.keep(ref, site)
    return ref if kept == ref else kept


def _required(names: Any, view: Schema, site: Site) -> Any:
    return all_names(view) if site.target.all_required and is_object(view) else names


def _properties(given: Any, view: Schema, site: Site) -> Any:
    required = set(view.get("required", ()))
    out: Schema = {}
    for name, raw in given.items():
        optional = name not in required
        fitted = fit_node(raw, site.below(f"properties.{name}", "optional" if optional else "property"))
        out[name] = null_for_absent(fitted) if optional and site.target.all_required else fitted
    return given if all(out[name] is given[name] for name in given) else out


def _definitions(given: Any, _view: Schema, site: Site) -> Any:
    out = {name: fit_node(raw, site.defining(name)) for name, raw in given.items()}
    return given if all(out[name] is given[name] for name in given) else out


def _several(keyword: str) -> Callable[[Any, Schema, Site], Any]:
    def write(given: Any, _view: Schema, site: Site) -> Any:
        out = [fit_node(raw, site.below(f"{keyword}[{index}]")) for index, raw in enumerate(given)]
        return given if all(new is old for new, old in zip(out, given, strict=True)) else out

    return write


def _items(given: Any, _view: Schema, site: Site) -> Any:
    return fit_node(given, site.below("items", "items"))


def _extra(given: Any, _view: Schema, site: Site) -> Any:
    return given if isinstance(given, bool) else fit_node(given, site.below("additionalProperties"))


_WRITE: Mapping[str, Callable[[Any, Schema, Site], Any]] = {
    "type": _type,
    "$ref": _reference,
    "required": _required,
    "properties": _properties,
    "$defs": _definitions,
    "anyOf": _several("anyOf"),
    "prefixItems": _several("prefixItems"),
    "items": _items,
    "additionalProperties": _extra,
}


def _described(out: Schema, left: Schema, can_describe: bool, site: Site) -> Schema:
    """Put what is left over into words, or drop it; note which."""
    spoken: Schema = {}
    for keyword, value in left.items():
        if keyword == "unevaluatedProperties" and value is False and site.target.closed:
            continue
        if keyword in SPOKEN and can_describe and not _may_go(keyword, value):
            spoken[keyword] = value
            site.note(keyword, "described", f"{site.target.name} cannot say this here; it stands in the description")
        else:
            site.note(keyword, "dropped", _why_dropped(keyword, value, site.target))
    if not spoken:
        return out
    text = ", ".join(f"{keyword}: {json.dumps(spoken[keyword], ensure_ascii=False)}" for keyword in sorted(spoken))
    site.document.spend(len(text) // TEXT_UNIT, site.path)
    before = out.get("description")
    return {**out, "description": f"{before} ({text})" if before else f"({text})"}


def _may_go(keyword: str, value: Any) -> bool:
    """Whether a keyword is dropped even where it could be put into words."""
    return (keyword == "additionalProperties" and value is False) or _constrains_nothing(keyword, value)


def _constrains_nothing(keyword: str, value: Any) -> bool:
    return keyword in CONSTRAINS_NOTHING and same(value, CONSTRAINS_NOTHING[keyword])


def _why_dropped(keyword: str, value: Any, target: Target) -> str:
    if _constrains_nothing(keyword, value):
        return "constrains nothing"
    if keyword == "additionalProperties" and value is False:
        return f"{target.name} cannot forbid extra properties"
    return f"{target.name} has no place for this"
