"""The calls of a stream whose start was not emitted yet.

Rule: each pass costs as much as arrived since the last pass, however many calls there are. A stream with thousands of
parallel calls is read in linear time.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from toolwire.streams.call_judge import PartialCall


class PendingCalls:
    """The calls whose start was not emitted yet, in order. Each pass reads only the calls noted since the last one."""

    __slots__ = ("_calls", "_incomplete", "_noted", "_order")

    def __init__(self) -> None:
        self._calls: dict[int, PartialCall] = {}
        self._noted: set[int] = set()
        self._order: list[int] = []  # the indexes of the noted calls, as a heap
        self._incomplete: set[int] = set()

    def __len__(self) -> int:
        """Return how many calls are pending."""
        return len(self._calls)

    @property
    def has_incomplete(self) -> bool:
        """Return True if a call has a name and no text, or text and no name."""
        return bool(self._incomplete)

    def add(self, call: PartialCall) -> None:
        """Add a new call."""
        self._calls[call.index] = call
        self.note(call)

    def note(self, call: PartialCall) -> None:
        """Note that a fragment of `call` arrived."""
        index = call.index
        if index not in self._calls:
            return
        if index not in self._noted:
            self._noted.add(index)
            heappush(self._order, index)
        if bool(call.name) is call.is_empty:
            self._incomplete.add(index)
        else:
            self._incomplete.discard(index)

    def remove(self, call: PartialCall) -> None:
        """Remove `call`, whose start was emitted."""
        self._calls.pop(call.index, None)
        self._incomplete.discard(call.index)

    def take_named(self, last: PartialCall | None) -> Iterator[PartialCall]:
        """Yield the noted calls that have a name, up to `last`. No name before `last` can grow any more."""
        while self._order and (last is None or self._order[0] <= last.index):
            index = heappop(self._order)
            self._noted.discard(index)
            call = self._calls.get(index)
            if call is not None and call.name and (call.id is not None or not call.is_empty or call is last):
                yield call
