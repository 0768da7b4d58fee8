"""One exchange with a provider, as steps for sync and async code: a request out, a response or an error back.

Rules of this file:
- It is tried again only before anything of an answer was given, only for errors that pass, and never more
  often than said. `Retry-After` counts, up to a limit.
- A stream is read by its decoder; an error inside of it is an error as well. What had come of an answer that
  broke off is kept, beside its error.
- A model that writes its calls into its text is told of its tools there from then on, in the same conversation,
  unless its thoughts are bound to its tools; one whose provider names a format is read in it. A block that the
  model was given is a quotation, and no call.
- Thoughts that a server refuses, for they are bound to something else, are left out, and the request is sent again at
  once.
- An answer has a bound: one that goes on and on is given up, and not asked for again.
- A key goes into one header and nowhere else. Whatever ends an exchange, its connection is let go of.
"""

import asyncio
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

from toolwire.encoding.families import family_of
from toolwire.encoding.finish import ending
from toolwire.errors import InvalidBody, InvalidField
from toolwire.providers import Provider
from toolwire.providers.adapting import adapted, asked_of_stream, quirks_for
from toolwire.providers.addressing import http_request_of, key_of
from toolwire.providers.catalogue import cost
from toolwire.providers.thoughts import refused_thoughts, without_thoughts
from toolwire.scrubbing import scrub
from toolwire.streams.accumulation import Accumulator, events_of
from toolwire.streams.settling import Settling, call_ids
from toolwire.text.overlay.completions import raw_completions
from toolwire.text.overlay.dialect import over
from toolwire.text.quoting import texts_given
from toolwire.text.tagged.call_blocks import calls_in_text
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
    Usage,
    UsageDelta,
)
from toolwire.waiting.steps import Ask, Emit, Work, stop_future
from toolwire.wire.bodies import read_body
from toolwire.wire.transport import Bounds, HttpRequest, HttpResponse, Stop, Timeouts, Transport, TransportError

logger: logging.Logger = logging.getLogger("toolwire")
_SHOWN_LOSSES = 5
_OK, _FIRST_ELSE, _FIRST_ERROR = 200, 300, 400
_LONGEST_WAIT = 60.0
_BODY_OF_ERROR = 1024 * 1024
_KINDS: dict[str, ErrorKind] = {
    "timeout": "timeout",
    "connect": "server",
    "reset": "server",
    "protocol": "invalid_request",
    "cancelled": "unknown",
    "too_long": "server",
}
# No tokenizer packs more characters into a token than this, but for long runs of blanks: a count that is too low.
_CHARACTERS_OF_A_TOKEN = 8
_SAID_OF_AN_ERROR = ("message", "type", "code", "param", "request_id", "opaque")
_LOOKED_AT, _EXCERPT = 4096, 100
_BLOCKED = "promptFeedback"
_WORDS = frozenset({TextDelta, ThinkingDelta, RefusalDelta, CallDelta})
_AROUND = (MessageStart, MessageDelta, UsageDelta, OpaqueDelta, ChoiceEnd, ErrorEnd, MessageEnd)


class Retries(Struct, frozen=True):
    """How often a request is tried in all, and how long the pauses are: `base` seconds, doubled each time."""

    attempts: int = 3
    base: float = 0.5
    longest: float = _LONGEST_WAIT


class Retrying(Struct, frozen=True):
    """A request failed with this error, and is sent again in so many seconds; `on_event` gets this."""

    error: Error
    seconds: float


class Upstream(Struct):
    """A provider, and how it is reached; `now` is a clock, and `jitter` gives a number from 0 to 1.

    With `fallback`, calls are read in the text of a model that should not have to write them there; `in_text`
    are the models that did in this conversation, and `readers` the forms that are read besides the protocol. `unread`
    are the thoughts that the server refused to read again in this conversation.
    `extra` is in each body, where the request itself says nothing. `warned` are the sets of losses that were logged,
    and `warns` says whether they are: who shows them need not.
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
    readers: tuple[str, ...] = ()
    in_text: set[str | None] = set()
    unread: set[str] = set()
    warned: set[frozenset[tuple[str, ...]]] = set()
    warns: bool = True
    extra: dict[str, Any] = {}

    def apart(self) -> Self:
        """Give it for one conversation: what that shows of a model and its thoughts is that conversation's alone."""
        return replace(self, in_text=set(), unread=set())


