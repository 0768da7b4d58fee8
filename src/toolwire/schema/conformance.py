"""Whether a schema can go to a target as it is: one pass over the keywords, without writing anything.

Rule: a no may be wrong and only costs time; a yes is never wrong.
"""

from typing import Any

from toolwire.schema.document import MAX_DEPTH, MAX_SIZE
from toolwire.schema.draft import FORMS, is_names
from toolwire.schema.targets import CONSTRAINTS, Schema, Target

_TEXTS = frozenset({"type", "description"})
_STRUCTURE = frozenset(
    {"type", "properties", "required", "items", "anyOf", "prefixItems", "additionalProperties"}
)
_OBJECT = frozenset({"properties", "required", "additionalProperties"})
_NOT_OBJECT = frozenset({"items", "prefixItems", "anyOf", "enum", "const"})
_ANYTHING = frozenset({"default", "example", "const"})
_UNDECIDED = frozenset({"$ref", "$defs"})


def conforms(schema: Any, target: Target) -> bool:
    """Whether nothing in a schema has to change for a target."""
    if (
        type(schema) is not dict
        or schema.get("type") != target.spelling["object"]
        or "properties" not in schema
    ):
        return False
    keywords, scalars = target.root_keywords, target.scalars
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for node in level:
            if type(node) is not dict:
                return False
            keys = node.keys()
            if keys <= _TEXTS and node.get("type") in scalars and type(node.get("description", "")) is str:
                continue
            if not keys <= keywords or not _node_conforms(node, target, below):
                return False
        if not below:
            return True
        if len(below) > MAX_SIZE:
            return False
        level, keywords = below, target.keywords
    return False


def is_plain(node: Schema, target: Target) -> bool:
    """Whether a subschema is a scalar type and a description, which goes everywhere as it is."""
    return (
        node.keys() <= _TEXTS
        and node.get("type") in target.scalars
        and type(node.get("description", "")) is str
    )


def _node_conforms(node: Schema, target: Target, below: list[Any]) -> bool:
    """Whether one subschema conforms; its own subschemas are put on the list."""
    kind = node.get("type")
    if type(kind) is list:
        if not target.type_lists or kind[1:] != ["null"] or kind[0] == "null":
            return False
        kind = kind[0]
    if kind is None:
        if not _may_be_untyped(node, target):
            return False
    elif kind not in target.spelled:
        return False
    for keyword, value in node.items():
        if keyword not in _STRUCTURE and not _value_conforms(keyword, value, target):
            return False
    if kind == target.spelling["object"] or not node.keys().isdisjoint(_OBJECT):
        return _object_conforms(node, target, below, kind)
    return _array_conforms(node, target, below, kind) and _union_conforms(node, target, below)


def _may_be_untyped(node: Schema, target: Target) -> bool:
    if not target.typed or "anyOf" in node:
        return True
    return not target.typed_literals and ("enum" in node or "const" in node)


def _value_conforms(keyword: str, value: Any, target: Target) -> bool:
    if value is None or type(value) is bool:
        return keyword in _ANYTHING or (value is True and keyword == "nullable")
    if keyword == "enum" and target.text_literals and not is_names(value):
        return False
    if keyword in _UNDECIDED or (keyword in FORMS and not FORMS[keyword][0](value)):
        return False
    return keyword not in target.limits or target.limits[keyword](value)


def _object_conforms(node: Schema, target: Target, below: list[Any], kind: Any) -> bool:
    properties = node.get("properties", {})
    required = node.get("required", [])
    if type(properties) is not dict or not is_names(required):
        return False
    below += properties.values()
    if "required" in node:
        names = set(required)
        if len(names) != len(required) or not properties.keys() >= names:
            return False
    if kind != target.spelling["object"] and target.closed:
        return False
    if target.all_required and ("required" not in node or len(required) != len(properties)):
        return False
    extra = node.get("additionalProperties", True)
    if target.closed:
        return extra is False and "properties" in node and _apart(node)
    if type(extra) is dict:
        below.append(extra)
    return type(extra) in (dict, bool) and _apart(node)


def _array_conforms(node: Schema, target: Target, below: list[Any], kind: Any) -> bool:
    if "items" in node:
        below.append(node["items"])
    elif target.typed and kind == target.spelling["array"]:
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
    if target.nullable and any(
        type(branch) is not dict or branch.get("type") == "NULL" for branch in branches
    ):
        return False
    below += branches
    return True


def _apart(node: Schema) -> bool:
    """Whether an object schema is nothing else besides."""
    return node.keys().isdisjoint(_NOT_OBJECT)
