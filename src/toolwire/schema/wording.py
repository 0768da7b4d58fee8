"""The sentences that report invalid arguments: short, without secrets, and precise enough to correct the next call.

Rules of this file:
- A field is sensitive by its name, at any depth. Upper and lower case are not distinguished. Of a value below a
  sensitive field only the type is shown, also where the same text occurs in another field.
- Of a list or an object only the size is shown, because its content may be long or secret.
- A sentence names what the schema expects and what it received.
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
_NOT_JSON, _TOO_MANY, _TOO_DEEP = -1, -2, -3
_MAX_SHOWN = 60
_MAX_SHOWN_SCHEMA = 200
_MAX_SHOWN_NAMES = 20
_MAX_SENTENCE = 600
_MAX_COMPARED = 60
_SCALARS = frozenset({bool, type(None)})
_MAX_SECRETS = 10_000
_MAX_VISITED = 200_000


def count_values(root: Any, depth: int = _MAX_DEPTH) -> int:
    """Return the number of JSON values in `root`, or a negative code if it cannot be validated."""
    size, level = 0, [root]
    for _ in range(depth):
        size += len(level)
        below: list[Any] = []
        for item in level:
            item_type = type(item)
            if item_type is dict and (not item or _has_valid_keys(item)):
                below += item.values()
            elif item_type is list:
                below += item
            elif (item_type is not str or not item.isascii()) and (item_type is dict or _value_flaw(item)):
                return _NOT_JSON
            if size + len(below) > _MAX_VALUES:
                return _TOO_MANY
        if not below:
            return size
        level = below
    return _TOO_DEEP


def _has_valid_keys(value: dict[Any, Any]) -> bool:
    for key in value:
        if type(key) is not str or len(key) > _MAX_KEY or not (key.isascii() or not _text_flaw(key)):
            return False
    return True


def _text_flaw(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is not a character"
    return ""


def _value_flaw(value: Any) -> str:
    """Describe why `value` itself is not JSON. Return an empty text if it is."""
    value_type = type(value)
    if value_type is str:
        return _text_flaw(value)
    if value_type is int:
        return f"is an integer of more than {_MAX_BITS:,} bits" if value.bit_length() > _MAX_BITS else ""
    if value_type is float:
        return "" if math.isfinite(value) else f"is {value}, which is not a JSON number"
    return (
        ""
        if value_type in _SCALARS or value_type in (dict, list)
        else f"is not a JSON value, but a Python {value_type.__name__}"
    )


def _key_flaw(value: Any) -> str:
    for key in value if type(value) is dict else ():
        if type(key) is not str:
            return f"has a key that is not a string, but a Python {type(key).__name__}"
        if len(key) > _MAX_KEY:
            return f"has a key of more than {_MAX_KEY:,} characters"
        if flaw := _text_flaw(key):
            return f"has a key that {flaw}"
    return ""


class Location(Struct, frozen=True):
    """The path of a value in the arguments. The value of a `secret` location is never shown."""

    path: str = ""
    secret: bool = False

    def __str__(self) -> str:
        return f"field {self.path}" if self.path else "arguments"

    def item(self, index: int) -> "Location":
        """Return the location of the list item at `index`."""
        return Location(f"{self.path}[{index}]", self.secret)

    def field(self, display_name: str, *, secret: bool = False) -> "Location":
        """Return the location of a field. `display_name` is its name as it may be shown."""
        if not display_name or not display_name.isprintable() or set(display_name) & set(".[] \"'"):
            return Location(f"{self.path}[{_to_json(display_name)}]", secret or self.secret)
        return Location(f"{self.path}.{display_name}" if self.path else display_name, secret or self.secret)


class Display:
    """Formats the values of one call, and hides those that are sensitive."""

    __slots__ = ("_fragments", "_hide_all", "_names", "_secrets")

    def __init__(self, arguments: Any, sensitive: Collection[str]) -> None:
        self._names = frozenset(name.casefold() for name in sensitive)
        texts = _sensitive_texts(arguments, self._names) if self._names else iter(())
        self._secrets = frozenset(islice(texts, _MAX_SECRETS))
        self._fragments = tuple(text for text in self._secrets if len(text) > 2)
        self._hide_all = next(texts, None) is not None

    def value(self, value: Any, location: Location) -> str:
        """Format `value`, or only its type if it is hidden or too large to show."""
        if location.secret or (type(value) not in (list, dict) and self._is_secret(value)):
            return _type_phrase(value)
        if type(value) in (list, dict):
            return f"{_type_phrase(value)} of {count_phrase(len(value), 'item' if type(value) is list else 'field')}"
        return _short_json(value)

    def count(self, number: int, value: Any, location: Location) -> str:
        """Format `number`, a size of `value`, or only the type of `value` if the location is secret."""
        return _type_phrase(value) if location.secret else f"{number:,}"

    def key(self, name: str, location: Location, *, declared: bool = False) -> str:
        """Format the name of a field. A name that the schema declares is not secret."""
        if not declared and self.hides(name, location):
            return "(hidden)"
        if not name.isascii():
            name = name.encode("utf-8", "backslashreplace").decode()
        return name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}..."

    def hides(self, name: str, location: Location) -> bool:
        """Return True if the name of an undeclared field must not be shown."""
        return location.secret or self._is_secret(name)

    def below(self, location: Location, name: str, *, declared: bool = False) -> Location:
        """Return the location of the field `name` below `location`."""
        return location.field(self.key(name, location, declared=declared), secret=name.casefold() in self._names)

    def _is_secret(self, value: Any) -> bool:
        if not self._secrets or value is None or type(value) is bool:
            return False
        if self._hide_all:
            return True
        text = value if type(value) is str else str(value)
        return text in self._secrets or any(part in text for part in self._fragments)


def _sensitive_texts(root: Any, names: frozenset[str]) -> Iterator[str]:
    """Yield the texts and numbers below the fields in `names`.

    If `root` is too large to visit, yield more than `_MAX_SECRETS` texts, so that the display hides everything.
    """
    pending: list[tuple[Any, bool]] = [(root, False)]
    for _ in range(_MAX_VISITED):
        if not pending:
            return
        value, secret = pending.pop()
        if type(value) is dict:
            for key, child in value.items():
                if secret and type(key) is str:
                    yield key
                pending.append((child, secret or (type(key) is str and key.casefold() in names)))
        elif type(value) is list:
            pending += ((child, secret) for child in value)
        elif secret and value != "" and type(value) in (str, int, float) and not _value_flaw(value):
            yield str(value)
    yield from map(str, range(_MAX_SECRETS + 1))


_TYPE_PHRASES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _type_phrase(value: Any) -> str:
    return _TYPE_PHRASES.get(type(value), f"a Python {type(value).__name__}")


def _to_json(value: Any) -> str:
    """Write `value` as JSON. Printable text is not escaped."""
    return json.dumps(value, ensure_ascii=not (type(value) is str and value.isprintable()))


def _short_json(value: Any, limit: int = _MAX_SHOWN) -> str:
    """Write `value` as JSON, cut after `limit` characters."""
    if type(value) is str and len(value) > limit:
        return f'{_to_json(value[:limit])[:-1]}..." ({len(value):,} characters)'
    text = _to_json(value)
    return text if len(text) <= limit or type(value) is str else f"{text[:limit]}..."


def count_phrase(number: Any, noun: str) -> str:
    """Write a number with its noun, as `3 items`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if type(number) is int else f"{number} {noun}s"