class Sent(Struct):
    """What an exchange was so far: its body as it went out, what that could not say, and what came of its answer.

    `digest` is fed with the bytes of the answer, where somebody wants to know them again. `tokens` and `cost` are what
    may still be used; `over` says that an answer was given up because it used more. `given` are texts that the model
    was given before, and that the request does not repeat.
    """

    body: bytes | None = None
    losses: tuple[Loss, ...] = ()
    attempts: int = 0
    status: int | None = None
    heard: Accumulator | None = None
    digest: Any = None
    tokens: int | None = None
    cost: float | None = None
    given: Iterable[str] = ()
    over: str = ""

    @property
    def partial(self) -> Response | None:
        """What had come of an answer that is given as it comes."""
        response = self.heard.response if self.heard is not None else None
        return response if response is not None and response.choices else None


def exchanging(
    upstream: Upstream, request: Request, sent: Sent | None = None, stop: Stop | None = None
) -> Work[Response | Error]:
    """Send a request, again where that may help, and give what came of it; a stream's events are emitted."""
    sent = Sent() if sent is None else sent
    if upstream.provider.lacks_key():
        return _no_key(upstream.provider)
    upstream = _wording(upstream, request, sent.given)
    http_request = _prepared(upstream, request, sent)
    deadline = None if upstream.timeouts.total is None else upstream.now() + upstream.timeouts.total
    while True:
        sent.attempts += 1
        outcome, pause = yield from _once(upstream, request, http_request, sent, deadline, stop)
        if type(outcome) is Error and _refuses_thoughts(upstream, request, outcome):
            http_request = _prepared(upstream, request, sent)
            yield Emit(Retrying(outcome, 0.0))
            continue
        if type(outcome) is not Error or pause is None or sent.attempts >= upstream.retries.attempts:
            return outcome if isinstance(outcome, Error) else _noted(upstream, request, sent.losses, outcome)
        seconds = _pause(upstream, sent.attempts, pause)
        if deadline is not None and upstream.now() + seconds >= deadline:
            return outcome
        yield Emit(Retrying(outcome, seconds))
        yield Ask(_rest, (seconds, stop), awaited=_arest)
        if stop is not None and stop.is_set():
            return outcome


def _prepared(upstream: Upstream, request: Request, sent: Sent) -> HttpRequest:
    encoded = _encoded(upstream, request)
    _warn(upstream, request, encoded.losses)
    http_request = http_request_of(upstream.provider, encoded)
    sent.body, sent.losses = http_request.body, encoded.losses
    return http_request


def _refuses_thoughts(upstream: Upstream, request: Request, error: Error) -> bool:
    """Whether a server refuses thoughts that it has not refused yet: they are not sent again in this conversation."""
    refused = refused_thoughts(request, error, upstream.provider.dialect) - upstream.unread
    upstream.unread.update(refused)
    return bool(refused)


def _no_key(provider: Provider) -> Error:
    """Refuse to ask without a key, before anything is sent."""
    where = f"set {' or '.join(provider.env)}, or pass api_key"
    return Error("authentication", f"there is no key: {where} (api_key='' where the server wants none)", code="no_key")


def _noted(upstream: Upstream, request: Request, losses: tuple[Loss, ...], response: Response) -> Response:
    """Note what the answer shows of its model, and in it what its request could not say."""
    if calls_in_text(response.message) and not family_of(request.model).thoughts_bound:
        upstream.in_text.add(request.model)
    return replace(response, losses=losses) if losses else response


def _warn(upstream: Upstream, request: Request, losses: Sequence[Loss]) -> None:
    """Log what the provider is not told and the model would have minded, once for what is lost in the same way.

    A rule of a schema is left out: it holds all the same, for arguments are validated before a tool runs.
    """
    lost = [loss for loss in losses if loss.severity == "semantic" and not loss.concept.startswith("schema_")]
    kinds = frozenset((loss.concept, loss.action, loss.detail) for loss in lost)
    if not kinds or not upstream.warns or kinds in upstream.warned:
        return
    upstream.warned.add(kinds)
    said = "; ".join(map(str, lost[:_SHOWN_LOSSES])) + ("; ..." if len(lost) > _SHOWN_LOSSES else "")
    logger.warning("%s/%s is not told: %s", upstream.provider.name, request.model, said)


