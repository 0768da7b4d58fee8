"""A stream as a table: each frame of the wire with its time, its type and what it adds."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.dialects import dialect
from toolwire.errors import ToolwireError

_MOST = 500
_SHOWN = 300
_DETAILS = frozenset({"opaque", "key"})


class _EventRow(Struct, frozen=True):
    """A canonical event of a stream: its number, its time since the request, its type, and what it adds."""

    number: int
    seconds: float | None
    type: str
    words: str


class EventTable(Struct, frozen=True):
    """The first events of a stream, how many there are, and why it could not be read further."""

    rows: tuple[_EventRow, ...]
    count: int
    problem: str = ""


def events_of(data: bytes, wire: str, times: Sequence[tuple[int, float]] = ()) -> EventTable:
    """Return the events of a stream. `times` has the number of bytes that had arrived at a time."""
    decoder = dialect(wire).decode_stream()
    rows: list[_EventRow] = []
    count, start, problem = 0, 0, ""
    pieces: list[tuple[int, float | None]] = [*times] if times else [(len(data), None)]
    try:
        for end, seconds in pieces:
            events = decoder.feed(data[start:end])
            start = end
            count = _add(rows, events, seconds, count)
        count = _add(rows, decoder.feed(data[start:]) + decoder.close(), pieces[-1][1] if pieces else None, count)
    except ToolwireError as error:
        problem = str(error)
    return EventTable(tuple(rows), count, problem)


def _add(rows: list[_EventRow], events: Sequence[Any], seconds: float | None, count: int) -> int:
    for event in events:
        count += 1
        if len(rows) < _MOST:
            rows.append(_EventRow(count, seconds, type(event).__name__, _words_of(event)))
    return count


def _words_of(event: Any) -> str:
    """Return what an event adds, on one line. The raw body has what only its own wire understands."""
    for name in ("text", "fragment"):
        value = getattr(event, name, None)
        if isinstance(value, str) and value:
            return value[:_SHOWN]
    try:
        values = msgspec.to_builtins(_set_fields(event))
    except (TypeError, ValueError, RecursionError):
        return ""
    return msgspec.json.encode(values).decode("utf-8", "replace")[:_SHOWN] if values else ""


def _set_fields(value: Any) -> Any:
    """Return a canonical value as a dict of the fields that are set and understood. A dict of the user stays whole."""
    if isinstance(value, Struct):
        fields = {name: _set_fields(getattr(value, name)) for name in value.__struct_fields__ if name not in _DETAILS}
        return {name: one for name, one in fields.items() if one not in (None, "", [], (), {}, False)}
    return [_set_fields(one) for one in value] if type(value) in (list, tuple) else value
