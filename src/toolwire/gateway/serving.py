"""The gateway on a socket: uvicorn with time limits for slow clients, and a shutdown that lets streams finish.

Rules of this file:
- A client must send its request within a time limit, and receive its answer within a time limit. Otherwise the gateway
  closes the connection.
- If a client disconnects, its connection notifies the request. A client that closes only its sending side counts as
  disconnected: uvicorn, nginx and Go's net/http decide likewise.
- Connections without a running request have a limit of their own (`waiting_connections`).
- After a signal to stop, running requests have some time to finish.
"""

import asyncio
import contextlib
import fcntl
import gc
import resource
import signal
import socket
import sys
import termios
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from toolwire.gateway.app import Gateway
from toolwire.gateway.context import leave
from toolwire.gateway.waiting_connections import WaitingConnections, network_of

_HEAD_SECONDS = 15.0
_HEAD_BYTES = 65_536
DRAIN_SECONDS = 30
_THREAD_STOP_SECONDS = 2.0
_GC_THRESHOLD = 10_000  # new objects after which Python looks for garbage
_DISCARDED_HEADERS: Any = deque(maxlen=0)
_BUFFER_BYTES = 16_384  # bytes that this process holds for a slow client; one more piece may be added
_UNSENT_BYTES = 32_768  # bytes that the system holds for it before they are sent
_SEND_BUFFER_BYTES = 262_144  # bytes that are sent and not acknowledged
_VANISHED_SECONDS = 120  # seconds after which an idle client that acknowledges no probe counts as vanished
_PROBE_SECONDS = 20  # seconds between two probes


