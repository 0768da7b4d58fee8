"""The gateway on a socket: uvicorn with times for those who are slow, and an end that lets streams finish.

Rules of this file:
- Whoever is connected says what they want within a time, and takes what they are told within a time, or is gone.
- A request whose client has gone is told so by its connection.
- A signal to stop lets what runs come to its end, for a while.
"""

import asyncio
import contextlib
import gc
import signal
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolwire.gateway.app import Gateway
from toolwire.gateway.turn import leave

_HEAD_SECONDS = 15.0
_HEAD_BYTES = 65_536
_DRAIN_SECONDS = 30
_LEAVING_SECONDS = 2.0
_YOUNG = 10_000  # objects after which what is garbage is looked for
_NOWHERE: Any = deque(maxlen=0)
_HELD = 262_144  # bytes that wait in the system for a client that reads slowly


class _Patient(HttpToolsProtocol):
    """A connection whose client has a time and a size for the head of each request."""

    _timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _head = 0
    _begun = False

    def data_received(self, data: bytes) -> None:
        """Read on, but for a head that never ends."""
        self._head += len(data)
        super().data_received(data)
        if not self._begun:
            self._head = 0
            if self._timer is None and self.cycle is not None and self.cycle.response_complete:
                self._wait()  # what is left of a body that nobody reads any more
            return
        if self._timer is None:
            self._wait()
        if self._head > _HEAD_BYTES and self.transport is not None and not self.transport.is_closing():
            self.send_400_response("The head of this request is too long.")

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def on_message_begin(self) -> None:
        """Note that the head of another request begins: what comes in one piece is not waited for."""
        super().on_message_begin()
        self._begun = True

    def on_headers_complete(self) -> None:
        """Note that the head has come."""
        self._begun = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._head > _HEAD_BYTES and sum(len(name) + len(value) for name, value in self.headers) > _HEAD_BYTES:
            raise ValueError("the head of this request is too long")
        super().on_headers_complete()
        if not (self.parser.should_upgrade() and self._should_upgrade()):
            self.headers = _NOWHERE  # what follows the body comes as headers, too, and is none
        if self.parser.get_http_version() == "1.0" and self.cycle is not None:
            self.cycle.send = _without_chunks(self.cycle)  # type: ignore[assignment, method-assign]

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        gateway: Any = self.config.app
        self._stalled = self.loop.call_later(gateway.tools.stall, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting, and tell the request that runs."""
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        if self.cycle is not None and not self.cycle.response_complete:
            scope: Any = self.cycle.scope
            leave(scope)


def _without_chunks(cycle: Any) -> Callable[[Any], Awaitable[None]]:
    """Answer a client of HTTP/1.0, which knows no chunks: what has no length ends with the connection."""
    send, sized = cycle.send, True

    async def say(message: Any) -> None:
        nonlocal sized
        if message["type"] == "http.response.start":
            sized = any(name == b"content-length" for name, _ in message["headers"])
            cycle.chunked_encoding = None if sized else False
        elif not sized:
            cycle.expected_content_length = len(message["body"])
        await send(message)

    return say


class _Server(uvicorn.Server):
    """A server that says when it is ready, and ends well when a signal says so."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], again: Callable[[], Any] | None) -> None:
        super().__init__(config)
        self._ready, self._again = ready, again

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and say so."""
        await super().startup(sockets)
        if self._again is not None and hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._again)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take a signal as the wish to end; it is not raised again. Another thread than the main one gets none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.signal(kind, self.handle_exit) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def listen(address: str) -> socket.socket:
    """Open the socket that HOST:PORT says; port 0 is a free one."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _HELD)
    try:
        opened.bind((host, int(port)))
    except OSError as problem:
        opened.close()
        raise type(problem)(problem.errno, problem.strerror, address) from None
    return opened


def config_of(gateway: Gateway, connections: int = 4096) -> uvicorn.Config:
    """Say how a gateway is served."""
    return uvicorn.Config(
        gateway,
        http=_Patient,
        loop="uvloop",
        ws=_socket_protocol() if gateway.websocket and find_spec("websockets") else "none",
        ws_max_size=gateway.limits.body,
        ws_per_message_deflate=False,
        lifespan="on",
        access_log=False,
        log_level="critical",
        server_header=False,
        proxy_headers=False,
        backlog=2048,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        timeout_keep_alive=30,
        limit_concurrency=connections,
    )


def _socket_protocol() -> type[asyncio.Protocol]:
    from toolwire.gateway.socket_protocol import SocketProtocol  # noqa: PLC0415 - an extra

    return SocketProtocol


def serve(
    gateway: Gateway,
    opened: socket.socket,
    ready: Callable[[], None] = lambda: None,
    *,
    again: Callable[[], Any] | None = None,
    connections: int = 4096,
) -> None:
    """Serve until a signal says stop, and do nothing else; one that says to read the settings anew calls `again`."""
    gc.freeze()  # what was imported stays, and is not looked through again and again
    gc.set_threshold(_YOUNG, 20, 50)
    _Server(config_of(gateway, connections), ready, again).run([opened])


@contextlib.contextmanager
def aside(gateway: Gateway) -> Iterator[str]:
    """Serve in a thread, on a free port of this machine, for as long as this lasts; give the address."""
    opened, started = listen("127.0.0.1:0"), threading.Event()
    server = _Server(config_of(gateway), started.set, None)
    thread = threading.Thread(target=server.run, args=([opened],), name="toolwire-gateway", daemon=True)
    thread.start()
    while thread.is_alive() and not started.wait(0.05):
        continue
    try:
        yield f"http://127.0.0.1:{opened.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_LEAVING_SECONDS)
        server.force_exit = True
        thread.join(_LEAVING_SECONDS)
