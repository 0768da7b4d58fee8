"""Whether a schema can go to a target as it is: one pass over the keywords, without writing anything.

Rules of this file:
- This is a short cut and nothing else: without it, `fit` gives the same, only later.
- A no may be wrong and only costs time; a yes is never wrong.
- What nearly every tool declares is proved first, by one comparison with a declared type.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, field
from msgspec.json import Decoder

from toolwire.schema.document import MAX_DEPTH, MAX_SIZE
from toolwire.schema.draft import FORMS, is_names
from toolwire.schema.targets import BY_NAME, CONSTRAINTS, IDENTIFIERS, Fitted, Note, Schema, Target, asks_for_calls


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


_USUAL: Mapping[str, type[_Parameters]] = {"ollama": _Parameters, "gemini": _OpenParameters}
for _shape in _USUAL.values():
    Decoder(_shape)  # while one thread alone imports this: the rules of types/readable.py
_STRUCTURE = frozenset({"type", "properties", "required", "items", "anyOf", "prefixItems", "additionalProperties"})
_BELOW = _STRUCTURE - {"type"}
_OBJECT = frozenset({"properties", "required", "additionalProperties"})
_NOT_OBJECT = frozenset({"items", "prefixItems", "anyOf", "enum", "const"})
_VALUES = frozenset({"default", "example", "const"})
_ONLY_TEXT = frozenset({str})
_NOTHING: Schema = {}
_NOBODY: list[str] = []


# What many tools say at their root and no other keyword depends on, with the type of its value.
_LOOSE: Mapping[str, type] = {"$schema": str, "additionalProperties": bool, "description": str, "title": str}


def fit_quickly(schema: Any, target: Target) -> Fitted | None:
    """Fit a schema of which nothing but loose keywords of the root has to change; None for all others."""
    if type(schema) is not dict:
        return None
    if schema.keys() <= target.root_keywords:
        return Fitted(schema) if _conforms(schema, target) else None
    kept: Schema = {}
    left: Schema = {}
    for keyword, value in schema.items():
        if keyword in target.root_keywords:
            kept[keyword] = value
        elif type(value) is _LOOSE.get(keyword):
            left[keyword] = value
        else:
            return None
    if not _conforms(kept, target):
        return None
    notes = [
        Note("", keyword, "dropped", target.why_dropped(keyword, value), asks_for_calls(keyword, value))
        for keyword, value in left.items()
        if keyword not in IDENTIFIERS
    ]
    return Fitted(kept, tuple(notes))


def _conforms(schema: Schema, target: Target) -> bool:
    """Whether nothing in a schema, of keywords that the target takes at a root, has to change."""
    shape = _USUAL.get(target.name)
    if shape is not None and _has_shape(schema, shape):
        properties = schema["properties"]
        return len(properties) <= MAX_SIZE and _declared(schema.get("required", _NOBODY), properties)
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


def _has_shape(schema: Schema, shape: type[Struct]) -> bool:
    try:
        convert(schema, shape)
    except (ValidationError, UnicodeError):
        return False
    return True


def _level_conforms(level: list[Any], target: Target, below: list[Any]) -> bool:
    """Whether some subschemas conform; their own subschemas are put on the list."""
    scalars, array, keywords = target.scalars, target.spelling["array"], target.keywords
    for node in level:
        if type(node) is not dict:
            return False
        kind, size = node.get("type"), len(node) - (type(node.get("description")) is str)
        if kind in scalars and size == 1:
            continue
        if kind == array and size == 2 and "items" in node:
            below.append(node["items"])
            continue
        if kind == target.spelling["object"] and _is_open_object(node, size, target):
            below += node["properties"].values()
            continue
        if not node.keys() <= keywords or not _node_conforms(node, target, below, kind):
            return False
    return True


def _is_open_object(node: Schema, left: int, target: Target) -> bool:
    """Whether an object of so many keywords says no more than its properties and which are required."""
    properties = node.get("properties")
    if target.closed or type(properties) is not dict or not _ONLY_TEXT.issuperset(map(type, properties)):
        return False
    if "required" not in node:
        return left == 2
    return left == 3 and _declared(node["required"], properties)


def _node_conforms(node: Schema, target: Target, below: list[Any], kind: Any) -> bool:
    """Whether one subschema conforms; its own subschemas are put on the list."""
    if type(kind) is list:
        if not target.type_lists or kind[1:] != ["null"] or kind[0] == "null":
            return False
        kind = kind[0]
    if kind is None:
        if not _may_be_untyped(node, target):
            return False
    elif kind not in target.spelled:
        return False
    if not _values_conform(node, target):
        return False
    if kind in target.scalars and node.keys().isdisjoint(_BELOW):
        return "enum" not in node or "const" not in node
    if kind == target.spelling["object"] or not node.keys().isdisjoint(_OBJECT):
        return _object_conforms(node, target, below, kind)
    return _array_conforms(node, target, below, kind) and _union_conforms(node, target, below)


def _may_be_untyped(node: Schema, target: Target) -> bool:
    if "type" in node:
        return False
    if not target.typed or "anyOf" in node:
        return True
    return not target.typed_literals and ("enum" in node or "const" in node)


def _check(keyword: str, target: Target) -> Callable[[Any], bool] | None:
    """Make the check of a keyword's value; none for what holds subschemas, which has one of its own."""
    if keyword in _STRUCTURE:
        return None
    if keyword in ("$ref", "$defs"):
        return lambda _value: False
    if keyword in ("title", "description"):
        return lambda value: type(value) is str
    form = is_names if keyword == "enum" and target.text_literals else None
    checks = [check for check in (form, FORMS.get(keyword, (None,))[0], target.limits.get(keyword)) if check]
    anything, flag = keyword in _VALUES, keyword == "nullable"

    def conforms_value(value: Any) -> bool:
        if value is None or type(value) is bool:
            return anything or (flag and value is True)
        for check in checks:  # noqa: SIM110 - as a generator it takes twice as long
            if not check(value):
                return False
        return True

    return conforms_value


