"""A provider's answer on its way to the client: whole, as a stream, or as it comes.

Rules of this file:
- A page for people (a login, a proxy's error) is no answer of a model. Where another provider may be asked, neither is
  an answer that begins with an error or cannot be read.
- An answer that breaks off ends in the client's form of an error. One whose client is gone ends its provider's.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import Dialect
from toolwire.encoding.finish import GAVE_UP
from toolwire.errors import ToolwireError
from toolwire.gateway.attempt import BRIEFLY, Attempt, Failure
from toolwire.gateway.context import JSON, Answering, Incoming, Served, Tools
from toolwire.gateway.continuing import MOST, SeamedDecoder, comment, may_go_on, seam
from toolwire.gateway.errors import Refused
from toolwire.gateway.headers import coming_down, kind_of
from toolwire.gateway.keepalive import Pulse
from toolwire.gateway.masking import MaskedStream
from toolwire.gateway.passthrough import (
    OtherAnswer,
    PassedStream,
    counts_in,
    error_frames,
    may_be_signed,
    signatures_of,
)
from toolwire.gateway.reports import header_of
from toolwire.gateway.routes import Goal
from toolwire.translation.exchange import Exchange
from toolwire.translation.exchange_answer import ExchangedStream
from toolwire.translation.paths import stream_quirks, wants_stream
from toolwire.translation.translate import read_error
from toolwire.types import Error, ErrorEnd, Loss, MessageStart, Opaque, Part, Response, Text, Thinking, ToolCall
from toolwire.wire.bodies import members_of, read_body
from toolwire.wire.transport import AwaitedResponse, TransportError

_BROKE = "the provider's answer broke off"
_NO_ERROR = frozenset({b"null", b"false", b'""', b"{}"})
_PART = 16_384  # bytes of an answer that are translated and sent at a time
_COMMENTS = 4096  # bytes that are no word of an answer yet


class Leg(Struct):
    """An answer of a provider that goes on with that of another."""

    goal: Goal
    answer: AwaitedResponse
    served: Served
    settle: Callable[[], None]
    losses: tuple[Loss, ...]
    left: str


_GoesOn = Callable[[Goal, str], Awaitable[Leg | None]]
"""Asks who may go on with a text that broke off at a goal."""


class Delivery:
    """The answer to one request, on its way to the client."""

    def __init__(
        self,
        attempt: Attempt,
        answer: AwaitedResponse,
        client: Answering,
        served: Served,
        goes_on: _GoesOn | None = None,
    ) -> None:
        self.attempt: Attempt = attempt
        self.answer: AwaitedResponse = answer
        self.client: Answering = client
        self.served: Served = served
        self.goes_on = goes_on
        self.tools: Tools = attempt.tools
        self.incoming: Incoming = attempt.incoming
        self.wire: Dialect = attempt.wire
        self._begins = time.monotonic_ns()
        self._secrets = attempt.tools.secrets_of(attempt.goal.provider)
        self._masking = MaskedStream(self._secrets)  # of what is encoded
        audit = attempt.tools.audit
        self._holds = audit is not None and audit.stops and attempt.incoming.asked.action == "answer"
        self._held, self._sent = b"", b"\n"  # the end of a stream, which waits for its record; what was sent last

    async def deliver(self) -> Failure | None:
        """Give the answer to the client; what failed before its first byte is given back."""
        answer, exchange = self.answer, self.attempt.exchange
        streams = exchange.streams if exchange is not None else self._wants_stream()
        self.served.status = 200
        try:
            failure = await self._deliver(streams=streams)
            if failure is not None:
                await answer.aclose()
                return failure
        except BaseException:
            await answer.aclose()
            raise
        await answer.afinish()
        return None

    async def _deliver(self, *, streams: bool) -> Failure | None:
        if not streams and self.incoming.asked.action != "other":
            return await self._deliver_whole()
        first = await self._first()
        if isinstance(first, Failure):
            self.served.answered = None
            return first
        await (self._deliver_stream(first) if streams else self._deliver_other(first))
        return None

    async def _first(self) -> bytes | Failure:
        """Wait a while for the first words of an answer: before them, another provider can still be asked."""
        first = b""
        try:
            async with asyncio.timeout(self.tools.keep_alive):
                while _says_nothing(first):
                    if not (piece := await self.answer.aread()):
                        return self.attempt.empty(self.answer, self.served)
                    first += piece
            return self._no_answer(first, whole=False) or first
        except TimeoutError:
            return first
        except TransportError as problem:
            return self._broken_off(problem, len(first))

    def _no_answer(self, data: bytes, *, whole: bool) -> Failure | None:
        """Give what is wrong with the first bytes of an answer, or with all of one, where another may be asked."""
        if not self.attempt.several or self.incoming.asked.action != "answer" or not (whole or b"error" in data):
            return None
        provider, error = self.attempt.goal.provider, None
        try:
            if whole:
                failed = _has_error(data)
                error = provider.speaks().decode_error(None, read_error(data)) if failed else None
            else:
                events = provider.speaks().decode_stream().feed(data)
                first = next((event for event in events if type(event) is not MessageStart), None)
                error = first.error if isinstance(first, ErrorEnd) else None
        except ToolwireError:
            error = Error("server", f"the answer of {provider.name} cannot be read")
            self.attempt.bill_failure(self.served, len(data))
        return None if error is None else self.attempt.refused(replace(error, status=None))

    def _wants_stream(self) -> bool:
        """Whether what passes through comes as a stream."""
        said = self.attempt.members.get("stream")
        body = {} if said is None else {"stream": bytes(said) == b"true"}
        return self.incoming.asked.action == "answer" and wants_stream(self.wire.DIALECT, body, self.incoming.path)

    def _head(self, kind: str) -> dict[str, str]:
        """Give the headers of an answer: its kind, what its provider says, who answers, and what was lost."""
        attempt, served = self.attempt, self.served
        served.losses = attempt.request_losses
        wires = f"{self.wire.DIALECT}>{attempt.goal.provider.dialect}"
        new = self.tools.reports.new(self.incoming.owner, wires, served.losses) if served.losses else ()
        head = {"content-type": kind, **coming_down(self.answer.headers, self._secrets)}
        head["x-toolwire-model"] = attempt.goal.name
        return {**head, "x-toolwire-losses": counted} if (counted := header_of(new)) else head

    async def _deliver_other(self, first: bytes) -> None:
        """Give what is no answer of a model as it comes: vectors, sound, a stream of an older wire."""
        served, send = self.served, self.client.send
        kind = kind_of(self.answer.headers, JSON, self._secrets)
        head = {"content-type": kind, "x-toolwire-model": self.attempt.goal.name}
        await self.client.begin(200, {**head, **coming_down(self.answer.headers, self._secrets)})
        heard, masking = OtherAnswer(self.wire, kind), MaskedStream(self._secrets)
        try:
            while piece := first or await self.answer.aread():
                first = b""
                served.heard = heard.feed(piece)
                for part in _in_parts(masking.feed(piece)):
                    await send(part, True)
        except TransportError as problem:
            raise Refused("server", f"{_BROKE}: {problem.kind}") from problem
        served.usage, served.ending = heard.usage, "answer"
        await send(masking.close(), False)

    async def _deliver_whole(self) -> Failure | None:
        """Give an answer that comes in one piece."""
        served, attempt = self.served, self.attempt
        data = bytearray()
        try:
            while piece := await self.answer.aread():
                data += piece
                served.heard = _check_size(len(data), self.tools.bounds.bytes)
        except TransportError as problem:
            broken = self._broken_off(problem, len(data))
            return broken if self.goes_on is None else replace(broken, wait=BRIEFLY)  # it is asked for again
        body = self._secrets.mask(bytes(data))
        failure = self._no_answer(body, whole=True) if body.strip() else attempt.empty(self.answer, served)
        if failure is not None:
            served.answered = None
            return failure
        if attempt.exchange is None:
            await self._read_aside(body)
            kind = kind_of(self.answer.headers, JSON, self._secrets)
        else:
            translated = await self.tools.offloader.run(len(body), self._translated, attempt.exchange, body)
            body, kind = self._secrets.mask(translated), JSON
        head = self._head(kind)
        head["content-length"] = str(len(body))
        served.ending = served.ending or "answer"
        served.heard = len(data) if served.usage is None else 0
        with contextlib.suppress(ToolwireError):
            _note_refusal(served, failed=served.usage is None and _has_error(data))
        served.said = body if served.status == 200 else b""
        await self._keep()
        if served.status == 200:
            await self.client.end()
        await self.client.begin(served.status, head)
        await self.client.send(body, False)
        return None

    def _broken_off(self, problem: TransportError, size: int) -> Failure:
        """Return what broke off an answer before the client has any of it. What was received is paid for."""
        self.attempt.bill_failure(self.served, size)
        return self.attempt.broke(problem)

    def _translated(self, exchange: Exchange, body: bytes) -> bytes:
        """Translate a whole answer; one that cannot be read is the provider's error."""
        served = self.served
        try:
            read = read_body(body)
            encoded = exchange.response(read)
        except ToolwireError as problem:
            served.status, served.ending = 502, "error"
            return self.wire.encode_error(Error("server", f"the provider's answer cannot be read: {problem}", 502)).json
        served.usage = exchange.usage
        if exchange.failed or (read.get("error") and not exchange.choices):
            reply = exchange.error(200, read) if read.get("error") else self.wire.encode_error(GAVE_UP)
            served.status, served.ending = reply.status, "error"
            return reply.json
        self.attempt.request_losses = (*self.attempt.request_losses, *encoded.losses)
        if self.wire.TRAITS.has_durations:
            return msgspec.json.encode({**encoded.body, **self._taken()})
        return encoded.json

    def _taken(self) -> dict[str, int]:
        """Give the nanoseconds that an answer took: clients of Ollama divide by them."""
        now, began = time.monotonic_ns(), self.attempt.began
        waited, spoke = self._begins - began, now - self._begins
        return {"total_duration": now - began, "prompt_eval_duration": waited, "eval_duration": spoke}

    async def _read_aside(self, body: bytes) -> None:
        """Read what an answer that passes says of its cost, and who signed it."""
        if self.incoming.asked.action != "answer":
            return
        whole = self.attempt.shares_wire and may_be_signed(body)
        try:
            response = await self.tools.offloader.run(len(body), self._decoded, body, whole)
        except (ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
            return
        self.served.usage = response.usage
        await self._note_maker(response.message.parts)

    def _decoded(self, body: bytes, whole: bool) -> Response:
        return self.wire.decode_response(msgspec.json.decode(body) if whole else counts_in(body))

    async def _note_maker(self, parts: list[Part]) -> None:
        """Remember who has signed what stands in an answer, where others speak its wire too."""
        if self.attempt.shares_wire:
            maker = self.attempt.goal.provider.name.encode()
            pairs = [(mark, maker) for mark in signatures_of(parts)]
            if pairs:
                await self.tools.memory.keep(self.incoming.owner, pairs)

    async def _keep(self) -> None:
        """Keep what an answer has that its client's wire has no place for."""
        exchange = self.attempt.exchange
        if exchange is not None and exchange.memory_updates:
            await self.tools.memory.keep(self.incoming.owner, exchange.memory_updates)

    async def _deliver_stream(self, first: bytes) -> None:
        """Give an answer that comes in pieces."""
        served, seams, attempt = self.served, await self._seams(), self.attempt
        shown = attempt.exchange
        array = stream_quirks(self.wire.DIALECT, {}, attempt.full_path).get("stream_array", False)
        stream: ExchangedStream | PassedStream
        stream = PassedStream(self.wire, array=array) if shown is None else shown.stream()
        if isinstance(stream, ExchangedStream) and self.wire.TRAITS.has_durations:
            stream.at_end = lambda: Opaque(self.wire.DIALECT, self._taken())
        pulse = await self._begin_stream(first, JSON if array else self.wire.TRAITS.stream_type)
        finished = False
        try:
            if seams is not None and isinstance(stream, ExchangedStream):
                stream.decoder = seams
                stream, problem = await self._hand_on_seamed(first, stream, seams, pulse)
            else:
                problem = await self._hand_on(self.answer, first, stream, pulse)
            finished = problem is None
        finally:
            pulse.stop()
            self._note_received(stream, seams, finished=finished)
        error = None if problem is None else Error("server", f"{_BROKE}: {problem.kind}", code="incomplete")
        last = stream.close(error)
        if seams is None:
            _note(stream, served, finished=not stream.broken)
        if self.tools.audit is not None:
            served.said = stream.parts if seams is None else seams.parts
        served.ending = "broke off" if stream.broken else "continued" if served.legs else "answer"
        served.losses = (*served.losses, *stream.losses)
        if last is None:
            raise Refused("server", f"{_BROKE} where no word can follow")
        if attempt.passes:
            await self._note_maker(stream.parts if seams is None else seams.parts)
        await self._keep()
        await self._end_stream(self._masking.feed(last) + self._masking.close(), array=array)

    async def _end_stream(self, last: bytes, *, array: bool) -> None:
        """Send the end of a stream; it is an error if the calls of the answer have to be recorded and cannot be."""
        try:
            await self.client.end()
        except Refused as refused:
            if array or not self._sent.endswith(b"\n"):
                raise
            self.served.ending = "broke off"
            await self.client.send(error_frames(self.wire, refused.error), False)
        else:
            await self.client.send(self._held + last, False)

    def _note_received(
        self, stream: ExchangedStream | PassedStream, seams: SeamedDecoder | None, *, finished: bool
    ) -> None:
        """Note what was received by the time at which a stream ended, or its client left."""
        if self.tools.audit is not None:
            self.served.said = stream.parts if seams is None else seams.parts
        if seams is None:
            _note(stream, self.served, finished=finished)
            _note_refusal(self.served, failed=stream.failed and not self.served.heard)

    async def _begin_stream(self, first: bytes, usual: str) -> Pulse:
        """Send the head of a stream; `usual` is its content type, where the provider's own is of another wire."""
        shown = self.attempt.exchange
        head = self._head(kind_of(self.answer.headers, usual, self._secrets) if shown is None else usual)
        await self.client.begin(200, {**head, "cache-control": "no-store", "x-accel-buffering": "no"})
        waiting = None if shown is None else self.wire.TRAITS.keep_alive or None
        if waiting is not None and _says_nothing(first):  # `_first` has waited as long as the pulse does
            await self.client.send(waiting, True)
        return Pulse(self.tools.keep_alive, self.client, waiting)

    async def _hand_on(
        self, answer: AwaitedResponse, first: bytes, stream: ExchangedStream | PassedStream, pulse: Pulse
    ) -> TransportError | None:
        """Forward an answer, piece by piece; return what broke it off."""
        size, read, broke = 0, answer.aread, None
        masking = MaskedStream(self.tools.secrets_of(self.attempt.goal.provider))
        try:
            while piece := first or await read():
                first = b""
                size = _check_size(size + len(piece), self.tools.bounds.bytes)
                for part in _in_parts(masking.feed(piece)):
                    await self._forward(part, stream, pulse)
        except TransportError as problem:
            broke = problem
        if left := masking.close():
            await self._forward(left, stream, pulse)
        return broke

    async def _forward(self, part: bytes, stream: ExchangedStream | PassedStream, pulse: Pulse) -> None:
        """Send what a part of the provider's answer says in the client's wire, unless its end is held back."""
        said = stream.feed(part)
        if not said:
            return
        pulse.beat()
        said = said if isinstance(stream, PassedStream) else self._masking.feed(said)
        if not (self._holds and self._hold(stream, said)):
            await pulse.client.send(said, True)

    def _hold(self, stream: ExchangedStream | PassedStream, said: bytes) -> bool:
        """Hold the end of a stream back until its calls are recorded; return True if these bytes belong to it."""
        field = self.wire.TRAITS.ending_field
        ends = stream.whole or (field != b"" and field in said)
        if ends or self._held:
            self._held += said
            return True
        self._sent = said
        return False

    async def _seams(self) -> SeamedDecoder | None:
        """Give what reads an answer that others may go on with, where the route says so and the request allows it."""
        if self.goes_on is None:
            return None
        attempt = self.attempt
        with contextlib.suppress(ToolwireError):
            shown = attempt.exchange or await attempt.exchange_with(attempt.goal)
            if may_go_on(shown.request):
                attempt.exchange = shown
                return SeamedDecoder(shown.target.decode_stream())
        return None

    async def _hand_on_seamed(
        self, first: bytes, stream: ExchangedStream, seams: SeamedDecoder, pulse: Pulse
    ) -> tuple[ExchangedStream, TransportError | None]:
        """Hand an answer on, and have others go on with a text that breaks off; give what breaks off at last."""
        attempt, answer, served = self.attempt, self.answer, self.served
        now, settle, words = served, _nothing, b""
        while True:
            try:
                if words:
                    await pulse.client.send(words, True)
                problem = await self._hand_on(answer, first, stream, pulse)
                broke = seams.breaks() and (problem is None or problem.kind != "too_long")
                now.ending = "" if broke else "answer"
            finally:
                now.usage, now.heard = seams.usage, seams.heard
                _note_refusal(now, failed=seams.failed and not seams.heard)
                settle()
                await answer.aclose()
            text = seams.text
            if self.goes_on is None or not broke or text is None or len(served.legs) == MOST:
                return stream, problem
            leg = await self.goes_on(attempt.goal, self._secrets.mask_text(text))
            if leg is None:
                return stream, problem
            told = seam(attempt.goal, leg.goal, text)
            served.losses, served.legs = (*served.losses, *leg.losses, told), (*served.legs, leg.served)
            answer, first, now, settle = leg.answer, b"", leg.served, leg.settle
            attempt.goal, attempt.exchange = leg.goal, await attempt.exchange_with(leg.goal)
            self._secrets |= self.tools.secrets_of(leg.goal.provider)
            self._masking = MaskedStream(self._secrets)
            said = stream.encode_events(seams.join(attempt.exchange.target.decode_stream(), leg.left))
            stream = attempt.exchange.stream(stream, seams.begun)
            words = self._masking.feed(said + comment(self.wire, told))


def _in_parts(piece: bytes) -> Iterable[bytes]:
    """Cut a large piece: what is written of it is held until a slow client has read it."""
    if len(piece) <= _PART:
        return (piece,)
    return (piece[start : start + _PART] for start in range(0, len(piece), _PART))


def _nothing() -> None:
    """Settle nothing: the first answer is settled with its request."""


def _note(stream: ExchangedStream | PassedStream, served: Served, *, finished: bool) -> None:
    """Note what a stream has said so far; who leaves once all is said has an answer."""
    served.usage, served.ending = stream.usage, "answer" if stream.whole else ""
    if not finished or served.usage is None:
        counted = stream.words if isinstance(stream, PassedStream) else 0
        served.heard = counted + _length(stream.parts)


def _note_refusal(served: Served, *, failed: bool) -> None:
    """Note that an answer was nothing but an error: it costs nothing, whatever its status."""
    if failed and served.usage is None:
        served.answered = None


def _has_error(data: bytes | bytearray) -> bool:
    """Return True if a whole answer is an error."""
    return bytes(members_of(bytes(data)).get("error") or b"null") not in _NO_ERROR


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


def _says_nothing(first: bytes) -> bool:
    """Return True if an answer has begun with blanks and comments alone."""
    words = first.lstrip()
    return len(first) < _COMMENTS and (not words or (words[:1] == b":" and b"data:" not in words))


def _check_size(size: int, most: int) -> int:
    if size > most:
        raise TransportError("too_long", f"more than {most} bytes")
    return size
