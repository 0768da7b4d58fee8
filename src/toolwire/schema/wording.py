"""How values are shown and what is said of them: short, not secret, and so that the next call can be right.

Rules of this file:
- A field is sensitive by its name, at any depth; small and capital letters are the same. Of what stands below
  one, only the type is said, also where the same text stands elsewhere.
- Of a list or an object only the size is said: what is in it may be long, and may be secret.
- A sentence says what was expected and what came.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from msgspec import Struct

_MAX_DEPTH = 128
_MAX_VALUES = 1_000_000
_MAX_BITS = 4096
_MAX_KEY = 1000
_NO_JSON, _TOO_MANY, _TOO_DEEP = -1, -2, -3
_SHOWN = 60
_SHOWN_OF_A_SCHEMA = 200
_SHOWN_NAMES = 20
_MAX_SENTENCE = 600
_COMPARED = 60
_SCALARS = frozenset({bool, type(None)})
_MAX_SECRETS = 10_000
_MAX_LOOKED = 200_000


def weigh(root: Any, depth: int = _MAX_DEPTH) -> int:
    """Count the values inside a value; `_NO_JSON`, `_TOO_MANY` or `_TOO_DEEP` when it cannot be looked at."""
    size, level = 0, [root]
    for _ in range(depth):
        size += len(level)
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict and (not item or _has_good_keys(item)):
                below += item.values()
            elif kind is list:
                below += item
            elif (kind is not str or not item.isascii()) and (kind is dict or _flaw(item)):
                return _NO_JSON
            if size + len(below) > _MAX_VALUES:
                return _TOO_MANY
        if not below:
            return size
        level = below
    return _TOO_DEEP


def _has_good_keys(value: dict[Any, Any]) -> bool:
    for key in value:
        if type(key) is not str or len(key) > _MAX_KEY or not (key.isascii() or not _flaw_of_text(key)):
            return False
    return True


def _flaw_of_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is not a character"
    return ""


def _flaw(value: Any) -> str:
    """Say why a value alone is no JSON; nothing if it is."""
    kind = type(value)
    if kind is str:
        return _flaw_of_text(value)
    if kind is int:
        return f"is an integer of more than {_MAX_BITS:,} bits" if value.bit_length() > _MAX_BITS else ""
    if kind is float:
        return "" if math.isfinite(value) else f"is {value}, which is not a JSON number"
    return "" if kind in _SCALARS or kind in (dict, list) else f"is not a JSON value, but a Python {kind.__name__}"


def _flaw_of_keys(value: Any) -> str:
    for key in value if type(value) is dict else ():
        if type(key) is not str:
            return f"has a key that is not a string, but a Python {type(key).__name__}"
        if len(key) > _MAX_KEY:
            return f"has a key of more than {_MAX_KEY:,} characters"
        if flaw := _flaw_of_text(key):
            return f"has a key that {flaw}"
    return ""


class Spot(Struct, frozen=True):
    """Where a value stands in the arguments, and whether it must not be shown."""

    path: str = ""
    secret: bool = False

    def __str__(self) -> str:
        return f"field {self.path}" if self.path else "arguments"

    def item(self, index: int) -> "Spot":
        """Go to an item of a list."""
        return Spot(f"{self.path}[{index}]", self.secret)

    def field(self, shown: str, *, secret: bool = False) -> "Spot":
        """Go to a field, by its name as it may be shown."""
        if not shown or not shown.isprintable() or set(shown) & set(".[] \"'"):
            return Spot(f"{self.path}[{_written(shown)}]", secret or self.secret)
        return Spot(f"{self.path}.{shown}" if self.path else shown, secret or self.secret)


class Display:
    """How the values of some arguments are shown, and which of them are not."""

    __slots__ = ("_exact", "_names", "_nothing_shown", "_parts")

    def __init__(self, arguments: Any, sensitive: Collection[str]) -> None:
        self._names = frozenset(name.casefold() for name in sensitive)
        texts = _texts_below(arguments, self._names) if self._names else iter(())
        self._exact = frozenset(islice(texts, _MAX_SECRETS))
        self._parts = tuple(text for text in self._exact if len(text) > 2)
        self._nothing_shown = next(texts, None) is not None

    def value(self, value: Any, spot: Spot) -> str:
        """Show a value, or its type alone."""
        if spot.secret or (type(value) not in (list, dict) and self._is_secret(value)):
            return _kind_of(value)
        if type(value) in (list, dict):
            return f"{_kind_of(value)} of {counted(len(value), 'item' if type(value) is list else 'field')}"
        return _shortened(value)

    def count(self, number: int, value: Any, spot: Spot) -> str:
        """Show how many of something a value has, or its type alone."""
        return _kind_of(value) if spot.secret else f"{number:,}"

    def key(self, name: str, spot: Spot, *, declared: bool = False) -> str:
        """Show the name of a field; one that the schema declares is known to everybody."""
        if not declared and self.hides(name, spot):
            return "(hidden)"
        if not name.isascii():
            name = name.encode("utf-8", "backslashreplace").decode()
        return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."

    def hides(self, name: str, spot: Spot) -> bool:
        """Whether the name of an undeclared field must not be shown."""
        return spot.secret or self._is_secret(name)

    def below(self, spot: Spot, name: str, *, declared: bool = False) -> Spot:
        """Go to a field by its name."""
        return spot.field(self.key(name, spot, declared=declared), secret=name.casefold() in self._names)

    def _is_secret(self, value: Any) -> bool:
        if not self._exact or value is None or type(value) is bool:
            return False
        if self._nothing_shown:
            return True
        text = value if type(value) is str else str(value)
        return text in self._exact or any(part in text for part in self._parts)


def _texts_below(root: Any, names: frozenset[str]) -> Iterator[str]:
    """Give the texts and numbers below sensitive names; too many, where not everything could be looked at."""
    waiting: list[tuple[Any, bool]] = [(root, False)]
    for _ in range(_MAX_LOOKED):
        if not waiting:
            return
        value, secret = waiting.pop()
        if type(value) is dict:
            for key, inner in value.items():
                if secret and type(key) is str:
                    yield key
                waiting.append((inner, secret or (type(key) is str and key.casefold() in names)))
        elif type(value) is list:
            waiting += ((inner, secret) for inner in value)
        elif secret and value != "" and type(value) in (str, int, float) and not _flaw(value):
            yield str(value)
    yield from map(str, range(_MAX_SECRETS + 1))


_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _kind_of(value: Any) -> str:
    return _KINDS.get(type(value), f"a Python {type(value).__name__}")


def _written(value: Any) -> str:
    """Write a value as JSON; only a text that prints stays as it is."""
    return json.dumps(value, ensure_ascii=not (type(value) is str and value.isprintable()))


def _shortened(value: Any, limit: int = _SHOWN) -> str:
    """Write a value as JSON, its beginning where it is long."""
    if type(value) is str and len(value) > limit:
        return f'{_written(value[:limit])[:-1]}..." ({len(value):,} characters)'
    text = _written(value)
    return text if len(text) <= limit or type(value) is str else f"{text[:limit]}..."


def counted(number: Any, noun: str) -> str:
    """Write a number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if type(number) is int else f"{number} {noun}s"


