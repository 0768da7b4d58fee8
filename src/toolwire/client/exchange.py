"""One exchange with a provider, as steps for sync and async code: send a request, return a response or an error.

Rules of this file:
- A request is retried only if no part of an answer was emitted yet, only for temporary errors, and at most as often as
  configured. `Retry-After` is obeyed up to a limit.
- A stream is parsed by its dialect's decoder; an error inside it is an error as well. The partial answer of a broken
  stream is stored beside its error.
- If a model writes its calls into its text, later requests of the same conversation describe the tools as text, unless
  the model's thinking is bound to its tools. If the provider sets a `format`, the text is parsed in that format. A
  block that also occurs in the input is a quotation, and not a call.
- If a server rejects thinking blocks of another origin, they are removed, and the request is sent again at once.
- A request gets what the provider's prompt cache needs: a cache mark, or a key of the conversation.
- An answer has a size limit. A longer one is aborted, and not retried.
- The key goes into one header and nowhere else. The connection is released whatever ends the exchange.
"""

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from toolwire.client.recording import ExchangeRecording
from toolwire.encoding.families import family_of
from toolwire.encoding.finish import ending_error
from toolwire.encoding.ledger import made_by
from toolwire.errors import InvalidBody, InvalidField
from toolwire.providers import Provider
from toolwire.providers.adapting import adapted, asked_of_stream, quirks_for
from toolwire.providers.addressing import http_request_of, key_of
from toolwire.providers.catalogue import cost
from toolwire.providers.prompt_cache import (
    CacheUse,
    ConversationStart,
    takes_key,
    with_due_mark,
    with_key,
)
from toolwire.providers.thoughts import refused_thoughts, without_thoughts
from toolwire.scrubbing import scrub
from toolwire.streams.accumulation import Accumulator, events_of
from toolwire.streams.call_normalizer import CallNormalizer, call_ids
from toolwire.translation.deferred_tools import Deferral
from toolwire.types import (
    CallDelta,
    CallEnd,
    CallStart,
    ChoiceEnd,
    Encoded,
    Error,
    ErrorEnd,
    ErrorKind,
    Loss,
    MessageDelta,
    MessageEnd,
    MessageStart,
    OpaqueDelta,
    RefusalDelta,
    Request,
    Response,
    TextDelta,
    ThinkingDelta,
    Tool,
    ToolCall,
    Usage,
    UsageDelta,
)
from toolwire.waiting.steps import Ask, Emit, Work, stop_future
from toolwire.wire.bodies import read_body, read_error_body
from toolwire.wire.transport import Bounds, HttpRequest, HttpResponse, Stop, Timeouts, Transport, TransportError

logger: logging.Logger = logging.getLogger("toolwire")
_SHOWN_LOSSES = 5
_OK, _FIRST_OTHER, _FIRST_ERROR = 200, 300, 400
_LONGEST_WAIT = 60.0
_ERROR_BODY_BYTES = 1024 * 1024
_KINDS: dict[str, ErrorKind] = {
    "timeout": "timeout",
    "connect": "server",
    "reset": "server",
    "protocol": "invalid_request",
    "cancelled": "unknown",
    "too_long": "server",
}
# No tokenizer packs more characters into a token, except long runs of blanks, for which the estimate is too low.
_CHARACTERS_PER_TOKEN = 8
_ERROR_FIELDS = ("message", "type", "code", "param", "request_id", "opaque")
_INSPECTED, _EXCERPT = 4096, 100
_BLOCKED_FIELD = "promptFeedback"
_DELTAS = frozenset({TextDelta, ThinkingDelta, RefusalDelta, CallDelta})
_SURROUNDING = (MessageStart, MessageDelta, UsageDelta, OpaqueDelta, ChoiceEnd, ErrorEnd, MessageEnd)


class Retries(Struct, frozen=True):
    """The number of attempts of a request, and the pauses: `base` seconds, doubled each time, at most `longest`.

    >>> from toolwire import Error, Retries, generate
    >>> from toolwire.testing import Fail, simulate
    >>> with simulate([[Fail(Error("overloaded", "Later."))], "Hello."]) as model:
    ...     server = {"base_url": model.url, "api_key": "any"}
    ...     generate("Hi.", "openai", "gpt-6-sol", retries=Retries(attempts=2, base=0.01), **server).content
    'Hello.'
    """

    attempts: int = 3
    base: float = 0.5
    longest: float = _LONGEST_WAIT


