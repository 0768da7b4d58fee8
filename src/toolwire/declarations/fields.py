"""What may stand in a field, and what may stand in a map: tables, and one function that checks against them.

Rules of this file:
- A key that is not in the table is refused, with the one that was probably meant.
- A field that is null is one that is not there.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from toolwire.declarations.nodes import Node, Problems, below, shown, suggestion

_SAID_FOR = {**dict.fromkeys(("yes", "on", "y"), "true"), **dict.fromkeys(("no", "off", "n"), "false")}


class _Expected(Struct, frozen=True):
    """What a value must be: `right` says it in words, `each` what its members must be."""

    right: str
    holds: Callable[[Any], bool]
    each: "_Expected | None" = None


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and value > 0


def one_of(*words: str) -> _Expected:
    """Make a kind of some words."""
    return _Expected(f"must be {' or '.join(words)}", lambda value: value in words)


ANY = _Expected("must be given", lambda _: True)
TEXT = _Expected("must be a text", lambda value: type(value) is str)
NAME = _Expected("must be a text that is not empty", lambda value: type(value) is str and value != "")
FLAG = _Expected("must be true or false", lambda value: type(value) is bool)
AMOUNT = _Expected("must be a number above 0", _is_amount)
MAP = _Expected("must be a map", lambda value: type(value) is dict)
LIST = _Expected("must be a list", lambda value: type(value) is list)
NAMES = _Expected("must be a list of texts", lambda value: type(value) is list, NAME)
RENAMES = _Expected("must be a map of old names to new ones", lambda value: type(value) is dict, NAME)


def check(node: Node, kind: _Expected, field: str, problems: Problems) -> bool:
    """Whether a node is what it must be; what is not becomes a problem."""
    if not kind.holds(node.value):
        problems.add(node, field, f"{kind.right}, not {shown(node.value)}{_hint(node.value, kind)}")
        return False
    if kind.each is None:
        return True
    good = [check(member, kind.each, below(field, step), problems) for step, member in node.members()]
    return all(good)


def _hint(value: Any, kind: _Expected) -> str:
    if kind is FLAG and type(value) is str and value.lower() in _SAID_FOR:
        return f", which is a text; write {_SAID_FOR[value.lower()]}"
    if kind in (TEXT, NAME) and type(value) in (int, float, bool):
        return "; put it in quotes"
    return ""


def check_map(node: Node, fields: Mapping[str, _Expected], field: str, problems: Problems) -> dict[str, Node]:
    """Give the fields of a map that are as the table says; the others become problems."""
    if not check(node, MAP, field, problems):
        return {}
    good: dict[str, Node] = {}
    for key, inner in node.value.items():
        kind = fields.get(key)
        if kind is None:
            problems.add(inner, below(field, key), f"is no key here; {suggestion(key, fields)}")
        elif inner.value is not None and check(inner, kind, below(field, key), problems):
            good[key] = inner
    return good
