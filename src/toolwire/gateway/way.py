"""The way of one request to a model: up to a provider, and its answer back.

Rules of this file:
- Where client and provider speak one wire, bytes go through as they are; else an exchange translates them.
- Another provider is tried only before the first byte of an answer.
- An answer that breaks off ends in the client's form of an error. One whose client is gone ends its provider's.
- Nothing of a client's choosing becomes a part of an address or a header, but by a table.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from toolwire.dialects import Dialect, dialect
from toolwire.errors import LossyTranslation, ToolwireError
from toolwire.gateway import conversations
from toolwire.gateway.accounts import Accounts, Reservation
from toolwire.gateway.auditing import Audit
from toolwire.gateway.choosing import Choosing, conversation_of
from toolwire.gateway.continuing import MOST, GoingOn, SeamedDecoder, comment, may_go_on, seam
from toolwire.gateway.endings import FORGOTTEN, Refused
from toolwire.gateway.headers import coming_down, going_up
from toolwire.gateway.keys import Key
from toolwire.gateway.memory import Memory
from toolwire.gateway.passing import PassedStream, may_be_signed, signatures_of, with_model, with_models
from toolwire.gateway.prices import Prices, Tokens, estimate, sum_of, used
from toolwire.gateway.reports import Reports, header_of
from toolwire.gateway.routes import FoundRoute, Goal, Routes
from toolwire.gateway.stored import WIRE, Keeper, StoredTurn, Turns, is_kept, text_of, whole
from toolwire.gateway.wording import wording
from toolwire.providers.addressing import headers_of, key_of, url_of
from toolwire.translation import translate
from toolwire.translation.exchange import Exchange, ExchangedStream, exchange
from toolwire.translation.paths import Asked, stream_quirks, wants_stream
from toolwire.translation.reuse import Reuse
from toolwire.translation.translate import read_error
from toolwire.types import Error, ErrorKind, Loss, Message, Part, Text, Thinking, ToolCall, Usage
from toolwire.wire.bodies import members_of, read_body
from toolwire.wire.transport import AwaitedResponse, AwaitedTransport, Bounds, HttpRequest, Timeouts, TransportError

JSON = "application/json"
_STREAMS = {"ollama": "application/x-ndjson"}
_EVENTS = "text/event-stream; charset=utf-8"
_KEEP_ALIVES = {
    "openai-chat": b": waiting\n\n",
    "openai-responses": b": waiting\n\n",
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
}
_BROKE = "the provider's answer broke off"
_OPENAI = {"openai-chat", "openai-responses"}
_ERROR_BYTES = 1024 * 1024
_PASSING = frozenset({401, 402, 403, 408, 409, 429})  # what another provider may do better
_PATIENCE = 2.0  # seconds that a provider may ask to wait, to be asked again for one request
_BRIEFLY = 0.2
_FIRST_ELSE = 300
_STATUSES = {"connect": 502, "timeout": 504, "reset": 502, "protocol": 502, "cancelled": 499, "too_long": 502}


class Tools(Struct):
    """What the way of every request needs."""

    routes: Routes
    transport: AwaitedTransport
    memory: Memory
    reports: Reports
    prices: Prices = Prices({})
    choosing: Choosing = field(default_factory=Choosing)
    reuse: Reuse = field(default_factory=Reuse)
    accounts: Accounts | None = None
    audit: Audit | None = None
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
    key: Key | None = None
    held: Memory | None = None  # what a connection keeps of its own turns
    turns: list[StoredTurn] = []  # what it goes on from, the last one first

    @property
    def owner(self) -> str:
        """Whose memory and reports are used: those of a key, or of nobody."""
        return "" if self.key is None else self.key.id

    @property
    def size(self) -> int:
        """How many bytes a provider reads for it."""
        return len(self.body) + sum(kept.size for kept in self.turns)


class Served(Struct):
    """What became of a request: for the log, the figures and the bill."""

    model: str = ""
    goal: str = ""
    status: int = 0
    usage: Usage | None = None
    ending: str = ""
    losses: tuple[Loss, ...] = ()
    asked: bool = False  # a provider was sent something
    answered: Goal | None = None  # it began to answer well
    heard: int = 0  # characters of an answer whose tokens nobody has counted
    tokens: Tokens | None = None
    cost: int = 0
    before: tuple[tuple[Tokens, int], ...] = ()  # what answers took that broke off, and were asked for again
    said: bytes | list[Part] = b""  # the answer as it was told, where its calls are recorded
    legs: tuple["Served", ...] = ()  # what others took who went on with the answer


class Answering(Struct):
    """How the client is answered: a head once, then pieces, then an end."""

    begin: Callable[[int, dict[str, str]], Awaitable[None]]
    send: Callable[[bytes, bool], Awaitable[None]]


async def lead(tools: Tools, incoming: Incoming, client: Answering, served: Served) -> None:
    """Lead a request to its end: reserve what it may take, ask, answer, and settle what it took."""
    if tools.audit is not None and tools.audit.failed:
        raise Refused("overloaded", "calls cannot be recorded now", retry_after=5)
    members = members_of(incoming.body)
    name = incoming.asked.subject or _text(members.get("model"))
    served.model = name
    if not name:
        raise Refused("invalid_request", "model must say which model is asked", code="missing_model")
    way = _way(tools, incoming, name)
    goals = _payable(tools, incoming, _speaking(incoming, way, name))
    longer = tools.routes.find(way.settings.on_context) if way.settings.on_context else None
    place = _place(tools, incoming)
    if place is not None:
        foreign = any(goal.provider.dialect != WIRE for goal in goals)
        _check_background(incoming, members, foreign=foreign)
        incoming.turns = await _earlier(place, incoming, members, foreign=foreign)
    reservation = await _reserve(tools, incoming, members, [*goals, *(longer.goals if longer is not None else ())])
    try:
        await _Asking(tools, incoming, members, client, served, place).ask(replace(way, goals=tuple(goals)))
    finally:
        _settle(tools, incoming, reservation, served)


def _way(tools: Tools, incoming: Incoming, name: str) -> FoundRoute:
    """Find where a name leads, for those who may go there."""
    way = tools.routes.find(name)
    if incoming.key is not None and not incoming.key.may_ask(name):
        message = f"this key may not ask for {name[:80]!r}; it may ask for {', '.join(incoming.key.models)}"
        raise Refused("permission", message, code="model_not_allowed")
    if way is None:
        message = f"the model {name[:80]!r} is not known here; ask for a route, or for PROVIDER/MODEL"
        raise Refused("not_found", message, code="model_not_found")
    return way


def _place(tools: Tools, incoming: Incoming) -> Turns | None:
    """Say where the turns are that a request may go on from, and where its answer is kept."""
    if incoming.asked.dialect != WIRE or incoming.asked.action != "answer":
        return None
    return Turns([tools.memory, *([incoming.held] if incoming.held is not None else [])], incoming.owner)


def _check_background(incoming: Incoming, members: dict[str, Any], *, foreign: bool) -> None:
    """Refuse an answer that comes later, where nobody keeps it for the client or nobody could count it."""
    limited = incoming.key is not None and bool(incoming.key.limits)
    if bytes(members.get("background") or b"") == b"true" and (foreign or limited):
        why = "this key has limits, and such an answer is not counted" if limited else "this model has no such answers"
        message = f"background: must be false, for {why}; ask for a stream"
        raise Refused("invalid_request", message, code="unsupported_parameter")


async def _earlier(place: Turns, incoming: Incoming, members: dict[str, Any], *, foreign: bool) -> list[StoredTurn]:
    """Give what a request goes on from: with a key, nothing but what that key has asked."""
    if name := conversations.named_in(members):
        turn = await conversations.turn_of(place, name)
        if turn is None and (incoming.key is not None or foreign):
            raise Refused("not_found", f"Conversation with id '{name[:80]}' not found.")
        return [] if turn is None else [turn]
    previous = text_of(members.get("previous_response_id"))
    turns = await place.earlier(previous) if previous else []
    if previous and not turns and incoming.key is not None:
        raise Refused.forgotten(WIRE)
    return turns


def _speaking(incoming: Incoming, way: FoundRoute, name: str) -> list[Goal]:
    """Give the goals that know what is asked: what no other wire has goes to a provider of its own."""
    if incoming.asked.action == "answer":
        return list(way.goals)
    goals = [goal for goal in way.goals if _knows(goal.provider.dialect, incoming.asked)]
    if not goals:
        raise Refused("not_found", f"{name[:80]!r} has no provider that knows {incoming.path[:200]}")
    return goals


def _payable(tools: Tools, incoming: Incoming, goals: list[Goal]) -> list[Goal]:
    """Give the goals that a key can pay for: under a budget, those with a price."""
    if incoming.key is None or not incoming.key.has_budget or incoming.asked.action == "count":
        return goals
    priced = [goal for goal in goals if tools.prices.of(goal) is not None]
    if not priced:
        message = f"{goals[0].name} has no price, and this key has a budget; [prices] of the settings can say it"
        raise Refused("permission", message, code="model_without_price")
    return priced


async def _reserve(
    tools: Tools, incoming: Incoming, members: dict[str, Any], goals: list[Goal], requests: int = 1
) -> Reservation | None:
    """Reserve what a request may take of its key's limits."""
    if tools.accounts is None or incoming.key is None or not incoming.key.limits:
        return None
    if incoming.asked.action == "count":
        return await tools.accounts.reserve(incoming.key, {"requests": requests})
    tokens = [estimate(incoming.size, members, goal) for goal in goals]
    cost = max(tools.prices.cost(goal, most) for goal, most in zip(goals, tokens, strict=True))
    most = max(one.input + one.output for one in tokens)
    return await tools.accounts.reserve(incoming.key, {"requests": requests, "tokens": most, "budget": cost})


