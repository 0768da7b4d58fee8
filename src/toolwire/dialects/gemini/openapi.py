"""Schemas in the OpenAPI words of generateContent, read as JSON Schema and written again.

Rule: the words are kept beside what they mean, and come back for as long as they still mean it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolwire.errors import InvalidSchema
from toolwire.ledger import Ledger
from toolwire.settings import ABSENT

_COUNT = re.compile(r"[0-9]{1,18}")
KINDS = ("TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
JSON_WORDS = {
    "any_of": "anyOf",
    "prefix_items": "prefixItems",
    "property_ordering": "propertyOrdering",
    "additional_properties": "additionalProperties",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "defs": "$defs",
    "ref": "$ref",
}


def read_schema(given: dict[str, Any], place: str) -> Any:
    """Read a schema as JSON Schema; `place` names it where it is nested too deeply."""
    try:
        return from_openapi(given)
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply; flatten it", path=place) from None


def from_openapi(schema: Any) -> Any:
    """Read a schema in this wire's OpenAPI words as JSON Schema; the same object where it is one already."""
    if type(schema) is not dict:
        return schema
    read: dict[str, Any] = {}
    for key, value in schema.items():
        word = JSON_WORDS.get(key) or key
        reader = READERS.get(word)
        read[word] = value if reader is None else reader(value)
    if type(read.get("nullable")) is bool:
        if read.pop("nullable"):
            _admit_null(read)
    elif len(read) == len(schema) and all(read.get(key, ABSENT) is value for key, value in schema.items()):
        return schema
    return {key: value for key, value in read.items() if value is not ABSENT}


def _admit_null(read: dict[str, Any]) -> None:
    if type(read.get("enum")) is list and None not in read["enum"]:
        read["enum"] = [*read["enum"], None]
    if type(read.get("anyOf")) is list:
        read["anyOf"] = [*read["anyOf"], {"type": "null"}]
    elif type(read.get("type")) is str:
        read["type"] = [read["type"], "null"]


def _read_kind(kind: Any) -> Any:
    if type(kind) is int:
        kind = KINDS[kind] if 0 <= kind < len(KINDS) else kind
    if type(kind) is not str or kind not in KINDS:
        return kind
    return ABSENT if kind == KINDS[0] else kind.lower()


def _read_each(schemas: Any) -> Any:
    if type(schemas) is not list:
        return schemas
    read = [from_openapi(schema) for schema in schemas]
    return schemas if all(new is old for new, old in zip(read, schemas, strict=True)) else read


def _read_map(schemas: Any) -> Any:
    if type(schemas) is not dict:
        return schemas
    read = {name: from_openapi(schema) for name, schema in schemas.items()}
    return schemas if all(read[name] is schemas[name] for name in schemas) else read


def _read_count(count: Any) -> Any:
    return int(count) if type(count) is str and _COUNT.fullmatch(count) else count


def _read_reference(ref: Any) -> Any:
    return f"#/$defs/{ref[7:]}" if type(ref) is str and ref.startswith("#/defs/") else ref


READERS: Mapping[str, Callable[[Any], Any]] = {
    "type": _read_kind,
    "items": from_openapi,
    "additionalProperties": from_openapi,
    "properties": _read_map,
    "$defs": _read_map,
    "anyOf": _read_each,
    "prefixItems": _read_each,
    "$ref": _read_reference,
    **dict.fromkeys(COUNTS, _read_count),
}


def to_openapi(schema: dict[str, Any], spelled: list[Any], ledger: Ledger, field: str) -> dict[str, Any]:
    """Write a schema in OpenAPI words: as it was spelled, for as long as it means the same."""
    given, meant = spelled
    if schema == meant:
        return given  # type: ignore[no-any-return]
    if meant == given:
        return schema
    return ledger.fit(schema, "gemini-openapi", field)
