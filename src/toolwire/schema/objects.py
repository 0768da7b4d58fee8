"""Object schemas as a target wants them: every required name declared, closed where strictness asks for it.

Rules of this file:
- Closing an object that was open is noted, unless it lists its properties and says nothing about others.
- A property that may not be there at all is left out of a closed object.
"""

from typing import Any

from toolwire.schema.conjunction import as_list
from toolwire.schema.draft import replace
from toolwire.schema.site import Site
from toolwire.schema.targets import OBJECT_KEYWORDS, SCALARS, Schema


def is_object(view: Schema) -> bool:
    """Whether a subschema accepts objects by its type."""
    return "object" in as_list(view.get("type"))


def settle_object(view: Schema, site: Site) -> Schema:
    """Declare what is required, leave out what is forbidden, close what must be closed."""
    if not is_object(view):
        return _no_object(view, site) if site.target.closed else view
    extra = view.get("additionalProperties", True)
    required = dict.fromkeys(view.get("required", ()))
    properties = view.get("properties", {})
    closed = site.target.closed or extra is False
    listed = {name: said for name, said in properties.items() if said is not False or name in required or not closed}
    missing = [name for name in required if name not in properties]
    listed |= dict.fromkeys(missing, {} if extra is True else extra)
    if len(listed) != len(properties) or missing:
        view = (
            replace(view, "properties", {"properties": listed})
            if "properties" in view
            else {**view, "properties": listed}
        )
    return _closed(view, extra, site) if site.target.closed else view


def _no_object(view: Schema, site: Site) -> Schema:
    """Leave out what speaks of objects, where none is accepted."""
    idle = [keyword for keyword in view if keyword in OBJECT_KEYWORDS]
    for keyword in idle:
        site.note(keyword, "dropped", "no object is accepted here")
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


def all_names(view: Schema) -> list[str]:
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


def null_for_absent(schema: Schema) -> Schema:
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
