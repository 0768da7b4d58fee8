"""One request to one provider: bytes that pass as they are, or an exchange, and the answer on its way back.

Rules of this file:
- Where client and provider speak one wire, bytes go through as they are; else an exchange translates them.
- A page for people (a login, a proxy's error) is no answer of a model. Where another provider may be asked, neither is
  an answer that begins with an error or cannot be read.
- An answer that breaks off ends in the client's form of an error. One whose client is gone ends its provider's.
- Nothing of a client's choosing becomes a part of an address or a header, but by a table.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.families import family_of
from toolwire.encoding.finish import GAVE_UP
from toolwire.errors import LossyTranslation, ToolwireError
from toolwire.gateway.continuing import MOST, SeamedDecoder, comment, may_go_on, seam
from toolwire.gateway.endings import FORGOTTEN, Refused, error_in, error_of
from toolwire.gateway.headers import coming_down, going_up, kind_of, without_key
from toolwire.gateway.passing import (
    OtherAnswer,
    PassedStream,
    counts_in,
    may_be_signed,
    signatures_of,
    with_model,
    with_models,
    with_stand_ins,
    without_budget,
    without_shown,
)
from toolwire.gateway.prices import used
from toolwire.gateway.pulse import Pulse
from toolwire.gateway.reports import header_of
from toolwire.gateway.routes import Goal
from toolwire.gateway.stored import WIRE, text_of, whole
from toolwire.gateway.turn import JSON, Answering, Incoming, Served, Tools
from toolwire.gateway.wording import wording
from toolwire.providers.addressing import headers_of, key_of, url_of
from toolwire.translation import translate
from toolwire.translation.exchange import Exchange, ExchangedStream, exchange
from toolwire.translation.paths import stream_quirks, wants_stream
from toolwire.translation.translate import read_error
from toolwire.types import Error, ErrorEnd, ErrorKind, Loss, Message, MessageStart, Part, Text, Thinking, ToolCall
from toolwire.wire.bodies import members_of, read_body
from toolwire.wire.transport import AwaitedResponse, HttpRequest, TransportError

_STREAMS = {"ollama": "application/x-ndjson"}
_EVENTS = "text/event-stream; charset=utf-8"
_KEEP_ALIVES = {
    "openai-chat": b": waiting\n\n",
    "openai-responses": b": waiting\n\n",
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
}
_BROKE = "the provider's answer broke off"
_PASSING = frozenset({401, 402, 403, 408, 409, 429})  # what another provider may do better
_BRIEFLY = 0.2
_TAKEN = Loss("messages", "signature", "dropped", "made by another provider", "minor")
_UNBUDGETED = Loss("thinking", "thinking", "dropped", "the calls that are answered would begin with it")
_NO_WORD = 20  # a shorter key, such as `EMPTY`, may be a word of an answer
_FIRST_ELSE = 300
_NO_ERROR = frozenset({b"null", b"false", b'""', b"{}"})
_COMMENTS = 4096  # bytes that are no word of an answer yet
_PAGE = "text/html"
# What no other provider does better: the request itself is wrong.
_OF_REQUEST = frozenset({"invalid_request", "too_large", "context_length", "not_found"})
_STATUSES = {"connect": 502, "timeout": 504, "reset": 502, "protocol": 502, "cancelled": 499, "too_long": 502}


class Failure(Struct):
    """An error of a provider, as the client is told it."""

    goal: Goal
    status: int
    body: bytes
    headers: dict[str, str]
    may_pass: bool
    wait: float | None = None  # seconds after which it may be asked again
    too_long: bool = False

    async def tell(self, client: Answering, served: Served) -> None:
        """Answer with it."""
        served.status, served.ending = self.status, "error"
        length = {"content-type": JSON, "content-length": str(len(self.body))}
        await client.begin(self.status, {**self.headers, **length})
        await client.send(self.body, False)


class Leg(Struct):
    """An answer of a provider that goes on with that of another."""

    goal: Goal
    answer: AwaitedResponse
    served: Served
    settle: Callable[[], None]
    losses: tuple[Loss, ...]
    left: str


class Attempt:
    """One request to one provider."""

    goes_on: Callable[[Goal, str], Awaitable[Leg | None]] | None = None

    def __init__(
        self, tools: Tools, incoming: Incoming, goal: Goal, members: dict[str, Any], *, strict: bool, several: bool
    ) -> None:
        self.tools, self.incoming, self.goal, self.members = tools, incoming, goal, members
        self.strict, self.several = strict, several
        self.wire: Dialect = dialect(incoming.asked.dialect)
        same = incoming.asked.dialect == goal.provider.dialect and wording(goal.provider, goal.format) is None
        self.passes = incoming.asked.action != "answer" or same
        self.exchange: Exchange | None = None
        self.request_losses: tuple[Loss, ...] = ()
        self._key = key_of(goal.provider)
        self._secret = self._key if len(self._key) >= _NO_WORD else ""
        self._full_path = incoming.full_path

    async def ask(self, served: Served) -> "AwaitedResponse | Failure":
        """Send the request; give the answer's head, or what went wrong."""
        self._recall()
        path, body = await self._passed() if self.passes else await self._exchanged()
        provider = self.goal.provider
        headers = headers_of(provider)
        if self.passes:
            headers |= going_up(provider.dialect, self.incoming.headers)
        request = HttpRequest("POST", url_of(provider, path), headers, body)
        served.asked = True
        try:
            answer = await self.tools.transport.asend(request, self.tools.timeouts)
        except TransportError as problem:
            return self._broke(problem, before=True)
        if answer.status < _FIRST_ELSE and not answer.headers.get("content-type", "").startswith(_PAGE):
            served.answered = self.goal
            return answer
        try:
            return await self._failed(answer)
        except TransportError as problem:
            return self._broke(problem)
        finally:
            await answer.aclose()

    @property
    def _shared(self) -> bool:
        """Whether other providers speak this one's wire: what one has signed, another cannot read."""
        return self.goal.provider.dialect in self.tools.routes.shared

    def _recall(self) -> None:
        """Bring what a request goes on from, where its provider does not hold it."""
        if self.wire.DIALECT == WIRE and self.incoming.asked.action == "answer":
            body = whole(self.incoming.turns, self.incoming.body, self.goal.provider)
            if body is not None:
                self.incoming, self.members = replace(self.incoming, body=body), members_of(body)

    async def _passed(self) -> tuple[str, bytes]:
        """Give the path and the bytes of a request of the provider's own wire."""
        incoming, model = self.incoming, self.goal.model
        body = incoming.body
        if incoming.asked.action != "other":
            body = await self._without_others(body)
        members = self.members if body is incoming.body else members_of(body)
        if incoming.asked.dialect != "gemini":
            named = with_model(body, members, model)
            return incoming.path, body if model == text_of(self.members["model"]) else named
        verb = incoming.path.rpartition(":")[2]
        if incoming.asked.action != "answer":
            body = with_models(body, members, f"models/{model}")
        elif family_of(model).signed_calls:
            body = with_stand_ins(body, members)
        query = "?alt=sse" if "alt=sse" in incoming.query.split("&") else ""
        return f"/v1beta/models/{model}:{verb}{query}", body

    async def _without_others(self, body: bytes) -> bytes:
        """Take out what other providers have thought; the bytes stay where there is none."""
        taken = without_shown(self.wire.DIALECT, body, self.members)
        if self._shared and may_be_signed(taken):
            taken = await self._without_others_signatures(taken)
        if taken is body:
            return body
        self.request_losses = (_TAKEN,)
        settled = without_budget(taken) if self.wire.DIALECT == "anthropic" else taken
        if settled is not taken:
            self.request_losses = (_TAKEN, _UNBUDGETED)
        return settled

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
        return self.wire.encode_request(taken).json

    async def _exchanged(self) -> tuple[str, bytes]:
        """Give the path and the bytes of a request that is translated."""
        incoming, memory = self.incoming, self.tools.memory
        if self._counts_on_held():
            raise Refused.forgotten(self.wire.DIALECT)
        try:
            self.exchange = self._exchange_with(self.goal)
            found = await memory.find(incoming.owner, self.exchange.asks)
            if found:
                self.exchange.remember(found)
            encoded = self.exchange.encoded
            if self.strict:
                translate.refuse(encoded.losses)
        except LossyTranslation as problem:
            raise Refused("invalid_request", str(problem), code="lossy") from problem
        except ToolwireError as problem:
            raise Refused("invalid_request", str(problem)) from problem
        self.request_losses = encoded.losses
        return encoded.path, encoded.json

    def _counts_on_held(self) -> bool:
        """Whether the request is only the end of a conversation, whose beginning a server is believed to hold."""
        field = FORGOTTEN[self.wire.DIALECT][0] if self.wire.DIALECT in FORGOTTEN else ""
        return field in self.members and bytes(self.members[field]) != b"null"

    def _broke(self, problem: TransportError, *, before: bool = False) -> Failure:
        kind: ErrorKind = "timeout" if problem.kind == "timeout" else "server"
        what = "could not be reached" if before else "broke off its answer"
        error = Error(kind, f"{self.goal.provider.name} {what}: {problem.kind}", _STATUSES[problem.kind])
        return self._refused(error, _BRIEFLY if before and problem.kind in ("connect", "reset") else None)

    def _refused(self, error: Error, wait: float | None = None) -> Failure:
        """Give an error that stands in no body of the provider's wire."""
        reply = self.wire.encode_error(error)
        may_pass, too_long = error.kind not in _OF_REQUEST, error.kind == "context_length"
        return Failure(self.goal, reply.status, reply.json, reply.headers, may_pass, wait, too_long)

    def _no_answer(self, data: bytes, *, whole: bool) -> Failure | None:
        """Give what is wrong with the first bytes of an answer, or with all of one, where another may be asked."""
        if not self.several or self.incoming.asked.action != "answer" or not (whole or b"error" in data):
            return None
        there, error = self.goal.provider.speaks(), None
        try:
            if whole:
                failed = bytes(members_of(data).get("error") or b"null") not in _NO_ERROR
                error = there.decode_error(None, read_error(data)) if failed else None
            else:
                events = (event for event in there.decode_stream().feed(data) if type(event) is not MessageStart)
                first = next(events, None)
                error = first.error if isinstance(first, ErrorEnd) else None
        except ToolwireError:
            error = Error("server", f"the answer of {self.goal.provider.name} cannot be read")
        return None if error is None else self._refused(replace(error, status=None))

    async def _failed(self, answer: AwaitedResponse) -> Failure:
        """Read a provider's error; its key is taken out of it."""
        provider = self.goal.provider
        status, body, read = await error_in(answer, self._key)
        may_pass = status in _PASSING or status >= 500
        headers = coming_down(answer.headers, self._secret)
        said = provider.speaks().decode_error(status, read, answer.headers)
        told = Failure(self.goal, status, body, headers, may_pass, said.retry_after, said.kind == "context_length")
        if self.passes and answer.status >= 400 and not isinstance(read, str):
            return told
        if self.exchange is not None and answer.status >= 400 and body:
            reply = self.exchange.error(status, body, answer.headers)
        else:
            reply = self.wire.encode_error(error_of(provider, answer, read))
        return replace(told, status=reply.status, body=reply.json, headers=reply.headers)

    async def answer(self, answer: AwaitedResponse, client: Answering, served: Served) -> "Failure | None":
        """Give an answer to the client; what failed before its first byte is given back."""
        streams = self.exchange.streams if self.exchange is not None else self._wants_stream()
        served.status = 200
        try:
            if self.incoming.asked.action == "other":
                await self._answer_other(answer, client, served)
            elif streams:
                first = await self._first(answer)
                if isinstance(first, Failure):
                    await answer.aclose()
                    served.answered = None
                    return first
                await self._answer_stream(answer, first, client, served)
            elif (failure := await self._answer_whole(answer, client, served)) is not None:
                await answer.aclose()
                return failure
        except BaseException:
            await answer.aclose()
            raise
        await answer.afinish()
        return None

    async def _first(self, answer: AwaitedResponse) -> "bytes | Failure":
        """Wait a while for an answer's first piece, where another provider may still be asked."""
        if not self.several:
            return b""
        first = b""
        try:
            async with asyncio.timeout(self.tools.keep_alive):
                while not first or (first[:1] == b":" and b"data:" not in first and len(first) < _COMMENTS):
                    if not (piece := await answer.aread()):
                        return self._broke(TransportError("reset", "an answer without a word"))
                    first += piece
            return self._no_answer(first, whole=False) or first
        except TimeoutError:
            return first
        except TransportError as problem:
            return self._broke(problem)

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

    async def _answer_other(self, answer: AwaitedResponse, client: Answering, served: Served) -> None:
        """Give what is no answer of a model as it comes: vectors, sound, a stream of an older wire."""
        head = {"content-type": kind_of(answer.headers, JSON), "x-toolwire-model": self.goal.name}
        await client.begin(200, {**head, **coming_down(answer.headers, self._secret)})
        heard = OtherAnswer(self.wire, head["content-type"])
        try:
            while piece := await answer.aread():
                served.heard = heard.feed(piece)
                await client.send(piece, True)
        except TransportError as problem:
            raise Refused("server", f"{_BROKE}: {problem.kind}") from problem
        served.usage, served.ending = heard.usage, "answer"
        await client.send(b"", False)

    async def _answer_whole(self, answer: AwaitedResponse, client: Answering, served: Served) -> "Failure | None":
        data = bytearray()
        try:
            while piece := await answer.aread():
                data += piece
                _check_size(len(data), self.tools.bounds.bytes)
        except TransportError as problem:
            if self.goes_on is None:
                return self._broke(problem)
            lost = used(None, self.incoming.size, len(data), whole=False)
            served.before, served.answered = (*served.before, (lost, self.tools.prices.cost(self.goal, lost))), None
            return replace(self._broke(problem), wait=_BRIEFLY)
        body = bytes(data)
        if self._secret and self._secret.encode() in body:
            body = without_key(body, self._secret)
        if (failure := self._no_answer(body, whole=True)) is not None:
            served.answered = None
            return failure
        if self.exchange is None:
            await self._read_aside(body, served)
            kind = kind_of(answer.headers, JSON)
        else:
            body, kind = self._translated(body, served), JSON
        losses = self._told(served)
        served.ending = served.ending or "answer"
        served.heard = len(body) if served.usage is None else 0
        head = {
            "content-type": kind,
            "content-length": str(len(body)),
            **coming_down(answer.headers, self._secret),
            **losses,
        }
        served.said = body if served.status == 200 else b""
        await self._keep()
        await client.begin(served.status, head)
        await client.send(body, False)
        return None

    def _translated(self, body: bytes, served: Served) -> bytes:
        """Translate a whole answer; one that cannot be read is the provider's error."""
        shown: Any = self.exchange
        try:
            read = read_body(body)
            encoded = shown.response(read)
        except ToolwireError as problem:
            served.status, served.ending = 502, "error"
            return self.wire.encode_error(Error("server", f"the provider's answer cannot be read: {problem}", 502)).json
        served.usage = shown.usage
        if shown.failed or (read.get("error") and not shown.choices):
            reply = shown.error(200, read) if read.get("error") else self.wire.encode_error(GAVE_UP)
            served.status, served.ending = reply.status, "error"
            return reply.json
        self.request_losses = (*self.request_losses, *encoded.losses)
        return encoded.json  # type: ignore[no-any-return]

    async def _read_aside(self, body: bytes, served: Served) -> None:
        """Read what an answer that passes says of its cost, and who signed it."""
        if self.incoming.asked.action != "answer":
            return
        whole = self._shared and may_be_signed(body)
        try:
            response = self.wire.decode_response(msgspec.json.decode(body) if whole else counts_in(body))
        except (ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
            return
        served.usage = response.usage
        await self._note_maker(response.message)

    async def _note_maker(self, message: Message) -> None:
        if self._shared:
            maker = self.goal.provider.name.encode()
            pairs = [(mark, maker) for mark in signatures_of(message.parts)]
            if pairs:
                await self.tools.memory.keep(self.incoming.owner, pairs)

    async def _answer_stream(self, answer: AwaitedResponse, first: bytes, client: Answering, served: Served) -> None:
        seams, shown = self._seams(), self.exchange
        array = stream_quirks(self.wire.DIALECT, {}, self._full_path).get("stream_array", False)
        stream: ExchangedStream | PassedStream
        stream = PassedStream(self.wire, array=array) if shown is None else shown.stream()
        usual = JSON if array else _STREAMS.get(self.wire.DIALECT, _EVENTS)
        kind = kind_of(answer.headers, usual) if shown is None else usual
        head = {"content-type": kind, "cache-control": "no-store", "x-accel-buffering": "no"}
        await client.begin(200, {**head, **coming_down(answer.headers, self._secret), **self._told(served)})
        pulse = Pulse(self.tools.keep_alive, client, None if shown is None else _KEEP_ALIVES.get(self.wire.DIALECT))
        finished = False
        try:
            if seams is not None and isinstance(stream, ExchangedStream):
                stream.decoder = seams
                stream, problem = await self._hand_on_seamed(answer, first, stream, seams, pulse, served)
            else:
                problem = await self._hand_on(answer, first, stream, pulse)
            finished = problem is None
        finally:
            pulse.stop()
            if self.tools.audit is not None:
                served.said = stream.parts if seams is None else seams.parts
            if seams is None:
                _note(stream, served, finished=finished)
        error = None if problem is None else Error("server", f"{_BROKE}: {problem.kind}", code="incomplete")
        last = stream.close(error)
        if seams is None:
            _note(stream, served, finished=not stream.broken)
        served.ending = "broke off" if stream.broken else "continued" if served.legs else "answer"
        served.losses = (*served.losses, *stream.losses)
        if last is None:
            raise Refused("server", f"{_BROKE} where no word can follow")
        if self.passes:
            await self._note_maker(Message("assistant", stream.parts if seams is None else seams.parts))
        await self._keep()
        await client.send(last, False)

    async def _hand_on(
        self, answer: AwaitedResponse, first: bytes, stream: ExchangedStream | PassedStream, pulse: "Pulse"
    ) -> TransportError | None:
        """Hand an answer on, piece by piece; give what broke it off."""
        size, read, feed, send = 0, answer.aread, stream.feed, pulse.client.send
        key = self._secret.encode()
        try:
            while piece := first or await read():
                first = b""
                if key and key in piece:
                    piece = piece.replace(key, b"[hidden]")
                size = _check_size(size + len(piece), self.tools.bounds.bytes)
                if said := feed(piece):
                    pulse.beat()
                    await send(said, True)
        except TransportError as problem:
            return problem
        return None

    def _seams(self) -> SeamedDecoder | None:
        """Give what reads an answer that others may go on with, where the route says so and the request allows it."""
        if self.goes_on is None:
            return None
        with contextlib.suppress(ToolwireError):
            shown = self.exchange or self._exchange_with(self.goal)
            if may_go_on(shown.request):
                self.exchange = shown
                return SeamedDecoder(shown.target.decode_stream())
        return None

    def _exchange_with(self, goal: Goal) -> Exchange:
        """Take the request to a goal's wire, and its answer back."""
        incoming = self.incoming
        made = exchange(
            incoming.body,
            source=self.wire,
            target=goal.provider,
            path=self._full_path,
            model=goal.model,
            over=wording(goal.provider, goal.format),
            reuse=self.tools.reuse.of(incoming.owner),
        )
        if self.wire.DIALECT == WIRE != goal.provider.dialect:
            made.answer_id = f"resp_{incoming.identity.removeprefix('tw_')}"
        return made

    async def _hand_on_seamed(
        self,
        answer: AwaitedResponse,
        first: bytes,
        stream: ExchangedStream,
        seams: SeamedDecoder,
        pulse: "Pulse",
        served: Served,
    ) -> tuple[ExchangedStream, TransportError | None]:
        """Hand an answer on, and have others go on with a text that breaks off; give what breaks off at last."""
        now, settle, most = served, _nothing, MOST
        while True:
            try:
                problem = await self._hand_on(answer, first, stream, pulse)
                broke = seams.breaks() and (problem is None or problem.kind != "too_long")
                now.ending = "" if broke else "answer"
            finally:
                now.usage, now.heard = seams.usage, seams.heard
                settle()
                await answer.aclose()
            text = seams.text
            if self.goes_on is None or not broke or text is None or len(served.legs) == most:
                return stream, problem
            leg = await self.goes_on(self.goal, text)
            if leg is None:
                return stream, problem
            told = seam(self.goal, leg.goal, text)
            served.losses, served.legs = (*served.losses, *leg.losses, told), (*served.legs, leg.served)
            answer, first, now, settle = leg.answer, b"", leg.served, leg.settle
            self.goal, self.exchange = leg.goal, self._exchange_with(leg.goal)
            said = stream.tell(seams.join(self.exchange.target.decode_stream(), leg.left))
            stream = self.exchange.stream(stream, seams.begun)
            if words := said + comment(self.wire, told):
                await pulse.client.send(words, True)

    async def _keep(self) -> None:
        if self.exchange is not None and self.exchange.learned:
            await self.tools.memory.keep(self.incoming.owner, self.exchange.learned)


def _nothing() -> None:
    """Settle nothing: the first answer is settled with its request."""


def _note(stream: ExchangedStream | PassedStream, served: Served, *, finished: bool) -> None:
    """Note what a stream has said so far; who leaves once all is said has an answer."""
    served.usage, served.ending = stream.usage, "answer" if stream.whole else ""
    if not finished or served.usage is None:
        served.heard = _length(stream.parts)


def _length(parts: Iterable[Part]) -> int:
    """Count the characters that a model has written."""
    length = 0
    for part in parts:
        match part:
            case ToolCall(raw=raw, arguments=arguments):
                length += len(raw or str(arguments))
            case Text(text=str(text)) | Thinking(text=str(text)):
                length += len(text)
    return length


def _check_size(size: int, most: int) -> int:
    if size > most:
        raise TransportError("too_long", f"more than {most} bytes")
    return size


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
