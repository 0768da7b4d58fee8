"""One attempt: one request to one provider, with its bytes unchanged or translated by an exchange.

Rules of this file:
- If client and provider speak one wire, the bytes are forwarded. Otherwise an exchange translates them.
- A client's value becomes part of an address or of a header only through a table.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.encoding.families import family_of
from toolwire.errors import LossyTranslation, ToolwireError
from toolwire.gateway.context import JSON, ClientRequest, GatewayContext, RequestOutcome, ResponseWriter
from toolwire.gateway.conversations import named_in
from toolwire.gateway.errors import UNKNOWN_HISTORY, GatewayError, error_in, error_of
from toolwire.gateway.headers import client_session_of, headers_to_client, headers_to_provider
from toolwire.gateway.offloading import LARGE
from toolwire.gateway.passthrough import (
    may_be_signed,
    signatures_of,
    with_model,
    with_models,
    with_placeholder_signatures,
    without_budget,
    without_displayed_thinking,
)
from toolwire.gateway.prices import used
from toolwire.gateway.response_store import inline_history, text_of
from toolwire.gateway.routes import Candidate
from toolwire.gateway.text_format import dialect_wrapper, usual_forms_wrapper
from toolwire.providers.addressing import url_of
from toolwire.translation import translate
from toolwire.translation.exchange import Exchange, exchange
from toolwire.types import Encoded, Error, ErrorKind, Loss, Message, Part, Request, Thinking, ToolCall
from toolwire.wire.bodies import members_of
from toolwire.wire.transport import AwaitedResponse, HttpRequest, TransportError

P = ParamSpec("P")
T = TypeVar("T")
RETRY_DELAY = 0.2
"""Seconds after which the gateway may retry a provider whose connection failed."""

_NEXT_PROVIDER_STATUSES = frozenset({401, 402, 403, 408, 409, 429})  # another provider may succeed after these statuses
_SIGNATURE_LOSS = Loss("messages", "signature", "dropped", "the provider rejects what another provider signed", "minor")
_THINKING_LOSS = Loss(
    "thinking", "thinking", "dropped", "the calls that the request answers have no thinking before them"
)
_FIRST_REDIRECT = 300
_WITHOUT_BODY = frozenset({101, 204, 205})
_PAGE_TYPE = "text/html"
# Errors of the request itself, which every provider would return.
_REQUEST_ERRORS = frozenset({"invalid_request", "too_large", "context_length", "not_found"})
_STATUSES = {"connect": 502, "timeout": 504, "reset": 502, "protocol": 502, "cancelled": 499, "too_long": 502}


class Failure(Struct):
    """An error of a provider, encoded for the client."""

    candidate: Candidate
    status: int
    body: bytes
    headers: dict[str, str]
    may_try_next: bool  # another provider may be asked
    wait: float | None = None  # seconds after which the provider may be asked again
    too_long: bool = False
    rejects_thinking: bool = False  # the provider rejected thinking that can be left out

    async def send(self, client: ResponseWriter, outcome: RequestOutcome) -> None:
        """Send the error to `client` and note it in `outcome`."""
        outcome.status, outcome.ending = self.status, "error"
        length = {"content-type": JSON, "content-length": str(len(self.body))}
        await client.begin(self.status, {**self.headers, **length})
        await client.send(self.body, False)


class Attempt:
    """One request to one provider.

    `members` are the outermost members of the request's JSON, by name. With `strict`, a semantic loss is an error. With
    `caches`, the request gets what the provider's prompt cache needs. `has_alternatives` is true if the route has other
    providers.
    """

    def __init__(
        self,
        context: GatewayContext,
        client_request: ClientRequest,
        candidate: Candidate,
        members: dict[str, Any],
        *,
        strict: bool,
        caches: bool,
        has_alternatives: bool,
    ) -> None:
        self.context: GatewayContext = context
        self.client_request: ClientRequest = client_request
        self.candidate: Candidate = candidate
        self.members: dict[str, Any] = members
        self.size: int = client_request.size
        self.strict: bool = strict
        self.caches: bool = caches
        self.has_alternatives: bool = has_alternatives
        self.wire: Dialect = dialect(client_request.endpoint.dialect)
        same = (
            client_request.endpoint.dialect == candidate.provider.dialect
            and dialect_wrapper(candidate.provider, candidate.format) is None
        )
        self.passes: bool = client_request.endpoint.action != "answer" or same
        self.exchange: Exchange | None = None
        self.request_losses: tuple[Loss, ...] = ()
        self.full_path: str = client_request.full_path
        self.began: int = time.monotonic_ns()
        self._continues = _stored_state(members) if self.wire.TRAITS.stores_responses else None
        self._sent_request: tuple[str, bytes] | None = None  # the path and the body of the provider's request

    async def ask(self, outcome: RequestOutcome) -> AwaitedResponse | Failure:
        """Send the request. Return the answer's head, or the failure. A retry sends the same bytes."""
        if self._sent_request is None:
            await self._offload(self._inline_history)
            self._sent_request = await self._pass_through() if self.passes else await self._translate()
        answer = await self.send(*self._sent_request, outcome)
        if isinstance(answer, Failure) and answer.rejects_thinking:
            self._sent_request = await self._translate()
            answer = await self.send(*self._sent_request, outcome)
        return answer

    async def _offload(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Run `work` in a thread if the request is large."""
        return await self.context.offloader.run(self.client_request.size, work, *args, **options)

    async def send(self, path: str, body: bytes, outcome: RequestOutcome) -> AwaitedResponse | Failure:
        """Send a request to the provider. Return the answer's head, or the failure."""
        provider = self.candidate.provider
        headers = self.context.routes.headers(provider)
        if self.passes:
            headers |= headers_to_provider(provider.dialect, self.client_request.headers)
        request = HttpRequest("POST", url_of(provider, path), headers, body)
        outcome.was_sent = True
        recording = self.client_request.recording
        if recording is not None:
            recording.ask(self.candidate, request, self.request_losses, self.members)
        try:
            answer = await self.context.transport.asend(request, self.context.timeouts)
        except TransportError as problem:
            if recording is not None:
                recording.fail(problem)
            if problem.sent:
                self.bill_failure(outcome)
            return self.connection_failure(problem, before=True)
        except asyncio.CancelledError:  # the client has left
            self.bill_failure(outcome)
            raise
        if recording is not None:
            answer = recording.observe(answer)
        is_page = answer.headers.get("content-type", "").startswith(_PAGE_TYPE)
        if answer.status < _FIRST_REDIRECT and answer.status not in _WITHOUT_BODY and not is_page:
            outcome.answered_by, outcome.characters = self.candidate, 0
            return answer
        try:
            return (
                self.empty_answer(answer, outcome) if answer.status in _WITHOUT_BODY else await self._failure_of(answer)
            )
        except TransportError as problem:
            return self.connection_failure(problem)
        finally:
            await answer.aclose()

    @property
    def shares_wire(self) -> bool:
        """True if several providers speak the wire of this one, so that signatures of another one may occur."""
        return self.candidate.provider.dialect in self.context.routes.shared

    def _inline_history(self) -> None:
        """Insert the history that the request continues and its provider has not stored."""
        if self.wire.TRAITS.stores_responses and self.client_request.endpoint.action == "answer":
            client_request = self.client_request
            body = inline_history(
                client_request.turns, client_request.body, self.candidate.provider, client_request.items
            )
            if body is not None:
                self.client_request, self.members = replace(self.client_request, body=body), members_of(body)

    async def _pass_through(self) -> tuple[str, bytes]:
        """Return the path and the body of a request in the provider's own wire."""
        body = self.client_request.body
        if self.client_request.endpoint.action != "other":
            body = await self._without_foreign_content(body)
        return await self._offload(self._name_model, body)

    def _name_model(self, body: bytes) -> tuple[str, bytes]:
        """Return the path and the body with the provider's name of the model."""
        client_request, model = self.client_request, self.candidate.model
        members = self.members if body is client_request.body else members_of(body)
        if not self.wire.TRAITS.names_model_in_path:
            named_body = with_model(body, members, model)
            return client_request.path, body if model == text_of(self.members["model"]) else named_body
        verb = client_request.path.rpartition(":")[2]
        if client_request.endpoint.action != "answer":
            body = with_models(body, members, f"models/{model}")
        elif family_of(model).signed_calls:
            body = with_placeholder_signatures(body, members)
        query = "?alt=sse" if "alt=sse" in client_request.query.split("&") else ""
        return f"/v1beta/models/{model}:{verb}{query}", body

    async def _without_foreign_content(self, body: bytes) -> bytes:
        """Return `body` without the thinking and the signatures of other providers.

        Unchanged bytes if there are none.
        """
        cleaned = await self._offload(without_displayed_thinking, self.wire.TRAITS, body, self.members)
        if self.shares_wire and await self._offload(may_be_signed, cleaned):
            cleaned = await self._without_foreign_signatures(cleaned)
        if cleaned is body:
            return body
        self.request_losses = (_SIGNATURE_LOSS,)
        needs_thinking = self.wire.TRAITS.requires_thinking_before_calls
        without_thinking = await self._offload(without_budget, cleaned) if needs_thinking else cleaned
        if without_thinking is not cleaned:
            self.request_losses = (_SIGNATURE_LOSS, _THINKING_LOSS)
        return without_thinking

    async def _without_foreign_signatures(self, body: bytes) -> bytes:
        """Return `body` without what another provider signed. Unchanged bytes if there is nothing."""
        request, digests = await self._offload(self._find_signatures, body)
        providers = await self.context.memory.find(self.client_request.owner, digests)
        foreign = {
            digest
            for digest, provider_name in providers.items()
            if provider_name.decode() != self.candidate.provider.name
        }
        return await self._offload(self._remove_signatures, request, foreign) if foreign else body

    def _find_signatures(self, body: bytes) -> tuple[Request, list[str]]:
        """Return the request in the client's wire, and the digests of its signatures."""
        request = self.wire.decode_request(msgspec.json.decode(body), self.full_path)
        return request, [digest for message in request.context.messages for digest in signatures_of(message.parts)]

    def _remove_signatures(self, request: Request, foreign: set[str]) -> bytes:
        messages = [_without_signatures(message, foreign) for message in request.context.messages]
        return self.wire.encode_request(replace(request, context=replace(request.context, messages=messages))).json

    async def _translate(self) -> tuple[str, bytes]:
        """Return the path and the body of the translated request.

        Raises `GatewayError` if it cannot be translated, or with `strict` if a loss is semantic.
        """
        client_request, memory = self.client_request, self.context.memory
        if self._relies_on_stored_history():
            raise GatewayError.unknown_response(self.wire.DIALECT)
        try:
            if self.exchange is None:
                self._check_messages()
                self.exchange = await self.exchange_with(self.candidate)
                keys = await self._offload(_memory_keys_of, self.exchange)
                if remembered := await memory.find(client_request.owner, keys):
                    self.exchange.use_memory(remembered)
            encoded, body = await self._offload(_encoded, self.exchange)
            if self.strict:
                translate.raise_if_lossy(encoded.losses)
        except LossyTranslation as problem:
            raise GatewayError("invalid_request", str(problem), code="lossy") from problem
        except ToolwireError as problem:
            raise GatewayError("invalid_request", str(problem)) from problem
        self.request_losses = encoded.losses
        return encoded.path, body

    def _relies_on_stored_history(self) -> bool:
        """Return True if the request has only the end of a conversation that the client believes to be stored."""
        field = UNKNOWN_HISTORY[self.wire.DIALECT][0] if self.wire.DIALECT in UNKNOWN_HISTORY else ""
        return field in self.members and bytes(self.members[field]) != b"null"

    def connection_failure(self, problem: TransportError, *, before: bool = False) -> Failure:
        """Return the failure of a connection: before the answer, or while it was received."""
        kind: ErrorKind = "timeout" if problem.kind == "timeout" else "server"
        description = "could not be reached" if before else "broke off its answer"
        error = Error(kind, f"{self.candidate.provider.name} {description}: {problem.kind}", _STATUSES[problem.kind])
        return self.failure_for(error, RETRY_DELAY if before and problem.kind in ("connect", "reset") else None)

    def bill_failure(self, outcome: RequestOutcome, characters: int = 0) -> None:
        """Count what a provider may bill that received the request and returned no complete answer.

        That is the prompt, and the `characters` that were received.
        """
        tokens = used(None, self.size, characters, complete=False)
        outcome.failed_attempts = (*outcome.failed_attempts, (tokens, self.context.prices.cost(self.candidate, tokens)))
        outcome.answered_by = None

    def empty_answer(self, answer: AwaitedResponse, outcome: RequestOutcome) -> Failure:
        """Return the failure for an answer without a body. The provider may bill the prompt."""
        self.bill_failure(outcome)
        message = f"{self.candidate.provider.name} answered with {answer.status} and an empty body"
        return self.failure_for(Error("server", message, 502))

    def failure_for(self, error: Error, wait: float | None = None) -> Failure:
        """Return the failure for an error that the provider did not send as an error of its wire."""
        reply = self.wire.encode_error(error)
        body = self.context.secrets_of(self.candidate.provider).mask_error(reply.json)
        may_try_next, too_long = error.kind not in _REQUEST_ERRORS, error.kind == "context_length"
        return Failure(self.candidate, reply.status, body, reply.headers, may_try_next, wait, too_long)

    async def _failure_of(self, answer: AwaitedResponse) -> Failure:
        """Read a provider's error, with its secrets masked. Return the failure."""
        provider = self.candidate.provider
        secrets = self.context.secrets_of(provider)
        status, body, parsed = await error_in(answer, secrets)
        may_try_next = status in _NEXT_PROVIDER_STATUSES or status >= 500
        headers = headers_to_client(answer.headers, secrets)
        error = provider.speaks().decode_error(status, parsed, answer.headers)
        failure = Failure(
            self.candidate, status, body, headers, may_try_next, error.retry_after, error.kind == "context_length"
        )
        if self.passes and answer.status >= 400 and not isinstance(parsed, str):
            return failure
        if self.exchange is not None and answer.status >= 400 and body:
            failure.rejects_thinking = self.exchange.drop_refused_thinking(error)
            reply = self.exchange.error(status, body, answer.headers)
        else:
            reply = self.wire.encode_error(error_of(provider, answer, parsed, secrets))
        body = secrets.mask_error(reply.json)  # the encoder has decoded escapes, which may have hidden a secret
        return replace(failure, status=reply.status, body=body, headers=reply.headers)

    def _check_messages(self) -> None:
        """Reject a request without messages, as servers of the client's wire do. Those of others may accept it."""
        traits = self.wire.TRAITS
        messages = bytes(self.members.get(traits.history_key, b"")).replace(b" ", b"")
        if traits.requires_messages and messages in _NO_MESSAGES and self.client_request.endpoint.action == "answer":
            raise GatewayError("invalid_request", f"{traits.history_key}: at least one message is required", 400)

    async def exchange_with(self, candidate: Candidate) -> Exchange:
        """Return the exchange of the request with `candidate`. A large request is translated without the cache."""
        client_request = self.client_request
        cache = self.context.translations.of(client_request.owner) if client_request.size < LARGE else None
        return await self._offload(
            exchange,
            client_request.body,
            source=self.wire,
            target=candidate.provider,
            path=self.full_path,
            model=candidate.model,
            over=dialect_wrapper(candidate.provider, candidate.format) or usual_forms_wrapper(candidate.provider),
            translation_cache=cache,
            cache=self.caches,
            cache_scope=client_request.owner,
            client_session=client_session_of(client_request.headers),
            tool_search=True,
            response_id=self.wire.TRAITS.response_id_prefix + client_request.identity.removeprefix("tw_"),
            now=time.time,
            continues=self._continues,
        )


_NO_MESSAGES = frozenset({b"", b"[]", b"null"})


def _stored_state(members: dict[str, Any]) -> dict[str, Any] | None:
    """Return the stored history that a request continues, as the client names it. None if there is none."""
    state = {"previous_response_id": text_of(members.get("previous_response_id")), "conversation": named_in(members)}
    return {name: value for name, value in state.items() if value} or None


def _memory_keys_of(exchange: Exchange) -> list[str]:
    return exchange.memory_keys


def _encoded(translated: Exchange) -> tuple[Encoded, bytes]:
    encoded = translated.encoded
    return encoded, encoded.json


def _without_signatures(message: Message, foreign: set[str]) -> Message:
    """Return `message` without the thinking and the signatures that other providers made."""
    if foreign.isdisjoint(signatures_of(message.parts)):
        return message
    parts: list[Part] = []
    for part in message.parts:
        is_foreign = not foreign.isdisjoint(signatures_of([part]))
        match part:
            case Thinking() if is_foreign:
                continue
            case ToolCall() if is_foreign:
                parts.append(replace(part, opaque=None))
            case _:
                parts.append(part)
    return replace(message, content=parts)
