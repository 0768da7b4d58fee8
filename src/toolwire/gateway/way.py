"""The way of one request to a model: up to a provider, and its answer back.

Rules of this file:
- Where client and provider speak one wire, bytes go through as they are; else an exchange translates them.
- Another provider is tried only before the first byte of an answer.
- An answer that breaks off ends in the client's form of an error. One whose client is gone ends its provider's.
- Nothing of a client's choosing becomes a part of an address or a header, but by a table.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.errors import LossyTranslation, ToolwireError
from toolwire.gateway.endings import FORGOTTEN, Refused
from toolwire.gateway.headers import coming_down, going_up
from toolwire.gateway.memory import Memory
from toolwire.gateway.passing import PassedStream, may_be_signed, members_of, signatures_of, with_model, with_models
from toolwire.gateway.reports import Reports, header_of
from toolwire.gateway.routes import Goal, Routes
from toolwire.gateway.stored import WIRE, Keeper, Place, is_kept, whole
from toolwire.providers.addressing import headers_of, key_of, url_of
from toolwire.translation import translate
from toolwire.translation.exchange import Exchange, ExchangedStream, exchange
from toolwire.translation.paths import Asked, wants_stream
from toolwire.types import Error, ErrorKind, Loss, Message, Part, Thinking, ToolCall, Usage
from toolwire.wire.bodies import read_body
from toolwire.wire.transport import Bounds, HttpRequest, HttpResponse, Timeouts, Transport, TransportError

JSON = "application/json"
_STREAMS = {"ollama": "application/x-ndjson"}
_EVENTS = "text/event-stream; charset=utf-8"
_KEEP_ALIVES = {
    "openai-chat": b": waiting\n\n",
    "openai-responses": b": waiting\n\n",
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
}
_OPENAI = {"openai-chat", "openai-responses"}
_ERROR_BYTES = 1024 * 1024
_FIRST_ELSE = 300
_STATUSES = {"connect": 502, "timeout": 504, "reset": 502, "protocol": 502, "cancelled": 499, "too_long": 502}


class Tools(Struct):
    """What the way of every request needs."""

    routes: Routes
    transport: Transport
    memory: Memory
    reports: Reports
    timeouts: Timeouts = Timeouts()
    bounds: Bounds = Bounds()
    keep_alive: float = 15.0
    stall: float = 60.0


class Incoming(Struct):
    """A request as it came in, and who made it."""

    identity: str
    asked: Asked
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    owner: str = ""
    held: Memory | None = None  # what a connection keeps of its own turns


class Served(Struct):
    """What became of a request: for the log, the figures and the bill."""

    model: str = ""
    goal: str = ""
    status: int = 0
    usage: Usage | None = None
    ending: str = ""
    losses: tuple[Loss, ...] = ()


class Answering(Struct):
    """How the client is answered: a head once, then pieces, then an end."""

    begin: Callable[[int, dict[str, str]], Awaitable[None]]
    send: Callable[[bytes, bool], Awaitable[None]]


async def lead(tools: Tools, incoming: Incoming, client: Answering, served: Served) -> None:
    """Lead a request to its end."""
    members = members_of(incoming.body)
    name = incoming.asked.subject or _text(members.get("model"))
    served.model = name
    if not name:
        raise Refused("invalid_request", "model must say which model is asked", code="missing_model")
    way = tools.routes.find(name)
    if way is None:
        message = f"the model {name[:80]!r} is not known here; ask for a route, or for PROVIDER/MODEL"
        raise Refused("not_found", message, code="model_not_found")
    strict = way.settings.strict or incoming.headers.get("x-toolwire-strict") == "1"
    last: _Failure | None = None
    goals = way.goals
    if incoming.asked.action != "answer":
        goals = tuple(goal for goal in goals if _knows(goal.provider.dialect, incoming.asked))
        if not goals:
            raise Refused("not_found", f"{name[:80]!r} has no provider that knows {incoming.path[:200]}")
    for goal in goals:
        attempt = _Attempt(tools, incoming, goal, members, strict=strict)
        served.goal = goal.name
        outcome = await attempt.ask()
        if not isinstance(outcome, _Failure):
            await attempt.answer(outcome, client, served)
            return
        last = outcome
        if not outcome.may_pass:
            break
    if last is not None:
        await last.tell(client, served)


def _knows(there: str, asked: Asked) -> bool:
    """Whether a provider knows what is no request to a model: it is of the wire, or of the same vendor."""
    return asked.dialect == there or (asked.action == "other" and {asked.dialect, there} <= _OPENAI)


class _Failure(Struct):
    """An error of a provider, as the client is told it."""

    status: int
    body: bytes
    headers: dict[str, str]
    may_pass: bool

    async def tell(self, client: Answering, served: Served) -> None:
        """Answer with it."""
        served.status, served.ending = self.status, "error"
        length = {"content-type": JSON, "content-length": str(len(self.body))}
        await client.begin(self.status, {**self.headers, **length})
        await client.send(self.body, False)


class _Attempt:
    """One request to one provider."""

    def __init__(self, tools: Tools, incoming: Incoming, goal: Goal, members: dict[str, Any], *, strict: bool) -> None:
        self.tools, self.incoming, self.goal, self.members, self.strict = tools, incoming, goal, members, strict
        self.wire: Dialect = dialect(incoming.asked.dialect)
        self.passes = incoming.asked.action != "answer" or incoming.asked.dialect == goal.provider.dialect
        self.exchange: Exchange | None = None
        self.request_losses: tuple[Loss, ...] = ()
        self._full_path = incoming.path + (f"?{incoming.query}" if incoming.query else "")
        self._place: Place | None = None
        self._given = members

    async def ask(self) -> "HttpResponse | _Failure":
        """Send the request; give the answer's head, or what went wrong."""
        await self._recall()
        path, body = await self._passed() if self.passes else await self._exchanged()
        provider = self.goal.provider
        headers = headers_of(provider)
        if self.passes:
            headers |= going_up(provider.dialect, self.incoming.headers)
        request = HttpRequest("POST", url_of(provider, path), headers, body)
        try:
            answer = await self.tools.transport.asend(request, self.tools.timeouts)
        except TransportError as problem:
            return self._broke(problem)
        if answer.status < _FIRST_ELSE:
            return answer
        try:
            return await self._failed(answer)
        except TransportError as problem:
            return self._broke(problem)
        finally:
            await answer.aclose()

    async def _recall(self) -> None:
        """Bring what a request goes on from, where its provider does not hold it."""
        if self.wire.DIALECT != WIRE or self.incoming.asked.action != "answer":
            return
        self._given, held = self.members, self.incoming.held
        memories = [self.tools.memory, *([held] if held is not None else [])]
        self._place = Place(memories, self.incoming.owner)
        body = await whole(self._place, self.incoming.body, self.members, self.goal.provider)
        if body is not None:
            self.incoming, self.members = replace(self.incoming, body=body), members_of(body)

    def _keeping(self, client: "Answering") -> "Answering":
        """Keep an answer on its way to the client, if it wants that."""
        if self._place is None or not is_kept(self._given):
            return client
        keeper = Keeper(self._place, self._given, self.goal.provider.name, passes=self.passes, send=client.send)
        return Answering(client.begin, keeper.send)

    async def _passed(self) -> tuple[str, bytes]:
        """Give the path and the bytes of a request of the provider's own wire."""
        incoming, model = self.incoming, self.goal.model
        body = incoming.body
        shared = self.goal.provider.dialect in self.tools.routes.shared and incoming.asked.action != "other"
        if shared and may_be_signed(body):
            body = await self._without_others_signatures(body)
        if incoming.asked.dialect != "gemini":
            given = _text(self.members["model"])
            named = with_model(body, self.members if body is incoming.body else members_of(body), model)
            return incoming.path, body if model == given else named
        verb = incoming.path.rpartition(":")[2]
        if incoming.asked.action != "answer":
            body = with_models(body, self.members, f"models/{model}")
        query = "?alt=sse" if "alt=sse" in incoming.query.split("&") else ""
        return f"/v1beta/models/{model}:{verb}{query}", body

    async def _without_others_signatures(self, body: bytes) -> bytes:
        """Take out what another provider has signed; the bytes stay where there is none."""
        request = self.wire.decode_request(msgspec.json.decode(body), self._full_path)
        marks = [mark for message in request.context.messages for mark in signatures_of(message.parts)]
        makers = await self.tools.memory.find(self.incoming.owner, marks)
        foreign = {mark for mark, maker in makers.items() if maker.decode() != self.goal.provider.name}
        if not foreign:
            return body
        messages = [_unsigned(message, foreign) for message in request.context.messages]
        taken = replace(request, context=replace(request.context, messages=messages))
        self.request_losses = (Loss("messages", "signature", "dropped", "made by another provider", "minor"),)
        return self.wire.encode_request(taken).json

    async def _exchanged(self) -> tuple[str, bytes]:
        """Give the path and the bytes of a request that is translated."""
        incoming, memory = self.incoming, self.tools.memory
        if self._counts_on_held():
            raise Refused.forgotten(self.wire.DIALECT)
        try:
            self.exchange = exchange(
                incoming.body,
                source=self.wire,
                target=self.goal.provider,
                path=self._full_path,
                model=self.goal.model,
            )
            if self.wire.DIALECT == WIRE:
                self.exchange.answer_id = f"resp_{incoming.identity.removeprefix('tw_')}"
            found = await memory.find(incoming.owner, self.exchange.asks)
            if found:
                self.exchange.remember(found)
            encoded = self.exchange.encoded
        except LossyTranslation:
            raise
        except ToolwireError as problem:
            raise Refused("invalid_request", str(problem)) from problem
        self.request_losses = encoded.losses
        if self.strict:
            _refuse_losses(encoded.losses)
        return encoded.path, encoded.json

    def _counts_on_held(self) -> bool:
        """Whether the request is only the end of a conversation, whose beginning a server is believed to hold."""
        field = FORGOTTEN[self.wire.DIALECT][0] if self.wire.DIALECT in FORGOTTEN else ""
        return field in self.members and bytes(self.members[field]) != b"null"

    def _broke(self, problem: TransportError) -> _Failure:
        kind: ErrorKind = "timeout" if problem.kind == "timeout" else "server"
        error = Error(kind, f"{self.goal.provider.name} could not be reached: {problem.kind}", _STATUSES[problem.kind])
        reply = self.wire.encode_error(error)
        return _Failure(reply.status, reply.json, {}, may_pass=True)

    async def _failed(self, answer: HttpResponse) -> _Failure:
        """Read a provider's error; its key is taken out of it."""
        data = bytearray()
        while len(data) < _ERROR_BYTES and (piece := await answer.aread()):
            data += piece
        body = bytes(data[:_ERROR_BYTES])
        key = key_of(self.goal.provider).encode()
        if key:
            body = body.replace(key, b"[hidden]")
        status = answer.status if answer.status >= 400 else 502
        may_pass = status in (408, 409, 429) or status >= 500
        headers = coming_down(answer.headers)
        if self.passes and answer.status >= 400:
            return _Failure(status, body, headers, may_pass)
        if self.exchange is not None:
            reply = self.exchange.error(answer.status, body, answer.headers)
        else:
            reply = translate.error(status, body, self.wire, self.wire, answer.headers)
        return _Failure(reply.status, reply.json, reply.headers, may_pass)

    async def answer(self, answer: HttpResponse, client: Answering, served: Served) -> None:
        """Give an answer to the client."""
        client = self._keeping(client)
        streams = self.exchange.streams if self.exchange is not None else self._wants_stream()
        served.status = 200
        try:
            if self.incoming.asked.action == "other":
                await self._answer_other(answer, client, served)
            elif streams:
                await self._answer_stream(answer, client, served)
            else:
                await self._answer_whole(answer, client, served)
        except BaseException:
            await answer.aclose()
            raise
        await answer.afinish()

    def _wants_stream(self) -> bool:
        """Whether what passes through comes as a stream."""
        said = self.members.get("stream")
        body = {} if said is None else {"stream": bytes(said) == b"true"}
        return self.incoming.asked.action == "answer" and wants_stream(self.wire.DIALECT, body, self.incoming.path)

    def _told(self, served: Served) -> dict[str, str]:
        """Give the headers that say what happened."""
        incoming = self.incoming
        wires = f"{self.wire.DIALECT}>{self.goal.provider.dialect}"
        served.losses = self.request_losses
        new = self.tools.reports.new(incoming.owner, wires, served.losses)
        counted = header_of(new)
        return {"x-toolwire-model": self.goal.name, **({"x-toolwire-losses": counted} if counted else {})}

    async def _answer_other(self, answer: HttpResponse, client: Answering, served: Served) -> None:
        """Give what is no answer of a model as it comes: vectors, sound, a stream of an older wire."""
        head = {"content-type": answer.headers.get("content-type", JSON), "x-toolwire-model": self.goal.name}
        await client.begin(200, {**head, **coming_down(answer.headers)})
        try:
            while piece := await answer.aread():
                await client.send(piece, True)
        except TransportError as problem:
            raise Refused("server", f"the provider's answer broke off: {problem.kind}") from problem
        served.ending = "answer"
        await client.send(b"", False)

    async def _answer_whole(self, answer: HttpResponse, client: Answering, served: Served) -> None:
        data = bytearray()
        try:
            while piece := await answer.aread():
                data += piece
                _check_size(len(data), self.tools.bounds.bytes)
        except TransportError as problem:
            await self._broke(problem).tell(client, served)
            return
        body = bytes(data)
        if self.exchange is None:
            await self._read_aside(body, served)
            kind = answer.headers.get("content-type", JSON)
        else:
            body, kind = self._translated(body, served), JSON
        losses = self._told(served)
        served.ending = served.ending or "answer"
        head = {"content-type": kind, "content-length": str(len(body)), **coming_down(answer.headers), **losses}
        await client.begin(served.status, head)
        await client.send(body, False)
        await self._keep()

    def _translated(self, body: bytes, served: Served) -> bytes:
        """Translate a whole answer; one that cannot be read is the provider's error."""
        shown: Any = self.exchange
        try:
            read = read_body(body)
            encoded = shown.response(read)
        except ToolwireError as problem:
            served.status, served.ending = 502, "error"
            return self.wire.encode_error(Error("server", f"the provider's answer cannot be read: {problem}", 502)).json
        if read.get("error") and not shown.choices:
            served.status, served.ending = 502, "error"
            return shown.error(502, read).json  # type: ignore[no-any-return]
        served.usage = shown.usage
        self.request_losses = (*self.request_losses, *encoded.losses)
        return encoded.json  # type: ignore[no-any-return]

    async def _read_aside(self, body: bytes, served: Served) -> None:
        """Read what an answer that passes says of its cost, and who signed it."""
        if self.incoming.asked.action != "answer":
            return
        try:
            response = self.wire.decode_response(msgspec.json.decode(body))
        except (ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
            return
        served.usage = response.usage
        await self._note_maker(response.message)

    async def _note_maker(self, message: Message) -> None:
        if self.goal.provider.dialect in self.tools.routes.shared:
            maker = self.goal.provider.name.encode()
            pairs = [(mark, maker) for mark in signatures_of(message.parts)]
            if pairs:
                await self.tools.memory.keep(self.incoming.owner, pairs)

    async def _answer_stream(self, answer: HttpResponse, client: Answering, served: Served) -> None:
        shown = self.exchange
        array = _is_array(self.wire, self.incoming.query)
        stream: ExchangedStream | PassedStream
        stream = PassedStream(self.wire, array=array) if shown is None else shown.stream()
        kind = answer.headers.get("content-type") if shown is None else None
        kind = kind or (JSON if array else _STREAMS.get(self.wire.DIALECT, _EVENTS))
        head = {"content-type": kind, "cache-control": "no-store", "x-accel-buffering": "no"}
        await client.begin(200, {**head, **coming_down(answer.headers), **self._told(served)})
        pulse = _Pulse(self.tools.keep_alive, client, None if shown is None else _KEEP_ALIVES.get(self.wire.DIALECT))
        error: Error | None = None
        read, feed, send = answer.aread, stream.feed, client.send
        try:
            while piece := await read():
                if said := feed(piece):
                    pulse.beat()
                    await send(said, True)
        except TransportError as problem:
            error = Error("server", f"the provider's answer broke off: {problem.kind}", code="incomplete")
        finally:
            pulse.stop()
        last = stream.close(error)
        served.usage, served.ending = stream.usage, "broke off" if error is not None else "answer"
        served.losses = (*served.losses, *stream.losses)
        if last is None:
            raise Refused("server", "the provider's answer broke off where no word can follow")
        await send(last, False)
        if isinstance(stream, PassedStream):
            await self._note_maker(Message("assistant", stream.parts))
        await self._keep()

    async def _keep(self) -> None:
        if self.exchange is not None and self.exchange.learned:
            await self.tools.memory.keep(self.incoming.owner, self.exchange.learned)


class _Pulse:
    """Says that the connection lives while a model thinks; between two pieces, never within one."""

    def __init__(self, seconds: float, client: Answering, words: bytes | None) -> None:
        self._seconds, self._client, self._words = seconds, client, words
        self._last = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Future[None] | None = None
        self._timer = self._loop.call_later(seconds, self._look) if words is not None else None

    def beat(self) -> None:
        """Note that something was said."""
        self._last = time.monotonic()

    def _look(self) -> None:
        silent = time.monotonic() - self._last
        if silent >= self._seconds and self._words is not None:
            self._last, silent = time.monotonic(), 0.0
            self._task = asyncio.ensure_future(self._client.send(self._words, True))
            self._task.add_done_callback(_pass_over)
        self._timer = self._loop.call_later(self._seconds - silent, self._look)

    def stop(self) -> None:
        """Say nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


def _pass_over(task: "asyncio.Future[None]") -> None:
    """Leave a failure to whoever sends next: it meets the same one."""
    if not task.cancelled():
        task.exception()


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise TransportError("too_long", f"more than {most} bytes")


def _refuse_losses(losses: tuple[Loss, ...]) -> None:
    """Refuse what a strict request would lose."""
    lost = [loss for loss in losses if loss.severity == "semantic"]
    if lost:
        raise Refused("invalid_request", str(LossyTranslation(lost)), code="lossy")


def _unsigned(message: Message, foreign: set[str]) -> Message:
    """Give a message without what others have signed."""
    if foreign.isdisjoint(signatures_of(message.parts)):
        return message
    parts: list[Part] = []
    for part in message.parts:
        theirs = not foreign.isdisjoint(signatures_of([part]))
        match part:
            case Thinking() if theirs:
                continue
            case ToolCall() if theirs:
                parts.append(replace(part, opaque=None))
            case _:
                parts.append(part)
    return replace(message, content=parts)


def _is_array(wire: Dialect, query: str) -> bool:
    return wire.DIALECT == "gemini" and "alt=sse" not in query.split("&")


def _text(raw: Any) -> str:
    """Read a member that is a text; anything else is none."""
    try:
        value = msgspec.json.decode(raw) if raw is not None else ""
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return value if isinstance(value, str) else ""
