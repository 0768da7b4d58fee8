"""The numbers of the choices of a response. Wires with several choices number them, and may send them in any order.

Rules of this file:
- The first choice is the one with the number 0, wherever it is in the list. If no choice has the number 0, it is the
  one with the lowest number.
- protobuf omits a number that is 0 in JSON (Gemini). So the first choice without a number has the number 0, unless
  another choice has it. Every other choice without a number has its position in the list as its number.
- No vendor uses negative numbers. Choices with a negative number are sorted after all others.
"""

from collections.abc import Sequence
from typing import Any

from toolwire.streams.calls import index_of


def rank(number: int) -> tuple[bool, int]:
    """Return the sort key of the `number` of a choice."""
    return number < 0, number


def _choice_numbers(entries: Sequence[dict[str, Any]]) -> list[int]:
    """Return the number of each choice in `entries`."""
    indexes = [index_of(entry.get("index")) for entry in entries]
    numbers = [position if index is None else index for position, index in enumerate(indexes)]
    if None in indexes and 0 not in indexes:
        numbers[indexes.index(None)] = 0
    return numbers


def number_choices(entries: list[Any]) -> list[Any]:
    """Return the entries of a chunk. If there are several, a choice without an `index` gets its number as `index`."""
    if len(entries) > 1:
        choices = [entry for entry in entries if type(entry) is dict]
        for entry, number in zip(choices, _choice_numbers(choices), strict=True):
            if index_of(entry.get("index")) is None:
                entry["index"] = number
    return entries


def choice_order(entries: Sequence[dict[str, Any]]) -> tuple[int, ...]:
    """Return the positions of `entries` in the order of their numbers, or () if they are in that order already."""
    if len(entries) < 2:
        return ()
    numbers = _choice_numbers(entries)
    has_no_index = [index_of(entry.get("index")) is None for entry in entries]
    order = sorted(range(len(entries)), key=lambda position: (rank(numbers[position]), has_no_index[position]))
    return () if order == list(range(len(entries))) else tuple(order)


def apply_order(values: list[Any], order: Sequence[int]) -> list[Any]:
    """Return `values` in `order`, a list of their positions. An empty order changes nothing."""
    return [values[position] for position in order] if order else values


def restore_order(values: list[Any], order: Sequence[int]) -> list[Any]:
    """Undo `apply_order`. If the number of values has changed since then, return `values` as they are."""
    if not order or len(order) != len(values):
        return values
    by_position = dict(zip(order, values, strict=True))
    return [by_position[position] for position in range(len(values))]
