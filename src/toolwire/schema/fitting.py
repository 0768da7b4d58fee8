"""A schema rewritten for a target, in steps: normalized, respelled, and written with the supported keywords.

Rules of this file:
- An unsupported constraint moves to the description of the same subschema, as `(maxLength: 5, minLength: 1)`, sorted
  by keyword and with JSON values. A keyword that constrains nothing is dropped. All of this is noted, except for mere
  identifiers.
- A subschema that needs no change is the same object in the result. The given schema is never changed.
- References are kept if the target supports them, and written out otherwise.
- If a target requires a missing type, it is inferred from the literals or the other keywords. Without any, the value
  is narrowed to a scalar.
- `const` becomes an `enum` of one. A bound that excludes an integer becomes the next integer. A tuple that is closed
  becomes a list of any of its members, and any other tuple a list of anything.
- Every required name is declared. A property that is forbidden by `false` is left out of a closed object. Closing an
  open object is noted, unless the object lists its properties and has no rule for others.
- What a schema accepts, the fitted schema accepts too. A note about anything else says "narrowed". Strict mode itself
  needs no note: objects that list their properties are closed, and optional properties accept null instead.
- A schema is rejected if it is ill-formed, recursive where the target does not support it, or too large: more than
  100 levels of subschemas, or 100,000 JSON values once references and unions are written out.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from toolwire.errors import InvalidSchema
from toolwire.schema.combining import any_of, merge, merge_conjunction, merge_root_alternatives, normalize_unions
from toolwire.schema.conformance import fit_quickly
from toolwire.schema.document import MAX_DEPTH, TEXT_UNIT, Allowance, RootSchema, Site, too_deep
from toolwire.schema.draft import (
    as_list,
    canonical_json,
    is_json_type,
    is_number,
    json_type_of,
    normalize_subschema,
    replace_keyword,
)
from toolwire.schema.targets import (
    BY_NAME,
    CONSTRAINTS,
    DESCRIBABLE,
    IDENTIFIERS,
    KEYWORDS_OF,
    OBJECT_KEYWORDS,
    ROOTS,
    SCALARS,
    TARGETS,
    TYPED_KEYWORDS,
    Fitted,
    Schema,
    Target,
    changes_calls,
    is_droppable,
)

_REJECTED_AT_ROOT = {name: CONSTRAINTS - target.root_keywords for name, target in ROOTS.items()}
_write_json = msgspec.json.Encoder().encode
_read_json = msgspec.json.Decoder().decode
_INFERABLE_TYPES = ("object", "array", "string", "number")
_TYPE_OF_FORMAT: Mapping[str, str] = {"int32": "integer", "int64": "integer", "float": "number", "double": "number"}


def fit(schema: Schema, target: str, allowance: Allowance | None = None) -> Fitted:
    """Return `schema`, a tool's parameters, as `target` supports it: the same object if nothing has to change.

    The schemas of one request share an `allowance` for values that references and unions multiply.
    Raises `ValueError` for an unknown target, `InvalidSchema` for a schema that is ill-formed or too large, and
    `SchemaRecursive` for a cycle that the target does not support.

    >>> from toolwire.schema import fit
    >>> schema = {"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": 0}}}
    >>> fit(schema, "gemini").schema["properties"]["n"]
    {'type': 'integer', 'minimum': 1}
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
    document.count_root()
    site = Site(rules, document, [], root=True)
    written = _fit_root(schema, site)
    document.reject_cycles(rules)
    return Fitted(written, tuple(site.notes))


def _fit_root(schema: Schema, site: Site) -> Any:
    view = normalize_subschema(schema, "")
    if view.keys() & {"$ref", "allOf"}:
        view, site = _merge_conjunction(view, site)
    out = _write(_apply_steps(_require_object(merge_root_alternatives(view, site)), site), site)
    hoisted: Schema = {}
    while site.document.pending:
        name, ref = site.document.pending.popleft()
        hoisted[name] = _fit_node(site.document.expand(ref, ""), site.defining(name))
    if hoisted:
        out = {**out, "$defs": {**out.get("$defs", {}), **hoisted}}
    return _reuse(schema, out)