_CHECKS: Mapping[str, Mapping[str, Callable[[Any], bool] | None]] = {
    name: {keyword: _check(keyword, target) for keyword in target.keywords | target.root_keywords}
    for name, target in BY_NAME.items()
}


def _values_conform(node: Schema, target: Target) -> bool:
    """Whether the keywords that hold no subschemas have values that the target takes."""
    checks = _CHECKS[target.name]
    for keyword, value in node.items():
        check = checks[keyword]
        if check is not None and not check(value):
            return False
    return True


def _object_conforms(node: Schema, target: Target, below: list[Any], kind: Any) -> bool:
    properties = node.get("properties", _NOTHING)
    if type(properties) is not dict or not _ONLY_TEXT.issuperset(map(type, properties)):
        return False
    below += properties.values()
    if not _declared(node.get("required", _NOBODY), properties):
        return False
    extra = node.get("additionalProperties", True)
    if type(extra) is dict:
        below.append(extra)
    elif type(extra) is not bool:
        return False
    if target.closed and not (extra is False and kind == target.spelling["object"] and "properties" in node):
        return False
    if target.all_required and ("required" not in node or len(node["required"]) != len(properties)):
        return False
    return node.keys().isdisjoint(_NOT_OBJECT)


def _declared(required: Any, properties: Schema) -> bool:
    """Whether every required name is a property, and is named once."""
    if type(required) is not list:
        return False
    for name in required:
        if type(name) is not str or name not in properties:
            return False
    return len(required) < 2 or len(set(required)) == len(required)


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
    if target.nullable and "nullable" in node and len(branches) == 1:
        return False
    if target.nullable and any(type(branch) is not dict or branch.get("type") == "NULL" for branch in branches):
        return False
    below += branches
    return True