def _format_values(values: list[Any]) -> str:
    texts = [_short_json(value) for value in values[:_MAX_SHOWN_NAMES]]
    more = [f"and {len(values) - _MAX_SHOWN_NAMES} more"] if len(values) > _MAX_SHOWN_NAMES else []
    return f"[{', '.join([*texts, *more])}]"


def summarize_schema(schema: Any) -> str:
    """Describe `schema` in a few words, for a reader who knows JSON Schema."""
    match schema:
        case {"const": value, **rest} if not rest:
            return _short_json(value)
        case {"enum": list(values), **rest} if not rest:
            return f"one of {_format_values(values)}"
        case {"type": str() | list() as types, **rest} if not rest:
            return f"type {_type_names(types)}"
        case {"required": [str(name)], **rest} if not rest:
            return f"an object with the field {name}"
        case {"pattern": str(pattern), **rest} if not rest:
            return f"text that matches the pattern {pattern}"
    return _short_json(schema, _MAX_SHOWN_SCHEMA)


def label_value(display_text: str) -> str:
    """Write `value X`, or `value (a string)` if `display_text` is only a type."""
    return f"value ({display_text})" if display_text.startswith("a") else f"value {display_text}"


def _type_names(types: Any) -> str:
    return types if isinstance(types, str) else " or ".join(map(str, types))


def _bound(relation: str) -> Callable[[Any, str, Any], str]:
    return lambda limit, display_text, _value: f"expected a number {relation} {_short_json(limit)}, got {display_text}"


