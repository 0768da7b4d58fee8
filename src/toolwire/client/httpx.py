"""The transport that uses httpx2: connection pools for sync and async code, or the caller's own clients.

Rules of this file:
- The machine's environment is not used (proxies, netrc), except by the caller's own client.
- Our own connections are aborted at once at a deadline or a cancellation, also during a read. A caller's own client is
  checked between two pieces.
- httpx2's exceptions hold the request with its key. They are replaced, also as the context of ours.
- A forked process does not touch its parent's connections, and opens its own.
"""

import contextlib
import functools
import os
import ssl
import threading
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import httpcore2
import httpx2

from toolwire.client.connections import LATE, STOPPED, BlockingBackend, Exchanges, Guard
from toolwire.waiting.steps import stop_future
from toolwire.wire.transport import FailureKind, HttpRequest, Stop, Timeouts, TransportError, url_without_secrets

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_POOL: Mapping[str, Any] = {"max_connections": None, "max_keepalive_connections": 100, "keepalive_expiry": 30.0}
_KINDS: tuple[tuple[type[Exception], FailureKind], ...] = (
    (httpx2.ConnectError, "connect"),
    (httpx2.UnsupportedProtocol, "protocol"),
    (httpx2.InvalidURL, "protocol"),
    (httpx2.LocalProtocolError, "protocol"),
    (httpx2.TimeoutException, "timeout"),
    (httpx2.ProtocolError, "reset"),
    (httpx2.NetworkError, "reset"),
    (httpx2.DecodingError, "reset"),
)
_FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError)  # UnicodeError: a name that no host can have
_CORE_FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
)
_FINISH_SECONDS = 0.05


@functools.cache
def trusted() -> ssl.SSLContext:
    """Return the context with the trusted certificates.

    It is cached, because reading them takes longer than a request.
    """
    return httpx2.create_ssl_context(trust_env=False)


@contextlib.contextmanager
def _as_httpx() -> Iterator[None]:
    """Raise httpcore2's exceptions as httpx2's exceptions of the same name."""
    try:
        yield
    except _CORE_FAILURES as problem:
        raise getattr(httpx2, type(problem).__name__)(str(problem)) from problem


def _core_request(request: httpx2.Request) -> httpcore2.Request:
    address = request.url
    url = httpcore2.URL(scheme=address.raw_scheme, host=address.raw_host, port=address.port, target=address.raw_path)
    return httpcore2.Request(
        request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
    )


class _BlockingBody(httpx2.SyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx():
            yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _BlockingPool(httpx2.BaseTransport):
    """The connection pool of sync code."""

    def __init__(self) -> None:
        self._pool = httpcore2.ConnectionPool(**_POOL, ssl_context=trusted(), network_backend=BlockingBackend())

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        with _as_httpx():
            response = self._pool.handle_request(_core_request(request))
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=_BlockingBody(response),
            extensions=dict(response.extensions),
        )

    def close(self) -> None:
        self._pool.close()