class Retrying(Struct, frozen=True):
    """A request failed with `error`, and is sent again in `seconds`. `on_event` receives this."""

    error: Error
    seconds: float


class ProviderConnection(Struct):
    """A provider and how it is reached. `now` is a clock, and `jitter` returns a number from 0 to 1.

    - `fallback`: also parse calls in the text of a model that has native calls.
    - `cache`: add what the provider's prompt cache needs.
    - `text_call_models`: the models that wrote calls into their text in this conversation.
    - `readers`: the forms of such calls that are parsed besides the protocol.
    - `rejected_thoughts`: the thinking blocks that the server rejected in this conversation.
    - `extra`: fields of each body, unless the request sets them.
    - `record`: the store of records that gets each exchange, if there is one.
    - `logged_losses`: the sets of losses that were logged. With `warn_losses` false, losses are not logged, because the
      caller shows them.
    """

    provider: Provider
    dialect: Any
    transport: Transport
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    bounds: Bounds = Bounds()
    now: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random
    fallback: bool = True
    cache: bool = True
    readers: tuple[str, ...] = ()
    text_call_models: set[str | None] = set()
    rejected_thoughts: set[str] = set()
    logged_losses: set[frozenset[tuple[str, ...]]] = set()
    warn_losses: bool = True
    extra: dict[str, Any] = {}
    record: Any = None

    def for_conversation(self) -> Self:
        """Return a copy with fresh per-conversation state (`text_call_models`, `rejected_thoughts`)."""
        return replace(self, text_call_models=set(), rejected_thoughts=set())


class ExchangeState(Struct):
    """The progress of an exchange: the body as it was sent, its losses, and the state of the answer.

    - `digest` is fed with the bytes of the answer, if it is set.
    - `tokens` and `cost` are what the answer may still use; `over_budget` is the reason if it used more.
    - `deferral` are the tools that the request holds back.
    - `earlier_texts` are texts that the model received before and that the request does not repeat.
    """

    body: bytes | None = None
    losses: tuple[Loss, ...] = ()
    attempts: int = 0
    status: int | None = None
    accumulator: Accumulator | None = None
    digest: Any = None
    tokens: int | None = None
    cost: float | None = None
    deferral: Deferral | None = None
    earlier_texts: Iterable[str] = ()
    over_budget: str = ""
    recording: ExchangeRecording | None = None

    @property
    def partial(self) -> Response | None:
        """The part of a streamed answer that has arrived, or None."""
        response = self.accumulator.response if self.accumulator is not None else None
        return response if response is not None and response.choices else None


def exchange_steps(
    upstream: ProviderConnection, request: Request, state: ExchangeState | None = None, stop: Stop | None = None
) -> Work[Response | Error]:
    """Send a request, with retries, and return its response or error. The events of a stream are emitted."""
    state = ExchangeState() if state is None else state
    if upstream.record is None:
        return (yield from _exchange_steps(upstream, request, state, stop))
    state.recording = ExchangeRecording(upstream.record, upstream.provider, request)
    outcome = None
    try:
        outcome = yield from _exchange_steps(upstream, request, state, stop)
    finally:
        state.recording.finish(outcome, state.partial)
    return outcome


def _exchange_steps(
    upstream: ProviderConnection, request: Request, state: ExchangeState, stop: Stop | None
) -> Work[Response | Error]:
    if upstream.provider.lacks_key():
        return _no_key(upstream.provider)
    upstream = _with_text_format(upstream, request, state.earlier_texts)
    http_request = _prepare(upstream, request, state)
    deadline = None if upstream.timeouts.total is None else upstream.now() + upstream.timeouts.total
    while True:
        state.attempts += 1
        outcome, pause = yield from _attempt(upstream, request, http_request, state, deadline, stop)
        if type(outcome) is Error and _rejects_new_thoughts(upstream, request, outcome):
            http_request = _prepare(upstream, request, state)
            yield Emit(Retrying(outcome, 0.0))
            continue
        if type(outcome) is not Error or pause is None or state.attempts >= upstream.retries.attempts:
            return outcome if isinstance(outcome, Error) else _finish_response(upstream, request, state.losses, outcome)
        seconds = _pause(upstream, state.attempts, pause)
        if deadline is not None and upstream.now() + seconds >= deadline:
            return outcome
        yield Emit(Retrying(outcome, seconds))
        yield Ask(_sleep, (seconds, stop), awaited=_asleep)
        if stop is not None and stop.is_set():
            return outcome


