"""What writing a stream has in common in every dialect.

Rule: an encoder gives bytes as soon as they can be said. After an error, and after the end, it says nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import replace

from toolwire.encoding.finish import as_incomplete
from toolwire.encoding.ledger import Ledger, Wire
from toolwire.encoding.quirks import PLAIN, Quirks, tuned
from toolwire.streams.choices import rank
from toolwire.streams.merging import news_of
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    Choice,
    ChoiceEnd,
    CitationDelta,
    Encoded,
    Error,
    ErrorEnd,
    ErrorReply,
    Event,
    Loss,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    PartEnd,
    PartStart,
    RefusalDelta,
    Response,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    Usage,
    UsageDelta,
)
from toolwire.wire.framing import LIMIT
from toolwire.wire.retry_after import retry_info

encode_json: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_BROKEN_OFF = Error("server", "the stream broke off before the answer was whole", code="stream_incomplete")
TOLD_OTHERWISE = Error("server", "a call ended with other arguments than had been told", code="stream_invalid")
CUT_FREE_TEXT = Error("server", "a call of free text was cut off", code="stream_incomplete")
WordsDelta = TextDelta | RefusalDelta | ThinkingDelta
_WRITERS: dict[type, str] = {
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


_MANY = 64
"""So many losses are looked at once, because most of them come again and again."""


def _say_nothing(_encoder: Any, _event: Any) -> bytes:
    """Say nothing: the wire has no place for the event."""
    return b""


class StreamEncoder:
    """Writes one stream: events to bytes.

    A dialect has a method for each kind of event that says something on its wire: `_WRITERS` names them. It says
    with `wire`, `encode_response`, `encode_error` and `write_reply` how it writes a shell and an error, and with
    `write_ending` what it says of the end. `_mine` says that the stream was read from this wire.
    """

    wire: ClassVar[Wire]
    encode_response: Callable[[Response, Quirks], Encoded]
    encode_error: Callable[[Error], ErrorReply]
    _writers: ClassVar[dict[type, Callable[[Any, Any], bytes]]] = {}
    ended: bool = False
    failed: bool = False
    _mine = False
    _choice: Choice | None = None
    _usage: Usage | None = None
    _shell_before: Response | None = None

    def __init_subclass__(cls) -> None:
        cls._writers = {kind: getattr(cls, name, _say_nothing) for kind, name in _WRITERS.items()}
        start, end, close = (cls._writers[kind] for kind in (CallStart, CallEnd, ChoiceEnd))
        cls._writers[CallStart] = lambda self, event: start(self, self._note_start(event))
        cls._writers[CallEnd] = lambda self, event: end(self, self._note_end(event))
        cls._writers[ChoiceEnd] = lambda self, event: close(self, self._without_claim(event))

    def __init__(self, quirks: Quirks) -> None:
        self.ledger: Ledger = self.open_ledger(quirks)
        self._losses: dict[Loss, None] = {}
        self._answer_of: dict[int, int] = {}
        self._half: set[int] = set()
        self._asking: set[int] = set()

    def open_ledger(self, quirks: Quirks) -> Ledger:
        """Begin the ledger of the stream."""
        return Ledger(self.wire, quirks, of="response")

    @classmethod
    def open(cls, quirks: Quirks = PLAIN, names: Iterable[str] = (), **settings: Any) -> Self:
        """Write a stream's bytes, as a server with these quirks does; tools of these names are called by them."""
        encoder = cls(tuned(quirks, settings) if settings else quirks)
        for name in names:
            encoder.ledger.names.keep(name)
        return encoder

    def feed(self, event: Event) -> bytes:
        """Give the bytes that can be said after this event."""
        if self.ended:
            return b""
        data = self._writers.get(type(event), _say_nothing)(self, event)
        if len(self.ledger.losses) > _MANY:
            self.keep_losses()
        return data

    def _note_start(self, event: CallStart) -> CallStart:
        """Note whose call this is."""
        self._answer_of[event.key] = event.choice
        return event

    def _note_end(self, event: CallEnd) -> CallEnd:
        """Note which answers hold a call that is whole, and which one that was cut off."""
        (self._asking if event.call.complete else self._half).add(self._answer_of.get(event.key, 0))
        return event

    def _without_claim(self, event: ChoiceEnd) -> ChoiceEnd:
        """Return the end of an answer as this wire may say it: one whose calls were all cut off asks for nothing."""
        if event.index not in self._half or event.index in self._asking:
            return event
        return replace(event, choice=as_incomplete(event.choice, self.wire))

    def close(self) -> bytes:
        """Give the last bytes; an answer that nothing ended breaks off with the wire's error."""
        return b"" if self.ended else self.feed(MessageEnd(complete=False))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far, each thing once."""
        self.keep_losses()
        return tuple(self._losses)

    def keep_losses(self) -> None:
        """Put the losses of the ledger among those that are known."""
        if self.ledger.losses:
            self._losses.update(dict.fromkeys(self.ledger.losses))
            self.ledger.losses.clear()

    def stand(self, *steps: str | int, part: int | None = None) -> None:
        """Say where the encode stands: of that it speaks where it loses something."""
        self.ledger.path, self.ledger.part_index = steps, part

    def is_own(self, value: Any) -> bool:
        """Whether a value or an event was read from this wire."""
        opaque = value if type(value) is Opaque else value.opaque
        return opaque is not None and opaque.dialect == self.ledger.dialect

    def left_at(self, opaque: Opaque | None) -> dict[str, Any]:
        """Give what this wire said beside an event."""
        return opaque.value if opaque is not None and opaque.dialect == self.ledger.dialect else {}

    def encode_shell(self, response: Response) -> dict[str, Any]:
        """Write what stands beside the parts of a response."""
        self._shell_before = response
        encoded = self.encode_response(response, self.ledger.quirks)
        self.ledger.losses += encoded.losses
        return encoded.body

    def lose_news(self, response: Response) -> None:
        """Report what a wire cannot say of `response` after it has written the shell.

        A loss that was reported before is the same loss. Of `opaque` only what is new is encoded again, because a
        server may add to it in each chunk.
        """
        known = self._shell_before.opaque if self._shell_before is not None else None
        opaque = response.opaque
        if opaque is not None and known is not None and type(opaque.value) is dict:
            opaque = replace(opaque, value=news_of(known.value, opaque.value))
        self.encode_shell(replace(response, opaque=opaque))
        self._shell_before = response

    def lose_step(self, event: OpaqueDelta) -> None:
        """Lose what only another wire understands, if no end of a part or of the answer repeats it."""
        if event.key is None and not event.repeated:
            self.stand()
            self.ledger.lose_opaque(event.opaque)

    def write_usage(self, event: UsageDelta) -> bytes:
        """Keep the counts: wires say them at the end."""
        self._usage = event.usage
        return b""

    def write_choice_end(self, event: ChoiceEnd) -> bytes:
        """Keep why the answer ended until it is sure that nothing went wrong."""
        self._choice = event.choice
        return b""

    def write_error(self, event: ErrorEnd) -> bytes:
        """Say an error; nothing follows it. What this wire had said of the end before stays."""
        before = self.write_ending(complete=False) if self.has_said_end() else self.write_silent()
        self.ended = self.failed = True
        return before + self.write_reply(self.reply_to(event.error).body)

    def write_silent(self) -> bytes:
        """Name the answers that have said nothing, on a wire of several: else another one is taken for the first."""
        return b""

    def give_up(self, error: Error) -> bytes:
        """End in an error: this wire takes nothing back of a call, or cannot say that it was cut off."""
        return self.write_error(ErrorEnd(error))

    def reply_to(self, error: Error) -> ErrorReply:
        """Give the body of an error; what a reply says in its headers has no place in a stream."""
        reply = self.encode_error(error)
        self.ledger.losses += reply.losses
        if error.retry_after is not None and retry_info(reply.body) is None:
            self.ledger.losses.append(Loss("retry_after", "retry_after", "dropped", "only a header says it", "minor"))
        return reply

    def has_said_end(self) -> bool:
        """Whether the wire may have said of the end what an error does not take back."""
        return self._mine

    def write_message_end(self, event: MessageEnd) -> bytes:
        """Say how the answer ended, and what it cost."""
        if not event.complete and not self._mine:
            return self.write_error(ErrorEnd(_BROKEN_OFF))
        self.ended = True
        return self.write_ending(complete=event.complete)

    def write_ending(self, *, complete: bool) -> bytes:
        """Say how the answer ended, as far as that is known."""
        raise NotImplementedError

    def write_reply(self, body: Any) -> bytes:
        """Write the body of an error as a frame."""
        raise NotImplementedError


class SequentialEncoder(StreamEncoder):
    """Writes a wire that says the parts of an answer one after the other: what interleaves waits.

    `one_answer` says that a second answer has no place on the wire; else each has a turn of its own. The answer is the
    one with the index 0. Until it begins, the events of others are held: if none has that index, the first of them is
    the answer.
    """

    one_answer = True

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._speaking: dict[int, int] = {}  # the parts that are being written, by key, and the answer of each
        self._busy: set[int] = set()  # the answers of which a part is being written
        self._waiting: dict[int, list[Any]] = {}  # the events of the parts that wait, by key
        self._queues: dict[int, deque[tuple[int, int]]] = {}  # which parts of an answer wait, in order
        self._count = 0
        self._others: dict[int, int] = {}
        self._held: dict[int, list[Any]] | None = {} if self.one_answer else None
        self._held_size = 0

    def feed(self, event: Event) -> bytes:
        """Give the bytes that can be said after this event."""
        kind = type(event)
        if kind in _OF_PARTS and (key := event.key) is not None:  # type: ignore[union-attr]
            if key not in self._speaking:
                return self._take_turn(event, key)
            data = self._writers[kind](self, event)
            if kind is PartEnd or kind is CallEnd:
                self._busy.discard(place := self._speaking.pop(key))
                return data + b"".join(self._next(place)) if self._waiting else data
            if kind not in _WORDS and len(self.ledger.losses) > _MANY:
                self.keep_losses()
            return data
        if kind is ChoiceEnd and self.one_answer and not self.ended:
            return self._flush() + self._end_choice(event)
        if kind is MessageEnd or kind is ErrorEnd:
            return self._take_held() + self._flush() + super().feed(event)
        return super().feed(event)

    def _end_choice(self, event: Any) -> bytes:
        """End the answer; the end of another one is held as its parts are."""
        if event.index:
            self._hold(event, event.index)
            return b""
        self._begin_answer()
        return super().feed(event)

    def _hold(self, event: Any, choice: int) -> None:
        """Hold an event of another answer, unless the answer has begun or too much is held."""
        if self._held is None:
            return
        self._held.setdefault(choice, []).append(event)
        self._held_size += len(getattr(event, "text", "") or getattr(event, "fragment", ""))
        if self._held_size > LIMIT:
            self._begin_answer()

    def _begin_answer(self, index: int = 0) -> None:
        """Lose every answer but the one of this index."""
        held, self._held = self._held, None
        for choice in held or ():
            if choice != index:
                self._lose_choice(choice)

    def _lose_choice(self, choice: int) -> None:
        self.stand("choices", choice)
        self.ledger.lose("", "choices", f"{self.ledger.dialect} gives one answer")
        self.keep_losses()

    def _take_held(self) -> bytes:
        """Write the first answer that is held, where none of index 0 has come."""
        held = self._held
        if not held or self.ended:
            return b""
        index = min(held, key=rank)
        self._begin_answer(index)
        self._others.clear()
        return b"".join([self.feed(_of_answer(event)) for event in held[index]])

    def _take_turn(self, event: Any, key: int) -> bytes:
        """Begin a part if no other of its answer is open; else let it wait."""
        if self.ended:
            return b""
        starts = type(event) is PartStart or type(event) is CallStart
        if starts and event.choice and self.one_answer:
            self._others[key] = event.choice
            if self._held is None:
                self._lose_choice(event.choice)
        elif starts and not event.choice and self._held is not None:
            self._begin_answer()
        if key in self._others:
            self._hold(event, self._others[key])
            return b""
        if key in self._waiting:
            self._waiting[key].append(event)
            return b""
        if not starts:
            return b""
        if event.choice in self._busy:
            self._waiting[key] = [event]
            self._queues.setdefault(event.choice, deque()).append((self._count, key))
            self._count += 1
            return b""
        return self._begin_turn(event.choice, key, event)

    def _begin_turn(self, place: int, key: int, event: Any) -> bytes:
        """Write the first event of a part."""
        self._busy.add(place)
        self._speaking[key] = place
        return self._writers[type(event)](self, event)

    def _next(self, place: int) -> Iterator[bytes]:
        """Write what waits of an answer, up to the first part that is still open."""
        queue = self._queues.get(place)
        while queue and place not in self._busy:
            yield from self._write_next(place, queue)

    def _write_next(self, place: int, queue: deque[tuple[int, int]]) -> Iterator[bytes]:
        """Write the part of an answer that has waited longest."""
        _, key = queue.popleft()
        first, *events = self._waiting.pop(key)
        yield self._begin_turn(place, key, first)
        for event in events:
            yield self._writers[type(event)](self, event)
            if type(event) is PartEnd or type(event) is CallEnd:
                self._speaking.pop(key, None)
                self._busy.discard(place)

    def _flush(self) -> bytes:
        """Write everything that waits, whether its parts have ended or not: of each answer one open part in a round."""
        data: list[bytes] = []
        while self._waiting:
            self._speaking.clear()
            self._busy.clear()
            heads = [(queue[0], place) for place, queue in self._queues.items() if queue]
            heapify(heads)
            while heads:
                _, place = heappop(heads)
                data += self._write_next(place, queue := self._queues[place])
                if queue and place not in self._busy:
                    heappush(heads, (queue[0], place))
        self._speaking.clear()
        self._busy.clear()
        return b"".join(data)


def _of_answer(event: Any) -> Any:
    """Return an event of another answer as one of the answer."""
    match event:
        case ChoiceEnd():
            return replace(event, index=0)
        case PartStart() | CallStart():
            return replace(event, choice=0)
    return event


_WORDS = frozenset({TextDelta, ThinkingDelta, CallDelta})
_OF_PARTS = frozenset(
    {PartStart, TextDelta, RefusalDelta, ThinkingDelta, SignatureDelta, CitationDelta, OpaqueDelta, PartEnd}
    | {CallStart, CallDelta, CallEnd}
)
