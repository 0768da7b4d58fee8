"""One exchange with a provider, as steps for sync and async code: a request out, a response or an error back.

Rules of this file:
- It is tried again only before anything of an answer was given, only for errors that pass, and never more
  often than said. `Retry-After` counts, up to a limit.
- A stream is read by its decoder; an error inside of it is an error as well. What had come of an answer that
  broke off is kept, beside its error.
- A model that writes its calls into its text is told of its tools there from then on, by the same client.
- A key goes into one header and nowhere else. Whatever ends an exchange, its connection is let go of.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.client.adapting import adapted, quirks_for
from toolwire.errors import InvalidBody, InvalidField
from toolwire.providers import Provider
from toolwire.scrubbing import scrub
from toolwire.streams.accumulation import Accumulator
from toolwire.text_tagged import calls_in_text, over
from toolwire.types import (
    ChoiceEnd,
    Encoded,
    Error,
    ErrorEnd,
    ErrorKind,
    MessageDelta,
    MessageEnd,
    MessageStart,
    OpaqueDelta,
    Request,
    Response,
    Tool,
    UsageDelta,
)
from toolwire.wire.bodies import read_body
from toolwire.wire.transport import (
    MAX_ANSWER,
    HttpRequest,
    HttpResponse,
    Stop,
    Timeouts,
    Transport,
    TransportError,
)
from toolwire.work.waiting import Ask, Emit, Work

OK = 200
FIRST_ERROR = 400
LONGEST_WAIT = 60.0
BODY_OF_ERROR = 1024 * 1024
AGENT = "toolwire"
KINDS: dict[str, ErrorKind] = {
    "timeout": "timeout",
    "connect": "server",
    "reset": "server",
    "protocol": "invalid_request",
    "cancelled": "unknown",
}
# What a wire does not tell of a stream unless it is asked to.
ASKED_OF_A_STREAM: dict[str, dict[str, Any]] = {"openai-chat": {"stream_options": {"include_usage": True}}}
SAID_OF_AN_ERROR = ("message", "type", "code", "param", "request_id", "opaque")
AROUND = (MessageStart, MessageDelta, UsageDelta, OpaqueDelta, ChoiceEnd, ErrorEnd, MessageEnd)


class Retries(Struct, frozen=True):
    """How often a request is tried in all, and how long the pauses are: `base` seconds, doubled each time."""

    attempts: int = 3
    base: float = 0.5
    longest: float = LONGEST_WAIT


class Upstream(Struct):
    """A provider, and how it is reached; `now` is a clock, and `jitter` gives a number from 0 to 1.

    With `fallback`, calls are read in the text of a model that should not have to write them there; `in_text`
    are the models that did, and `readers` the forms that are read besides the protocol. `extra` is in each
    body, where the request itself says nothing.
    """

    provider: Provider
    dialect: Any
    transport: Transport
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    now: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random
    fallback: bool = True
    readers: tuple[str, ...] = ()
    in_text: set[str | None] = set()
    extra: dict[str, Any] = {}


class Sent(Struct):
    """What an exchange was so far: its request as it went out, how often, and what came of its answer.

    `digest` is fed with the bytes of the answer, where somebody wants to know them again.
    """

    encoded: Encoded | None = None
    attempts: int = 0
    status: int | None = None
    request_id: str | None = None
    told: Accumulator | None = None
    digest: Any = None

    @property
    def partial(self) -> Response | None:
        """What had come of an answer that is given as it comes."""
        response = self.told.response if self.told is not None else None
        return response if response is not None and response.choices else None


def http_request_of(provider: Provider, encoded: Encoded) -> HttpRequest:
    """Give the HTTP request of an encoded one."""
    base, path = provider.base_url.rstrip("/"), encoded.path
    for before, after in provider.paths:
        if path.startswith(before):
            path = after + path.removeprefix(before)
    # A base that ends with what the path begins with says it for both: `https://api.openai.com/v1`.
    version = path[: path.find("/", 1)]
    path = path.removeprefix(version) if len(version) > 1 and base.endswith(version) else path
    if provider.query:
        mark = "&" if "?" in path else "?"
        path += mark + "&".join(f"{name}={value}" for name, value in provider.query.items())
    headers = {"content-type": "application/json", "accept": "*/*", "user-agent": AGENT, **provider.headers}
    key = (provider.key or "").strip()
    if provider.auth is not None and key:
        headers[provider.auth] = f"Bearer {key}" if provider.auth == "Authorization" else key
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise InvalidField(name, "has characters that no header can carry; is the key right?", path=provider.name)
    return HttpRequest("POST", base + path, headers, encoded.json)


def exchanging(
    line: Upstream, request: Request, sent: Sent | None = None, stop: Stop | None = None
) -> Work[Response | Error]:
    """Send a request, again where that may help, and give what came of it; a stream's events are emitted."""
    sent = Sent() if sent is None else sent
    line = _wording(line, request)
    sent.encoded = _encoded(line, request)
    http_request = http_request_of(line.provider, sent.encoded)
    deadline = None if line.timeouts.total is None else line.now() + line.timeouts.total
    while True:
        sent.attempts += 1
        outcome, pause = yield from _once(line, request, http_request, sent, deadline, stop)
        if type(outcome) is not Error or pause is None or sent.attempts >= line.retries.attempts:
            if type(outcome) is Response and calls_in_text(outcome.message):
                line.in_text.add(request.model)
            return outcome
        seconds = _pause(line, sent.attempts, pause)
        if deadline is not None and line.now() + seconds >= deadline:
            return outcome
        yield Ask(_rest, (seconds, stop), awaited=_arest)
        if stop is not None and stop.is_set():
            return outcome


