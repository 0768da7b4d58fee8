"""Closed lists of values: Literal and Enum.

Rules of this file:
- What the model sees are the values; what the function gets are the members.
- Equal is what JSON Schema calls equal: 1 and 1.0 are, 1 and true are not.
"""

import json
from collections.abc import Hashable, Iterable
from enum import Enum
from typing import Any, get_args

from toolwire.resolvers.functions.forms import Read, Schema, UnreadableValue, ValueForm, kind_in_schema
from toolwire.resolvers.functions.sites import AnnotationSite

SCALARS = (str, int, float, bool, type(None))


def literal(annotation: Any, site: AnnotationSite) -> ValueForm:
    """Give the form of a Literal."""
    members = get_args(annotation)
    return _closed({}, [(_value_of(member, site), member) for member in members], site)


def enumeration(kind: type[Enum], site: AnnotationSite) -> ValueForm:
    """Give the form of an Enum: one of the values of its members."""
    members = list(kind)
    if not members:
        raise site.refuse(f"{kind.__name__} has no members; an Enum is the list of the values to choose from")

    def build() -> ValueForm:
        described = site.docstring(kind).description
        keywords = {"description": described} if described else {}
        return _closed(keywords, [(_value_of(member, site), member) for member in members], site, many=True)

    return site.definitions.named(kind, kind.__name__, build)


def _value_of(member: Any, site: AnnotationSite) -> Any:
    value = member.value if isinstance(member, Enum) else member
    if not isinstance(value, SCALARS) or (isinstance(value, float) and value - value != 0):
        raise site.refuse(
            f"the value {value!r} has no JSON; a Literal or an Enum has strings, numbers, booleans or None"
        )
    return str(value) if isinstance(value, str) else _bare(value)


def _bare(value: Any) -> Any:
    """Give a number as a plain one, not as the member of another Enum."""
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    return value


def _closed(keywords: Schema, pairs: list[tuple[Any, Any]], site: AnnotationSite, *, many: bool = False) -> ValueForm:
    values = [value for value, _ in pairs]
    kinds = {kind_in_schema(value) for value in values}
    schema: Schema = {"const": values[0]} if len(values) == 1 and not many else {"enum": values}
    if len(kinds) == 1:
        schema["type"] = next(iter(kinds))
    table = {_identity(value): member for value, member in pairs}
    if len(table) < len(pairs):
        raise site.refuse("two of the values are the same in JSON, so that it cannot say which is meant")
    taken = kinds | ({"number"} if "integer" in kinds else set()) | ({"integer"} if "number" in kinds else set())
    return ValueForm(schema | keywords, _choosing(table, values), frozenset(taken))


def _identity(value: Hashable) -> tuple[bool, Hashable]:
    return isinstance(value, bool), value


def _choosing(table: dict[Any, Any], values: Iterable[Any]) -> Read:
    listed = ", ".join(json.dumps(value, ensure_ascii=False) for value in values)

    def read(value: Any) -> Any:
        try:
            return table[isinstance(value, bool), value]
        except (KeyError, TypeError):
            raise UnreadableValue(f"must be one of {listed}") from None

    return read