def _among(values: list[Any]) -> str:
    shown = [_shortened(value) for value in values[:_SHOWN_NAMES]]
    more = [f"and {len(values) - _SHOWN_NAMES} more"] if len(values) > _SHOWN_NAMES else []
    return f"[{', '.join([*shown, *more])}]"


def form(schema: Any) -> str:
    """Write a schema in short, for a reader who knows JSON Schema."""
    match schema:
        case {"const": value, **rest} if not rest:
            return _shortened(value)
        case {"enum": list(values), **rest} if not rest:
            return f"one of {_among(values)}"
        case {"type": str() | list() as types, **rest} if not rest:
            return f"type {_type_names(types)}"
        case {"required": [str(name)], **rest} if not rest:
            return f"an object with the field {name}"
        case {"pattern": str(pattern), **rest} if not rest:
            return f"text that matches the pattern {pattern}"
    return _shortened(schema, _SHOWN_OF_A_SCHEMA)


def named(shown: str) -> str:
    """Call what is shown a value: text as it is, the mere type of one in brackets."""
    return f"value ({shown})" if shown.startswith("a") else f"value {shown}"


def _type_names(types: Any) -> str:
    return types if isinstance(types, str) else " or ".join(map(str, types))


def _bound(relation: str) -> Callable[[Any, str, Any], str]:
    return lambda limit, shown, _value: f"expected a number {relation} {_shortened(limit)}, got {shown}"


