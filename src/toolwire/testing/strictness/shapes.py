"""The shapes of bodies, checked against tables: which keys there are, of which kind, and which must be there.

Rule: a table says what; the words of a vendor say how a mistake is told.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from toolwire.testing.strictness.asked import Rejection

KINDS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) is int or (type(value) is float and math.isfinite(value)),
    "boolean": lambda value: type(value) is bool,
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
    "null": lambda value: value is None,
}
NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}


class Words(NamedTuple):
    """How a vendor tells that a key is missing, is unknown, or has the wrong kind of value."""

    missing: Callable[[str], Rejection]
    unknown: Callable[[str, str], Rejection] | None
    wrong: Callable[[str, str, Any], Rejection]
    join: Callable[[str, str | int], str]


def kind_of(value: Any) -> str:
    """Name the kind of a value as JSON does."""
    return NAMES.get(type(value), "null")


def fits(value: Any, kinds: str) -> bool:
    """Whether a value is of one of several kinds: "string|array"."""
    return any(KINDS[kind](value) for kind in kinds.split("|"))


def check_object(
    value: Any, fields: Mapping[str, str], required: Iterable[str], words: Words, at: str = ""
) -> Iterator[Rejection]:
    """Check an object against a table of its keys; unknown ones are refused where the vendor does."""
    if type(value) is not dict:
        yield words.wrong(at, "object", value)
        return
    for key in required:
        if key not in value:
            yield words.missing(words.join(at, key))
    for key, inner in value.items():
        kinds = fields.get(key)
        if kinds is None and words.unknown is not None:
            yield words.unknown(at, key)
        elif kinds and not fits(inner, kinds):
            yield words.wrong(words.join(at, key), kinds, inner)


def dotted(at: str, step: str | int) -> str:
    """Write a path with dots alone: "messages.0.content"."""
    return f"{at}.{step}" if at else str(step)


def bracketed(at: str, step: str | int) -> str:
    """Write a path with positions in brackets: "messages[0].content"."""
    return f"{at}[{step}]" if isinstance(step, int) else dotted(at, step)


def objects(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """List the objects of a list, each with its position."""
    if type(value) is list:
        yield from ((place, inner) for place, inner in enumerate(value) if type(inner) is dict)


def twice(names: Iterable[Any]) -> str | None:
    """Give the first name that comes twice."""
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            return str(name)
        seen.add(name)
    return None
