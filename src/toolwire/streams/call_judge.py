"""Decide which calls of a stream may run. Decoders report facts; one judge per stream decides.

The "text" of a call is the text of its arguments.

Rules of this file:
- A call is emitted when the wire closes it. If its text is empty or no JSON object, it waits for the end of the answer,
  because only the end shows what was cut off and what was lost.
- Stray text is text that reached no call. It may belong to any call without text. If it is not a whole object, or if it
  broke a call that it was matched to by position, it may be a piece of any call that was not emitted yet.
- A call that may be the same as another one cannot run without text of its own, and cannot run under two names.
- A text that arrived in one piece lacks no piece. If a piece of text may have been lost from a call that was already
  emitted as runnable, the stream ends with an error.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.encoding.finish import CUT, cut_off, reject_call
from toolwire.errors import FrameTooLarge
from toolwire.types import ToolCall
from toolwire.wire.arguments import parse_arguments
from toolwire.wire.framing import LIMIT, JsonObjects


class Reason(StrEnum):
    """Why a call cannot run. The last three end the stream with an error, because the call may be running already."""

    NOT_UTF8 = "its text was not UTF-8"
    TWICE = "its arguments give a key twice"
    TWO_TEXTS = "its arguments came twice, and not the same"
    NAMED_TWICE = "it was named both {!r} and {!r}"
    AMBIGUOUS = "some of its arguments may be another call's"
    STRAY_TEXT = "arguments came that reached no call, and may be its own"
    BLANK_TEXT = "its arguments are white space, as if the rest of them was lost"
    UNREAD_TEXT = "it has no arguments, and something came for it that nobody understands"
    NEVER_ENDED = "the stream ended before the call did"
    LATE_TEXT = "arguments came for a call that had ended"
    LOST_TEXT = "arguments came that reached no call, and may be those of a call that had ended"
    CONTRADICTED = "a call that had ended was described again, and not as before"


class PartialCall(Struct, eq=False):
    """A call as it arrives: its fields, and the text of its arguments in pieces.

    - `index`: its number among the calls of its answer.
    - `number`: its number among the calls of the stream.
    - `wire_index`: the index that the wire gave it.
    - `key`: the key of its events, once its start was emitted.
    - `entry`: the fields of the wire beside the text.
    - `value`: arguments that arrived as a JSON value instead of text.
    - `comes_whole`: the wire writes the whole call at once.
    - `by_position`: text was matched to it by position alone.
    - `confirmed`: the wire repeated all of its arguments when it closed the call.
    - `twin`: a call that may be the same one. It had the same id or wire index, and was not whole.
    - `repeated`: it may be a repetition of a call that was whole.
    - `unread`: something arrived for it that is not understood.
    """

    id: str | None = None
    name: str = ""
    index: int = 0
    key: int | None = None
    pieces: list[str] = []
    size: int = 0
    entry: dict[str, Any] = {}
    problem: str | None = None
    value: Any = None
    free_text: bool = False
    comes_whole: bool = False
    number: int = -1
    wire_index: int | None = None
    by_position: bool = False
    confirmed: bool = False
    closed: bool = False
    emitted: bool = False
    repeated: bool = False
    unread: bool = False
    twin: "PartialCall | None" = None
    _checked: int = 0
    _whole: bool | None = None
    _objects: JsonObjects | None = None

    def add(self, piece: str) -> None:
        """Add a piece of the text; raise FrameTooLarge if it becomes too long."""
        self.pieces.append(piece)
        self.size += len(piece)
        if self.size > LIMIT:
            raise FrameTooLarge(LIMIT)

    def add_value(self, value: Any, problem: str | None = None) -> None:
        """Add arguments that arrived as a JSON value, with their problem if they have one.

        A second value that differs from the first one is a problem.
        """
        self.problem = problem or self.problem
        if self.value not in (None, {}) and value != self.value:
            self.problem = self.problem or Reason.TWO_TEXTS
        self.value = value

    @property
    def is_empty(self) -> bool:
        """Return True if no arguments have arrived yet."""
        return not self.size and not (self.value is not None and self.value != {})

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    @property
    def may_lack(self) -> bool:
        """Return True if a piece of its text may be missing, although the text can be read."""
        return self.problem is None and has_several_pieces(self.pieces) and (self.free_text or self.is_whole())

    def confirm(self, arguments: Any) -> None:
        """Replace the arguments by those that the wire repeated when it closed the call. Those are not in doubt."""
        self.confirmed, self.by_position = True, False
        self._checked, self._whole, self._objects = 0, None, None
        self.pieces, self.size = ([arguments], len(arguments)) if type(arguments) is str else ([], 0)
        self.value = None if type(arguments) is str else arguments

    def merge(self, fields: dict[str, Any]) -> None:
        """Add `fields` of the wire to `entry`. Objects grow. Any other value but null replaces the earlier one."""
        for key, value in fields.items():
            earlier = self.entry.get(key)
            if type(earlier) is dict and type(value) is dict:
                self.entry[key] = {**earlier, **value}
            elif value is not None or key not in self.entry:
                self.entry[key] = value

    def is_whole(self) -> bool:
        """Return True if the text so far is a whole JSON object. Repeated calls read each piece only once."""
        if not self._checked and self.pieces and self.pieces[-1].endswith("}"):
            text = self.text
            if text.startswith("{") and parse_arguments(text)[1] is None:
                self._whole, self._checked = True, len(self.pieces)
        for index in range(self._checked, len(self.pieces)):
            piece = self.pieces[index]
            if self._objects is None:
                self._objects = JsonObjects(4 * LIMIT)
            if self._whole is not None:
                self._whole = self._whole and not piece.strip()
            elif self._objects.feed(piece.encode(errors="replace")):
                self._whole = parse_arguments("".join(self.pieces[: index + 1]))[1] is None
        self._checked = len(self.pieces)
        return bool(self._whole)

    def repeats(self, text: str) -> bool:
        """Return True if `text` repeats the whole text. Free text never counts: it may contain the same words twice."""
        return not self.free_text and len(text) == self.size and text == self.text and self.is_whole()


class CallJudge:
    """Decides which calls of one stream may run, and whether the stream has to end with an error."""

    def __init__(self) -> None:
        self.error: Reason | None = None  # why the stream has to end with an error
        self.called: bool = False  # True once a call was emitted that was not cut off
        self._opened_count = self._open_count = 0
        self._ambiguous_before = 0  # open calls with a lower number may have the text of another call
        self._lost_before = 0  # calls with a lower number may lack a piece of text
        self._has_stray = self._has_stray_piece = False  # whether there is stray text, or a stray piece
        self.by_position: list[PartialCall] = []  # the calls whose text was matched by position alone
        self._waiting: dict[int, tuple[PartialCall, ToolCall]] = {}
        self._unchecked: list[PartialCall] = []  # emitted calls that may lack text, not checked yet
        self._emitted_lacks = False

    def opened(self, call: PartialCall, *others: PartialCall | None) -> None:
        """Note a new call. `others` are earlier calls with the same id or wire index."""
        call.number = self._opened_count
        self._opened_count += 1
        self._open_count += 1
        for other in others:
            if other is not None:
                _mark_possible_repeat(call, other)

    def matched_by_position(self, call: PartialCall) -> None:
        """Note that text was matched to `call` by its position alone."""
        if not call.by_position:
            call.by_position = True
            self.by_position.append(call)

    def ambiguous(self) -> None:
        """Note text that may belong to any open call."""
        self._ambiguous_before = self._opened_count

    def stray(self, text: Any, *, of_lost_call: bool = False) -> None:
        """Note text that reached no call.

        `of_lost_call` is true if it belongs to a call whose start was lost. Then no other call lacks it.
        """
        self._has_stray = True
        self._has_stray_piece = self._has_stray_piece or type(text) is not str or parse_arguments(text)[1] is not None
        if not of_lost_call:
            self._note_lost_piece()

    def late(self, call: PartialCall, text: Any) -> None:
        """Note text for a call that was closed. White space is ignored, unless the call may lack a piece of text."""
        repeats = call.confirmed or (type(text) is str and call.repeats(text))
        if type(text) is str and not text.strip() and not call.may_lack:
            return
        if not (call.is_empty or repeats):
            self.error = Reason.LATE_TEXT
        else:
            self.stray(text, of_lost_call=True)

    def contradicted(self, call: PartialCall, problem: str = Reason.STRAY_TEXT) -> None:
        """Note that the wire described `call` a second time, and differently."""
        call.problem = call.problem or problem
        if call.emitted:
            self.error = Reason.CONTRADICTED

    def close(self, call: PartialCall, tool_call: ToolCall, *, complete: bool | None = True) -> ToolCall | None:
        """Close a call. Return the call to emit, or None if it waits for the end of the answer.

        `complete` is false if the wire says that the call was cut off, and None if the wire says neither.
        """
        self._open_count -= not call.closed
        call.closed = True
        problem = self._find_problem(call, tool_call)
        if problem is not None:
            return self._emit(call, _unusable(call, tool_call, problem))
        if not (call.is_whole() if complete is None else complete):
            return self._emit(call, _unusable(call, tool_call, None))
        is_certain = tool_call.custom or call.comes_whole or not (tool_call.error is not None or call.is_empty)
        if tool_call.complete and not is_certain:
            self._waiting[call.number] = call, tool_call
            return None
        return self._emit(call, tool_call)

    @property
    def has_several_open(self) -> bool:
        """Return True if more than one call is open."""
        return self._open_count > 1

    @property
    def is_waiting(self) -> bool:
        """Return True if a closed call waits for the end of the answer."""
        return bool(self._waiting)

    def waits(self, call: PartialCall) -> bool:
        """Return True if only the end of the answer decides about `call`, and not the start of the next call."""
        return (call.is_empty or call.by_position or call.twin is not None) and not self.refuses(call)

    def refuses(self, call: PartialCall) -> bool:
        """Return True if `call` cannot run, whatever arrives later."""
        return call.problem is not None or call.number < self._ambiguous_before

    def cut(self, call: PartialCall) -> None:
        """Note that the wire left `call` unfinished, and continued with something else."""
        if call.number in self._waiting:
            tool_call = self._waiting[call.number][1]
            self._waiting[call.number] = call, _unusable(call, tool_call, None)

    def end(
        self, reason: Any, last: Collection[PartialCall | None] = (), *, ended: bool = True
    ) -> list[tuple[PartialCall, ToolCall]]:
        """End the answer with the finish reason `reason`. Return the calls that waited, as they are to be emitted.

        `last` are the calls that nothing followed. `ended` is false if the wire did not end the answer.
        """
        self.check_matches(last if reason in CUT else ())
        waiting, self._waiting = self._waiting, {}
        return [
            (call, self._decide(call, tool_call, reason, call in last, ended)) for call, tool_call in waiting.values()
        ]

    def _decide(self, call: PartialCall, tool_call: ToolCall, reason: Any, last: bool, ended: bool) -> ToolCall:
        """Return a waiting call as it is to be emitted at the end of the answer."""
        problem = self._find_problem(call, tool_call) if tool_call.error is None else None
        cut = not ended or (reason in CUT and (tool_call.error is not None or (last and call.is_empty)))
        return self._emit(call, _unusable(call, tool_call, problem) if cut or problem is not None else tool_call)

    def check_matches(self, cut: Collection[PartialCall | None] = ()) -> None:
        """Look for a call that was broken by text matched to it by position. Its text counts as stray.

        The calls in `cut` are left out, because the end of the answer cut them off.
        """
        for call in self.by_position:
            if not (call.confirmed or call.free_text or call in cut or call.is_whole()):
                self._has_stray = self._has_stray_piece = True
                self._note_lost_piece()
                return

    def _find_problem(self, call: PartialCall, tool_call: ToolCall) -> str | None:
        """Return the reason why `call` cannot run, or None if there is none so far."""
        twin = call.twin
        if call.problem is None and twin is not None and twin.name != call.name and (call.is_empty or twin.is_empty):
            problem = Reason.NAMED_TWICE.format(twin.name, call.name)
            self.contradicted(twin, problem)
            return problem
        if call.problem is not None:
            return call.problem
        if call.is_empty:
            unread_problem = Reason.UNREAD_TEXT if call.unread else None
            return Reason.STRAY_TEXT if self._has_stray or twin is not None or call.repeated else unread_problem
        if call.confirmed or call.comes_whole:
            return None
        if call.number < self._ambiguous_before:
            return Reason.AMBIGUOUS
        if call.size and not tool_call.custom and not any(map(str.strip, call.pieces)):
            return Reason.BLANK_TEXT
        stray = (
            self._has_stray_piece
            or (self._has_stray and call.by_position)
            or (call.number < self._lost_before and call.may_lack)
        )
        return Reason.STRAY_TEXT if stray else None

    def _emit(self, call: PartialCall, tool_call: ToolCall) -> ToolCall:
        """Note that a call is emitted, and return it."""
        self.called = self.called or tool_call.complete
        if tool_call.runs:
            call.emitted = True
            self._unchecked.append(call)
        return tool_call

    def _note_lost_piece(self) -> None:
        """Note that a piece of text was lost. The stream fails if it may be missing from an emitted call."""
        self._lost_before = self._opened_count
        unchecked, self._unchecked = self._unchecked, []
        self._emitted_lacks = self._emitted_lacks or any(
            not call.confirmed and (call.is_empty or call.may_lack) for call in unchecked
        )
        if self._emitted_lacks:
            self.error = self.error or Reason.LOST_TEXT


def _mark_possible_repeat(call: PartialCall, other: PartialCall) -> None:
    """Mark `call`, which is new, and an earlier `other` if the server may have sent one call twice."""
    if other.by_position:
        call.problem = other.problem = Reason.AMBIGUOUS
    if not (other.is_empty or other.name == call.name or (call.id is not None and call.id == other.id)):
        return
    if other.value or other.is_whole():
        call.repeated = True
        return
    call.twin, other.twin = other, other.twin or call
    if other.name == call.name:
        call.problem = call.problem or other.problem


def _unusable(call: PartialCall, tool_call: ToolCall, problem: str | None) -> ToolCall:
    """Return a call that cannot run because of `problem`, or because it was cut off if that is None.

    Arguments that arrived as a JSON value become text.
    """
    error = tool_call.error if problem is None else str(problem)
    if tool_call.raw is None and call.value is not None and not call.size:
        return reject_call(tool_call, error)
    return cut_off(replace(tool_call, raw=call.text if tool_call.raw is None else tool_call.raw, error=error))


def has_several_pieces(texts: list[str]) -> bool:
    """Return True if a text arrived in more than one piece."""
    return len(texts) > 1 and sum(text != "" for text in texts) > 1
