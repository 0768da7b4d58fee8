"""Which calls of a stream may run: one judge decides, from the facts that a decoder reports.

Rules of this file:
- A call is emitted when the wire closes it. It waits for the end of the answer if it has no text, or text that is no
  object: only the end shows what was cut off and what was lost.
- Text that reached no call may be that of each call without text. If it is no whole object, or broke the call that
  took it by position, it may be a piece of each call that was not emitted yet.
- A call that may be the same as another one cannot run without text of its own, and not under two names.
- A text that came in one piece lacks nothing. If a call was emitted as one that may run, and a piece of its text may
  have been lost, the stream ends with an error.
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
    """Why a call cannot run. The last three end the stream with an error, because the call may run already."""

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
    """One call as it arrives: what the wire says of it, and the text of its arguments in pieces.

    `index` is its number in the answer, `number` that in the stream, `place` its index on the wire. `given` are
    arguments that came as no text. `comes_whole` is true if the wire writes the whole call at once.
    `by_position` is true if text reached it by position alone, `confirmed` if the wire repeated all of its arguments
    when it closed the call. `twin` is a call that may be the same one: it had the id or the place of this call, and
    was not whole. `repeated` is true if it may be a repetition of a whole call, `unread` if something came for it that
    is not understood.
    """

    id: str | None = None
    name: str = ""
    index: int = 0
    key: int | None = None
    pieces: list[str] = []
    size: int = 0
    entry: dict[str, Any] = {}
    problem: str | None = None
    given: Any = None
    free_text: bool = False
    comes_whole: bool = False
    number: int = -1
    place: int | None = None
    by_position: bool = False
    confirmed: bool = False
    closed: bool = False
    emitted: bool = False
    repeated: bool = False
    unread: bool = False
    twin: "PartialCall | None" = None
    _read: int = 0
    _whole: bool | None = None
    _objects: JsonObjects | None = None

    def add(self, piece: str) -> None:
        """Add a piece of the text; raise FrameTooLarge if it becomes too long."""
        self.pieces.append(piece)
        self.size += len(piece)
        if self.size > LIMIT:
            raise FrameTooLarge(LIMIT)

    def add_given(self, value: Any, problem: str | None = None) -> None:
        """Add arguments that came as no text, with their problem; they come once, and not beside text."""
        self.problem = problem or self.problem
        if self.given not in (None, {}) and value != self.given:
            self.problem = self.problem or Reason.TWO_TEXTS
        self.given = value

    @property
    def is_empty(self) -> bool:
        """Return True if no arguments have come yet."""
        return not self.size and not (self.given is not None and self.given != {})

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    @property
    def may_lack(self) -> bool:
        """Return True if a piece of its text may be missing: a text that came in one piece lacks nothing."""
        return self.problem is None and in_pieces(self.pieces) and (self.free_text or self.is_whole())

    def confirm(self, arguments: Any) -> None:
        """Take all arguments as the wire repeats them when it closes the call: then nothing of them is in doubt."""
        self.confirmed, self.by_position = True, False
        self._read, self._whole, self._objects = 0, None, None
        self.pieces, self.size = ([arguments], len(arguments)) if type(arguments) is str else ([], 0)
        self.given = None if type(arguments) is str else arguments

    def merge(self, news: dict[str, Any]) -> None:
        """Add what the wire says of the call beside its text: objects grow, anything else is replaced."""
        for key, value in news.items():
            before = self.entry.get(key)
            if type(before) is dict and type(value) is dict:
                self.entry[key] = {**before, **value}
            elif value is not None or key not in self.entry:
                self.entry[key] = value

    def is_whole(self) -> bool:
        """Return True if the text so far is an object; each piece is looked at once."""
        if not self._read and self.pieces and self.pieces[-1].endswith("}"):
            text = self.text
            if text.startswith("{") and parse_arguments(text)[1] is None:
                self._whole, self._read = True, len(self.pieces)
        for index in range(self._read, len(self.pieces)):
            piece = self.pieces[index]
            if self._objects is None:
                self._objects = JsonObjects(4 * LIMIT)
            if self._whole is not None:
                self._whole = self._whole and not piece.strip()
            elif self._objects.feed(piece.encode(errors="replace")):
                self._whole = parse_arguments("".join(self.pieces[: index + 1]))[1] is None
        self._read = len(self.pieces)
        return bool(self._whole)

    def repeats(self, text: str) -> bool:
        """Return True if `text` repeats the whole text; free text may contain one thing twice."""
        return not self.free_text and len(text) == self.size and text == self.text and self.is_whole()


class CallJudge:
    """The judge of one stream's calls: decides which of them may run, and whether the stream can be trusted."""

    def __init__(self) -> None:
        self.error: Reason | None = None  # why the stream has to end with an error
        self.called: bool = False  # whether a call was emitted that was not cut off
        self._opened = self._open = 0
        self._ambiguous = 0  # of the calls that opened before this one, the open ones may have another call's text
        self._lost = 0  # the calls that opened before this one may lack a piece
        self._stray = self._piece = False  # whether text reached no call, and whether it may be a piece of any call
        self.by_position: list[PartialCall] = []  # the calls with text that was matched by position alone
        self._waiting: dict[int, tuple[PartialCall, ToolCall]] = {}
        self._unchecked: list[PartialCall] = []  # emitted calls that were not asked yet whether they may lack text
        self._lacks = False

    def opened(self, call: PartialCall, *others: PartialCall | None) -> None:
        """Note a new call; `others` are earlier calls that had its id or its place."""
        call.number = self._opened
        self._opened += 1
        self._open += 1
        for other in others:
            if other is not None:
                _compare(call, other)

    def matched_by_position(self, call: PartialCall) -> None:
        """Note text of a call that nothing but its position assigns to it."""
        if not call.by_position:
            call.by_position = True
            self.by_position.append(call)

    def ambiguous(self) -> None:
        """Note text that may be that of each open call."""
        self._ambiguous = self._opened

    def stray(self, text: Any, *, own: bool = False) -> None:
        """Note text that reached no call; `own` is true if it is in the place of a call whose start was lost."""
        self._stray = True
        self._piece = self._piece or type(text) is not str or parse_arguments(text)[1] is not None
        if not own:
            self._lose()

    def late(self, call: PartialCall, text: Any) -> None:
        """Note text for a call that was closed; white space matters only to a text that may lack a piece."""
        repeats = call.confirmed or (type(text) is str and call.repeats(text))
        if type(text) is str and not text.strip() and not call.may_lack:
            return
        if not (call.is_empty or repeats):
            self.error = Reason.LATE_TEXT
        else:
            self.stray(text, own=True)

    def contradicted(self, call: PartialCall, problem: str = Reason.STRAY_TEXT) -> None:
        """Note that the wire described a call in two ways."""
        call.problem = call.problem or problem
        if call.emitted:
            self.error = Reason.CONTRADICTED

    def close(self, call: PartialCall, tool_call: ToolCall, *, whole: bool | None = True) -> ToolCall | None:
        """Return a closed call as it is to be emitted, or None if it waits for the end of the answer.

        `whole` is false if the wire says that it is cut off, and None if it says nothing.
        """
        self._open -= not call.closed
        call.closed = True
        problem = self._find_problem(call, tool_call)
        if problem is not None:
            return self._emit(call, _unusable(call, tool_call, problem))
        if not (call.is_whole() if whole is None else whole):
            return self._emit(call, _unusable(call, tool_call, None))
        sure = tool_call.custom or call.comes_whole or not (tool_call.error is not None or call.is_empty)
        if tool_call.complete and not sure:
            self._waiting[call.number] = call, tool_call
            return None
        return self._emit(call, tool_call)

    @property
    def has_several_open(self) -> bool:
        """Return True if more than one call is open."""
        return self._open > 1

    @property
    def is_waiting(self) -> bool:
        """Return True if a closed call waits for the end of the answer."""
        return bool(self._waiting)

    def waits(self, call: PartialCall) -> bool:
        """Return True if the end of the answer decides about a call, not the start of the next one."""
        return (call.is_empty or call.by_position or call.twin is not None) and not self.refuses(call)

    def refuses(self, call: PartialCall) -> bool:
        """Return True if a call is known to be unusable, whatever comes."""
        return call.problem is not None or call.number < self._ambiguous

    def cut(self, call: PartialCall) -> None:
        """Note that the answer broke off in a call, and went on with something else."""
        if call.number in self._waiting:
            tool_call = self._waiting[call.number][1]
            self._waiting[call.number] = call, _unusable(call, tool_call, None)

    def end(
        self, reason: Any, last: Collection[PartialCall | None] = (), *, ended: bool = True
    ) -> list[tuple[PartialCall, ToolCall]]:
        """Return the calls that waited, as they are to be emitted.

        `last` are the calls that nothing followed. `ended` is false if the wire did not end the answer.
        """
        self.check_matches(last if reason in CUT else ())
        waiting, self._waiting = self._waiting, {}
        return [
            (call, self._settle(call, tool_call, reason, call in last, ended)) for call, tool_call in waiting.values()
        ]

    def _settle(self, call: PartialCall, tool_call: ToolCall, reason: Any, last: bool, ended: bool) -> ToolCall:
        problem = self._find_problem(call, tool_call) if tool_call.error is None else None
        half = not ended or (reason in CUT and (tool_call.error is not None or (last and call.is_empty)))
        return self._emit(call, _unusable(call, tool_call, problem) if half or problem is not None else tool_call)

    def check_matches(self, cut: Collection[PartialCall | None] = ()) -> None:
        """Note text that broke the call to which its position assigned it; a call that is `cut` off breaks too."""
        for call in self.by_position:
            if not (call.confirmed or call.free_text or call in cut or call.is_whole()):
                self._stray = self._piece = True
                self._lose()
                return

    def _find_problem(self, call: PartialCall, tool_call: ToolCall) -> str | None:
        """Return why a call cannot run, as far as the facts say up to now."""
        twin = call.twin
        if call.problem is None and twin is not None and twin.name != call.name and (call.is_empty or twin.is_empty):
            problem = Reason.NAMED_TWICE.format(twin.name, call.name)
            self.contradicted(twin, problem)
            return problem
        if call.problem is not None:
            return call.problem
        if call.is_empty:
            doubt = Reason.UNREAD_TEXT if call.unread else None
            return Reason.STRAY_TEXT if self._stray or twin is not None or call.repeated else doubt
        if call.confirmed or call.comes_whole:
            return None
        if call.number < self._ambiguous:
            return Reason.AMBIGUOUS
        if call.size and not tool_call.custom and not any(map(str.strip, call.pieces)):
            return Reason.BLANK_TEXT
        stray = self._piece or (self._stray and call.by_position) or (call.number < self._lost and call.may_lack)
        return Reason.STRAY_TEXT if stray else None

    def _emit(self, call: PartialCall, tool_call: ToolCall) -> ToolCall:
        self.called = self.called or tool_call.complete
        if tool_call.runs:
            call.emitted = True
            self._unchecked.append(call)
        return tool_call

    def _lose(self) -> None:
        """Note that a piece of text was lost: the stream fails if it may be that of a call that may run already."""
        self._lost = self._opened
        unchecked, self._unchecked = self._unchecked, []
        self._lacks = self._lacks or any(not call.confirmed and (call.is_empty or call.may_lack) for call in unchecked)
        if self._lacks:
            self.error = self.error or Reason.LOST_TEXT


def _compare(call: PartialCall, other: PartialCall) -> None:
    """Mark a new call and an earlier one that may be the same call."""
    if other.by_position:
        call.problem = other.problem = Reason.AMBIGUOUS
    if not (other.is_empty or other.name == call.name or (call.id is not None and call.id == other.id)):
        return
    if other.given or other.is_whole():
        call.repeated = True
        return
    call.twin, other.twin = other, other.twin or call
    if other.name == call.name:
        call.problem = call.problem or other.problem


def _unusable(call: PartialCall, tool_call: ToolCall, problem: str | None) -> ToolCall:
    """Return a call that cannot run, with the reason, or as cut off; arguments that came as an object become text."""
    error = tool_call.error if problem is None else str(problem)
    if tool_call.raw is None and call.given is not None and not call.size:
        return reject_call(tool_call, error)
    return cut_off(replace(tool_call, raw=call.text if tool_call.raw is None else tool_call.raw, error=error))


def in_pieces(texts: list[str]) -> bool:
    """Return True if a text came in more than one piece."""
    return len(texts) > 1 and sum(text != "" for text in texts) > 1
