"""One request to a model and its answer, whether or not their wires differ; the way back knows the request.

Rules of this file:
- It is pure: who calls it sends what is encoded, keeps what is learned, and brings what is asked for.
- The answer comes back as the client declared its tools, and in the form of stream that it asked for. Its calls are
  settled first: what is learned of them, and found again, has the ids and the arguments that the client repeats.
- What the client's wire cannot carry, and the provider needs again, is learned under what the client will repeat: the
  ids of its calls, or its words where its wire has no ids. It goes back to the provider that made it, and to no other.
- Thinking of another wire is shown to a Messages client under a signature of ours, and taken out when it comes back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.finish import GAVE_UP, ending
from toolwire.encoding.quirks import PLAIN, tuned
from toolwire.providers import Provider
from toolwire.providers.adapting import adapted, asked_of_stream, quirks_for
from toolwire.providers.thoughts import refused_thoughts, without_thoughts
from toolwire.streams import StreamDecoder, StreamEncoder
from toolwire.streams.accumulation import Accumulator
from toolwire.streams.settling import Settling
from toolwire.translation.billing import Billed, without_billing
from toolwire.translation.caching import CachedRequest, CacheLookup, TranslationCache
from toolwire.translation.declared import Returning, returning
from toolwire.translation.formed import Unwrapping, unwrapping
from toolwire.translation.paths import stream_quirks, wants_stream
from toolwire.translation.shown import ShownEvents, shown_response, without_shown
from toolwire.translation.translate import Body, read_error, refuse, where_they_stand
from toolwire.translation.turns import (
    KeptTurn,
    as_told,
    gist_of,
    is_bound,
    joined,
    read_kept,
    restored,
    turn_key,
    turn_keys,
)
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

_OF_CALLS = (CallStart, CallDelta, CallEnd)
_OF_TEXT = (PartStart, TextDelta, PartEnd)
_FIRST_ERROR = 400
_Head = TypeVar("_Head", bound=MessageStart | MessageDelta)
_Learned = list[tuple[str, bytes]]
_Over = Callable[[Dialect, Request], Dialect]


_write = msgspec.json.Encoder().encode


class _Hooks:
    """What an exchange does with messages, and how it names their turns."""

    def __init__(self, source: Dialect, target: Dialect) -> None:
        self._traits, self._is_native = source.TRAITS, source.DIALECT == target.DIALECT
        self._joins = not self._is_native and source.TRAITS.splits_turns

    def prepare(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages without split turns, and without thinking that was only shown."""
        messages = joined(messages) if self._joins else messages
        if not self._traits.shows_foreign_thinking:
            return messages
        return [without_shown(message, own=self._is_native) for message in messages]

    def memory_keys(self, messages: Sequence[Message], start: int, gist: bytes) -> tuple[str, ...]:
        """Return the memory keys of the model's turns."""
        return tuple(key for _, key in turn_keys(messages, start, gist, by_call_id=self._traits.repeats_call_ids))

    def gist(self, message: Message) -> bytes:
        """Return what the memory key of a turn after `message` depends on."""
        return gist_of(message)