def _length(relation: str, noun: str) -> Callable[[Any, str, Any], str]:
    def write(limit: Any, display_text: str, value: Any) -> str:
        actual = display_text if display_text == _type_phrase(value) else f"{len(value):,}"
        return f"expected {relation} {count_phrase(limit, noun)}, got {actual}"

    return write


def _content(limit: Any, display_text: str, _value: Any) -> str:
    return f"expected text in the form {_short_json(limit)}, got {display_text}"


MISMATCH_MESSAGES: Mapping[str, Callable[[Any, str, Any], str]] = {
    "type": lambda limit, display_text, _value: f"expected type {_type_names(limit)}, got {display_text}",
    "enum": lambda limit, display_text, _value: (
        f"{label_value(display_text)} not in allowed values {_format_values(limit)}"
    ),
    "const": lambda limit, display_text, _value: (
        f"{label_value(display_text)} not in allowed values {_format_values([limit])}"
    ),
    "minimum": _bound("of at least"),
    "maximum": _bound("of at most"),
    "exclusiveMinimum": _bound("above"),
    "exclusiveMaximum": _bound("below"),
    "multipleOf": _bound("that is a multiple of"),
    "minLength": _length("at least", "character"),
    "maxLength": _length("at most", "character"),
    "pattern": lambda limit, display_text, _value: (
        f"{label_value(display_text)} does not match the pattern {limit[:_MAX_SHOWN_SCHEMA]}"
    ),
    "minItems": _length("at least", "item"),
    "maxItems": _length("at most", "item"),
    "uniqueItems": lambda _limit, _display_text, _value: "expected items that all differ, got some twice",
    "minProperties": _length("at least", "field"),
    "maxProperties": _length("at most", "field"),
    "contentEncoding": _content,
    "contentMediaType": _content,
}


def format_problem(location: Location, words: str) -> str:
    """Write one problem as `field PATH: words`, cut to the maximum length."""
    text = f"{location}: {words}"
    return text if len(text) <= _MAX_SENTENCE else f"{text[:_MAX_SENTENCE]}..."


def describe_missing_field(location: Location, reason: str = "") -> str:
    """Report that the required field at `location` is missing."""
    return f"missing required field: {location.path}{f' ({reason})' if reason else ''}"


def describe_unknown_field(name: str, location: Location, known: Iterable[str], display: Display, *, hint: bool) -> str:
    """Report that `name` is not one of the `known` fields. With `hint`, suggest a similar known name."""
    names = list(dict.fromkeys(known))
    path = display.below(location, name).path
    hint = hint and not display.hides(name, location)
    similar = get_close_matches(name[:_MAX_COMPARED], names[: 10 * _MAX_COMPARED], 1, 0.6) if hint else []
    suggestion = f"; did you mean {similar[0]}?" if similar else ""
    listed_names = [
        known_name if len(known_name) <= _MAX_SHOWN else f"{known_name[:_MAX_SHOWN]}..."
        for known_name in names[:_MAX_SHOWN_NAMES]
    ]
    more = f" and {len(names) - _MAX_SHOWN_NAMES} more" if len(names) > _MAX_SHOWN_NAMES else ""
    listed = f"the known fields are {', '.join(listed_names)}{more}" if names else "no fields are known here"
    text = f"unknown field: {path}; {listed}{suggestion}"
    return text if len(text) <= 2 * _MAX_SENTENCE else f"{text[: 2 * _MAX_SENTENCE]}..."


def describe_mismatch(keyword: str, limit: Any, value: Any, location: Location, display: Display) -> str:
    """Report that `value` violates `keyword`."""
    write = MISMATCH_MESSAGES[keyword]
    return format_problem(location, write(limit, display.value(value, location), value))


def describe_flaw(root: Any, size: int, display: Display, depth: int = _MAX_DEPTH) -> tuple[Location, str]:
    """Return where and why `root` cannot be validated. `size` is the negative result of `count_values`."""
    if size == _TOO_MANY:
        return Location(), f"has more than {_MAX_VALUES:,} values"
    if size == _TOO_DEEP:
        return Location(), f"is nested more than {depth} levels deep"
    level = [(root, Location())]
    while level:
        for value, location in level:
            if flaw := _value_flaw(value) or _key_flaw(value):
                return location, flaw
        level = [child for value, location in level for child in _located_children(value, location, display)]
    return Location(), "cannot be read as JSON"


def _located_children(value: Any, location: Location, display: Display) -> list[tuple[Any, Location]]:
    if type(value) is dict:
        return [(inner, display.below(location, key)) for key, inner in value.items()]
    if type(value) is list:
        return [(inner, location.item(index)) for index, inner in enumerate(value)]
    return []
