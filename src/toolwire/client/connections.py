"""Connections to providers, for httpcore2 (and so for httpx2): each answer goes to the request that it belongs to.

HTTP/1.1 has no number that ties an answer to its request: only their order does. A server that sends an unrequested
answer (a 408 to an idle client, the same answer twice) shifts all later ones, unless the client notices.

Rules of this file:
- Bytes that arrive while no request is open close the connection. So do bytes beyond the end of an answer.
- A connection is used again only after it was silent for as long as its longest answer took. If an unrequested answer
  was taken for the real one, the real one arrives in that time, and closes the connection.
- A closed connection is aborted at once, even if data is still to be written.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore2

from toolwire.wire.response_bytes import ResponseBytes
from toolwire.wire.transport import Stop

STOPPED = "the request was stopped"
LATE = "it took too long"
_SHORTEST_REST = 0.05
"""Seconds of silence after an answer, before the connection is used again."""
_PIECE = 32_768  # bytes that are received at once; a loop's own buffer has 256 KiB, and a slow reader would hold them
_READ_AHEAD = 32_768  # bytes that wait for a reader that is slow; the system holds _SYSTEM_BUFFER besides
_SYSTEM_BUFFER = 131_072
_REQUEST_TIMEOUT = 408


class Exchanges:
    """The requests and answers of one connection, one after the other, and whether another may follow."""

    def __init__(self) -> None:
        self.received: ResponseBytes = ResponseBytes()
        self.number: int = 0
        self.is_idle: bool = True
        self.retired: bool = False
        self._has_read = True
        self._began = self._last_read = time.monotonic()
        self._longest = 0.0

    def write(self) -> None:
        """Note that bytes of a request are sent; the first ones begin an exchange, if one may follow."""
        if not self._has_read:
            return
        if self.number and not self.may_follow:
            raise httpcore2.ConnectionNotAvailable
        self.number += 1
        self.is_idle = self._has_read = False
        self._began = time.monotonic()
        self.received.begin()

    def read(self) -> bytes:
        """Return the next bytes of the answer."""
        data = self.received.take()
        self._has_read = self._has_read or bool(data)
        self._last_read = time.monotonic()
        return data

    def end(self, number: int) -> None:
        """Note that the answer to request `number` was read to its end."""
        if number == self.number:
            self.is_idle = True

    def see_status(self, status: int) -> None:
        """Retire the connection if `status` says that its server gives it up (RFC 9110, section 15.5.9)."""
        self.retired = self.retired or status == _REQUEST_TIMEOUT

    @property
    def is_spent(self) -> bool:
        """True if the connection must not be used again: an unrequested answer has arrived, or it was retired."""
        return self.retired or self.received.size > 0

    @property
    def may_follow(self) -> bool:
        """True if the connection was silent for long enough after its last answer."""
        self._longest = max(self._longest, _SHORTEST_REST, self._last_read - self._began)
        return not self.is_spent and time.monotonic() - self._last_read >= self._longest


class Guard:
    """A deadline for the blocking calls of one exchange, and a `stop` that can interrupt them."""

    def __init__(self, stop: Stop | None) -> None:
        self.stop: Stop | None = stop
        self.deadline: float | None = None
        self.stopped: bool = False
        self.stream: Any = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Apply the guard to the calls of this thread."""
        _present.guard = self
        try:
            with contextlib.nullcontext() if self.stop is None else self.stop.telling(self._interrupt):
                yield
        finally:
            _present.guard = None

    def remaining(self, timeout: float | None) -> float | None:
        """Return the seconds that a call may take."""
        if self.stopped:
            raise httpcore2.ReadError(STOPPED)
        if self.deadline is None:
            return timeout
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise httpcore2.ReadTimeout(LATE)
        return remaining if timeout is None else min(remaining, timeout)

    def _interrupt(self) -> None:
        """Wake the thread that reads: the socket ends."""
        self.stopped = True
        connection = self.stream.get_extra_info("socket") if self.stream is not None else None
        if connection is not None:
            with contextlib.suppress(OSError):  # it is closed already
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Present(threading.local):
    guard: Guard | None = None


_present = _Present()


