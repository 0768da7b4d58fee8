"""One subschema in the words of draft 2020-12, whichever draft or dialect it was written in; its kinds of values.

Rules of this file:
- A keyword of the wrong kind is refused by name; one that is null says nothing, except where null is a value.
- OpenAPI's `nullable` becomes the type "null", the tuple of older drafts `prefixItems`, an upper-case type or
  the number of a protobuf type its name. A subschema that is spelled like that already stays the same object.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from toolwire.errors import InvalidSchema
from toolwire.schema.targets import COMBINERS, CONSTRAINTS, TYPES, Schema

_NULL_IS_A_VALUE = frozenset({"const", "default", "example"})
_SHOWN = 60
# Each subschema may be told of by its path, and names may be as long as a body.
_LONGEST_PATH = 2000
_SAID = ("type", "description", "title")
_NUMBERED_TYPES = ("", "string", "number", "integer", "boolean", "array", "object", "null")


def kind_of(value: Any) -> str:
    """Name the type of a JSON value, as the draft has it: a float without a fraction is an integer."""
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


def same(first: Any, second: Any) -> bool:
    """Whether two values are the same JSON; true is not 1."""
    return first is second or (first == second and exact(first) == exact(second))


def exact(value: Any) -> str:
    """Write a JSON value as text that tells it from every other one."""
    return json.dumps(value, sort_keys=True)


def as_list(types: Any) -> list[str]:
    """List the types that a `type` keyword names."""
    return types if isinstance(types, list) else [types]


def inside(path: str, step: str) -> str:
    """Write the path of what stands one step inside; the path of a root is empty, and a long one is cut."""
    inner = f"{path}.{step}" if path else step
    return inner if len(inner) <= _LONGEST_PATH else f"{inner[: _LONGEST_PATH - 3]}..."


def is_number(value: Any) -> bool:
    """Whether a value is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_names(value: Any) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_count(value: Any) -> bool:
    return is_number(value) and value >= 0 and value == value // 1


def _is_some(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _one_of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


_FORMS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("title description $ref pattern format contentEncoding contentMediaType", _one_of(str), "a string"),
    ("$id $anchor $dynamicRef $recursiveRef", _one_of(str), "a string"),
    ("properties patternProperties dependentSchemas $defs definitions", _one_of(dict), "an object of schemas"),
    ("required propertyOrdering", is_names, "a list of property names"),
    ("anyOf oneOf prefixItems", _is_some, "a list of at least one schema"),
    ("allOf", _one_of(list), "a list of schemas"),
    ("items", _one_of(dict, bool, list), "a schema"),
    ("additionalProperties unevaluatedProperties propertyNames", _one_of(dict, bool), "a schema"),
    ("additionalItems unevaluatedItems contains not if then else", _one_of(dict, bool), "a schema"),
    ("enum", _is_some, "a list of at least one value"),
    ("minimum maximum", is_number, "a number"),
    ("exclusiveMinimum exclusiveMaximum", _one_of(int, float), "a number"),
    ("multipleOf", lambda value: is_number(value) and value > 0, "a number above 0"),
    ("minLength maxLength minItems maxItems", _is_count, "a whole number of at least 0"),
    ("minProperties maxProperties minContains maxContains", _is_count, "a whole number of at least 0"),
    ("uniqueItems nullable", _one_of(bool), "true or false"),
)
FORMS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    keyword: (check, form) for keywords, check, form in _FORMS for keyword in keywords.split()
}


def _check(node: Schema, path: str) -> Schema:
    """Refuse keywords of the wrong kind; leave out those that are null."""
    nulls = False
    for keyword, value in node.items():
        if keyword in _SAID and type(value) is str:
            continue
        if value is None and keyword not in _NULL_IS_A_VALUE:
            nulls = True
        elif (form := FORMS.get(keyword)) and not form[0](value):
            raise InvalidSchema(f"must be {form[1]}, not {_shown(value)}", path=inside(path, keyword))
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
    raise InvalidSchema(f"unknown type {_shown(value)}; the types are {', '.join(TYPES)}", path=inside(path, "type"))


def _types(node: Schema, path: str) -> Schema:
    given = node["type"]
    if type(given) is str and given in TYPES:
        return node
    names = [_type_name(value, path) for value in as_list(given)]
    if given == []:
        raise InvalidSchema("must name at least one type", path=inside(path, "type"))
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


def _or_null(node: Schema) -> Schema:
    constraints = node.keys() & CONSTRAINTS
    if constraints and constraints <= {"anyOf"}:
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    if not constraints & {"type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "$ref"}:
        return node
    if constraints & {"anyOf", "oneOf", "allOf", "not", "if", "$ref", "const"}:
        first = next(key for key in node if key in constraints)
        rest = {key: value for key, value in node.items() if key in constraints}
        outer = {key: value for key, value in node.items() if key not in constraints or key == first}
        return replace(outer, first, {"anyOf": [rest, {"type": "null"}]})
    out = dict(node)
    if "type" in node:
        types = as_list(node["type"])
        out["type"] = node["type"] if "null" in types else [*types, "null"]
    if "enum" in node and None not in node["enum"]:
        out["enum"] = [*node["enum"], None]
    return out


def _nullable(node: Schema) -> Schema:
    plain = {key: value for key, value in node.items() if key != "nullable"}
    return _or_null(plain) if node["nullable"] else plain


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
    return node if len(names) == len(node["required"]) else {**node, "required": names}


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
    if not _REWRITES.keys().isdisjoint(view):
        for keyword, rewrite in _REWRITES.items():
            if keyword in view:
                view = rewrite(view)
    return view
