"""Any schema as the schema of an object with one field, `value`, and back.

Some wires accept only objects as parameters or as structured output.

Rules of this file:
- References keep their meaning. Definitions stay at the root, and other pointers are moved into the field.
- A schema may be that of an object by its `$ref`, which is followed. Combinations such as `allOf` are not examined.
"""

from typing import Any

from toolwire.schema.document import resolve_pointer
from toolwire.schema.draft import as_list
from toolwire.schema.subschemas import NO_BASE, Subschema, resolve_base, walk_subschemas
from toolwire.schema.targets import COMBINERS

VALUE = "value"
_ROOT_KEYWORDS = ("$schema", "$id", "$defs", "definitions")
_COMBINING_KEYWORDS = COMBINERS | {"enum", "const"}
_NON_OBJECT_KEYWORDS = frozenset({"anyOf", "oneOf", "enum", "const", "items", "$ref"})
_MAX_REFERENCES = 16


def has_named_fields(schema: dict[str, Any]) -> bool:
    """Return True if `schema` describes exactly an object with listed fields."""
    named = bool(schema.get("properties")) or schema.get("additionalProperties") is False
    return schema.get("type") == "object" and named and _COMBINING_KEYWORDS.isdisjoint(schema)


def is_of_object(schema: dict[str, Any]) -> bool:
    """Return True if `schema` accepts only objects, as far as its root or the target of its `$ref` tells."""
    node: Any = schema
    for _ in range(_MAX_REFERENCES):
        if not isinstance(node, dict):
            return False
        if "type" in node or not isinstance(node.get("$ref"), str):
            break
        node = resolve_pointer(schema, node["$ref"])
    return as_list(node["type"]) == ["object"] if "type" in node else _NON_OBJECT_KEYWORDS.isdisjoint(node)


def wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with a value of `schema` in its one field. Changes references in `schema`."""
    root = Subschema(schema, base=resolve_base(schema, NO_BASE))
    for subschema in list(walk_subschemas(root)):
        reference = subschema.node.get("$ref") if type(subschema.node) is dict else None
        if isinstance(reference, str) and subschema.base == root.base:
            subschema.node["$ref"] = _rebase_reference(reference, root.base)
    inner = {key: value for key, value in schema.items() if key not in _ROOT_KEYWORDS}
    return {
        "type": "object",
        "properties": {VALUE: inner},
        "required": [VALUE],
        "additionalProperties": False,
        **{key: schema[key] for key in _ROOT_KEYWORDS if key in schema},
    }


def unwrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the value from a schema that `wrap` made. Its definitions are at the root again."""
    return {**schema["properties"][VALUE], **{key: schema[key] for key in _ROOT_KEYWORDS if key in schema}}


def _rebase_reference(reference: str, base: str) -> str:
    """Return `reference` as it must be after wrapping. References to definitions and anchors stay as they are."""
    document, mark, pointer = reference.partition("#")
    stays = pointer.startswith(tuple(f"/{key}/" for key in _ROOT_KEYWORDS)) or pointer[:1] not in ("", "/")
    if stays or (document and document != base):
        return reference
    return f"{document}{mark or '#'}/properties/{VALUE}{pointer}"