def _wording(upstream: Upstream, request: Request, given: Iterable[str]) -> Upstream:
    """Say how the model is told of its tools, and how it is read."""
    tools = [tool for tool in request.tools if type(tool) is Tool]
    native = upstream.provider.capabilities.native_tool_calls and request.model not in upstream.in_text
    form = upstream.provider.format if tools else ""
    if native and not form and not upstream.provider.completions and not (upstream.fallback and tools):
        return upstream
    said: Any = {"given": chain(given, texts_given(request)), "earlier": call_ids(request)}
    if upstream.provider.completions:
        return replace(upstream, dialect=raw_completions(upstream.provider, tools, **said))
    said |= {"format": form or "tagged", "readers": upstream.readers, "native": native}
    return replace(upstream, dialect=over(upstream.dialect, tools, **said))


def _encoded(upstream: Upstream, request: Request) -> Encoded:
    request, unread = without_thoughts(request, upstream.unread, upstream.provider.dialect)
    request, losses = adapted(request, upstream.provider)
    losses = (*unread, *losses)
    encoded: Encoded = upstream.dialect.encode_request(request, **quirks_for(request, upstream.provider))
    encoded = replace(encoded, losses=(*losses, *encoded.losses)) if losses else encoded
    for loss in encoded.losses:
        if loss.concept == "provider_state":
            raise InvalidField(loss.path, f"is not this provider's: {loss.detail}", path=upstream.provider.name)
    extra = {**asked_of_stream(upstream.provider), **upstream.extra} if request.stream else upstream.extra
    return replace(encoded, body={**extra, **encoded.body}) if extra else encoded


def _rest(seconds: float, stop: Stop | None) -> None:
    stopped = threading.Event()
    with contextlib.nullcontext() if stop is None else stop.telling(stopped.set):
        stopped.wait(seconds)


async def _arest(seconds: float, stop: Stop | None) -> None:
    with stop_future(stop) as stopped:
        await asyncio.wait([stopped], timeout=seconds)


def _pause(upstream: Upstream, attempt: int, asked: float) -> float:
    """Give the seconds to wait: what the server asked for, else longer each time, not all clients at once."""
    grown = upstream.retries.base * 2 ** (attempt - 1) * (0.5 + upstream.jitter() / 2)
    return min(asked if asked > 0 else grown, upstream.retries.longest)


_Once = tuple[Response | Error, float | None]


def _once(
    upstream: Upstream,
    request: Request,
    http_request: HttpRequest,
    sent: Sent,
    deadline: float | None,
    stop: Stop | None,
) -> Work[_Once]:
    """Try once; the seconds beside an error say that it may be tried again."""
    sent.status, sent.heard = None, None
    timeouts = upstream.timeouts
    if deadline is not None:
        timeouts = replace(timeouts, total=max(0.0, deadline - upstream.now()))
    try:
        answer = yield _asked(upstream.transport, "send", http_request, timeouts, stop)
    except TransportError as problem:
        return _failed(problem)
    sent.status = answer.status
    try:
        once = yield from _read_answer(upstream, request, answer, sent, deadline)
    except GeneratorExit:
        raise
    except BaseException:
        yield _asked(answer, "close")
        raise
    if type(once[0]) is Response:
        yield _asked(answer, "finish")
    else:
        yield _asked(answer, "close")
    return once


def _asked(holder: Any, name: str, *arguments: Any) -> Ask:
    """Ask a transport or its answer; one of sync code alone, or that needs no closing, lacks some of the names."""
    return Ask(getattr(holder, name, lambda: None), arguments, awaited=getattr(holder, f"a{name}", None))


def _read_answer(
    upstream: Upstream, request: Request, answer: HttpResponse, sent: Sent, deadline: float | None
) -> Work[_Once]:
    data = b""
    try:
        if not _OK <= answer.status < _FIRST_ELSE:
            return (yield from _read_error(upstream, answer))
        if request.stream:
            return (yield from _read_stream(upstream, request, answer, sent, deadline))
        data = yield from _read(upstream, answer, upstream.bounds.bytes, deadline)
        if sent.digest is not None:
            sent.digest.update(data)
        body = read_body(data)
        response = Settling(request).response(upstream.dialect.decode_response(body))
        return _error_in(upstream, response, body, answer, sent) or (response, None)
    except TransportError as problem:
        return _failed(problem)
    except InvalidBody as problem:
        message = f"the answer is not a JSON object: {problem}{_elsewhere(upstream, data, answer)}"
        return _scrubbed(upstream, Error("server", message, answer.status)), None


