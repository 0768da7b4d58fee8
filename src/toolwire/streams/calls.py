"""Which call a fragment belongs to, on a wire that says it by an id, by an index, by both or by neither.

Rules of this file, in order:
- An id that is known is that call's, unless its index is free or the text so far is whole and a name comes
  again: then another call has the same id.
- An id that is new is a new call, whatever its index; only a call that has no id yet takes it.
- Without an id the index decides; without both, the last call.
- A name that comes again is a repetition, unless the text so far is whole: then a new call begins. Another
  name never joins the first: it is a new call after a whole text, or where neither id nor index says that it
  is the same one. Else it makes the call unusable.
- Text that repeats a whole text is a repetition.
"""

from typing import Any

from msgspec import Struct, field

from toolwire.errors import FrameTooLarge
from toolwire.wire.arguments import parse_arguments
from toolwire.wire.framing import LIMIT, JsonObjects


class CallSoFar(Struct, eq=False):
    """One call as it arrives: what is known of it, and the text of its arguments in pieces."""

    id: str | None = None
    name: str = ""
    index: int = 0
    key: int | None = None
    pieces: list[str] = []
    size: int = 0
    entry: dict[str, Any] = {}
    closed: bool = False
    problem: str | None = None
    _read: int = 0
    _whole: bool | None = None
    _objects: JsonObjects = field(default_factory=lambda: JsonObjects(4 * LIMIT))

    def add(self, piece: str) -> None:
        """Add a piece of the text; too much of it is an error."""
        self.pieces.append(piece)
        self.size += len(piece)
        if self.size > LIMIT:
            raise FrameTooLarge(LIMIT)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

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
        for place in range(self._read, len(self.pieces)):
            piece = self.pieces[place]
            if self._whole is not None:
                self._whole = self._whole and not piece.strip()
            elif self._objects.feed(piece.encode(errors="replace")):
                self._whole = parse_arguments("".join(self.pieces[: place + 1]))[1] is None
        self._read = len(self.pieces)
        return bool(self._whole)

    def repeats(self, text: str) -> bool:
        """Whether this text repeats the whole text."""
        return len(text) == self.size and text == self.text and self.is_whole()


class ArrivingCalls:
    """The calls of one answer, and which of them a fragment goes to."""

    def __init__(self) -> None:
        self.calls: list[CallSoFar] = []
        self._by_id: dict[str, CallSoFar] = {}
        self._by_index: dict[int, CallSoFar] = {}

    def find(self, call_id: str | None, index: int | None, name: str | None, text: Any) -> CallSoFar:
        """Give the call that a fragment belongs to, a new one if it is none of those before."""
        call = self._by_index.get(index) if index is not None else None
        again = bool(name)
        if call_id is not None:
            known = self._by_id.get(call_id)
            if known is not None:
                free = index is not None and call is None and again
                call = None if free else known
                again = again and not (type(text) is str and known.repeats(text))
            elif call is not None and call.id is not None:
                call = None
        elif index is None:
            call = self.calls[-1] if self.calls else None
            if call is not None and again and name != call.name:
                call = None
        if call is None or (again and call.is_whole()):
            return self._open(call_id, index)
        return self._complete(call, call_id, name)

    def _open(self, call_id: str | None, index: int | None) -> CallSoFar:
        call = CallSoFar(call_id, "", len(self.calls))
        self.calls.append(call)
        if call_id is not None:
            self._by_id[call_id] = call
        if index is not None:
            self._by_index[index] = call
        return call

    def _complete(self, call: CallSoFar, call_id: str | None, name: str | None) -> CallSoFar:
        if call_id is not None and call.id is None:
            call.id = call_id
            self._by_id[call_id] = call
        if name and call.name and name != call.name and call.problem is None:
            call.problem = f"it was named both {call.name!r} and {name!r}"
        return call


def index_of(value: object) -> int | None:
    """Read an index; one that is no number says nothing."""
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if value.isdecimal() and len(value) < 18:
            return int(value)
    return None
