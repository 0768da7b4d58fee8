"""Delivery of a provider's answer to the client: as a whole, as a stream, or as it arrives.

Rules of this file:
- A page for people (a login, the error of a proxy) is no answer of a model. If another provider can be asked, an answer
  that begins with an error or cannot be read is a failure as well.
- An answer that breaks off ends with an error in the client's wire. If the client leaves, the gateway ends the
  provider's request.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import Dialect
from toolwire.encoding.finish import PROVIDER_FAILED
from toolwire.errors import ToolwireError
from toolwire.gateway.attempt import RETRY_DELAY, Attempt, Failure
from toolwire.gateway.context import JSON, ClientRequest, GatewayContext, RequestOutcome, ResponseWriter
from toolwire.gateway.continuing import MAX_CONTINUATIONS, JoiningDecoder, may_continue, seam_comment, seam_loss
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.headers import content_type_of, headers_to_client
from toolwire.gateway.keepalive import KeepAlive
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
from toolwire.gateway.routes import Candidate
from toolwire.translation.exchange import Exchange
from toolwire.translation.exchange_answer import ExchangedStream
from toolwire.translation.paths import stream_quirks, wants_stream
from toolwire.types import (
    Encoded,
    Error,
    ErrorEnd,
    Loss,
    MessageStart,
    Opaque,
    Part,
    Response,
    Text,
    Thinking,
    ToolCall,
)
from toolwire.wire.bodies import members_of, read_body, read_error_body
from toolwire.wire.transport import AwaitedResponse, TransportError

_BROKE_OFF = "the provider's answer broke off"
_EMPTY_ERRORS = frozenset({b"null", b"false", b'""', b"{}"})
_PART_BYTES = 16_384  # bytes of an answer that are translated and sent at once
_COMMENT_BYTES = 4096  # bytes of comments after which an answer counts as begun


class Continuation(Struct):
    """The answer of a provider that continues the broken answer of another one.

    `settle` settles its estimate. `unsent_blanks` are the blanks at the end of the text that were not sent to it.
    """

    candidate: Candidate
    answer: AwaitedResponse
    outcome: RequestOutcome
    settle: Callable[[], None]
    losses: tuple[Loss, ...]
    unsent_blanks: str


class FollowUp(Struct):
    """The answer to the request after a search of deferred tools. `settle` settles its estimate."""

    answer: AwaitedResponse
    outcome: RequestOutcome
    settle: Callable[[], None]


_AskAgain = Callable[[Encoded], Awaitable[FollowUp | Failure]]
"""Sends the request after a search of deferred tools."""
_ContinueAnswer = Callable[[Candidate, str], Awaitable[Continuation | None]]
"""Asks another provider to continue the text that a candidate broke off."""


class Delivery:
    """Delivers the answer of one provider to the client.

    With `continue_answer`, another provider may continue a text that breaks off. `ask_again` sends the requests that an
    answer needs if its model searches deferred tools.
    """

    def __init__(
        self,
        attempt: Attempt,
        answer: AwaitedResponse,
        client: ResponseWriter,
        outcome: RequestOutcome,
        continue_answer: _ContinueAnswer | None = None,
        ask_again: _AskAgain | None = None,
    ) -> None:
        self.attempt: Attempt = attempt
        self.answer: AwaitedResponse = answer
        self.client: ResponseWriter = client
        self.outcome: RequestOutcome = outcome
        self.continue_answer = continue_answer
        self.ask_again = ask_again
        self.context: GatewayContext = attempt.context
        self.client_request: ClientRequest = attempt.client_request
        self.wire: Dialect = attempt.wire
        self._headers_at = time.monotonic_ns()
        self._secrets = attempt.context.secrets_of(attempt.candidate.provider)
        self._masking = MaskedStream(self._secrets)  # masks the encoded answer
        audit = attempt.context.audit
        self._holds_end = audit is not None and audit.stops and attempt.client_request.endpoint.action == "answer"
        self._beginning = b""  # what was read of the answer and is not yet forwarded
        self._held_end = b""  # the end of a stream, held until its calls are recorded
        self._last_sent = b"\n"

    async def deliver(self) -> Failure | None:
        """Deliver the answer. Return the failure if it failed before its first byte was sent to the client."""
        answer, exchange = self.answer, self.attempt.exchange
        streams = exchange.streams if exchange is not None else self._wants_stream()
        self.outcome.status = 200
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
        if not streams and self.client_request.endpoint.action != "other":
            return await self._deliver_whole()
        if failure := await self._read_beginning():
            self.outcome.answered_by = None
            return failure
        await (self._deliver_stream() if streams else self._deliver_other())
        return None

    async def _read_beginning(self) -> Failure | None:
        """Wait a limited time for the first content of an answer. Return the failure if there is none.

        Before it, the gateway can still ask another provider.
        """
        try:
            async with asyncio.timeout(self.context.keep_alive):
                while _has_no_content(self._beginning):
                    if not (piece := await self.answer.aread()):
                        return self.attempt.empty_answer(self.answer, self.outcome)
                    self._beginning += piece
            return self._failure_in(self._beginning, complete=False)
        except TimeoutError:
            return None
        except TransportError as problem:
            return self._broken_off(problem, len(self._beginning))

    def _take_beginning(self) -> bytes:
        """Return what was read of the answer and is not yet forwarded. It is not held while a slow client reads."""
        beginning, self._beginning = self._beginning, b""
        return beginning

    def _failure_in(self, data: bytes, *, complete: bool) -> Failure | None:
        """Return the failure if the first bytes of an answer, or a `whole` answer, are an error or cannot be read.

        Return None if no other provider can be asked.
        """
        if (
            not self.attempt.has_alternatives
            or self.client_request.endpoint.action != "answer"
            or not (complete or b"error" in data)
        ):
            return None
        provider, error = self.attempt.candidate.provider, None
        try:
            if complete:
                failed = _has_error(data)
                error = provider.speaks().decode_error(None, read_error_body(data)) if failed else None
            else:
                events = provider.speaks().decode_stream().feed(data)
                first = next((event for event in events if type(event) is not MessageStart), None)
                error = first.error if isinstance(first, ErrorEnd) else None
        except ToolwireError:
            error = Error("server", f"the answer of {provider.name} cannot be read")
            self.attempt.bill_failure(self.outcome, len(data))
        return None if error is None else self.attempt.failure_for(replace(error, status=None))

    def _wants_stream(self) -> bool:
        """Return True if the client wants a stream from a provider of its own wire."""
        stream_member = self.attempt.members.get("stream")
        body = {} if stream_member is None else {"stream": bytes(stream_member) == b"true"}
        return self.client_request.endpoint.action == "answer" and wants_stream(
            self.wire.DIALECT, body, self.client_request.path
        )

    def _head(self, content_type: str) -> dict[str, str]:
        """Return the headers of the answer: its content type, those of the provider, the model, and the losses."""
        attempt, outcome = self.attempt, self.outcome
        outcome.losses = attempt.request_losses
        wires = f"{self.wire.DIALECT}>{attempt.candidate.provider.dialect}"
        unreported = (
            self.context.reports.new(self.client_request.owner, wires, outcome.losses) if outcome.losses else ()
        )
        head = {"content-type": content_type, **headers_to_client(self.answer.headers, self._secrets)}
        head["x-toolwire-model"] = attempt.candidate.name
        return {**head, "x-toolwire-losses": counted} if (counted := header_of(unreported)) else head

    async def _deliver_other(self) -> None:
        """Deliver an answer that no model wrote as it arrives: vectors, audio, a stream of an older wire."""
        outcome, send = self.outcome, self.client.send
        content_type = content_type_of(self.answer.headers, JSON, self._secrets)
        head = {"content-type": content_type, "x-toolwire-model": self.attempt.candidate.name}
        await self.client.begin(200, {**head, **headers_to_client(self.answer.headers, self._secrets)})
        passing, masking = OtherAnswer(self.wire, content_type), MaskedStream(self._secrets)
        try:
            while piece := self._take_beginning() or await self.answer.aread():
                outcome.characters = passing.feed(piece)
                for part in _in_parts(masking.feed(piece)):
                    await send(part, True)
        except TransportError as problem:
            raise GatewayError("server", f"{_BROKE_OFF}: {problem.kind}") from problem
        outcome.usage, outcome.ending = passing.usage, "answer"
        await send(masking.close(), False)

    async def _deliver_whole(self) -> Failure | None:
        """Deliver an answer that is not streamed. Return the failure if nothing was sent to the client."""
        outcome, attempt = self.outcome, self.attempt
        data = bytearray()
        try:
            await self._read_whole(self.answer, data, outcome)
        except TransportError as problem:
            broken = self._broken_off(problem, len(data))
            # Nothing was sent to the client: with `continue = true` the gateway retries the same provider.
            return broken if self.continue_answer is None else replace(broken, wait=RETRY_DELAY)
        body = self._secrets.mask(bytes(data))
        failure = self._failure_in(body, complete=True) if body.strip() else attempt.empty_answer(self.answer, outcome)
        if failure is not None:
            outcome.answered_by = None
            return failure
        if attempt.exchange is None:
            await self._read_metadata(body)
            content_type = content_type_of(self.answer.headers, JSON, self._secrets)
        else:
            translated = await self.context.offloader.run(len(body), self._translated, attempt.exchange, body, outcome)
            if attempt.exchange.answers_searches:
                followed = await self._followed(attempt.exchange, translated)
                if isinstance(followed, Failure):
                    return followed
                translated = followed
            body, content_type = self._secrets.mask(translated), JSON
        head = self._head(content_type)
        head["content-length"] = str(len(body))
        outcome.ending = outcome.ending or "answer"
        outcome.characters = len(data) if outcome.usage is None else 0
        with contextlib.suppress(ToolwireError):
            _note_error_only(outcome, failed=outcome.usage is None and _has_error(data))
        outcome.recorded_answer = body if outcome.status == 200 else b""
        await self._store_memory_updates()
        if outcome.status == 200:
            await self.client.end()
        await self.client.begin(outcome.status, head)
        await self.client.send(body, False)
        return None

    async def _read_whole(self, answer: AwaitedResponse, data: bytearray, outcome: RequestOutcome) -> None:
        """Read an answer into `data`, and count its characters in `outcome`."""
        while piece := await answer.aread():
            data += piece
            outcome.characters = _check_size(len(data), self.context.bounds.bytes)

    async def _followed(self, exchange: Exchange, translated: bytes) -> bytes | Failure:
        """Return the whole answer of a model that has searched, after all requests that it needs.

        A failure ends the request: the searches were billed, and the client has received nothing.
        """
        while self.outcome.status == 200 and exchange.follow_up is not None and self.ask_again is not None:
            if self.outcome.usage is not None:
                self.outcome.characters = 0
            follow = await self.ask_again(exchange.follow_up)
            if isinstance(follow, Failure):
                return replace(follow, may_try_next=False, wait=None)
            data = bytearray()
            try:
                await self._read_whole(follow.answer, data, follow.outcome)
                body = self._secrets.mask(bytes(data))
                run = self.context.offloader.run
                translated = await run(len(body), self._translated, exchange, body, follow.outcome)
                follow.outcome.ending = follow.outcome.ending or "answer"
                self.outcome.status = follow.outcome.status or self.outcome.status
            except TransportError as problem:
                self.attempt.bill_failure(follow.outcome, len(data))
                return replace(self.attempt.connection_failure(problem), may_try_next=False, wait=None)
            finally:
                if follow.outcome.usage is not None:
                    follow.outcome.characters = 0
                follow.settle()
                await follow.answer.aclose()
        return translated

    def _broken_off(self, problem: TransportError, size: int) -> Failure:
        """Return the failure for an answer that broke off before the client received any of it.

        The provider may bill the received part.
        """
        self.attempt.bill_failure(self.outcome, size)
        return self.attempt.connection_failure(problem)

    def _translated(self, exchange: Exchange, body: bytes, outcome: RequestOutcome) -> bytes:
        """Translate a whole answer. If it cannot be read, return the error of the provider."""
        try:
            parsed = read_body(body)
            encoded = exchange.response(parsed)
        except ToolwireError as problem:
            outcome.status, outcome.ending = 502, "error"
            return self.wire.encode_error(Error("server", f"the provider's answer cannot be read: {problem}", 502)).json
        outcome.usage = exchange.usage
        if exchange.failed or (parsed.get("error") and not exchange.choices):
            reply = exchange.error(200, parsed) if parsed.get("error") else self.wire.encode_error(PROVIDER_FAILED)
            outcome.status, outcome.ending = reply.status, "error"
            return reply.json
        self.attempt.request_losses = (*self.attempt.request_losses, *encoded.losses)
        if self.wire.TRAITS.has_durations:
            return msgspec.json.encode({**encoded.body, **self._durations()})
        return encoded.json

    def _durations(self) -> dict[str, int]:
        """Return how many nanoseconds the answer took. Clients of Ollama divide by these values."""
        now, began = time.monotonic_ns(), self.attempt.began
        until_headers, after_headers = self._headers_at - began, now - self._headers_at
        return {"total_duration": now - began, "prompt_eval_duration": until_headers, "eval_duration": after_headers}

    async def _read_metadata(self, body: bytes) -> None:
        """Read the usage and the signatures of an answer that passes unchanged."""
        if self.client_request.endpoint.action != "answer":
            return
        has_signatures = self.attempt.shares_wire and may_be_signed(body)
        try:
            response = await self.context.offloader.run(len(body), self._decoded, body, has_signatures)
        except (ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
            return
        self.outcome.usage = response.usage
        await self._note_signatures(response.message.parts)

    def _decoded(self, body: bytes, has_signatures: bool) -> Response:
        return self.wire.decode_response(msgspec.json.decode(body) if has_signatures else counts_in(body))

    async def _note_signatures(self, parts: list[Part]) -> None:
        """Store which provider signed the parts, if several providers speak its wire."""
        if self.attempt.shares_wire:
            provider_name = self.attempt.candidate.provider.name.encode()
            pairs = [(digest, provider_name) for digest in signatures_of(parts)]
            if pairs:
                await self.context.memory.keep(self.client_request.owner, pairs)

    async def _store_memory_updates(self) -> None:
        """Store the values of the answer that the client's wire cannot carry, such as signatures."""
        exchange = self.attempt.exchange
        if exchange is not None and exchange.memory_updates:
            await self.context.memory.keep(self.client_request.owner, exchange.memory_updates)

    async def _deliver_stream(self) -> None:
        """Deliver an answer that is streamed."""
        outcome, joining, attempt = self.outcome, await self._joining_decoder(), self.attempt
        exchange = attempt.exchange
        array = stream_quirks(self.wire.DIALECT, {}, attempt.full_path).get("stream_array", False)
        stream: ExchangedStream | PassedStream
        stream = PassedStream(self.wire, array=array) if exchange is None else exchange.stream()
        if isinstance(stream, ExchangedStream) and self.wire.TRAITS.has_durations:
            stream.at_end = lambda: Opaque(self.wire.DIALECT, self._durations())
        keepalive = await self._begin_stream(JSON if array else self.wire.TRAITS.stream_type)
        finished, problem, last = False, None, None
        try:
            if joining is not None and isinstance(stream, ExchangedStream):
                stream.decoder = joining
                stream, problem = await self._forward_joined(stream, joining, keepalive)
            elif exchange is not None and exchange.answers_searches and isinstance(stream, ExchangedStream):
                last = await self._forward_searched(exchange, stream, keepalive)
            else:
                problem = await self._forward_answer(self.answer, stream, keepalive)
            finished = problem is None and not stream.broken
        finally:
            keepalive.stop()
            self._note_received(stream, joining, finished=finished)
        if last is None:
            last = stream.close(None if problem is None else _error_of_break(problem))
        if joining is None and not outcome.follow_ups:
            _note_stream(stream, outcome, finished=not stream.broken)
        if self.context.audit is not None:
            outcome.recorded_answer = stream.parts if joining is None else joining.parts
        outcome.ending = "broke off" if stream.broken else "continued" if outcome.continuations else "answer"
        outcome.losses = (*outcome.losses, *stream.losses)
        if last is None:
            raise GatewayError("server", f"{_BROKE_OFF} in the middle of an event")
        if attempt.passes:
            await self._note_signatures(stream.parts if joining is None else joining.parts)
        await self._store_memory_updates()
        await self._end_stream(self._masking.feed(last) + self._masking.close(), array=array)

    async def _end_stream(self, last: bytes, *, array: bool) -> None:
        """Send the end of a stream. It is an error if the calls of the answer must be recorded and cannot be."""
        try:
            await self.client.end()
        except GatewayError as rejection:
            if array or not self._last_sent.endswith(b"\n"):
                raise
            self.outcome.ending = "broke off"
            await self.client.send(error_frames(self.wire, rejection.error), False)
        else:
            await self.client.send(self._held_end + last, False)

    def _note_received(
        self, stream: ExchangedStream | PassedStream, joining: JoiningDecoder | None, *, finished: bool
    ) -> None:
        """Note what was received when the stream ended or the client left."""
        if self.context.audit is not None:
            self.outcome.recorded_answer = stream.parts if joining is None else joining.parts
        if joining is None and not self.outcome.follow_ups:
            _note_stream(stream, self.outcome, finished=finished)
            _note_error_only(self.outcome, failed=stream.failed and not self.outcome.characters)

    async def _begin_stream(self, usual: str) -> KeepAlive:
        """Send the head of a stream. `usual` is the content type in the client's wire."""
        exchange = self.attempt.exchange
        head = self._head(content_type_of(self.answer.headers, usual, self._secrets) if exchange is None else usual)
        await self.client.begin(200, {**head, "cache-control": "no-store", "x-accel-buffering": "no"})
        signal = None if exchange is None else self.wire.TRAITS.keep_alive or None
        if signal is not None and _has_no_content(self._beginning):  # it has waited as long as a keepalive does
            await self.client.send(signal, True)
        return KeepAlive(self.context.keep_alive, self.client, signal)

    async def _forward_answer(
        self, answer: AwaitedResponse, stream: ExchangedStream | PassedStream, keepalive: KeepAlive
    ) -> TransportError | None:
        """Forward an answer piece by piece. Return the error if it breaks off."""
        size, read, problem = 0, answer.aread, None
        masking = MaskedStream(self.context.secrets_of(self.attempt.candidate.provider))
        try:
            while piece := self._take_beginning() or await read():
                size = _check_size(size + len(piece), self.context.bounds.bytes)
                for part in _in_parts(masking.feed(piece)):
                    await self._forward_part(part, stream, keepalive)
        except TransportError as error:
            problem = error
        if last_part := masking.close():
            await self._forward_part(last_part, stream, keepalive)
        return problem

    async def _forward_part(self, part: bytes, stream: ExchangedStream | PassedStream, keepalive: KeepAlive) -> None:
        """Translate a part of the provider's answer and send it, unless the end of the stream is held back."""
        translated = stream.feed(part)
        if not translated:
            return
        keepalive.note_activity()
        translated = translated if isinstance(stream, PassedStream) else self._masking.feed(translated)
        if not (self._holds_end and self._hold_end(stream, translated)):
            await keepalive.client.send(translated, True)

    def _hold_end(self, stream: ExchangedStream | PassedStream, translated: bytes) -> bool:
        """Hold the end of a stream until its calls are recorded. Return True if `translated` belongs to the end."""
        field = self.wire.TRAITS.ending_field
        ends = stream.is_complete or (field != b"" and field in translated)
        if ends or self._held_end:
            self._held_end += translated
            return True
        self._last_sent = translated
        return False

    async def _joining_decoder(self) -> JoiningDecoder | None:
        """Return a decoder that can join the answers of several providers.

        Return None if the route or the request does not allow that.
        """
        attempt = self.attempt
        if self.continue_answer is None or (attempt.exchange is not None and attempt.exchange.answers_searches):
            return None
        with contextlib.suppress(ToolwireError):
            exchange = attempt.exchange or await attempt.exchange_with(attempt.candidate)
            if may_continue(exchange.request):
                attempt.exchange = exchange
                return JoiningDecoder(exchange.target.decode_stream())
        return None

    async def _forward_searched(self, exchange: Exchange, stream: ExchangedStream, keepalive: KeepAlive) -> bytes:
        """Forward an answer and those that follow its searches of deferred tools. Return the end of the last one."""
        problem = await self._forward_answer(self.answer, stream, keepalive)
        received, place = _count_characters(stream.answer_parts), 0
        ending = stream.close(None if problem is None else _error_of_break(problem))
        if stream.is_asked_again:
            self.outcome.usage, self.outcome.ending = stream.usage_of(0), "answer"
            self.outcome.characters = received if self.outcome.usage is None else 0
        while stream.is_asked_again:
            if masked := self._masking.feed(ending):
                await keepalive.client.send(masked, True)
            follow = await self._follow(exchange)
            if isinstance(follow, Error):
                return stream.close(follow)
            place += 1
            ending = await self._forward_follow_up(follow, stream, keepalive, place)
        return ending

    async def _follow(self, exchange: Exchange) -> FollowUp | Error:
        """Send the request after a search. Return the error that ends the answer if that fails."""
        if self.ask_again is None or exchange.follow_up is None:
            return _error_of_break(None)
        try:
            follow = await self.ask_again(exchange.follow_up)
        except GatewayError as rejection:
            return rejection.error
        if isinstance(follow, Failure):
            return self.wire.decode_error(follow.status, read_error_body(follow.body), follow.headers)
        return follow

    async def _forward_follow_up(
        self, follow: FollowUp, stream: ExchangedStream, keepalive: KeepAlive, place: int
    ) -> bytes:
        """Forward the answer after a search, which is the answer number `place` of the stream. Return its end."""
        outcome, received = follow.outcome, None
        try:
            problem = await self._forward_answer(follow.answer, stream, keepalive)
            received = _count_characters(stream.answer_parts)
            ending = stream.close(None if problem is None else _error_of_break(problem))
            outcome.ending = "broke off" if stream.broken else "answer"
            return ending
        finally:
            outcome.usage = stream.usage_of(place)
            if outcome.usage is None or outcome.ending != "answer":
                outcome.characters = _count_characters(stream.answer_parts) if received is None else received
            follow.settle()
            await follow.answer.aclose()

    async def _forward_joined(
        self, stream: ExchangedStream, joining: JoiningDecoder, keepalive: KeepAlive
    ) -> tuple[ExchangedStream, TransportError | None]:
        """Forward an answer, and have other providers continue a text that breaks off. Return the last error."""
        attempt, answer, outcome = self.attempt, self.answer, self.outcome
        current, settle, pending = outcome, _nothing, b""
        while True:
            try:
                if pending:
                    await keepalive.client.send(pending, True)
                problem = await self._forward_answer(answer, stream, keepalive)
                broken = joining.can_be_continued() and (problem is None or problem.kind != "too_long")
                current.ending = "" if broken else "answer"
            finally:
                current.usage, current.characters = joining.usage, joining.characters
                _note_error_only(current, failed=joining.failed and not joining.characters)
                settle()
                await answer.aclose()
            text = joining.text
            if (
                self.continue_answer is None
                or not broken
                or text is None
                or len(outcome.continuations) == MAX_CONTINUATIONS
            ):
                return stream, problem
            continuation = await self.continue_answer(attempt.candidate, self._secrets.mask_text(text))
            if continuation is None:
                return stream, problem
            loss = seam_loss(attempt.candidate, continuation.candidate, text)
            outcome.losses, outcome.continuations = (
                (*outcome.losses, *continuation.losses, loss),
                (*outcome.continuations, continuation.outcome),
            )
            answer, current, settle = continuation.answer, continuation.outcome, continuation.settle
            attempt.candidate, attempt.exchange = (
                continuation.candidate,
                await attempt.exchange_with(continuation.candidate),
            )
            self._secrets |= self.context.secrets_of(continuation.candidate.provider)
            self._masking = MaskedStream(self._secrets)
            joined = stream.encode_events(
                joining.join(attempt.exchange.target.decode_stream(), continuation.unsent_blanks)
            )
            stream = attempt.exchange.stream(stream, joining.events_so_far)
            pending = self._masking.feed(joined + seam_comment(self.wire, loss))


