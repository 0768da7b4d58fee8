"""The calls of a stream whose start was not emitted yet.

Rule: a look costs as much as arrived since the last look, however many calls there are.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from toolwire.streams.call_judge import PartialCall


class UntoldCalls:
    """The calls whose start was not emitted yet, in order; a look reads only calls that were noted since then."""

    __slots__ = ("_calls", "_noted", "_odd", "_order")

    def __init__(self) -> None:
        self._calls: dict[int, PartialCall] = {}
        self._noted: set[int] = set()
        self._order: list[int] = []  # the indexes of the noted calls, as a heap
        self._odd: set[int] = set()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._calls)

    @property
    def has_odd(self) -> bool:
        """Return True if a call has a name and no text, or text and no name."""
        return bool(self._odd)

    def add(self, call: PartialCall) -> None:
        """Add a new call."""
        self._calls[call.index] = call
        self.note(call)

    def note(self, call: PartialCall) -> None:
        """Note that something of a call arrived."""
        index = call.index
        if index not in self._calls:
            return
        if index not in self._noted:
            self._noted.add(index)
            heappush(self._order, index)
        if bool(call.name) is call.is_empty:
            self._odd.add(index)
        else:
            self._odd.discard(index)

    def started(self, call: PartialCall) -> None:
        """Note that the start of a call was emitted."""
        self._calls.pop(call.index, None)
        self._odd.discard(call.index)

    def named(self, last: PartialCall | None) -> Iterator[PartialCall]:
        """Yield the calls that have a name, at most to `last`: their name cannot grow any more."""
        while self._order and (last is None or self._order[0] <= last.index):
            index = heappop(self._order)
            self._noted.discard(index)
            call = self._calls.get(index)
            if call is not None and call.name and (call.id is not None or not call.is_empty or call is last):
                yield call