def fit_root(schema: Schema, target: str, allowance: Allowance | None = None) -> Fitted:
    """Return parameters whose root is an object, as `target` accepts them without strict mode.

    Below the root they stay as they are.
    """
    rules, rejected = ROOTS[target], _REJECTED_AT_ROOT[target]
    root_type = schema.get("type")
    simple = rejected.isdisjoint(schema)
    if simple and root_type == "object" and (type(schema.get("properties")) is dict or not rules.listed):
        return Fitted(schema)
    document = RootSchema(schema, allowance)
    view, site = schema, Site(rules, document, [], root=True)
    if not simple:
        document.count_root()
        view, site = _merge_conjunction(normalize_subschema(schema, ""), site)
    if view.get("type", "object") != "object":
        site.note("type", "approximated", f"{target} accepts only an object at the root")
    view = {"type": "object", **view} | {"type": "object"}
    view = view if simple else merge_root_alternatives(view, site)
    leftover = {keyword: value for keyword, value in view.items() if keyword in rejected}
    out = {keyword: value for keyword, value in view.items() if keyword not in rejected}
    if rules.listed:
        out["properties"] = out.get("properties") or {}
    out = _describe(out, leftover, True, site)
    for keyword in sorted(rejected & schema.keys() - {note.keyword for note in site.notes}):
        site.note(keyword, "approximated", f"written out: {target} does not accept this at the root", changes=False)
    return Fitted(out, tuple(site.notes))


def _require_object(view: Schema) -> Schema:
    if "type" not in view:
        view = {"type": "object", **view}
    elif not _is_object(view):
        types = " or ".join(as_list(view["type"]))
        raise InvalidSchema(f"the parameters of a tool are an object, not {types}; make it a property", path="type")
    elif view["type"] != "object":
        view = {**view, "type": "object"}
    return view if "properties" in view else {**view, "properties": {}}


def _fit_node(raw: Any, site: Site) -> Any:
    if site.depth > MAX_DEPTH:
        raise too_deep(site.path)
    if isinstance(raw, dict) and _is_plain_scalar(raw, site.target):
        return raw
    site.document.spend(1, site.path)
    view, site = _expand_references(normalize_subschema(raw, site.path), site)
    return _reuse(raw, _write(_apply_steps(view, site), site))


def _is_plain_scalar(node: Schema, target: Target) -> bool:
    """Return True if `node` has only a scalar type and a description, which every target supports as it is."""
    size = len(node)
    return node.get("type") in target.scalars and (size == 1 or (size == 2 and type(node.get("description")) is str))


def _reuse(old: Any, new: Any) -> Any:
    """Return `old` if `new` is equal to it, so that unchanged parts stay the same object."""
    if isinstance(new, dict):
        unchanged = isinstance(old, dict) and [*old] == [*new] and all(map(_is_unchanged, old.values(), new.values()))
    elif isinstance(new, list):
        unchanged = isinstance(old, list) and len(old) == len(new) and all(map(_is_unchanged, old, new))
    else:
        unchanged = _is_unchanged(old, new)
    return old if unchanged else new


def _is_unchanged(old: Any, new: Any) -> bool:
    return old is new or (isinstance(new, str) and old == new)


def _merge_conjunction(view: Schema, site: Site) -> tuple[Schema, Site]:
    joined, site, lost = merge_conjunction(view, site)
    _note_lost(lost, site)
    return joined, site


def _note_lost(keywords: Iterable[str], site: Site) -> None:
    for keyword in keywords:
        site.note(keyword, "dropped", "another schema that applies to the same value has this keyword too")


def _expand_references(view: Schema, site: Site) -> tuple[Schema, Site]:
    """Write out conjunctions, and the references that the target does not support."""
    if view.keys() & {"$ref", "allOf"}:
        ref = _sole_reference(view)
        if ref is None or site.target.inlined:
            view, site = _merge_conjunction(view, site)
        else:
            kept = {key: value for key, value in view.items() if key not in IDENTIFIERS}
            keyword = "$ref" if "$ref" in kept else "allOf"
            view = replace_keyword(kept, keyword, {"$ref": ref} if len(kept) == 1 else {"anyOf": [{"$ref": ref}]})
    return view, site


