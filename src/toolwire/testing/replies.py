"""HTTP replies of the simulated server: a script as one body or as a stream, in pieces that a connection sends.

Rules of this file:
- A piece is bytes to send, seconds to wait, or the end of the connection.
- Each event of a wire is one piece, so that pauses and cuts can be placed between any two.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import dialect
from toolwire.encoding.finish import has_complete_calls
from toolwire.streams.accumulation import part_events as tell_part
from toolwire.testing.answers import PartCue, Script
from toolwire.testing.steps import Cut, Fail, Pace, Raw, Wait
from toolwire.testing.wires import JSON, WIRES
from toolwire.types import (
    CallDelta,
    ChoiceEnd,
    ErrorEnd,
    Event,
    Loss,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    PartEnd,
    PartStart,
    RefusalDelta,
    Request,
    Response,
    SignatureDelta,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Usage,
    UsageDelta,
)

_FRAME = {"ollama": re.compile(rb"[^\n]*\n")}
_EVENT = re.compile(rb".*?\n\n", re.DOTALL)


class Close(Struct, frozen=True):
    """The connection ends here, even if the answer is incomplete."""

    reset: bool = False


_Piece = bytes | float | Close


class Reply(Struct, frozen=True):
    """An HTTP reply: its status and headers, and the pieces of its body.

    `whole` is true if the length of the body is known and sent; `body` is the body as a client parses it. `usage` are
    the tokens of the answer.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: tuple[_Piece, ...]
    whole: bool = True
    body: Any = None
    length: int | None = None
    losses: tuple[Loss, ...] = ()
    usage: Usage | None = None


def error_reply(failure: Fail, name: str, cues: Iterable[Any] = ()) -> Reply:
    """Return the reply with an error, as the servers of a dialect send it."""
    error = failure.error
    if error.status is None and error.kind in WIRES[name].statuses:
        error = replace(error, status=WIRES[name].statuses[error.kind])
    if failure.retry_after is not None:
        error = replace(error, retry_after=failure.retry_after)
    encoded = dialect(name).encode_error(error)
    headers = {"content-type": JSON, **encoded.headers, **failure.headers}
    waits = [cue.seconds for cue in cues if isinstance(cue, Wait)]
    return Reply(encoded.status, tuple(headers.items()), (*waits, encoded.json), length=len(encoded.json))


