"""The answer of an exchange: read from the target's wire, and written for the client that made the request.

Rules of this file:
- The client gets an answer as it declared its tools, and in the form of stream that it asked for. Its calls are settled
  first: what is remembered of them has the ids and the arguments that the client repeats.
- What the client's wire cannot carry, and the provider needs again, becomes a memory update. Its key is made of what
  the client will repeat: the ids of its calls, or its words where its wire has no ids. Only the provider that made a
  value gets it back.
- Thinking of another wire is shown to a client whose wire shows it, under a signature of ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from toolwire.encoding.finish import GAVE_UP, ending
from toolwire.streams import StreamDecoder, StreamEncoder
from toolwire.streams.accumulation import Accumulator
from toolwire.streams.call_normalizer import CallNormalizer
from toolwire.translation.exchange_request import ExchangeRequest, Sides
from toolwire.translation.foreign_thinking import ProviderDataFilter, strip_provider_data
from toolwire.translation.tool_restoration import ToolRestorer, tool_restorer
from toolwire.translation.translate import Body, read_error
from toolwire.translation.turn_keys import StoredTurn, client_parts, has_provider_data, turn_key
from toolwire.translation.unwrap_output import Unwrapping, unwrapping
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    ChoiceEnd,
    Encoded,
    Error,
    ErrorEnd,
    ErrorReply,
    Event,
    FinishReason,
    Loss,
    Message,
    MessageDelta,
    MessageEnd,
    MessageStart,
    Opaque,
    OpaqueDelta,
    Part,
    PartEnd,
    PartStart,
    Request,
    Response,
    TextDelta,
    Usage,
    UsageDelta,
)
from toolwire.wire.arguments import argument_text
from toolwire.wire.bodies import read_body

_CALL_EVENTS = (CallStart, CallDelta, CallEnd)
_TEXT_EVENTS = (PartStart, TextDelta, PartEnd)
_FIRST_ERROR = 400
_Head = TypeVar("_Head", bound=MessageStart | MessageDelta)
_ReadEvent = Callable[[Event], Iterable[Event]]
_write = msgspec.json.Encoder().encode


class ExchangeAnswer:
    """The answer of an exchange. `response_id` and `now` are its id and its time, where its wire is another one."""

    def __init__(self, request: ExchangeRequest, *, response_id: str | None = None, now: float | None = None) -> None:
        self.sides: Sides = request.sides
        self.memory_updates: list[tuple[str, bytes]] = []
        self.usage: Usage | None = None
        self.choices: int = 0
        self.failed: bool = False
        self._request = request
        self._response_id, self._now = response_id, now

    @cached_property
    def back(self) -> ToolRestorer | None:
        """What gives calls back as the client declared its tools; None if they may stay as they are."""
        return tool_restorer(self._request.answer_request)

    @property
    def request(self) -> Request:
        """As much of the request as the answer is read by."""
        return self._request.answer_request

    def response(self, body: Body) -> Encoded:
        """Translate a whole answer."""
        response = self.sides.target.decode_response(read_body(body))
        self.usage, self.choices = response.usage, len(response.choices)
        self.failed = response.finish_reason == "error"
        if not self.sides.is_foreign:
            return self._encoded(response)
        response, unwrap = CallNormalizer(self.request).normalize_response(response), self.unwrapping()
        response = response if unwrap is None else unwrap.response(response)
        losses = self.update_memory(response.message.parts)
        encoded = self._encoded(strip_provider_data(self.identified(response), self.foreign_mark))
        return replace(encoded, losses=(*losses, *encoded.losses)) if losses else encoded

    def _encoded(self, response: Response) -> Encoded:
        """Encode a response for the client, with its tools under the names by which it declared them."""
        source, back = self.sides.source, self.back
        if back is None:
            return source.encode_response(response)
        return source.encode_response(back.response(response), names=back.names)

    def stream(self, after: "ExchangedStream | None" = None, begun: Iterable[Event] = ()) -> "ExchangedStream":
        """Return a translator of the answer's stream.

        It continues `after`, another provider's stream of this answer, whose decoder reads the events of both. `begun`
        are the events of the parts so far.
        """
        stream = ExchangedStream(self, self._request.stream_quirks, after)
        for event in begun:
            stream.observe(event)
        return stream

    def error(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> ErrorReply:
        """Translate an error; as bytes, `body` may be any text."""
        error = self.sides.target.decode_error(status, read_error(body), headers)
        if self.sides.is_foreign and (error.status or 0) < _FIRST_ERROR:
            error = replace(error, status=None)  # an error that came with a good status must not look like success
        return self.sides.source.encode_error(error)

    def identified(self, response: Response) -> Response:
        """Return an answer of another wire with the id of this exchange, and its time if the provider gave none."""
        traits = self.sides.source.TRAITS
        if self.sides.source.DIALECT == self.sides.target.DIALECT:
            return response
        if self._response_id is not None and traits.has_response_ids:
            response = replace(response, id=self._response_id)
        if self._now is not None and traits.has_response_times and response.created is None:
            response = replace(response, created=self._now)
        return response

    def identified_head(self, event: _Head) -> _Head:
        """Return the head of a stream with the id and the time of its answer."""
        response = self.identified(event.response)
        return event if response is event.response else replace(event, response=response)

    def unwrapping(self) -> Unwrapping | None:
        """Return what takes the answer out of an object that only the target's wire needed."""
        return unwrapping(self.request, self.sides.source, self.sides.target)

    @property
    def foreign_mark(self) -> Opaque | None:
        """The mark of the client's wire on thinking that is shown as foreign; None if it is not shown so."""
        source = self.sides.source
        return Opaque(source.DIALECT, {}) if self.sides.is_foreign and source.TRAITS.shows_foreign_thinking else None

    def update_memory(self, parts: list[Part]) -> tuple[Loss, ...]:
        """Add a turn that the client's wire cannot carry whole to the memory updates. Return a loss that says so."""
        if not any(map(has_provider_data, parts)):
            return ()
        count, key_material = self._request.end
        message = Message("assistant", client_parts(parts, self.back))
        key = turn_key(key_material, count, message, by_call_id=self.sides.source.TRAITS.repeats_call_ids)
        maker = self.sides.maker
        try:
            self.memory_updates.append((key, _write(StoredTurn(maker, parts))))
        except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
            return ()  # it is not JSON, so it cannot be stored
        return (Loss("message", "signature", "moved", f"kept for {maker}, which reads it again", "formal"),)