def _sole_reference(view: Schema) -> str | None:
    """Return the reference if it is the only constraint of `view`. Annotations beside it are ignored."""
    constraints = view.keys() & CONSTRAINTS
    if constraints == {"$ref"}:
        return str(view["$ref"])
    if constraints == {"allOf"} and len(view["allOf"]) == 1:
        (member,) = view["allOf"]
        if isinstance(member, dict) and member.keys() == {"$ref"} and isinstance(member["$ref"], str):
            return member["$ref"]
    return None


def _apply_steps(view: Schema, site: Site) -> Schema:
    for step, keywords in _STEPS_OF[site.target.name]:
        if not keywords or not keywords.isdisjoint(view):
            view = step(view, site)
    return view


def _type_from_keywords(view: Schema) -> str | None:
    for json_type in _INFERABLE_TYPES:
        if view.keys() & KEYWORDS_OF[json_type]:
            return _TYPE_OF_FORMAT.get(view.get("format", ""), json_type) if json_type == "string" else json_type
    return None


def _infer_type(view: Schema, site: Site) -> Schema:
    """Add the type that the target requires."""
    target = site.target
    if not target.typed or view.keys() & {"type", "anyOf", "$ref"}:
        return view
    keyword = "const" if "const" in view else "enum"
    if keyword in view:
        if not target.typed_literals and target.limits[keyword](view[keyword]):
            return view
        literals = view["enum"] if keyword == "enum" else [view["const"]]
        types = list(dict.fromkeys(map(json_type_of, literals)))
        if "number" in types and "integer" in types:
            types.remove("integer")
        return {"type": types if len(types) > 1 else types[0], **view}
    if json_type := _type_from_keywords(view):
        site.note(
            "type", "approximated", f"narrowed to {json_type}: the schema has no type, its keywords imply this one"
        )
        return {"type": json_type, **view}
    site.note("type", "approximated", "any value was allowed; narrowed to a scalar")
    return {"type": ["string", "number", "boolean", "null"], **view}


def _use_nullable(view: Schema, site: Site) -> Schema:
    """Replace the type "null" by `nullable`, if the target uses that keyword."""
    types = view.get("type")
    if not site.target.nullable or not isinstance(types, list) or "null" not in types:
        return view
    others = [json_type for json_type in types if json_type != "null"]
    changes: Schema = {"type": others if len(others) > 1 else others[0], "nullable": True}
    if "enum" in view:
        changes["enum"] = [value for value in view["enum"] if value is not None] or view["enum"]
    return {**view, **changes}


def _split_types(view: Schema, site: Site) -> Schema:
    """Replace a list of types by alternatives, each with the keywords and the literals of its type."""
    types = view.get("type")
    if not isinstance(types, list) or site.target.type_lists:
        return view
    parts = [part for json_type in types if (part := _narrow_to_type(view, json_type)) is not None]
    distributed = {"enum", "const"}.union(*(part.keys() for part in parts))
    irrelevant = [key for key in view if key in TYPED_KEYWORDS and key not in distributed]
    for keyword in irrelevant:
        site.note(keyword, "dropped", f"has no effect on {' or '.join(types)}", changes=False)
    outer = {key: value for key, value in view.items() if key == "type" or key not in distributed.union(irrelevant)}
    if not parts:
        parts = [{**view, "type": json_type} for json_type in types]
    return replace_keyword(outer, "type", parts[0] if len(parts) == 1 else {"anyOf": parts})