def _settle(
    tools: Tools, incoming: Incoming, reservation: Reservation | None, served: Served, requests: int = 1
) -> None:
    """Say what a request took: what was reported, or what was seen of it; nothing where no provider was asked."""
    goal = served.answered
    if goal is not None and incoming.asked.action != "count":
        whole = served.ending == "answer"
        tokens = used(served.usage, incoming.size, served.heard, whole=whole)
        served.tokens, served.cost = tokens, tools.prices.cost(goal, tokens)
    for lost, cost in served.before:
        served.tokens, served.cost = sum_of(served.tokens, lost), served.cost + cost
    if reservation is not None:
        taken = served.tokens or Tokens()
        settled = {"requests": requests, "tokens": taken.input + taken.output, "budget": served.cost}
        reservation.settle(settled if served.asked else None)
    for leg in served.legs:
        served.tokens, served.cost = sum_of(served.tokens, leg.tokens), served.cost + leg.cost


class _Asking(Struct):
    """One request, and the providers that are asked for its answer."""

    tools: Tools
    incoming: Incoming
    members: dict[str, Any]
    client: Answering
    served: Served
    place: Turns | None = None

    async def ask(self, way: FoundRoute) -> None:
        """Ask the goals of a route one after the other, until one answers or none is left."""
        choosing, several = self.tools.choosing, len(way.goals) > 1
        conversation = (
            several and conversation_of(self.incoming.owner, self._begun)
        ) or self.incoming.identity.encode()
        goals = choosing.order(way.goals, conversation) if several else list(way.goals)
        holders = [kept.maker for kept in self.incoming.turns[:1] if kept.there]
        goals.sort(key=lambda goal: goal.provider.name not in holders)
        failures = await self._ask_each(way, goals, conversation)
        soon = [one for one in failures if one.wait is not None and one.wait <= _PATIENCE]
        if soon and failures[-1].may_pass:
            first = min(soon, key=lambda one: one.wait or 0.0)
            await asyncio.sleep(first.wait or 0.0)
            failures = await self._ask_each(way, [first.goal], conversation)
        longer = self._longer(way, failures)
        if longer is not None:
            await self.ask(longer)
        elif failures:
            await failures[-1].tell(self.client, self.served)

    @property
    def _begun(self) -> Mapping[str, Any]:
        """How the conversation began, by which it is known."""
        return {"input": self.incoming.turns[-1].asked} if self.incoming.turns else self.members

    async def _ask_each(self, way: FoundRoute, goals: list[Goal], conversation: bytes) -> "list[_Failure]":
        """Ask until one answers; give what went wrong where none did."""
        strict = way.settings.strict or self.incoming.headers.get("x-toolwire-strict") == "1"
        failures: list[_Failure] = []
        for goal in goals:
            attempt = _Attempt(self.tools, self.incoming, goal, self.members, strict=strict, several=len(way.goals) > 1)
            if way.settings.continue_:
                attempt.goes_on = partial(self.go_on, way, conversation, strict)
            self.served.goal = goal.name
            answer = await attempt.ask(self.served)
            client = self._keeping(attempt)
            failure = answer if isinstance(answer, _Failure) else await attempt.answer(answer, client, self.served)
            if failure is None:
                if len(way.goals) > 1 and not self.served.legs:  # else who went on is noted
                    self.tools.choosing.answered(goal, conversation)
                return []
            failures.append(failure)
            if not failure.may_pass:
                break
            if len(way.goals) > 1:
                self.tools.choosing.failed(goal, failure.wait)
        return failures

    def _keeping(self, attempt: "_Attempt") -> Answering:
        """Keep an answer on its way to the client, if it wants that."""
        name = conversations.named_in(self.members) if self.place is not None else ""
        if self.place is None or not (name or is_kept(self.members)):
            return self.client
        maker = attempt.goal.provider.name
        keeper = Keeper(self.place, self.members, maker, passes=attempt.passes, send=self.client.send)
        if name:
            keeper.adds = partial(conversations.add, self.place, name)
            keeper.earlier = [item for turn in self.incoming.turns for item in turn.items]
        return Answering(self.client.begin, keeper.send)

    async def go_on(self, way: FoundRoute, conversation: bytes, strict: bool, broken: Goal, text: str) -> "_Leg | None":
        """Ask who may go on with a text that broke off: the next providers, and at last the same one again."""
        several = len(way.goals) > 1
        if several:
            self.tools.choosing.failed(broken, None)
        others = [goal for goal in self.tools.choosing.order(way.goals, conversation) if goal.name != broken.name]
        for goal in (*others, broken):
            leg = await self._leg(goal, text, strict)
            if leg is not None:
                if several:
                    self.tools.choosing.answered(goal, conversation)
                return leg
        return None

    async def _leg(self, goal: Goal, text: str, strict: bool) -> "_Leg | None":
        """Ask one provider to go on; None where it does not, or the key has nothing left for it."""
        incoming, reservation, served, answer = self.incoming, None, Served(goal=goal.name), None
        path = incoming.path + (f"?{incoming.query}" if incoming.query else "")
        try:
            asked = GoingOn.of(dialect(incoming.asked.dialect), incoming.body, path, text, goal)
            again = replace(incoming, body=asked.body)
            members = members_of(asked.body)
            reservation = await _reserve(self.tools, again, members, [goal], requests=0)
            attempt = _Attempt(self.tools, again, goal, members, strict=strict, several=False)
            answer = await attempt.ask(served)
            if isinstance(answer, _Failure):
                return None
            settle = partial(_settle, self.tools, again, reservation, served, requests=0)
            return _Leg(goal, answer, served, settle, attempt.request_losses, asked.left)
        except (Refused, ToolwireError):
            return None
        finally:
            if answer is None or isinstance(answer, _Failure):
                _settle(self.tools, incoming, reservation, served, requests=0)

    def _longer(self, way: FoundRoute, failures: "list[_Failure]") -> FoundRoute | None:
        """Give the route for what is too long for this one."""
        if not (failures and failures[-1].too_long and way.settings.on_context):
            return None
        longer = self.tools.routes.find(way.settings.on_context)
        if longer is None:
            return None
        goals = tuple(_payable(self.tools, self.incoming, list(longer.goals)))
        return FoundRoute(longer.name, goals, replace(longer.settings, on_context=""))


