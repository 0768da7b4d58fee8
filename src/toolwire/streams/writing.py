"""The encoder of a stream, as far as all dialects share it.

Rules of this file:
- An encoder returns bytes as soon as they can be written. After an error, or after the end, it returns none.
- A "shell" is a response without its choices, or a part without its text.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import replace

from toolwire.encoding.finish import as_incomplete
from toolwire.encoding.ledger import Clock, Ledger, Wire
from toolwire.encoding.quirks import PLAIN, Quirks, tuned
from toolwire.streams.choices import rank
from toolwire.streams.merging import changed_fields
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
    Request,
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
ARGUMENTS_CHANGED = Error("server", "a call ended with other arguments than had been told", code="stream_invalid")
CUT_FREE_TEXT = Error("server", "a call of free text was cut off", code="stream_incomplete")
AnyTextDelta = TextDelta | RefusalDelta | ThinkingDelta
_WRITERS: dict[type, str] = {
    MessageStart: "write_message_start",
    MessageDelta: "write_message_delta",
    PartStart: "write_part_start",
    TextDelta: "write_text_delta",
    RefusalDelta: "write_text_delta",
    ThinkingDelta: "write_text_delta",
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


_MAX_UNCOLLECTED = 64
"""So many losses are kept before duplicates are removed. Most losses of a stream occur in every event."""


def _write_nothing(_encoder: Any, _event: Any) -> bytes:
    """Return no bytes: the wire has nothing that expresses the event."""
    return b""


class StreamEncoder:
    """Encodes the events of one stream as bytes.

    A dialect implements a method for each type of event that its wire has a place for: `_WRITERS` has their names. It
    writes a shell with `encode_response`, an error with `encode_error` and `write_error_body`, and the end with
    `write_ending`. `_is_native` is true if the stream was read from this wire.
    """

    wire: ClassVar[Wire]
    encode_response: Callable[[Response, Quirks], Encoded]
    encode_error: Callable[[Error], ErrorReply]
    _writers: ClassVar[dict[type, Callable[[Any, Any], bytes]]] = {}
    ended: bool = False
    failed: bool = False
    _is_native = False
    _choice: Choice | None = None
    _usage: Usage | None = None
    _shell_before: Response | None = None

    def __init_subclass__(cls) -> None:
        cls._writers = {event_type: getattr(cls, name, _write_nothing) for event_type, name in _WRITERS.items()}
        start, end, close = (cls._writers[event_type] for event_type in (CallStart, CallEnd, ChoiceEnd))
        cls._writers[CallStart] = lambda self, event: start(self, self._note_start(event))
        cls._writers[CallEnd] = lambda self, event: end(self, self._note_end(event))
        cls._writers[ChoiceEnd] = lambda self, event: close(self, self._without_claim(event))

    def __init__(self, quirks: Quirks) -> None:
        self.ledger: Ledger = self.open_ledger(quirks)
        self._losses: dict[Loss, None] = {}
        self._choice_of_call: dict[int, int] = {}
        self._cut_choices: set[int] = set()  # the choices with a call that was cut off
        self._whole_choices: set[int] = set()  # the choices with a call that is complete

    def open_ledger(self, quirks: Quirks) -> Ledger:
        """Return the ledger of the stream."""
        return Ledger(self.wire, quirks, of="response")

    @classmethod
    def open(
        cls,
        quirks: Quirks = PLAIN,
        names: Iterable[str] = (),
        request: Request | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> Self:
        """Return an encoder for a server with these quirks.

        - Tools that are called `names` keep their names.
        - `request` is the request that the stream answers. Some wires repeat its settings.
        - `clock` returns the present time, if the caller has one.
        """
        encoder = cls(tuned(quirks, settings) if settings else quirks)
        encoder.ledger.request, encoder.ledger.clock = request, clock
        for name in names:
            encoder.ledger.names.keep(name)
        return encoder

    def feed(self, event: Event) -> bytes:
        """Return the bytes that can be written after this event."""
        if self.ended:
            return b""
        data = self._writers.get(type(event), _write_nothing)(self, event)
        if len(self.ledger.losses) > _MAX_UNCOLLECTED:
            self.collect_losses()
        return data

    def _note_start(self, event: CallStart) -> CallStart:
        """Note the choice of a call."""
        self._choice_of_call[event.key] = event.choice
        return event

    def _note_end(self, event: CallEnd) -> CallEnd:
        """Note whether the call of a choice is complete or was cut off."""
        (self._whole_choices if event.call.complete else self._cut_choices).add(self._choice_of_call.get(event.key, 0))
        return event

    def _without_claim(self, event: ChoiceEnd) -> ChoiceEnd:
        """Return the end of a choice. If all of its calls were cut off, its finish reason asks for no results."""
        if event.index not in self._cut_choices or event.index in self._whole_choices:
            return event
        return replace(event, choice=as_incomplete(event.choice, self.wire))

    def close(self) -> bytes:
        """Return the last bytes. An answer that was not ended ends with an error of the wire."""
        return b"" if self.ended else self.feed(MessageEnd(complete=False))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far, each of them once."""
        self.collect_losses()
        return tuple(self._losses)

    def collect_losses(self) -> None:
        """Move the losses of the ledger to those of the stream, and remove duplicates."""
        if self.ledger.losses:
            self._losses.update(dict.fromkeys(self.ledger.losses))
            self.ledger.losses.clear()

    def set_path(self, *steps: str | int, part: int | None = None) -> None:
        """Set the path that losses are reported with."""
        self.ledger.path, self.ledger.part_index = steps, part

    def is_native(self, value: Any) -> bool:
        """Return True if a value or an event was read from this wire."""
        opaque = value if type(value) is Opaque else value.opaque
        return opaque is not None and opaque.dialect == self.ledger.dialect

    def native_fields(self, opaque: Opaque | None) -> dict[str, Any]:
        """Return the fields of this wire that were read beside an event, or {} if it is from another wire."""
        return opaque.value if opaque is not None and opaque.dialect == self.ledger.dialect else {}

    def encode_shell(self, response: Response) -> dict[str, Any]:
        """Return the body of a response without its choices."""
        self._shell_before = response
        encoded = self.encode_head(response)
        self.ledger.losses += encoded.losses
        return encoded.body

    def encode_head(self, response: Response) -> Encoded:
        """Encode a response without its choices."""
        return self.encode_response(response, self.ledger.quirks)

    def lose_update(self, response: Response) -> None:
        """Report the losses of `response`, which arrived after the shell was written.

        A loss that was reported before is not reported again. Of `opaque` only the changed fields are encoded again,
        because a server may add fields in each chunk.
        """
        known = self._shell_before.opaque if self._shell_before is not None else None
        opaque = response.opaque
        if opaque is not None and known is not None and type(opaque.value) is dict:
            opaque = replace(opaque, value=changed_fields(known.value, opaque.value))
        self.encode_shell(replace(response, opaque=opaque))
        self._shell_before = response

    def lose_opaque_event(self, event: OpaqueDelta) -> None:
        """Report an event that only another wire understands as lost, unless the end of a part or choice repeats it."""
        if event.key is None and not event.repeated:
            self.set_path()
            self.ledger.lose_opaque(event.opaque)

    def write_usage(self, event: UsageDelta) -> bytes:
        """Store the token counts. Wires write them at the end."""
        self._usage = event.usage
        return b""

    def write_choice_end(self, event: ChoiceEnd) -> bytes:
        """Store the end of a choice until it is certain that no error follows."""
        self._choice = event.choice
        return b""

    def write_error(self, event: ErrorEnd) -> bytes:
        """Write an error, after which nothing follows. An end that was already written stays in the stream."""
        written = self.write_ending(complete=False) if self.may_have_written_end() else self.write_unstarted_choices()
        self.ended = self.failed = True
        return written + self.write_error_body(self.encode_reply(event.error).body)

    def write_unstarted_choices(self) -> bytes:
        """Write the choices that have no content, on a wire with several choices.

        Without them a client would read a later choice as the first one.
        """
        return b""

    def fail(self, error: Error) -> bytes:
        """End the stream with an error, because the wire can neither correct a call nor mark it as cut off."""
        return self.write_error(ErrorEnd(error))

    def encode_reply(self, error: Error) -> ErrorReply:
        """Encode an error. Values that a reply has in its headers are lost in a stream."""
        reply = self.encode_error(error)
        self.ledger.losses += reply.losses
        if error.retry_after is not None and retry_info(reply.body) is None:
            self.ledger.losses.append(
                Loss(
                    "retry_after",
                    "retry_after",
                    "dropped",
                    "it is sent in a header, and the headers were sent before the stream",
                    "minor",
                )
            )
        return reply

    def may_have_written_end(self) -> bool:
        """Return True if an end may have been written that a later error does not replace."""
        return self._is_native

    def write_message_end(self, event: MessageEnd) -> bytes:
        """Write how the answer ended, and its token counts."""
        if not event.complete and not self._is_native:
            return self.write_error(ErrorEnd(_BROKEN_OFF))
        self.ended = True
        return self.write_ending(complete=event.complete)

    def write_ending(self, *, complete: bool) -> bytes:
        """Write how the answer ended, as far as it is known. `complete` is false if the stream broke off."""
        raise NotImplementedError

    def write_error_body(self, body: Any) -> bytes:
        """Write the body of an error as a frame."""
        raise NotImplementedError


