"""The gateway as an ASGI application: it checks a request, routes it, and answers in the client's wire.

Rules of this file:
- A path belongs to a wire, or to the gateway itself. For any other path the gateway returns the 404 of the wire that
  the path resembles.
- A body has a size limit and a time limit. A gateway that listens on loopback rejects requests of web pages. A page
  that is allowed gets its permission (CORS) before it shows a key.
- Before the first byte an error is a response. After it the gateway closes the connection, so that the answer never
  looks complete.
- If the client disconnects, its connection notifies the request, and the gateway cancels what waits for a provider.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolwire.dialects import traits_of
from toolwire.errors import InvalidBody, InvalidField, StoreFailed, ToolwireError
from toolwire.gateway import conversations
from toolwire.gateway.admission import counted
from toolwire.gateway.auditing import AuditedTurn, visible_keys
from toolwire.gateway.budget_alerts import BudgetAlert
from toolwire.gateway.context import (
    JSON,
    LEFT,
    PREWARMS,
    RECEIVING,
    ClientRequest,
    GatewayContext,
    RequestOutcome,
    ResponseWriter,
)
from toolwire.gateway.errors import GatewayError, reply_of, wire_near
from toolwire.gateway.key_admin import MAX_BODY, KeyAdmin, KeyEvent, check_no_page, is_admin_path, methods_of
from toolwire.gateway.keys import NANO, Key, check_program_key, credential_in
from toolwire.gateway.memory import MemoryPart
from toolwire.gateway.prices import Prices
from toolwire.gateway.recording import RequestRecording
from toolwire.gateway.request_record import RequestRecord
from toolwire.gateway.response_store import compacted_response, fetch, summary_request, text_of
from toolwire.gateway.routes import Routes, UpstreamNetwork
from toolwire.gateway.routing import handle_request, resolve_route
from toolwire.gateway.sockets import PATH as SOCKET_PATH
from toolwire.gateway.sockets import Socket
from toolwire.gateway.stored_turns import Turns
from toolwire.gateway.usage_queries import usage_query_in
from toolwire.gateway.usage_recording import recorded, recorded_model, recorded_path, row_of
from toolwire.providers.listing import list_models, show_model
from toolwire.translation.paths import RouteMatch, allowed_methods, match_route, normalize_path
from toolwire.types import Error
from toolwire.wire.bodies import members_of, read_body

_log = logging.getLogger(__name__)
_write = msgspec.json.Encoder().encode
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[dict[str, Any]], Awaitable[None]]
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
_NO_WEBSOCKET = "no WebSocket is available at this path"
_BODY_HEADERS = frozenset({"content-type", "content-length"})
_REQUEST_TIMEOUT = 408
_LATE = "the body took longer than"
_OK = 200
_LOSSES = "/toolwire/requests/"
_USAGE = "/toolwire/usage"
# The actions that are for a model. The usage ledger has a row for each of their requests.
_MODEL_ACTIONS = frozenset({"answer", "count", "compact", "other"})
_RECORDS = "/toolwire/records"
# The methods of a stored response.
_STORED = {"retrieve": ("GET", "DELETE"), "items": ("GET",), "cancel": ("POST",)}
# The content type of Prometheus' text format.
_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_KEYLESS_PATHS = frozenset({"/health", "/ready"})
_PREFLIGHT_HEADER = "access-control-request-method"
_ALLOWED_METHODS = "GET, POST, DELETE, HEAD"
_EXPOSED_HEADERS = (
    b"x-toolwire-request, x-toolwire-model, x-toolwire-losses, x-toolwire-estimate, x-request-id, retry-after"
)
VERSION = "0.30.0"  # ollama's version as of 2026-11-22: its clients use features by it


class BodyLimits(Struct, frozen=True):
    """The limits of a request's body: its size in bytes, and the seconds until all of it has arrived."""

    body: int = 64 * 1024 * 1024
    seconds: float = 60.0


