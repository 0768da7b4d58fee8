"""What reading a stream has in common in every dialect.

Rules of this file:
- A decoder gives events and never raises: what cannot be read is an `ErrorEnd`, and ends the stream.
- A stream may turn out to be something else: one whole JSON body, an error page, nothing. It is read as that.
- Bytes that are no UTF-8 become U+FFFD in words; a call whose text they touched is refused.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from toolwire.encoding.errors import excerpt
from toolwire.errors import FrameTooLarge, InvalidBody
from toolwire.streams.accumulation import WORDS, events_of
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
# How many letters of a stream may be looked at once more, and how many for each of its bytes.
_MUCH, _MORE = 50_000_000, 256
LETTERS_OF_A_MEMBER = 50
"""To look at a member of an object once more takes about as long as to look at so many letters."""
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


class StreamDecoder(Protocol):
    """What reads a stream: bytes to events."""

    @property
    def done(self) -> bool:
        """Whether the wire has ended the answer."""

    @property
    def over(self) -> bool:
        """Whether nothing more is read."""

    @property
    def ignored(self) -> int:
        """How many bytes came after that."""

    def feed(self, data: bytes) -> list[Event]:
        """Give the events that these bytes tell."""

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""


class WireDecoder:
    """Reads one stream. A dialect says what a body means, and what the end of one is.

    `events` are those of the present feed. `done` says that the wire has ended the answer, `over` that nothing
    more is read; `ignored` counts the bytes that came after that.
    """

    framing: type[EventStream | JsonLines] = EventStream
    done: bool = False
    over: bool = False
    ignored: int = 0
    damaged: bool = False
    frame: bytes = b""
    _frames: Framing | None = None
    _pieces: JsonObjects | None = None
    _inside = _begun = False
    _keys = _size = _strain = 0
    _head = _excerpt = b""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.judge: CallJudge = CallJudge()

    def feed(self, data: bytes) -> list[Event]:
        """Give the events that these bytes tell."""
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
        """Return the bytes to read, and store an excerpt for the error of a stream that never begins."""
        if self._head:
            data, self._head = self._head, b""
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
            if self._inside or name == STRAY:
                self._read_piece(frame)
            else:
                self._read_frame(frame, name)
            if self._strain:
                self._check_strain()
            if self.judge.error is not None and not self.over:
                self._fail_misled(self.judge.error)
            if self.over:
                self._end_last()
                return

    def _end_last(self) -> None:
        """Put the end last, where the frame that ended the stream had more to tell; its content is told no more."""
        events = self.events
        if events and type(events[-1]) is MessageEnd:
            return
        place = next((place for place, event in enumerate(events) if type(event) in (ErrorEnd, MessageEnd)), None)
        if place is not None:
            ends = [event for event in events[place:] if type(event) in (ErrorEnd, MessageEnd)]
            around = [event for event in events[place:] if type(event) in (OpaqueDelta, UsageDelta, MessageDelta)]
            self.events = [*events[:place], *around, *ends]

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""
        self.events = []
        if not self.over and self._frames is not None:
            left = [frame for frame in self._frames.unfinished() if self._is_worth_reading(frame[1])]
            try:
                self._read_frames(left)
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
        """Whether a frame that nothing ended may hold something whole: a line may hold several objects."""
        whole = self._inside or _is_json(frame)
        return whole or (self.framing is JsonLines and frame.lstrip()[:1] == b"{")

    def _choose(self, data: bytes) -> Framing | None:
        """Choose how the bytes are framed by the first of them that says something.

        Of the blank ones before it stays what they mean: that a line has begun, or is not the first.
        """
        head = self._head + data
        rest = head.removeprefix(BOM).lstrip()
        blank = head[: len(head) - len(rest)].removeprefix(BOM)
        if blank:
            ended = max(blank.rfind(b"\n"), blank.rfind(b"\r")) + 1
            head = (b"\n" if ended else b"") + (b" " if ended < len(blank) else b"") + rest
        self._head = head
        if not rest or BOM.startswith(head):
            return None
        whole = self.framing is EventStream and rest[:1] in (b"{", b"[")
        self._frames = frames = JsonObjects() if whole else self.framing()
        return frames

    def _read_frame(self, frame: bytes, name: bytes) -> None:
        self.frame = frame
        try:
            body = _decode(frame)
        except UNREADABLE:
            self._read_odd(frame, name)
            return
        if type(body) is dict:
            self._begun = True
            self.read(body, name)
        elif body is not None:
            self._refuse(frame)

    def _read_odd(self, frame: bytes, name: bytes) -> None:
        """Read a frame that is not JSON as it stands."""
        bare = frame.strip()
        if bare == DONE:
            if self._begun:
                self.end(complete=True)
        elif type(body := repair(frame)) is dict:
            self._begun = self.damaged = True
            self.read(body, name)
            self.damaged = False
        elif bare[:1] == b"{" and self.framing is JsonLines:
            self._read_piece(frame)
        elif bare:
            self._refuse(frame)

    def _read_piece(self, line: bytes) -> None:
        """Read a line that is no field, or no object: a piece of one, or several. So servers tell errors."""
        if not self._inside and line.lstrip()[:1] not in (b"{", b"["):
            return
        pieces = self._pieces = self._pieces or JsonObjects()
        for _, frame in pieces.feed(line + b"\n"):
            if self.over:
                return
            if _is_json(frame) or type(repair(frame)) is dict:
                self._read_frame(frame, b"")
            else:
                self._refuse(frame)
        self._inside = not pieces.is_idle()

    def _refuse(self, frame: bytes) -> None:
        text = excerpt(frame.decode(errors="replace"), _EXCERPT)
        self.fail(Error("server", f"a frame of the stream is not a JSON object: {text!r}", code="stream_invalid"))

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one body."""
        raise NotImplementedError

    def cut_calls(self, *, cut: bool) -> Collection[PartialCall]:
        """Return the calls that the end of their answer may have cut off; `cut` says that the stream broke off."""
        del cut
        return ()

    def settle(self, reason: str | None) -> None:
        """End what is open; `reason` says why, where the wire did not."""
        raise NotImplementedError

    def strain(self, work: int) -> None:
        """Count letters that are looked at once more; too many for the bytes of a stream are an error."""
        self._strain += work

    def _check_strain(self) -> None:
        if self._strain > _MUCH + _MORE * self._size and not self.over:
            self.fail(Error("server", "the stream repeats itself too often to be read", code="stream_invalid"))

    def new_key(self) -> int:
        """Give the key of the next part."""
        self._keys += 1
        return self._keys - 1

    def start_call(self, key: int, call: ToolCall, choice: int = 0) -> None:
        """Tell that a call begins, of which no text is known yet."""
        start = CallStart(key, call.id, call.name, call.index, call.custom, choice, opaque=call.opaque)
        self.events.append(start)

    def end_whole_call(self, key: int, call: ToolCall) -> None:
        """Tell the end of a call that came whole: of one that is not to be used, what came of it is text."""
        if not call.complete:
            self.events.append(CallDelta(key, call.raw or ""))
        self.events.append(CallEnd(key, call))

    def replay(self, response: Response) -> None:
        """Tell a whole response: a server may answer with one where a stream was asked for."""
        self.events += events_of(response)
        self.over = True

    def fail(self, error: Error) -> None:
        """End the stream with an error."""
        if self._begun:
            self.settle("error")
        self.events += (ErrorEnd(error), MessageEnd(complete=False))
        self.over = True

    def _fail_misled(self, reason: Reason) -> None:
        """End the stream with an error, because a call that may run already is not as it was emitted."""
        self.fail(Error("server", str(reason), code="stream_invalid"))

    def end(self, *, complete: bool) -> None:
        """End the stream; it fails if a call that may run already may lack text."""
        self.judge.check_matches(self.cut_calls(cut=not complete))
        if self.judge.error is not None:
            self._fail_misled(self.judge.error)
            return
        self.settle(None if complete else "incomplete")
        self.events.append(MessageEnd(complete=complete))
        self.over = True

    def damage(self) -> str | None:
        """Say what is wrong with the present body, so that no arguments can be taken from it."""
        return Reason.NOT_UTF8 if self.damaged else Reason.TWICE if self.repeats_a_key() else None

    def repeats_a_key(self) -> bool:
        """Whether the present body gives a key twice; arguments that stand in it as an object must not."""
        try:
            read_body(self.frame)
        except InvalidBody:
            return not self.damaged
        return False


