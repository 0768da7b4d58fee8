"""A form: what the values of one annotation look like in JSON, and how such JSON is read to them.

Rules of this file:
- One annotation gives both halves at once, so that what a schema takes can always be read.
- Reading is strict about kinds: "5" is no integer and 1 no boolean; 5.0 is the integer 5, as in JSON Schema.
- What is read shares nothing that can be changed with the JSON it came from.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from toolwire.wire.arguments import kind_of

Schema = dict[str, Any]
Read = Callable[[Any], Any]

NUMBERS = frozenset({"integer", "number"})
KINDS = NUMBERS | {"null", "boolean", "string", "array", "object"}
KIND_OF = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


class UnreadableValue(Exception):
    """A JSON value that cannot be read: the reason, and the steps to its place, the innermost first."""

    def __init__(self, reason: str, *steps: str | int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str | int] = list(steps)

    def inside(self, step: str | int) -> "UnreadableValue":
        """Say in what the value lies."""
        self.steps.append(step)
        return self

    def place(self) -> str:
        """Write the place as `items[2].when`."""
        parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.steps)]
        return "".join(parts).removeprefix(".")


class ValueForm(Struct, frozen=True):
    """The schema and the reading of an annotation.

    `kinds` are the kinds of JSON that it takes. It is `plain` if a keyword of JSON Schema says of the Python
    value what it says of the JSON. `alternatives` are those of a union.
    """

    schema: Schema
    read: Read
    kinds: frozenset[str] = KINDS
    plain: bool = True
    alternatives: tuple["ValueForm", ...] = ()


def kind_in_schema(value: Any) -> str:
    """Name the kind of a JSON value as a schema does."""
    return KIND_OF.get(type(value), "null")


def wrong(expected: str, value: Any) -> UnreadableValue:
    """Say what was expected instead of the value, without the value."""
    return UnreadableValue(f"must be {expected}, not {kind_of(value)}")


def copied(value: Any) -> Any:
    """Copy a JSON value."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [copied(inner) for inner in value]
    return value


def whole_of(value: Any) -> int | None:
    """Give the whole number that a JSON number is, if it is one."""
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def read_text(value: Any) -> str:
    """Read a string."""
    if isinstance(value, str):
        return value
    raise wrong("a string", value)


def read_integer(value: Any) -> int:
    """Read a whole number; 5.0 is one."""
    if type(value) is int:
        return value
    whole = whole_of(value)
    if whole is None:
        raise wrong("an integer", value)
    return whole


def read_number(value: Any) -> float:
    """Read a number; an integer that no float can say stays an integer."""
    if isinstance(value, float):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong("a number", value)
    try:
        number = float(value)
    except OverflowError:
        return value
    return number if number == value else value


def read_boolean(value: Any) -> bool:
    """Read true or false."""
    if value is True or value is False:
        return value
    raise wrong("a boolean", value)


def read_null(value: Any) -> None:
    """Read null."""
    if value is not None:
        raise wrong("null", value)


def of_kind(kind: str, read: Read, *, plain: bool = True, **keywords: Any) -> ValueForm:
    """Make the form of one kind of JSON."""
    return ValueForm({"type": kind, **keywords}, read, frozenset({kind}), plain)


ANYTHING = ValueForm({}, copied)
TEXT = of_kind("string", read_text)
INTEGER = of_kind("integer", read_integer)
NUMBER = ValueForm({"type": "number"}, read_number, NUMBERS)
BOOLEAN = of_kind("boolean", read_boolean)
NULL = of_kind("null", read_null)
