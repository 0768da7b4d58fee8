"""The transport of httpx2: pools of connections for sync and async code, or clients of the caller's own.

Rules of this file:
- Nothing of this machine's environment is used (proxies, netrc), but what the caller's own client says.
- A connection of ours is given up at once when the time is over or somebody says stop, in the middle of a
  read as well. A client of the caller's own is asked between two pieces.
- What httpx2 raises holds the request with its key: none of it is kept, not even as a context.
- A forked process leaves the connections of its parent alone, and opens its own.
"""

import asyncio
import contextlib
import functools
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Iterator
from typing import Any, TypeVar

import httpcore2
import httpx2

from toolwire.wire.transport import FailureKind, HttpRequest, Stop, Timeouts, TransportError, url_without_secrets
from toolwire.work.waiting import stop_future

T = TypeVar("T")
_KEPT = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)
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
_FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError)  # the last of a name that no host can have
_STOPPED = "the request was stopped"
_LATE = "it took too long"
_MOMENT = 0.05


class _Guard:
    """What the blocking calls of one exchange keep to: a time, and somebody who may say stop."""

    def __init__(self, stop: Stop | None) -> None:
        self.stop: Stop | None = stop
        self.deadline: float | None = None
        self.stopped = False
        self.stream: Any = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Keep the calls of this thread to it."""
        _present.guard = self
        try:
            with contextlib.nullcontext() if self.stop is None else self.stop.telling(self._give_up):
                yield
        finally:
            _present.guard = None

    def left(self, timeout: float | None) -> float | None:
        """Give the seconds that a call may take."""
        if self.stopped:
            raise httpcore2.ReadError(_STOPPED)
        if self.deadline is None:
            return timeout
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout(_LATE)
        return left if timeout is None else min(left, timeout)

    def _give_up(self) -> None:
        """Wake who waits: what they read is over."""
        self.stopped = True
        connection = self.stream.get_extra_info("socket") if self.stream is not None else None
        if connection is not None:
            with contextlib.suppress(OSError):  # it is closed already
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Present(threading.local):
    guard: _Guard | None = None


_present = _Present()


class _GuardedStream(httpcore2.NetworkStream):
    """A connection whose reads and writes keep to the guard of the thread."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def _limit(self, timeout: float | None) -> float | None:
        guard = _present.guard
        if guard is None:
            return timeout
        guard.stream = self._stream
        return guard.left(timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._limit(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._limit(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return _GuardedStream(self._stream.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore2.SyncBackend):
    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.NetworkStream:
        guard = _present.guard
        limit = timeout if guard is None else guard.left(timeout)
        return _GuardedStream(super().connect_tcp(host, port, limit, *args, **options))


@functools.cache
def trusted() -> ssl.SSLContext:
    """Read the certificates that are trusted, once: it takes longer than a request."""
    return httpx2.create_ssl_context(trust_env=False)


class _Pool(httpx2.HTTPTransport):
    """Connections of sync code, guarded."""

    def __init__(self) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=trusted(),
            max_connections=_KEPT.max_connections,
            max_keepalive_connections=_KEPT.max_keepalive_connections,
            keepalive_expiry=_KEPT.keepalive_expiry,
            network_backend=_Backend(),
        )


def _transport_error(problem: Exception, where: str) -> TransportError:
    kind: FailureKind = next((kind for base, kind in _KINDS if isinstance(problem, base)), "protocol")
    reason = type(problem).__name__ if kind == "protocol" else f"{type(problem).__name__}: {problem}"
    return TransportError(kind, f"{where}: {reason}")


class _HttpxResponse:
    def __init__(self, response: httpx2.Response, guard: _Guard, between: float | None) -> None:
        self.status: int = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response, self._guard = response, guard
        self._pieces: Iterator[bytes] | None = None
        self._is_over = False
        self._apieces: AsyncGenerator[bytes, None] | None = None
        response.request.extensions["timeout"] = {"read": between}
        guard.stream = response.extensions.get("network_stream")

    def read(self) -> bytes:
        try:
            with self._guard.watching():
                if self._pieces is None:
                    self._pieces = self._response.iter_bytes()
                piece = next(self._pieces, b"")
                self._is_over = not piece
                return piece
        except _FAILURES as problem:
            failure = _transport_error(problem, "the answer broke off")
        raise TransportError("cancelled", _STOPPED) if self._guard.stopped else failure

    async def aread(self) -> bytes:
        if self._apieces is None:
            self._apieces = self._response.aiter_bytes()
        try:
            piece = await _guarded(anext(self._apieces, b""), self._guard)
        except _FAILURES as problem:
            failure = _transport_error(problem, "the answer broke off")
        else:
            self._is_over = not piece
            return piece
        raise failure

    def finish(self) -> None:
        """Read what is on its way, for a moment; then let go of the connection."""
        self._guard.deadline = time.monotonic() + _MOMENT
        with contextlib.suppress(TransportError):
            while not self._is_over:
                self.read()
        self.close()

    async def afinish(self) -> None:
        self._guard.deadline = time.monotonic() + _MOMENT
        with contextlib.suppress(TransportError):
            while not self._is_over:
                await self.aread()
        await self.aclose()

    def close(self) -> None:
        """Let go of the connection: it is given back if all was read, else closed."""
        self._response.close()

    async def aclose(self) -> None:
        try:
            if self._apieces is not None:
                # Python would close it in a task of its own, which whoever ends the event loop would cut off.
                await self._apieces.aclose()
        finally:
            await self._response.aclose()


class HttpxTransport:
    """httpx2, with pools of its own for sync code and for each event loop, or with a caller's own clients."""

    def __init__(self, client: httpx2.Client | None = None, async_client: httpx2.AsyncClient | None = None) -> None:
        self._client, self._async_given = client, async_client
        self._parents: list[object] = []
        self._begin()
        _transports.add(self)

    def _begin(self) -> None:
        self._own: httpx2.Client | None = None
        self._async: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Begin anew; what was open stays so, for it is somebody else's."""
        self._parents.append((self._own, self._async))
        self._begin()

    def _sync_client(self) -> httpx2.Client:
        if self._client is not None:
            return self._client
        with self._lock:
            if self._own is None:
                self._own = httpx2.Client(transport=_Pool(), trust_env=False)
            return self._own

    def _async_client(self) -> httpx2.AsyncClient:
        """Give the client of the running event loop: a connection belongs to one loop."""
        if self._async_given is not None:
            return self._async_given
        loop = asyncio.get_running_loop()
        with self._lock:
            for old in [one for one in self._async if one.is_closed()]:
                del self._async[old]
            if loop not in self._async:
                self._async[loop] = httpx2.AsyncClient(verify=trusted(), trust_env=False, limits=_KEPT)
            return self._async[loop]

    def send(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> _HttpxResponse:
        """Send a request, and give the head of the answer."""
        client, guard = self._sync_client(), _Guard(stop)
        over = _deadlines(guard, timeouts)
        try:
            with guard.watching():
                response = client.send(_built(client, request, timeouts), stream=True, follow_redirects=False)
                guard.deadline = over
                return _HttpxResponse(response, guard, timeouts.between)
        except _FAILURES as problem:
            failure = _transport_error(problem, _where(request))
        raise TransportError("cancelled", _STOPPED) if guard.stopped else failure

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> _HttpxResponse:
        """Send a request, and give the head of the answer."""
        client, guard = self._async_client(), _Guard(stop)
        over = _deadlines(guard, timeouts)

        async def sending() -> _HttpxResponse:
            built = _built(client, request, timeouts)
            response = await client.send(built, stream=True, follow_redirects=False)
            return _HttpxResponse(response, guard, timeouts.between)

        try:
            answer = await _guarded(sending(), guard)
        except _FAILURES as problem:
            failure = _transport_error(problem, _where(request))
        else:
            guard.deadline = over
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
        with self._lock:
            client = self._async.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


_transports: weakref.WeakSet[HttpxTransport] = weakref.WeakSet()


def _forget() -> None:
    for transport in _transports:
        transport.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _deadlines(guard: _Guard, timeouts: Timeouts) -> float | None:
    """Set the time until the answer begins, and give the one for all of it."""
    now = time.monotonic()
    over = None if timeouts.total is None else now + timeouts.total
    begin = None if timeouts.first is None else now + timeouts.first + (timeouts.connect or 0.0)
    guard.deadline = min([moment for moment in (over, begin) if moment is not None], default=None)
    return over


async def _guarded(work: Awaitable[T], guard: _Guard) -> T:
    """Await something for as long as the guard lets it."""
    left = None if guard.deadline is None else max(0.0, guard.deadline - time.monotonic())
    try:
        async with asyncio.timeout(left):
            return await (work if guard.stop is None else _unless(guard.stop, work))
    except TimeoutError:
        late = TransportError("timeout", _LATE)
    raise late


async def _unless(stop: Stop, work: Awaitable[T]) -> T:
    """Await something, unless somebody says stop."""
    task: asyncio.Future[Any] = asyncio.ensure_future(work)
    try:
        with stop_future(stop) as stopped:
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
            is_stopped = stopped.done()
    except BaseException:
        await _drop(task)
        raise
    if not is_stopped:
        return task.result()  # type: ignore[no-any-return]
    await _drop(task)
    raise TransportError("cancelled", _STOPPED)


async def _drop(task: "asyncio.Future[Any]") -> None:
    """End a task, and let go of an answer that it has got meanwhile."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None and isinstance(task.result(), _HttpxResponse):
        await task.result().aclose()


def _where(request: HttpRequest) -> str:
    return f"{request.method} {url_without_secrets(request.url)}"


def _built(client: Any, request: HttpRequest, timeouts: Timeouts) -> httpx2.Request:
    limits = httpx2.Timeout(timeouts.first, connect=timeouts.connect)
    built: httpx2.Request = client.build_request(
        request.method, request.url, headers=request.headers, content=request.body, timeout=limits
    )
    return built
