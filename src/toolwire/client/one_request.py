"""A transport for programs that ask once: each request has a connection of its own, and sync code only.

httpx2 takes longer to import than such a program may take. This transport imports h11 alone.

Rules of this file:
- The machine's environment is not used (proxies, netrc, `SSL_CERT_FILE`), as in the transport for everything else.
- The deadline and the stop apply to each read and write. A stop ends a read at once.
- The answer is asked for without compression. A server that compresses it all the same is a protocol error.
"""

import contextlib
import os
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import h11

from toolwire.wire.transport import (
    DEFAULT_PORTS,
    FailureKind,
    HttpRequest,
    Stop,
    Timeouts,
    TransportError,
    url_without_secrets,
)

_PIECE = 32_768
_LATE, _STOPPED = "it took too long", "the request was stopped"
# Where Linux distributions keep their authorities, if OpenSSL was built with other paths.
_AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class OneRequestTransport:
    """Sends each request over a new connection, which is closed after the answer."""

    def send(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> "_Response":
        """Send a request and return the head of its answer. Raise TransportError if that fails."""
        exchange = _Exchange(request, timeouts, stop)
        try:
            with exchange.failing(f"{request.method} {url_without_secrets(request.url)}"):
                exchange.connect()
                exchange.write()
                return _Response(exchange, exchange.read_head())
        except BaseException:
            exchange.close()
            raise

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> "_Response":
        """Raise TransportError: async code uses the other transport."""
        del request, timeouts, stop
        raise TransportError("protocol", "OneRequestTransport is for sync code")


class _Exchange:
    """One request and its answer on one connection."""

    def __init__(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None) -> None:
        self._request, self._timeouts, self._stop = request, timeouts, stop
        self._url = urlsplit(request.url)
        self._protocol = h11.Connection(h11.CLIENT)
        self._socket: socket.socket | None = None
        self._is_connected = self._is_stopped = False
        self._limit = timeouts.first
        now = time.monotonic()
        self._deadline = None if timeouts.total is None else now + timeouts.total

    @contextlib.contextmanager
    def failing(self, where: str) -> Iterator[None]:
        """Raise each failure in this context as a TransportError, and end a read when the stop is set."""
        try:
            with contextlib.nullcontext() if self._stop is None else self._stop.telling(self._interrupt):
                yield
        except (OSError, h11.ProtocolError, ValueError) as problem:
            reason = _LATE if isinstance(problem, TimeoutError) else str(problem)
            failure = TransportError(self._kind_of(problem), f"{where}: {type(problem).__name__}: {reason}")
        else:
            return
        raise TransportError("cancelled", _STOPPED) if self._is_stopped else failure

    def _kind_of(self, problem: Exception) -> FailureKind:
        if isinstance(problem, TimeoutError):
            return "timeout"
        if not self._is_connected and isinstance(problem, OSError):
            return "connect"
        return "reset" if isinstance(problem, OSError | h11.RemoteProtocolError) else "protocol"

    def _interrupt(self) -> None:
        self._is_stopped = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it is closed already
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def connect(self) -> None:
        """Open the connection, encrypted for https."""
        url = self._url
        if url.scheme not in DEFAULT_PORTS or not url.hostname:
            raise ValueError("the URL must begin with http:// or https://")
        address = url.hostname, url.port or DEFAULT_PORTS[url.scheme]
        self._socket = socket.create_connection(address, self._timeouts.connect)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if url.scheme == "https":
            self._socket = _trusted().wrap_socket(self._socket, server_hostname=url.hostname)
        self._is_connected = True

    def write(self) -> None:
        """Send the request."""
        url, body = self._url, self._request.body or b""
        usual = {"host": url.netloc.rpartition("@")[2], "accept-encoding": "identity", "connection": "close"}
        own_headers = {name.lower(): value for name, value in self._request.headers.items()}
        length = {"content-length": str(len(body))} if body or self._request.method != "GET" else {}
        headers = {**usual, **length, **own_headers}
        target = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
        head = h11.Request(method=self._request.method, target=target, headers=list(headers.items()))
        data = b"".join(
            part
            for event in (head, h11.Data(data=body), h11.EndOfMessage())
            if (part := self._protocol.send(event)) is not None
        )
        self._timed().sendall(data)

    def _timed(self) -> socket.socket:
        """Return the socket, set to wait no longer than the deadline allows."""
        if self._socket is None or self._is_stopped:
            raise ConnectionError(_STOPPED)
        remaining = None if self._deadline is None else self._deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            raise TimeoutError(_LATE)
        limits = [limit for limit in (self._limit, remaining) if limit is not None]
        self._socket.settimeout(min(limits, default=None))
        return self._socket

    def read_head(self) -> h11.Response:
        """Return the head of the answer."""
        until, total = None if self._limit is None else time.monotonic() + self._limit, self._deadline
        self._deadline = min((moment for moment in (until, total) if moment is not None), default=None)
        while type(event := self._next_event()) is not h11.Response:
            if type(event) is not h11.InformationalResponse:
                raise h11.RemoteProtocolError("the server closed the connection")
        self._deadline, self._limit = total, self._timeouts.between
        return event

    def _next_event(self) -> Any:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            data = self._timed().recv(_PIECE)
            if not data and self._protocol.their_state is h11.SEND_RESPONSE:
                raise h11.RemoteProtocolError("the server closed the connection without an answer")
            self._protocol.receive_data(data)
        return event

    def read(self) -> bytes:
        """Return the next piece of the body; an empty one is the end."""
        with self.failing("the answer broke off"):
            while True:
                event = self._next_event()
                if type(event) is not h11.Data:
                    return b""
                if event.data:
                    return bytes(event.data)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()


class _Response:
    """The head of an answer, and its body in pieces."""

    def __init__(self, exchange: _Exchange, head: h11.Response) -> None:
        self.status: int = head.status_code
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in head.headers
        }
        self._exchange = exchange
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise ValueError(f"the answer is compressed ({encoding}), which was not asked for")

    def read(self) -> bytes:
        return self._exchange.read()

    def finish(self) -> None:
        self.close()

    def close(self) -> None:
        self._exchange.close()

    async def aread(self) -> bytes:
        return self.read()

    async def afinish(self) -> None:
        self.close()

    async def aclose(self) -> None:
        self.close()


def _trusted() -> ssl.SSLContext:
    """Return a context with the authorities of the system, without those that the environment names."""
    if sys.platform in ("win32", "darwin"):
        import truststore  # noqa: PLC0415 - the authorities of these systems are in no file

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    folder = paths.openssl_capath if os.path.isdir(paths.openssl_capath) else None  # noqa: PTH112 - as ssl has them
    files = [path for path in (paths.openssl_cafile, *_AUTHORITIES) if os.path.isfile(path)]  # noqa: PTH113 - the same
    if files or folder:
        context.load_verify_locations(files[0] if files else None, folder)
    return context
