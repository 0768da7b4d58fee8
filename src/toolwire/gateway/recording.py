"""The recording of one exchange: the requests and answers of the client and of the provider, with their times.

Rules of this file:
- RequestRecording only notes bytes and times. A process of its own masks, compresses and stores them.
- A body is noted up to its limit. Its size counts all bytes.
- What goes wrong with a record is logged, and never changes an answer.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from toolwire.dialects import traits_of
from toolwire.errors import InvalidField
from toolwire.gateway.auditing import visible_keys
from toolwire.gateway.client_sessions import user_session_in
from toolwire.gateway.headers import client_session_of
from toolwire.gateway.keys import NANO, Key
from toolwire.gateway.prices import Tokens
from toolwire.gateway.routes import Candidate
from toolwire.gateway.stored_turns import StoredTurn
from toolwire.records import Body, Record
from toolwire.records.capture import MARGIN, Pieces, ProviderExchange, earlier_of, whole_body
from toolwire.translation.paths import RouteMatch
from toolwire.types import Loss, Usage
from toolwire.wire.conversation_ids import conversation_of
from toolwire.wire.transport import AwaitedResponse, HttpRequest, TransportError

if TYPE_CHECKING:
    from toolwire.records.store import RecordStore

_log = logging.getLogger(__name__)
_NUMBERS = frozenset({"before", "after", "limit", "status"})
_TIMES = frozenset({"since", "until"})
_write = msgspec.json.Encoder().encode


class _Request(Protocol):
    """What is recorded of the client's request: the fields of `ClientRequest`."""

    identity: str
    endpoint: RouteMatch
    headers: Mapping[str, str]
    body: bytes
    key: Key | None

    @property
    def owner(self) -> str:
        """The id of the key."""

    @property
    def full_path(self) -> str:
        """The path with its query."""


class _Outcome(Protocol):
    """What is recorded of the outcome: the fields of `RequestOutcome`."""

    model: str
    ending: str
    losses: tuple[Loss, ...]
    usage: Usage | None
    tokens: Tokens | None
    cost: int


class Recorder:
    """Records the exchanges of a gateway in a store.

    `secrets` returns the secrets of the providers. They change when `routes` returns another object. Without `bodies`,
    no body and no header is recorded.
    """

    def __init__(
        self,
        store: "RecordStore",
        secrets: Callable[[], Sequence[str]],
        routes: Callable[[], object] = lambda: None,
        *,
        bodies: bool = True,
    ) -> None:
        self.store: RecordStore = store
        self.bodies: bool = bodies
        self.limit: int = store.limits.body + MARGIN
        self._find_secrets, self._routes = secrets, routes
        self._known: tuple[object, tuple[str, ...]] = object(), ()

    def start(self, client_request: _Request, start: float, is_websocket: bool) -> "RequestRecording":
        """Begin to record the exchange of a request whose body began to arrive at `start`."""
        return RequestRecording(self, client_request, start, is_websocket)

    def counts(self) -> tuple[int, int]:
        """Return how many records were written and how many were lost."""
        return self.store.written, self.store.lost

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the providers."""
        routes = self._routes()
        if self._known[0] is not routes:
            self._known = routes, tuple(self._find_secrets())
        return self._known[1]

    def read(self, identity: str, key: str | None) -> bytes | None:
        """Return the record with an id as JSON, or None. With `key`, only a record of this key."""
        record = self.store.read(identity, key=key)
        return None if record is None else _write(record.to_json())

    def list(self, query: str, key: str | None) -> bytes:
        """Return a page of records as JSON. `query` has the filters of the request's address."""
        filters: dict[str, Any] = dict(_filter_of(name, value) for name, value in parse_qsl(query))
        if key is not None:
            filters["key"] = key
        page = self.store.list(**filters)
        return _write({"records": page.rows, "next": page.next})


def _filter_of(name: str, value: str) -> tuple[str, Any]:
    try:
        if name in _NUMBERS:
            return name, int(value)
        if name in _TIMES:
            return name, float(value)
    except ValueError:
        raise InvalidField(name, f"must be a number, not {value[:40]!r}", path="records") from None
    if name == "lossy":
        return name, value not in ("0", "false", "no", "")
    # `key` would be a credential in an address, which the gateway rejects.
    return "key" if name == "key_id" else name, value


class _ObservedResponse:
    """An answer of a provider whose bytes are noted as they are read."""

    def __init__(self, answer: AwaitedResponse, recording: "RequestRecording", pieces: Pieces) -> None:
        self.status: int = answer.status
        self.headers: dict[str, str] = answer.headers
        self._answer, self._recording, self._pieces = answer, recording, pieces
        self.afinish, self.aclose = answer.afinish, answer.aclose

    async def aread(self) -> bytes:
        """Return the next piece."""
        piece = await self._answer.aread()
        self._pieces.add(piece, self._recording.seconds)
        return piece


