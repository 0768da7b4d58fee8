"""One connection of HTTP/1.1: requests in, replies played with their pauses and cuts.

Rules of this file:
- The protocol is h11's; what is here moves bytes and time.
- While a reply is played, the connection is watched: a client that leaves ends the reply at once.
- Bodies are bounded; a larger one is refused, and the connection closed.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable
from typing import Any, NoReturn, TypeVar

import h11

from toolwire.testing.replies import Close, Reply
from toolwire.testing.service import Received, Service

LARGEST = 64 * 1024 * 1024
CHUNK = 65_536
T = TypeVar("T")


class _ClientLeft(Exception):
    """The client has closed the connection."""


class ClientConnection:
    """Serves one client for as long as it stays."""

    def __init__(self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.service: Service = service
        self.reader: asyncio.StreamReader = reader
        self.writer: asyncio.StreamWriter = writer
        self.http: h11.Connection = h11.Connection(h11.SERVER, max_incomplete_event_size=CHUNK)

    async def serve(self) -> None:
        """Answer requests until one side closes."""
        with contextlib.suppress(_ClientLeft, ConnectionError):
            try:
                while await self._serve_one():
                    self.http.start_next_cycle()
            except h11.RemoteProtocolError as problem:
                await self._say_no(problem.error_status_hint)
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def _serve_one(self) -> bool:
        """Answer one request; whether another may follow."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            return False
        headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        received = self.service.receive(event.method.decode(), event.target.decode("latin-1"), headers)
        try:
            return await self._serve_received(received)
        finally:
            received.over.set()

    async def _serve_received(self, received: Received) -> bool:
        data = await self._read_body()
        if data is None:
            received.status = 413
            await self._say_no(413)
            return False
        reply = await self._watched(self.service.answer(received, data), received)
        await self._watched(self._play(reply, received), received)
        return self.http.our_state is h11.DONE and self.http.their_state is h11.DONE

    async def _next(self) -> Any:
        while True:
            event = self.http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self.http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
                await self._send(go_on)
            self.http.receive_data(await self.reader.read(CHUNK))

    async def _read_body(self) -> bytes | None:
        pieces, size = [], 0
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise _ClientLeft
            size += len(event.data)
            if size > LARGEST:
                return None
            pieces.append(bytes(event.data))
        return b"".join(pieces)

    async def _watched(self, work: Awaitable[T], received: Received) -> T:
        """Do something, and leave it as soon as the client has left."""
        doing = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait({doing, watching}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            received.gone = True
            raise _ClientLeft
        except ConnectionError:
            received.gone = True
            raise
        finally:
            for task in (doing, watching):
                task.cancel()
            await asyncio.gather(doing, watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Wait until the client closes; what it sends early is kept for its turn."""
        while data := await self.reader.read(CHUNK):
            self.http.receive_data(data)
        self.http.receive_data(b"")

    async def _play(self, reply: Reply, received: Received) -> None:
        """Send a reply, piece by piece; the head goes with the first bytes of the body."""
        headed = False
        for piece in reply.pieces:
            if isinstance(piece, float | int):
                await asyncio.sleep(piece)
                continue
            if isinstance(piece, Close):
                self._cut(piece)
            if not headed:
                headed = True
                await self._send(_head(reply, self.http))
            if piece and received.method != "HEAD":
                await self._send(h11.Data(data=piece))
                received.sent += len(piece)
        if not headed:
            await self._send(_head(reply, self.http))
        await self._send(h11.EndOfMessage())

    def _cut(self, piece: Close) -> NoReturn:
        if piece.reset:
            held = self.writer.get_extra_info("socket")
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        raise _ClientLeft

    async def _send(self, event: Any) -> None:
        data = self.http.send(event)
        if data:
            self.writer.write(data)
            await self.writer.drain()

    async def _say_no(self, status: int) -> None:
        if self.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [("content-length", "0"), ("connection", "close")]
        await self._send(h11.Response(status_code=status, headers=headers))
        await self._send(h11.EndOfMessage())


def _head(reply: Reply, http: h11.Connection) -> h11.Response:
    length = [("content-length", str(reply.length))] if reply.length is not None else []
    if not length and http.their_http_version != b"1.0":
        length = [("transfer-encoding", "chunked")]
    return h11.Response(status_code=reply.status, headers=[*reply.headers, *length])
