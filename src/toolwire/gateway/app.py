"""The gateway as an ASGI application: what comes in is judged, led on its way, and answered in its own wire.

Rules of this file:
- Every path is one of a wire, or one of ours; anything else is the 404 of the wire that it looks like.
- A body has a size and a time; a page of somebody's browser is refused where the gateway listens on loopback. A page
  that may ask is told so in the words of its browser (CORS), before it shows a key.
- Before the first byte an error is a response; after it the connection is closed, and never looks finished.
- A client that goes away ends its request: what waits for a provider is cancelled. Its connection tells that.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolwire.dialects import traits_of
from toolwire.errors import InvalidBody, ToolwireError
from toolwire.gateway import conversations
from toolwire.gateway.admission import counted
from toolwire.gateway.auditing import AuditedTurn, visible_keys
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
from toolwire.gateway.keys import NANO, Key, check_program_key, credential_in
from toolwire.gateway.memory import MemoryPart
from toolwire.gateway.prices import Prices
from toolwire.gateway.request_record import RequestRecord
from toolwire.gateway.response_store import compacted_response, fetch, summary_request, text_of
from toolwire.gateway.routes import Routes, UpstreamNetwork
from toolwire.gateway.routing import handle_request, resolve_route
from toolwire.gateway.sockets import PATH as SOCKET_PATH
from toolwire.gateway.sockets import Socket
from toolwire.gateway.stored_turns import Turns
from toolwire.providers.listing import list_models, show_model
from toolwire.translation.paths import RouteMatch, methods_of, read_path, with_one_version
from toolwire.types import Error
from toolwire.wire.bodies import members_of, read_body

_log = logging.getLogger(__name__)
_write = msgspec.json.Encoder().encode
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[dict[str, Any]], Awaitable[None]]
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
_NO_SOCKET = "there is no WebSocket here"
_ABOUT_BYTES = frozenset({"content-type", "content-length"})
_GIVEN_UP = 408
_LATE = "the body took longer than"
_GOOD = 200
_LOSSES = "/toolwire/requests/"
# What may be done with a stored answer.
_STORED = {"retrieve": ("GET", "DELETE"), "items": ("GET",), "cancel": ("POST",)}
# Where the vendors' SDKs find what their users quote when something is wrong (openai 3.52.0, anthropic 2.11.0).
_FIGURES = "text/plain; version=1.0.0; charset=utf-8"
_OPEN = frozenset({"/health", "/ready"})
_ASKS_FIRST = "access-control-request-method"
_PERMITTED = "GET, POST, DELETE, HEAD"
_SHOWN = b"x-toolwire-request, x-toolwire-model, x-toolwire-losses, x-toolwire-estimate, x-request-id, retry-after"
VERSION = "0.30.0"  # ollama's, as of 2026-11-22: clients ask for it, and want features by it


class BodyLimits(Struct, frozen=True):
    """How much a request may be: bytes of its body, and seconds for all of it to come."""

    body: int = 64 * 1024 * 1024
    seconds: float = 60.0


class AllowedOrigins(Struct, frozen=True):
    """By which names this gateway is called, and from which pages; on loopback by those of this machine alone."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    loopback: bool = True

    def allow(self, host: str, origin: str) -> bool:
        """Whether a request may come by this name, from this page; both are the same in capitals."""
        host, origin = host.lower(), origin.lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        listed = not (self.loopback or self.hosts)
        named = listed or name in self.hosts or (self.loopback and name in _LOOPBACK)
        page = origin.partition("://")[2]
        near = (page.rpartition(":")[0] or page) in _LOOPBACK if self.loopback else page == host
        return named and (not origin or origin in self.origins or near)


_allowed = lru_cache(256)(AllowedOrigins.allow)


