"""Values as they are checked and shown: only JSON is validated, and what is shown is short and not secret.

Rules of this file:
- A field is sensitive by its name, at any depth; small and capital letters are the same. Of what stands below
  one, only the type is said, also where the same text stands elsewhere.
- Of a list or an object only the size is said: what is in it may be long, and may be secret.
"""

import json
import math
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

MAX_DEPTH = 128
MAX_VALUES = 1_000_000
MAX_BITS = 4096
MAX_KEY = 1000
NO_JSON, TOO_MANY, TOO_DEEP = -1, -2, -3
SHOWN = 60
_SCALARS = frozenset({bool, type(None)})
_MAX_SECRETS = 10_000
_MAX_LOOKED = 200_000


def weigh(root: Any, depth: int = MAX_DEPTH) -> int:
    """Count the values inside a value; `NO_JSON`, `TOO_MANY` or `TOO_DEEP` when it cannot be looked at."""
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
                return NO_JSON
            if size + len(below) > MAX_VALUES:
                return TOO_MANY
        if not below:
            return size
        level = below
    return TOO_DEEP


def _has_good_keys(value: dict[Any, Any]) -> bool:
    for key in value:
        if type(key) is not str or len(key) > MAX_KEY or not (key.isascii() or not _flaw_of_text(key)):
            return False
    return True


def _flaw_of_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is no character"
    return ""


def _flaw(value: Any) -> str:
    """Say why a value alone is no JSON; nothing if it is."""
    kind = type(value)
    if kind is str:
        return _flaw_of_text(value)
    if kind is int:
        return f"is an integer of more than {MAX_BITS:,} bits" if value.bit_length() > MAX_BITS else ""
    if kind is float:
        return "" if math.isfinite(value) else f"is {value}, which is no JSON number"
    return "" if kind in _SCALARS or kind in (dict, list) else f"is no JSON value, but a Python {kind.__name__}"


def _flaw_of_keys(value: Any) -> str:
    for key in value if type(value) is dict else ():
        if type(key) is not str:
            return f"has a key that is no string, but a Python {type(key).__name__}"
        if len(key) > MAX_KEY:
            return f"has a key of more than {MAX_KEY:,} characters"
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
            return Spot(f"{self.path}[{written(shown)}]", secret or self.secret)
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
            return kind_of(value)
        if type(value) in (list, dict):
            return sized(value)
        return shortened(value)

    def count(self, number: int, value: Any, spot: Spot) -> str:
        """Show how many of something a value has, or its type alone."""
        return kind_of(value) if spot.secret else f"{number:,}"

    def key(self, name: str, spot: Spot, *, declared: bool = False) -> str:
        """Show the name of a field; one that the schema declares is known to everybody."""
        if not declared and self.hides(name, spot):
            return "(hidden)"
        if not name.isascii():
            name = name.encode("utf-8", "backslashreplace").decode()
        return name if len(name) <= SHOWN else f"{name[:SHOWN]}..."

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


def kind_of(value: Any) -> str:
    """Name the type of a value."""
    return _KINDS.get(type(value), f"a Python {type(value).__name__}")


def sized(value: Any) -> str:
    """Name the type of a value, and the size of a list or an object."""
    if type(value) is list:
        return f"an array of {len(value):,} {'item' if len(value) == 1 else 'items'}"
    if type(value) is dict:
        return f"an object of {len(value):,} {'field' if len(value) == 1 else 'fields'}"
    return kind_of(value)


def written(value: Any) -> str:
    """Write a value as JSON; only a text that prints stays as it is."""
    return json.dumps(value, ensure_ascii=not (type(value) is str and value.isprintable()))


def shortened(value: Any, limit: int = SHOWN) -> str:
    """Write a value as JSON, its beginning where it is long."""
    if type(value) is str and len(value) > limit:
        return f'{written(value[:limit])[:-1]}..." ({len(value):,} characters)'
    text = written(value)
    return text if len(text) <= limit or type(value) is str else f"{text[:limit]}..."


def flaw_of(root: Any, size: int, display: Display, depth: int = MAX_DEPTH) -> tuple[Spot, str]:
    """Say why a value cannot be looked at, whose size is below 0: where, and what it is."""
    if size == TOO_MANY:
        return Spot(), f"has more than {MAX_VALUES:,} values"
    if size == TOO_DEEP:
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