def _prepare(upstream: ProviderConnection, request: Request, state: ExchangeState) -> HttpRequest:
    encoded = _encoded(upstream, request)
    if state.deferral is not None:
        encoded = state.deferral.with_losses(encoded)
    _warn(upstream, request, encoded.losses)
    http_request = http_request_of(upstream.provider, encoded)
    state.body, state.losses = http_request.body, encoded.losses
    return http_request


def _rejects_new_thoughts(upstream: ProviderConnection, request: Request, error: Error) -> bool:
    """Return True if the server rejected thinking blocks that it had not rejected before; they are not sent again."""
    refused = refused_thoughts(request, error, upstream.provider.dialect) - upstream.rejected_thoughts
    upstream.rejected_thoughts.update(refused)
    return bool(refused)


def _no_key(provider: Provider) -> Error:
    """Return the error for a provider without a key; nothing is sent."""
    where = f"set {' or '.join(provider.env)}, or pass api_key"
    return Error("authentication", f"there is no key: {where} (api_key='' if the server needs none)", code="no_key")


def _finish_response(
    upstream: ProviderConnection, request: Request, losses: tuple[Loss, ...], response: Response
) -> Response:
    """Note if the model wrote calls into its text, and return the response with the losses of its request."""
    if _has_calls_in_text(response) and not family_of(request.model).thoughts_bound:
        upstream.text_call_models.add(request.model)
    return replace(response, losses=losses) if losses else response


def _has_calls_in_text(response: Response) -> bool:
    """Return True if a call of the response was parsed from its text."""
    if not any(type(part) is ToolCall for part in response.parts):
        return False
    from toolwire.text.tagged.call_blocks import calls_in_text  # noqa: PLC0415 - only where there are calls

    return bool(calls_in_text(response.message))


def _warn(upstream: ProviderConnection, request: Request, losses: Sequence[Loss]) -> None:
    """Log the semantic losses of a request, once for each set of equal losses.

    Rules of a schema are left out: they apply all the same, because arguments are validated before a tool runs.
    """
    semantic = [loss for loss in losses if loss.severity == "semantic" and not loss.concept.startswith("schema_")]
    kinds = frozenset((loss.concept, loss.action, loss.detail) for loss in semantic)
    if not kinds or not upstream.warn_losses or kinds in upstream.logged_losses:
        return
    upstream.logged_losses.add(kinds)
    text = "; ".join(map(str, semantic[:_SHOWN_LOSSES])) + ("; ..." if len(semantic) > _SHOWN_LOSSES else "")
    logger.warning("%s/%s: losses of the request: %s", upstream.provider.name, request.model, text)


def _with_text_format(
    upstream: ProviderConnection, request: Request, earlier_texts: Iterable[str]
) -> ProviderConnection:
    """Return `upstream` with the dialect that describes the tools to the model and parses calls in its text."""
    tools = [tool for tool in request.tools if type(tool) is Tool]
    native = upstream.provider.capabilities.native_tool_calls and request.model not in upstream.text_call_models
    format_name = upstream.provider.format if tools else ""
    if native and not format_name and not upstream.provider.completions and not (upstream.fallback and tools):
        return upstream
    from toolwire.text.overlay import completions, dialect  # noqa: PLC0415 - formats are loaded only for tools
    from toolwire.text.quoting import texts_given  # noqa: PLC0415 - the same
    from toolwire.text.usual_forms import UsualForms  # noqa: PLC0415 - the same

    options: Any = {"given": chain(earlier_texts, texts_given(request)), "earlier": call_ids(request)}
    if upstream.provider.completions:
        return replace(upstream, dialect=completions.raw_completions(upstream.provider, tools, **options))
    text_format: str | UsualForms = format_name or "tagged"
    if not format_name and native and upstream.fallback and upstream.provider.local:
        text_format = UsualForms(request.model)
    options |= {"format": text_format, "readers": upstream.readers, "native": native}
    return replace(upstream, dialect=dialect.over(upstream.dialect, tools, **options))


