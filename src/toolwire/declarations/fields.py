"""What may stand in a field, and what may stand in a map: tables, and one function that checks against them.

Rules of this file:
- A key that is not in the table is refused, with the one that was probably meant.
- A field that is null is one that is not there.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from toolwire.declarations.nodes import Node
from toolwire.declarations.problems import Problems, below, shown, suggestion

_SAID_FOR = {**dict.fromkeys(("yes", "on", "y"), "true"), **dict.fromkeys(("no", "off", "n"), "false")}


class Kind(Struct, frozen=True):
    """What a value must be: `right` says it in words, `each` what its members must be."""

    right: str
    holds: Callable[[Any], bool]
    each: "Kind | None" = None


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and value > 0


def one_of(*words: str) -> Kind:
    """Make a kind of some words."""
    return Kind(f"must be {' or '.join(words)}", lambda value: value in words)


ANY = Kind("must be given", lambda _: True)
TEXT = Kind("must be a text", lambda value: type(value) is str)
NAME = Kind("must be a text that is not empty", lambda value: type(value) is str and value != "")
FLAG = Kind("must be true or false", lambda value: type(value) is bool)
AMOUNT = Kind("must be a number above 0", _is_amount)
MAP = Kind("must be a map", lambda value: type(value) is dict)
LIST = Kind("must be a list", lambda value: type(value) is list)
NAMES = Kind("must be a list of texts", lambda value: type(value) is list, NAME)
RENAMES = Kind("must be a map of old names to new ones", lambda value: type(value) is dict, NAME)


def check(node: Node, kind: Kind, field: str, problems: Problems) -> bool:
    """Whether a node is what it must be; what is not becomes a problem."""
    if not kind.holds(node.value):
        problems.add(node, field, f"{kind.right}, not {shown(node.value)}{_hint(node.value, kind)}")
        return False
    if kind.each is None:
        return True
    good = [check(member, kind.each, below(field, step), problems) for step, member in node.members()]
    return all(good)


def _hint(value: Any, kind: Kind) -> str:
    if kind is FLAG and type(value) is str and value.lower() in _SAID_FOR:
        return f", which is a text; write {_SAID_FOR[value.lower()]}"
    if kind in (TEXT, NAME) and type(value) in (int, float, bool):
        return "; put it in quotes"
    return ""


def check_map(node: Node, fields: Mapping[str, Kind], field: str, problems: Problems) -> dict[str, Node]:
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
