"""The decoder of a stream, as far as all dialects share it.

Rules of this file:
- A decoder returns events and never raises. A frame that cannot be read becomes an `ErrorEnd`, which ends the stream.
- A server may answer a request for a stream with one whole JSON body, with an error page or with nothing. The decoder
  reads each of them.
- Bytes that are not UTF-8 become U+FFFD in text. A call whose arguments contain such bytes is marked as unusable.
- A "shell" is a response without its choices, or a part without its text.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from toolwire.encoding.errors import excerpt
from toolwire.errors import FrameTooLarge, InvalidBody
from toolwire.streams.accumulation import TEXT_DELTAS, events_of
from toolwire.streams.call_judge import CallJudge, PartialCall, Reason
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    Error,
    ErrorEnd,
    Event,
    MessageDelta,
    MessageEnd,
    Opaque,
    OpaqueDelta,
    Part,
    PartEnd,
    PartStart,
    Response,
    ToolCall,
    UsageDelta,
)
from toolwire.wire.bodies import read_body
from toolwire.wire.framing import BOM, STRAY, EventStream, Frame, Framing, JsonLines, JsonObjects

_decode = msgspec.json.Decoder().decode
DONE = b"[DONE]"
_EXCERPT = 500
# A decoder may read so many characters a second time: a fixed number, and a number for each byte of the stream.
_FREE_RESCAN, _RESCAN_PER_BYTE = 50_000_000, 256
CHARACTERS_PER_MEMBER = 50
"""Reading one member of an object a second time takes about as long as reading this many characters."""
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


class StreamDecoder(Protocol):
    """Decodes the bytes of one stream into events."""

    @property
    def done(self) -> bool:
        """True once the wire has ended the answer."""

    @property
    def over(self) -> bool:
        """True once the decoder reads nothing more: the answer has ended, or the stream has failed."""

    @property
    def ignored(self) -> int:
        """The number of bytes that arrived after that."""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes."""

    def close(self) -> list[Event]:
        """Return the last events: the bytes have ended."""


