"""The gateway's way up to providers: aiohttp behind the transport of the clients.

Rules of this file:
- No redirect is followed, no proxy or password of this machine is used but what the settings say, no cookie is kept.
- What is cancelled closes its connection at once. What goes wrong is a TransportError, which holds no header.
"""

import asyncio
import socket
from functools import cache
from typing import Any

import aiohttp
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
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
_PIECE = 65_536
_HELD = 262_144


class _UpstreamAnswer:
    """An answer of a provider: its head, and its body in pieces."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.headers.items()}
        self._answer = answer

    async def aread(self) -> bytes:
        """Give the next piece; an empty one is the end."""
        try:
            return await self._answer.content.readany()
        except _FAILURES as problem:
            failure = _failure(problem, "the answer broke off")
        raise failure

    async def afinish(self) -> None:
        """Give the connection back."""
        self._answer.release()

    async def aclose(self) -> None:
        """Let go of the connection: it is given back if all was read, else closed."""
        self._answer.close()


class Uplink:
    """Connections to providers, kept for the next request."""

    def __init__(self, upward: Upward = Upward()) -> None:  # noqa: B008 - frozen
        self.upward: Upward = upward
        self._session: aiohttp.ClientSession | None = None

    async def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, socket_factory=_narrow_socket)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_PIECE,
                max_line_size=_PIECE,
                max_field_size=_PIECE,
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> _UpstreamAnswer:  # noqa: ARG002 - a task is cancelled instead
        """Send a request, and give the head of the answer."""
        session = await self._open()
        url, way = URL(request.url, encoded=True), self.upward
        more: dict[str, Any] = {} if way.trusted is None else {"ssl": way.trusted}
        if way.proxy and url.host not in way.direct:
            more["proxy"] = way.proxy
        try:
            answer = await session.request(
                request.method,
                url,
                headers={**request.headers, "accept-encoding": "identity"},
                data=request.body,
                allow_redirects=False,
                timeout=_limits(timeouts),
                **more,
            )
            return _UpstreamAnswer(answer)
        except (*_FAILURES, ValueError) as problem:
            failure = _failure(problem, f"{request.method} {url_without_secrets(request.url)}")
        raise failure

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)


@cache
def _limits(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    between = max(timeouts.first or 0, timeouts.between or 0)
    return aiohttp.ClientTimeout(total=timeouts.total, sock_connect=timeouts.connect, sock_read=between)


def _narrow_socket(address: Any) -> socket.socket:
    """Open a socket that does not take megabytes of an answer whose client reads slowly."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _HELD)
    return opened


def _failure(problem: Exception, where: str) -> TransportError:
    kind: FailureKind = next((kind for base, kind in _KINDS if isinstance(problem, base)), "protocol")
    return TransportError(kind, f"{where}: {type(problem).__name__}")
