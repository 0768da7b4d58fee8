"""The schema of any value as the schema of an object with the value in its one field, and back.

Rules of this file:
- References still mean what they meant: definitions stay at the root, other pointers lead into the field.
- What is no schema of an object may still be one by its reference; that is followed, and no combination is.
"""

from typing import Any

from toolwire.schema.document import pointed_at
from toolwire.schema.draft import as_list
from toolwire.schema.subschemas import NO_BASE, Subschema, based, places
from toolwire.schema.targets import COMBINERS

VALUE = "value"
_OF_DOCUMENT = ("$schema", "$id", "$defs", "definitions")
_NOT_AN_OBJECT_ALONE = COMBINERS | {"enum", "const"}
_SAYS_ELSE = frozenset({"anyOf", "oneOf", "enum", "const", "items", "$ref"})
_MOST_REFERENCES = 16


def has_named_fields(schema: dict[str, Any]) -> bool:
    """Whether a schema is that of an object which lists its fields, and of nothing else."""
    named = bool(schema.get("properties")) or schema.get("additionalProperties") is False
    return schema.get("type") == "object" and named and _NOT_AN_OBJECT_ALONE.isdisjoint(schema)


def is_of_object(schema: dict[str, Any]) -> bool:
    """Whether all values of a schema are objects, as far as it says so at its root or where that refers to."""
    node: Any = schema
    for _ in range(_MOST_REFERENCES):
        if not isinstance(node, dict):
            return False
        if "type" in node or not isinstance(node.get("$ref"), str):
            break
        node = pointed_at(schema, node["$ref"])
    return as_list(node["type"]) == ["object"] if "type" in node else _SAYS_ELSE.isdisjoint(node)


def wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Give the schema of an object with the value in its one field; references in `schema` are changed."""
    root = Subschema(schema, base=based(schema, NO_BASE))
    for subschema in list(places(root)):
        reference = subschema.node.get("$ref") if type(subschema.node) is dict else None
        if isinstance(reference, str) and subschema.base == root.base:
            subschema.node["$ref"] = _moved(reference, root.base)
    inner = {key: value for key, value in schema.items() if key not in _OF_DOCUMENT}
    return {
        "type": "object",
        "properties": {VALUE: inner},
        "required": [VALUE],
        "additionalProperties": False,
        **{key: schema[key] for key in _OF_DOCUMENT if key in schema},
    }


def unwrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Give the schema of the value back; definitions are at its root again."""
    return {**schema["properties"][VALUE], **{key: schema[key] for key in _OF_DOCUMENT if key in schema}}


def _moved(reference: str, base: str) -> str:
    """Say where a part of the schema is now; definitions stay where they were, and so do anchors."""
    document, mark, pointer = reference.partition("#")
    stays = pointer.startswith(tuple(f"/{key}/" for key in _OF_DOCUMENT)) or pointer[:1] not in ("", "/")
    if stays or (document and document != base):
        return reference
    return f"{document}{mark or '#'}/properties/{VALUE}{pointer}"