class WireDecoder:
    """Decodes one stream: finds its frames, and passes the body of each frame to the dialect.

    A dialect implements `read` and `end_choices`. `events` are the events of the current feed, and `frame` is the
    current frame. `damaged` is true if the frame contained bytes that are not UTF-8. `done`, `over` and `ignored` are
    those of `StreamDecoder`.
    """

    framing: type[EventStream | JsonLines] = EventStream
    done: bool = False
    over: bool = False
    ignored: int = 0
    damaged: bool = False
    frame: bytes = b""
    _frames: Framing | None = None
    _pieces: JsonObjects | None = None
    _in_object = _begun = False
    _keys = _size = _rescanned = 0
    _leading_bytes = _excerpt = b""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.judge: CallJudge = CallJudge()

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes."""
        self.events = []
        if self.over:
            self.ignored += len(data)
            return self.events
        self._size += len(data)
        frames = self._frames or self._choose(data)
        if frames is None:
            return self.events
        if not self._begun:
            data = self._note_beginning(data)
        try:
            self._read_frames(frames.feed(data))
        except FrameTooLarge as problem:
            self._refuse_size(problem)
        return self.events

    def _note_beginning(self, data: bytes) -> bytes:
        """Return the bytes to read, and keep an excerpt of them for the error of a stream that never begins."""
        if self._leading_bytes:
            data, self._leading_bytes = self._leading_bytes, b""
        if len(self._excerpt) < 4 * _EXCERPT:
            self._excerpt = (self._excerpt + data).removeprefix(BOM).lstrip()[: 4 * _EXCERPT]
        return data

    def _refuse_size(self, problem: FrameTooLarge) -> None:
        """End the stream because a frame or a text in it is too large, after the frames that came before it."""
        try:
            self._read_frames(problem.before)
        except FrameTooLarge as earlier:
            problem = earlier
        if not self.over:
            self.fail(Error("server", str(problem), code="stream_invalid"))

    def _read_frames(self, frames: Sequence[Frame]) -> None:
        for name, frame in frames:
            if self._in_object or name == STRAY:
                self._read_piece(frame)
            else:
                self._read_frame(frame, name)
            if self._rescanned:
                self._check_rescan()
            if self.judge.error is not None and not self.over:
                self._fail_judged(self.judge.error)
            if self.over:
                self._end_last()
                return

    def _end_last(self) -> None:
        """Move the end of the stream behind the other events of the frame that ended it.

        Events with content that follow the end are dropped.
        """
        events = self.events
        if events and type(events[-1]) is MessageEnd:
            return
        position = next(
            (position for position, event in enumerate(events) if type(event) in (ErrorEnd, MessageEnd)), None
        )
        if position is not None:
            ends = [event for event in events[position:] if type(event) in (ErrorEnd, MessageEnd)]
            around = [event for event in events[position:] if type(event) in (OpaqueDelta, UsageDelta, MessageDelta)]
            self.events = [*events[:position], *around, *ends]

    def close(self) -> list[Event]:
        """Return the last events: the bytes have ended."""
        self.events = []
        if not self.over and self._frames is not None:
            unfinished = [frame for frame in self._frames.unfinished() if self._is_worth_reading(frame[1])]
            try:
                self._read_frames(unfinished)
            except FrameTooLarge as problem:
                self.fail(Error("server", str(problem), code="stream_invalid"))
        if not self.over:
            if self._begun:
                self.end(complete=self.done)
            else:
                text = excerpt(self._excerpt.decode(errors="replace"), _EXCERPT).strip()
                self.fail(Error("server", f"no event of a stream came, but {text!r}" if text else "no event came"))
        return self.events

    def _is_worth_reading(self, frame: bytes) -> bool:
        """Return True if a frame that was not ended may contain a whole object. A line may contain several."""
        is_whole = self._in_object or _is_json(frame)
        return is_whole or (self.framing is JsonLines and frame.lstrip()[:1] == b"{")

    def _choose(self, data: bytes) -> Framing | None:
        """Choose the framing by the first byte that is not blank. Return None if there is none yet.

        Of the blanks before it only their meaning is kept: that a line has ended, and that the next line is indented.
        """
        head = self._leading_bytes + data
        content = head.removeprefix(BOM).lstrip()
        blank = head[: len(head) - len(content)].removeprefix(BOM)
        if blank:
            ended = max(blank.rfind(b"\n"), blank.rfind(b"\r")) + 1
            head = (b"\n" if ended else b"") + (b" " if ended < len(blank) else b"") + content
        self._leading_bytes = head
        if not content or BOM.startswith(head):
            return None
        is_whole_body = self.framing is EventStream and content[:1] in (b"{", b"[")
        self._frames = frames = JsonObjects() if is_whole_body else self.framing()
        return frames

    def _read_frame(self, frame: bytes, name: bytes) -> None:
        """Read one frame; `name` is the name of its event."""
        self.frame = frame
        try:
            body = _decode(frame)
        except UNREADABLE:
            self._read_non_json(frame, name)
            return
        if type(body) is dict:
            self._begun = True
            self.read(body, name)
        elif body is not None:
            self._refuse(frame)

    def _read_non_json(self, frame: bytes, name: bytes) -> None:
        """Read a frame that is not valid JSON: the marker of the end, damaged JSON, or a piece of an object."""
        stripped = frame.strip()
        if stripped == DONE:
            if self._begun:
                self.end(complete=True)
        elif type(body := repair(frame)) is dict:
            self._begun = self.damaged = True
            self.read(body, name)
            self.damaged = False
        elif stripped[:1] == b"{" and self.framing is JsonLines:
            self._read_piece(frame)
        elif stripped:
            self._refuse(frame)

    def _read_piece(self, line: bytes) -> None:
        """Read a line that is a piece of an object, or has several objects. Some servers write errors like that."""
        if not self._in_object and line.lstrip()[:1] not in (b"{", b"["):
            return
        pieces = self._pieces = self._pieces or JsonObjects()
        for _, frame in pieces.feed(line + b"\n"):
            if self.over:
                return
            if _is_json(frame) or type(repair(frame)) is dict:
                self._read_frame(frame, b"")
            else:
                self._refuse(frame)
        self._in_object = not pieces.is_idle()

    def _refuse(self, frame: bytes) -> None:
        text = excerpt(frame.decode(errors="replace"), _EXCERPT)
        self.fail(Error("server", f"a frame of the stream is not a JSON object: {text!r}", code="stream_invalid"))

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Decode the body of one frame, and add its events to `events`; `name` is the name of the frame's event."""
        raise NotImplementedError

    def cut_calls(self, *, cut: bool) -> Collection[PartialCall]:
        """Return the calls that the end of their answer may have cut off; `cut` is true if the stream broke off."""
        del cut
        return ()

    def end_choices(self, reason: str | None) -> None:
        """End the open parts and the choices. `reason` is the finish reason of choices to which the wire gave none."""
        raise NotImplementedError

    def count_rescan(self, characters: int) -> None:
        """Count characters that are read a second time. The stream fails if they are too many for its length."""
        self._rescanned += characters

    def _check_rescan(self) -> None:
        if self._rescanned > _FREE_RESCAN + _RESCAN_PER_BYTE * self._size and not self.over:
            self.fail(Error("server", "the stream repeats itself too often to be read", code="stream_invalid"))

    def new_key(self) -> int:
        """Return the key of the next part."""
        self._keys += 1
        return self._keys - 1

    def start_call(self, key: int, call: ToolCall, choice: int = 0) -> None:
        """Emit the start of a call whose text is not known yet."""
        start = CallStart(key, call.id, call.name, call.index, call.custom, choice, opaque=call.opaque)
        self.events.append(start)

    def end_whole_call(self, key: int, call: ToolCall) -> None:
        """Emit the end of a call that arrived whole. The text of an unusable call is emitted as a delta first."""
        if not call.complete:
            self.events.append(CallDelta(key, call.raw or ""))
        self.events.append(CallEnd(key, call))

    def emit_response(self, response: Response) -> None:
        """Emit a whole response. Some servers return one although the request asked for a stream."""
        self.events += events_of(response)
        self.over = True

    def fail(self, error: Error) -> None:
        """End the stream with an error."""
        if self._begun:
            self.end_choices("error")
        self.events += (ErrorEnd(error), MessageEnd(complete=False))
        self.over = True

    def _fail_judged(self, reason: Reason) -> None:
        """End the stream with the error of the judge: a call that may be running already was emitted wrongly."""
        self.fail(Error("server", str(reason), code="stream_invalid"))

    def end(self, *, complete: bool) -> None:
        """End the stream. It fails if a call that may be running already may lack text."""
        self.judge.check_matches(self.cut_calls(cut=not complete))
        if self.judge.error is not None:
            self._fail_judged(self.judge.error)
            return
        self.end_choices(None if complete else "incomplete")
        self.events.append(MessageEnd(complete=complete))
        self.over = True

    def frame_problem(self) -> str | None:
        """Return the reason why no arguments can be read from the current frame, or None."""
        return Reason.NOT_UTF8 if self.damaged else Reason.TWICE if self.repeats_a_key() else None

    def repeats_a_key(self) -> bool:
        """Return True if an object of the current frame has a key twice. Then its arguments are ambiguous."""
        try:
            read_body(self.frame)
        except InvalidBody:
            return not self.damaged
        return False