def _wording(line: Upstream, request: Request) -> Upstream:
    """Say how the model is told of its tools, and how it is read."""
    tools = [tool for tool in request.tools if type(tool) is Tool]
    native = line.provider.capabilities.native_tool_calls and request.model not in line.in_text
    if native and not (line.fallback and tools):
        return line
    return replace(line, dialect=over(line.dialect, tools, readers=line.readers, native=native))


def _encoded(line: Upstream, request: Request) -> Encoded:
    request, losses = adapted(request, line.provider)
    encoded: Encoded = line.dialect.encode_request(request, **quirks_for(request, line.provider))
    encoded = replace(encoded, losses=(*losses, *encoded.losses)) if losses else encoded
    for loss in encoded.losses:
        if loss.concept == "provider_state":
            raise InvalidField(loss.path, f"is not this provider's: {loss.detail}", path=line.provider.name)
    extra = line.extra
    if request.stream and line.provider.quirks.get("stream_usage", True):
        extra = {**ASKED_OF_A_STREAM.get(line.provider.dialect, {}), **extra}
    return replace(encoded, body={**extra, **encoded.body}) if extra else encoded


def _rest(seconds: float, stop: Stop | None) -> None:
    if stop is None:
        time.sleep(seconds)
        return
    stopped = threading.Event()
    with stop.telling(stopped.set):
        stopped.wait(seconds)


async def _arest(seconds: float, stop: Stop | None) -> None:
    if stop is None:
        await asyncio.sleep(seconds)
        return
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(stopped.set)

    with stop.telling(tell), contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopped.wait()


def _pause(line: Upstream, attempt: int, asked: float) -> float:
    """Give the seconds to wait: what the server asked for, else longer each time, not all clients at once."""
    grown = line.retries.base * 2 ** (attempt - 1) * (0.5 + line.jitter() / 2)
    return min(asked if asked > 0 else grown, line.retries.longest)


Once = tuple[Response | Error, float | None]


def _once(
    line: Upstream,
    request: Request,
    http_request: HttpRequest,
    sent: Sent,
    deadline: float | None,
    stop: Stop | None,
) -> Work[Once]:
    """Try once; the seconds beside an error say that it may be tried again."""
    sent.status, sent.request_id, sent.told = None, None, None
    timeouts = line.timeouts
    if deadline is not None:
        timeouts = replace(timeouts, total=max(0.0, deadline - line.now()))
    try:
        answer = yield Ask(line.transport.send, (http_request, timeouts, stop), awaited=line.transport.asend)
    except TransportError as problem:
        return _failed(problem)
    sent.status, sent.request_id = answer.status, _request_id(answer.headers)
    try:
        once = yield from _read_answer(line, request, answer, sent, deadline)
    except GeneratorExit:
        raise
    except BaseException:
        yield Ask(answer.close, awaited=answer.aclose)
        raise
    ways = (answer.finish, answer.afinish) if type(once[0]) is Response else (answer.close, answer.aclose)
    yield Ask(ways[0], awaited=ways[1])
    return once


def _read_answer(
    line: Upstream, request: Request, answer: HttpResponse, sent: Sent, deadline: float | None
) -> Work[Once]:
    try:
        if answer.status >= FIRST_ERROR or answer.status < OK:
            return (yield from _read_error(line, answer, sent))
        if request.stream:
            return (yield from _read_stream(line, answer, sent, deadline))
        data = yield from _read(line, answer, MAX_ANSWER, deadline)
        if sent.digest is not None:
            sent.digest.update(data)
        return line.dialect.decode_response(read_body(data)), None
    except TransportError as problem:
        return _failed(problem)
    except InvalidBody as problem:
        return Error("server", f"the answer is no JSON object: {problem}", answer.status), None