class Exchange:
    """A request as it goes to the target, and its answer as it goes back to the client."""

    def __init__(
        self,
        body: Body,
        source: Dialect,
        target: Dialect | Provider,
        path: str = "",
        *,
        translation_cache: TranslationCache | None = None,
        **how: Any,
    ) -> None:
        over: _Over | None = how.get("over")
        self.source: Dialect = source
        self.provider: Provider | None = target if isinstance(target, Provider) else None
        self.target: Dialect = target.speaks() if isinstance(target, Provider) else target
        self._foreign = self.target.DIALECT != source.DIALECT or over is not None
        self.learned: _Learned = []
        self.usage: Usage | None = None
        self.choices: int = 0
        self.failed: bool = False
        self._response_id: str | None = how.get("response_id")
        self._now: float | None = how.get("now")
        self._maker = self.provider.name if self.provider is not None else self.target.DIALECT
        self._given, self._path, self._billed = body, path, Billed()
        if source.TRAITS.has_billing_line and source.DIALECT != self.target.DIALECT:
            self._given, self._billed = without_billing(body)
        self._quirks: dict[str, Any] = how.get("quirks") or {}
        self._model: str | None = how.get("model")
        self._read: dict[str, Any] | None = None
        self._request: Request | None = None
        self._brief: Request | None = None
        self._encoded: Encoded | None = None
        self._unread = set[str]()
        self.memory: Mapping[str, bytes] = how.get("memory") or {}
        self._lookup = None if over is not None or translation_cache is None else self._look_up(translation_cache)
        self._found: CachedRequest | None = None if self._lookup is None else self._lookup.find()
        asked = self._settings()
        self.streams: bool = wants_stream(source.DIALECT, asked, path)
        self._form = stream_quirks(source.DIALECT, asked, path)
        if over is not None:
            self.target = over(self.target, self.request)

    def _settings(self) -> dict[str, Any]:
        """Give the body, or of one that was seen before what it says of streams."""
        if self._found is not None:
            return self._found.stream_settings
        self._request = self._decoded()  # what is wrong with it is said at once
        return self._body

    def _look_up(self, cache: TranslationCache) -> CacheLookup | None:
        """Look the request up by its bytes and by everything else on which its translation depends."""
        served, quirks = self.provider, self._quirks
        if not self._foreign or type(self._given) is not bytes:
            return None
        told = None if served is None else (served.name, served.version_header, served.capabilities, served.quirks)
        try:
            settings = _write((self._path, self._model, quirks, told, getattr(self.target, "quirks", None)))
        except TypeError:
            return None
        target = getattr(self.target, "plain", self.target)
        return cache.look_up(self._given, self.source, target, settings, _Hooks(self.source, self.target))

    @property
    def _body(self) -> dict[str, Any]:
        if self._read is None:
            self._read = read_body(self._given)
        return self._read

    @property
    def request(self) -> Request:
        """The request as the client made it."""
        if self._request is None:
            self._request = self._decoded()
        return self._request

    def _decoded(self) -> Request:
        request = self.source.decode_request(self._body, self._path)
        if not self._foreign or not self.source.TRAITS.splits_turns:
            return request
        messages = joined(request.context.messages)
        if messages is request.context.messages:
            return request
        return replace(request, context=replace(request.context, messages=messages))

    @property
    def brief(self) -> Request:
        """The request, or of one that was seen before as much as its answer is read by."""
        if self._brief is None:
            self._brief = self.request if self._found is None else self._found.answer_request
        return self._brief

    @property
    def asks(self) -> list[str]:
        """The keys of what would help from earlier turns."""
        if self._found is not None:
            return self._found.memory_keys
        return [key for _, key in self._turns()] if self._foreign else []

    def remember(self, memory: Mapping[str, bytes]) -> None:
        """Take what was found of earlier turns."""
        self.memory, self._encoded = memory, None

    def leave(self, error: Error) -> bool:
        """Leave out the thoughts that an error of the target refuses; whether there are any that it had not refused."""
        refused = refused_thoughts(self._asked(), error, self.target.DIALECT) - self._unread
        if refused:
            self._unread, self._encoded = self._unread | refused, None
        return bool(refused)

    def _turns(self) -> Iterator[tuple[int, str]]:
        return turn_keys(self.request.context.messages, by_call_id=self.source.TRAITS.repeats_call_ids)

    @property
    def encoded(self) -> Encoded:
        """The request as the target is sent it; its losses are named by the source's own paths."""
        if self._encoded is None:
            found = None if self.memory or self._found is None else self._found.encode()
            made = self._encode(None if self.memory else self._lookup) if found is None else found
            self._encoded = replace(made, losses=self._billed.told(made.losses)) if self._billed.lines else made
        return self._encoded

    def _encode(self, known: CacheLookup | None) -> Encoded:
        request, left, losses = self._asked(), tuple[Loss, ...](), tuple[Loss, ...]()
        provider, quirks = self.provider, self._quirks
        if self._unread:
            request, left = without_thoughts(request, self._unread, self.target.DIALECT)
        if provider is not None:
            request, losses = adapted(request, provider)
            quirks = {**quirks_for(request, provider), **quirks}
        target = self.target
        encoded = target.encode_request(request, **quirks) if known is None else known.encode(request, target, quirks)
        body, losses = encoded.body, (*left, *losses, *encoded.losses)
        if self.streams and provider is not None:
            body = {**asked_of_stream(provider), **body}
        made = Encoded(encoded.path, body, where_they_stand(losses, self._body, self.source.SETTING_PATHS))
        if known is not None:
            full_quirks = tuned(getattr(target, "quirks", PLAIN), quirks)
            if full_quirks.id_grammar is None:
                known.store(self._body, request, made, full_quirks)
        return made

    def _asked(self) -> Request:
        """Give the request with its model, with what is remembered, and without what was only shown."""
        request = self.request
        changes: dict[str, Any] = {}
        if self._model is not None and self._model != request.model:
            changes["model"] = self._model
        if request.stream is None and self._foreign:
            changes["stream"] = self.streams
        if request.store is None and self._foreign and self.target.TRAITS.stores_responses:
            changes["store"] = False  # elsewhere nothing is kept unless it is asked for; there all is
        messages = list(request.context.messages)
        if self.memory and self._foreign:
            back = returning(request)
            for place, key in self._turns():
                if key in self.memory:
                    messages[place] = restored(messages[place], read_kept(self.memory[key]), self._maker, back)
        if self.source.TRAITS.shows_foreign_thinking:
            own = self.source.DIALECT == self.target.DIALECT
            messages = [without_shown(message, own=own) for message in messages]
        if any(one is not other for one, other in zip(messages, request.context.messages, strict=True)):
            changes["context"] = replace(request.context, messages=messages)
        return replace(request, **changes) if changes else request

    def response(self, body: Body) -> Encoded:
        """Give an answer as the client understands it."""
        response = self.target.decode_response(read_body(body))
        self.usage, self.choices = response.usage, len(response.choices)
        self.failed = response.finish_reason == "error"
        back = returning(self.brief)
        if not self._foreign:
            return self._written(response, back)
        response, formed = Settling(self.brief).response(response), self.formed()
        response = response if formed is None else formed.response(response)
        told = self._learn(response.message.parts)
        response = shown_response(self.named(response), self._shows)
        encoded = self._written(response, back)
        return replace(encoded, losses=(*told, *encoded.losses)) if told else encoded

    def _written(self, response: Response, back: Returning | None) -> Encoded:
        """Write an answer for the client, with its tools under the names by which it declared them."""
        if back is None:
            return self.source.encode_response(response)
        return self.source.encode_response(back.response(response), names=back.names)

    def stream(self, after: "ExchangedStream | None" = None, begun: Iterable[Event] = ()) -> "ExchangedStream":
        """Give what reads the answer's stream, and writes it as the client understands it.

        It goes on `after` another one, whose decoder gives the events of both; `begun` tells the parts so far.
        """
        stream = ExchangedStream(self, self._form, after)
        for event in begun:
            stream.hear(event)
        return stream

    def error(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> ErrorReply:
        """Give an error as the client understands it; bytes may be any text."""
        error = self.target.decode_error(status, read_error(body), headers)
        if self._foreign and (error.status or 0) < _FIRST_ERROR:
            error = replace(error, status=None)  # an error that came with a good status must not look like success
        return self.source.encode_error(error)

    def named(self, response: Response) -> Response:
        """Return an answer of another wire with the id of this exchange, and its time if the provider gave none."""
        traits = self.source.TRAITS
        if self.source.DIALECT == self.target.DIALECT:
            return response
        if self._response_id is not None and traits.has_response_ids:
            response = replace(response, id=self._response_id)
        if self._now is not None and traits.has_response_times and response.created is None:
            response = replace(response, created=self._now)
        return response

    def headed(self, event: _Head) -> _Head:
        """Return an event with the head of an answer that has its id and its time."""
        named = self.named(event.response)
        return event if named is event.response else replace(event, response=named)

    def formed(self) -> Unwrapping | None:
        """Give the way back of an answer that stands in an object, as no client of this wire asked for it."""
        return unwrapping(self.brief, self.source.DIALECT, self.target.DIALECT)

    @property
    def _shows(self) -> Opaque | None:
        """The mark of thinking that the client is shown under our signature; None if it is not shown so."""
        return Opaque(self.source.DIALECT, {}) if self._foreign and self.source.TRAITS.shows_foreign_thinking else None

    def _learn(self, parts: list[Part]) -> tuple[Loss, ...]:
        """Keep a turn that the client's wire cannot carry whole, under what the client will repeat of it."""
        if not any(map(is_bound, parts)):
            return ()
        found = None if self._found is None else self._found.end
        if found is not None:
            count, before = found
        else:
            messages = self.request.context.messages
            count, before = len(messages), gist_of(messages[-1]) if messages else b""
        key = turn_key(
            before,
            count,
            Message("assistant", as_told(parts, returning(self.brief))),
            by_call_id=self.source.TRAITS.repeats_call_ids,
        )
        try:
            self.learned.append((key, _write(KeptTurn(self._maker, parts))))
        except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
            return ()  # no JSON says it, so it cannot be kept
        return (Loss("message", "signature", "moved", f"kept for {self._maker}, which reads it again", "formal"),)


class ExchangedStream:
    """An answer's stream on its way to the client; `losses` and `usage` grow while it runs.

    `at_end` gives what its last words say beside, in the client's wire.
    """

    def __init__(self, exchange: Exchange, quirks: dict[str, Any], after: "ExchangedStream | None" = None) -> None:
        self.usage: Usage | None = None
        self.broken: bool = False
        self._back = returning(exchange.brief)
        named: dict[str, Any] = {} if self._back is None else {"names": self._back.names}
        self.decoder: StreamDecoder = exchange.target.decode_stream() if after is None else after.decoder
        self.encoder: StreamEncoder = (
            exchange.source.encode_stream(**quirks, **named) if after is None else after.encoder
        )
        self.at_end: Callable[[], Opaque] | None = None if after is None else after.at_end
        self._exchange = exchange
        self._told: tuple[Loss, ...] = ()
        self._reason: FinishReason | None = None
        self._failed = False
        self._begun = after is not None
        foreign = exchange._foreign  # noqa: SLF001 - one thought in two classes
        self._heard = Accumulator() if foreign else None
        self._read: dict[type, Callable[[Any], Iterable[Event]]] = {}
        self._way = ShownEvents(exchange._shows).of if foreign else None  # noqa: SLF001 - likewise
        if foreign:
            formed, settled = exchange.formed(), _SettledEvents(exchange.brief).of
            self._read = dict.fromkeys(_OF_CALLS, settled)
            if formed is not None:
                self._read |= dict.fromkeys(_OF_TEXT, formed.events)

    def feed(self, data: bytes) -> bytes:
        """Give what can be said of these bytes, cut anywhere."""
        return self.tell(self.decoder.feed(data))

    def tell(self, events: Iterable[Event]) -> bytes:
        """Write events, and note what they say of the turn."""
        said: list[bytes] = []
        write = self.encoder.feed
        for event in events:
            match event:
                case UsageDelta():
                    self.usage = event.usage
                case ChoiceEnd():
                    self._reason = self._reason or event.choice.finish_reason
                case ErrorEnd():
                    said.append(self._fail())
                case MessageEnd():
                    event = self._end(event, said)  # noqa: PLW2901
                case MessageStart() | MessageDelta():
                    self.usage = event.response.usage or self.usage
                    self._begun = True
                    event = self._exchange.headed(event)  # noqa: PLW2901
            if self._way is None or self._heard is None:
                said += [write(event)] if self._back is None else map(write, self._back.events(event))
                continue
            read = self._read.get(type(event))
            for settled in (event,) if read is None else read(event):
                self._heard.feed(settled)
                for shown in self._way(settled):
                    said += [write(shown)] if self._back is None else map(write, self._back.events(shown))
        return b"".join(said)

    def _end(self, event: MessageEnd, said: list[bytes]) -> Event:
        """Give the end of an answer: an error where its provider gave up, else what is said with it goes before."""
        if self._reason == "error" and not self._failed and self._way is not None:
            said.append(self._fail())
            return ErrorEnd(GAVE_UP)
        if self.at_end is not None and event.complete and not self._failed:
            said.append(self.encoder.feed(OpaqueDelta(opaque=self.at_end())))
        return event

    def _fail(self) -> bytes:
        """Note that the answer failed; OpenAI's SDK takes no error of no response."""
        self._failed = True
        if self._begun or self._way is None:
            return b""
        return self.encoder.feed(MessageStart(self._exchange.named(Response())))

    def hear(self, event: Event) -> None:
        """Note an event that was written before."""
        if self._heard is not None:
            self._heard.feed(event)

    def close(self, error: Error | None = None) -> bytes:
        """Give what is left to say when the source has ended; one that broke off ends in an error."""
        last = []
        for event in self.decoder.close():
            if type(event) is MessageEnd:
                broken = ending(self._reason, complete=event.complete, failed=self._failed)
                error = broken and (error or broken)
                if error is not None and not self._failed:
                    last.append(self.tell([ErrorEnd(error)]))
            last.append(self.tell([event]))
        last.append(self.encoder.close())
        self.broken = self._failed or self.encoder.failed
        if self._heard is not None:
            self._told = self._exchange._learn(self._heard.response.message.parts)  # noqa: SLF001 - likewise
        return b"".join(last)

    @property
    def whole(self) -> bool:
        """Whether the model has said all that it had to say."""
        return self._reason is not None and not (self._failed or self.encoder.failed)

    @property
    def failed(self) -> bool:
        """Return True if the provider has reported an error."""
        return self._failed

    @property
    def parts(self) -> list[Part]:
        """What the answer is made of so far."""
        return [] if self._heard is None else self._heard.response.message.parts

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be said so far."""
        return (*self._told, *self.encoder.losses)


def exchange(  # noqa: PLR0913 - a keyword each
    body: Body,
    *,
    source: str | Dialect,
    target: str | Dialect | Provider,
    path: str = "",
    model: str | None = None,
    quirks: dict[str, Any] | None = None,
    memory: Mapping[str, bytes] | None = None,
    over: _Over | None = None,
    strict: bool = False,
    translation_cache: TranslationCache | None = None,
    response_id: str | None = None,
    now: float | None = None,
) -> Exchange:
    """Take one request to another wire, and its answer back.

    `target` is a dialect, or a provider, whose server's needs are then minded. `memory` is what was found of the
    keys that an exchange asks for. `over` lays a dialect over the target's, knowing the request (`text.over`). `strict`
    raises LossyTranslation. With a `translation_cache`, a longer request is translated from where an earlier one ended,
    if its body is bytes. Without one, nothing is stored between two calls.

    `response_id` is the id of the answer where the wires differ: another server may give one id to several answers, and
    clients take answers of one id for one. `now` is its time, in seconds of the epoch, if the provider gives none. An
    answer of the client's own wire keeps its id and its time.
    """
    here, there = dialect(source), target if isinstance(target, Provider) else dialect(target)
    how: dict[str, Any] = {"model": model, "quirks": quirks, "memory": memory, "over": over}
    how |= {"response_id": response_id, "now": now}
    made = Exchange(body, here, there, path, translation_cache=translation_cache, **how)
    if strict:
        refuse(made.encoded.losses)
    return made


class _SettledEvents:
    """Gives events with their calls settled; where a null may have to go, a call's text waits until it is whole."""

    def __init__(self, request: Request) -> None:
        self._settling = Settling(request)
        self._waiting: dict[int, list[str]] = {}

    def of(self, event: Event) -> Iterator[Event]:
        """Give what an event of a call says."""
        settled = self._settling.event(event)
        match event:
            case CallStart(key=key, name=name) if self._settling.may_take_out_of(name):
                self._waiting[key] = []
            case CallDelta(key=key, fragment=fragment) if key in self._waiting:
                self._waiting[key].append(fragment)
                return
            case CallEnd(key=key, call=call) if key in self._waiting and isinstance(settled, CallEnd):
                if text := "".join(self._waiting.pop(key)):
                    same = settled.call.plain_arguments == call.plain_arguments
                    yield CallDelta(key, text if same else argument_text(settled.call))
        yield settled
