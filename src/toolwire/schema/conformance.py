"""A fast check whether a target supports a schema as it is: one pass over the keywords, without writing anything.

Rules of this file:
- This is only an optimization. `fit` has the same result without it, but takes longer.
- A negative result may be wrong, and costs only time. A positive result is never wrong.
- The schemas that most tools declare are recognized first, by converting them to a declared type.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, field
from msgspec.json import Decoder

from toolwire.schema.document import MAX_DEPTH, MAX_SIZE
from toolwire.schema.draft import KEYWORD_CHECKS, is_names
from toolwire.schema.targets import BY_NAME, CONSTRAINTS, IDENTIFIERS, Fitted, Note, Schema, Target, changes_calls


class _Member(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["string", "number", "integer", "boolean", "null"]
    description: str = ""


class _Property(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["string", "number", "integer", "boolean", "null", "array"]
    description: str = ""
    enum: Annotated[list[Any], Meta(min_length=1)] | UnsetType = UNSET
    items: _Member | UnsetType = UNSET


class _Parameters(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["object"]
    properties: dict[str, _Property]
    required: list[str] = []


class _OpenParameters(_Parameters, forbid_unknown_fields=True, gc=False):
    title: str = ""
    description: str = ""
    additional: bool = field(name="additionalProperties", default=True)


_COMMON_SHAPES: Mapping[str, type[_Parameters]] = {"ollama": _Parameters, "gemini": _OpenParameters}
for _common_shape in _COMMON_SHAPES.values():
    Decoder(_common_shape)  # built on import, in one thread: see the rules of types/readable.py
_STRUCTURE = frozenset({"type", "properties", "required", "items", "anyOf", "prefixItems", "additionalProperties"})
_SUBSCHEMA_KEYWORDS = _STRUCTURE - {"type"}
_OBJECT = frozenset({"properties", "required", "additionalProperties"})
_NOT_OBJECT = frozenset({"items", "prefixItems", "anyOf", "enum", "const"})
_ANY_VALUE_KEYWORDS = frozenset({"default", "example", "const"})
_ONLY_TEXT = frozenset({str})
_NO_PROPERTIES: Schema = {}
_NO_NAMES: list[str] = []


# Keywords that many tools have at the root and that no other keyword depends on, with the type of their value.
_DROPPABLE_AT_ROOT: Mapping[str, type] = {
    "$schema": str,
    "additionalProperties": bool,
    "description": str,
    "title": str,
}


def fit_quickly(schema: Any, target: Target) -> Fitted | None:
    """Fit a schema that needs no change except dropped keywords at the root. Return None for any other schema."""
    if type(schema) is not dict:
        return None
    if schema.keys() <= target.root_keywords:
        return Fitted(schema) if _conforms_at_root(schema, target) else None
    kept: Schema = {}
    dropped: Schema = {}
    for keyword, value in schema.items():
        if keyword in target.root_keywords:
            kept[keyword] = value
        elif type(value) is _DROPPABLE_AT_ROOT.get(keyword):
            dropped[keyword] = value
        else:
            return None
    if not _conforms_at_root(kept, target):
        return None
    notes = [
        Note("", keyword, "dropped", target.why_dropped(keyword, value), changes_calls(keyword, value))
        for keyword, value in dropped.items()
        if keyword not in IDENTIFIERS
    ]
    return Fitted(kept, tuple(notes))


def _conforms_at_root(schema: Schema, target: Target) -> bool:
    """Return True if nothing in a schema has to change. All its root keywords are supported."""
    shape = _COMMON_SHAPES.get(target.name)
    if shape is not None and _matches_shape(schema, shape):
        properties = schema["properties"]
        return len(properties) <= MAX_SIZE and _all_declared(schema.get("required", _NO_NAMES), properties)
    level: list[Any] = []
    if schema.get("type") != target.spelling["object"] or "properties" not in schema:
        return False
    if not _values_conform(schema, target) or not _object_conforms(schema, target, level, schema["type"]):
        return False
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        if len(level) > MAX_SIZE or not _level_conforms(level, target, below):
            return False
        if not below:
            return True
        level = below
    return False


def _matches_shape(schema: Schema, shape: type[Struct]) -> bool:
    try:
        convert(schema, shape)
    except (ValidationError, UnicodeError):
        return False
    return True


def _level_conforms(level: list[Any], target: Target, below: list[Any]) -> bool:
    """Return True if all subschemas of `level` conform. Their own subschemas are appended to `below`."""
    scalars, array, keywords = target.scalars, target.spelling["array"], target.keywords
    for node in level:
        if type(node) is not dict:
            return False
        json_type, size = node.get("type"), len(node) - (type(node.get("description")) is str)
        if json_type in scalars and size == 1:
            continue
        if json_type == array and size == 2 and "items" in node:
            below.append(node["items"])
            continue
        if json_type == target.spelling["object"] and _is_open_object(node, size, target):
            below += node["properties"].values()
            continue
        if not node.keys() <= keywords or not _node_conforms(node, target, below, json_type):
            return False
    return True


def _is_open_object(node: Schema, keyword_count: int, target: Target) -> bool:
    """Return True if the object has only a type, properties and perhaps required names.

    `keyword_count` is the number of its keywords without the description.
    """
    properties = node.get("properties")
    if target.closed or type(properties) is not dict or not _ONLY_TEXT.issuperset(map(type, properties)):
        return False
    if "required" not in node:
        return keyword_count == 2
    return keyword_count == 3 and _all_declared(node["required"], properties)


def _node_conforms(node: Schema, target: Target, below: list[Any], json_type: Any) -> bool:
    """Return True if one subschema conforms. Its own subschemas are appended to `below`."""
    if type(json_type) is list:
        if not target.type_lists or json_type[1:] != ["null"] or json_type[0] == "null":
            return False
        json_type = json_type[0]
    if json_type is None:
        if not _may_be_untyped(node, target):
            return False
    elif json_type not in target.spelled:
        return False
    if not _values_conform(node, target):
        return False
    if json_type in target.scalars and node.keys().isdisjoint(_SUBSCHEMA_KEYWORDS):
        return "enum" not in node or "const" not in node
    if json_type == target.spelling["object"] or not node.keys().isdisjoint(_OBJECT):
        return _object_conforms(node, target, below, json_type)
    return _array_conforms(node, target, below, json_type) and _union_conforms(node, target, below)


def _may_be_untyped(node: Schema, target: Target) -> bool:
    if "type" in node:
        return False
    if not target.typed or "anyOf" in node:
        return True
    return not target.typed_literals and ("enum" in node or "const" in node)


def _value_check(keyword: str, target: Target) -> Callable[[Any], bool] | None:
    """Return the check for the values of `keyword`. It is None for a keyword with subschemas."""
    if keyword in _STRUCTURE:
        return None
    if keyword in ("$ref", "$defs"):
        return lambda _value: False
    if keyword in ("title", "description"):
        return lambda value: type(value) is str
    names_check = is_names if keyword == "enum" and target.text_literals else None
    checks = [
        check for check in (names_check, KEYWORD_CHECKS.get(keyword, (None,))[0], target.limits.get(keyword)) if check
    ]
    allows_any, is_flag = keyword in _ANY_VALUE_KEYWORDS, keyword == "nullable"

    def conforms_value(value: Any) -> bool:
        if value is None or type(value) is bool:
            return allows_any or (is_flag and value is True)
        for check in checks:  # noqa: SIM110 - as a generator it takes twice as long
            if not check(value):
                return False
        return True

    return conforms_value


_CHECKS: Mapping[str, Mapping[str, Callable[[Any], bool] | None]] = {
    name: {keyword: _value_check(keyword, target) for keyword in target.keywords | target.root_keywords}
    for name, target in BY_NAME.items()
}


def _values_conform(node: Schema, target: Target) -> bool:
    """Return True if `target` supports the values of all keywords without subschemas."""
    checks = _CHECKS[target.name]
    for keyword, value in node.items():
        check = checks[keyword]
        if check is not None and not check(value):
            return False
    return True


def _object_conforms(node: Schema, target: Target, below: list[Any], json_type: Any) -> bool:
    properties = node.get("properties", _NO_PROPERTIES)
    if type(properties) is not dict or not _ONLY_TEXT.issuperset(map(type, properties)):
        return False
    below += properties.values()
    if not _all_declared(node.get("required", _NO_NAMES), properties):
        return False
    extra = node.get("additionalProperties", True)
    if type(extra) is dict:
        below.append(extra)
    elif type(extra) is not bool:
        return False
    if target.closed and not (extra is False and json_type == target.spelling["object"] and "properties" in node):
        return False
    if target.all_required and ("required" not in node or len(node["required"]) != len(properties)):
        return False
    return node.keys().isdisjoint(_NOT_OBJECT)


def _all_declared(required: Any, properties: Schema) -> bool:
    """Return True if every name in `required` is a property and occurs once."""
    if type(required) is not list:
        return False
    for name in required:
        if type(name) is not str or name not in properties:
            return False
    return len(required) < 2 or len(set(required)) == len(required)


def _array_conforms(node: Schema, target: Target, below: list[Any], json_type: Any) -> bool:
    if "items" in node:
        below.append(node["items"])
    elif target.typed and json_type == target.spelling["array"]:
        return False
    if "prefixItems" in node:
        members = node["prefixItems"]
        if type(members) is not list or not members:
            return False
        below += members
    return "enum" not in node or "const" not in node


def _union_conforms(node: Schema, target: Target, below: list[Any]) -> bool:
    branches = node.get("anyOf")
    if branches is None:
        return "anyOf" not in node
    if type(branches) is not list or not branches:
        return False
    if (target.pure_unions or not target.type_lists) and node.keys() & CONSTRAINTS != {"anyOf"}:
        return False
    if target.nullable and "nullable" in node and len(branches) == 1:
        return False
    if target.nullable and any(type(branch) is not dict or branch.get("type") == "NULL" for branch in branches):
        return False
    below += branches
    return True