def _error_of(problem: TransportError) -> Error:
    return Error(KINDS[problem.kind], str(problem), code=f"transport_{problem.kind}")


def _failed(problem: TransportError) -> Once:
    error = _error_of(problem)
    return error, 0.0 if error.retryable else None


def _request_id(headers: dict[str, str]) -> str | None:
    names = ("x-request-id", "request-id", "x-goog-request-id")
    return next((headers[name] for name in names if name in headers), None)


def _read(line: Upstream, answer: HttpResponse, limit: int, deadline: float | None) -> Work[bytes]:
    """Read a body to its end."""
    data = bytearray()
    while piece := (yield Ask(answer.read, awaited=answer.aread)):
        data += piece
        if len(data) > limit:
            raise TransportError("protocol", f"the answer has more than {limit} bytes")
        _check_time(line, deadline)
    return bytes(data)


def _check_time(line: Upstream, deadline: float | None) -> None:
    """Hold a transport to the time that does not do it by itself."""
    if deadline is not None and line.now() > deadline:
        raise TransportError("timeout", f"the answer took longer than {line.timeouts.total:g} s")


def _read_error(line: Upstream, answer: HttpResponse, sent: Sent) -> Work[Once]:
    data = yield from _read(line, answer, BODY_OF_ERROR, None)
    try:
        body: Any = read_body(data)
    except InvalidBody:
        body = data.decode(errors="replace")
    error = _scrubbed(line, line.dialect.decode_error(answer.status, body))
    error = replace(error, status=answer.status, request_id=error.request_id or sent.request_id)
    return error, retry_after(answer.headers) if error.retryable else None


def _scrubbed(line: Upstream, error: Error) -> Error:
    """Take the key, which a server may repeat, out of an error."""
    secrets = [(line.provider.key or "").strip()]
    return replace(error, **{name: scrub(getattr(error, name), (), secrets) for name in SAID_OF_AN_ERROR})


def retry_after(headers: dict[str, str], now: float | None = None) -> float:
    """Read how many seconds a server wants to be left alone; 0 where it does not say."""
    said = headers.get("retry-after-ms")
    try:
        if said is not None:
            return max(0.0, float(said) / 1000)
        said = headers.get("retry-after", "0").strip()
        if said.replace(".", "", 1).isdigit():
            return float(said)
        return max(0.0, parsedate_to_datetime(said).timestamp() - (time.time() if now is None else now))
    except (ValueError, TypeError, OverflowError):
        return 0.0


class _Reading:
    """A stream as it is read: what it told, and whether a reader has got anything of it.

    What only surrounds an answer is held back until there is some of the answer itself, so that an error
    before it can still be tried again.
    """

    def __init__(self, line: Upstream) -> None:
        self.line = line
        self.told = Accumulator()
        self.held: list[Any] = []
        self.begun = False
        self.complete = False
        self.error: Error | None = None

    def take(self, events: Iterable[Any]) -> Work[None]:
        for event in events:
            kind = type(event)
            if kind is ErrorEnd:
                event = replace(event, error=_scrubbed(self.line, event.error))  # noqa: PLW2901 - less the key
                self.error = self.error or event.error
            elif kind is MessageEnd:
                self.complete = event.complete
            self.told.feed(event)
            if self.begun:
                yield Emit(event)
                continue
            self.held.append(event)
            if kind not in AROUND:
                self.begun = True
                yield from self.give()

    def give(self) -> Work[None]:
        held, self.held = self.held, []
        for event in held:
            yield Emit(event)

    def broken(self) -> Error | None:
        """Say what is wrong with the answer, if it is not whole."""
        response = self.told.response
        if self.error is not None or self.complete or response.finish_reason not in (None, "incomplete"):
            return self.error
        return Error("server", "the answer broke off before it was whole", code="incomplete")


def _read_stream(line: Upstream, answer: HttpResponse, sent: Sent, deadline: float | None) -> Work[Once]:
    """Read a stream, and emit its events as they come."""
    decoder, reading = line.dialect.decode_stream(), _Reading(line)
    sent.told = reading.told
    try:
        piece = b"-"
        while piece and not decoder.over:
            piece = yield Ask(answer.read, awaited=answer.aread)
            if sent.digest is not None:
                sent.digest.update(piece)
            yield from reading.take(decoder.feed(piece) if piece else decoder.close())
            _check_time(line, deadline)
    except TransportError as problem:
        reading.error = _error_of(problem)
        yield from reading.take(decoder.close())
    error = reading.broken()
    if error is None:
        yield from reading.give()
        return reading.told.response, None
    return replace(error, request_id=error.request_id or sent.request_id), _again(error, reading)


def _again(error: Error, reading: _Reading) -> float | None:
    return 0.0 if error.retryable and not reading.begun else None