def _length(relation: str, noun: str) -> Callable[[Any, str, Any], str]:
    def write(limit: Any, shown: str, value: Any) -> str:
        got = shown if shown == _kind_of(value) else f"{len(value):,}"
        return f"expected {relation} {counted(limit, noun)}, got {got}"

    return write


def _content(limit: Any, shown: str, _value: Any) -> str:
    return f"expected text in the form {_shortened(limit)}, got {shown}"


WORDS: Mapping[str, Callable[[Any, str, Any], str]] = {
    "type": lambda limit, shown, _value: f"expected type {_type_names(limit)}, got {shown}",
    "enum": lambda limit, shown, _value: f"{named(shown)} not in allowed values {_among(limit)}",
    "const": lambda limit, shown, _value: f"{named(shown)} not in allowed values {_among([limit])}",
    "minimum": _bound("of at least"),
    "maximum": _bound("of at most"),
    "exclusiveMinimum": _bound("above"),
    "exclusiveMaximum": _bound("below"),
    "multipleOf": _bound("that is a multiple of"),
    "minLength": _length("at least", "character"),
    "maxLength": _length("at most", "character"),
    "pattern": lambda limit, shown, _value: f"{named(shown)} does not match the pattern {limit[:_SHOWN_OF_A_SCHEMA]}",
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
    return text if len(text) <= _MAX_SENTENCE else f"{text[:_MAX_SENTENCE]}..."


def missing_field(spot: Spot, reason: str = "") -> str:
    """Say that a field is not there."""
    return f"missing required field: {spot.path}{f' ({reason})' if reason else ''}"


def unknown_field(name: str, spot: Spot, known: Iterable[str], display: Display, *, hint: bool) -> str:
    """Say that a field is none of those that are known, and which one may have been meant."""
    names = list(dict.fromkeys(known))
    path = display.below(spot, name).path
    hint = hint and not display.hides(name, spot)
    near = get_close_matches(name[:_COMPARED], names[: 10 * _COMPARED], 1, 0.6) if hint else []
    meant = f"; did you mean {near[0]}?" if near else ""
    shown = [each if len(each) <= _SHOWN else f"{each[:_SHOWN]}..." for each in names[:_SHOWN_NAMES]]
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    listed = f"the known fields are {', '.join(shown)}{more}" if names else "no fields are known here"
    text = f"unknown field: {path}; {listed}{meant}"
    return text if len(text) <= 2 * _MAX_SENTENCE else f"{text[: 2 * _MAX_SENTENCE]}..."


def mismatch(keyword: str, limit: Any, value: Any, spot: Spot, display: Display) -> str:
    """Say that a value is not what one keyword asks for."""
    write = WORDS[keyword]
    return sentence(spot, write(limit, display.value(value, spot), value))


def flaw_of(root: Any, size: int, display: Display, depth: int = _MAX_DEPTH) -> tuple[Spot, str]:
    """Say why a value cannot be looked at, whose size is below 0: where, and what it is."""
    if size == _TOO_MANY:
        return Spot(), f"has more than {_MAX_VALUES:,} values"
    if size == _TOO_DEEP:
        return Spot(), f"is nested more than {depth} levels deep"
    level = [(root, Spot())]
    while level:
        for value, spot in level:
            if flaw := _flaw(value) or _flaw_of_keys(value):
                return spot, flaw
        level = [inside for value, spot in level for inside in _inside(value, spot, display)]
    return Spot(), "cannot be read as JSON"


def _inside(value: Any, spot: Spot, display: Display) -> list[tuple[Any, Spot]]:
    if type(value) is dict:
        return [(inner, display.below(spot, key)) for key, inner in value.items()]
    if type(value) is list:
        return [(inner, spot.item(index)) for index, inner in enumerate(value)]
    return []