def _encoded(upstream: ProviderConnection, request: Request) -> Encoded:
    request, dropped = without_thoughts(request, upstream.rejected_thoughts, upstream.provider.dialect)
    request, losses = adapted(request, upstream.provider)
    losses = (*dropped, *losses)
    encoded: Encoded = upstream.dialect.encode_request(request, **quirks_for(request, upstream.provider))
    encoded = replace(encoded, losses=(*losses, *encoded.losses)) if losses else encoded
    encoded = _use_prompt_cache(upstream, request, encoded)
    for loss in encoded.losses:
        if loss.concept == "provider_state":
            raise InvalidField(loss.path, f"is not this provider's: {loss.detail}", path=upstream.provider.name)
    extra = {**asked_of_stream(upstream.provider), **upstream.extra} if request.stream else upstream.extra
    return replace(encoded, body={**extra, **encoded.body}) if extra else encoded


def _use_prompt_cache(upstream: ProviderConnection, request: Request, encoded: Encoded) -> Encoded:
    """Return the encoded request with what the provider's prompt cache needs. A request of its own wire has that."""
    provider = upstream.provider
    if not upstream.cache or provider.completions or made_by(request.opaque, provider.dialect):
        return encoded
    if request.cache_key is None and takes_key(upstream.dialect, provider, {}):
        key = ConversationStart.of(request).key(CacheUse())
        encoded = encoded if key is None else with_key(encoded, key, upstream.dialect)
    marks_blocks = not provider.quirks.get("request_cache_mark", True)
    return with_due_mark(encoded, request, request.model, upstream.dialect.TRAITS, marks_blocks=marks_blocks)


def _sleep(seconds: float, stop: Stop | None) -> None:
    stopped = threading.Event()
    with contextlib.nullcontext() if stop is None else stop.telling(stopped.set):
        stopped.wait(seconds)


async def _asleep(seconds: float, stop: Stop | None) -> None:
    with stop_future(stop) as stopped:
        import asyncio  # noqa: PLC0415 - a running loop has imported it

        await asyncio.wait([stopped], timeout=seconds)


def _pause(upstream: ProviderConnection, attempt: int, asked: float) -> float:
    """Return the seconds to wait: what the server asked for, else a growing time with jitter."""
    grown = upstream.retries.base * 2 ** (attempt - 1) * (0.5 + upstream.jitter() / 2)
    return min(asked if asked > 0 else grown, upstream.retries.longest)


_AttemptResult = tuple[Response | Error, float | None]


def _attempt(
    upstream: ProviderConnection,
    request: Request,
    http_request: HttpRequest,
    state: ExchangeState,
    deadline: float | None,
    stop: Stop | None,
) -> Work[_AttemptResult]:
    """Try once. The seconds beside an error mean that a retry is worthwhile."""
    state.status, state.accumulator = None, None
    timeouts = upstream.timeouts
    if deadline is not None:
        timeouts = replace(timeouts, total=max(0.0, deadline - upstream.now()))
    if state.recording is not None:
        state.recording.ask(http_request, state.losses)
    try:
        answer = yield _call_transport(upstream.transport, "send", http_request, timeouts, stop)
    except TransportError as problem:
        if state.recording is not None:
            state.recording.fail(problem)
        return _failed_attempt(problem)
    state.status = answer.status
    if state.recording is not None:
        answer = state.recording.observe(answer)
    try:
        result = yield from _read_answer(upstream, request, answer, state, deadline)
    except GeneratorExit:
        raise
    except BaseException:
        yield _call_transport(answer, "close")
        raise
    if type(result[0]) is Response:
        yield _call_transport(answer, "finish")
    else:
        yield _call_transport(answer, "close")
    return result


def _call_transport(holder: Any, name: str, *arguments: Any) -> Ask:
    """Call a method of a transport or its response. A sync-only transport, or one that needs no closing, lacks some."""
    return Ask(getattr(holder, name, lambda: None), arguments, awaited=getattr(holder, f"a{name}", None))


def _read_answer(
    upstream: ProviderConnection, request: Request, answer: HttpResponse, state: ExchangeState, deadline: float | None
) -> Work[_AttemptResult]:
    data = b""
    try:
        if not _OK <= answer.status < _FIRST_OTHER:
            return (yield from _read_error(upstream, answer))
        if request.stream:
            return (yield from _read_stream(upstream, request, answer, state, deadline))
        data = yield from _read(upstream, answer, upstream.bounds.bytes, deadline)
        if state.digest is not None:
            state.digest.update(data)
        body = read_body(data)
        response = CallNormalizer(request).normalize_response(upstream.dialect.decode_response(body))
        return _error_in(upstream, response, body, answer, state) or (response, None)
    except TransportError as problem:
        return _failed_attempt(problem)
    except InvalidBody as problem:
        message = f"the answer is not a JSON object: {problem}{_describe_body(upstream, data, answer)}"
        return _scrubbed(upstream, Error("server", message, answer.status)), None


