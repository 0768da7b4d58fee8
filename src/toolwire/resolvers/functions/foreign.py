"""Classes and metadata of pydantic, which writes their schemas and reads their values itself.

Rules of this file:
- pydantic is used only if the program has imported it. Otherwise its classes cannot occur.
- Arguments are passed to it as JSON, so that its strict models read them as JSON.
- Titles that pydantic generates from names are removed, because they cost tokens without information.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, get_origin

import msgspec

from toolwire.resolvers.functions.json_types import (
    JSON_TYPES,
    NUMBER_TYPES,
    PREFIX,
    JsonType,
    Schema,
    UnreadableValue,
    reference_name,
    rename_references,
)
from toolwire.resolvers.functions.walk import Walk

_PYDANTIC_ATTRIBUTES = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__pydantic_validator__")


def is_pydantic(annotation: Any) -> bool:
    """Return True if pydantic is imported and handles this class."""
    cls = get_origin(annotation) or annotation
    return "pydantic" in sys.modules and any(hasattr(cls, attribute) for attribute in _PYDANTIC_ATTRIBUTES)


def is_field(item: Any) -> bool:
    """Return True if `item` is the result of pydantic's `Field()`."""
    cls = type(item)
    return cls.__name__ == "FieldInfo" and cls.__module__.startswith("pydantic")


def needs_pydantic(metadata: Sequence[Any]) -> bool:
    """Return True if the metadata of Annotated needs pydantic: validators and discriminators."""
    return "pydantic" in sys.modules and any(
        item.discriminator is not None
        if is_field(item)
        else type(item).__module__.startswith("pydantic.") or hasattr(item, _PYDANTIC_ATTRIBUTES[0])
        for item in metadata
    )


def metadata_beside_pydantic(metadata: Sequence[Any]) -> list[Any]:
    """Return the metadata that pydantic does not read."""
    return [item for item in metadata if isinstance(item, str) or hasattr(item, "documentation")]


def pydantic_type(annotation: Any, walk: Walk) -> JsonType:
    """Return the type of an annotation whose schema and reader come from pydantic."""
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - it is imported already, or not used

    untitled = type("Untitled", (GenerateJsonSchema,), {"field_title_should_be_set": lambda _self, _schema: False})
    try:
        adapter = sys.modules["pydantic"].TypeAdapter(annotation)
        root = adapter.json_schema(schema_generator=untitled, mode="validation")
    except Exception as problem:
        raise walk.refuse(f"pydantic has no JSON Schema for {annotation!r}: {problem}") from problem
    definitions = root.pop("$defs", {})
    json_type = definitions.get(str(root.get("$ref")).removeprefix(PREFIX), root).get("type")
    json_types = frozenset({json_type}) if isinstance(json_type, str) else JSON_TYPES
    if isinstance(annotation, type) and "$ref" not in root:
        name = reference_name(annotation.__name__)
        definitions[name] = root
        root = {"$ref": PREFIX + name}
    bodies = {
        name: {key: value for key, value in body.items() if key != "title" or reference_name(str(value)) != name}
        for name, body in definitions.items()
    }
    schema: Schema = rename_references(root, walk.definitions.adopt(bodies))
    return JsonType(schema, _reader(adapter), NUMBER_TYPES if json_type == "number" else json_types, plain=False)


def _reader(adapter: Any) -> Any:
    invalid = sys.modules["pydantic"].ValidationError

    def read(value: Any) -> Any:
        try:
            text: str | bytes = msgspec.json.encode(value)
        except (UnicodeEncodeError, OverflowError):
            text = json.dumps(value)
        try:
            return adapter.validate_json(text)
        except invalid as problem:
            first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
            raise UnreadableValue(f"cannot be used: {first['msg']}", *reversed(first["loc"])) from problem
        except Exception as problem:
            raise UnreadableValue(f"cannot be used: {problem}") from problem

    return read
