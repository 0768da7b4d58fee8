"""The call that a fragment belongs to, on a wire that names it by an id, by an index, by both or by neither.

Rules of this file, in order:
- An id that is known belongs to that call. Another call has the same id if its index is free and it is named, or
  if a name comes with text after a whole text.
- An id that is new begins a new call, whatever its index; only a call that has no id yet takes it.
- Without an id the index decides. Without both, the text goes to the call that is still open.
- A name that comes late belongs to the call. Pieces of a name before any text are one name; the same name again is a
  repetition. Another name after text, or together with it, is a second name of the call.
- Text that repeats a whole text is a repetition, if it is no free text.
- Text that was matched by its position alone, and text that reaches no named call, is reported to the judge.
"""

from heapq import heappop, heappush
from typing import Any

from toolwire.streams.call_judge import CallJudge, PartialCall, Reason


class _GrowingCalls:
    """The named calls whose text may still go on; only calls that were noted since the last look are looked at."""

    __slots__ = ("_ended", "_noted", "_open", "_order")

    def __init__(self) -> None:
        self._noted: dict[int, PartialCall] = {}
        self._open: dict[int, PartialCall] = {}
        self._ended: set[int] = set()
        self._order: list[int] = []  # their indexes below zero, as a heap: the latest is the first

    def note(self, call: PartialCall) -> None:
        """Note that a call is new, grows or has ended."""
        self._noted[call.index] = call

    def count(self) -> int:
        """Look at the calls that were noted, and return how many are open."""
        for index, call in self._noted.items():
            if index in self._ended:
                continue
            if call.closed or call.given or call.is_whole():
                self._ended.add(index)  # it is never looked at again
                self._open.pop(index, None)
            elif call.name and index not in self._open:
                self._open[index] = call
                heappush(self._order, -index)
        self._noted.clear()
        return len(self._open)

    def latest(self) -> PartialCall | None:
        """Return the latest open call, as of the last count."""
        while self._order and -self._order[0] not in self._open:
            heappop(self._order)
        return self._open[-self._order[0]] if self._order else None


class CallAssembler:
    """The calls of one answer: finds the call that a fragment belongs to, and reports to the judge how it was found."""

    def __init__(self, judge: CallJudge) -> None:
        self.calls: list[PartialCall] = []
        self.unclosed: dict[int, PartialCall] = {}  # by their index among the calls
        self._by_id: dict[str, PartialCall] = {}
        self._by_index: dict[int, PartialCall] = {}
        self._judge = judge
        self._growing = _GrowingCalls()
        self._latest: PartialCall | None = None

    def find(self, call_id: str | None, index: int | None, name: str | None, text: Any) -> PartialCall:
        """Return the call that a fragment belongs to, a new one if it is none of those before."""
        in_place = self._by_index.get(index) if index is not None else None
        if call_id is not None and call_id in self._by_id:
            call = self._of_id(self._by_id[call_id], index, in_place, name)
        elif call_id is not None:
            call = in_place if in_place is not None and in_place.id is None else None
        elif index is None:
            call = self._without_place(name, text)
        else:
            call = in_place
        if call is None or self._begins_another(call, call_id, name, text):
            call = self._open(call_id, index, name or "", repeated=call is not None and not text)
        else:
            self._growing.note(call)
            call = self._complete(call, call_id, name, text)
        if call_id is not None or name:
            self._latest = call
        return call

    @property
    def last(self) -> tuple[PartialCall, ...]:
        """The calls that began last and were named last: the end of the answer may have cut off their text."""
        return (*self.calls[-1:], *([] if self._latest is None else [self._latest]))

    def close(self, call: PartialCall) -> None:
        """Note that a call is closed."""
        self.unclosed.pop(call.index, None)
        self._growing.note(call)

    def report(self) -> None:
        """Report the text and the names that reached no call.

        Text without a name reached no call. If other calls have an index, a call without one lost it. If it has no id
        either, its name may be half of another call's name.
        """
        placed = any(call.place is not None for call in self.calls)
        for call in self.unclosed.values():
            if not call.name and not call.is_empty:
                own = call.id is not None or call.place in (None, call.index)
                self._judge.stray(call.given or call.text, own=own)
            elif placed and call.is_empty and call.place is None:
                call.repeated = True
                if call.name and call.id is None:
                    self._judge.stray(None, own=True)

    def _of_id(
        self, known: PartialCall, index: int | None, in_place: PartialCall | None, name: str | None
    ) -> PartialCall | None:
        """Return the call whose id is known, unless another one with the same id begins in a free place."""
        free = index is not None and in_place is None and known.place is not None
        other = bool(name) and bool(known.name) and (name != known.name or known.is_whole())
        return None if free and other else known

    def _without_place(self, name: str | None, text: Any) -> PartialCall | None:
        """Return the call of a fragment that has neither an id nor an index."""
        last = self.calls[-1] if self.calls else None
        if name:
            taken = last is not None and last.name in ("", name)
            if last is not None and taken and not last.name and last.place is not None:
                self._judge.matched_by_position(last)
            return last if taken else None
        count = self._growing.count()
        call = self._growing.latest() or last
        if call is not None and text:
            self._report_placeless(call, count)
        return call

    def _report_placeless(self, call: PartialCall, count: int) -> None:
        """Report text without an id and an index, which goes to `call`; `count` calls are still open."""
        if count > 1:
            self._judge.ambiguous()
        if count != 1 and call.name:
            self._judge.stray(None)
        if call.place is not None:
            self._judge.matched_by_position(call)

    def _begins_another(self, call: PartialCall, call_id: str | None, name: str | None, text: Any) -> bool:
        """Return True if a name begins another call, because the text of this one is whole."""
        if not name or not call.is_whole():
            return False
        if not call.name:
            return bool(text) and call_id != call.id
        if not text:
            return call.id is None or call_id not in (None, call.id)
        return not (type(text) is str and call_id is not None and call_id == call.id and call.repeats(text))

    def _open(self, call_id: str | None, index: int | None, name: str, *, repeated: bool) -> PartialCall:
        call = PartialCall(call_id, name, len(self.calls), place=index, repeated=repeated)
        self.calls.append(call)
        self.unclosed[call.index] = call
        self._growing.note(call)
        before = self._by_index.get(index) if index is not None else None
        self._judge.opened(call, before, self._by_id.get(call_id) if call_id is not None else None)
        if call_id is not None:
            self._by_id[call_id] = call
        if index is not None:
            self._by_index[index] = call
        return call

    def _complete(self, call: PartialCall, call_id: str | None, name: str | None, text: Any) -> PartialCall:
        new_id = call_id is not None and call.id is None
        if new_id and call_id is not None:
            call.id = call_id
            self._by_id[call_id] = call
        if not name or name == call.name:
            return call
        grows = call.is_empty and not (text or call.key is not None or new_id or name.startswith(call.name))
        if grows and call.name:
            call.name += name
        elif call.name and call.problem is None:
            call.problem = Reason.NAMED_TWICE.format(call.name, name)
        return call


def index_of(value: object) -> int | None:
    """Return an index as a number, or None if it is none."""
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