def _describe_body(upstream: ProviderConnection, data: bytes, answer: HttpResponse) -> str:
    """Return what arrived instead of a JSON object, without the key, and a likely reason."""
    text = scrub(data[:_INSPECTED].decode(errors="replace"), (), [key_of(upstream.provider)])[:_EXCERPT].strip()
    if not text or text.startswith("{"):
        return ""
    content_type = answer.headers.get("content-type", "no type")
    return f"; it is {text!r} ({content_type[:_EXCERPT]}): does base_url lead to the API?"


def _error_in(
    upstream: ProviderConnection, response: Response, body: dict[str, Any], answer: HttpResponse, state: ExchangeState
) -> _AttemptResult | None:
    """Return the error that a server reports under a success status, instead of an answer or beside a partial one.

    A body without an answer is an error as well, except that of a prompt that Gemini blocked.
    """
    reported = body.get("error")
    if (response.choices and (not reported or response.finish_reason != "error")) or (
        not reported and _BLOCKED_FIELD in body
    ):
        return None
    if response.choices:
        body, state.accumulator = {"error": reported}, Accumulator()
        for event in events_of(response):
            state.accumulator.feed(event)
    error = upstream.dialect.decode_error(None, body, answer.headers)
    if not reported and error.kind == "unknown":
        error = replace(error, kind="server", message=f"the body contains no answer: {error.message}")
    error = replace(error, request_id=error.request_id or _request_id(upstream, answer.headers))
    return _scrubbed(upstream, error), (error.retry_after or 0.0) if error.retryable else None


def _error_of(problem: TransportError) -> Error:
    return Error(_KINDS[problem.kind], str(problem), code=f"transport_{problem.kind}")


def _failed_attempt(problem: TransportError) -> _AttemptResult:
    error = _error_of(problem)
    return error, 0.0 if _may_pass(error) else None


def _may_pass(error: Error) -> bool:
    """Return True if a retry may succeed. An answer that was too long would be too long again."""
    return error.retryable and error.code != "transport_too_long"


def _request_id(upstream: ProviderConnection, headers: dict[str, str]) -> str | None:
    """Return the server's id of a request, without the key, which a server may repeat there."""
    names = ("x-request-id", "request-id", "x-goog-request-id")
    request_id = next((headers[name] for name in names if name in headers), None)
    return None if request_id is None else scrub(request_id, (), [key_of(upstream.provider)])


def _read(upstream: ProviderConnection, answer: HttpResponse, limit: int, deadline: float | None) -> Work[bytes]:
    data = bytearray()
    while piece := (yield _call_transport(answer, "read")):
        data += piece
        if len(data) > limit:
            raise TransportError("too_long", f"the answer has more than {limit} bytes")
        _check_time(upstream, deadline)
    return bytes(data)


def _read_beginning(answer: HttpResponse) -> Work[bytes]:
    """Return the body of an error; of a long one, its beginning."""
    data = bytearray()
    while len(data) < _ERROR_BODY_BYTES and (piece := (yield _call_transport(answer, "read"))):
        data += piece
    return bytes(data[:_ERROR_BODY_BYTES])


def _check_time(upstream: ProviderConnection, deadline: float | None) -> None:
    """Raise TransportError after the deadline, for transports that do not enforce it."""
    if deadline is not None and upstream.now() > deadline:
        raise TransportError("timeout", f"the answer took longer than {upstream.timeouts.total:g} s")


def _read_error(upstream: ProviderConnection, answer: HttpResponse) -> Work[_AttemptResult]:
    body = read_error_body((yield from _read_beginning(answer)))
    error = upstream.dialect.decode_error(answer.status, body, answer.headers)
    error = replace(error, status=answer.status, request_id=error.request_id or _request_id(upstream, answer.headers))
    if _FIRST_OTHER <= answer.status < _FIRST_ERROR:
        error = replace(
            error, message=f"the server redirected, and redirects are not followed: {error.message}".rstrip(": ")
        )
    return _scrubbed(upstream, error), (error.retry_after or 0.0) if _is_passing(error, answer.headers) else None


def _is_passing(error: Error, headers: dict[str, str]) -> bool:
    """Return True if a retry is worthwhile: the server's header decides, else the kind of the error."""
    # openai 3.52.0 and anthropic 2.11.0, `_should_retry`, 2026-11-26
    advice = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
    return error.retryable if advice is None else advice


