"""What is wrong with one value, in words: a table from the keywords that look at the value alone.

Rule: a sentence says what was expected and what came, so that the next call can be right.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from toolwire.schema.validation.values import SHOWN, Display, Spot, kind_of, shortened

MAX_NAMES = 20
MAX_SENTENCE = 600
_COMPARED = 60
_FORM = 200


def counted(number: Any, noun: str) -> str:
    """Write a number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if type(number) is int else f"{number} {noun}s"


def _among(values: list[Any]) -> str:
    shown = [shortened(value) for value in values[:MAX_NAMES]]
    more = [f"and {len(values) - MAX_NAMES} more"] if len(values) > MAX_NAMES else []
    return f"[{', '.join([*shown, *more])}]"


def form(schema: Any) -> str:
    """Write a schema in short, for a reader who knows JSON Schema."""
    match schema:
        case {"const": value, **rest} if not rest:
            return shortened(value)
        case {"enum": list(values), **rest} if not rest:
            return f"one of {_among(values)}"
        case {"type": str() | list() as types, **rest} if not rest:
            return f"type {type_names(types)}"
        case {"required": [str(name)], **rest} if not rest:
            return f"an object with the field {name}"
        case {"pattern": str(pattern), **rest} if not rest:
            return f"text that matches the pattern {pattern}"
    return shortened(schema, _FORM)


def named(shown: str) -> str:
    """Call what is shown a value: text as it is, the mere type of one in brackets."""
    return f"value ({shown})" if shown.startswith("a") else f"value {shown}"


def type_names(types: Any) -> str:
    """Write the types that are allowed."""
    return types if isinstance(types, str) else " or ".join(map(str, types))


def _bound(relation: str) -> Callable[[Any, str, Any], str]:
    return lambda limit, shown, _value: f"expected a number {relation} {shortened(limit)}, got {shown}"


def _length(relation: str, noun: str) -> Callable[[Any, str, Any], str]:
    def write(limit: Any, shown: str, value: Any) -> str:
        got = shown if shown == kind_of(value) else f"{len(value):,}"
        return f"expected {relation} {counted(limit, noun)}, got {got}"

    return write


def _content(limit: Any, shown: str, _value: Any) -> str:
    return f"expected text in the form {shortened(limit)}, got {shown}"


WORDS: Mapping[str, Callable[[Any, str, Any], str]] = {
    "type": lambda limit, shown, _value: f"expected type {type_names(limit)}, got {shown}",
    "enum": lambda limit, shown, _value: f"{named(shown)} not in allowed values {_among(limit)}",
    "const": lambda limit, shown, _value: f"{named(shown)} not in allowed values {_among([limit])}",
    "minimum": _bound("of at least"),
    "maximum": _bound("of at most"),
    "exclusiveMinimum": _bound("above"),
    "exclusiveMaximum": _bound("below"),
    "multipleOf": _bound("that is a multiple of"),
    "minLength": _length("at least", "character"),
    "maxLength": _length("at most", "character"),
    "pattern": lambda limit, shown, _value: f"{named(shown)} does not match the pattern {limit[:_FORM]}",
    "minItems": _length("at least", "item"),
    "maxItems": _length("at most", "item"),
    "uniqueItems": lambda _limit, _shown, _value: "expected items that all differ, got some twice",
    "minProperties": _length("at least", "field"),
    "maxProperties": _length("at most", "field"),
    "contentEncoding": _content,
    "contentMediaType": _content,
}


def sentence(spot: Spot, words: str) -> str:
    """Say something of one place."""
    text = f"{spot}: {words}"
    return text if len(text) <= MAX_SENTENCE else f"{text[:MAX_SENTENCE]}..."


def missing(spot: Spot, reason: str = "") -> str:
    """Say that a field is not there."""
    return f"missing required field: {spot.path}{f' ({reason})' if reason else ''}"


def unknown(name: str, spot: Spot, known: Iterable[str], display: Display, *, hint: bool) -> str:
    """Say that a field is none of those that are known, and which one may have been meant."""
    names = list(dict.fromkeys(known))
    path = display.below(spot, name).path
    hint = hint and not display.hides(name, spot)
    near = get_close_matches(name[:_COMPARED], names[: 10 * _COMPARED], 1, 0.6) if hint else []
    meant = f"; did you mean {near[0]}?" if near else ""
    shown = [each if len(each) <= SHOWN else f"{each[:SHOWN]}..." for each in names[:MAX_NAMES]]
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    listed = f"the known fields are {', '.join(shown)}{more}" if names else "no fields are known here"
    text = f"unknown field: {path}; {listed}{meant}"
    return text if len(text) <= 2 * MAX_SENTENCE else f"{text[: 2 * MAX_SENTENCE]}..."


def said(keyword: str, limit: Any, value: Any, spot: Spot, display: Display) -> str:
    """Say that a value is not what one keyword asks for."""
    write = WORDS[keyword]
    return sentence(spot, write(limit, display.value(value, spot), value))
