"""One subschema in the words of draft 2020-12, whichever draft or dialect it was written in.

Rules of this file:
- A keyword of the wrong kind is refused by name; one that is null says nothing, except where null is a value.
- OpenAPI's `nullable` becomes the type "null", the tuple of older drafts `prefixItems`, an upper-case type or
  the number of a protobuf type its name. A subschema that is spelled like that already stays the same object.
"""

from collections.abc import Callable, Mapping
from typing import Any

from toolwire.errors import InvalidSchema
from toolwire.schema.targets import COMBINERS, CONSTRAINTS, TYPES, Schema

_NULL_IS_A_VALUE = frozenset({"const", "default", "example"})
_SHOWN = 60
_NUMBERED_TYPES = ("", "string", "number", "integer", "boolean", "array", "object", "null")


def is_number(value: Any) -> bool:
    """Whether a value is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return is_number(value) and value >= 0 and value == value // 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_names(value: Any) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_some(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_items(value: Any) -> bool:
    return isinstance(value, dict | bool | list)


Check = Callable[[Any], bool]


def _each(names: str, check: Check, form: str) -> dict[str, tuple[Check, str]]:
    return dict.fromkeys(names.split(), (check, form))


FORMS: Mapping[str, tuple[Check, str]] = {
    **_each("title description $ref pattern format contentEncoding contentMediaType", _is_text, "a string"),
    **_each("$id $anchor $dynamicRef $recursiveRef", _is_text, "a string"),
    **_each("properties patternProperties $defs definitions", _is_map, "an object of schemas"),
    **_each("dependentSchemas", _is_map, "an object of schemas"),
    **_each("required propertyOrdering", is_names, "a list of property names"),
    **_each("anyOf oneOf prefixItems", _is_some, "a list of at least one schema"),
    **_each("allOf", _is_list, "a list of schemas"),
    **_each("items", _is_items, "a schema"),
    **_each("additionalProperties additionalItems propertyNames contains not if then else", _is_schema, "a schema"),
    **_each("unevaluatedItems unevaluatedProperties", _is_schema, "a schema"),
    **_each("enum", _is_some, "a list of at least one value"),
    **_each("minimum maximum", is_number, "a number"),
    **_each("exclusiveMinimum exclusiveMaximum", lambda v: isinstance(v, int | float), "a number"),
    **_each("multipleOf", lambda value: is_number(value) and value > 0, "a number above 0"),
    **_each("minLength maxLength minItems maxItems", _is_count, "a whole number of at least 0"),
    **_each("minProperties maxProperties minContains maxContains", _is_count, "a whole number of at least 0"),
    **_each("uniqueItems nullable", _is_flag, "true or false"),
}


def _check(node: Schema, path: str) -> Schema:
    """Refuse keywords of the wrong kind; leave out those that are null."""
    nulls = False
    for keyword, value in node.items():
        if value is None and keyword not in _NULL_IS_A_VALUE:
            nulls = True
        elif (form := FORMS.get(keyword)) and not form[0](value):
            place = f"{path}.{keyword}" if path else keyword
            raise InvalidSchema(f"must be {form[1]}, not {_shown(value)}", path=place)
    if not nulls:
        return node
    return {key: value for key, value in node.items() if value is not None or key in _NULL_IS_A_VALUE}


def _shown(value: Any) -> str:
    if value is None or isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return "an empty list" if value == [] else f"this {type(value).__name__}"


def _type_name(value: Any, path: str) -> str:
    if isinstance(value, str) and (name := value.lower()) in TYPES:
        return name
    if value == "TYPE_UNSPECIFIED":
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_NUMBERED_TYPES):
        return _NUMBERED_TYPES[value]
    place = f"{path}.type" if path else "type"
    raise InvalidSchema(f"unknown type {_shown(value)}; the types are {', '.join(TYPES)}", path=place)


def _types(node: Schema, path: str) -> Schema:
    given = node["type"]
    names = [_type_name(value, path) for value in (given if isinstance(given, list) else [given])]
    if isinstance(given, list) and not given:
        raise InvalidSchema("must name at least one type", path=f"{path}.type" if path else "type")
    names = [name for name in dict.fromkeys(names) if name]
    meaning = names if len(names) > 1 else "".join(names)
    if meaning == given:
        return node
    return replace(node, "type", {"type": meaning} if meaning else {})


def replace(node: Schema, keyword: str, new: Schema) -> Schema:
    """Put others in the place of a keyword; they override what stands elsewhere."""
    out: Schema = {}
    for key, value in node.items():
        if key == keyword:
            out.update(new)
        elif key not in new:
            out[key] = value
    return out


def or_null(node: Schema) -> Schema:
    """Accept null as well."""
    constraints = node.keys() & CONSTRAINTS
    if constraints and constraints <= {"anyOf"}:
        return replace(node, "anyOf", {"anyOf": [*node["anyOf"], {"type": "null"}]})
    if not constraints & {"type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "$ref"}:
        return node
    if constraints & {"anyOf", "oneOf", "allOf", "not", "if", "$ref", "const"}:
        first = next(key for key in node if key in constraints)
        rest = {key: value for key, value in node.items() if key in constraints}
        outer = {key: value for key, value in node.items() if key not in constraints or key == first}
        return replace(outer, first, {"anyOf": [rest, {"type": "null"}]})
    out = dict(node)
    if "type" in node:
        types = node["type"] if isinstance(node["type"], list) else [node["type"]]
        out["type"] = node["type"] if "null" in types else [*types, "null"]
    if "enum" in node and None not in node["enum"]:
        out["enum"] = [*node["enum"], None]
    return out


def _nullable(node: Schema) -> Schema:
    plain = {key: value for key, value in node.items() if key != "nullable"}
    return or_null(plain) if node["nullable"] else plain


def _tuple_items(node: Schema) -> Schema:
    if not isinstance(node["items"], list):
        return node
    new: Schema = {"prefixItems": node["items"]} if node["items"] else {}
    if "additionalItems" in node:
        new["items"] = node["additionalItems"]
    return replace(node, "items", new)


def _exclusive(keyword: str, bound: str) -> Callable[[Schema], Schema]:
    def rewrite(node: Schema) -> Schema:
        if not isinstance(node[keyword], bool):
            return node
        if node[keyword] and bound in node:
            rest = {key: value for key, value in node.items() if key != keyword}
            return replace(rest, bound, {keyword: node[bound]})
        return replace(node, keyword, {})

    return rewrite


def _renamed(old: str, new: str) -> Callable[[Schema], Schema]:
    return lambda node: replace(node, old, {} if new in node else {new: node[old]})


def _dependencies(node: Schema) -> Schema:
    given = node["dependencies"]
    if not isinstance(given, dict) or "dependentRequired" in node or "dependentSchemas" in node:
        return node
    names = {key: value for key, value in given.items() if isinstance(value, list)}
    schemas = {key: value for key, value in given.items() if not isinstance(value, list)}
    new = {"dependentRequired": names, "dependentSchemas": schemas}
    return replace(node, "dependencies", {key: value for key, value in new.items() if value})


def _required(node: Schema) -> Schema:
    names = list(dict.fromkeys(node["required"]))
    return node if len(names) == len(node["required"]) else replace(node, "required", {"required": names})


def settle_evaluated(node: Schema) -> Schema:
    """Say `unevaluatedProperties` as `additionalProperties`, where nothing else could have evaluated one."""
    others = COMBINERS - {"not"} | {"additionalProperties", "dependentSchemas"}
    if "unevaluatedProperties" not in node or not node.keys().isdisjoint(others):
        return node
    return replace(node, "unevaluatedProperties", {"additionalProperties": node["unevaluatedProperties"]})


_REWRITES: Mapping[str, Callable[[Schema], Schema]] = {
    "allOf": lambda node: node if node["allOf"] else replace(node, "allOf", {}),
    "items": _tuple_items,
    "exclusiveMinimum": _exclusive("exclusiveMinimum", "minimum"),
    "exclusiveMaximum": _exclusive("exclusiveMaximum", "maximum"),
    "dependencies": _dependencies,
    "$dynamicRef": _renamed("$dynamicRef", "$ref"),
    "$recursiveRef": _renamed("$recursiveRef", "$ref"),
    "required": _required,
    "nullable": _nullable,
    "unevaluatedProperties": settle_evaluated,
}


def present(node: Any, path: str) -> Schema:
    """Read one subschema; the same object where there is nothing to respell."""
    if node is True:
        return {}
    if node is False:
        return {"not": {}}
    if not isinstance(node, dict):
        raise InvalidSchema(f"a schema is an object or a boolean, not {_shown(node)}", path=path)
    view = _check(node, path)
    if "type" in view:
        view = _types(view, path)
    for keyword, rewrite in _REWRITES.items():
        if keyword in view:
            view = rewrite(view)
    return view