class SequentialEncoder(StreamEncoder):
    """Encodes a wire that writes the parts of a choice one after the other. The events of later parts wait.

    If `one_choice` is true, the wire has room for one choice only: the one with the index 0. The events of other
    choices are held until it begins. If no choice has the index 0, the first of the others is written instead.
    If `one_choice` is false, the wire has several choices, and each has an order of its own.
    """

    one_choice = True

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._open_parts: dict[int, int] = {}  # the choice of each part that is being written, by key
        self._busy_choices: set[int] = set()  # the choices of which a part is being written
        self._waiting: dict[int, list[Any]] = {}  # the events of the parts that wait, by key
        self._queues: dict[int, deque[tuple[int, int]]] = {}  # the parts of each choice that wait, in order
        self._queued = 0
        self._other_choices: dict[int, int] = {}
        self._held: dict[int, list[Any]] | None = {} if self.one_choice else None
        self._held_size = 0

    def feed(self, event: Event) -> bytes:
        """Return the bytes that can be written after this event."""
        event_type = type(event)
        if event_type in _PART_EVENTS and (key := event.key) is not None:  # type: ignore[union-attr]
            if key not in self._open_parts:
                return self._start_or_wait(event, key)
            data = self._writers[event_type](self, event)
            if event_type is PartEnd or event_type is CallEnd:
                self._busy_choices.discard(choice := self._open_parts.pop(key))
                return data + b"".join(self._write_queued(choice)) if self._waiting else data
            if event_type not in _DELTAS_WITHOUT_LOSS and len(self.ledger.losses) > _MAX_UNCOLLECTED:
                self.collect_losses()
            return data
        if event_type is ChoiceEnd and self.one_choice and not self.ended:
            return self._write_all_waiting() + self._end_choice(event)
        if event_type is MessageEnd or event_type is ErrorEnd:
            return self._write_held() + self._write_all_waiting() + super().feed(event)
        return super().feed(event)

    def _end_choice(self, event: Any) -> bytes:
        """End the choice with the index 0. The end of another choice is held, as its parts are."""
        if event.index:
            self._hold_event(event, event.index)
            return b""
        self._drop_other_choices()
        return super().feed(event)

    def _hold_event(self, event: Any, choice: int) -> None:
        """Hold an event of another choice, unless the first choice has begun or too much is held."""
        if self._held is None:
            return
        self._held.setdefault(choice, []).append(event)
        self._held_size += len(getattr(event, "text", "") or getattr(event, "fragment", ""))
        if self._held_size > LIMIT:
            self._drop_other_choices()

    def _drop_other_choices(self, index: int = 0) -> None:
        """Report every held choice but the one with this index as lost. From now on no event is held."""
        held, self._held = self._held, None
        for choice in held or ():
            if choice != index:
                self._lose_choice(choice)

    def _lose_choice(self, choice: int) -> None:
        self.set_path("choices", choice)
        self.ledger.lose("", "choices", f"a response of {self.ledger.dialect} has only one choice")
        self.collect_losses()

    def _write_held(self) -> bytes:
        """Write the first of the held choices, if none with the index 0 has arrived."""
        held = self._held
        if not held or self.ended:
            return b""
        index = min(held, key=rank)
        self._drop_other_choices(index)
        self._other_choices.clear()
        return b"".join([self.feed(_as_first_choice(event)) for event in held[index]])

    def _start_or_wait(self, event: Any, key: int) -> bytes:
        """Start a part if no other part of its choice is open. Otherwise its events wait."""
        if self.ended:
            return b""
        starts = type(event) is PartStart or type(event) is CallStart
        if starts and event.choice and self.one_choice:
            self._other_choices[key] = event.choice
            if self._held is None:
                self._lose_choice(event.choice)
        elif starts and not event.choice and self._held is not None:
            self._drop_other_choices()
        if key in self._other_choices:
            self._hold_event(event, self._other_choices[key])
            return b""
        if key in self._waiting:
            self._waiting[key].append(event)
            return b""
        if not starts:
            return b""
        if event.choice in self._busy_choices:
            self._waiting[key] = [event]
            self._queues.setdefault(event.choice, deque()).append((self._queued, key))
            self._queued += 1
            return b""
        return self._start_part(event.choice, key, event)

    def _start_part(self, choice: int, key: int, event: Any) -> bytes:
        """Write the start of a part."""
        self._busy_choices.add(choice)
        self._open_parts[key] = choice
        return self._writers[type(event)](self, event)

    def _write_queued(self, choice: int) -> Iterator[bytes]:
        """Write the parts of a choice that wait, up to the first part that has not ended."""
        queue = self._queues.get(choice)
        while queue and choice not in self._busy_choices:
            yield from self._write_longest_waiting(choice, queue)

    def _write_longest_waiting(self, choice: int, queue: deque[tuple[int, int]]) -> Iterator[bytes]:
        """Write the part of a choice that has waited longest."""
        _, key = queue.popleft()
        first, *events = self._waiting.pop(key)
        yield self._start_part(choice, key, first)
        for event in events:
            yield self._writers[type(event)](self, event)
            if type(event) is PartEnd or type(event) is CallEnd:
                self._open_parts.pop(key, None)
                self._busy_choices.discard(choice)

    def _write_all_waiting(self) -> bytes:
        """Write everything that waits, whether its parts have ended or not.

        In each round, every choice writes its parts up to one that has not ended.
        """
        data: list[bytes] = []
        while self._waiting:
            self._open_parts.clear()
            self._busy_choices.clear()
            heads = [(queue[0], choice) for choice, queue in self._queues.items() if queue]
            heapify(heads)
            while heads:
                _, choice = heappop(heads)
                data += self._write_longest_waiting(choice, queue := self._queues[choice])
                if queue and choice not in self._busy_choices:
                    heappush(heads, (queue[0], choice))
        self._open_parts.clear()
        self._busy_choices.clear()
        return b"".join(data)


def _as_first_choice(event: Any) -> Any:
    """Return an event of another choice as an event of the choice with the index 0."""
    match event:
        case ChoiceEnd():
            return replace(event, index=0)
        case PartStart() | CallStart():
            return replace(event, choice=0)
    return event


_DELTAS_WITHOUT_LOSS = frozenset({TextDelta, ThinkingDelta, CallDelta})
_PART_EVENTS = frozenset(
    {PartStart, TextDelta, RefusalDelta, ThinkingDelta, SignatureDelta, CitationDelta, OpaqueDelta, PartEnd}
    | {CallStart, CallDelta, CallEnd}
)