class Gateway:
    """Answers requests over ASGI.

    `places` refuses what a browser's page or a name that leads here may send. `seen` and `watchers` are told of each
    request, `metrics` gives what `/metrics` says. With a `program_key`, only requests with that key are answered.
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
        self.websocket: bool = True
        self.program_key: str = ""
        self.running: int = 0
        self.observers: list[Callable[[RequestRecord], None]] = []
        self.metrics: Callable[[], bytes] | None = None

    def renew(self, routes: Routes, prices: Prices, upstream_network: UpstreamNetwork) -> None:
        """Take other routes, prices and ways up; what runs ends by the old ones."""
        self.context = replace(self.context, routes=routes, prices=prices, proxy=upstream_network.proxy)
        self.context.transport.upstream_network = upstream_network  # type: ignore[attr-defined]

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            self.running += 1
            try:
                await _Request(self, scope, receive, send).run()
            finally:
                self.running -= 1
        elif scope["type"] == "websocket":
            await receive()
            request = _Request(self, {**scope, "type": "http", "method": "GET"}, receive, _refusing(send))
            if await request.may_open():
                if RECEIVING in scope:
                    scope[RECEIVING].set_owner(request.owner)
                connected, owner = self.context.connected, request.owner
                await Socket(self, scope, receive, send, stall=self.context.stall, owner=owner, memory=connected).run()

    async def _live(self, receive: _Receive, send: _Send) -> None:
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
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})


class ClientDisconnected(Exception):
    """The client has left."""


class _Request:
    """One HTTP request."""

    def __init__(self, gateway: Gateway, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        self.gateway, self.scope, self._receive, self._asgi_send = gateway, scope, receive, send
        self.identity = f"tw_{os.urandom(12).hex()}"
        self.method: str = scope["method"]
        self.path: str = with_one_version(scope["path"])
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.begun = False
        self.ended = False
        self.outcome = RequestOutcome()
        self.endpoint = read_path(self.path, self.headers)
        self.wire = wire_near(self.path, self.headers) if self.endpoint is None else self.endpoint.dialect
        self.key: Key | None = None
        self.page = ""  # the origin of a page that may ask
        self.audited: ClientRequest | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Answer, and say what became of it."""
        start = time.monotonic()
        try:
            await self._answer()
        except GatewayError as rejection:
            await self._refuse(rejection.error, rejection.headers)
        except InvalidBody as problem:
            await self._refuse(Error("invalid_request", str(problem), 400))
        except ClientDisconnected:
            self.outcome.ending = self.outcome.ending or "client gone"
        except Exception:  # noqa: BLE001 - whatever fails here is told to the client as ours
            _log.exception("request %s failed", self.identity)
            await self._refuse(Error("server", "the gateway failed; its log says why", 500))
        self._tell(time.monotonic() - start)
        with contextlib.suppress(GatewayError):
            await self._record()

    async def _record(self) -> None:
        """Have the calls of this turn recorded, once."""
        outcome, audit, client_request = self.outcome, self.gateway.context.audit, self.audited
        if audit is None or client_request is None or not outcome.status:
            return
        self.audited = None
        candidate = outcome.continuations[-1].provider if outcome.continuations else outcome.provider
        losses = tuple(str(loss) for loss in outcome.losses if loss.severity == "semantic")
        who = (
            self.identity,
            client_request.owner,
            self.wire,
            client_request.full_path,
            client_request.body,
            outcome.recorded_answer,
        )
        await audit.record(AuditedTurn(*who, candidate, losses, visible_keys(self.headers), time.time()))

    async def may_open(self) -> bool:
        """Whether a WebSocket may be opened here; if not, it is refused."""
        start = time.monotonic()
        try:
            await self._check_socket()
        except GatewayError as rejection:
            await self._refuse(rejection.error)
            self._tell(time.monotonic() - start)
            return False
        return True

    async def _check_socket(self) -> None:
        self._check_place()
        await self._check_key()
        if not (self.path == SOCKET_PATH and self.gateway.websocket):
            raise GatewayError("not_found", _NO_SOCKET)

    def _tell(self, seconds: float) -> None:
        outcome, tokens = self.outcome, self.outcome.tokens
        observers = self.gateway.observers if self.gateway.log is None else [*self.gateway.observers, self.gateway.log]
        if not observers:
            return
        record = RequestRecord(
            request=self.identity,
            key=self.owner,
            path=self.path[:200],
            wire=self.wire,
            status=outcome.status,
            model=outcome.model[:200],
            provider=outcome.provider,
            ending=outcome.ending,
            seconds=round(seconds, 6),
            input_tokens=tokens.input if tokens is not None else None,
            output_tokens=tokens.output if tokens is not None else None,
            estimated=tokens is not None and tokens.estimated,
            cost=outcome.cost / NANO,
            continued_by=[continuation.provider for continuation in outcome.continuations] or UNSET,
        )
        for watch in observers:
            watch(record)

    async def _answer(self) -> None:
        self._check_place()
        if self.page and self.method == "OPTIONS" and _ASKS_FIRST in self.headers:
            named = self.headers.get("access-control-request-headers", "")
            await self._begin(204, {"access-control-allow-methods": _PERMITTED, "access-control-allow-headers": named})
            await self._send(b"", False)
            return
        await self._check_key()
        asked = self.endpoint
        if asked is None:
            await self._answer_ours()
            return
        if "upgrade" in self.headers:  # clients that are told 404 ask again over HTTP at once; 405 has them try on
            raise GatewayError("not_found", _NO_SOCKET)
        if asked.action == "conversation":
            body = await self._read() if self.method == "POST" else b""
            query = self.scope.get("query_string", b"").decode("latin-1")
            async with self._counted if self.method == "POST" else contextlib.nullcontext():
                told = await conversations.answer(self._turns, asked.subject, self.method, body, query)
            await self._reply(200, told)
        elif PREWARMS in self.scope:
            async with self._counted:
                await self._reply(200, b"{}")
        elif self.method in _STORED.get(asked.action, ()):
            query = self.scope.get("query_string", b"").decode("latin-1")
            client = ResponseWriter(self._begin, self._send)
            await self._unless_left(fetch(self.gateway.context, self._turns, asked, self.method, query, client))
        else:
            await self._answer_wire(asked)

    async def _answer_wire(self, asked: RouteMatch) -> None:
        """Answer a path of a wire."""
        if self.method not in methods_of(asked):
            if asked.action in ("model", "retrieve"):
                raise GatewayError("not_found", f"there is nothing at {self.method} {self.path[:200]}")
            raise GatewayError.method(self.method, self.path[:200], _STORED.get(asked.action) or methods_of(asked))
        if asked.method == "GET":
            await self._inform(asked)
            return
        body = await self._read()
        match asked.action:
            case "answer" | "other":
                await self._handle_request(asked, body)
            case "count":
                await self._count(asked, body)
            case "compact":
                await self._compact(asked, body)
            case _:
                await self._inform(asked, _named(body))

    @property
    def _counted(self) -> contextlib.AbstractAsyncContextManager[None]:
        return counted(self.gateway.context.accounts, self.key)

    @property
    def _turns(self) -> Turns:
        return Turns([MemoryPart(self.gateway.context.memory)], self.owner)

    async def _compact(self, asked: RouteMatch, body: bytes) -> None:
        """Have a conversation summed up: by its vendor, or by a model of another wire."""
        members_of(body)
        route = self.gateway.context.routes.find(await self.gateway.context.offloader.run(len(body), _named, body))
        if route is None or route.candidates[0].provider.dialect == asked.dialect:
            await self._handle_request(asked, body)
            return
        heard = bytearray()

        async def begin(_status: int, headers: dict[str, str]) -> None:
            told.update({name: value for name, value in headers.items() if name not in _ABOUT_BYTES})

        async def send(data: bytes, _more: bool) -> None:
            heard.extend(data)

        told: dict[str, str] = {}
        summing = RouteMatch("answer", asked.dialect)
        await self._handle_request(summing, summary_request(body), "/v1/responses", ResponseWriter(begin, send))
        if self.outcome.status == _GOOD:
            heard[:] = compacted_response(body, bytes(heard), self.identity, self.gateway.context.all_secrets())
        await self._reply(self.outcome.status, bytes(heard), **told)

    def _check_place(self) -> None:
        """Refuse what a page in a browser, or a name that leads to this machine, may have sent."""
        page = self.headers.get("origin", "")
        if _allowed(self.gateway.allowed_origins, self.headers.get("host", ""), page):
            self.page = page
        elif (
            self.gateway.allowed_origins.loopback or self.path not in _OPEN
        ):  # who looks whether it lives knows its address only
            raise GatewayError(
                "permission", "this gateway does not answer to this host, or to pages of this origin", 403
            )

    async def _check_key(self) -> None:
        """Find out who asks, where keys are kept; only two paths tell nothing that needs one."""
        accounts, program_key = self.gateway.context.accounts, self.gateway.program_key
        if self.path in _OPEN:
            return
        query = self.scope.get("query_string", b"").decode("latin-1")
        if program_key:
            check_program_key(program_key, self.scope["headers"], query)
        elif accounts is not None:
            self.key = await accounts.key(credential_in(self.scope["headers"], query))

    @property
    def owner(self) -> str:
        """Whose memory and reports are used: those of a key, or of nobody."""
        return "" if self.key is None else self.key.id

    async def _read(self) -> bytes:
        """Read the body, up to its bounds."""
        most, pieces, size = self.gateway.limits.body, [], 0
        length = self.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            raise GatewayError("invalid_request", "content-length must be a number", 400)
        if int(length) > most:
            raise GatewayError("invalid_request", f"the body has more than {most} bytes", 413)
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise GatewayError("invalid_request", "a body must not be compressed", 415)
        task: Any = asyncio.current_task()
        late = asyncio.get_running_loop().call_later(self.gateway.limits.seconds, task.cancel, _LATE)
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > most:
                    raise GatewayError("invalid_request", f"the body has more than {most} bytes", 413)
                if not message.get("more_body"):
                    return b"".join(pieces)
        except asyncio.CancelledError as cancelled:
            if cancelled.args != (_LATE,):
                raise
            task.uncancel()
            raise GatewayError("timeout", f"{_LATE} {self.gateway.limits.seconds:g} s", _GIVEN_UP) from None
        finally:
            late.cancel()

    async def _handle_request(
        self, asked: RouteMatch, body: bytes, path: str = "", client: ResponseWriter | None = None
    ) -> None:
        query = self.scope.get("query_string", b"").decode("latin-1")
        client_request = ClientRequest(self.identity, asked, path or self.path, query, self.headers, body, self.key)
        client_request.connection_memory = self.scope.get("toolwire.held")
        if self.gateway.context.audit is not None and asked.action == "answer":
            self.audited = client_request
        client = client or ResponseWriter(self._begin, self._send, self._record)
        await self._unless_left(handle_request(self.gateway.context, client_request, client, self.outcome))
        outcome = self.outcome
        self.gateway.context.reports.file(self.identity, self.owner, outcome.model, outcome.provider, outcome.losses)

    async def _unless_left(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what a client waits for; it ends when the client leaves."""
        self._task = task = cast("asyncio.Task[Any]", asyncio.current_task())
        if self.scope.setdefault(LEFT, self._leave) is None:
            work.close()
            raise ClientDisconnected
        try:
            await work
        except asyncio.CancelledError:
            if self.scope[LEFT] is not None:
                raise
            task.uncancel()
            raise ClientDisconnected from None
        finally:
            self._task = None

    def _leave(self) -> None:
        """End what is done for a client that has left."""
        if not self.ended and self._task is not None:
            self._task.cancel()

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        said = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        said.append((b"x-toolwire-request", self.identity.encode()))
        said.append((traits_of(self.wire).request_id_header.encode(), self.identity.encode()))
        if self.page:
            said += ((b"access-control-allow-origin", self.page.encode("latin-1")), (b"vary", b"origin"))
            said.append((b"access-control-expose-headers", _SHOWN))
        if "cache-control" not in headers:
            said.append((b"cache-control", b"no-store"))
        self.begun, self.outcome.status = True, status
        await self._asgi_send({"type": "http.response.start", "status": status, "headers": said})

    async def _send(self, data: bytes, more: bool) -> None:
        if not more:
            await self._record_before(self.outcome.status)
        self.ended = not more
        await self._asgi_send({"type": "http.response.body", "body": data, "more_body": more})

    async def _record_before(self, status: int) -> None:
        """Have the calls of this turn recorded before its answer ends; an error is sent even if they cannot be."""
        try:
            await self._record()
        except GatewayError:
            if status == _GOOD:
                raise

    async def _refuse(self, error: Error, headers: Mapping[str, str] | None = None) -> None:
        """Tell an error: as a response, where nothing was said yet. A body that was given up is not waited for."""
        self.outcome.ending = self.outcome.ending if self.begun and self.outcome.ending else "error"
        if self.begun:
            return
        reply = reply_of(error, self.wire)
        closes = {"connection": "close"} if error.status == _GIVEN_UP else {}
        await self._reply(error.status or reply.status, reply.json, **reply.headers, **closes, **(headers or {}))

    async def _reply(self, status: int, body: bytes, kind: str = JSON, **headers: str) -> None:
        await self._record_before(status)
        await self._begin(status, {"content-type": kind, "content-length": str(len(body)), **headers})
        await self._send(b"" if self.method == "HEAD" else body, False)

    async def _inform(self, asked: RouteMatch, subject: str = "") -> None:
        """Answer what needs no provider: which models there are, and what they are."""
        names, name = self.gateway.context.routes.names(), asked.subject or subject
        if self.key is not None:
            names = [one for one in names if self.key.may_ask(one)]
        if asked.action == "models":
            await self._reply(200, _write(list_models(asked.dialect, names)))
        elif asked.action == "version":
            await self._reply(200, _write({"version": VERSION}))
        elif asked.action == "model" and self._knows(name):
            await self._reply(200, _write(show_model(asked.dialect, name)))
        else:
            code = "model_not_found" if asked.action == "model" else None
            raise GatewayError("not_found", f"{name[:80]!r} is not known here", code=code)

    def _knows(self, name: str) -> bool:
        return (self.key is None or self.key.may_ask(name)) and self.gateway.context.routes.find(name) is not None

    async def _count(self, asked: RouteMatch, body: bytes) -> None:
        """Count the tokens of a request: by its provider, or by an estimate that says so."""
        run = self.gateway.context.offloader.run
        members = await run(len(body), members_of, body)
        route = resolve_route(self.gateway.context.routes, self.key, asked.subject or text_of(members.get("model")))
        if route.candidates[0].provider.dialect == asked.dialect:
            await self._handle_request(asked, body)
            return
        tokens = max(1, sum(len(bytes(value)) for name, value in members.items() if name != "model") // 4)
        traits = traits_of(asked.dialect)
        kind = {"object": traits.count_object} if traits.count_object else {}
        await self._reply(200, _write({**kind, traits.count_field: tokens}), **{"x-toolwire-estimate": "1"})

    async def _answer_ours(self) -> None:
        """Answer a path of ours; anything else is nobody's."""
        if self.method in ("GET", "HEAD"):
            if self.path == "/":  # Claude Code looks whether somebody is there
                await self._reply(200, b"toolwire gateway\n", "text/plain; charset=utf-8")
                return
            if self.path == "/health":
                await self._reply(200, b'{"status":"ok"}')
                return
            if self.path == "/ready":
                accounts = self.gateway.context.accounts
                lost = accounts is not None and accounts.is_lost()
                await self._reply(503 if lost else 200, b'{"status":"%s"}' % (b"database lost" if lost else b"ready"))
                return
            if self.path == "/metrics" and self.gateway.metrics is not None:
                await self._reply(200, self.gateway.metrics(), _FIGURES)
                return
            if self.path.startswith(_LOSSES) and self.path.endswith("/losses"):
                identity = self.path.removeprefix(_LOSSES).removesuffix("/losses")
                report = self.gateway.context.reports.find(identity, self.owner)
                if report is not None:
                    await self._reply(200, self.gateway.context.all_secrets().mask(_write(report)))
                    return
        raise GatewayError("not_found", f"there is nothing at {self.method} {self.path[:200]}")


def _refusing(send: _Send) -> _Send:
    """Say over a WebSocket that was not opened what is said over HTTP."""

    async def say(message: dict[str, Any]) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return say


def _named(body: bytes) -> str:
    """Read which model a body names."""
    try:
        read = read_body(body)
    except ToolwireError:
        return ""
    name = read.get("model") or read.get("name") if type(read) is dict else ""
    return name if isinstance(name, str) else ""
