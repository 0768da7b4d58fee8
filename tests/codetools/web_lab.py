"""A small internet for tests of http_get: servers that say what a test wants, and a canary."""

import asyncio
import contextlib
import gzip
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from httpcore2 import AnyIOBackend, AsyncNetworkStream

from toolwire.codetools.addresses import FetchRules
from toolwire.codetools.fetching import Fetched, Network, build_headers, fetch

PUBLIC = "93.184.216.34"
OTHER = "151.101.1.69"
PUBLIC_6 = "2606:2800:220:1:248:1893:25c8:1946"

Answer = bytes | Callable[[bytes, socket.socket], None] | Callable[[bytes], bytes]


def answer(
    body: bytes = b"",
    status: int = 200,
    kind: str | None = "text/plain",
    *more: tuple[str, str],
    length: bool = True,
) -> bytes:
    """Write an answer of a server."""
    fields = [*more]
    if kind is not None:
        fields.append(("Content-Type", kind))
    if length:
        fields.append(("Content-Length", str(len(body))))
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    text = f"HTTP/1.1 {status} X\r\n{head}\r\n"
    return text.encode("latin-1" if max(text) <= "\xff" else "utf-8") + body


def redirect(location: str, status: int = 302) -> bytes:
    return answer(b"", status, None, ("Location", location))


def packed(body: bytes, coding: str = "gzip") -> bytes:
    return answer(body, 200, "text/plain", ("Content-Encoding", coding))


def zipped(body: bytes) -> bytes:
    return packed(gzip.compress(body))


class Server:
    """Listens on 127.0.0.1, answers each request with what `say` is or gives, and keeps what it was asked."""

    def __init__(self, say: Answer = b"", tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.say, self.tls = say, tls
        self.requests: list[bytes] = []
        self.connections = 0
        self.gone = threading.Event()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.bind((host, 0))
        self.socket.listen(128)
        self.port: int = self.socket.getsockname()[1]
        self.threads: list[threading.Thread] = []
        self.closing = False
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        while not self.closing:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            if self.closing:
                connection.close()
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError), contextlib.closing(connection):
            connection.settimeout(20)
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with contextlib.closing(connection):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request and (data := connection.recv(65536)):
            request += data
        if not request:
            return
        self.requests.append(request)
        said: Any = self.say
        if callable(said):
            said = said(request, connection) if said.__code__.co_argcount == 2 else said(request)
        if said is not None:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    def wait_until_left(self, connection: socket.socket) -> None:
        """Say when the other side is gone."""
        with contextlib.suppress(OSError):
            while connection.recv(65536):
                pass
        self.gone.set()

    def close(self) -> None:
        """Stop; no thread is left."""
        self.closing = True
        with contextlib.suppress(OSError), socket.create_connection(self.socket.getsockname()[:2], timeout=5):
            pass
        self.thread.join(5)
        self.socket.close()
        for thread in self.threads:
            thread.join(5)


@contextlib.contextmanager
def serving(say: Answer = b"", **more: Any) -> Iterator[Server]:
    server = Server(say, **more)
    try:
        yield server
    finally:
        server.close()


Names = Mapping[str, list[str] | Callable[[], list[str]]]


class Mapped(Network):
    """A network in which public addresses are servers of a test. Any other address is really connected to, on
    the port of the canary, so that a check that lets it through is found out."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        names: Names | None = None,
        canary: Server | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self.servers, self.canary, self.trusted = servers, canary, trust
        self.names: Names = names or {}
        self.looked_up: list[str] = []
        self.dialled: list[tuple[str, int]] = []

    async def resolve(self, host: str) -> list[str]:
        self.looked_up.append(host)
        if host not in self.names:
            raise socket.gaierror(-2, "Name or service not known")
        found = self.names[host]
        return found() if callable(found) else found

    async def connect(self, address: str, port: int) -> AsyncNetworkStream:
        self.dialled.append((address, port))
        server = self.servers.get(address)
        if server is None:
            return await super().connect(address, self.canary.port if self.canary else port)
        return await AnyIOBackend().connect_tcp("127.0.0.1", server.port)

    def trust(self) -> ssl.SSLContext:
        return self.trusted if self.trusted is not None else super().trust()


def get(
    url: str,
    network: Network | None = None,
    *,
    headers: dict[str, str] | None = None,
    rules: FetchRules = FetchRules(),  # noqa: B008 - it is frozen
    limit: int = 1024 * 1024,
    seconds: float = 10,
) -> Fetched:
    """Fetch, in a loop of its own."""

    async def main() -> Fetched:
        async with asyncio.timeout(seconds):
            return await fetch(url, build_headers(headers), rules, limit, network=network)

    return asyncio.run(main())