def whole_reply(script: Script, name: str, request: Request | None = None) -> Reply:
    """Return the reply with a script as one body. `request` is the request that it answers."""
    cut = next((cue for cue in script.cues if isinstance(cue, Cut)), None)
    waits: list[_Piece] = [cue.seconds for cue in script.cues if isinstance(cue, Wait)]
    raw = [cue for cue in script.cues if isinstance(cue, Raw)]
    failures = [cue for cue in script.cues if isinstance(cue, Fail)]
    if failures and cut is None:
        return error_reply(failures[0], name, script.cues)
    body: Any = None
    losses: tuple[Loss, ...] = ()
    if script.answers:
        encoded = dialect(name).encode_response(script.response, request=request)
        encoded = replace(encoded, body={**WIRES[name].times, **encoded.body})
        body, data, losses = encoded.body, encoded.json, encoded.losses
    else:
        data = b"".join(cue.data for cue in raw)
    status, content_type = (raw[0].status, raw[0].content_type) if raw and body is None else (200, None)
    headers = (("content-type", content_type or JSON),)
    if cut is None:
        return Reply(status, headers, (*waits, data), body=body, length=len(data), losses=losses)
    if isinstance(script.first, Cut) and not _has_limit(script.first):
        return Reply(status, headers, (*waits, Close(cut.reset)))
    sent = data[: len(data) // 2 if cut.bytes is None else cut.bytes]
    return Reply(status, headers, (*waits, sent, Close(cut.reset)), body=body, length=len(data))


def stream_reply(script: Script, name: str, request: Request | None = None, **quirks: Any) -> Reply:
    """Return the reply with a script as a stream. `request` is the request that it answers."""
    writer = _StreamWriter(script, name, request, quirks)
    pieces = list(writer.run())
    cut = next((cue for cue in script.cues if isinstance(cue, Cut) and _has_limit(cue)), None)
    played = tuple(pieces if cut is None else _cut(pieces, cut))
    raw = next((cue for cue in script.cues if isinstance(cue, Raw)), None)
    status, content_type = (raw.status, raw.content_type) if raw and not script.answers else (200, None)
    default_type = JSON if quirks.get("stream_array") else WIRES[name].stream_type
    headers = (("content-type", content_type or default_type),)
    return Reply(status, headers, played, whole=False, losses=writer.encoder.losses)


def _has_limit(cut: Cut) -> bool:
    return cut.events is not None or cut.bytes is not None


def _cut(pieces: list[_Piece], cut: Cut) -> Iterator[_Piece]:
    """Close the connection after so many events or bytes were sent; with 0, after the headers."""
    events, size = cut.events, cut.bytes
    yield b""
    for piece in pieces:
        if isinstance(piece, bytes):
            if events == 0 or size == 0:
                break
            if size is not None:
                piece = piece[:size]  # noqa: PLW2901 - the part within the limit
                size -= len(piece)
            events = None if events is None else events - 1
        yield piece
    yield Close(cut.reset)


class _StreamWriter:
    """Yields the pieces of a script's stream."""

    def __init__(self, script: Script, name: str, request: Request | None, quirks: dict[str, Any]) -> None:
        self.script, self.name = script, name
        self.frame = None if quirks.get("stream_array") else _FRAME.get(name, _EVENT)
        self.encoder = dialect(name).encode_stream(request=request, **quirks)
        self.pace = 0.0
        self.sent = False
        self.has_begun = False

    def run(self) -> Iterator[_Piece]:
        for key, cue in enumerate(self.script.cues):
            match cue:
                case Wait():
                    yield cue.seconds
                case Pace():
                    self.pace = cue.seconds
                case Raw():
                    yield from self._send([cue.data])
                case Cut() if not _has_limit(cue):
                    yield Close(cue.reset)
                    return
                case PartCue():
                    part = self.script.response.choices[cue.choice].message.parts[cue.index]
                    yield from self._begin()
                    events = _split_events(tell_part(key, part, cue.choice))
                    yield from self._encode(_signed_last(events) if self.name == "anthropic" else events)
                case Fail():
                    yield from self._begin()
                    yield from self._encode([ErrorEnd(cue.error)])
                    return
        if self.script.answers:
            yield from self._begin()
            yield from self._end()

    def _begin(self) -> Iterator[_Piece]:
        if not self.has_begun:
            self.has_begun = True
            yield from self._encode([MessageStart(self._envelope())])

    def _envelope(self) -> Response:
        """Return the values that are known before the answer. The Messages API has counted its input by then."""
        response, usage = self.script.response, None
        if self.name == "anthropic" and response.usage is not None:
            usage = replace(response.usage, output_tokens=1, reasoning_tokens=None)
        return replace(response, choices=[], usage=usage)

    def _end(self) -> Iterator[_Piece]:
        response, times = self.script.response, WIRES[self.name].times
        if response.usage is not None:
            yield from self._encode([UsageDelta(response.usage)])
        if times:
            yield from self._encode([OpaqueDelta(None, opaque=Opaque(self.name, dict(times)))])
        for index, choice in enumerate(response.choices):
            content: Any = [] if has_complete_calls(choice.message.parts) else ""
            message = replace(choice.message, content=content)
            yield from self._encode([ChoiceEnd(index, replace(choice, message=message))])
        yield from self._encode([MessageEnd()])
        yield from self._send(self._frames(self.encoder.close()))

    def _encode(self, events: Iterable[Event]) -> Iterator[_Piece]:
        for event in events:
            yield from self._send(self._frames(self.encoder.feed(event)))

    def _frames(self, data: bytes) -> list[bytes]:
        if self.frame is None or not data:
            return [data] if data else []
        frames = self.frame.findall(data)
        remainder = data[sum(map(len, frames)) :]
        return [*frames, remainder] if remainder else frames

    def _send(self, frames: Iterable[bytes]) -> Iterator[_Piece]:
        for data in frames:
            if self.sent and self.pace:
                yield self.pace
            self.sent = True
            yield data


def _split_events(events: Iterable[Event]) -> Iterator[Event]:
    """Split the text of events into several."""
    for event in events:
        match event:
            case TextDelta() | RefusalDelta() | ThinkingDelta():
                for piece in _split_text(event.text):
                    yield replace(event, text=piece)
            case CallDelta():
                for piece in _split_text(event.fragment):
                    yield replace(event, fragment=piece)
            case _:
                yield event


def _split_text(text: str, size: int = 16, most: int = 200) -> Iterator[str]:
    """Split a text into several pieces, always in the same way."""
    step = max(size, -(-len(text) // most))
    if len(text) <= step and len(text) > 1:
        step = -(-len(text) // 2)
    for start in range(0, len(text), step):
        yield text[start : start + step]


def _signed_last(events: Iterable[Event]) -> Iterator[Event]:
    """Move the signature of a thinking block after its text."""
    signature: str | None = None
    for event in events:
        if isinstance(event, PartStart) and type(event.part) is Thinking and not event.part.redacted:
            signature = event.part.signature
            yield replace(event, part=replace(event.part, signature=""))
            continue
        if isinstance(event, PartEnd) and signature is not None:
            yield SignatureDelta(event.key, signature)
        yield event
