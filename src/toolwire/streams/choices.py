"""Which of several answers is which: the wires that send several number them, in any order.

Rules of this file:
- The answer is the one with the number 0, wherever it stands; without that number, the one with the least.
- JSON of protobuf omits a number that is 0. So the first answer without a number is number 0, unless another one has
  that number; every other answer without a number has its position.
- No vendor counts below 0. An answer with such a number is one more, after all others.
"""

from collections.abc import Sequence
from typing import Any

from toolwire.streams.calls import index_of


def rank(number: int) -> tuple[bool, int]:
    """Return what to sort the numbers of answers by."""
    return number < 0, number


def numbers_of(entries: Sequence[dict[str, Any]]) -> list[int]:
    """Return the number of each answer among `entries`."""
    given = [index_of(entry.get("index")) for entry in entries]
    numbers = [position if index is None else index for position, index in enumerate(given)]
    if None in given and 0 not in given:
        numbers[given.index(None)] = 0
    return numbers


def numbered(entries: list[Any]) -> list[Any]:
    """Return the entries of a chunk; where there are several, each answer among them has its number."""
    if len(entries) > 1:
        answers = [entry for entry in entries if type(entry) is dict]
        for entry, number in zip(answers, numbers_of(answers), strict=True):
            if index_of(entry.get("index")) is None:
                entry["index"] = number
    return entries


def order_of(entries: Sequence[dict[str, Any]]) -> tuple[int, ...]:
    """Return the positions of `entries` in the order of their numbers; none if they stand in that order."""
    if len(entries) < 2:
        return ()
    numbers = numbers_of(entries)
    odd = [index_of(entry.get("index")) is None for entry in entries]
    order = sorted(range(len(entries)), key=lambda position: (rank(numbers[position]), odd[position]))
    return () if order == list(range(len(entries))) else tuple(order)


def in_order(values: list[Any], order: Sequence[int]) -> list[Any]:
    """Return `values` in an `order` of their positions; without one, as they are."""
    return [values[position] for position in order] if order else values


def as_they_stood(values: list[Any], order: Sequence[int]) -> list[Any]:
    """Return `values` as they stood before `in_order`; as they are if there are other ones by now."""
    if not order or len(order) != len(values):
        return values
    before = dict(zip(order, values, strict=True))
    return [before[position] for position in range(len(values))]