def _error_of_break(problem: TransportError | None) -> Error:
    kind = "protocol" if problem is None else problem.kind
    return Error("server", f"{_BROKE_OFF}: {kind}", code="incomplete")


def _in_parts(piece: bytes) -> Iterable[bytes]:
    """Cut a large piece, because the translation of a part is held until a slow client has read it."""
    if len(piece) <= _PART_BYTES:
        return (piece,)
    return (piece[start : start + _PART_BYTES] for start in range(0, len(piece), _PART_BYTES))


def _nothing() -> None:
    """Settle nothing: the first answer is settled with its request."""


def _note_stream(stream: ExchangedStream | PassedStream, outcome: RequestOutcome, *, finished: bool) -> None:
    """Note the usage and the ending of a stream.

    If the client left after the whole answer was sent, the answer is complete.
    """
    outcome.usage, outcome.ending = stream.usage, "answer" if stream.is_complete else ""
    if not finished or outcome.usage is None:
        text_characters = stream.words if isinstance(stream, PassedStream) else 0
        outcome.characters = text_characters + _count_characters(stream.parts)


def _note_error_only(outcome: RequestOutcome, *, failed: bool) -> None:
    """Note that the provider sent only an error. It costs nothing, whatever its status was."""
    if failed and outcome.usage is None:
        outcome.answered_by = None


def _has_error(data: bytes | bytearray) -> bool:
    """Return True if a whole answer is an error."""
    return bytes(members_of(bytes(data)).get("error") or b"null") not in _EMPTY_ERRORS


def _count_characters(parts: Iterable[Part]) -> int:
    """Count the characters that the model has written."""
    length = 0
    for part in parts:
        match part:
            case ToolCall(raw=raw, arguments=arguments):
                length += len(raw or str(arguments))
            case Text(text=str(text)) | Thinking(text=str(text)):
                length += len(text)
    return length


def _has_no_content(first: bytes) -> bool:
    """Return True if an answer has begun with only blanks and comments."""
    content = first.lstrip()
    return len(first) < _COMMENT_BYTES and (not content or (content[:1] == b":" and b"data:" not in content))


def _check_size(size: int, most: int) -> int:
    if size > most:
        raise TransportError("too_long", f"more than {most} bytes")
    return size
