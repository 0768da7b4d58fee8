"""Annotations of single values that JSON writes as text or a number: dates, paths, decimals, bytes.

Rules of this file:
- A class is known by its qualified name, so that nothing is imported that the annotation did not import.
- Text is read as its format says, and no more loosely: a date-time is one of RFC 3339.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

from msgspec import ValidationError, convert

from toolwire.resolvers.functions.forms import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    NUMBERS,
    TEXT,
    Read,
    UnreadableValue,
    ValueForm,
    of_kind,
    read_number,
    read_text,
    whole_of,
    wrong,
)

# What msgspec reads from text: the schema's keywords, and the words for what is right.
WRITTEN: dict[str, tuple[dict[str, str], str]] = {
    "datetime.datetime": ({"format": "date-time"}, "a date-time such as 2030-01-31T12:00:00Z"),
    "datetime.date": ({"format": "date"}, "a date such as 2030-01-31"),
    "datetime.time": ({"format": "time"}, "a time such as 12:00:00"),
    "datetime.timedelta": ({"format": "duration"}, "an ISO 8601 duration such as PT1H30M"),
    "uuid.UUID": ({"format": "uuid"}, "a UUID such as 123e4567-e89b-12d3-a456-426614174000"),
    "builtins.bytes": ({"contentEncoding": "base64"}, "base64"),
    "builtins.bytearray": ({"contentEncoding": "base64"}, "base64"),
}
CONSTRUCTED: dict[str, tuple[str, str]] = {
    "ipaddress.IPv4Address": ("ipv4", "an IPv4 address"),
    "ipaddress.IPv6Address": ("ipv6", "an IPv6 address"),
    "ipaddress.IPv4Network": ("ipv4network", "an IPv4 network"),
    "ipaddress.IPv6Network": ("ipv6network", "an IPv6 network"),
}


def _decimal_of(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError
    return number


def _read_decimal_text(value: Any) -> Decimal:
    try:
        return _decimal_of(read_text(value))
    except (ArithmeticError, ValueError):
        raise UnreadableValue("must be a decimal number such as 12.50") from None


def _read_decimal_number(value: Any) -> Decimal:
    whole = whole_of(value) if isinstance(value, int) else None
    if whole is None and (not isinstance(value, float) or not math.isfinite(value)):
        raise wrong("a finite number", value)
    return Decimal(repr(read_number(value)) if whole is None else whole)


DECIMALS = (
    ValueForm({"type": "number"}, _read_decimal_number, NUMBERS, plain=False),
    of_kind("string", _read_decimal_text, plain=False),
)


def _read_decimal(value: Any) -> Decimal:
    return _read_decimal_text(value) if isinstance(value, str) else _read_decimal_number(value)


DECIMAL = ValueForm(
    {"anyOf": [form.schema for form in DECIMALS]},
    _read_decimal,
    NUMBERS | {"string"},
    plain=False,
    alternatives=DECIMALS,
)
LEAVES: dict[Any, ValueForm] = {
    Any: ANYTHING,
    object: ANYTHING,
    None: NULL,
    type(None): NULL,
    bool: BOOLEAN,
    int: INTEGER,
    float: NUMBER,
    str: TEXT,
    Decimal: DECIMAL,
}


def _reading(make: Callable[[str], Any], expected: str) -> Read:
    def read(value: Any) -> Any:
        text = read_text(value)
        try:
            return make(text)
        except (ValidationError, ValueError, ArithmeticError):
            raise UnreadableValue(f"must be {expected}") from None

    return read


def scalar_of(kind: type) -> ValueForm | None:
    """Give the form of a class of single values; nothing if it is none."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in WRITTEN:
        keywords, expected = WRITTEN[name]
        return of_kind("string", _reading(lambda text: convert(text, kind), expected), plain=False, **keywords)
    if name in CONSTRUCTED:
        format_, expected = CONSTRUCTED[name]
        return of_kind("string", _reading(kind, expected), plain=False, format=format_)
    if issubclass(kind, PurePath):
        return of_kind("string", _reading(kind, "a path"), plain=False, format="path")
    if name == "os.PathLike":
        return of_kind("string", _reading(Path, "a path"), plain=False, format="path")
    return None
