"""The answer of an exchange: read from the target's wire, and written for the client that made the request.

Rules of this file:
- The client gets calls as it declared its tools, and the form of stream that it asked for.
- Calls are normalized before anything else, so that a stored turn has the ids and the arguments that the client will
  send back.
- Data that the provider needs again, and for which the client's wire has no place, becomes a memory update. Only the
  provider that made it gets it back. The key is made of values that the client will send back (`turn_keys`).
- If toolwire answers the searches of deferred tools, an answer may need several requests (`answered_searches`).
- Thinking of another wire is shown to a client whose wire has a place for it, under a signature of ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from toolwire.encoding.finish import PROVIDER_FAILED, ending_error
from toolwire.encoding.ledger import Clock
from toolwire.streams import StreamDecoder, StreamEncoder
from toolwire.streams.accumulation import Accumulator
from toolwire.streams.call_normalizer import CallNormalizer
from toolwire.translation.answered_searches import AnsweredSearches
from toolwire.translation.exchange_request import ExchangeRequest, Sides
from toolwire.translation.foreign_thinking import ProviderDataFilter, strip_provider_data
from toolwire.translation.tool_restoration import ToolRestorer, tool_restorer
from toolwire.translation.translate import Body
from toolwire.translation.turn_keys import StoredTurn, client_parts, has_provider_data, turn_key
from toolwire.translation.unwrap_output import OutputUnwrapper, output_unwrapper
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
from toolwire.wire.bodies import read_body, read_error_body

_CALL_EVENTS = (CallStart, CallDelta, CallEnd)
_TEXT_EVENTS = (PartStart, TextDelta, PartEnd)
_FIRST_ERROR = 400
_Head = TypeVar("_Head", bound=MessageStart | MessageDelta)
_EventReader = Callable[[Event], Iterable[Event]]
_write = msgspec.json.Encoder().encode


class ExchangeAnswer:
    """The answer of an exchange.

    `response_id` and `now` are its id and its time if it comes from another wire. `continues` is the stored state that
    the client's request continues, if its body does not have it.
    """

    def __init__(
        self,
        request: ExchangeRequest,
        response_id: str | None = None,
        now: float | Clock | None = None,
        continues: Mapping[str, Any] | None = None,
    ) -> None:
        self.sides: Sides = request.sides
        self.memory_updates: list[tuple[str, bytes]] = []
        self.usage: Usage | None = None
        self.choices: int = 0
        self.failed: bool = False
        self._request = request
        self._response_id, self._continues = response_id, continues
        self._clock: Clock | None = now if callable(now) else None
        self._now: float | None = int(now()) if callable(now) else now

    @cached_property
    def restorer(self) -> ToolRestorer | None:
        """The restorer of the calls as the client declared its tools, or None if they need no change."""
        return tool_restorer(self._request.answer_request)

    @property
    def request(self) -> Request:
        """The parts of the request that are needed to read the answer."""
        return self._request.answer_request

    @cached_property
    def searches(self) -> AnsweredSearches | None:
        """The searches that toolwire answers, or None if the model has no search."""
        tools = self._request.deferred_tools
        return None if tools is None or tools.function is None else AnsweredSearches(self._request, tools)

    @property
    def follow_up(self) -> Encoded | None:
        """The request that continues the answer, or None if the answer is whole."""
        return self._request.encoded if self.searches is not None and self.searches.is_asked_again else None

    @property
    def call_normalizer(self) -> CallNormalizer:
        """A normalizer of the calls of the next answer."""
        return CallNormalizer(self._request.asked_request)

    def response(self, body: Body) -> Encoded:
        """Translate the body of a whole answer."""
        response = self.sides.target.decode_response(read_body(body))
        self.usage, self.choices = response.usage, len(response.choices)
        self.failed = response.finish_reason == "error"
        if not self.sides.is_foreign:
            return self._encode(response)
        response, unwrapper = self.call_normalizer.normalize_response(response), self.output_unwrapper()
        response = response if unwrapper is None else unwrapper.unwrap_response(response)
        parts, searches = response.message.parts, self.searches
        if searches is not None:
            response, parts = searches.whole(response), searches.parts
        losses = () if searches is not None and searches.is_asked_again else self.update_memory(parts)
        encoded = self._encode(strip_provider_data(self.with_identity(response), self.foreign_mark))
        return replace(encoded, losses=(*losses, *encoded.losses)) if losses else encoded

    def _encode(self, response: Response) -> Encoded:
        """Encode a response for the client, with its tools under the names by which it declared them."""
        source, restorer = self.sides.source, self.restorer
        if restorer is None:
            return source.encode_response(response, **self.encoder_settings)
        return source.encode_response(restorer.restore_response(response), **self.encoder_settings)

    @cached_property
    def encoder_settings(self) -> dict[str, Any]:
        """The settings of the encoder: the names that it keeps, and what the answer repeats of the request."""
        settings: dict[str, Any] = {} if self.restorer is None else {"names": self.restorer.names}
        if not self.sides.is_foreign or not self.sides.source.TRAITS.repeats_settings:
            return settings
        request, continues = self.request, self._continues
        if continues:
            state = {**(request.provider_state or {}), **continues}
            request = replace(request, context=replace(request.context, provider_state=state))
        return {**settings, "request": request, "clock": self._clock}

    def stream(self, after: "ExchangedStream | None" = None, earlier_events: Iterable[Event] = ()) -> "ExchangedStream":
        """Return a translator of the answer's stream.

        With `after`, another provider's stream of this answer, it continues that stream with the same decoder and
        encoder. `earlier_events` are the events of the answer so far.
        """
        stream = ExchangedStream(self, self._request.stream_quirks, after)
        for event in earlier_events:
            stream.observe(event)
        return stream

    def error(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> ErrorReply:
        """Translate an error. As bytes, `body` may be any text."""
        error = self.sides.target.decode_error(status, read_error_body(body), headers)
        if self.sides.is_foreign and (error.status or 0) < _FIRST_ERROR:
            error = replace(error, status=None)  # an error that came with a good status must not look like success
        return self.sides.source.encode_error(error)

    def with_identity(self, response: Response) -> Response:
        """Return an answer of another wire with the id of this exchange, and with its time if the answer has none."""
        traits = self.sides.source.TRAITS
        if self.sides.source.DIALECT == self.sides.target.DIALECT:
            return response
        if self._response_id is not None and traits.has_response_ids:
            response = replace(response, id=self._response_id)
        if self._now is not None and traits.has_response_times and not response.created:
            response = replace(response, created=self._now)
        return response

    def head_with_identity(self, event: _Head) -> _Head:
        """Return the head of a stream with the id and the time of this exchange."""
        response = self.with_identity(event.response)
        return event if response is event.response else replace(event, response=response)

    def output_unwrapper(self) -> OutputUnwrapper | None:
        """Return the unwrapper of the answer's output, or None if the output is not wrapped."""
        return output_unwrapper(self.request, self.sides.source, self.sides.target)

    @property
    def foreign_mark(self) -> Opaque | None:
        """The mark of the client's wire, if it shows foreign thinking. None if it does not."""
        source = self.sides.source
        return Opaque(source.DIALECT, {}) if self.sides.is_foreign and source.TRAITS.shows_foreign_thinking else None

    def update_memory(self, parts: list[Part]) -> tuple[Loss, ...]:
        """Add a turn to the memory updates if the client's wire cannot carry all of it. Return a loss for it."""
        if not any(map(has_provider_data, parts)):
            return ()
        count, key_material = self._request.end
        shown = parts if self.searches is None else self.searches.without_searches(parts)
        message = Message("assistant", client_parts(shown, self.restorer))
        key = turn_key(key_material, count, message, by_call_id=self.sides.source.TRAITS.repeats_call_ids)
        provider_name = self.sides.provider_name
        try:
            self.memory_updates.append((key, _write(StoredTurn(provider_name, parts))))
        except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
            return ()  # it is not JSON, so it cannot be stored
        return (
            Loss(
                "message",
                "signature",
                "moved",
                f"only {provider_name} can read it: toolwire stores it, and sends it back there",
                "formal",
            ),
        )


