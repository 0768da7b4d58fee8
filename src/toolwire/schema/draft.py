"""One subschema in the spelling of JSON Schema draft 2020-12, whichever draft or dialect it was written in.

Rules of this file:
- A keyword with a value of the wrong type is rejected by name. A keyword that is null counts as absent, except where
  null is a value.
- OpenAPI's `nullable` becomes the type "null". The tuple of older drafts becomes `prefixItems`. An upper-case type
  (Gemini) and the number of a protobuf type become the type's name.
- A subschema that already has this spelling is returned as the same object.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from toolwire.errors import InvalidSchema
from toolwire.schema.targets import COMBINERS, CONSTRAINTS, TYPES, Schema

_NULL_IS_A_VALUE = frozenset({"const", "default", "example"})
_MAX_SHOWN = 60
# A path may appear in an error for each subschema, and property names may be as long as a request body.
_MAX_PATH = 2000
_COMMON_TEXTS = ("type", "description", "title")
_NUMBERED_TYPES = ("", "string", "number", "integer", "boolean", "array", "object", "null")


def json_type_of(value: Any) -> str:
    """Return the JSON Schema type of `value`. A float without a fraction is an integer, as the drafts define it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def is_json_type(value: Any, json_type: str) -> bool:
    """Return True if `value` is of `json_type`. An integer is also a number."""
    actual_type = json_type_of(value)
    return actual_type == json_type or (json_type == "number" and actual_type == "integer")


def is_same_json(first: Any, second: Any) -> bool:
    """Return True if both values are the same JSON. `true` and `1` are not."""
    return first is second or (first == second and canonical_json(first) == canonical_json(second))


def canonical_json(value: Any) -> str:
    """Write `value` as JSON text that equals only that of the same value."""
    return json.dumps(value, sort_keys=True)


def as_list(types: Any) -> list[str]:
    """Return the value of a `type` keyword as a list."""
    return types if isinstance(types, list) else [types]


def join_path(path: str, step: str) -> str:
    """Return the path of `step` below `path`. The path of the root is empty, and a long path is cut."""
    inner = f"{path}.{step}" if path else step
    return inner if len(inner) <= _MAX_PATH else f"{inner[: _MAX_PATH - 3]}..."


def is_number(value: Any) -> bool:
    """Return True if `value` is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_names(value: Any) -> bool:
    """Return True if `value` is a list of strings."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_count(value: Any) -> bool:
    return is_number(value) and value >= 0 and value == value // 1


def _is_non_empty_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_instance_of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


_KEYWORD_VALUES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("title description $ref pattern format contentEncoding contentMediaType", _is_instance_of(str), "a string"),
    ("$id $anchor $dynamicRef $recursiveRef", _is_instance_of(str), "a string"),
    ("properties patternProperties dependentSchemas $defs definitions", _is_instance_of(dict), "an object of schemas"),
    ("required propertyOrdering", is_names, "a list of property names"),
    ("anyOf oneOf prefixItems", _is_non_empty_list, "a list of at least one schema"),
    ("allOf", _is_instance_of(list), "a list of schemas"),
    ("items", _is_instance_of(dict, bool, list), "a schema"),
    ("additionalProperties unevaluatedProperties propertyNames", _is_instance_of(dict, bool), "a schema"),
    ("additionalItems unevaluatedItems contains not if then else", _is_instance_of(dict, bool), "a schema"),
    ("enum", _is_non_empty_list, "a list of at least one value"),
    ("minimum maximum", is_number, "a number"),
    ("exclusiveMinimum exclusiveMaximum", _is_instance_of(int, float), "a number"),
    ("multipleOf", lambda value: is_number(value) and value > 0, "a number above 0"),
    ("minLength maxLength minItems maxItems", _is_count, "a whole number of at least 0"),
    ("minProperties maxProperties minContains maxContains", _is_count, "a whole number of at least 0"),
    ("uniqueItems nullable", _is_instance_of(bool), "true or false"),
)
KEYWORD_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    keyword: (check, expected) for keywords, check, expected in _KEYWORD_VALUES for keyword in keywords.split()
}


def _check_values(node: Schema, path: str) -> Schema:
    """Raise `InvalidSchema` for a keyword with a value of the wrong type. Return `node` without null keywords."""
    nulls = False
    for keyword, value in node.items():
        if keyword in _COMMON_TEXTS and type(value) is str:
            continue
        if value is None and keyword not in _NULL_IS_A_VALUE:
            nulls = True
        elif (keyword_check := KEYWORD_CHECKS.get(keyword)) and not keyword_check[0](value):
            raise InvalidSchema(f"must be {keyword_check[1]}, not {_short_repr(value)}", path=join_path(path, keyword))
    if not nulls:
        return node
    return {key: value for key, value in node.items() if value is not None or key in _NULL_IS_A_VALUE}


def _short_repr(value: Any) -> str:
    if value is None or isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    return "an empty list" if value == [] else f"this {type(value).__name__}"


def _type_name(value: Any, path: str) -> str:
    if isinstance(value, str) and (name := value.lower()) in TYPES:
        return name
    if value == "TYPE_UNSPECIFIED":
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_NUMBERED_TYPES):
        return _NUMBERED_TYPES[value]
    raise InvalidSchema(
        f"unknown type {_short_repr(value)}; the types are {', '.join(TYPES)}", path=join_path(path, "type")
    )


