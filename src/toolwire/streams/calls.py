"""Find the call that a fragment of a stream belongs to. Fragments have an id, an index, both or neither.

Rules of this file, in order:
- A fragment with a known id belongs to the call with that id. It begins another call with the same id in two cases: it
  has a name and an index that no call has yet, or it has a name and text and the text of the known call is whole.
- A fragment with a new id begins a new call, even if its index is known. Only a call that has no id yet adopts the id.
- A fragment without an id belongs to the call with its index. If it has no index either, it belongs to the call that is
  still open.
- A name that arrives late belongs to the call. Names that arrive before any text are pieces of one name, unless the
  same name arrives again. A different name after text, or together with text, is a second name of the call.
- Text that repeats a whole text is ignored as a repetition, except free text.
- Text that was matched by position alone, and text that reaches no named call, is reported to the judge.
"""

from heapq import heappop, heappush
from typing import Any

from toolwire.streams.call_judge import CallJudge, PartialCall, Reason


class _GrowingCalls:
    """The named calls whose text may still grow. Each pass reads only the calls noted since the last one."""

    __slots__ = ("_ended", "_noted", "_open", "_order")

    def __init__(self) -> None:
        self._noted: dict[int, PartialCall] = {}
        self._open: dict[int, PartialCall] = {}
        self._ended: set[int] = set()
        self._order: list[int] = []  # their negated indexes, as a heap: the latest call comes first

    def note(self, call: PartialCall) -> None:
        """Note that a call is new, has grown or has ended."""
        self._noted[call.index] = call

    def count(self) -> int:
        """Read the noted calls, and return how many calls are open."""
        for index, call in self._noted.items():
            if index in self._ended:
                continue
            if call.closed or call.value or call.is_whole():
                self._ended.add(index)  # it is never read again
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
    """Assembles the calls of one answer: finds the call of a fragment, and reports to the judge how it was found."""

    def __init__(self, judge: CallJudge) -> None:
        self.calls: list[PartialCall] = []
        self.unclosed: dict[int, PartialCall] = {}  # by their index in `calls`
        self._by_id: dict[str, PartialCall] = {}
        self._by_index: dict[int, PartialCall] = {}
        self._judge = judge
        self._growing = _GrowingCalls()
        self._latest: PartialCall | None = None

    def find(self, call_id: str | None, index: int | None, name: str | None, text: Any) -> PartialCall:
        """Return the call that a fragment belongs to, which may be a new call."""
        call_at_index = self._by_index.get(index) if index is not None else None
        if call_id is not None and call_id in self._by_id:
            call = self._find_by_id(self._by_id[call_id], index, call_at_index, name)
        elif call_id is not None:
            call = call_at_index if call_at_index is not None and call_at_index.id is None else None
        elif index is None:
            call = self._find_without_index(name, text)
        else:
            call = call_at_index
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
        """The call that began last, and the call that was named last. The end of the answer may have cut them off."""
        return (*self.calls[-1:], *([] if self._latest is None else [self._latest]))

    def close(self, call: PartialCall) -> None:
        """Note that a call is closed."""
        self.unclosed.pop(call.index, None)
        self._growing.note(call)

    def report(self) -> None:
        """Report the text and the names that reached no call.

        A call with text and without a name is text that reached no call. If other calls have an index and a call has
        none, its index was lost. If it has no id either, its name may be half of another call's name.
        """
        has_wire_index = any(call.wire_index is not None for call in self.calls)
        for call in self.unclosed.values():
            if not call.name and not call.is_empty:
                of_lost_call = call.id is not None or call.wire_index in (None, call.index)
                self._judge.stray(call.value or call.text, of_lost_call=of_lost_call)
            elif has_wire_index and call.is_empty and call.wire_index is None:
                call.repeated = True
                if call.name and call.id is None:
                    self._judge.stray(None, of_lost_call=True)

    def _find_by_id(
        self, known: PartialCall, index: int | None, call_at_index: PartialCall | None, name: str | None
    ) -> PartialCall | None:
        """Return `known`, the call with this id, or None if another call with the same id begins."""
        is_free = index is not None and call_at_index is None and known.wire_index is not None
        is_other = bool(name) and bool(known.name) and (name != known.name or known.is_whole())
        return None if is_free and is_other else known

    def _find_without_index(self, name: str | None, text: Any) -> PartialCall | None:
        """Return the call of a fragment without an id and an index, or None if the fragment begins a call."""
        last = self.calls[-1] if self.calls else None
        if name:
            continues = last is not None and last.name in ("", name)
            if last is not None and continues and not last.name and last.wire_index is not None:
                self._judge.matched_by_position(last)
            return last if continues else None
        count = self._growing.count()
        call = self._growing.latest() or last
        if call is not None and text:
            self._report_unassigned(call, count)
        return call

    def _report_unassigned(self, call: PartialCall, count: int) -> None:
        """Report text that has no id and no index, and was matched to `call`. `count` calls are still open."""
        if count > 1:
            self._judge.ambiguous()
        if count != 1 and call.name:
            self._judge.stray(None)
        if call.wire_index is not None:
            self._judge.matched_by_position(call)

    def _begins_another(self, call: PartialCall, call_id: str | None, name: str | None, text: Any) -> bool:
        """Return True if a fragment with a name begins another call, because the text of `call` is whole."""
        if not name or not call.is_whole():
            return False
        if not call.name:
            return bool(text) and call_id != call.id
        if not text:
            return call.id is None or call_id not in (None, call.id)
        return not (type(text) is str and call_id is not None and call_id == call.id and call.repeats(text))

    def _open(self, call_id: str | None, index: int | None, name: str, *, repeated: bool) -> PartialCall:
        call = PartialCall(call_id, name, len(self.calls), wire_index=index, repeated=repeated)
        self.calls.append(call)
        self.unclosed[call.index] = call
        self._growing.note(call)
        earlier = self._by_index.get(index) if index is not None else None
        self._judge.opened(call, earlier, self._by_id.get(call_id) if call_id is not None else None)
        if call_id is not None:
            self._by_id[call_id] = call
        if index is not None:
            self._by_index[index] = call
        return call

    def _complete(self, call: PartialCall, call_id: str | None, name: str | None, text: Any) -> PartialCall:
        """Add the id and the name of a fragment to its call."""
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
    """Return `value` as an index, or None if it is not one. Servers also write indexes as floats and as strings."""
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