class ExchangedStream:
    """An answer's stream, translated for the client while it arrives; `losses` and `usage` grow meanwhile.

    `at_end` returns the fields that the client's wire adds to the end of the stream. `broken` is true if the closed
    stream did not end well.
    """

    def __init__(
        self, answer: ExchangeAnswer, quirks: Mapping[str, bool], after: "ExchangedStream | None" = None
    ) -> None:
        self.usage: Usage | None = None
        self.broken: bool = False
        self._answer, self._restorer = answer, answer.restorer
        if after is None:
            self.decoder: StreamDecoder = answer.sides.target.decode_stream()
            self.encoder: StreamEncoder = answer.sides.source.encode_stream(**{**quirks, **answer.encoder_settings})
        else:
            self.decoder, self.encoder = after.decoder, after.encoder
        self.at_end: Callable[[], Opaque] | None = None if after is None else after.at_end
        self._losses: tuple[Loss, ...] = ()
        self._finish_reason: FinishReason | None = None
        self._failed = False
        self._has_head = after is not None
        self._searches = answer.searches
        self._foreign = _ForeignEvents(answer) if answer.sides.is_foreign else None

    def feed(self, data: bytes) -> bytes:
        """Translate the next bytes. They may be cut anywhere."""
        return self.encode_events(self.decoder.feed(data))

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """Encode events, and note the usage and the finish reason that they report."""
        data: list[bytes] = []
        encode, restorer, foreign = self.encoder.feed, self._restorer, self._foreign
        for event in events if self._searches is None else self._joined(events, self._searches):
            match event:
                case UsageDelta():
                    self.usage = event.usage
                case ChoiceEnd():
                    self._finish_reason = self._finish_reason or event.choice.finish_reason
                case ErrorEnd():
                    data.append(self._fail())
                case MessageEnd():
                    event = self._end(event, data)  # noqa: PLW2901
                case MessageStart() | MessageDelta():
                    self.usage = event.response.usage or self.usage
                    self._has_head = True
                    event = self._answer.head_with_identity(event)  # noqa: PLW2901
            for one in (event,) if foreign is None else foreign.events(event):
                data += [encode(one)] if restorer is None else map(encode, restorer.restore_events(one))
        return b"".join(data)

    def _joined(self, events: Iterable[Event], searches: AnsweredSearches) -> Iterator[Event]:
        """Yield the events of one of several answers as those of the whole answer."""
        for event in events:
            joined = searches.joined(event)
            if isinstance(joined, ChoiceEnd):
                joined = searches.end_choice(joined, self.answer_parts)
            if joined is not None:
                yield joined

    def _end(self, event: MessageEnd, data: list[bytes]) -> Event:
        """Return the end of an answer, which is an error if its provider gave up. Append the data before it."""
        if self._finish_reason == "error" and not self._failed and self._foreign is not None:
            data.append(self._fail())
            return ErrorEnd(PROVIDER_FAILED)
        if self.at_end is not None and event.complete and not self._failed:
            data.append(self.encoder.feed(OpaqueDelta(opaque=self.at_end())))
        return event

    def _fail(self) -> bytes:
        """Note the failure. Begin a response if none has begun: OpenAI's SDK requires one before an error."""
        self._failed = True
        if self._has_head or self._foreign is None:
            return b""
        return self.encoder.feed(MessageStart(self._answer.with_identity(Response())))

    def observe(self, event: Event) -> None:
        """Note an event of this answer that was written before this stream began."""
        if self._foreign is not None:
            self._foreign.accumulator.feed(event)

    def close(self, error: Error | None = None) -> bytes:
        """Return the last bytes: the source has ended. A stream that broke off ends with `error`, if that is given.

        If the exchange has a `follow_up` then, these are not the last: the stream goes on with the answer to it.
        """
        data, searches = [], self._searches
        is_refused = searches is not None and searches.is_waiting and error is not None
        for event in [MessageEnd(complete=False)] if is_refused else self.decoder.close():
            if searches is not None and type(event) is MessageEnd and (error is not None or not event.complete):
                searches.stop()
            if type(event) is MessageEnd and not self.is_asked_again:
                broken = ending_error(self._finish_reason, complete=event.complete, failed=self._failed)
                error = broken and (error or broken)
                if error is not None and not self._failed:
                    data.append(self.encode_events([ErrorEnd(error)]))
            data.append(self.encode_events([event]))
        if searches is not None:
            searches.end_stream(self.answer_parts)
        if self.is_asked_again:
            self.decoder = self._answer.sides.target.decode_stream()
            self._foreign = _ForeignEvents(self._answer)
            return b"".join(data)
        data.append(self.encoder.close())
        self.broken = self._failed or self.encoder.failed
        if self._foreign is not None:
            self._losses = self._answer.update_memory(self.parts if searches is None else searches.parts)
        return b"".join(data)

    def usage_of(self, answer: int) -> Usage | None:
        """Return what one of the answers of this stream has reported. All of them but the last have only searched."""
        return self.usage if self._searches is None else self._searches.usage_of(answer)

    @property
    def is_asked_again(self) -> bool:
        """Return True if the answer goes on with the answer to another request."""
        return self._searches is not None and self._searches.is_asked_again

    @property
    def is_complete(self) -> bool:
        """Return True if the model has ended its answer."""
        return self._finish_reason is not None and not (self._failed or self.encoder.failed)

    @property
    def failed(self) -> bool:
        """Return True if the provider has reported an error."""
        return self._failed

    @property
    def parts(self) -> list[Part]:
        """The parts of the answer so far, without the searches that toolwire has answered."""
        if self._searches is None:
            return self.answer_parts
        return self._searches.without_searches([*self._searches.parts, *self.answer_parts])

    @property
    def answer_parts(self) -> list[Part]:
        """The parts of the present answer, as its provider wrote them."""
        return [] if self._foreign is None else self._foreign.accumulator.response.message.parts

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far."""
        return (*self._losses, *self.encoder.losses)


class _ForeignEvents:
    """The events of another wire's answer, as the client gets them. `accumulator` has the answer with all data."""

    def __init__(self, answer: ExchangeAnswer) -> None:
        self.accumulator: Accumulator = Accumulator()
        self._show = ProviderDataFilter(answer.foreign_mark).filter_events
        self._searches = answer.searches
        self._readers: dict[type[Event], _EventReader] = dict.fromkeys(
            _CALL_EVENTS, _NormalizedCalls(answer.call_normalizer).events
        )
        unwrapper = answer.output_unwrapper()
        if unwrapper is not None:
            self._readers |= dict.fromkeys(_TEXT_EVENTS, unwrapper.unwrap_events)

    def events(self, event: Event) -> Iterator[Event]:
        """Yield an event with normalized calls and unwrapped text, and without the data of its provider."""
        read = self._readers.get(type(event))
        for one in (event,) if read is None else read(event):
            self.accumulator.feed(one)
            for shown in (one,) if self._searches is None else self._searches.shown(one):
                yield from self._show(shown)


class _NormalizedCalls:
    """Normalizes the events of calls. If a null may have to be removed, the text of a call waits for the call's end."""

    def __init__(self, normalizer: CallNormalizer) -> None:
        self._normalizer = normalizer
        self._waiting: dict[int, list[str]] = {}

    def events(self, event: Event) -> Iterator[Event]:
        """Yield the normalized event of a call, after the text that waited for it."""
        normalized = self._normalizer.normalize_event(event)
        match event:
            case CallStart(key=key, name=name) if self._normalizer.may_prune_nulls(name):
                self._waiting[key] = []
            case CallDelta(key=key, fragment=fragment) if key in self._waiting:
                self._waiting[key].append(fragment)
                return
            case CallEnd(key=key, call=call) if key in self._waiting and isinstance(normalized, CallEnd):
                if text := "".join(self._waiting.pop(key)):
                    same = normalized.call.plain_arguments == call.plain_arguments
                    yield CallDelta(key, text if same else argument_text(normalized.call))
        yield normalized
