"""Calls and answers of a stream that are looked at again and again: each time only those of which something was said.

Rule: a look costs as much as was said since the last one, however many calls there are.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from toolwire.streams.calls import ArrivingCalls, CallSoFar


class UntoldCalls:
    """The calls that were not told yet, in order; only calls that were noted since the last look are looked at."""

    __slots__ = ("_calls", "_noted", "_odd", "_order")

    def __init__(self) -> None:
        self._calls: dict[int, CallSoFar] = {}
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

    def add(self, call: CallSoFar) -> None:
        """Add a new call."""
        self._calls[call.index] = call
        self.note(call)

    def note(self, call: CallSoFar) -> None:
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

    def told(self, call: CallSoFar) -> None:
        """Note that a call was told."""
        self._calls.pop(call.index, None)
        self._odd.discard(call.index)

    def named(self, last: CallSoFar | None) -> Iterator[CallSoFar]:
        """Give the calls that have a name, at most to the last: their name cannot grow any more."""
        while self._order and (last is None or self._order[0] <= last.index):
            place = heappop(self._order)
            self._noted.discard(place)
            call = self._calls.get(place)
            if call is not None and call.name and (call.id is not None or not call.is_empty or call is last):
                yield call


class DoubtfulAnswers:
    """The answers with calls in doubt; only answers that were noted since the last look are looked at."""

    __slots__ = ("_found", "_noted", "unusual")

    def __init__(self) -> None:
        self._noted: dict[int, ArrivingCalls] = {}
        # Of an answer that was cut off or not: the places of those with strays, and with strays that are a piece.
        self._found: dict[bool, tuple[set[int], set[int]]] = {False: (set(), set()), True: (set(), set())}
        self.unusual: set[int] = set()

    def note(self, place: int, calls: ArrivingCalls) -> None:
        """Note that something was said of the calls of an answer."""
        self._noted[place] = calls

    def look(self) -> None:
        """Look at what was noted."""
        for place, calls in self._noted.items():
            usual = calls.are_usual
            (self.unusual.discard if usual else self.unusual.add)(place)
            for cut, found in self._found.items():
                for places, is_there in zip(found, (False, False) if usual else calls.strays(cut=cut), strict=True):
                    (places.add if is_there else places.discard)(place)
        self._noted.clear()

    def strays(self, *, cut: bool) -> tuple[bool, bool]:
        """Whether arguments came that reached no named call of any answer, and whether some were no whole object."""
        strays, pieces = self._found[cut]
        return bool(strays), bool(pieces)