def _scrubbed(upstream: ProviderConnection, error: Error) -> Error:
    """Return an error without the key, which a server may repeat."""
    secrets = [key_of(upstream.provider)]
    return replace(error, **{name: scrub(getattr(error, name), (), secrets) for name in _ERROR_FIELDS})


class _StreamReader:
    """The state of a stream that is read: its events so far, and whether any were emitted.

    Events that only surround an answer are held until the answer itself begins, so that an error before it can be
    retried.
    """

    def __init__(self, upstream: ProviderConnection, request: Request) -> None:
        self.upstream: ProviderConnection = upstream
        self.normalizer = CallNormalizer(request)
        self.model = request.model
        self.accumulator = Accumulator()
        self.held_events: list[Any] = []
        self.has_emitted = False
        self.complete = False
        self.error: Error | None = None
        self.bytes = self.events = self.characters = 0

    def check(self, piece: bytes) -> None:
        """Raise TransportError if the answer is longer than allowed."""
        self.bytes += len(piece)
        bounds = self.upstream.bounds
        if self.bytes > bounds.bytes:
            raise TransportError("too_long", f"the answer has more than {bounds.bytes} bytes")
        if self.events > bounds.events:
            raise TransportError("too_long", f"the answer has more than {bounds.events} events")

    def check_budget(self, state: ExchangeState) -> None:
        """Abort an answer that has used its whole budget, by its reported usage or by its length."""
        if self.complete or (state.tokens is None and state.cost is None):
            return
        usage = self.accumulator.usage or Usage()
        output = max(usage["output_tokens"], self.characters // _CHARACTERS_PER_TOKEN)
        used = replace(usage, input_tokens=usage["input_tokens"], output_tokens=output)
        if state.tokens is not None and used.total_tokens > state.tokens:
            state.over_budget = f"the answer has used more than the {max(0, state.tokens)} tokens that were left"
        elif state.cost is not None and (cost(used, self.model) or 0.0) > state.cost:
            state.over_budget = f"the answer has used more than the {max(0.0, state.cost):.4f} USD that were left"
        if state.over_budget:
            raise TransportError("cancelled", state.over_budget)

    def feed(self, events: Iterable[Any]) -> Work[None]:
        for event in events:
            kind = type(event)
            if kind is ErrorEnd:
                event = replace(event, error=_scrubbed(self.upstream, event.error))  # noqa: PLW2901 - without the key
                self.error = self.error or event.error
            elif kind is MessageEnd:
                self.complete = event.complete
            elif kind is CallStart or kind is CallEnd:
                event = self.normalizer.normalize_event(event)  # noqa: PLW2901 - normalized for the conversation
            elif kind in _DELTAS:
                self.characters += len(event.fragment if kind is CallDelta else event.text)
            self.events += 1
            self.accumulator.feed(event)
            if self.has_emitted:
                yield Emit(event)
                continue
            self.held_events.append(event)
            if kind not in _SURROUNDING:
                self.has_emitted = True
                yield from self.release()

    def release(self) -> Work[None]:
        events, self.held_events = self.held_events, []
        for event in events:
            yield Emit(event)

    def failure(self) -> Error | None:
        """Return the error of the answer, or None if it is complete."""
        reason = self.accumulator.response.finish_reason
        return self.error or ending_error(reason, complete=self.complete, failed=False)


def _read_stream(
    upstream: ProviderConnection, request: Request, answer: HttpResponse, state: ExchangeState, deadline: float | None
) -> Work[_AttemptResult]:
    decoder, reader = upstream.dialect.decode_stream(), _StreamReader(upstream, request)
    state.accumulator = reader.accumulator
    try:
        piece = b"-"
        while piece and not decoder.over:
            piece = yield _call_transport(answer, "read")
            if state.digest is not None:
                state.digest.update(piece)
            reader.check(piece)
            yield from reader.feed(decoder.feed(piece) if piece else decoder.close())
            _check_time(upstream, deadline)
            reader.check_budget(state)
    except TransportError as problem:
        reader.error = _error_of(problem)
        yield from reader.feed(decoder.close())
    error = reader.failure()
    if error is None:
        yield from reader.release()
        return reader.accumulator.response, None
    retry_after = error.retry_after or 0.0 if _may_pass(error) and not reader.has_emitted else None
    return replace(error, request_id=error.request_id or _request_id(upstream, answer.headers)), retry_after
