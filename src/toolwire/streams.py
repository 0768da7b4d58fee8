"""What reading and writing a stream have in common in every dialect.

Rules of this file:
- A decoder gives events and never raises: what cannot be read is an `ErrorEnd`, and ends the stream.
- A stream may turn out to be something else: one whole JSON body, an error page, nothing. It is read as that.
- Bytes that are no UTF-8 become U+FFFD in words; a call whose text they touched is refused.
- An encoder gives bytes as soon as they can be said. After an error it says nothing more.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from toolwire.accumulation import WORDS, events_of
from toolwire.bodies import read_body
from toolwire.errors import FrameTooLarge, InvalidBody
from toolwire.faults import excerpt
from toolwire.framing import BOM, STRAY, EventStream, Frame, Framing, JsonLines, JsonObjects, write_event
from toolwire.ledger import Ledger
from toolwire.slots import CallText
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    ChoiceEnd,
    CitationDelta,
    Error,
    ErrorEnd,
    Event,
    Loss,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    Part,
    PartEnd,
    PartStart,
    RefusalDelta,
    Response,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    UsageDelta,
)

_decode = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode
encode_json = msgspec.json.Encoder().encode
DONE = b"[DONE]"
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
SAID = frozenset({TextDelta, ThinkingDelta, RefusalDelta, CallDelta})
BROKEN_OFF = Error("server", "the stream broke off before the answer was whole", code="stream_incomplete")
NOT_UTF8 = "its text was not UTF-8"
EXCERPT = 500


class StreamDecoder:
    """Reads one stream: bytes to events. A dialect says what a body means, and what the end of one is.

    `events` are those of the present feed. `done` says that the wire has ended the answer, `over` that
    nothing more is read; `ignored` counts the bytes that came after that. `learns` says that frames of words
    repeat each other but for the words, and can be read quickly; `grows` is the call that a fragment goes to.
    """

    framing: type[EventStream | JsonLines] = EventStream
    learns = True

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.done = False
        self.over = False
        self.ignored = 0
        self.damaged = False
        self.frame = b""
        self.grows: CallText | None = None
        self._frames: Framing | None = None
        self._pieces = JsonObjects()
        self._inside = False
        self._begun = False
        self._keys = 0
        self._head = b""
        self._excerpt = b""
        self._before = b""
        self._after = b""
        self._begin = self._end = 0
        self._grows: CallText | None = None
        self._kind: Any = None
        self._key: int | None = None
        self._last = (b"", "")

    def feed(self, data: bytes) -> list[Event]:
        """Give the events that these bytes tell."""
        if self._before and data.startswith(self._before) and data.endswith(self._after):
            event = self._read_alike(data, self._begin, self._end)
            if event is not None:
                return [event]
        self.events = []
        if self.over:
            self.ignored += len(data)
            return self.events
        frames = self._frames or self._choose(data)
        if frames is None:
            return self.events
        if self._head:
            data, self._head = self._head, b""
        if not self._begun and len(self._excerpt) < EXCERPT:
            self._excerpt = (self._excerpt + data).removeprefix(BOM).lstrip()[:EXCERPT]
        try:
            self._read_bytes(data, frames)
        except FrameTooLarge as problem:
            self.fail(Error("too_large", str(problem)))
        return self.events

    def _read_bytes(self, data: bytes, frames: Framing) -> None:
        if self._before:
            data = self._read_all_alike(data)
        try:
            found = frames.feed(data)
        except FrameTooLarge as problem:
            self._read_frames(problem.before, frames)
            if self.over:
                return
            raise
        self._read_frames(found, frames)
        if self._before and not (type(frames) is EventStream and frames.is_idle()):
            self._before = b""

    def _read_frames(self, found: Sequence[Frame], frames: Framing) -> None:
        learns = self.learns and type(frames) is EventStream
        for name, frame in found:
            count = len(self.events)
            if self._inside or name == STRAY:
                self._read_piece(frame)
            else:
                self._read_frame(frame, name)
            if self.over:
                return
            if learns:
                self._learn(name, frame, count)

    def _read_alike(self, data: bytes, begin: int, end: int) -> Any:
        """Read a frame that differs from the last one in its words alone, from `begin` to `end`."""
        try:
            words = _decode_text(data[begin:end])
        except UNREADABLE:
            return None
        if not words or (self._grows is not None and not self._grows.grow(words)):
            return None
        return self._kind(self._key, words)

    def _read_all_alike(self, data: bytes) -> bytes:
        """Read the frames that differ from the last one in their words alone; give the bytes after them."""
        before, after, place = self._before, self._after, 0
        while data.startswith(before, place) and (end := data.find(after, place + self._begin + 1)) >= 0:
            event = self._read_alike(data, place + self._begin, end + 1)
            if event is None:
                break
            self.events.append(event)
            place = end + len(after)
        return data[place:]

    def _learn(self, name: bytes, frame: bytes, count: int) -> None:
        """Learn how the next frame may look from two of one part that differ in their words alone.

        All else in them is the same, so it is there that the words come from.
        """
        self._before = b""
        event: Any = self.events[-1] if len(self.events) == count + 1 else None
        kind = type(event)
        if kind not in SAID or event.opaque is not None or name == STRAY:
            self._key = None
            return
        words: str = event.fragment if kind is CallDelta else event.text
        (last, said), self._last = self._last, (frame, words)
        known = self._kind is kind and self._key == event.key and words != said
        self._kind, self._key = kind, event.key
        self._grows = self.grows if kind is CallDelta else None
        if not known or (kind is CallDelta and self._grows is None):
            return
        before, _, after = frame.partition(encode_json(words))
        same = after and last.startswith(before) and last.endswith(after)
        if same and last[len(before) : -len(after)] == encode_json(said):
            before, _, after = write_event(frame, name).partition(encode_json(words))
            self._before, self._after = before + b'"', b'"' + after
            self._begin, self._end = len(before), -len(after)

    def close(self) -> list[Event]:
        """Give the events that the end of the bytes tells."""
        self.events = []
        if not self.over and self._frames is not None:
            left = self._frames.unfinished()
            self._read_frames([item for item in left if self._inside or is_json(item[1])], self._frames)
        if not self.over:
            if self._begun:
                self.end(complete=self.done)
            else:
                said = excerpt(self._excerpt.decode(errors="replace"), EXCERPT).strip()
                self.fail(
                    Error("server", f"no event of a stream came, but {said!r}" if said else "no event came")
                )
        return self.events

    def _choose(self, data: bytes) -> Framing | None:
        """Choose how the bytes are framed by the first of them that says something.

        Of the blank ones before it stays what they mean: that a line has begun, or is not the first.
        """
        head = self._head + data
        said = head.removeprefix(BOM).lstrip()
        blank = head[: len(head) - len(said)].removeprefix(BOM)
        if blank:
            ended = max(blank.rfind(b"\n"), blank.rfind(b"\r")) + 1
            head = (b"\n" if ended else b"") + (b" " if ended < len(blank) else b"") + said
        self._head = head
        if not said or BOM.startswith(head):
            return None
        whole = self.framing is EventStream and said[:1] in (b"{", b"[")
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
        for _, frame in self._pieces.feed(line + b"\n"):
            if self.over:
                return
            if is_json(frame) or type(repair(frame)) is dict:
                self._read_frame(frame, b"")
            else:
                self._refuse(frame)
        self._inside = self._pieces.is_open()

    def _refuse(self, frame: bytes) -> None:
        text = excerpt(frame.decode(errors="replace"), EXCERPT)
        self.fail(
            Error("server", f"a frame of the stream is no JSON object: {text!r}", code="stream_invalid")
        )

    def read(self, body: dict[str, Any], name: bytes) -> None:
        """Read one body."""
        raise NotImplementedError

    def settle(self, reason: str | None) -> None:
        """End what is open; `reason` says why, where the wire did not."""
        raise NotImplementedError

    def new_key(self) -> int:
        """Give the key of the next part."""
        self._keys += 1
        return self._keys - 1

    def replay(self, response: Response) -> None:
        """Tell a whole response: a server may answer with one where a stream was asked for."""
        self.events += events_of(response)
        self._finish()

    def _finish(self) -> None:
        self.over, self._before = True, b""

    def fail(self, error: Error) -> None:
        """End the stream with an error."""
        if self._begun:
            self.settle("error")
        self.events += (ErrorEnd(error), MessageEnd(complete=False))
        self._finish()

    def end(self, *, complete: bool) -> None:
        """End the stream."""
        self.settle(None if complete else "incomplete")
        self.events.append(MessageEnd(complete=complete))
        self._finish()

    def repeats_a_key(self) -> bool:
        """Whether the present body gives a key twice; arguments that stand in it as an object must not."""
        try:
            read_body(self.frame)
        except InvalidBody:
            return not self.damaged
        return False


def is_json(frame: bytes) -> bool:
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
        text = (
            json.dumps(value, ensure_ascii=False)
            .encode("utf-16", "surrogatepass")
            .decode("utf-16", "replace")
        )
        return _decode(text)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


class Speech:
    """The parts of one choice that follow each other: words of one kind in a row are one part."""

    __slots__ = ("_decoder", "choice", "key", "part")

    def __init__(self, decoder: StreamDecoder, choice: int = 0) -> None:
        self._decoder = decoder
        self.choice = choice
        self.key = -1
        self.part: Any = None

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


class StreamEncoder:
    """Writes one stream: events to bytes.

    A dialect has a method for each kind of event that says something on its wire: `WRITERS` names them.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.ended = False
        self._losses: dict[Loss, None] = {}
        self._writers: dict[type, Callable[[Any], bytes]] = {
            kind: getattr(self, name) for kind, name in WRITERS.items() if hasattr(self, name)
        }

    def feed(self, event: Event) -> bytes:
        """Give the bytes that can be said after this event."""
        write = self._writers.get(type(event))
        return b"" if write is None or self.ended else write(event)

    def close(self) -> bytes:
        """Give the last bytes; an answer that nothing ended breaks off with the wire's error."""
        return b"" if self.ended else self.feed(MessageEnd(complete=False))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far, each thing once."""
        self.keep_losses()
        return tuple(self._losses)

    def lose_step(self, event: OpaqueDelta) -> None:
        """Lose what only another wire understands, if no end of a part or of the answer repeats it."""
        if event.key is None and not event.repeated:
            self.ledger.at, self.ledger.part = (), None
            self.ledger.lose_opaque(event.opaque)
            self.keep_losses()

    def keep_losses(self) -> None:
        """Put the losses of the ledger among those that are known."""
        if self.ledger.losses:
            self._losses.update(dict.fromkeys(self.ledger.losses))
            self.ledger.losses.clear()


WRITERS: dict[type, str] = {
    MessageStart: "write_message_start",
    MessageDelta: "write_message_delta",
    PartStart: "write_part_start",
    TextDelta: "write_words",
    RefusalDelta: "write_words",
    ThinkingDelta: "write_words",
    SignatureDelta: "write_signature",
    CitationDelta: "write_citation",
    OpaqueDelta: "write_opaque",
    PartEnd: "write_part_end",
    CallStart: "write_call_start",
    CallDelta: "write_call_delta",
    CallEnd: "write_call_end",
    UsageDelta: "write_usage",
    ChoiceEnd: "write_choice_end",
    ErrorEnd: "write_error",
    MessageEnd: "write_message_end",
}


def left_at_step(opaque: Opaque | None, dialect: str) -> dict[str, Any]:
    """Give what a wire said beside an event, if it is the wire that is written."""
    return opaque.value if opaque is not None and opaque.dialect == dialect else {}


class SequentialEncoder(StreamEncoder):
    """Writes a wire that says the parts of an answer one after the other: what interleaves waits.

    `one_answer` says that a second answer has no place on the wire; else each has a turn of its own.
    """

    one_answer = True

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._speaking: set[int] = set()
        self._waiting: dict[int, list[Any]] = {}
        self._places: dict[int, int] = {}
        self._others: set[int] = set()

    def feed(self, event: Event) -> bytes:
        """Give the bytes that can be said after this event."""
        kind = type(event)
        if kind is TextDelta and event.key in self._speaking:  # type: ignore[union-attr,operator]
            return self._writers[TextDelta](event)
        if kind in OF_PARTS:
            key: int | None = event.key  # type: ignore[union-attr]
            if key is not None and key not in self._speaking:
                return self._take_turn(event, key)
            data = super().feed(event)
            if key is not None and (kind is PartEnd or kind is CallEnd):
                self._speaking.discard(key)
                return data + self._next() if self._waiting else data
            return data
        if kind is MessageEnd or kind is ErrorEnd or (kind is ChoiceEnd and self.one_answer):
            other = kind is ChoiceEnd and event.index  # type: ignore[union-attr]
            return self._flush() + (b"" if other else super().feed(event))
        return super().feed(event)

    def _take_turn(self, event: Any, key: int) -> bytes:
        """Begin a part if no other of its answer is open; else let it wait."""
        starts = type(event) is PartStart or type(event) is CallStart
        if starts and event.choice:
            self._places[key] = event.choice
            if self.one_answer:
                self._others.add(key)
                self.ledger.at, self.ledger.part = ("choices", event.choice), None
                self.ledger.lose("", "choices", f"{self.ledger.dialect} gives one answer")
                self.keep_losses()
        if key in self._others:
            return b""
        if key in self._waiting or (starts and self._is_open(key, (*self._speaking, *self._waiting))):
            self._waiting.setdefault(key, []).append(event)
            return b""
        if not starts:
            return b""
        self._speaking.add(key)
        return super().feed(event)

    def _is_open(self, key: int, others: Iterable[int]) -> bool:
        """Whether another part of the same answer is among these."""
        place = self._places.get(key, 0)
        return any(self._places.get(other, 0) == place for other in others)

    def _next(self) -> bytes:
        """Write what waits, of each answer up to the first part that is still open."""
        data = b""
        for key in list(self._waiting):
            if self._is_open(key, self._speaking):
                continue
            self._speaking.add(key)
            for event in self._waiting.pop(key):
                data += super().feed(event)
                if type(event) is PartEnd or type(event) is CallEnd:
                    self._speaking.discard(key)
        return data

    def _flush(self) -> bytes:
        """Write everything that waits, whether its parts have ended or not."""
        data = b""
        while self._waiting:
            self._speaking.clear()
            data += self._next()
        self._speaking.clear()
        return data


OF_PARTS = frozenset(
    {PartStart, TextDelta, RefusalDelta, ThinkingDelta, SignatureDelta, CitationDelta, OpaqueDelta, PartEnd}
    | {CallStart, CallDelta, CallEnd}
)