class _ClientConnection(HttpToolsProtocol):
    """A client's connection. It limits the head of a request, and notices a client that leaves or does not read."""

    _timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _head = 0
    _head_begun = False
    _network: str | bytes = ""

    def __init__(self, waiting: "WaitingConnections[_ClientConnection]", **options: Any) -> None:
        super().__init__(**options)
        self._waiting = waiting
        self._unanswered: list[RequestResponseCycle] = []  # more than one only if the client pipelines

    def data_received(self, data: bytes) -> None:
        """Parse `data`. Reject a head that is too long."""
        self._head += len(data)
        super().data_received(data)
        if not self._head_begun:
            self._head = 0
            if self._timer is None and self.cycle is not None and self.cycle.response_complete:
                self._wait()  # the rest of a body that is no longer read
            return
        if self._timer is None:
            self._wait()
        if self._head > _HEAD_BYTES and self.transport is not None and not self.transport.is_closing():
            self.send_400_response("The head of this request is too long.")

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(_BUFFER_BYTES)
        self._network = network_of(self.client[0]) if self.client is not None else ""
        self._wait()

    def _wait(self) -> None:
        """Limit the time until the head of the next request is complete."""
        self._timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)
        self._count()

    def _count(self) -> None:
        """Count this connection as waiting; close the oldest one if there are too many."""
        oldest = self._waiting.add(self, self._network)
        if oldest is not None:
            oldest._give_up()  # noqa: SLF001 - of the same class

    def _give_up(self) -> None:
        """Close the connection. It no longer counts as open, although its end is reported later."""
        self.connections.discard(self)
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def on_message_begin(self) -> None:
        """Note that the head of another request begins. A head that arrives in one piece needs no timer."""
        super().on_message_begin()
        self._head_begun = True

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self._head_begun = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._head > _HEAD_BYTES and sum(len(name) + len(value) for name, value in self.headers) > _HEAD_BYTES:
            raise ValueError("the head of this request is too long")
        super().on_headers_complete()
        if self.parser.should_upgrade() and self._should_upgrade():
            self._waiting.discard(self)
            return
        self.headers = _DISCARDED_HEADERS  # httptools reports trailers of the body as headers, too
        self._unanswered = [*(cycle for cycle in self._unanswered if not cycle.response_complete), self.cycle]
        self._read_on()
        if self.parser.get_http_version() == "1.0":
            self.cycle.send = _without_chunks(self.cycle)  # type: ignore[assignment, method-assign]

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        super().on_message_complete()
        if self._unanswered and not self.cycle.response_complete:
            self._waiting.discard(self)
        self._read_on()

    def _read_on(self) -> None:
        """Read on to see the client leave; uvicorn pauses after 64 KiB of a body, and where the next request begins.

        It reads on when the request awaits `receive`. A task for that takes a twentieth of a short request's time. One
        pipelined request of up to 64 KiB may be read ahead.
        """
        if len(self.pipeline) <= 1:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that was answered before its end."""
        super().on_response_complete()
        if not self.transport.is_closing() and (self.cycle.response_complete or self.cycle.more_body):
            self._count()

    def pause_writing(self) -> None:
        """Start the timer of a stalled client, because it does not read."""
        super().pause_writing()
        self._start_stall_timer(_unread_bytes(self.transport))

    def _start_stall_timer(self, unread: int) -> None:
        """Start the timer that closes the connection unless the client reads."""
        gateway: Any = self.config.app
        self._stalled = self.loop.call_later(gateway.context.stall, self._check_reading, unread)

    def _check_reading(self, before: int) -> None:
        """Close the connection if the client has read nothing since; a slow client is waited for."""
        unread = _unread_bytes(self.transport)
        if unread < before:
            self._start_stall_timer(unread)
        else:
            self.transport.abort()

    def resume_writing(self) -> None:
        """Cancel the timer of a stalled client, because it reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def eof_received(self) -> None:
        """Close the connection of a client that has closed its side before its answer has ended."""
        if not all(cycle.response_complete for cycle in self._unanswered):
            self.transport.abort()  # else it is closed when the client has read all

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting, and end the requests of this client."""
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()
        self._waiting.discard(self)
        super().connection_lost(exc)
        self._end_requests()

    def _end_requests(self) -> None:
        """Report the end of the connection to each request; uvicorn reports it to the newest one only."""
        for cycle in self._unanswered:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
                scope: Any = cycle.scope
                leave(scope)


def _unread_bytes(transport: asyncio.Transport) -> int:
    """Return how many bytes a client has not received yet: those in this process, and on Linux those in the system."""
    unread = transport.get_write_buffer_size()
    with contextlib.suppress(OSError):
        queued = fcntl.ioctl(transport.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4))
        unread += int.from_bytes(queued, sys.byteorder)
    return unread


def _without_chunks(cycle: Any) -> Callable[[Any], Awaitable[None]]:
    """Return a `send` for a client of HTTP/1.0, without chunks: an answer without a length ends the connection."""
    send, sized = cycle.send, True

    async def send_unchunked(message: Any) -> None:
        nonlocal sized
        if message["type"] == "http.response.start":
            sized = any(name == b"content-length" for name, _ in message["headers"])
            cycle.chunked_encoding = None if sized else False
        elif not sized:
            cycle.expected_content_length = len(message["body"])
        await send(message)

    return send_unchunked


class _Server(uvicorn.Server):
    """A server that reports when it is ready, and stops gracefully on a signal."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], reload: Callable[[], Any] | None) -> None:
        super().__init__(config)
        self._ready, self._again = ready, reload

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and report it."""
        await super().startup(sockets)
        if self._again is not None and hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._again)
        self._ready()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop. The page ends its live rows, which would last as long as a browser shows them."""
        gateway: Any = self.config.app
        if gateway.page is not None:
            gateway.page.stop()
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal, and do not raise it again. A thread other than the main thread receives no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def listen(address: str) -> socket.socket:
    """Return a socket that listens on `address` (HOST:PORT). Port 0 chooses a free one."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _set_options(opened)
    try:
        opened.bind((host, int(port)))
    except OSError as problem:
        opened.close()
        raise type(problem)(problem.errno, problem.strerror, address) from None
    return opened


def _set_options(opened: socket.socket) -> None:
    """Set the options that each accepted connection inherits: small buffers, and probes that notice a vanished client.

    `TCP_USER_TIMEOUT` is not set: with it Linux also closes connections of clients that read slowly by small windows.
    """
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_NOTSENT_LOWAT": _UNSENT_BYTES,
        "TCP_KEEPIDLE": _VANISHED_SECONDS // 2,
        "TCP_KEEPINTVL": _PROBE_SECONDS,
        "TCP_KEEPCNT": _VANISHED_SECONDS // 2 // _PROBE_SECONDS,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # each system knows some of them
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _allow_files() -> None:
    """Raise the limit of open files to the hard limit: each connection needs one, and one more to its provider."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def config_of(gateway: Gateway, connections: int = 4096) -> uvicorn.Config:
    """Return uvicorn's configuration. Half of the `connections` may wait without a running request."""
    protocol: Any = partial(_ClientConnection, WaitingConnections(connections // 2))
    return uvicorn.Config(
        gateway,
        http=protocol,
        loop="uvloop",
        ws=_socket_protocol() if gateway.websocket and find_spec("websockets") else "none",
        ws_max_size=gateway.limits.body,
        ws_per_message_deflate=False,
        lifespan="on",
        access_log=False,
        log_level="critical",
        server_header=False,
        proxy_headers=False,
        backlog=4096,
        timeout_graceful_shutdown=DRAIN_SECONDS,
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
    reload: Callable[[], Any] | None = None,
    connections: int = 4096,
) -> None:
    """Serve until a signal to stop. SIGHUP calls `reload`. `ready` is called once the server accepts connections."""
    _allow_files()
    gc.freeze()  # imported modules stay in memory, so the garbage collector need not visit them
    gc.set_threshold(_GC_THRESHOLD, 20, 50)
    _Server(config_of(gateway, connections), ready, reload).run([opened])


@contextlib.contextmanager
def serve_in_thread(gateway: Gateway) -> Iterator[str]:
    """Serve in a thread, on a free port of this machine. Yield the address; stop when the context ends."""
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
        thread.join(_THREAD_STOP_SECONDS)
        server.force_exit = True
        thread.join(_THREAD_STOP_SECONDS)