def _elsewhere(upstream: Upstream, data: bytes, answer: HttpResponse) -> str:
    """Say what came in the place of an object, without the key, and why that may be."""
    text = scrub(data[:_LOOKED_AT].decode(errors="replace"), (), [key_of(upstream.provider)])[:_EXCERPT].strip()
    if not text or text.startswith("{"):
        return ""
    kind = answer.headers.get("content-type", "no type")
    return f"; it is {text!r} ({kind[:_EXCERPT]}): does base_url lead to the API?"


def _error_in(
    upstream: Upstream, response: Response, body: dict[str, Any], answer: HttpResponse, sent: Sent
) -> _Once | None:
    """Give the error that a server tells under a good status, in the place of an answer or beside what came of one.

    A body without an answer is one, but for that of a prompt that Gemini blocked.
    """
    said = body.get("error")
    if (response.choices and (not said or response.finish_reason != "error")) or (not said and _BLOCKED in body):
        return None
    if response.choices:
        body, sent.heard = {"error": said}, Accumulator()
        for event in events_of(response):
            sent.heard.feed(event)
    error = upstream.dialect.decode_error(None, body, answer.headers)
    if not said and error.kind == "unknown":
        error = replace(error, kind="server", message=f"there is no answer in what came: {error.message}")
    error = replace(error, request_id=error.request_id or _request_id(upstream, answer.headers))
    return _scrubbed(upstream, error), (error.retry_after or 0.0) if error.retryable else None


def _error_of(problem: TransportError) -> Error:
    return Error(_KINDS[problem.kind], str(problem), code=f"transport_{problem.kind}")


def _failed(problem: TransportError) -> _Once:
    error = _error_of(problem)
    return error, 0.0 if _may_pass(error) else None


def _may_pass(error: Error) -> bool:
    """Whether the same request may have another outcome; an answer without an end would only be longer."""
    return error.retryable and error.code != "transport_too_long"


def _request_id(upstream: Upstream, headers: dict[str, str]) -> str | None:
    """Give what a server calls a request, without the key, which it may repeat there as well."""
    names = ("x-request-id", "request-id", "x-goog-request-id")
    request_id = next((headers[name] for name in names if name in headers), None)
    return None if request_id is None else scrub(request_id, (), [key_of(upstream.provider)])


def _read(upstream: Upstream, answer: HttpResponse, limit: int, deadline: float | None) -> Work[bytes]:
    data = bytearray()
    while piece := (yield _asked(answer, "read")):
        data += piece
        if len(data) > limit:
            raise TransportError("too_long", f"the answer has more than {limit} bytes")
        _check_time(upstream, deadline)
    return bytes(data)


def _read_beginning(answer: HttpResponse) -> Work[bytes]:
    """Read the body of an error; of a long one, its beginning."""
    data = bytearray()
    while len(data) < _BODY_OF_ERROR and (piece := (yield _asked(answer, "read"))):
        data += piece
    return bytes(data[:_BODY_OF_ERROR])


def _check_time(upstream: Upstream, deadline: float | None) -> None:
    """Hold a transport to the time that does not do it by itself."""
    if deadline is not None and upstream.now() > deadline:
        raise TransportError("timeout", f"the answer took longer than {upstream.timeouts.total:g} s")


def _read_error(upstream: Upstream, answer: HttpResponse) -> Work[_Once]:
    data = yield from _read_beginning(answer)
    try:
        body: Any = read_body(data)
    except InvalidBody:
        body = data.decode(errors="replace")
    error = upstream.dialect.decode_error(answer.status, body, answer.headers)
    error = replace(error, status=answer.status, request_id=error.request_id or _request_id(upstream, answer.headers))
    if _FIRST_ELSE <= answer.status < _FIRST_ERROR:
        error = replace(error, message=f"redirected, and no redirect is followed: {error.message}".rstrip(": "))
    return _scrubbed(upstream, error), (error.retry_after or 0.0) if _is_passing(error, answer.headers) else None


def _is_passing(error: Error, headers: dict[str, str]) -> bool:
    """Whether a request is worth sending again: as the server says, else by the kind of its error."""
    # openai 3.52.0 and anthropic 2.11.0, `_should_retry`, 2026-11-26
    said = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
    return error.retryable if said is None else said


