"""One request to one provider: bytes that pass as they are, or an exchange that translates them.

Rules of this file:
- Where client and provider speak one wire, bytes go through as they are; else an exchange translates them.
- Nothing of a client's choosing becomes a part of an address or a header, but by a table.
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
from toolwire.gateway.context import JSON, Answering, Incoming, Served, Tools
from toolwire.gateway.errors import FORGOTTEN, Refused, error_in, error_of
from toolwire.gateway.headers import coming_down, going_up
from toolwire.gateway.offloading import LARGE
from toolwire.gateway.passthrough import (
    may_be_signed,
    signatures_of,
    with_model,
    with_models,
    with_stand_ins,
    without_budget,
    without_shown,
)
from toolwire.gateway.prices import used
from toolwire.gateway.response_store import text_of, whole
from toolwire.gateway.routes import Goal
from toolwire.gateway.text_format import wording
from toolwire.providers.addressing import url_of
from toolwire.translation import translate
from toolwire.translation.exchange import Exchange, exchange
from toolwire.types import Encoded, Error, ErrorKind, Loss, Message, Part, Request, Thinking, ToolCall
from toolwire.wire.bodies import members_of
from toolwire.wire.transport import AwaitedResponse, HttpRequest, TransportError

P = ParamSpec("P")
T = TypeVar("T")
BRIEFLY = 0.2
"""Seconds after which a provider that was away for a moment may be asked again."""

_PASSING = frozenset({401, 402, 403, 408, 409, 429})  # what another provider may do better
_TAKEN = Loss("messages", "signature", "dropped", "made by another provider", "minor")
_UNBUDGETED = Loss("thinking", "thinking", "dropped", "the calls that are answered would begin with it")
_FIRST_ELSE = 300
_WITHOUT_BODY = frozenset({101, 204, 205})
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
    unread: bool = False  # whether it refuses thoughts that can be left out

    async def tell(self, client: Answering, served: Served) -> None:
        """Answer with it."""
        served.status, served.ending = self.status, "error"
        length = {"content-type": JSON, "content-length": str(len(self.body))}
        await client.begin(self.status, {**self.headers, **length})
        await client.send(self.body, False)


class Attempt:
    """One request to one provider."""

    def __init__(
        self, tools: Tools, incoming: Incoming, goal: Goal, members: dict[str, Any], *, strict: bool, several: bool
    ) -> None:
        self.tools: Tools = tools
        self.incoming: Incoming = incoming
        self.goal: Goal = goal
        self.members: dict[str, Any] = members
        self.size: int = incoming.size
        self.strict: bool = strict
        self.several: bool = several
        self.wire: Dialect = dialect(incoming.asked.dialect)
        same = incoming.asked.dialect == goal.provider.dialect and wording(goal.provider, goal.format) is None
        self.passes: bool = incoming.asked.action != "answer" or same
        self.exchange: Exchange | None = None
        self.request_losses: tuple[Loss, ...] = ()
        self.full_path: str = incoming.full_path
        self.began: int = time.monotonic_ns()
        self._now = int(time.time())
        self._written: tuple[str, bytes] | None = None  # the path and the body of the request to the provider

    async def ask(self, served: Served) -> AwaitedResponse | Failure:
        """Send the request, and return the answer's head or what went wrong. What was written once is sent again."""
        if self._written is None:
            await self._apart(self._recall)
            self._written = await self._passed() if self.passes else await self._exchanged()
        answer = await self._send(*self._written, served)
        if isinstance(answer, Failure) and answer.unread:
            self._written = await self._exchanged()
            answer = await self._send(*self._written, served)
        return answer

    async def _apart(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Do what takes the longer, the larger the request is: in a thread, if it is large."""
        return await self.tools.offloader.run(self.incoming.size, work, *args, **options)

    async def _send(self, path: str, body: bytes, served: Served) -> AwaitedResponse | Failure:
        provider = self.goal.provider
        headers = self.tools.routes.headers(provider)
        if self.passes:
            headers |= going_up(provider.dialect, self.incoming.headers)
        request = HttpRequest("POST", url_of(provider, path), headers, body)
        served.asked = True
        try:
            answer = await self.tools.transport.asend(request, self.tools.timeouts)
        except TransportError as problem:
            if problem.sent:
                self.bill_failure(served)
            return self.broke(problem, before=True)
        except asyncio.CancelledError:  # the client has left
            self.bill_failure(served)
            raise
        is_page = answer.headers.get("content-type", "").startswith(_PAGE)
        if answer.status < _FIRST_ELSE and answer.status not in _WITHOUT_BODY and not is_page:
            served.answered, served.heard = self.goal, 0
            return answer
        try:
            return self.empty(answer, served) if answer.status in _WITHOUT_BODY else await self._failed(answer)
        except TransportError as problem:
            return self.broke(problem)
        finally:
            await answer.aclose()

    @property
    def shares_wire(self) -> bool:
        """Whether other providers speak this one's wire: what one has signed, another cannot read."""
        return self.goal.provider.dialect in self.tools.routes.shared

    def _recall(self) -> None:
        """Bring what a request goes on from, where its provider does not hold it."""
        if self.wire.TRAITS.stores_responses and self.incoming.asked.action == "answer":
            incoming = self.incoming
            body = whole(incoming.turns, incoming.body, self.goal.provider, incoming.items)
            if body is not None:
                self.incoming, self.members = replace(self.incoming, body=body), members_of(body)

    async def _passed(self) -> tuple[str, bytes]:
        """Return the path and the bytes of a request of the provider's own wire."""
        body = self.incoming.body
        if self.incoming.asked.action != "other":
            body = await self._without_others(body)
        return await self._apart(self._addressed, body)

    def _addressed(self, body: bytes) -> tuple[str, bytes]:
        """Return the path and the bytes that name the provider's model."""
        incoming, model = self.incoming, self.goal.model
        members = self.members if body is incoming.body else members_of(body)
        if not self.wire.TRAITS.names_model_in_path:
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
        taken = await self._apart(without_shown, self.wire.TRAITS, body, self.members)
        if self.shares_wire and await self._apart(may_be_signed, taken):
            taken = await self._without_others_signatures(taken)
        if taken is body:
            return body
        self.request_losses = (_TAKEN,)
        needs_thinking = self.wire.TRAITS.requires_thinking_before_calls
        settled = await self._apart(without_budget, taken) if needs_thinking else taken
        if settled is not taken:
            self.request_losses = (_TAKEN, _UNBUDGETED)
        return settled

    async def _without_others_signatures(self, body: bytes) -> bytes:
        """Take out what another provider has signed; the bytes stay where there is none."""
        request, marks = await self._apart(self._signed, body)
        makers = await self.tools.memory.find(self.incoming.owner, marks)
        foreign = {mark for mark, maker in makers.items() if maker.decode() != self.goal.provider.name}
        return await self._apart(self._without, request, foreign) if foreign else body

    def _signed(self, body: bytes) -> tuple[Request, list[str]]:
        """Return a request of the client's wire, and the marks of what somebody has signed in it."""
        request = self.wire.decode_request(msgspec.json.decode(body), self.full_path)
        return request, [mark for message in request.context.messages for mark in signatures_of(message.parts)]

    def _without(self, request: Request, foreign: set[str]) -> bytes:
        messages = [_unsigned(message, foreign) for message in request.context.messages]
        return self.wire.encode_request(replace(request, context=replace(request.context, messages=messages))).json

    async def _exchanged(self) -> tuple[str, bytes]:
        """Return the path and the bytes of a request that is translated."""
        incoming, memory = self.incoming, self.tools.memory
        if self._counts_on_held():
            raise Refused.forgotten(self.wire.DIALECT)
        try:
            if self.exchange is None:
                self.exchange = await self.exchange_with(self.goal)
                if found := await memory.find(incoming.owner, self.exchange.memory_keys):
                    self.exchange.use_memory(found)
            encoded, body = await self._apart(_encoded, self.exchange)
            if self.strict:
                translate.refuse(encoded.losses)
        except LossyTranslation as problem:
            raise Refused("invalid_request", str(problem), code="lossy") from problem
        except ToolwireError as problem:
            raise Refused("invalid_request", str(problem)) from problem
        self.request_losses = encoded.losses
        return encoded.path, body

    def _counts_on_held(self) -> bool:
        """Whether the request is only the end of a conversation, whose beginning a server is believed to hold."""
        field = FORGOTTEN[self.wire.DIALECT][0] if self.wire.DIALECT in FORGOTTEN else ""
        return field in self.members and bytes(self.members[field]) != b"null"

    def broke(self, problem: TransportError, *, before: bool = False) -> Failure:
        """Give what went wrong with the connection, before the answer or in it."""
        kind: ErrorKind = "timeout" if problem.kind == "timeout" else "server"
        what = "could not be reached" if before else "broke off its answer"
        error = Error(kind, f"{self.goal.provider.name} {what}: {problem.kind}", _STATUSES[problem.kind])
        return self.refused(error, BRIEFLY if before and problem.kind in ("connect", "reset") else None)

    def bill_failure(self, served: Served, heard: int = 0) -> None:
        """Count what a provider may bill that was sent the request and did not answer it well.

        That is the prompt, and the `heard` characters that were received.
        """
        tokens = used(None, self.size, heard, whole=False)
        served.before = (*served.before, (tokens, self.tools.prices.cost(self.goal, tokens)))
        served.answered = None

    def empty(self, answer: AwaitedResponse, served: Served) -> Failure:
        """Return the error for an answer of a model that has no body. Its provider may bill the prompt."""
        self.bill_failure(served)
        message = f"{self.goal.provider.name} answered with {answer.status} and an empty body"
        return self.refused(Error("server", message, 502))

    def refused(self, error: Error, wait: float | None = None) -> Failure:
        """Give an error that stands in no body of the provider's wire."""
        reply = self.wire.encode_error(error)
        body = self.tools.secrets_of(self.goal.provider).mask_error(reply.json)
        may_pass, too_long = error.kind not in _OF_REQUEST, error.kind == "context_length"
        return Failure(self.goal, reply.status, body, reply.headers, may_pass, wait, too_long)

    async def _failed(self, answer: AwaitedResponse) -> Failure:
        """Read a provider's error; its secrets are masked."""
        provider = self.goal.provider
        secrets = self.tools.secrets_of(provider)
        status, body, read = await error_in(answer, secrets)
        may_pass = status in _PASSING or status >= 500
        headers = coming_down(answer.headers, secrets)
        said = provider.speaks().decode_error(status, read, answer.headers)
        told = Failure(self.goal, status, body, headers, may_pass, said.retry_after, said.kind == "context_length")
        if self.passes and answer.status >= 400 and not isinstance(read, str):
            return told
        if self.exchange is not None and answer.status >= 400 and body:
            told.unread = self.exchange.drop_refused_thinking(said)
            reply = self.exchange.error(status, body, answer.headers)
        else:
            reply = self.wire.encode_error(error_of(provider, answer, read, secrets))
        body = secrets.mask_error(reply.json)  # what was spelled is plain by now
        return replace(told, status=reply.status, body=body, headers=reply.headers)

    async def exchange_with(self, goal: Goal) -> Exchange:
        """Return the exchange of the request with a goal. A large request is translated without the cache."""
        incoming = self.incoming
        cache = self.tools.translations.of(incoming.owner) if incoming.size < LARGE else None
        return await self._apart(
            exchange,
            incoming.body,
            source=self.wire,
            target=goal.provider,
            path=self.full_path,
            model=goal.model,
            over=wording(goal.provider, goal.format),
            translation_cache=cache,
            response_id=self.wire.TRAITS.response_id_prefix + incoming.identity.removeprefix("tw_"),
            now=self._now,
        )


def _encoded(translated: Exchange) -> tuple[Encoded, bytes]:
    encoded = translated.encoded
    return encoded, encoded.json


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
