"""A WebSocket connection of uvicorn, which receives no more than there is room for.

Rules of this file:
- A client that sends a large message sends it within a time, while its connection is read.
- What was passed on is not held any more. A text is passed on as its bytes: as a `str` it may take four times as many.
- The memory of large messages goes back to the system when their connections have closed.
"""

import asyncio
import ctypes
import os
from collections import deque
from functools import partial
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from toolwire.gateway.intake import Receiving
from toolwire.gateway.turn import PASS_ON, RECEIVING

_SECONDS = 60.0
_TOO_LONG, _TOO_SLOW = 1009, 1008
_TRIM: Any = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None  # glibc alone has it
_TRIM_SECONDS = 1.0
_FRAMES = 65_536  # bytes of heads of frames that a message of the largest size may have


class SocketProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        gateway: Any = self.config.app
        self._receiving = Receiving(gateway.tools.intake, self._pause, self._resume)
        self._sizes: deque[int] = deque()
        self._size = 0  # bytes of the message that is being received
        self._heard_at = 0.0
        self._late: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Count what was received, and read it."""
        self._heard_at = self.loop.time()
        self._size += len(data)
        self._receiving.add(len(data))
        super().data_received(data)
        self._watch()
        if self._size > self.config.ws_max_size + _FRAMES:  # frames without an end, or without content
            self._fail(_TOO_LONG, "this message is too long")

    def handle_connect(self, event: Any) -> None:
        """Begin, with what counts the bytes of this connection."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            scope: Any = self.scope
            scope[RECEIVING] = self._receiving
            self._receiving.add(-self._size)
            self._size = 0

    def handle_text(self, event: Frame) -> None:
        """Take a text; the parser keeps its last frame, which must not hold the text."""
        super().handle_text(event)
        event.data = b""

    def handle_bytes(self, event: Frame) -> None:
        """Take bytes."""
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        """Take a further piece of a message."""
        super().handle_cont(event)
        event.data = b""

    def send_receive_event_to_app(self) -> None:
        """Hand on a whole message, with its size."""
        size, self._size, self.curr_msg_data_type = self._size, 0, "bytes"
        before = self.queue.qsize()
        super().send_receive_event_to_app()
        if self.queue.qsize() > before:
            self._sizes.append(size)
        else:
            self._receiving.add(-size)

    async def receive(self) -> Any:
        """Give the next message."""
        message: Any = await super().receive()
        if self._receiving.waits:  # uvicorn has begun to read again
            self._pause()
        if message["type"] != "websocket.receive" or not self._sizes:
            return message
        return {**message, PASS_ON: partial(self._pass_on, self._sizes.popleft())}

    def _pass_on(self, size: int) -> None:
        self._receiving.add(-size)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free what was received."""
        super().connection_lost(exc)
        self.frames = []
        self._receiving.close()
        self._watch()
        if self._receiving.was_large:
            self._trim_soon()

    def _trim_soon(self) -> None:
        """Have free memory returned to the system, once for all connections that close meanwhile."""
        intake: Any = self._receiving.room

        def trim() -> None:
            intake.trims = False
            self.loop.run_in_executor(None, _TRIM, 0)

        if _TRIM is not None and not intake.trims:
            intake.trims = True
            self.loop.call_later(_TRIM_SECONDS, trim)

    def keepalive_timeout(self) -> None:
        """Close a connection that says nothing; one that is sending, or that waits for room, says something."""
        if self._receiving.waits or self._heard_at > self.ping_sent_at:
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()

    def _pause(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()
        self._watch()

    def _resume(self) -> None:
        if not (self.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()
        self._watch()

    def _watch(self) -> None:
        """Have the client a time for what is large, while its connection is read."""
        is_sending = self._size > 0 and self._receiving.is_large and not self._receiving.waits
        if is_sending and self._late is None:
            self._late = self.loop.call_later(
                _SECONDS, self._fail, _TOO_SLOW, f"a message took longer than {_SECONDS:g} s"
            )
        elif not is_sending and self._late is not None:
            self._late.cancel()
            self._late = None

    def _fail(self, code: int, reason: str) -> None:
        """Close the connection, and say why."""
        if self.close_sent or self.transport.is_closing():
            return
        self.conn.fail(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()