def _normalize_types(node: Schema, path: str) -> Schema:
    types = node["type"]
    if type(types) is str and types in TYPES:
        return node
    names = [_type_name(value, path) for value in as_list(types)]
    if types == []:
        raise InvalidSchema("must name at least one type", path=join_path(path, "type"))
    names = [name for name in dict.fromkeys(names) if name]
    normalized = names if len(names) > 1 else "".join(names)
    if normalized == types:
        return node
    return replace_keyword(node, "type", {"type": normalized} if normalized else {})


def replace_keyword(node: Schema, keyword: str, new: Schema) -> Schema:
    """Return `node` with the keywords `new` in the position of `keyword`. They override equal keywords of `node`."""
    out: Schema = {}
    for key, value in node.items():
        if key == keyword:
            out.update(new)
        elif key not in new:
            out[key] = value
    return out


def _allow_null(node: Schema) -> Schema:
    constraints = node.keys() & CONSTRAINTS
    if constraints and constraints <= {"anyOf"}:
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    if not constraints & {"type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "$ref"}:
        return node
    if constraints & {"anyOf", "oneOf", "allOf", "not", "if", "$ref", "const"}:
        first = next(key for key in node if key in constraints)
        inner = {key: value for key, value in node.items() if key in constraints}
        outer = {key: value for key, value in node.items() if key not in constraints or key == first}
        return replace_keyword(outer, first, {"anyOf": [inner, {"type": "null"}]})
    out = dict(node)
    if "type" in node:
        types = as_list(node["type"])
        out["type"] = node["type"] if "null" in types else [*types, "null"]
    if "enum" in node and None not in node["enum"]:
        out["enum"] = [*node["enum"], None]
    return out


def _normalize_nullable(node: Schema) -> Schema:
    plain = {key: value for key, value in node.items() if key != "nullable"}
    return _allow_null(plain) if node["nullable"] else plain


def _normalize_tuple(node: Schema) -> Schema:
    """Return `node` with a list in `items`, as in drafts before 2020-12, replaced by `prefixItems`."""
    if not isinstance(node["items"], list):
        return node
    replacement: Schema = {"prefixItems": node["items"]} if node["items"] else {}
    if "additionalItems" in node:
        replacement["items"] = node["additionalItems"]
    return replace_keyword(node, "items", replacement)


def _normalize_exclusive_bound(keyword: str, bound: str) -> Callable[[Schema], Schema]:
    def rewrite(node: Schema) -> Schema:
        if not isinstance(node[keyword], bool):
            return node
        if node[keyword] and bound in node:
            rest = {key: value for key, value in node.items() if key != keyword}
            return replace_keyword(rest, bound, {keyword: node[bound]})
        return replace_keyword(node, keyword, {})

    return rewrite


def _rename_keyword(old: str, new: str) -> Callable[[Schema], Schema]:
    return lambda node: replace_keyword(node, old, {} if new in node else {new: node[old]})


def _normalize_dependencies(node: Schema) -> Schema:
    dependencies = node["dependencies"]
    if not isinstance(dependencies, dict) or "dependentRequired" in node or "dependentSchemas" in node:
        return node
    required = {key: value for key, value in dependencies.items() if isinstance(value, list)}
    schemas = {key: value for key, value in dependencies.items() if not isinstance(value, list)}
    replacement = {"dependentRequired": required, "dependentSchemas": schemas}
    return replace_keyword(node, "dependencies", {key: value for key, value in replacement.items() if value})


def _deduplicate_required(node: Schema) -> Schema:
    names = list(dict.fromkeys(node["required"]))
    return node if len(names) == len(node["required"]) else {**node, "required": names}


def simplify_unevaluated(node: Schema) -> Schema:
    """Replace `unevaluatedProperties` by `additionalProperties` where no other keyword can evaluate a property."""
    others = COMBINERS - {"not"} | {"additionalProperties", "dependentSchemas"}
    if "unevaluatedProperties" not in node or not node.keys().isdisjoint(others):
        return node
    return replace_keyword(node, "unevaluatedProperties", {"additionalProperties": node["unevaluatedProperties"]})


_REWRITES: Mapping[str, Callable[[Schema], Schema]] = {
    "allOf": lambda node: node if node["allOf"] else replace_keyword(node, "allOf", {}),
    "items": _normalize_tuple,
    "exclusiveMinimum": _normalize_exclusive_bound("exclusiveMinimum", "minimum"),
    "exclusiveMaximum": _normalize_exclusive_bound("exclusiveMaximum", "maximum"),
    "dependencies": _normalize_dependencies,
    "$dynamicRef": _rename_keyword("$dynamicRef", "$ref"),
    "$recursiveRef": _rename_keyword("$recursiveRef", "$ref"),
    "required": _deduplicate_required,
    "nullable": _normalize_nullable,
    "unevaluatedProperties": simplify_unevaluated,
}


def normalize_subschema(node: Any, path: str) -> Schema:
    """Return `node` in the spelling of draft 2020-12: the same object if nothing has to change."""
    if node is True:
        return {}
    if node is False:
        return {"not": {}}
    if not isinstance(node, dict):
        raise InvalidSchema(f"a schema is an object or a boolean, not {_short_repr(node)}", path=path)
    view = _check_values(node, path)
    if "type" in view:
        view = _normalize_types(view, path)
    if not _REWRITES.keys().isdisjoint(view):
        for keyword, rewrite in _REWRITES.items():
            if keyword in view:
                view = rewrite(view)
    return view