class AllowedOrigins(Struct, frozen=True):
    """The host names of this gateway and the pages that may send requests. On loopback, those of this machine only."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    loopback: bool = True

    def allow(self, host: str, origin: str) -> bool:
        """Return True if a request may use this host name and come from a page of this origin. Case does not matter."""
        host, origin = host.lower(), origin.lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        any_name = not (self.loopback or self.hosts)
        name_allowed = any_name or name in self.hosts or (self.loopback and name in _LOOPBACK)
        page_host = origin.partition("://")[2]
        same_place = (page_host.rpartition(":")[0] or page_host) in _LOOPBACK if self.loopback else page_host == host
        return name_allowed and (not origin or origin in self.origins or same_place)


_allowed = lru_cache(256)(AllowedOrigins.allow)


class _MountedPage(Protocol):
    """The page that the command line mounts at `/`: an ASGI application that chooses its requests."""

    def wants(self, scope: Mapping[str, Any], /) -> bool:
        """Return True if a request is for the page."""
        ...

    def stop(self) -> None:
        """End what would keep connections open."""
        ...

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer a request."""
        ...


class Gateway:
    """The gateway: an ASGI application.

    `allowed_origins` rejects requests of web pages and of names that lead to this machine. `log` and `observers`
    receive the record of each request, and `log_event` each change of a key and each alert. `metrics` renders what
    `/metrics` returns. With `admin`, an admin key manages keys over HTTP, and reads `/metrics` alone. With a
    `program_key`, the gateway answers only requests that have this key. `shows_usage` opens `/toolwire/usage`, for
    admin keys if there are keys.
    """

    def __init__(
        self,
        context: GatewayContext,
        limits: BodyLimits = BodyLimits(),  # noqa: B008 - frozen
        *,
        allowed_origins: AllowedOrigins = AllowedOrigins(),  # noqa: B008 - frozen
        log: Callable[[RequestRecord], None] | None = None,
    ) -> None:
        self.context: GatewayContext = context
        self.limits: BodyLimits = limits
        self.allowed_origins: AllowedOrigins = allowed_origins
        self.log: Callable[[RequestRecord], None] | None = log
        self.log_event: Callable[[KeyEvent | BudgetAlert], None] = _discard
        self.admin: bool = False
        self.websocket: bool = True
        self.page: _MountedPage | None = None
        self.program_key: str = ""
        self.running: int = 0
        self.observers: list[Callable[[RequestRecord], None]] = []
        self.metrics: Callable[[], bytes] | None = None
        self.shows_usage: bool = False

    def renew(self, routes: Routes, prices: Prices, upstream_network: UpstreamNetwork) -> None:
        """Use other routes, prices and network settings. Running requests finish with the old ones."""
        self.context = replace(self.context, routes=routes, prices=prices, proxy=upstream_network.proxy)
        self.context.transport.upstream_network = upstream_network  # type: ignore[attr-defined]

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer one request, or run the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http" and self.page is not None and self.page.wants(scope):
            await self.page(scope, receive, send)
        elif scope["type"] == "http":
            self.running += 1
            try:
                await _Request(self, scope, receive, send).run()
            finally:
                self.running -= 1
        elif scope["type"] == "websocket":
            await receive()
            request = _Request(self, {**scope, "type": "http", "method": "GET"}, receive, _as_websocket_messages(send))
            if await request.may_open():
                if RECEIVING in scope:
                    scope[RECEIVING].set_owner(request.owner)
                connected, owner = self.context.connected, request.owner
                await Socket(self, scope, receive, send, stall=self.context.stall, owner=owner, memory=connected).run()

    async def _run_lifespan(self, receive: _Receive, send: _Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                close = getattr(self.context.transport, "aclose", None)
                if close is not None:
                    await close()
                self.context.memory.close()
                self.context.offloader.close()
                if self.context.accounts is not None:
                    await self.context.accounts.close()
                if self.context.audit is not None:
                    await self.context.audit.aclose()
                if self.context.usage is not None:
                    await self.context.usage.close()
                if self.context.recorder is not None:
                    await asyncio.to_thread(self.context.recorder.store.close)
                await send({"type": "lifespan.shutdown.complete"})
                return
            if self.context.usage is not None:
                self.context.usage.start()
            await send({"type": "lifespan.startup.complete"})


class _ClientDisconnected(Exception):
    """The client has disconnected."""


class _Request:
    """One HTTP request."""

    def __init__(self, gateway: Gateway, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        self.gateway, self.scope, self._receive, self._asgi_send = gateway, scope, receive, send
        self.identity = f"tw_{os.urandom(12).hex()}"
        self.method: str = scope["method"]
        self.path: str = normalize_path(scope["path"])
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.response_started = False
        self.ended = False
        self.first_byte: float | None = None  # seconds until the response began
        self.action = ""  # of a request for a model whose key was accepted
        self.outcome = RequestOutcome()
        self.endpoint = match_route(self.path, self.headers)
        self.wire = wire_near(self.path, self.headers) if self.endpoint is None else self.endpoint.dialect
        self.key: Key | None = None
        self.page_origin = ""  # the origin of the web page that sent the request, if it is allowed
        self.audited: ClientRequest | None = None
        self._start = time.monotonic()
        self.recording: RequestRecording | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Answer the request, and report what happened."""
        try:
            await self._answer()
        except GatewayError as rejection:
            await self._send_error(rejection.error, rejection.headers)
        except InvalidBody as problem:
            await self._send_error(Error("invalid_request", str(problem), 400))
        except _ClientDisconnected:
            self.outcome.ending = self.outcome.ending or "client gone"
        except asyncio.CancelledError:  # the gateway stops, and does not wait for the answer any longer
            self.outcome.ending = self.outcome.ending or "broke off"
            self._report()
            raise
        except Exception:  # noqa: BLE001 - the client gets an error of the gateway
            _log.exception("request %s failed", self.identity)
            await self._send_error(Error("server", "the gateway failed; its log says why", 500))
        self._report()
        with contextlib.suppress(GatewayError):
            await self._record()

    async def _record(self) -> None:
        """Record the calls of this turn, once."""
        outcome, audit, client_request = self.outcome, self.gateway.context.audit, self.audited
        if audit is None or client_request is None or not outcome.status:
            return
        self.audited = None
        provider = outcome.continuations[-1].provider if outcome.continuations else outcome.provider
        losses = tuple(str(loss) for loss in outcome.losses if loss.severity == "semantic")
        request_fields = (
            self.identity,
            client_request.owner,
            self.wire,
            client_request.full_path,
            client_request.body,
            outcome.recorded_answer,
        )
        await audit.record(AuditedTurn(*request_fields, provider, losses, visible_keys(self.headers), time.time()))

    async def may_open(self) -> bool:
        """Return True if the client may open a WebSocket here. Otherwise send an error."""
        try:
            await self._check_socket()
        except GatewayError as rejection:
            await self._send_error(rejection.error)
            self._report()
            return False
        return True

    async def _check_socket(self) -> None:
        self._check_origin()
        await self._check_key()
        if not (self.path == SOCKET_PATH and self.gateway.websocket):
            raise GatewayError("not_found", _NO_WEBSOCKET)

    def _report(self) -> None:
        """Pass the record of the request to the log, the metrics, the spans and the usage ledger.

        Health checks are not logged.
        """
        if self.recording is not None:
            self.recording.finish(self.wire, self.outcome)
        outcome, tokens, seconds = self.outcome, self.outcome.tokens, round(time.monotonic() - self._start, 6)
        if self.gateway.context.usage is not None and self.action:
            request_fields = self.identity, time.time(), self.key, self.wire, self.action
            self.gateway.context.usage.add(row_of(*request_fields, outcome, seconds, self.first_byte))
        log = None if self.path in _KEYLESS_PATHS else self.gateway.log
        observers = self.gateway.observers if log is None else [*self.gateway.observers, log]
        if not observers:
            return
        record = RequestRecord(
            time=_time_in_utc(),
            request=self.identity,
            key=self.owner,
            key_name="" if self.key is None else self.key.name,
            path=recorded_path(self.path, self.endpoint, outcome),
            wire=self.wire,
            status=outcome.status,
            model=recorded_model(outcome),
            provider=recorded(outcome.provider),
            ending=outcome.ending,
            seconds=seconds,
            input_tokens=tokens.input if tokens is not None else None,
            output_tokens=tokens.output if tokens is not None else None,
            cache_read_tokens=tokens.cache_read if tokens is not None else UNSET,
            cache_write_tokens=tokens.cache_write if tokens is not None else UNSET,
            cache_write_long_tokens=tokens.cache_write_long or UNSET if tokens is not None else UNSET,
            estimated=tokens is not None and tokens.estimated,
            cost=outcome.cost / NANO,
            continued_by=[recorded(continuation.provider) for continuation in outcome.continuations] or UNSET,
        )
        for observe in observers:
            observe(record)

    async def _answer(self) -> None:
        """Check the request and answer it."""
        self._check_origin()
        if self.page_origin and self.method == "OPTIONS" and _PREFLIGHT_HEADER in self.headers:
            requested_headers = self.headers.get("access-control-request-headers", "")
            await self._begin(
                204,
                {"access-control-allow-methods": _ALLOWED_METHODS, "access-control-allow-headers": requested_headers},
            )
            await self._send(b"", False)
            return
        await self._check_key()
        endpoint = self.endpoint
        if endpoint is None:
            await self._answer_own_path()
            return
        if "upgrade" in self.headers:  # after a 404 clients use HTTP at once; after a 405 they try the WebSocket again
            raise GatewayError("not_found", _NO_WEBSOCKET)
        if endpoint.action == "conversation":
            body = await self._read() if self.method == "POST" else b""
            query = self.scope.get("query_string", b"").decode("latin-1")
            async with self._counted_request if self.method == "POST" else contextlib.nullcontext():
                reply = await conversations.answer(self._turns, endpoint.subject, self.method, body, query)
            await self._reply(200, reply)
        elif PREWARMS in self.scope:
            async with self._counted_request:
                await self._reply(200, b"{}")
        elif self.method in _STORED.get(endpoint.action, ()):
            query = self.scope.get("query_string", b"").decode("latin-1")
            client = ResponseWriter(self._begin, self._send)
            await self._until_disconnect(fetch(self.gateway.context, self._turns, endpoint, self.method, query, client))
        else:
            await self._answer_wire(endpoint)

    async def _answer_wire(self, endpoint: RouteMatch) -> None:
        """Answer a request to a path of a wire."""
        if self.method not in allowed_methods(endpoint):
            if endpoint.action in ("model", "retrieve"):
                raise GatewayError("not_found", f"there is nothing at {self.method} {self.path[:200]}")
            raise GatewayError.method(
                self.method, self.path[:200], _STORED.get(endpoint.action) or allowed_methods(endpoint)
            )
        if endpoint.method == "GET":
            await self._answer_without_provider(endpoint)
            return
        self.action = endpoint.action if endpoint.action in _MODEL_ACTIONS else ""
        recorder = self.gateway.context.recorder
        body = await self._read()
        if recorder is not None:
            self.recording = recorder.start(
                self._request_of(endpoint, body), self._start, "toolwire.held" in self.scope
            )
        match endpoint.action:
            case "answer" | "other":
                await self._handle_request(endpoint, body)
            case "count":
                await self._count_tokens(endpoint, body)
            case "compact":
                await self._compact_conversation(endpoint, body)
            case _:
                await self._answer_without_provider(endpoint, _model_in(body))

    @property
    def _counted_request(self) -> contextlib.AbstractAsyncContextManager[None]:
        return counted(self.gateway.context.accounts, self.key)

    @property
    def _turns(self) -> Turns:
        return Turns([MemoryPart(self.gateway.context.memory)], self.owner)

    async def _compact_conversation(self, endpoint: RouteMatch, body: bytes) -> None:
        """Compact a conversation: by its vendor, or by a summary that a model of another wire writes."""
        members_of(body)
        route = self.gateway.context.routes.find(await self.gateway.context.offloader.run(len(body), _model_in, body))
        if route is None or route.candidates[0].provider.dialect == endpoint.dialect:
            await self._handle_request(endpoint, body)
            return
        answer = bytearray()

        async def begin(_status: int, answer_headers: dict[str, str]) -> None:
            headers.update({name: value for name, value in answer_headers.items() if name not in _BODY_HEADERS})

        async def send(data: bytes, _more: bool) -> None:
            answer.extend(data)

        headers: dict[str, str] = {}
        summary_endpoint = RouteMatch("answer", endpoint.dialect)
        await self._handle_request(
            summary_endpoint, summary_request(body), "/v1/responses", ResponseWriter(begin, send)
        )
        if self.outcome.status == _OK:
            answer[:] = compacted_response(body, bytes(answer), self.identity, self.gateway.context.all_secrets())
        await self._reply(self.outcome.status, bytes(answer), **headers)

    def _check_origin(self) -> None:
        """Reject a request of a web page, or of a host name that leads to this machine, unless it is allowed."""
        if is_admin_path(self.path):
            check_no_page(self.headers)
        page_origin = self.headers.get("origin", "")
        if _allowed(self.gateway.allowed_origins, self.headers.get("host", ""), page_origin):
            self.page_origin = page_origin
        elif (
            self.gateway.allowed_origins.loopback or self.path not in _KEYLESS_PATHS
        ):  # a health check may use the address only
            raise GatewayError(
                "permission", "this gateway does not answer to this host, or to pages of this origin", 403
            )

    async def _check_key(self) -> None:
        """Find the client's key, if the gateway has keys. `/health` and `/ready` need none."""
        accounts, program_key = self.gateway.context.accounts, self.gateway.program_key
        if self.path in _KEYLESS_PATHS:
            return
        query = self.scope.get("query_string", b"").decode("latin-1")
        if program_key:
            check_program_key(program_key, self.scope["headers"], query)
        elif accounts is not None:
            self.key = await accounts.key(credential_in(self.scope["headers"], query))

    @property
    def owner(self) -> str:
        """The id of the key, whose memory and reports the request uses. Empty without keys."""
        return "" if self.key is None else self.key.id

    async def _read(self, max_bytes: int = 0) -> bytes:
        """Read the body, within the limits of its time and of its size: that of the gateway, or `max_bytes`."""
        max_bytes, pieces, size = max_bytes or self.gateway.limits.body, [], 0
        length = self.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            raise GatewayError("invalid_request", "content-length must be a number", 400)
        if int(length) > max_bytes:
            raise GatewayError("invalid_request", f"the body has more than {max_bytes} bytes", 413)
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise GatewayError("invalid_request", "a body must not be compressed", 415)
        task: Any = asyncio.current_task()
        deadline = asyncio.get_running_loop().call_later(self.gateway.limits.seconds, task.cancel, _LATE)
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise _ClientDisconnected
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > max_bytes:
                    raise GatewayError("invalid_request", f"the body has more than {max_bytes} bytes", 413)
                if not message.get("more_body"):
                    return b"".join(pieces)
        except asyncio.CancelledError as cancelled:
            if cancelled.args != (_LATE,):
                raise
            task.uncancel()
            raise GatewayError("timeout", f"{_LATE} {self.gateway.limits.seconds:g} s", _REQUEST_TIMEOUT) from None
        finally:
            deadline.cancel()

    async def _handle_request(
        self, endpoint: RouteMatch, body: bytes, path: str = "", client: ResponseWriter | None = None
    ) -> None:
        """Route the request with `body` to its providers, and answer `client`.

        `path` replaces the path of the request, and `client` the client itself, for a request that the gateway makes.
        """
        client_request = self._request_of(endpoint, body, path)
        client_request.connection_memory = self.scope.get("toolwire.held")
        if self.recording is not None:
            client_request.recording = self.recording
            self.recording.turns = lambda: client_request.turns
        if self.gateway.context.audit is not None and endpoint.action == "answer":
            self.audited = client_request
        client = client or ResponseWriter(self._begin, self._send, self._record)
        await self._until_disconnect(handle_request(self.gateway.context, client_request, client, self.outcome))
        outcome = self.outcome
        self.gateway.context.reports.file(self.identity, self.owner, outcome.model, outcome.provider, outcome.losses)

    def _request_of(self, endpoint: RouteMatch, body: bytes, path: str = "") -> ClientRequest:
        """Return the request with `body`. `path` replaces its path."""
        query = self.scope.get("query_string", b"").decode("latin-1")
        return ClientRequest(self.identity, endpoint, path or self.path, query, self.headers, body, self.key)

    async def _until_disconnect(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`, and cancel it when the client disconnects."""
        self._task = task = cast("asyncio.Task[Any]", asyncio.current_task())
        if self.scope.setdefault(LEFT, self._cancel) is None:
            work.close()
            raise _ClientDisconnected
        try:
            await work
        except asyncio.CancelledError:
            if self.scope[LEFT] is not None:
                raise
            task.uncancel()
            raise _ClientDisconnected from None
        finally:
            self._task = None

    def _cancel(self) -> None:
        """Cancel the work for a client that has disconnected."""
        if not self.ended and self._task is not None:
            self._task.cancel()

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        raw_headers.append((b"x-toolwire-request", self.identity.encode()))
        raw_headers.append((traits_of(self.wire).request_id_header.encode(), self.identity.encode()))
        if self.page_origin:
            raw_headers += ((b"access-control-allow-origin", self.page_origin.encode("latin-1")), (b"vary", b"origin"))
            raw_headers.append((b"access-control-expose-headers", _EXPOSED_HEADERS))
        if "cache-control" not in headers:
            raw_headers.append((b"cache-control", b"no-store"))
        self.response_started, self.outcome.status = True, status
        if self.first_byte is None:
            self.first_byte = round(time.monotonic() - self._start, 6)
        if self.recording is not None:
            self.recording.begin(status, headers)
        await self._asgi_send({"type": "http.response.start", "status": status, "headers": raw_headers})

    async def _send(self, data: bytes, more: bool) -> None:
        if not more:
            await self._record_before_end(self.outcome.status)
        self.ended = not more
        if self.recording is not None:
            self.recording.send(data)
        await self._asgi_send({"type": "http.response.body", "body": data, "more_body": more})

    async def _record_before_end(self, status: int) -> None:
        """Record the calls of this turn before its answer ends. An error is sent even if they cannot be recorded."""
        try:
            await self._record()
        except GatewayError:
            if status == _OK:
                raise

    async def _send_error(self, error: Error, headers: Mapping[str, str] | None = None) -> None:
        """Send an error as a response, if nothing was sent yet. After a timeout the rest of the body is not awaited."""
        self.outcome.ending = self.outcome.ending if self.response_started and self.outcome.ending else "error"
        if self.response_started:
            return
        reply = reply_of(error, self.wire)
        closes = {"connection": "close"} if error.status == _REQUEST_TIMEOUT else {}
        await self._reply(error.status or reply.status, reply.json, **reply.headers, **closes, **(headers or {}))

    async def _reply(self, status: int, body: bytes, content_type: str = JSON, **headers: str) -> None:
        await self._record_before_end(status)
        await self._begin(status, {"content-type": content_type, "content-length": str(len(body)), **headers})
        await self._send(b"" if self.method == "HEAD" else body, False)

    async def _answer_without_provider(self, endpoint: RouteMatch, subject: str = "") -> None:
        """Answer a request that needs no provider: the list of models, a model, a version."""
        names, name = self.gateway.context.routes.names(), endpoint.subject or subject
        if self.key is not None:
            names = [model for model in names if self.key.may_ask(model)]
        self.outcome.model_is_known = self.gateway.context.routes.find(name) is not None
        if endpoint.action == "models":
            await self._reply(200, _write(list_models(endpoint.dialect, names)))
        elif endpoint.action == "version":
            await self._reply(200, _write({"version": VERSION}))
        elif endpoint.action == "model" and self._can_use(name):
            await self._reply(200, _write(show_model(endpoint.dialect, name)))
        else:
            code = "model_not_found" if endpoint.action == "model" else None
            raise GatewayError("not_found", f"{name[:80]!r} is unknown", code=code)

    def _can_use(self, name: str) -> bool:
        """Return True if the model `name` exists and the key may use it."""
        return (self.key is None or self.key.may_ask(name)) and self.gateway.context.routes.find(name) is not None

    async def _count_tokens(self, endpoint: RouteMatch, body: bytes) -> None:
        """Count the tokens of a request: by its provider, or by an estimate that is marked as one."""
        run = self.gateway.context.offloader.run
        members = await run(len(body), members_of, body)
        name = endpoint.subject or text_of(members.get("model"))
        route = resolve_route(self.gateway.context.routes, self.key, name, self.outcome)
        if route.candidates[0].provider.dialect == endpoint.dialect:
            await self._handle_request(endpoint, body)
            return
        tokens = max(1, sum(len(bytes(value)) for name, value in members.items() if name != "model") // 4)
        traits = traits_of(endpoint.dialect)
        type_field = {"object": traits.count_object} if traits.count_object else {}
        await self._reply(200, _write({**type_field, traits.count_field: tokens}), **{"x-toolwire-estimate": "1"})

    async def _answer_own_path(self) -> None:
        """Answer a path of the gateway itself. Raise the 404 error for any other path."""
        if is_admin_path(self.path):
            await self._manage_keys()
            return
        if self.method in ("GET", "HEAD"):
            if self.path == "/":  # Claude Code checks with it whether the server runs
                await self._reply(200, b"toolwire gateway\n", "text/plain; charset=utf-8")
                return
            if self.path in _KEYLESS_PATHS:
                await self._answer_state()
                return
            if self.path == _RECORDS or self.path.startswith(_RECORDS + "/"):
                await self._answer_records()
                return
            if self.path == "/metrics" and self.gateway.metrics is not None:
                if self.gateway.admin:
                    self._require_admin()
                await self._reply(200, self.gateway.metrics(), _METRICS_TYPE)
                return
            if self.path == _USAGE:
                await self._answer_usage()
                return
            if (report := self._losses()) is not None:
                await self._reply(200, self.gateway.context.all_secrets().mask(_write(report)))
                return
        raise GatewayError("not_found", f"there is nothing at {self.method} {self.path[:200]}")

    async def _answer_state(self) -> None:
        """Answer `/health`: the process serves; and `/ready`: its database can be reached as well."""
        accounts = self.gateway.context.accounts
        lost = self.path == "/ready" and accounts is not None and accounts.is_lost()
        state = b"database lost" if lost else b"ready" if self.path == "/ready" else b"ok"
        await self._reply(503 if lost else 200, b'{"status":"%s"}' % state)

    def _losses(self) -> dict[str, Any] | None:
        """Return the report of losses that the path names. Return None if there is none, or if another key made it."""
        if not (self.path.startswith(_LOSSES) and self.path.endswith("/losses")):
            return None
        identity = self.path.removeprefix(_LOSSES).removesuffix("/losses")
        return self.gateway.context.reports.find(identity, self.owner)

    def _require_admin(self) -> Key:
        """Return the client's key if it is an admin key, else raise the 403 error."""
        if self.key is None or not self.key.is_admin:
            raise GatewayError("permission", "this needs an admin key: `toolwire keys create --admin` makes one", 403)
        return self.key

    async def _manage_keys(self) -> None:
        """Answer a path of `/toolwire/keys`."""
        accounts = self.gateway.context.accounts
        if not self.gateway.admin or accounts is None:
            raise GatewayError("not_found", "keys are not managed over HTTP: [admin] is not on in the settings")
        admin, methods = self._require_admin(), methods_of(self.path)
        if self.method not in methods:
            raise GatewayError.method(self.method, self.path, methods)
        query = self.scope.get("query_string", b"").decode("latin-1")
        writes = self.method in ("POST", "PATCH")
        body = await self._read(MAX_BODY) if writes else b""
        async with self._counted_request if writes else contextlib.nullcontext():
            reply = await KeyAdmin(accounts, admin, self.gateway.log_event).answer(self.method, self.path, query, body)
        await self._reply(reply.status, self.gateway.context.all_secrets().mask(reply.body), **reply.headers)

    async def _answer_usage(self) -> None:
        """Answer a question about the usage of all keys."""
        usage = self.gateway.context.usage
        if usage is None or not self.gateway.shows_usage:
            raise GatewayError(
                "not_found", f"{_USAGE} is off; the section [admin] of the settings turns it on: on = true"
            )
        if self.gateway.context.accounts is not None:
            self._require_admin()
        try:
            query = usage_query_in(self.scope.get("query_string", b"").decode("latin-1"), time.time())
            await self._reply(200, _write(await usage.sums(query)))
        except InvalidField as problem:
            raise GatewayError("invalid_request", str(problem)) from problem

    async def _answer_records(self) -> None:
        """Answer with a page of records, or with one record: those of the key, or all for an admin key."""
        recorder = self.gateway.context.recorder
        if recorder is None:
            raise GatewayError("not_found", "nothing is recorded here: the settings have no section [record]")
        readable_by = None if self.key is None or self.key.is_admin else self.key.id
        identity, query = self.path[len(_RECORDS) + 1 :], self.scope.get("query_string", b"").decode("latin-1")
        read, argument = (recorder.read, identity) if identity else (recorder.list, query)
        try:
            reply = await asyncio.to_thread(read, argument, readable_by)
        except StoreFailed as problem:
            raise GatewayError("server", str(problem), 503) from problem
        except InvalidField as problem:
            raise GatewayError("invalid_request", str(problem)) from problem
        if reply is None:
            raise GatewayError("not_found", f"there is no record {identity[:80]!r}")
        await self._reply(200, reply)


def _as_websocket_messages(send: _Send) -> _Send:
    """Return a `send` that turns messages of HTTP into those for a WebSocket that was not opened."""

    async def send_renamed(message: dict[str, Any]) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return send_renamed


def _discard(_event: KeyEvent | BudgetAlert) -> None:
    """Log no event."""


def _time_in_utc() -> str:
    """Return the time now in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _model_in(body: bytes) -> str:
    """Return the model that a body names. Return an empty text if there is none."""
    try:
        parsed = read_body(body)
    except ToolwireError:
        return ""
    name = parsed.get("model") or parsed.get("name") if type(parsed) is dict else ""
    return name if isinstance(name, str) else ""
