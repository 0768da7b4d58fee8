"""One HTTP/1.1 connection: receives requests, and sends replies with their pauses and cuts.

Rules of this file:
- h11 implements the protocol; this file only moves bytes and waits.
- While a reply is sent, the connection is watched: the reply ends at once if the client disconnects.
- Bodies have a size limit. A larger one is rejected, and the connection closed.
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
    """Serves one client until it disconnects."""

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
        """Answer one request. Return True if another may follow."""
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
                continue_ = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
                await self._send(continue_)
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
        """Await `work`, and cancel it as soon as the client disconnects."""
        task = asyncio.ensure_future(work)
        watch = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            received.gone = True
            raise _ClientLeft
        except ConnectionError:
            received.gone = True
            raise
        finally:
            for each in (task, watch):
                each.cancel()
            await asyncio.gather(task, watch, return_exceptions=True)

    async def _watch(self) -> None:
        """Wait until the client disconnects. Data that it sends early is stored for its turn."""
        while data := await self.reader.read(CHUNK):
            self.http.receive_data(data)
        self.http.receive_data(b"")

    async def _play(self, reply: Reply, received: Received) -> None:
        """Send a reply, piece by piece; the head is sent with the first bytes of the body."""
        head_sent = False
        for piece in reply.pieces:
            if isinstance(piece, float | int):
                await asyncio.sleep(piece)
                continue
            if isinstance(piece, Close):
                self._cut(piece)
            if not head_sent:
                head_sent = True
                await self._send(_head(reply, self.http))
            if piece and received.method != "HEAD":
                await self._send(h11.Data(data=piece))
                received.sent += len(piece)
        if not head_sent:
            await self._send(_head(reply, self.http))
        await self._send(h11.EndOfMessage())

    def _cut(self, piece: Close) -> NoReturn:
        if piece.reset:
            raw_socket = self.writer.get_extra_info("socket")
            raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
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
