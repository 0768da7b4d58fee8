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

from toolwire.resolvers.functions.definitions import PREFIX, plain_name, renamed
from toolwire.resolvers.functions.forms import KINDS, NUMBERS, Schema, UnreadableValue, ValueForm
from toolwire.resolvers.functions.sites import AnnotationSite

MARKS = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__pydantic_validator__")


def is_pydantic(annotation: Any) -> bool:
    """Whether pydantic knows the class, and is there."""
    kind = get_origin(annotation) or annotation
    return "pydantic" in sys.modules and any(hasattr(kind, mark) for mark in MARKS)


def is_field(item: Any) -> bool:
    """Whether it is what pydantic's Field() gives."""
    kind = type(item)
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic")


def needs_pydantic(metadata: Sequence[Any]) -> bool:
    """Whether metadata of Annotated can only be understood by pydantic: validators, discriminators."""
    return "pydantic" in sys.modules and any(map(_only_pydantic, metadata))


def _only_pydantic(item: Any) -> bool:
    if is_field(item):
        return item.discriminator is not None
    return type(item).__module__.startswith("pydantic.") or hasattr(item, MARKS[0])


def beside(metadata: Sequence[Any]) -> list[Any]:
    """Give the metadata that pydantic does not read."""
    return [item for item in metadata if isinstance(item, str) or hasattr(item, "documentation")]


def pydantic_form(annotation: Any, site: AnnotationSite) -> ValueForm:
    """Give the form of what pydantic writes and reads."""
    pydantic = sys.modules["pydantic"]
    try:
        adapter = pydantic.TypeAdapter(annotation)
        whole = adapter.json_schema(schema_generator=_untitled(), mode="validation")
    except Exception as problem:
        raise site.refuse(f"pydantic has no JSON Schema for {annotation!r}: {problem}") from problem
    foreign = _without_titles(whole.pop("$defs", {}))
    kinds = _kinds(whole, foreign)
    if isinstance(annotation, type) and "$ref" not in whole:
        name = plain_name(annotation.__name__)
        foreign |= _without_titles({name: whole})
        whole = {"$ref": PREFIX + name}
    body = renamed(whole, site.definitions.adopt(foreign))
    return ValueForm(body, _reading(adapter), kinds, plain=False)


def _kinds(body: Schema, definitions: dict[str, Schema]) -> frozenset[str]:
    kind = definitions.get(str(body.get("$ref")).removeprefix(PREFIX), body).get("type")
    if not isinstance(kind, str):
        return KINDS
    return NUMBERS if kind == "number" else frozenset({kind})


def _without_titles(definitions: dict[str, Schema]) -> dict[str, Schema]:
    return {
        name: {key: value for key, value in body.items() if key != "title" or plain_name(str(value)) != name}
        for name, body in definitions.items()
    }


def _untitled() -> type:
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - it is imported already, or not used

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            del schema
            return False

    return Untitled


def _text_of(value: Any) -> str | bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value)


def _reading(adapter: Any) -> Any:
    invalid = sys.modules["pydantic"].ValidationError

    def read(value: Any) -> Any:
        try:
            return adapter.validate_json(_text_of(value))
        except invalid as problem:
            first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
            raise UnreadableValue(f"cannot be used: {first['msg']}", *reversed(first["loc"])) from problem
        except Exception as problem:
            raise UnreadableValue(f"cannot be used: {problem}") from problem

    return read
