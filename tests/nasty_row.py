"""A row of the table of nasty streams: what deviating servers and broken connections send, and what it tells.

Rules of this file:
- A row is what a reader gets, read by read, and what there is to know at the end: the text, the calls that
  can be run, the text of those that cannot, and why the answer ended.
- `MADE` stands for the id of a call that came without one: it was made here, and no other call has it.
- `SOME` stands for any text of a call that cannot be run, where its wire says arguments that are no text.
- Where `nasty` is false, a reader as many write it is right too. Such rows show that it is a fair control.
"""

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire import Event, Thinking, accumulate, dialect
from toolwire.types import ErrorEnd
from toolwire.wire.names import is_generated_id

MADE = "(made)"
SOME = "(some)"
Call = tuple[str | None, str, dict[str, Any]]
Body = dict[str, Any]


class Told(Struct, frozen=True, kw_only=True):
    """What a stream tells; `broken` has the text of the calls that cannot be run."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    broken: tuple[str, ...] = ()
    finish: str | None = "tool_calls"

    def like(self, other: "Told") -> "Told":
        """The same, with any text where the other has any."""
        pairs = zip_longest(self.broken, other.broken)
        broken = [SOME if None is not text and there == SOME else text for text, there in pairs]
        return replace(self, broken=tuple(text for text in broken if text is not None))


class Row(Struct, frozen=True, kw_only=True):
    """One stream; `ended` says that its wire ended it."""

    dialect: str
    name: str
    frames: tuple[bytes, ...]
    told: Told
    ended: bool = True
    nasty: bool = True

    @property
    def data(self) -> bytes:
        """All of its bytes."""
        return b"".join(self.frames)


def event(body: Any, name: str = "") -> bytes:
    """Write a body as a server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + msgspec.json.encode(body) + b"\n\n"


def line(body: Any) -> bytes:
    """Write a body as a line."""
    return msgspec.json.encode(body) + b"\n"


def cut(frame: bytes, after: bytes) -> tuple[bytes, bytes]:
    """Cut a frame in two, behind some of its bytes."""
    place = frame.index(after) + len(after)
    return frame[:place], frame[place:]


def spoil(frame: bytes, odd: bytes) -> bytes:
    """Put odd bytes where a NUL is."""
    assert b"\\u0000" in frame
    return frame.replace(b"\\u0000", odd)


def decode(name: str, pieces: Iterable[bytes]) -> list[Event]:
    """Give the events of a stream."""
    decoder = dialect(name).decode_stream()
    return [told for piece in pieces for told in decoder.feed(piece)] + decoder.close()


def tell(events: list[Event]) -> Told:
    """Say what events tell, in plain values; an error without an answer is the end of one."""
    response = accumulate(events)
    calls = response.tool_calls
    made = [call.id for call in [*calls, *response.broken_calls] if is_generated_id(call.id)]
    assert None not in made
    assert len(set(made)) == len(made)
    failed = any(type(event) is ErrorEnd for event in events)
    return Told(
        text=response.message.text,
        thinking="".join(part.text for part in response.parts if type(part) is Thinking),
        calls=tuple((MADE if call.id in made else call.id, call.name, call.arguments) for call in calls),
        broken=tuple(call.raw or "" for call in response.broken_calls),
        finish=response.finish_reason or ("error" if failed else None),
    )
