"""Connections of an event loop. Sync code does not import this module, because asyncio takes long to import."""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2

from toolwire.client.connections import LATE, PIECE, SYSTEM_BUFFER, Exchanges, connect_error

_READ_AHEAD = 32_768  # bytes that wait for a reader that is slow; the system holds SYSTEM_BUFFER besides


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
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SYSTEM_BUFFER)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - asyncio's interface
        """Return where the next data is written; asyncio calls this."""
        self._buffer = bytearray(PIECE)
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
            raise connect_error(problem) from problem
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
            raise connect_error(problem) from problem
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return stream

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await asyncio.sleep(seconds)