def _is_json(frame: bytes) -> bool:
    """Whether a frame is one JSON value."""
    try:
        _decode(frame)
    except UNREADABLE:
        return False
    return True


def repair(frame: bytes) -> Any:
    """Read JSON whose text is no Unicode, with U+FFFD in its place; None where it is no JSON either."""
    try:
        value = json.loads(frame.decode(errors="replace"), parse_constant=_refuse_constant)
        text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _decode(text)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


class Speech(Struct, eq=False):
    """The parts of one choice that follow each other: words of one kind in a row are one part."""

    _decoder: WireDecoder
    choice: int = 0
    key: int = -1
    part: Any = None

    def say(self, shell: Any, words: str, opaque: Opaque | None = None) -> None:
        """Tell words; the shell is the part that they open where another kind is open, or none."""
        if type(self.part) is not type(shell):
            self.open(shell)
        if words or opaque is not None:
            self._decoder.events.append(WORDS[type(shell)](self.key, words, opaque=opaque))

    def open(self, shell: Any) -> None:
        """Begin a part, after the end of the one before."""
        self.close()
        self.key, self.part = self._decoder.new_key(), shell
        self._decoder.events.append(PartStart(self.key, shell, self.choice))

    def add(self, part: Part) -> None:
        """Tell a part that is whole."""
        self.open(part)
        self.close()

    def close(self) -> None:
        """End the part that is open."""
        part, self.part = self.part, None
        if part is not None:
            self._decoder.events.append(PartEnd(self.key, part))
