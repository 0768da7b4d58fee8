"""A WebSocket connection of uvicorn that reads only as much as there is room for.

Rules of this file:
- A client has a minute for a large message. The time in which the connection is not read does not count.
- A message that was passed on is not stored here any longer. A text is passed on as bytes, because a `str` may take
  four times as many.
- When connections that had large messages close, their memory returns to the system.
"""

import asyncio
import ctypes
import os
from collections import deque
from functools import partial
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from toolwire.gateway.context import PASS_ON, RECEIVING
from toolwire.gateway.intake import Receiving

_SECONDS = 60.0
_TOO_LONG, _TOO_SLOW = 1009, 1008
_TRIM: Any = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None  # glibc alone has it
_TRIM_SECONDS = 1.0
_FRAMES = 65_536  # bytes of heads of frames that a message of the largest size may have


class SocketProtocol(WebSocketsSansIOProtocol):
    """The WebSocket connection of one client. The bytes that it receives are counted in the gateway's `Intake`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        gateway: Any = self.config.app
        self._receiving = Receiving(gateway.context.intake, self._pause, self._resume)
        self._sizes: deque[int] = deque()
        self._size = 0  # bytes of the message that is being received
        self._received_at = 0.0
        self._late: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Count the received bytes, and parse messages. Close the connection if a message is too long."""
        self._received_at = self.loop.time()
        self._size += len(data)
        self._receiving.add(len(data))
        super().data_received(data)
        if self._size and self._is_between_messages():
            self._receiving.add(-self._size)
            self._size = 0
        self._watch()
        if self._size > self.config.ws_max_size + _FRAMES:  # frames without an end, or without content
            self._fail(_TOO_LONG, "this message is too long")

    def _is_between_messages(self) -> bool:
        """Return True if no message has begun, so the bytes since the last one were pings and pongs."""
        reader = getattr(self.conn, "reader", None)  # websockets 17.4; without it, pings count for the next message
        return not self.frames and reader is not None and not reader.buffer

    def handle_connect(self, event: Any) -> None:
        """Accept the connection, and put the count of its bytes into its scope."""
        super().handle_connect(event)
        if hasattr(self, "scope"):
            scope: Any = self.scope
            scope[RECEIVING] = self._receiving
            self._receiving.add(-self._size)
            self._size = 0

    def handle_text(self, event: Frame) -> None:
        """Handle a text. The parser keeps its last frame, so the frame must not hold the text."""
        super().handle_text(event)
        event.data = b""

    def handle_bytes(self, event: Frame) -> None:
        """Handle bytes, likewise."""
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        """Handle a further piece of a message, likewise."""
        super().handle_cont(event)
        event.data = b""

    def send_receive_event_to_app(self) -> None:
        """Queue a whole message, and note its size."""
        size, self._size, self.curr_msg_data_type = self._size, 0, "bytes"
        before = self.queue.qsize()
        super().send_receive_event_to_app()
        if self.queue.qsize() > before:
            self._sizes.append(size)
        else:
            self._receiving.add(-size)

    async def receive(self) -> Any:
        """Return the next message, with the function that frees its room."""
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
        """Drop the received messages, and release their bytes in the `Intake`."""
        super().connection_lost(exc)
        self.frames = []
        self._receiving.close()
        self._watch()
        if self._receiving.was_large:
            self._trim_soon()

    def _trim_soon(self) -> None:
        """Return free memory to the system, once for all connections that close at about this time."""
        intake: Any = self._receiving.room

        def trim() -> None:
            intake.trims = False
            self.loop.run_in_executor(None, _TRIM, 0)

        if _TRIM is not None and not intake.trims:
            intake.trims = True
            self.loop.call_later(_TRIM_SECONDS, trim)

    def keepalive_timeout(self) -> None:
        """Close a connection that is silent, but not while it sends or waits for room."""
        if self._receiving.waits or self._received_at > self.ping_sent_at:
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
        """Start or stop the time that a client has for a large message."""
        is_sending = self._size > 0 and self._receiving.is_large and not self._receiving.waits
        if is_sending and self._late is None:
            self._late = self.loop.call_later(
                _SECONDS, self._fail, _TOO_SLOW, f"a message took longer than {_SECONDS:g} s"
            )
        elif not is_sending and self._late is not None:
            self._late.cancel()
            self._late = None

    def _fail(self, code: int, reason: str) -> None:
        """Close the connection with a reason."""
        if self.close_sent or self.transport.is_closing():
            return
        self.conn.fail(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()