class _AsyncioBody(httpx2.AsyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for piece in self._response.aiter_stream():
                yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


class _AsyncioPool(httpx2.AsyncBaseTransport):
    """The connection pool of an event loop."""

    def __init__(self) -> None:
        from toolwire.client.asyncio_connections import AsyncioBackend  # noqa: PLC0415 - sync code needs no asyncio

        self._pool = httpcore2.AsyncConnectionPool(**_POOL, ssl_context=trusted(), network_backend=AsyncioBackend())

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        with _as_httpx():
            response = await self._pool.handle_async_request(_core_request(request))
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=_AsyncioBody(response),
            extensions=dict(response.extensions),
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


def _transport_error(problem: Exception, where: str) -> TransportError:
    kind: FailureKind = next((kind for base, kind in _KINDS if isinstance(problem, base)), "protocol")
    reason = type(problem).__name__ if kind == "protocol" else f"{type(problem).__name__}: {problem}"
    return TransportError(kind, f"{where}: {reason}")


class _HttpxResponse:
    def __init__(self, response: httpx2.Response, guard: Guard, between: float | None) -> None:
        self.status: int = response.status_code
        self.headers: dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response, self._guard = response, guard
        self._pieces: Iterator[bytes] | None = None
        self._is_over = False
        self._apieces: AsyncGenerator[bytes, None] | None = None
        response.request.extensions["timeout"] = {"read": between}
        guard.stream = response.extensions.get("network_stream")
        # The streams of a caller's own client have no such attribute.
        self._exchanges: Exchanges | None = getattr(guard.stream, "exchanges", None)
        if self._exchanges is not None:
            self._exchanges.see_status(self.status)
            self._number = self._exchanges.number

    def read(self) -> bytes:
        try:
            with self._guard.watching():
                if self._pieces is None:
                    self._pieces = self._response.iter_bytes()
                piece = next(self._pieces, b"")
                self._note_end(piece)
                return piece
        except _FAILURES as problem:
            failure = _transport_error(problem, "the answer broke off")
        raise TransportError("cancelled", STOPPED) if self._guard.stopped else failure

    async def aread(self) -> bytes:
        if self._apieces is None:
            self._apieces = self._response.aiter_bytes()
        try:
            piece = await _guarded(anext(self._apieces, b""), self._guard)
        except _FAILURES as problem:
            failure = _transport_error(problem, "the answer broke off")
        else:
            self._note_end(piece)
            return piece
        raise failure

    def _note_end(self, piece: bytes) -> None:
        """Note that the answer has ended if `piece` is empty."""
        self._is_over = not piece
        if self._is_over and self._exchanges is not None:
            self._exchanges.end(self._number)

    def finish(self) -> None:
        """Read bytes that are about to arrive, for a moment; then release the connection."""
        self._guard.deadline = time.monotonic() + _FINISH_SECONDS
        with contextlib.suppress(TransportError):
            while not self._is_over:
                self.read()
        self.close()

    async def afinish(self) -> None:
        self._guard.deadline = time.monotonic() + _FINISH_SECONDS
        with contextlib.suppress(TransportError):
            while not self._is_over:
                await self.aread()
        await self.aclose()

    def close(self) -> None:
        """Release the connection: it returns to the pool if everything was read, otherwise it is closed."""
        self._response.close()

    async def aclose(self) -> None:
        try:
            if self._apieces is not None:
                # Otherwise Python closes it in a separate task, which is cut off when the event loop ends.
                await self._apieces.aclose()
        finally:
            await self._response.aclose()


class HttpxTransport:
    """A transport that uses httpx2, with its own pools or the caller's clients.

    There is one pool for sync code and one for each event loop.
    """

    def __init__(self, client: httpx2.Client | None = None, async_client: httpx2.AsyncClient | None = None) -> None:
        self._client, self._async_given = client, async_client
        self._parents: list[object] = []
        self._reset()
        _transports.add(self)

    def _reset(self) -> None:
        self._own: httpx2.Client | None = None
        self._async: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Start with new pools. The old connections stay open, because they belong to the parent process."""
        self._parents.append((self._own, self._async))
        self._reset()

    def _sync_client(self) -> httpx2.Client:
        if self._client is not None:
            return self._client
        with self._lock:
            if self._own is None:
                self._own = httpx2.Client(transport=_BlockingPool(), trust_env=False)
            return self._own

    def _async_client(self) -> httpx2.AsyncClient:
        """Return the client of the running event loop: a connection belongs to one loop."""
        if self._async_given is not None:
            return self._async_given
        import asyncio  # noqa: PLC0415 - a running loop has imported it

        loop = asyncio.get_running_loop()
        with self._lock:
            for old in [one for one in self._async if one.is_closed()]:
                del self._async[old]
            if loop not in self._async:
                self._async[loop] = httpx2.AsyncClient(transport=_AsyncioPool(), trust_env=False)
            return self._async[loop]

    def send(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> _HttpxResponse:
        """Send a request and return the head of its answer. Raise TransportError if that fails."""
        client, guard = self._sync_client(), Guard(stop)
        deadline = _deadlines(guard, timeouts)
        try:
            with guard.watching():
                response = client.send(_build_request(client, request, timeouts), stream=True, follow_redirects=False)
                guard.deadline = deadline
                return _HttpxResponse(response, guard, timeouts.between)
        except _FAILURES as problem:
            failure = _transport_error(problem, _describe_request(request))
        raise TransportError("cancelled", STOPPED) if guard.stopped else failure

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> _HttpxResponse:
        """Send a request and return the head of its answer. Raise TransportError if that fails."""
        client, guard = self._async_client(), Guard(stop)
        deadline = _deadlines(guard, timeouts)

        async def sending() -> _HttpxResponse:
            built = _build_request(client, request, timeouts)
            response = await client.send(built, stream=True, follow_redirects=False)
            return _HttpxResponse(response, guard, timeouts.between)

        try:
            answer = await _guarded(sending(), guard)
        except _FAILURES as problem:
            failure = _transport_error(problem, _describe_request(request))
        else:
            guard.deadline = deadline
            return answer
        raise failure

    def close(self) -> None:
        """Close the connections of sync code."""
        with self._lock:
            client, self._own = self._own, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        import asyncio  # noqa: PLC0415 - a running loop has imported it

        with self._lock:
            client = self._async.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


_transports: weakref.WeakSet[HttpxTransport] = weakref.WeakSet()


def _forget_connections() -> None:
    for transport in _transports:
        transport.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)


def _deadlines(guard: Guard, timeouts: Timeouts) -> float | None:
    """Set the guard's deadline for the beginning of the answer, and return the one for all of it."""
    now = time.monotonic()
    end = None if timeouts.total is None else now + timeouts.total
    first = None if timeouts.first is None else now + timeouts.first + (timeouts.connect or 0.0)
    guard.deadline = min([moment for moment in (end, first) if moment is not None], default=None)
    return end


async def _guarded(work: Awaitable[T], guard: Guard) -> T:
    """Await `work` until the guard's deadline or cancellation."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    remaining = None if guard.deadline is None else max(0.0, guard.deadline - time.monotonic())
    try:
        async with asyncio.timeout(remaining):
            return await (work if guard.stop is None else _await_unless_stopped(guard.stop, work))
    except TimeoutError:
        problem = TransportError("timeout", LATE)
    raise problem


async def _await_unless_stopped(stop: Stop, work: Awaitable[T]) -> T:
    """Await `work` unless `stop` is set. Raise TransportError if it is."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    task: asyncio.Future[Any] = asyncio.ensure_future(work)
    try:
        with stop_future(stop) as stopped:
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
            is_stopped = stopped.done()
    except BaseException:
        await _cancel_and_close(task)
        raise
    if not is_stopped:
        return task.result()  # type: ignore[no-any-return]
    await _cancel_and_close(task)
    raise TransportError("cancelled", STOPPED)


async def _cancel_and_close(task: "asyncio.Future[Any]") -> None:
    """Cancel a task, and close the response if it has received one meanwhile."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None and isinstance(task.result(), _HttpxResponse):
        await task.result().aclose()


def _describe_request(request: HttpRequest) -> str:
    return f"{request.method} {url_without_secrets(request.url)}"


def _build_request(client: Any, request: HttpRequest, timeouts: Timeouts) -> httpx2.Request:
    limits = httpx2.Timeout(timeouts.first, connect=timeouts.connect)
    built: httpx2.Request = client.build_request(
        request.method, request.url, headers=request.headers, content=request.body, timeout=limits
    )
    return built