def _narrow_to_type(view: Schema, json_type: str) -> Schema | None:
    """Return `view` narrowed to one of its types, or None if no literal is of that type."""
    part: Schema = {"type": json_type}
    part |= {key: value for key, value in view.items() if key in KEYWORDS_OF[json_type]}
    if "enum" in view:
        part["enum"] = [value for value in view["enum"] if is_json_type(value, json_type)]
        if not part["enum"]:
            return None
    if "const" in view:
        part["const"] = view["const"]
        if not is_json_type(view["const"], json_type):
            return None
    return {"type": "null"} if json_type == "null" else part


def _const_to_enum(view: Schema, site: Site) -> Schema:
    """Replace `const` by an `enum` of one, for a target that supports only `enum`."""
    if "const" not in view:
        return view
    if "enum" in view and canonical_json(view["const"]) in set(map(canonical_json, view["enum"])):
        view = {key: value for key, value in view.items() if key != "enum"}
    if "const" in site.target.keywords or "enum" in view:
        return view
    return replace_keyword(view, "const", {"enum": [view["const"]]})


def _literals_to_strings(view: Schema, site: Site) -> Schema:
    """Write literals as strings, if the target accepts no others."""
    if not site.target.text_literals or "enum" not in view:
        return view
    values = view["enum"]
    if values == [None] and view.get("type") == "null":
        return {key: value for key, value in view.items() if key != "enum"}
    if all(isinstance(value, str) for value in values) or not site.target.limits["enum"](values):
        return view
    site.note("enum", "approximated", "narrowed to strings: the values are written as strings")
    return {**view, "enum": [value if isinstance(value, str) else json.dumps(value) for value in values]}


def _inclusive_bounds(view: Schema, site: Site) -> Schema:
    """Replace a bound that excludes an integer by the next integer."""
    if "exclusiveMinimum" in site.target.keywords or "minimum" not in site.target.keywords:
        return view
    if set(as_list(view.get("type"))) <= {"integer", "null"}:
        view = _inclusive_bound(view, "exclusiveMinimum", "minimum", 1)
        view = _inclusive_bound(view, "exclusiveMaximum", "maximum", -1)
    return view


def _inclusive_bound(view: Schema, excluding: str, including: str, step: int) -> Schema:
    bound: Any = view.get(excluding)
    if not is_number(bound) or (isinstance(bound, float) and not math.isfinite(bound)):
        return view
    nearest = (math.floor(bound) if step > 0 else math.ceil(bound)) + step
    if including in view:
        nearest = max(nearest, view[including]) if step > 0 else min(nearest, view[including])
    return replace_keyword(view, excluding, {including: nearest})


def _fit_array(view: Schema, site: Site) -> Schema:
    """Replace a tuple by a list of any of its members, and add the `items` that the target requires."""
    view = _close_tuple(view)
    if "prefixItems" in view and "prefixItems" not in site.target.keywords:
        return _tuple_to_list(view, site)
    if site.target.typed and "items" not in view and "array" in as_list(view.get("type")):
        return {**view, "items": {}}
    return view


def _tuple_to_list(view: Schema, site: Site) -> Schema:
    """Replace a tuple by a list of any of its members, or of anything if anything may follow the tuple."""
    members, additional = view["prefixItems"], view.get("items", True)
    if len(members) < view.get("maxItems", math.inf):
        if additional is not True and additional != {}:
            members = [*members, additional]
        elif site.target.typed:
            site.note(
                "prefixItems", "approximated", "narrowed: whatever follows the tuple must be like one of its members"
            )
        else:
            return {key: value for key, value in view.items() if key != "items"}
    return {**view, "items": any_of(list({canonical_json(member): member for member in members}.values()))}


def _close_tuple(view: Schema) -> Schema:
    """Replace `items: false`, which forbids items after a tuple, by `maxItems`."""
    if view.get("items") is not False:
        return view
    most = min(len(view.get("prefixItems", ())), view.get("maxItems", math.inf))
    return replace_keyword(view, "items", {"maxItems": most})


def _is_object(view: Schema) -> bool:
    return "object" in as_list(view.get("type"))