def _knows(there: str, asked: Asked) -> bool:
    """Whether a provider knows what is no request to a model: it is of the wire, or of the same vendor."""
    return asked.dialect == there or (asked.action == "other" and {asked.dialect, there} <= _OPENAI)


class _Failure(Struct):
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


class _Leg(Struct):
    """An answer of a provider that goes on with that of another."""

    goal: Goal
    answer: AwaitedResponse
    served: Served
    settle: Callable[[], None]
    losses: tuple[Loss, ...]
    left: str


class _Attempt:
    """One request to one provider."""

    goes_on: Callable[[Goal, str], Awaitable[_Leg | None]] | None = None

    def __init__(
        self, tools: Tools, incoming: Incoming, goal: Goal, members: dict[str, Any], *, strict: bool, several: bool
    ) -> None:
        self.tools, self.incoming, self.goal, self.members = tools, incoming, goal, members
        self.strict, self.several = strict, several
        self.wire: Dialect = dialect(incoming.asked.dialect)
        self.over = wording(goal.provider, goal.format)
        same = incoming.asked.dialect == goal.provider.dialect and self.over is None
        self.passes = incoming.asked.action != "answer" or same
        self.exchange: Exchange | None = None
        self.request_losses: tuple[Loss, ...] = ()
        self._full_path = incoming.path + (f"?{incoming.query}" if incoming.query else "")

    async def ask(self, served: Served) -> "AwaitedResponse | _Failure":
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
        if answer.status < _FIRST_ELSE:
            served.answered = self.goal
            return answer
        try:
            return await self._failed(answer)
        except TransportError as problem:
            return self._broke(problem)
        finally:
            await answer.aclose()

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

    def _broke(self, problem: TransportError, *, before: bool = False) -> _Failure:
        kind: ErrorKind = "timeout" if problem.kind == "timeout" else "server"
        error = Error(kind, f"{self.goal.provider.name} could not be reached: {problem.kind}", _STATUSES[problem.kind])
        reply = self.wire.encode_error(error)
        wait = _BRIEFLY if before and problem.kind in ("connect", "reset") else None
        return _Failure(self.goal, reply.status, reply.json, {}, may_pass=True, wait=wait)

    async def _failed(self, answer: AwaitedResponse) -> _Failure:
        """Read a provider's error; its key is taken out of it."""
        data = bytearray()
        while len(data) < _ERROR_BYTES and (piece := await answer.aread()):
            data += piece
        body = bytes(data[:_ERROR_BYTES])
        key = key_of(self.goal.provider).encode()
        if key:
            body = body.replace(key, b"[hidden]")
        status = answer.status if answer.status >= 400 else 502
        may_pass = status in _PASSING or status >= 500
        headers = coming_down(answer.headers)
        said = self.goal.provider.speaks().decode_error(answer.status, read_error(body), answer.headers)
        told = _Failure(self.goal, status, body, headers, may_pass, said.retry_after, said.kind == "context_length")
        if self.passes and answer.status >= 400:
            return told
        if answer.status < 400:
            error = Error("server", f"{self.goal.provider.name} answered with {answer.status}, which is no answer", 502)
            reply = self.wire.encode_error(error)
        elif self.exchange is not None:
            reply = self.exchange.error(answer.status, body, answer.headers)
        else:
            reply = translate.error(status, body, self.wire, self.wire, answer.headers)
        return replace(told, status=reply.status, body=reply.json, headers=reply.headers)

    async def answer(self, answer: AwaitedResponse, client: Answering, served: Served) -> "_Failure | None":
        """Give an answer to the client; what failed before its first byte is given back."""
        streams = self.exchange.streams if self.exchange is not None else self._wants_stream()
        served.status = 200
        try:
            if self.incoming.asked.action == "other":
                await self._answer_other(answer, client, served)
            elif streams:
                first = await self._first(answer)
                if isinstance(first, _Failure):
                    await answer.aclose()
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

    async def _first(self, answer: AwaitedResponse) -> "bytes | _Failure":
        """Wait a while for an answer's first piece, where another provider may still be asked."""
        if not self.several:
            return b""
        try:
            async with asyncio.timeout(self.tools.keep_alive):
                return await answer.aread() or self._broke(TransportError("reset", "an answer without a word"))
        except TimeoutError:
            return b""
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
        head = {"content-type": answer.headers.get("content-type", JSON), "x-toolwire-model": self.goal.name}
        await client.begin(200, {**head, **coming_down(answer.headers)})
        try:
            while piece := await answer.aread():
                await client.send(piece, True)
        except TransportError as problem:
            raise Refused("server", f"{_BROKE}: {problem.kind}") from problem
        served.ending = "answer"
        await client.send(b"", False)

    async def _answer_whole(self, answer: AwaitedResponse, client: Answering, served: Served) -> "_Failure | None":
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
        if self.exchange is None:
            await self._read_aside(body, served)
            kind = answer.headers.get("content-type", JSON)
        else:
            body, kind = self._translated(body, served), JSON
        losses = self._told(served)
        served.ending = served.ending or "answer"
        served.heard = len(body) if served.usage is None else 0
        head = {"content-type": kind, "content-length": str(len(body)), **coming_down(answer.headers), **losses}
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

    async def _answer_stream(self, answer: AwaitedResponse, first: bytes, client: Answering, served: Served) -> None:
        seams, shown = self._seams(), self.exchange
        array = stream_quirks(self.wire.DIALECT, {}, self._full_path).get("stream_array", False)
        stream: ExchangedStream | PassedStream
        stream = PassedStream(self.wire, array=array) if shown is None else shown.stream()
        kind = answer.headers.get("content-type") if shown is None else None
        kind = kind or (JSON if array else _STREAMS.get(self.wire.DIALECT, _EVENTS))
        head = {"content-type": kind, "cache-control": "no-store", "x-accel-buffering": "no"}
        await client.begin(200, {**head, **coming_down(answer.headers), **self._told(served)})
        pulse = _Pulse(self.tools.keep_alive, client, None if shown is None else _KEEP_ALIVES.get(self.wire.DIALECT))
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
                served.usage = stream.usage
                if not finished or served.usage is None:
                    served.heard = _length(stream.parts)
        error = None if problem is None else Error("server", f"{_BROKE}: {problem.kind}", code="incomplete")
        last = stream.close(error)
        served.ending = "broke off" if stream.broken else "continued" if served.legs else "answer"
        if seams is None:
            served.usage = stream.usage
            if stream.broken:
                served.heard = _length(stream.parts)
        served.losses = (*served.losses, *stream.losses)
        if last is None:
            raise Refused("server", f"{_BROKE} where no word can follow")
        if self.passes:
            await self._note_maker(Message("assistant", stream.parts if seams is None else seams.parts))
        await self._keep()
        await client.send(last, False)

    async def _hand_on(
        self, answer: AwaitedResponse, first: bytes, stream: ExchangedStream | PassedStream, pulse: "_Pulse"
    ) -> TransportError | None:
        """Hand an answer on, piece by piece; give what broke it off."""
        size, read, feed, send = 0, answer.aread, stream.feed, pulse.client.send
        try:
            while piece := first or await read():
                first = b""
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
        if self.wire.DIALECT == WIRE:
            made.answer_id = f"resp_{incoming.identity.removeprefix('tw_')}"
        return made

    async def _hand_on_seamed(
        self,
        answer: AwaitedResponse,
        first: bytes,
        stream: ExchangedStream,
        seams: SeamedDecoder,
        pulse: "_Pulse",
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


class _Pulse:
    """Says that the connection lives while a model thinks; between two pieces, never within one."""

    def __init__(self, seconds: float, client: Answering, words: bytes | None) -> None:
        self._seconds, self.client, self._words = seconds, client, words
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
            self._task = asyncio.ensure_future(self.client.send(self._words, True))
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


def _text(raw: Any) -> str:
    """Read a member that is a text; anything else is none."""
    try:
        value = msgspec.json.decode(raw) if raw is not None else ""
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return value if isinstance(value, str) else ""
