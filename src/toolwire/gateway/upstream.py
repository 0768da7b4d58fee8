"""The gateway's way up to providers: aiohttp's connections behind the transport of the clients.

Rules of this file:
- No redirect is followed, no proxy or password of this machine is used but what the settings say, no cookie is kept.
  A session of aiohttp's would do all of that at each request: here a request is written to one of its connections.
- What is cancelled closes its connection at once. What goes wrong is a TransportError, which holds no header.
"""

import asyncio
import socket
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import aiohttp
from aiohttp.http import HttpProcessingError
from yarl import URL

from toolwire.gateway.routes import Upward
from toolwire.wire.transport import FailureKind, HttpRequest, Stop, Timeouts, TransportError, url_without_secrets

_KINDS: tuple[tuple[type[Exception], FailureKind], ...] = (
    (aiohttp.ServerTimeoutError, "timeout"),
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorError, "connect"),
    (aiohttp.InvalidURL, "protocol"),
    (aiohttp.ClientPayloadError, "reset"),
    (aiohttp.ServerDisconnectedError, "reset"),
    (aiohttp.ClientConnectionError, "reset"),
    (aiohttp.ClientError, "protocol"),
    (OSError, "reset"),
)
_FAILURES = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)
_LOST = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
_ONCE = "POST"  # what is not asked again, where a connection was lost that had been kept too long
_PIECE = 65_536
_HELD = 262_144
_INFORMATIONAL, _SWITCHING = 100, 101
_FINAL = 200


class _UpstreamAnswer:
    """An answer of a provider: its head, and its body in pieces."""

    status: int
    headers: dict[str, str]

    def __init__(self, connection: Any, total: float | None) -> None:
        self._connection, self._protocol = connection, connection.protocol
        self._content: Any = None
        loop = asyncio.get_running_loop()
        self._late = None if total is None else loop.call_later(total, self._end_late, total)

    async def begin(self, head: bytes, body: bytes, between: float) -> None:
        """Write a request, and read the head of its answer."""
        protocol, transport = self._protocol, self._connection.transport
        if transport is None:
            raise aiohttp.ServerDisconnectedError
        protocol.set_response_params(
            read_until_eof=True,
            read_timeout=between,
            read_bufsize=_PIECE,
            max_line_size=_PIECE,
            max_field_size=_PIECE,
        )
        if len(body) < _PIECE:
            transport.write(head + body)  # one packet
        else:
            transport.writelines((head, body))
        code = _INFORMATIONAL
        while code < _FINAL and code != _SWITCHING:
            protocol.start_timeout()  # the end of a head that is not the last one ends it
            said, content = await protocol.read()
            code = said.code
        self.status, self._content = code, content
        self.headers = {name.lower(): value for name, value in said.headers.items()}
        content.on_eof(self._give_back)

    def _end_late(self, total: float) -> None:
        """End an answer that takes longer than it may."""
        problem = aiohttp.ServerTimeoutError(f"longer than {total:g} s")
        for waited in (self._protocol, self._content):
            if waited is not None:
                waited.set_exception(problem)

    async def aread(self) -> bytes:
        """Give the next piece; an empty one is the end."""
        try:
            return await self._content.readany()  # type: ignore[no-any-return]
        except _FAILURES as problem:
            failure = _failure(problem, "the answer broke off")
        raise failure

    def _give_back(self) -> None:
        self._let_go(whole=True)

    def close(self) -> None:
        """Close the connection, if it was not given back before; what is left of the answer is let go of at once."""
        if self._content is not None:
            self._content.set_exception(aiohttp.ClientConnectionError("closed"))
        self._let_go(whole=False)

    def _let_go(self, *, whole: bool) -> None:
        if self._late is not None:
            self._late.cancel()
        transport = self._connection.transport
        if transport is not None and transport.get_write_buffer_size():
            transport.abort()  # what is not written yet is not waited for
            whole = False
        (self._connection.release if whole else self._connection.close)()

    async def afinish(self) -> None:
        """Give the connection back; it is closed if not all was written and read."""
        self._give_back()

    async def aclose(self) -> None:
        """Let go of the connection: it is given back if all was read, else closed."""
        self.close()


class Uplink:
    """Connections to providers, kept for the next request."""

    def __init__(self, upward: Upward = Upward()) -> None:  # noqa: B008 - frozen
        self.upward: Upward = upward
        self._connector: aiohttp.TCPConnector | None = None

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> _UpstreamAnswer:  # noqa: ARG002 - a task is cancelled instead
        """Send a request, and give the head of the answer."""
        try:
            try:
                return await self._ask(request, timeouts)
            except _LOST:
                if request.method == _ONCE:
                    raise
                return await self._ask(request, timeouts)
        except (*_FAILURES, ValueError) as problem:
            failure = _failure(problem, f"{request.method} {url_without_secrets(request.url)}")
        raise failure

    async def _ask(self, request: HttpRequest, timeouts: Timeouts) -> _UpstreamAnswer:
        if self._connector is None:
            self._connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, socket_factory=_narrow_socket)
        place, beginning = _place(request.method, request.url, self.upward)
        limits = _limits(timeouts)
        answer = _UpstreamAnswer(await self._connector.connect(place, [], limits), timeouts.total)
        try:
            head = _head(beginning, place.headers, request)
            await answer.begin(head, request.body, limits.sock_read or 0)
        except BaseException:
            answer.close()
            raise
        return answer

    async def aclose(self) -> None:
        """Close all connections."""
        if self._connector is not None:
            await self._connector.close()
            await asyncio.sleep(0)


@lru_cache(256)
def _place(method: str, url: str, way: Upward) -> tuple[aiohttp.ClientRequest, str]:
    """Give what the connector knows an address by, and how a request to it begins."""
    address = URL(url, encoded=True)
    proxy = URL(way.proxy) if way.proxy and address.host not in way.direct else None
    trusted = True if way.trusted is None else way.trusted
    place = aiohttp.ClientRequest(method, address, proxy=proxy, ssl=trusted, skip_auto_headers=("user-agent",))
    target = str(address) if proxy is not None and address.scheme == "http" else address.raw_path_qs
    if not target.isprintable() or " " in target:
        raise ValueError("an address must have no spaces")
    return place, f"{method} {target} HTTP/1.1\n"


def _head(beginning: str, of_place: Mapping[str, str], request: HttpRequest) -> bytes:
    """Write the head of a request; the names of its headers are in small letters."""
    said = {"host": of_place["host"], **request.headers, "accept-encoding": "identity"}
    said["content-length"] = str(len(request.body))
    if (login := of_place.get("proxy-authorization")) is not None:
        said["proxy-authorization"] = login
    lines = "\n".join([f"{name}: {value}" for name, value in said.items()])
    if "\r" in lines or lines.count("\n") != len(said) - 1:
        raise ValueError("a header must be one line")
    return f"{beginning}{lines}\n\n".replace("\n", "\r\n").encode()


@cache
def _limits(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    between = max(timeouts.first or 0, timeouts.between or 0)
    return aiohttp.ClientTimeout(connect=timeouts.total, sock_connect=timeouts.connect, sock_read=between)


def _narrow_socket(address: Any) -> socket.socket:
    """Open a socket that does not take megabytes of an answer whose client reads slowly."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _HELD)
    return opened


def _failure(problem: Exception, where: str) -> TransportError:
    kind: FailureKind = next((kind for base, kind in _KINDS if isinstance(problem, base)), "protocol")
    return TransportError(kind, f"{where}: {type(problem).__name__}")
