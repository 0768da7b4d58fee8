"""A schema in the words of a target: read, respelled step by step, written out.

Rules of this file:
- What a target cannot say goes into the description of the same subschema, as `(maxLength: 5, minLength: 1)`:
  sorted by keyword, values as JSON. What constrains nothing is dropped. All is noted, but mere identifiers.
- What needs no change is the same object in the result; nothing that was given is ever changed.
- References are kept where the target follows them, and written out elsewhere.
- A type that is missing where a target insists on one is read off the literals or the keywords beside it;
  where there are none, the value is narrowed to a scalar.
- `const` becomes an `enum` of one, a bound that excludes an integer the next integer, a tuple a list of any
  of its members.
- Every required name is declared, and a property that may not be there at all is left out of a closed object.
  Closing an object that was open is noted, unless it lists its properties and says nothing about others.
- A schema is refused by name when it is ill-formed, recursive where that is not understood, or too large:
  more than 100 levels of subschemas, or 100,000 JSON values once references and unions are written out.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from toolwire.errors import InvalidSchema
from toolwire.schema.combining import any_of, conjoin, flatten, merge, unite
from toolwire.schema.conformance import fit_quickly
from toolwire.schema.document import MAX_DEPTH, TEXT_UNIT, Allowance, RootSchema, Site, too_deep
from toolwire.schema.draft import as_list, exact, is_kind, is_number, kind_of, present, replace
from toolwire.schema.targets import (
    BY_NAME,
    CONSTRAINTS,
    IDENTIFIERS,
    KEYWORDS_OF,
    OBJECT_KEYWORDS,
    ROOTS,
    SCALARS,
    SPOKEN,
    TARGETS,
    TYPED_KEYWORDS,
    Fitted,
    Schema,
    Target,
    asks_for_calls,
    may_go,
)

_REFUSED = {name: CONSTRAINTS - target.root_keywords for name, target in ROOTS.items()}
_write_json = msgspec.json.Encoder().encode
_read_json = msgspec.json.Decoder().decode
_READ_OFF = ("object", "array", "string", "number")
_FORMAT_OF: Mapping[str, str] = {"int32": "integer", "int64": "integer", "float": "number", "double": "number"}


def fit(schema: Schema, target: str, allowance: Allowance | None = None) -> Fitted:
    """Write a tool's parameters as a target understands them; the same object if nothing has to change.

    The schemas of one request share an `allowance` for what they are multiplied by.
    """
    rules = BY_NAME.get(target)
    if rules is None:
        raise ValueError(f"unknown target {target!r}; known: {', '.join(TARGETS)}")
    if (fitted := fit_quickly(schema, rules)) is not None:
        return fitted
    return _fit(schema, rules, Allowance() if allowance is None else allowance)


def _fit(schema: Any, rules: Target, allowance: Allowance) -> Fitted:
    if not isinstance(schema, dict):
        raise InvalidSchema(f"the parameters of a tool are a JSON Schema object, not {type(schema).__name__}")
    document = RootSchema(schema, allowance)
    document.open()
    site = Site(rules, document, [], root=True)
    written = _fit_root(schema, site)
    document.refuse_cycles(rules)
    return Fitted(written, tuple(site.notes))


def _fit_root(schema: Schema, site: Site) -> Any:
    view = present(schema, "")
    if view.keys() & {"$ref", "allOf"}:
        view, site = _joined(view, site)
    out = _write(_respelled(_as_object(flatten(view, site)), site), site)
    hoisted: Schema = {}
    while site.document.pending:
        name, ref = site.document.pending.popleft()
        hoisted[name] = _fit_node(site.document.expand(ref, ""), site.defining(name))
    if hoisted:
        out = {**out, "$defs": {**out.get("$defs", {}), **hoisted}}
    return _shared(schema, out)


def fit_root(schema: Schema, target: str, allowance: Allowance | None = None) -> Fitted:
    """Write parameters whose root is an object as a target takes it; below the root they stay as they are."""
    rules, refused = ROOTS[target], _REFUSED[target]
    given = schema.get("type")
    simple = refused.isdisjoint(schema)
    if simple and given == "object" and (type(schema.get("properties")) is dict or not rules.listed):
        return Fitted(schema)
    document = RootSchema(schema, allowance)
    view, site = schema, Site(rules, document, [], root=True)
    if not simple:
        document.open()
        view, site = _joined(present(schema, ""), site)
    if view.get("type", "object") != "object":
        site.note("type", "approximated", f"{target} takes only an object at the root")
    view = {"type": "object", **view} | {"type": "object"}
    view = view if simple else flatten(view, site)
    left = {keyword: value for keyword, value in view.items() if keyword in refused}
    out = {keyword: value for keyword, value in view.items() if keyword not in refused}
    if rules.listed:
        out["properties"] = out.get("properties") or {}
    out = _described(out, left, True, site)
    for keyword in sorted(refused & schema.keys() - {note.keyword for note in site.notes}):
        site.note(keyword, "approximated", f"written out: {target} takes none at the root", changes=False)
    return Fitted(out, tuple(site.notes))


def _as_object(view: Schema) -> Schema:
    if "type" not in view:
        view = {"type": "object", **view}
    elif not _is_object(view):
        kinds = " or ".join(as_list(view["type"]))
        raise InvalidSchema(f"the parameters of a tool are an object, not {kinds}; make it a property", path="type")
    elif view["type"] != "object":
        view = {**view, "type": "object"}
    return view if "properties" in view else {**view, "properties": {}}


def _fit_node(raw: Any, site: Site) -> Any:
    if site.depth > MAX_DEPTH:
        raise too_deep(site.path)
    if isinstance(raw, dict) and _is_plain(raw, site.target):
        return raw
    site.document.spend(1, site.path)
    view, site = _write_out(present(raw, site.path), site)
    return _shared(raw, _write(_respelled(view, site), site))


def _is_plain(node: Schema, target: Target) -> bool:
    """Whether a subschema is a scalar type and a description, which goes everywhere as it is."""
    size = len(node)
    return node.get("type") in target.scalars and (size == 1 or (size == 2 and type(node.get("description")) is str))


def _shared(old: Any, new: Any) -> Any:
    """Give back what was given, where writing it has changed nothing."""
    if isinstance(new, dict):
        unchanged = isinstance(old, dict) and [*old] == [*new] and all(map(_is_same, old.values(), new.values()))
    elif isinstance(new, list):
        unchanged = isinstance(old, list) and len(old) == len(new) and all(map(_is_same, old, new))
    else:
        unchanged = _is_same(old, new)
    return old if unchanged else new


def _is_same(old: Any, new: Any) -> bool:
    return old is new or (isinstance(new, str) and old == new)


def _joined(view: Schema, site: Site) -> tuple[Schema, Site]:
    joined, site, lost = conjoin(view, site)
    _note_lost(lost, site)
    return joined, site


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


def _respelled(view: Schema, site: Site) -> Schema:
    for step, keywords in _STEPS_OF[site.target.name]:
        if not keywords or not keywords.isdisjoint(view):
            view = step(view, site)
    return view


def _read_off(view: Schema) -> str | None:
    for kind in _READ_OFF:
        if view.keys() & KEYWORDS_OF[kind]:
            return _FORMAT_OF.get(view.get("format", ""), kind) if kind == "string" else kind
    return None


def _infer_type(view: Schema, site: Site) -> Schema:
    """Add the type that a target insists on."""
    target = site.target
    if not target.typed or view.keys() & {"type", "anyOf", "$ref"}:
        return view
    keyword = "const" if "const" in view else "enum"
    if keyword in view:
        if not target.typed_literals and target.limits[keyword](view[keyword]):
            return view
        literals = view["enum"] if keyword == "enum" else [view["const"]]
        kinds = list(dict.fromkeys(map(kind_of, literals)))
        if "number" in kinds and "integer" in kinds:
            kinds.remove("integer")
        return {"type": kinds if len(kinds) > 1 else kinds[0], **view}
    if kind := _read_off(view):
        site.note("type", "approximated", f"no type was given; its keywords make it {kind}")
        return {"type": kind, **view}
    site.note("type", "approximated", "any value was allowed; narrowed to a scalar")
    return {"type": ["string", "number", "boolean", "null"], **view}


def _spell_null(view: Schema, site: Site) -> Schema:
    """Say the type null as `nullable`, where the target says it so."""
    kinds = view.get("type")
    if not site.target.nullable or not isinstance(kinds, list) or "null" not in kinds:
        return view
    others = [kind for kind in kinds if kind != "null"]
    rest: Schema = {"type": others if len(others) > 1 else others[0], "nullable": True}
    if "enum" in view:
        rest["enum"] = [value for value in view["enum"] if value is not None] or view["enum"]
    return {**view, **rest}


def _split_types(view: Schema, site: Site) -> Schema:
    """Say a list of types as alternatives, each with the keywords and the literals of its type."""
    kinds = view.get("type")
    if not isinstance(kinds, list) or site.target.type_lists:
        return view
    possible = [part for kind in kinds if (part := _part(view, kind)) is not None]
    taken = {"enum", "const"}.union(*(part.keys() for part in possible))
    idle = [key for key in view if key in TYPED_KEYWORDS and key not in taken]
    for keyword in idle:
        site.note(keyword, "dropped", f"says nothing about {' or '.join(kinds)}", changes=False)
    outer = {key: value for key, value in view.items() if key == "type" or key not in taken.union(idle)}
    if not possible:
        possible = [{**view, "type": kind} for kind in kinds]
    return replace(outer, "type", possible[0] if len(possible) == 1 else {"anyOf": possible})


def _part(view: Schema, kind: str) -> Schema | None:
    """One type of several, with what belongs to it; none when no literal is of it."""
    part: Schema = {"type": kind}
    part |= {key: value for key, value in view.items() if key in KEYWORDS_OF[kind]}
    if "enum" in view:
        part["enum"] = [value for value in view["enum"] if is_kind(value, kind)]
        if not part["enum"]:
            return None
    if "const" in view:
        part["const"] = view["const"]
        if not is_kind(view["const"], kind):
            return None
    return {"type": "null"} if kind == "null" else part


def _settle_const(view: Schema, site: Site) -> Schema:
    """Say the one literal where several would stand, for a target that knows `enum` alone."""
    if "const" not in view:
        return view
    if "enum" in view and exact(view["const"]) in set(map(exact, view["enum"])):
        view = {key: value for key, value in view.items() if key != "enum"}
    if "const" in site.target.keywords or "enum" in view:
        return view
    return replace(view, "const", {"enum": [view["const"]]})


def _settle_texts(view: Schema, site: Site) -> Schema:
    """Write literals as strings, where the target takes no others."""
    if not site.target.text_literals or "enum" not in view:
        return view
    values = view["enum"]
    if values == [None] and view.get("type") == "null":
        return {key: value for key, value in view.items() if key != "enum"}
    if all(isinstance(value, str) for value in values) or not site.target.limits["enum"](values):
        return view
    site.note("enum", "approximated", "the values are written as strings")
    return {**view, "enum": [value if isinstance(value, str) else json.dumps(value) for value in values]}


def _settle_bounds(view: Schema, site: Site) -> Schema:
    """Say a bound that excludes an integer by the next integer."""
    if "exclusiveMinimum" in site.target.keywords or "minimum" not in site.target.keywords:
        return view
    if set(as_list(view.get("type"))) <= {"integer", "null"}:
        view = _inclusive(view, "exclusiveMinimum", "minimum", 1)
        view = _inclusive(view, "exclusiveMaximum", "maximum", -1)
    return view


def _inclusive(view: Schema, excluding: str, including: str, step: int) -> Schema:
    bound: Any = view.get(excluding)
    if not is_number(bound) or (isinstance(bound, float) and not math.isfinite(bound)):
        return view
    nearest = (math.floor(bound) if step > 0 else math.ceil(bound)) + step
    if including in view:
        nearest = max(nearest, view[including]) if step > 0 else min(nearest, view[including])
    return replace(view, excluding, {including: nearest})


def _settle_items(view: Schema, site: Site) -> Schema:
    """Say what an array holds: a tuple any of its members, one of unknown items anything."""
    view = _ended(view)
    if "prefixItems" in view and "prefixItems" not in site.target.keywords:
        rest = view.get("items")
        members = [*view["prefixItems"], *([rest] if isinstance(rest, dict) and rest else [])]
        return {**view, "items": any_of(list({exact(member): member for member in members}.values()))}
    if site.target.typed and "items" not in view and "array" in as_list(view.get("type")):
        return {**view, "items": {}}
    return view


def _ended(view: Schema) -> Schema:
    """Say that nothing may follow the members of a tuple by their number."""
    if view.get("items") is not False:
        return view
    most = min(len(view.get("prefixItems", ())), view.get("maxItems", math.inf))
    return replace(view, "items", {"maxItems": most})


def _is_object(view: Schema) -> bool:
    return "object" in as_list(view.get("type"))


def _settle_object(view: Schema, site: Site) -> Schema:
    """Declare what is required, leave out what is forbidden, close what must be closed."""
    if not _is_object(view):
        return _no_object(view, site) if site.target.closed else view
    extra = view.get("additionalProperties", True)
    required = dict.fromkeys(view.get("required", ()))
    properties = view.get("properties", {})
    closed = site.target.closed or extra is False
    listed = {name: node for name, node in properties.items() if node is not False or name in required or not closed}
    missing = [name for name in required if name not in properties]
    listed |= dict.fromkeys(missing, {} if extra is True else extra)
    if len(listed) != len(properties) or missing:
        view = {**view, "properties": listed}
    return _closed(view, extra, site) if site.target.closed else view


def _no_object(view: Schema, site: Site) -> Schema:
    """Leave out what speaks of objects, where none is accepted."""
    idle = [keyword for keyword in view if keyword in OBJECT_KEYWORDS]
    for keyword in idle:
        site.note(keyword, "dropped", "no object is accepted here", changes=False)
    return {key: value for key, value in view.items() if key not in idle} if idle else view


def _closed(view: Schema, extra: Any, site: Site) -> Schema:
    if "properties" not in view:
        view = {**view, "properties": {}}
    if extra is False:
        return view
    if "additionalProperties" in view:
        site.note("additionalProperties", "approximated", "closed: no extra property can be given")
    elif not view["properties"] and not site.root:
        site.note("properties", "approximated", "no property is declared, so only an empty object can be given")
    return {**view, "additionalProperties": False}


# Each step, the keywords without which it does nothing, and the targets that it does something for.
_STEPS: tuple[tuple[Callable[[Schema, Site], Schema], frozenset[str], Callable[[Target], bool]], ...] = (
    (unite, frozenset({"anyOf", "oneOf"}), lambda _target: True),
    (_settle_const, frozenset({"const"}), lambda _target: True),
    (_infer_type, frozenset(), lambda target: target.typed),
    (_spell_null, frozenset({"type"}), lambda target: target.nullable),
    (_split_types, frozenset({"type"}), lambda target: not target.type_lists),
    (_settle_texts, frozenset({"enum"}), lambda target: target.text_literals),
    (_settle_bounds, frozenset({"exclusiveMinimum", "exclusiveMaximum"}), lambda _target: True),
    (_settle_items, frozenset({"type", "items", "prefixItems"}), lambda _target: True),
    (_settle_object, frozenset(), lambda _target: True),
)
_STEPS_OF = {
    name: tuple((step, keywords) for step, keywords, serves in _STEPS if serves(target))
    for name, target in BY_NAME.items()
}


def _write(view: Schema, site: Site) -> Schema:
    """Write a subschema in what a target has keywords for; put the rest into words."""
    target = site.target
    keywords = target.root_keywords if site.root else target.keywords
    out: Schema = {}
    left: Schema = {}
    for keyword, value in view.items():
        if keyword in keywords and (keyword not in target.limits or target.limits[keyword](value)):
            write = _WRITE.get(keyword)
            if write is None:
                out[keyword] = value
            else:
                written = write(value, view, site)
                out[keyword] = value if written is value else _shared(value, written)
        elif keyword not in IDENTIFIERS:
            left[keyword] = value
    if target.all_required and "required" not in view and _is_object(view):
        out["required"] = _all_names(view)
    if target.nullable and "anyOf" in out:
        out = _null_aside(out, site)
    return _described(out, left, "description" in keywords, site) if left else out


def _properties(properties: Any, view: Schema, site: Site) -> Any:
    required = set(view.get("required", ()))
    out: Schema = {}
    for name, raw in properties.items():
        optional = name not in required
        fitted = _fit_node(raw, site.below(f"properties.{name}", "optional" if optional else "property"))
        out[name] = _null_for_absent(fitted) if optional and site.target.all_required else fitted
    return out


def _several(keyword: str) -> Callable[[Any, Schema, Site], Any]:
    return lambda nodes, _view, site: [
        _fit_node(raw, site.below(f"{keyword}[{index}]")) for index, raw in enumerate(nodes)
    ]


_WRITE: Mapping[str, Callable[[Any, Schema, Site], Any]] = {
    "type": lambda kinds, _view, site: kinds if isinstance(kinds, list) else site.target.spelling[kinds],
    "$ref": lambda ref, _view, site: site.document.keep(ref, site),
    "required": lambda names, view, site: _all_names(view) if site.target.all_required and _is_object(view) else names,
    "properties": _properties,
    "$defs": lambda nodes, _view, site: {name: _fit_node(raw, site.defining(name)) for name, raw in nodes.items()},
    "anyOf": _several("anyOf"),
    "prefixItems": _several("prefixItems"),
    "items": lambda node, _view, site: _fit_node(node, site.below("items", "items")),
    "additionalProperties": lambda extra, _view, site: (
        extra if isinstance(extra, bool) else _fit_node(extra, site.below("additionalProperties"))
    ),
}


def _all_names(view: Schema) -> list[str]:
    """Every property of an object as a required one; the author's list first."""
    required: list[str] = view.get("required", [])
    every = dict.fromkeys([*required, *view.get("properties", ())])
    return list(every) if len(every) > len(required) else required