def _scrubbed(upstream: Upstream, error: Error) -> Error:
    """Take the key, which a server may repeat, out of an error."""
    secrets = [key_of(upstream.provider)]
    return replace(error, **{name: scrub(getattr(error, name), (), secrets) for name in _SAID_OF_AN_ERROR})


class _Reading:
    """A stream as it is read: what it told, and whether a reader has got anything of it.

    What only surrounds an answer is held back until there is some of the answer itself, so that an error
    before it can still be tried again.
    """

    def __init__(self, upstream: Upstream, request: Request) -> None:
        self.upstream: Upstream = upstream
        self.settling = Settling(request)
        self.model = request.model
        self.accumulator = Accumulator()
        self.held: list[Any] = []
        self.begun = False
        self.complete = False
        self.error: Error | None = None
        self.bytes = self.events = self.characters = 0

    def check(self, piece: bytes) -> None:
        """Give up an answer that is longer than an answer may be."""
        self.bytes += len(piece)
        bounds = self.upstream.bounds
        if self.bytes > bounds.bytes:
            raise TransportError("too_long", f"the answer has more than {bounds.bytes} bytes")
        if self.events > bounds.events:
            raise TransportError("too_long", f"the answer has more than {bounds.events} events")

    def check_budget(self, sent: Sent) -> None:
        """Give up an answer that has used all that was left, by its own count or by its length."""
        if self.complete or (sent.tokens is None and sent.cost is None):
            return
        told = self.accumulator.usage or Usage()
        said = max(told["output_tokens"], self.characters // _CHARACTERS_OF_A_TOKEN)
        used = replace(told, input_tokens=told["input_tokens"], output_tokens=said)
        if sent.tokens is not None and used.total_tokens > sent.tokens:
            sent.over = f"the answer has used more than the {max(0, sent.tokens)} tokens that were left"
        elif sent.cost is not None and (cost(used, self.model) or 0.0) > sent.cost:
            sent.over = f"the answer has used more than the {max(0.0, sent.cost):.4f} USD that were left"
        if sent.over:
            raise TransportError("cancelled", sent.over)

    def take(self, events: Iterable[Any]) -> Work[None]:
        for event in events:
            kind = type(event)
            if kind is ErrorEnd:
                event = replace(event, error=_scrubbed(self.upstream, event.error))  # noqa: PLW2901 - less the key
                self.error = self.error or event.error
            elif kind is MessageEnd:
                self.complete = event.complete
            elif kind is CallStart or kind is CallEnd:
                event = self.settling.event(event)  # noqa: PLW2901 - as the conversation takes it
            elif kind in _WORDS:
                self.characters += len(event.fragment if kind is CallDelta else event.text)
            self.events += 1
            self.accumulator.feed(event)
            if self.begun:
                yield Emit(event)
                continue
            self.held.append(event)
            if kind not in _AROUND:
                self.begun = True
                yield from self.give()

    def give(self) -> Work[None]:
        held, self.held = self.held, []
        for event in held:
            yield Emit(event)

    def broken(self) -> Error | None:
        """Say what is wrong with the answer, if it is not whole."""
        reason = self.accumulator.response.finish_reason
        return self.error or ending(reason, complete=self.complete, failed=False)


def _read_stream(
    upstream: Upstream, request: Request, answer: HttpResponse, sent: Sent, deadline: float | None
) -> Work[_Once]:
    decoder, reading = upstream.dialect.decode_stream(), _Reading(upstream, request)
    sent.heard = reading.accumulator
    try:
        piece = b"-"
        while piece and not decoder.over:
            piece = yield _asked(answer, "read")
            if sent.digest is not None:
                sent.digest.update(piece)
            reading.check(piece)
            yield from reading.take(decoder.feed(piece) if piece else decoder.close())
            _check_time(upstream, deadline)
            reading.check_budget(sent)
    except TransportError as problem:
        reading.error = _error_of(problem)
        yield from reading.take(decoder.close())
    error = reading.broken()
    if error is None:
        yield from reading.give()
        return reading.accumulator.response, None
    again = error.retry_after or 0.0 if _may_pass(error) and not reading.begun else None
    return replace(error, request_id=error.request_id or _request_id(upstream, answer.headers)), again
