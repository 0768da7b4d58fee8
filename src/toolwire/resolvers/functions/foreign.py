"""Classes and metadata of pydantic, whose schema and reading are pydantic's own.

Rules of this file:
- pydantic is used if the program has imported it; then its classes can be met, and otherwise they cannot.
- Arguments are given to it as JSON, so that its strict models read them as JSON.
- Titles that pydantic made up from names are left out: they cost tokens and say nothing.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, get_origin

import msgspec

from toolwire.resolvers.functions.json_types import (
    KINDS,
    NUMBERS,
    PREFIX,
    JsonType,
    Schema,
    UnreadableValue,
    plain_name,
    renamed,
)
from toolwire.resolvers.functions.walk import Walk

_MARKS = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__pydantic_validator__")


def is_pydantic(annotation: Any) -> bool:
    """Whether pydantic knows the class, and is there."""
    kind = get_origin(annotation) or annotation
    return "pydantic" in sys.modules and any(hasattr(kind, mark) for mark in _MARKS)


def is_field(item: Any) -> bool:
    """Whether it is what pydantic's Field() gives."""
    kind = type(item)
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic")


def needs_pydantic(metadata: Sequence[Any]) -> bool:
    """Whether metadata of Annotated can only be understood by pydantic: validators, discriminators."""
    return "pydantic" in sys.modules and any(
        item.discriminator is not None
        if is_field(item)
        else type(item).__module__.startswith("pydantic.") or hasattr(item, _MARKS[0])
        for item in metadata
    )


def beside(metadata: Sequence[Any]) -> list[Any]:
    """Give the metadata that pydantic does not read."""
    return [item for item in metadata if isinstance(item, str) or hasattr(item, "documentation")]


def pydantic_type(annotation: Any, walk: Walk) -> JsonType:
    """Give the type of what pydantic writes and reads."""
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - it is imported already, or not used

    untitled = type("Untitled", (GenerateJsonSchema,), {"field_title_should_be_set": lambda _self, _schema: False})
    try:
        adapter = sys.modules["pydantic"].TypeAdapter(annotation)
        whole = adapter.json_schema(schema_generator=untitled, mode="validation")
    except Exception as problem:
        raise walk.refuse(f"pydantic has no JSON Schema for {annotation!r}: {problem}") from problem
    definitions = whole.pop("$defs", {})
    kind = definitions.get(str(whole.get("$ref")).removeprefix(PREFIX), whole).get("type")
    kinds = frozenset({kind}) if isinstance(kind, str) else KINDS
    if isinstance(annotation, type) and "$ref" not in whole:
        name = plain_name(annotation.__name__)
        definitions[name] = whole
        whole = {"$ref": PREFIX + name}
    bodies = {
        name: {key: value for key, value in body.items() if key != "title" or plain_name(str(value)) != name}
        for name, body in definitions.items()
    }
    schema: Schema = renamed(whole, walk.definitions.adopt(bodies))
    return JsonType(schema, _reading(adapter), NUMBERS if kind == "number" else kinds, plain=False)


def _reading(adapter: Any) -> Any:
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