def _is_json(frame: bytes) -> bool:
    """Return True if `frame` is one JSON value."""
    try:
        _decode(frame)
    except UNREADABLE:
        return False
    return True


def repair(frame: bytes) -> Any:
    """Parse JSON that contains invalid UTF-8 or surrogates, with U+FFFD in their place.

    Return None if it is not JSON even so.
    """
    try:
        value = json.loads(frame.decode(errors="replace"), parse_constant=_refuse_constant)
        text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _decode(text)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


class PartBuilder(Struct, eq=False):
    """Builds the parts of one choice, one after the other. Texts of one type in a row become one part."""

    _decoder: WireDecoder
    choice: int = 0
    key: int = -1
    part: Any = None

    def add_text(self, shell: Any, text: str, opaque: Opaque | None = None) -> None:
        """Emit text. If the open part is not of the type of `shell`, or none is open, open `shell` first."""
        if type(self.part) is not type(shell):
            self.open(shell)
        if text or opaque is not None:
            self._decoder.events.append(TEXT_DELTAS[type(shell)](self.key, text, opaque=opaque))

    def open(self, shell: Any) -> None:
        """End the open part, and begin `shell`."""
        self.close()
        self.key, self.part = self._decoder.new_key(), shell
        self._decoder.events.append(PartStart(self.key, shell, self.choice))

    def add(self, part: Part) -> None:
        """Emit a whole part."""
        self.open(part)
        self.close()

    def close(self) -> None:
        """End the open part, if there is one."""
        part, self.part = self.part, None
        if part is not None:
            self._decoder.events.append(PartEnd(self.key, part))
