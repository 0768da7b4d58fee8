"""What an answer shall be: the schema that the model is shown, and the type that is made of its JSON.

Rules of this file:
- Schema and reading are those of tool parameters: what may stand in a `@tool` may be wanted as an answer.
- An answer is an object of named fields, so that it tells where it ends, and every wire can ask for it. What
  is no such object stands in its one field `value`, and is taken out of it again.
- A JSON Schema is taken as it is: full Draft 2020-12; its answer stays JSON.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

from msgspec import Struct

from toolwire.errors import InvalidField, InvalidSchema
from toolwire.resolvers.functions.annotations import json_type_of
from toolwire.resolvers.functions.json_types import UnreadableValue, copied
from toolwire.schema import prune_nulls
from toolwire.schema.document import measure
from toolwire.schema.targets import COMBINERS
from toolwire.schema.validation import Validator
from toolwire.schema.validation.places import NO_BASE, Subschema, based, places

VALUE = "value"
PATH = "output"
_OF_DOCUMENT = ("$schema", "$id", "$defs", "definitions")
_NOT_AN_OBJECT_ALONE = COMBINERS | {"enum", "const"}


class WantedForm(Struct, frozen=True):
    """The form of an answer: the model is shown `schema`; if it is `wrapped`, the value is its one field."""

    schema: dict[str, Any]
    wrapped: bool
    validator: Validator
    convert: Callable[[Any], Any]
    name: str | None = None

    @classmethod
    def of(cls, given: Any, name: str | None = None) -> Self:
        """Read what is wanted: a type, any annotation of a tool's parameter, or a JSON Schema."""
        made = None if isinstance(given, Mapping) else json_type_of(given, path=PATH)
        try:
            schema, convert = (_own_copy(given), copied) if made is None else (made.schema, made.read)
            wrapped = not _has_named_fields(schema)
            if wrapped:
                schema = _wrap(schema)
            return cls(schema, wrapped, Validator(schema), convert, name)
        except InvalidSchema as problem:
            message = str(problem).removeprefix(f"{problem.path}: ")
            place = f"{PATH}.{problem.path}" if problem.path else PATH
            raise InvalidSchema(message, path=place) from None

    def problems(self, answer: dict[str, Any]) -> list[str]:
        """Say what is wrong with an answer; nothing if it is valid."""
        return self.validator.problems(answer)

    def value(self, answer: dict[str, Any]) -> Any:
        """Make the value of a valid answer; one that cannot be read all the same is InvalidField."""
        try:
            return self.convert(answer[VALUE] if self.wrapped else answer)
        except UnreadableValue as problem:
            place = (problem.inside(VALUE) if self.wrapped else problem).place() or "answer"
            raise InvalidField(place, problem.reason) from problem.__cause__
        except RecursionError:
            raise InvalidField("answer", "is nested too deeply") from None

    def pruned(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Take out the nulls by which a strict model says that a field is absent."""
        return prune_nulls(answer, self.schema)


def _own_copy(schema: Mapping[Any, Any]) -> dict[str, Any]:
    """Copy a schema of the caller's; one that is too deep to be walked is refused first."""
    given = dict(schema)
    measure(given)
    return copied(given)  # type: ignore[no-any-return]


def _has_named_fields(schema: dict[str, Any]) -> bool:
    """Whether a schema is that of an object which lists its fields, and of nothing else."""
    named = bool(schema.get("properties")) or schema.get("additionalProperties") is False
    return schema.get("type") == "object" and named and _NOT_AN_OBJECT_ALONE.isdisjoint(schema)


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Give the schema of an object with the value in its one field; references still mean what they meant."""
    root = Subschema(schema, base=based(schema, NO_BASE))
    for place in list(places(root)):
        reference = place.node.get("$ref") if type(place.node) is dict else None
        if isinstance(reference, str) and place.base == root.base:
            place.node["$ref"] = _moved(reference, root.base)
    inner = {key: value for key, value in schema.items() if key not in _OF_DOCUMENT}
    return {
        "type": "object",
        "properties": {VALUE: inner},
        "required": [VALUE],
        "additionalProperties": False,
        **{key: schema[key] for key in _OF_DOCUMENT if key in schema},
    }


def _moved(reference: str, base: str) -> str:
    """Say where a part of the schema is now; definitions stay where they were, and so do anchors."""
    document, mark, pointer = reference.partition("#")
    stays = pointer.startswith(tuple(f"/{key}/" for key in _OF_DOCUMENT)) or pointer[:1] not in ("", "/")
    if stays or (document and document != base):
        return reference
    return f"{document}{mark or '#'}/properties/{VALUE}{pointer}"
