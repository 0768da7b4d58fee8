"""Calls of a stream that are looked at again and again: each time only those of which something was said.

Rule: a look costs as much as was said since the last one, however many calls there are.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from toolwire.streams.call_judge import PartialCall


class UntoldCalls:
    """The calls that were not told yet, in order; only calls that were noted since the last look are looked at."""

    __slots__ = ("_calls", "_noted", "_odd", "_order")

    def __init__(self) -> None:
        self._calls: dict[int, PartialCall] = {}
        self._noted: set[int] = set()
        self._order: list[int] = []  # the places of the noted ones, as a heap
        self._odd: set[int] = set()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._calls)

    @property
    def has_odd(self) -> bool:
        """Whether one has a name and no text, or text and no name."""
        return bool(self._odd)

    def add(self, call: PartialCall) -> None:
        """Add a new call."""
        self._calls[call.index] = call
        self.note(call)

    def note(self, call: PartialCall) -> None:
        """Note that something was said of a call."""
        place = call.index
        if place not in self._calls:
            return
        if place not in self._noted:
            self._noted.add(place)
            heappush(self._order, place)
        if bool(call.name) is call.is_empty:
            self._odd.add(place)
        else:
            self._odd.discard(place)

    def told(self, call: PartialCall) -> None:
        """Note that a call was told."""
        self._calls.pop(call.index, None)
        self._odd.discard(call.index)

    def named(self, last: PartialCall | None) -> Iterator[PartialCall]:
        """Give the calls that have a name, at most to the last: their name cannot grow any more."""
        while self._order and (last is None or self._order[0] <= last.index):
            place = heappop(self._order)
            self._noted.discard(place)
            call = self._calls.get(place)
            if call is not None and call.name and (call.id is not None or not call.is_empty or call is last):
                yield call
