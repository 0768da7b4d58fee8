"""Which call a fragment belongs to, on a wire that says it by an id, by an index, by both or by neither.

Rules of this file, in order:
- An id that is known is that call's. Another call has the same id where its index is free and it is named, or
  where a name comes with text after a whole text.
- An id that is new is a new call, whatever its index; only a call that has no id yet takes it.
- Without an id the index decides; without both, the one call that is still open. Where several are open, each
  of them could be meant, so none of them is usable.
- A name that comes late is the call's. Pieces of a name before any text are one name; the same name again is a
  repetition. Another name after text, or together with it, makes the call unusable.
- Text that repeats a whole text is a repetition, if it is no free text.
- Text that reaches no named call may have been meant for any call without text: none of those is usable.
"""

from collections import Counter
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct

from toolwire.errors import FrameTooLarge
from toolwire.wire.arguments import parse_arguments
from toolwire.wire.framing import LIMIT, JsonObjects

TWO_TEXTS = "its arguments came twice, and not the same"
LATE_TEXT = "arguments came for a call that had ended"
AMBIGUOUS = "some of its arguments may be another call's"
STRAY_TEXT = "arguments came that reached no call, and may be its own"
BLANK_TEXT = "its arguments are white space, as if the rest of them was lost"
UNREAD_TEXT = "it has no arguments, and something came for it that nobody understands"
LOST_TEXT = "arguments came that reached no call, and may be those of a call that had ended"


class CallSoFar(Struct, eq=False):
    """One call as it arrives: what is known of it, and the text of its arguments in pieces.

    `begun` says that its name was told, so that it can no longer grow; `given` are arguments that came as no text.
    `guessed` says that text is its own by position alone; `doubtful` that a name alone began it, after a whole call
    without an id, so that it may be that call's name again. `twin` is the call that has its id or index, of
    which one began before the other was whole: if one of the two stays without text, they may be one call. `again` is
    the name of the call that had its index.
    """

    id: str | None = None
    name: str = ""
    index: int = 0
    key: int | None = None
    pieces: list[str] = []
    size: int = 0
    entry: dict[str, Any] = {}
    closed: bool = False
    problem: str | None = None
    begun: bool = False
    given: Any = None
    indexed: bool = False
    guessed: bool = False
    doubtful: bool = False
    twin: "CallSoFar | None" = None
    again: str | None = None
    _read: int = 0
    _whole: bool | None = None
    _objects: JsonObjects | None = None

    def add(self, piece: str) -> None:
        """Add a piece of the text; too much of it is an error."""
        self.pieces.append(piece)
        self.size += len(piece)
        if self.size > LIMIT:
            raise FrameTooLarge(LIMIT)

    @property
    def is_empty(self) -> bool:
        """Whether no arguments have come yet."""
        return not self.size and (self.given is None or self.given == {})

    def give(self, value: Any, problem: str | None = None) -> None:
        """Take arguments that came as no text, with what is wrong with them; they come once, and not beside text."""
        self.problem = problem or self.problem
        if self.given not in (None, {}) and value != self.given:
            self.problem = self.problem or TWO_TEXTS
        self.given = value

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    @property
    def may_lack(self) -> bool:
        """Whether its text may be whole without a piece that belongs to it: one piece alone would not be."""
        return self.problem is None and in_pieces(self.pieces) and (self.is_whole() or "custom" in self.entry)

    def merge(self, news: dict[str, Any]) -> None:
        """Add what the wire says of the call beside its text: objects grow, anything else is replaced."""
        for key, value in news.items():
            before = self.entry.get(key)
            if type(before) is dict and type(value) is dict:
                self.entry[key] = {**before, **value}
            elif value is not None or key not in self.entry:
                self.entry[key] = value

    def is_whole(self) -> bool:
        """Whether the text so far is an object; it could not go on. Each piece is looked at once."""
        if not self._read and self.pieces and self.pieces[-1].endswith("}"):
            text = self.text
            if text.startswith("{") and parse_arguments(text)[1] is None:
                self._whole, self._read = True, len(self.pieces)
        for place in range(self._read, len(self.pieces)):
            piece = self.pieces[place]
            if self._objects is None:
                self._objects = JsonObjects(4 * LIMIT)
            if self._whole is not None:
                self._whole = self._whole and not piece.strip()
            elif self._objects.feed(piece.encode(errors="replace")):
                self._whole = parse_arguments("".join(self.pieces[: place + 1]))[1] is None
        self._read = len(self.pieces)
        return bool(self._whole)

    def repeats(self, text: str) -> bool:
        """Whether this text repeats the whole text; free text may say a thing twice."""
        return "custom" not in self.entry and len(text) == self.size and text == self.text and self.is_whole()