class RequestRecording:
    """The recording of one exchange."""

    def __init__(self, recorder: Recorder, client_request: _Request, start: float, is_websocket: bool) -> None:
        self._recorder, self._request, self._is_websocket = recorder, client_request, is_websocket
        self._start = start
        self._time = time.time() - (time.monotonic() - start)
        self._exchanges: list[ProviderExchange] = []
        self._pieces = Pieces(recorder.limit)
        self._headers: Mapping[str, str] = {}
        self._status = 0
        self._first_byte: float | None = None
        self._session = client_session_of(client_request.headers)
        self.turns: Callable[[], Sequence[StoredTurn]] = tuple  # the stored turns that the request continues

    @property
    def seconds(self) -> float:
        """The seconds since the exchange began."""
        return time.monotonic() - self._start

    def ask(
        self, candidate: Candidate, request: HttpRequest, losses: tuple[Loss, ...], members: Mapping[str, Any]
    ) -> None:
        """Note a request to a provider."""
        provider, limit = candidate.provider, self._recorder.limit
        exchange = ProviderExchange(
            provider.name, candidate.model, provider.dialect, request, losses, seconds=self.seconds, limit=limit
        )
        self._exchanges.append(exchange)
        if not self._session:
            self._session = user_session_in(traits_of(self._request.endpoint.dialect), members)

    def fail(self, problem: TransportError) -> None:
        """Note that the provider could not be reached."""
        self._exchanges[-1].error = problem.kind

    def observe(self, answer: AwaitedResponse) -> AwaitedResponse:
        """Note the head of the provider's answer, and return the answer, whose bytes will be noted."""
        exchange = self._exchanges[-1]
        exchange.status, exchange.headers = answer.status, answer.headers
        return _ObservedResponse(answer, self, exchange.pieces)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Note the head of the answer to the client."""
        self._status, self._headers = status, headers

    def send(self, data: bytes) -> None:
        """Note a piece of the answer to the client."""
        seconds = self.seconds
        if data and self._first_byte is None:
            self._first_byte = seconds
        self._pieces.add(data, seconds)

    def finish(self, wire: str, outcome: _Outcome) -> None:
        """Pass the record to the store. A failure is logged: the client has its answer."""
        try:
            record = self._record(wire, outcome)
            secrets = (*self._recorder.secrets, *visible_keys(self._request.headers))
            self._recorder.store.write(record if self._recorder.bodies else _without_bodies(record), secrets)
        except Exception:  # noqa: BLE001 - a record must not fail a request
            _log.exception("the request %s was not recorded", self._request.identity)

    def _record(self, wire: str, outcome: _Outcome) -> Record:
        request, limit = self._request, self._recorder.limit
        streamed = "content-length" not in self._headers and self._status > 0
        last = self._exchanges[-1] if self._exchanges else None
        provider_request, provider_answer = (Body(), Body()) if last is None else last.bodies(streams=streamed)
        request_losses, answer_losses = self._losses(outcome.losses)
        tokens, key = outcome.tokens, request.key
        return Record(
            id=request.identity,
            time=round(self._time, 6),
            seconds=round(self.seconds, 6),
            first_byte=None if self._first_byte is None else round(self._first_byte, 6),
            key=request.owner,
            key_name="" if key is None else key.name,
            session=self._session[:200],
            conversation=self._conversation(),
            path=request.full_path,
            wire=wire,
            provider_wire="" if last is None else last.wire,
            url="" if last is None else last.url,
            model=outcome.model[:200],
            provider="" if last is None else last.provider,
            provider_model="" if last is None else last.model,
            streamed=streamed,
            status=self._status,
            provider_status=0 if last is None else last.status,
            error="" if last is None else last.error,
            ending=outcome.ending,
            usage=None if tokens is None else _usage_of(tokens, outcome.usage),
            estimated=tokens is not None and tokens.estimated,
            cost=outcome.cost / NANO,
            request_losses=request_losses,
            answer_losses=answer_losses,
            websocket=self._is_websocket,
            earlier=earlier_of(self._exchanges),
            client_request=whole_body(request.body, request.headers, limit),
            provider_request=provider_request,
            provider_answer=provider_answer,
            client_answer=self._pieces.body(self._headers, is_stream=streamed),
        )

    def _losses(self, losses: tuple[Loss, ...]) -> tuple[tuple[Loss, ...], tuple[Loss, ...]]:
        """Return the losses of the request and those of the answer. An error has those of the request alone."""
        asked = [exchange.losses for exchange in self._exchanges]
        beginnings = [one for one in asked if losses[: len(one)] == one]
        if not losses or not beginnings:
            return asked[-1] if asked and not losses else (), losses
        count = max(map(len, beginnings))
        return losses[:count], losses[count:]

    def _conversation(self) -> str:
        """Return the conversation's id if the request has only its end. Otherwise the store's process finds it."""
        turns = self.turns()
        return conversation_of(self._request.owner, {"input": turns[-1].asked}).hex()[:32] if turns else ""


def _usage_of(tokens: Tokens, usage: Usage | None) -> Usage:
    """Return the tokens that are billed, with those of reasoning that the provider reported."""
    reasoning = None if usage is None else usage.reasoning_tokens
    return Usage(tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, reasoning)


def _without_bodies(record: Record) -> Record:
    """Return a record without bodies, with their sizes."""
    sizes = {side: Body(size=body.size) for side, body in record.bodies.items()}
    earlier = tuple(
        replace(one, request=Body(size=one.request.size), answer=Body(size=one.answer.size)) for one in record.earlier
    )
    return replace(record, earlier=earlier, **sizes)