def _accepts_null(schema: Schema) -> bool:
    if "anyOf" in schema:
        return any(map(_accepts_null, schema["anyOf"]))
    if "const" in schema:
        return schema["const"] is None
    if "enum" in schema and None not in schema["enum"]:
        return False
    return "null" in as_list(schema.get("type")) or ("enum" in schema and "type" not in schema)


def _null_for_absent(schema: Schema) -> Schema:
    """Let a fitted property accept null as well, to say that it is absent."""
    if _accepts_null(schema):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    kinds = as_list(schema.get("type"))
    if "const" in schema or not set(kinds) <= set(SCALARS):
        return {"anyOf": [schema, {"type": "null"}]}
    out = {**schema, "type": kinds if "null" in kinds else [*kinds, "null"]}
    if "enum" in schema:
        out["enum"] = [*schema["enum"], None]
    return out


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


def _described(out: Schema, left: Schema, can_describe: bool, site: Site) -> Schema:
    """Put what is left over into words, or drop it; note which."""
    spoken: Schema = {}
    for keyword, value in left.items():
        if keyword == "unevaluatedProperties" and value is False and site.target.closed:
            continue
        if keyword in SPOKEN and can_describe and not may_go(keyword, value):
            spoken[keyword] = value
            site.note(keyword, "described", f"{site.target.name} cannot say this here; it stands in the description")
        else:
            site.note(keyword, "dropped", site.target.why_dropped(keyword, value), asks_for_calls(keyword, value))
    if not spoken:
        return out
    text = ", ".join(f"{keyword}: {json.dumps(spoken[keyword], ensure_ascii=False)}" for keyword in sorted(spoken))
    site.document.spend(len(text) // TEXT_UNIT, site.path)
    before = out.get("description")
    return {**out, "description": f"{before} ({text})" if before else f"({text})"}