class _GrowingCalls:
    """The named calls whose text may still go on; only calls that were noted since the last look are looked at."""

    __slots__ = ("_certain", "_ended", "_noted", "_open", "_order")

    def __init__(self) -> None:
        self._noted: dict[int, CallSoFar] = {}
        self._open: dict[int, CallSoFar] = {}
        self._ended: set[int] = set()
        self._order: list[int] = []  # their places below zero, as a heap: the latest is the first
        self._certain: list[CallSoFar] = []  # those of which nobody has doubted the text

    def note(self, call: CallSoFar) -> None:
        """Note that a call is new, grows or has ended."""
        self._noted[call.index] = call

    def count(self) -> int:
        """Look at what was noted, and say how many calls there are."""
        for place, call in self._noted.items():
            if place in self._ended:
                continue
            if call.closed or call.given or call.is_whole():
                self._ended.add(place)  # it is never looked at again
                self._open.pop(place, None)
            elif call.name and place not in self._open:
                self._open[place] = call
                self._certain.append(call)
                heappush(self._order, -place)
        self._noted.clear()
        return len(self._open)

    def latest(self) -> CallSoFar | None:
        """Give the latest of the calls, as they were counted."""
        while self._order and -self._order[0] not in self._open:
            heappop(self._order)
        return self._open[-self._order[0]] if self._order else None

    def doubt_all(self, problem: str) -> None:
        """Make each of the calls unusable."""
        for call in self._certain:
            if call.index in self._open:
                call.problem = call.problem or problem
        self._certain.clear()


