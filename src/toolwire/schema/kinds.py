"""Types, literals and bounds in the form that a target understands; each step gives the subschema respelled.

Rules of this file:
- A type that is missing where a target insists on one is read off the literals or the keywords beside it;
  where there are none, the value is narrowed to a scalar.
- `const` becomes an `enum` of one, a bound that excludes an integer the next integer, a tuple a list of any
  of its members.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from toolwire.schema.conjunction import any_of, as_list, exact
from toolwire.schema.draft import is_number, replace
from toolwire.schema.site import Site
from toolwire.schema.targets import ANY_SCALAR, KEYWORDS_OF, TYPED_KEYWORDS, Schema

_READ_OFF = ("object", "array", "string", "number")
_FORMAT_OF: Mapping[str, str] = {
    "int32": "integer",
    "int64": "integer",
    "float": "number",
    "double": "number",
}


def kind_of(value: Any) -> str:
    """Name the JSON type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def is_kind(value: Any, kind: str) -> bool:
    """Whether a value is of a JSON type; an integer is a number."""
    actual = kind_of(value)
    return actual == kind or (kind == "number" and actual == "integer")


def _read_off(view: Schema) -> str | None:
    for kind in _READ_OFF:
        if view.keys() & KEYWORDS_OF[kind]:
            return _FORMAT_OF.get(view.get("format", ""), kind) if kind == "string" else kind
    return None


def infer_type(view: Schema, site: Site) -> Schema:
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
    return {"type": list(ANY_SCALAR), **view}


def spell_null(view: Schema, site: Site) -> Schema:
    """Say the type null as `nullable`, where the target says it so."""
    kinds = view.get("type")
    if not site.target.nullable or not isinstance(kinds, list) or "null" not in kinds:
        return view
    others = [kind for kind in kinds if kind != "null"]
    rest: Schema = {"type": others if len(others) > 1 else others[0], "nullable": True}
    if "enum" in view:
        rest["enum"] = [value for value in view["enum"] if value is not None] or view["enum"]
    return {**view, **rest}


def split_types(view: Schema, site: Site) -> Schema:
    """Say a list of types as alternatives, each with the keywords and the literals of its type."""
    kinds = view.get("type")
    if not isinstance(kinds, list) or site.target.type_lists:
        return view
    own = {kind: _part(view, kind) for kind in kinds}
    possible = [part for part in own.values() if part is not None]
    taken = {"enum", "const"}.union(*(part.keys() for part in possible))
    idle = [key for key in view if key in TYPED_KEYWORDS and key not in taken]
    for keyword in idle:
        site.note(keyword, "dropped", f"says nothing about {' or '.join(kinds)}")
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


def settle_const(view: Schema, site: Site) -> Schema:
    """Say the one literal where several would stand, for a target that knows `enum` alone."""
    if "const" not in view:
        return view
    if "enum" in view and exact(view["const"]) in set(map(exact, view["enum"])):
        view = {key: value for key, value in view.items() if key != "enum"}
    if "const" in site.target.keywords or "enum" in view:
        return view
    return replace(view, "const", {"enum": [view["const"]]})


def settle_texts(view: Schema, site: Site) -> Schema:
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


def settle_bounds(view: Schema, site: Site) -> Schema:
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


def settle_items(view: Schema, site: Site) -> Schema:
    """Say what an array holds: a tuple any of its members, one of unknown items anything."""
    view = _ended(view)
    if "prefixItems" in view and "prefixItems" not in site.target.keywords:
        rest = view.get("items")
        members = _distinct([*view["prefixItems"], rest] if isinstance(rest, dict) and rest else view["prefixItems"])
        return {**view, "items": any_of(members)}
    if site.target.typed and "items" not in view and "array" in as_list(view.get("type")):
        return {**view, "items": {}}
    return view


def _ended(view: Schema) -> Schema:
    """Say that nothing may follow the members of a tuple by their number."""
    if view.get("items") is not False:
        return view
    most = min(len(view.get("prefixItems", ())), view.get("maxItems", math.inf))
    return replace(view, "items", {"maxItems": most})


def _distinct(schemas: list[Any]) -> list[Any]:
    return list({exact(schema): schema for schema in schemas}.values())