def _fit_object(view: Schema, site: Site) -> Schema:
    """Declare required properties, drop forbidden ones, and close the object if the target requires it."""
    if not _is_object(view):
        return _drop_object_keywords(view, site) if site.target.closed else _open_patterns(view, site)
    view = _open_patterns(view, site)
    extra = view.get("additionalProperties", True)
    required = dict.fromkeys(view.get("required", ()))
    properties = view.get("properties", {})
    closed = site.target.closed or extra is False
    listed = {name: node for name, node in properties.items() if node is not False or name in required or not closed}
    missing = [name for name in required if name not in properties]
    listed |= dict.fromkeys(missing, {} if extra is True else extra)
    if len(listed) != len(properties) or missing:
        view = {**view, "properties": listed}
    return _close_object(view, extra, site) if site.target.closed else view


def _open_patterns(view: Schema, site: Site) -> Schema:
    """Accept any property where patterns allow some: the target has no `patternProperties`, and needs other rules."""
    if not view.get("patternProperties"):
        return view
    if site.target.closed:
        site.note("patternProperties", "approximated", "narrowed: closed, only listed properties are accepted")
        return view if "additionalProperties" not in view else {**view, "additionalProperties": False}
    if view.get("additionalProperties", True) is True:
        return view
    detail = f"{site.target.name} has no patternProperties, so other properties are not restricted either"
    site.note("additionalProperties", "dropped", detail)
    return {key: value for key, value in view.items() if key != "additionalProperties"}


def _drop_object_keywords(view: Schema, site: Site) -> Schema:
    """Drop the keywords for objects where no object is accepted."""
    irrelevant = [keyword for keyword in view if keyword in OBJECT_KEYWORDS]
    for keyword in irrelevant:
        site.note(keyword, "dropped", "no object is accepted here", changes=False)
    return {key: value for key, value in view.items() if key not in irrelevant} if irrelevant else view


def _close_object(view: Schema, extra: Any, site: Site) -> Schema:
    if "properties" not in view:
        view = {**view, "properties": {}}
    if extra is False:
        return view
    if "additionalProperties" in view:
        site.note("additionalProperties", "approximated", "narrowed: closed, extra properties are no longer accepted")
    elif not view["properties"] and not site.root:
        detail = "narrowed: no property is declared, so only an empty object is accepted"
        site.note("properties", "approximated", detail)
    return {**view, "additionalProperties": False}


# Each step, the keywords that it needs to have an effect, and the targets that it is for.
_STEPS: tuple[tuple[Callable[[Schema, Site], Schema], frozenset[str], Callable[[Target], bool]], ...] = (
    (normalize_unions, frozenset({"anyOf", "oneOf"}), lambda _target: True),
    (_const_to_enum, frozenset({"const"}), lambda _target: True),
    (_infer_type, frozenset(), lambda target: target.typed),
    (_use_nullable, frozenset({"type"}), lambda target: target.nullable),
    (_split_types, frozenset({"type"}), lambda target: not target.type_lists),
    (_literals_to_strings, frozenset({"enum"}), lambda target: target.text_literals),
    (_inclusive_bounds, frozenset({"exclusiveMinimum", "exclusiveMaximum"}), lambda _target: True),
    (_fit_array, frozenset({"type", "items", "prefixItems"}), lambda _target: True),
    (_fit_object, frozenset(), lambda _target: True),
)
_STEPS_OF = {
    name: tuple((step, keywords) for step, keywords, serves in _STEPS if serves(target))
    for name, target in BY_NAME.items()
}


def _write(view: Schema, site: Site) -> Schema:
    """Write a subschema with the keywords that the target supports, and describe the others in words."""
    target = site.target
    keywords = target.root_keywords if site.root else target.keywords
    out: Schema = {}
    leftover: Schema = {}
    for keyword, value in view.items():
        if keyword in keywords and (keyword not in target.limits or target.limits[keyword](value)):
            write = _WRITERS.get(keyword)
            if write is None:
                out[keyword] = value
            else:
                written = write(value, view, site)
                out[keyword] = value if written is value else _reuse(value, written)
        elif keyword not in IDENTIFIERS:
            leftover[keyword] = value
    if target.all_required and "required" not in view and _is_object(view):
        out["required"] = _all_property_names(view)
    if target.nullable and "anyOf" in out:
        out = _null_to_nullable(out, site)
    return _describe(out, leftover, "description" in keywords, site) if leftover else out