class ArrivingCalls:
    """The calls of one answer, and which of them a fragment goes to."""

    def __init__(self) -> None:
        self.calls: list[CallSoFar] = []
        self.unclosed: dict[int, CallSoFar] = {}  # by their places among the calls
        self._by_id: dict[str, CallSoFar] = {}
        self._by_index: dict[int, CallSoFar] = {}
        self._growing = _GrowingCalls()
        self._stray = False
        self._latest: CallSoFar | None = None

    def find(self, call_id: str | None, index: int | None, name: str | None, text: Any) -> CallSoFar:
        """Give the call that a fragment belongs to, a new one if it is none of those before."""
        in_place = self._by_index.get(index) if index is not None else None
        if call_id is not None and call_id in self._by_id:
            call = self._of_id(self._by_id[call_id], index, in_place, name)
        elif call_id is not None:
            call = in_place if in_place is not None and in_place.id is None else None
        elif index is None:
            call = self._without_place(name, text)
        else:
            call = in_place or self._without_index(index, name, text)
        if call is None or self._begins_another(call, call_id, name, text):
            call = self._open(call_id, index, doubtful=call is not None and not text)
        else:
            self._growing.note(call)
            call = self._complete(call, call_id, name, text)
        if call_id is not None or name:
            self._latest = call
        return call

    def is_last(self, call: CallSoFar) -> bool:
        """Whether this call began last, or was named last: an answer that was cut off may have cut off its text."""
        return call is self.calls[-1] or call is self._latest

    def close(self, call: CallSoFar) -> None:
        """Note that a call was told as ended."""
        call.closed = True
        self.unclosed.pop(call.index, None)
        self._growing.note(call)

    @property
    def are_usual(self) -> bool:
        """Whether none is in doubt: each has an id of its own, an index, a name and text, and nobody had to guess."""
        if self._stray or len(self._by_id) != len(self.calls):
            return False
        for call in self.calls:
            if not (call.name and call.size and call.indexed) or call.guessed or call.doubtful:
                return False
            if call.twin is not None or call.again is not None:
                return False
        return True

    def strays(self, *, cut: bool) -> tuple[bool, bool]:
        """Whether arguments came that reached no named call, and whether some of them were no whole object."""
        nameless = [call for call in self.calls if not call.name and not call.is_empty]
        lost = self.lost(cut=cut)
        return bool(nameless) or lost, lost or not all(call.is_whole() for call in nameless)

    def lost(self, *, cut: bool) -> bool:
        """Whether text that named no call was none's, or broke the one that took it; what was cut off breaks too.

        Text whose index is out of order, of a call that never began, may have another index than it should.
        """
        calls = self.calls[:-1] if cut else self.calls
        odd = (call for index, call in self._by_index.items() if index != call.index and call.id is None)
        if self._stray or any(not call.name and not call.is_empty for call in odd):
            return True
        return any(call.guessed and "custom" not in call.entry and not call.is_whole() for call in calls)

    def settle(self, *, stray: bool, piece: bool) -> None:
        """Mark the calls of which nobody can say whether they have what was sent for them.

        A stray object may be that of a call without arguments, a stray piece that of any call. Where others have
        indexes, a call without one lost it, and a lone name may be half of another call's.
        """
        ids = Counter([call.id for call in self.calls]) if len(self.calls) > 1 else {}
        placed = any(call.indexed for call in self.calls)
        lost = {place for place, call in enumerate(self.calls) if placed and call.is_empty and not call.indexed}
        lone = {place for place in lost if self.calls[place].id is None}
        for place, call in enumerate(self.calls):
            shared = call.id is not None and ids.get(call.id, 0) > 1
            again = shared or call.doubtful or call.again == call.name
            lacks = place in lost or (call.is_empty and (stray or again))
            lacks = lacks or (bool(lone) and (call.guessed or place - 1 in lone or place + 1 in lone))
            if call.twin is not None and (call.is_empty or call.twin.is_empty) and call.name != call.twin.name:
                call.problem = call.problem or f"it was named both {call.name!r} and {call.twin.name!r}"
            if not call.closed and (lacks or piece or (call.guessed and stray)):
                call.problem = call.problem or STRAY_TEXT

    def _of_id(
        self, known: CallSoFar, index: int | None, in_place: CallSoFar | None, name: str | None
    ) -> CallSoFar | None:
        """Give the call whose id is known, unless another one with the same id begins in a free place."""
        free = index is not None and in_place is None and known.indexed
        other = bool(name) and bool(known.name) and (name != known.name or known.is_whole())
        return None if free and other else known

    def _without_place(self, name: str | None, text: Any) -> CallSoFar | None:
        """Give the call of a fragment that has neither an id nor an index."""
        last = self.calls[-1] if self.calls else None
        if name:
            taken = last is not None and last.name in ("", name)
            if last is not None and taken and not last.name:
                last.guessed = last.guessed or last.indexed
            return last if taken else None
        count = self._growing.count()
        if text and count > 1:
            self._growing.doubt_all(AMBIGUOUS)
        call = self._growing.latest() or last
        if call is not None and text:
            self._stray = self._stray or (call.name != "" and count != 1)
            call.guessed = call.guessed or call.indexed
        return call

    def _without_index(self, index: int, name: str | None, text: Any) -> CallSoFar | None:
        """Give the only open call, if it has no index yet and is in the place that this index says."""
        if name or not text:
            return None
        call = self._growing.latest() if self._growing.count() == 1 else None
        if call is None or call.index != index or call.indexed:
            return None
        self._by_index[index] = call
        call.guessed = call.indexed = True
        return call

    def _begins_another(self, call: CallSoFar, call_id: str | None, name: str | None, text: Any) -> bool:
        """Whether a name begins another call, because the text of this one is whole."""
        if not name or not call.is_whole():
            return False
        if not call.name:
            return bool(text) and call_id != call.id
        if not text:
            return call.id is None or call_id not in (None, call.id)
        return not (type(text) is str and call_id is not None and call_id == call.id and call.repeats(text))

    def _open(self, call_id: str | None, index: int | None, *, doubtful: bool) -> CallSoFar:
        call = CallSoFar(call_id, "", len(self.calls), doubtful=doubtful)
        before = self._by_index.get(index) if index is not None else None
        if before is not None:
            before.doubtful = before.doubtful or before.is_empty
            call.again = before.name
        if before is not None and before.guessed:
            before.problem = call.problem = AMBIGUOUS
        self.calls.append(call)
        self.unclosed[call.index] = call
        self._growing.note(call)
        twin = self._by_id.get(call_id) if call_id is not None else None
        twin = before if twin is None and before is not None and before.is_empty else twin
        if twin is not None and not twin.is_whole():
            first = twin.twin or twin
            call.twin, first.twin = first, call
        if call_id is not None:
            self._by_id[call_id] = call
        if index is not None:
            self._by_index[index], call.indexed = call, True
        return call

    def _complete(self, call: CallSoFar, call_id: str | None, name: str | None, text: Any) -> CallSoFar:
        new_id = call_id is not None and call.id is None
        if new_id and call_id is not None:
            call.id = call_id
            self._by_id[call_id] = call
        if not name or name == call.name:
            return call
        grows = call.is_empty and not (text or call.begun or new_id or name.startswith(call.name))
        if grows and call.name:
            call.name += name
        elif call.name and call.problem is None:
            call.problem = f"it was named both {call.name!r} and {name!r}"
        return call


def in_pieces(texts: list[str]) -> bool:
    """Whether a text came in more than one piece."""
    return len(texts) > 1 and sum(text != "" for text in texts) > 1


def index_of(value: object) -> int | None:
    """Read an index; one that is no number says nothing."""
    if type(value) is int:
        return value
    match value:
        case bool():
            return None
        case float() if value.is_integer():
            return int(value)
        case str() if value.isdecimal() and len(value) < 18:
            return int(value)
    return None