class _BlockingStream(httpcore2.NetworkStream):
    """A connection of sync code. Its reads and writes obey the guard of their thread."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream
        self.exchanges = Exchanges()

    def _limit(self, timeout: float | None) -> float | None:
        guard = _present.guard
        if guard is None:
            return timeout
        guard.stream = self._stream
        return guard.remaining(timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        received = self.exchanges.received
        if not received.size and (data := self._stream.read(max_bytes, self._limit(timeout))):
            received.add(data)
        return self.exchanges.read()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.exchanges.write()
        self._stream.write(buffer, self._limit(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return _BlockingStream(self._stream.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        if info != "is_readable":
            return self._stream.get_extra_info(info)
        # httpcore2 asks this of an idle connection, and closes the connection if it is true.
        encrypted = self._stream.get_extra_info("ssl_object")
        unread = encrypted is not None and hasattr(encrypted, "pending") and encrypted.pending()
        return self.exchanges.is_spent or bool(unread) or self._stream.get_extra_info("is_readable")


class BlockingBackend(httpcore2.SyncBackend):
    """Opens connections for sync code."""

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.NetworkStream:
        """Open a connection."""
        guard = _present.guard
        limit = timeout if guard is None else guard.remaining(timeout)
        return _BlockingStream(super().connect_tcp(host, port, limit, *args, **options))


class AsyncioStream(asyncio.BufferedProtocol, httpcore2.AsyncNetworkStream):
    """A connection of an event loop."""

    def __init__(self) -> None:
        self.exchanges: Exchanges = Exchanges()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = None  # type: ignore[assignment] # connection_made follows
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._ended = self._paused = False
        self._buffer: bytearray = bytearray()
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the connection; asyncio calls this."""
        self._transport = transport  # type: ignore[assignment] # a stream has this kind
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SYSTEM_BUFFER)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - asyncio's interface
        """Return where the next data is written; asyncio calls this."""
        self._buffer = bytearray(_PIECE)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Store the data for the open request; without one, close. asyncio calls this."""
        data, self._buffer = bytes(memoryview(self._buffer)[:nbytes]), bytearray()
        if self.exchanges.is_idle:
            self.abort()
            return
        received = self.exchanges.received
        received.add(data)
        if received.size >= _READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Note that the server sends no more; asyncio calls this, and closes."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone; asyncio calls this."""
        self._ended = True
        if exc is not None and self._failure is None:
            self._failure = httpcore2.ReadError(str(exc))
        self._wake()

    def fail(self, failure: Exception) -> None:
        """End the connection; a pending read raises `failure`."""
        self._failure = self._failure or failure
        self._ended = True
        self.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109 - httpcore2's interface
        """Return what has arrived; wait for it."""
        received = self.exchanges.received
        if self._unsent:
            self._send()
        if not received.size and not self._ended:
            await self._wait(timeout)
        if not received.size:
            if self._failure is not None:
                raise self._failure
            return b""
        piece = self.exchanges.read()
        if self._paused and received.size <= _READ_AHEAD // 2:
            self._paused = False
            self._transport.resume_reading()
        return piece

    async def _wait(self, seconds: float | None) -> None:
        """Wait until something arrives."""
        self._waiter = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, self.fail, httpcore2.ReadTimeout(LATE))
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - httpcore2's interface
        """Send `buffer`. An answer that arrives before all of it is sent is received meanwhile."""
        self.exchanges.write()
        if self._ended:
            raise httpcore2.WriteError("the connection is closed")
        self._unsent.append(buffer)  # so that a head and a short body are one packet

    def _send(self) -> None:
        self._transport.write(b"".join(self._unsent) if len(self._unsent) > 1 else self._unsent[0])
        self._unsent = []

    @property
    def is_writing(self) -> bool:
        """True if bytes of the request still wait to be sent."""
        return bool(self._unsent or self._transport.get_write_buffer_size())

    def abort(self) -> None:
        """Close at once, even if data is still to be sent."""
        self.exchanges.retired = True
        self._transport.abort()

    async def aclose(self) -> None:
        """Close at once."""
        self.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's interface
    ) -> httpcore2.AsyncNetworkStream:
        """Encrypt the connection."""
        encrypted = AsyncioStream()
        self._transport.set_protocol(encrypted)
        try:
            async with asyncio.timeout(timeout):
                transport = await self._loop.start_tls(
                    self._transport, encrypted, ssl_context, server_hostname=server_hostname
                )
        except BaseException as problem:
            self._transport.abort()
            raise _connect_error(problem) from problem
        if transport is None:  # it was closed meanwhile
            raise httpcore2.ConnectError("the connection was closed")
        encrypted.connection_made(transport)
        return encrypted

    def get_extra_info(self, info: str) -> Any:
        """Return what is known of the connection."""
        if info == "is_readable":  # httpcore2 asks this of an idle connection, and closes the connection if it is true
            return self._ended or self.exchanges.is_spent
        name = {"client_addr": "sockname", "server_addr": "peername"}.get(info, info)
        return self._transport.get_extra_info(name)


class AsyncioBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections for an event loop."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Open a connection."""
        loop = asyncio.get_running_loop()
        local = None if local_address is None else (local_address, 0)
        try:
            async with asyncio.timeout(timeout):
                transport, stream = await loop.create_connection(AsyncioStream, host, port, local_addr=local)
        except (OSError, TimeoutError) as problem:
            raise _connect_error(problem) from problem
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return stream

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await asyncio.sleep(seconds)


def _connect_error(problem: BaseException) -> BaseException:
    """Return httpcore2's exception for `problem`; an exception that is not a network failure is returned unchanged."""
    if isinstance(problem, TimeoutError):
        return httpcore2.ConnectTimeout(LATE)
    return httpcore2.ConnectError(str(problem)) if isinstance(problem, OSError) else problem