def _properties(properties: Any, view: Schema, site: Site) -> Any:
    required = set(view.get("required", ()))
    out: Schema = {}
    for name, raw in properties.items():
        optional = name not in required
        fitted = _fit_node(raw, site.below(f"properties.{name}", "optional" if optional else "property"))
        out[name] = _accept_null(fitted) if optional and site.target.all_required else fitted
    return out


def _subschema_list(keyword: str) -> Callable[[Any, Schema, Site], Any]:
    return lambda nodes, _view, site: [
        _fit_node(raw, site.below(f"{keyword}[{index}]")) for index, raw in enumerate(nodes)
    ]


_WRITERS: Mapping[str, Callable[[Any, Schema, Site], Any]] = {
    "type": lambda types, _view, site: types if isinstance(types, list) else site.target.spelling[types],
    "$ref": lambda ref, _view, site: site.document.keep_reference(ref, site),
    "required": lambda names, view, site: (
        _all_property_names(view) if site.target.all_required and _is_object(view) else names
    ),
    "properties": _properties,
    "$defs": lambda nodes, _view, site: {name: _fit_node(raw, site.defining(name)) for name, raw in nodes.items()},
    "anyOf": _subschema_list("anyOf"),
    "prefixItems": _subschema_list("prefixItems"),
    "items": lambda node, _view, site: _fit_node(node, site.below("items", "items")),
    "additionalProperties": lambda extra, _view, site: (
        extra if isinstance(extra, bool) else _fit_node(extra, site.below("additionalProperties"))
    ),
}


def _all_property_names(view: Schema) -> list[str]:
    """Return all properties of an object as required names. The names in `required` come first."""
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


def _accept_null(schema: Schema) -> Schema:
    """Return a fitted property that also accepts null, with which the model leaves it out."""
    if _accepts_null(schema):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    types = as_list(schema.get("type"))
    if "const" in schema or not set(types) <= set(SCALARS):
        return {"anyOf": [schema, {"type": "null"}]}
    out = {**schema, "type": types if "null" in types else [*types, "null"]}
    if "enum" in schema:
        out["enum"] = [*schema["enum"], None]
    return out


def _null_to_nullable(out: Schema, site: Site) -> Schema:
    """Replace the alternative null by `nullable`. A single remaining alternative is merged into its parent."""
    null = site.target.spelling["null"]
    others = [branch for branch in out["anyOf"] if branch.get("type") != null]
    if not 0 < len(others) < len(out["anyOf"]):
        return out
    if len(others) > 1:
        return {**out, "anyOf": others, "nullable": True}
    outer = {key: value for key, value in out.items() if key != "anyOf"}
    merged, leftover = merge(outer, others[0])
    _note_lost(leftover, site)
    return {key: merged[key] for key in replace_keyword(out, "anyOf", others[0])} | {"nullable": True}


def _describe(out: Schema, leftover: Schema, can_describe: bool, site: Site) -> Schema:
    """Move the `leftover` keywords to the description, or drop them. Note each one."""
    texts: Schema = {}
    for keyword, value in leftover.items():
        if keyword == "unevaluatedProperties" and value is False and site.target.closed:
            continue
        if keyword in DESCRIBABLE and can_describe and not is_droppable(keyword, value):
            texts[keyword] = value
            site.note(
                keyword, "described", f"{site.target.name} does not support this here; it was moved to the description"
            )
        else:
            site.note(keyword, "dropped", site.target.why_dropped(keyword, value), changes_calls(keyword, value))
    if not texts:
        return out
    text = ", ".join(f"{keyword}: {json.dumps(texts[keyword], ensure_ascii=False)}" for keyword in sorted(texts))
    site.document.spend(len(text) // TEXT_UNIT, site.path)
    description = out.get("description")
    return {**out, "description": f"{description} ({text})" if description else f"({text})"}