class ExchangedStream:
    """An answer's stream on its way to the client; `losses` and `usage` grow while it runs.

    `at_end` returns what the wire says beside the last words.
    """

    def __init__(
        self, answer: ExchangeAnswer, quirks: Mapping[str, bool], after: "ExchangedStream | None" = None
    ) -> None:
        self.usage: Usage | None = None
        self.broken: bool = False
        self._answer, self._back = answer, answer.back
        if after is None:
            settings: dict[str, Any] = {**quirks} if self._back is None else {**quirks, "names": self._back.names}
            self.decoder: StreamDecoder = answer.sides.target.decode_stream()
            self.encoder: StreamEncoder = answer.sides.source.encode_stream(**settings)
        else:
            self.decoder, self.encoder = after.decoder, after.encoder
        self.at_end: Callable[[], Opaque] | None = None if after is None else after.at_end
        self._losses: tuple[Loss, ...] = ()
        self._finish_reason: FinishReason | None = None
        self._failed = False
        self._begun = after is not None
        self._foreign = _ForeignEvents(answer) if answer.sides.is_foreign else None

    def feed(self, data: bytes) -> bytes:
        """Translate the next bytes, cut anywhere."""
        return self.encode_events(self.decoder.feed(data))

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """Encode events, and note what they report of the turn."""
        written: list[bytes] = []
        encode, back, foreign = self.encoder.feed, self._back, self._foreign
        for event in events:
            match event:
                case UsageDelta():
                    self.usage = event.usage
                case ChoiceEnd():
                    self._finish_reason = self._finish_reason or event.choice.finish_reason
                case ErrorEnd():
                    written.append(self._fail())
                case MessageEnd():
                    event = self._end(event, written)  # noqa: PLW2901
                case MessageStart() | MessageDelta():
                    self.usage = event.response.usage or self.usage
                    self._begun = True
                    event = self._answer.identified_head(event)  # noqa: PLW2901
            for one in (event,) if foreign is None else foreign.events(event):
                written += [encode(one)] if back is None else map(encode, back.events(one))
        return b"".join(written)

    def _end(self, event: MessageEnd, written: list[bytes]) -> Event:
        """Return the end of an answer, which is an error if its provider gave up; write what goes before it."""
        if self._finish_reason == "error" and not self._failed and self._foreign is not None:
            written.append(self._fail())
            return ErrorEnd(GAVE_UP)
        if self.at_end is not None and event.complete and not self._failed:
            written.append(self.encoder.feed(OpaqueDelta(opaque=self.at_end())))
        return event

    def _fail(self) -> bytes:
        """Note that the answer failed. OpenAI's SDK refuses an error before a response has begun, so one is begun."""
        self._failed = True
        if self._begun or self._foreign is None:
            return b""
        return self.encoder.feed(MessageStart(self._answer.identified(Response())))

    def observe(self, event: Event) -> None:
        """Note an event that was written before."""
        if self._foreign is not None:
            self._foreign.accumulator.feed(event)

    def close(self, error: Error | None = None) -> bytes:
        """Return the last bytes when the source has ended; a stream that broke off ends in an error."""
        last = []
        for event in self.decoder.close():
            if type(event) is MessageEnd:
                broken = ending(self._finish_reason, complete=event.complete, failed=self._failed)
                error = broken and (error or broken)
                if error is not None and not self._failed:
                    last.append(self.encode_events([ErrorEnd(error)]))
            last.append(self.encode_events([event]))
        last.append(self.encoder.close())
        self.broken = self._failed or self.encoder.failed
        if self._foreign is not None:
            self._losses = self._answer.update_memory(self.parts)
        return b"".join(last)

    @property
    def whole(self) -> bool:
        """Return True if the model has ended its answer."""
        return self._finish_reason is not None and not (self._failed or self.encoder.failed)

    @property
    def failed(self) -> bool:
        """Return True if the provider has reported an error."""
        return self._failed

    @property
    def parts(self) -> list[Part]:
        """The parts of the answer so far."""
        return [] if self._foreign is None else self._foreign.accumulator.response.message.parts

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far."""
        return (*self._losses, *self.encoder.losses)


class _ForeignEvents:
    """The events of another wire's answer, as the client may see them; `accumulator` has the answer as it was."""

    def __init__(self, answer: ExchangeAnswer) -> None:
        self.accumulator: Accumulator = Accumulator()
        self._show = ProviderDataFilter(answer.foreign_mark).of
        self._readers: dict[type[Event], _ReadEvent] = dict.fromkeys(_CALL_EVENTS, _SettledCalls(answer.request).events)
        unwrap = answer.unwrapping()
        if unwrap is not None:
            self._readers |= dict.fromkeys(_TEXT_EVENTS, unwrap.events)

    def events(self, event: Event) -> Iterator[Event]:
        """Yield an event with settled calls and unwrapped text, and without what only its provider understands."""
        read = self._readers.get(type(event))
        for one in (event,) if read is None else read(event):
            self.accumulator.feed(one)
            yield from self._show(one)


class _SettledCalls:
    """The events of calls as they are settled; where a null may have to go, a call's text waits until it is whole."""

    def __init__(self, request: Request) -> None:
        self._settling = CallNormalizer(request)
        self._waiting: dict[int, list[str]] = {}

    def events(self, event: Event) -> Iterator[Event]:
        """Yield an event of a call, and the text that waited for it."""
        settled = self._settling.normalize_event(event)
        match event:
            case CallStart(key=key, name=name) if self._settling.may_prune_nulls(name):
                self._waiting[key] = []
            case CallDelta(key=key, fragment=fragment) if key in self._waiting:
                self._waiting[key].append(fragment)
                return
            case CallEnd(key=key, call=call) if key in self._waiting and isinstance(settled, CallEnd):
                if text := "".join(self._waiting.pop(key)):
                    same = settled.call.plain_arguments == call.plain_arguments
                    yield CallDelta(key, text if same else argument_text(settled.call))
        yield settled
