"""The gateway's connections to providers: asyncio's streams, httptools' parser, and one list of idle connections.

Rules of this file:
- No redirect is followed, nothing of the environment is used (proxies, passwords), and no cookie is stored.
- `toolwire.client.connections` decides if a connection may carry another request.
- A cancelled request closes its connection at once. Each failure is a TransportError, which contains no header.
- A body that a server compressed unasked is decompressed piece by piece, as its reader reads.
"""

import asyncio
import base64
import contextlib
import time
import zlib
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, cast
from urllib.parse import unquote

import httpcore2
import httptools
import httpx2
from msgspec import Struct

from toolwire.client.asyncio_connections import AsyncioBackend, AsyncioStream
from toolwire.client.connections import LATE
from toolwire.client.httpx import trusted
from toolwire.gateway.routes import UpstreamNetwork
from toolwire.wire.transport import (
    DEFAULT_PORTS,
    FailureKind,
    HttpRequest,
    Stop,
    Timeouts,
    TransportError,
    url_without_secrets,
)

_KINDS: tuple[tuple[type[Exception], FailureKind], ...] = (
    (httpcore2.TimeoutException, "timeout"),
    (TimeoutError, "timeout"),
    (httpcore2.ConnectError, "connect"),
    (httpcore2.ProxyError, "connect"),
    (httpcore2.NetworkError, "reset"),
)
_FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProxyError,
    httptools.HttpParserError,
    httpx2.InvalidURL,
    TimeoutError,
    ValueError,
    zlib.error,
)
_NOT_REPEATED = "POST"
_IDLE_SECONDS = 30.0
_MOST_IDLE = 1000
_HEAD_BYTES = 262_144
_PIECE = 65_536
_FIRST_FINAL, _GOOD = 200, 200
_COMPRESSED = {"gzip": 31, "x-gzip": 31, "deflate": 15}  # zlib's window bits for each encoding


class _Ended(httpcore2.NetworkError):
    """The server closed the connection before its answer was complete."""


class _Address(Struct, frozen=True):
    """A server, and the network settings to reach it. Connections with earlier settings are not reused."""

    scheme: str
    host: str
    port: int
    upstream_network: UpstreamNetwork

    @property
    def proxy(self) -> str:
        """The proxy in between; empty if there is none."""
        return "" if self.host in self.upstream_network.direct else self.upstream_network.proxy


class _Head(NamedTuple):
    """How a request to one URL begins: where it goes, its first line, the host that it names."""

    address: _Address
    target: str
    host: str
    authorization: str  # for the proxy


class _Response:
    """A response as httptools reads it: interim ones are passed over."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status: int = 0
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.is_complete = False
        self.keeps_connection = False  # whether the server takes another request on this connection
        self._read = 0

    def feed(self, data: bytes) -> None:
        """Read `data`, which never runs past the end of a response."""
        self._read += len(data)
        if not self.status and self._read > _HEAD_BYTES:
            raise ValueError(f"the head of the answer has more than {_HEAD_BYTES} bytes")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # to a protocol that nobody asked for: an answer without a body
            self.status, self.is_complete, self.keeps_connection = self._parser.get_status_code(), True, False

    def end(self) -> None:
        """Note that the server sends no more."""
        if not self.status or "content-length" in self.headers or "transfer-encoding" in self.headers:
            raise _Ended("the server closed the connection")
        self.is_complete = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header; httptools calls this. It reports trailers of a chunked body, too, which are ignored."""
        if not self.status:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Note the end of a head; httptools calls this."""
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL:
            self.status = status
        else:
            self.headers.clear()

    def on_body(self, data: bytes) -> None:
        """Note a piece of the body; httptools calls this."""
        self.body.append(data)

    def on_message_complete(self) -> None:
        """Note the end; httptools calls this."""
        self.is_complete = self.status > 0
        self.keeps_connection = self._parser.should_keep_alive()


class _UpstreamAnswer:
    """An answer of a provider: its head, and its body in pieces."""

    def __init__(self, uplink: "Uplink", address: _Address, stream: AsyncioStream, silence: float | None) -> None:
        self._uplink, self._address, self._stream, self._silence = uplink, address, stream, silence
        self._response = _Response()
        self._number = stream.exchanges.number
        self._is_over = False
        self._deadline: asyncio.TimerHandle | None = None
        self._decompressor: _Decompressor | None = None

    async def begin(self) -> None:
        """Read the head."""
        response = self._response
        while not response.status:
            await self._read()
        self.status: int = response.status
        self.headers: dict[str, str] = response.headers
        self._stream.exchanges.see_status(self.status)
        encoding = self.headers.get("content-encoding", "identity").lower()
        self._decompressor = None if encoding == "identity" else _Decompressor(encoding)

    def expire(self, when: float) -> None:
        """End the answer if it has not ended at `when`, by the clock of the event loop."""
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_at(when, self._stream.fail, httpcore2.ReadTimeout(LATE))

    async def _read(self) -> None:
        """Read what the server has sent; wait for it."""
        data = await self._stream.read(_PIECE, self._silence)
        if data:
            self._response.feed(data)
        else:
            self._response.end()

    async def aread(self) -> bytes:
        """Return the next piece; an empty one is the end."""
        try:
            piece = await self._decompressed() if self._decompressor is not None else await self._piece()
        except _FAILURES as problem:
            failure = _failure(problem, "the answer broke off")
        else:
            if not piece:
                self.close()
            return piece
        raise failure

    async def _piece(self) -> bytes:
        response = self._response
        while not response.body:
            if response.is_complete or self._is_over:
                return b""
            await self._read()
        pieces, response.body = response.body, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _decompressed(self) -> bytes:
        decompressor = cast("_Decompressor", self._decompressor)
        while not (data := decompressor.take()):
            if not (piece := await self._piece()):
                decompressor.end()
                return b""
            decompressor.add(piece)
        return data

    def close(self) -> None:
        """Keep the connection if all was written and read, else close it."""
        if self._is_over:
            return
        self._is_over = True
        if self._deadline is not None:
            self._deadline.cancel()
        response, stream = self._response, self._stream
        if response.is_complete and not response.body and response.keeps_connection and not stream.is_writing:
            stream.exchanges.end(self._number)
            self._uplink.keep(self._address, stream)
        else:
            stream.abort()

    async def afinish(self) -> None:
        """Keep the connection if all was read, else close it."""
        self.close()

    async def aclose(self) -> None:
        """Keep the connection if all was read, else close it."""
        self.close()


class _Decompressor:
    """A body that a server compressed unasked, at most 64 KiB at a time: a short one may hold gigabytes."""

    def __init__(self, encoding: str) -> None:
        if encoding not in _COMPRESSED:
            raise ValueError(f"the answer is encoded as {encoding[:40]!r}, which nobody asked for")
        self._reading = zlib.decompressobj(_COMPRESSED[encoding])
        self._waiting = b""

    def add(self, piece: bytes) -> None:
        """Add compressed bytes."""
        self._waiting += piece

    def take(self) -> bytes:
        """Return the next bytes; none if more have to be added first."""
        data = self._reading.decompress(self._waiting, _PIECE) if self._waiting else b""
        self._waiting = self._reading.unconsumed_tail
        return data

    def end(self) -> None:
        """Raise if the body is not complete."""
        if not self._reading.eof:
            raise _Ended("the compressed answer is not complete")


class _Idle(NamedTuple):
    """A connection that waits for its next request."""

    stream: AsyncioStream
    expires: float

    @property
    def is_over(self) -> bool:
        """True if the connection carries no other request."""
        return time.monotonic() >= self.expires or self.stream.get_extra_info("is_readable")


class Uplink:
    """Connections to providers, kept for the next request."""

    def __init__(self, upstream_network: UpstreamNetwork = UpstreamNetwork()) -> None:  # noqa: B008 - frozen
        self.upstream_network: UpstreamNetwork = upstream_network
        self._idle: dict[_Address, deque[_Idle]] = {}  # the longest idle first
        self._backend = AsyncioBackend()
        self._sweep: asyncio.TimerHandle | None = None

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> _UpstreamAnswer:  # noqa: ARG002 - a task is cancelled instead
        """Send a request, and return the head of the answer."""
        began = asyncio.get_running_loop().time()
        until = None if (seconds := _for_the_head(timeouts)) is None else began + seconds
        try:
            answer = await self._send(request, timeouts, until)
        except TransportError as problem:
            # What changes nothing is sent again: an idle connection may have ended in the moment that it was used.
            if request.method == _NOT_REPEATED or problem.kind != "reset":
                raise
            answer = await self._send(request, timeouts, until)
        if timeouts.total is not None:
            answer.expire(began + timeouts.total)
        return answer

    async def _send(self, request: HttpRequest, timeouts: Timeouts, until: float | None) -> _UpstreamAnswer:
        stream: AsyncioStream | None = None
        try:
            async with asyncio.timeout_at(until):
                head = _head(request.url, self.upstream_network)
                written = _written(head, request)
                stream = self._rested(head.address) or await self._connect(head, timeouts.connect)
                await stream.write(written)
                await stream.write(request.body)
                silence = max(timeouts.first or 0, timeouts.between or 0) or None
                answer = _UpstreamAnswer(self, head.address, stream, silence)
                await answer.begin()
                return answer
        except _FAILURES as problem:
            failure = _failure(problem, f"{request.method} {url_without_secrets(request.url)}")
            failure.sent = stream is not None
        except BaseException:
            if stream is not None:
                stream.abort()
            raise
        if stream is not None:
            stream.abort()
        raise failure

    def _rested(self, address: _Address) -> AsyncioStream | None:
        """Return an idle connection that may be used again."""
        idle = self._idle.get(address)
        if idle is None:
            return None
        _close_those_over(idle)
        return idle.popleft().stream if idle and idle[0].stream.exchanges.may_follow else None

    def keep(self, address: _Address, stream: AsyncioStream) -> None:
        """Keep a connection whose answer was read to its end; close it if it is not fit for another."""
        kept = _Idle(stream, time.monotonic() + _IDLE_SECONDS)
        idle = self._idle.setdefault(address, deque())
        if kept.is_over or len(idle) >= _MOST_IDLE:
            stream.abort()
            return
        idle.append(kept)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._close_unused)

    def _close_unused(self) -> None:
        """Close connections that nobody has used for a while, and look again later."""
        for address, idle in list(self._idle.items()):
            _close_those_over(idle)
            if not idle:
                del self._idle[address]
        again = bool(self._idle)
        self._sweep = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._close_unused) if again else None

    async def _connect(self, head: _Head, seconds: float | None) -> AsyncioStream:
        """Open a connection, through the proxy if there is one."""
        address = head.address
        proxy = httpx2.URL(address.proxy) if address.proxy else None
        first_hop = (
            (proxy.host, proxy.port or DEFAULT_PORTS[proxy.scheme])
            if proxy is not None
            else (address.host, address.port)
        )
        stream = cast("AsyncioStream", await self._backend.connect_tcp(*first_hop, seconds))
        try:
            if proxy is not None and proxy.scheme == "https":
                stream = await _encrypted(stream, proxy.host, address, seconds)
            if address.scheme == "https":
                if proxy is not None:
                    await _open_tunnel(stream, head)
                stream = await _encrypted(stream, address.host, address, seconds)
        except BaseException:
            stream.abort()
            raise
        return stream

    async def aclose(self) -> None:
        """Close all connections."""
        if self._sweep is not None:
            self._sweep.cancel()
        for idle in self._idle.values():
            while idle:
                idle.popleft().stream.abort()
        await asyncio.sleep(0)


async def _encrypted(stream: AsyncioStream, host: str, address: _Address, seconds: float | None) -> AsyncioStream:
    context = trusted() if address.upstream_network.trusted is None else address.upstream_network.trusted
    return cast("AsyncioStream", await stream.start_tls(context, host, seconds))


async def _open_tunnel(stream: AsyncioStream, head: _Head) -> None:
    """Ask the proxy to connect to the server (RFC 9110, section 9.3.6)."""
    name = f"[{head.address.host}]" if ":" in head.address.host else head.address.host
    authority = f"{name}:{head.address.port}"
    lines = {"host": authority, **({"proxy-authorization": head.authorization} if head.authorization else {})}
    await stream.write(_lines(f"CONNECT {authority} HTTP/1.1", lines))
    status = await _status_of_tunnel(stream)
    if status // 100 != _GOOD // 100:
        raise httpcore2.ProxyError(f"the proxy answered {status}")


async def _status_of_tunnel(stream: AsyncioStream) -> int:
    """Read a proxy's answer to CONNECT; its head is all of it."""
    response = _Response()
    while not response.status:
        data = await stream.read(_PIECE)
        if not data:
            raise httpcore2.ProxyError("the proxy closed the connection")
        with contextlib.suppress(ValueError):  # httptools takes what follows for another protocol, as it is
            response.feed(data)
    return response.status


def _close_those_over(idle: deque[_Idle]) -> None:
    while idle and idle[0].is_over:
        idle.popleft().stream.abort()


def _for_the_head(timeouts: Timeouts) -> float | None:
    """Return the seconds until an answer has begun."""
    until_head = None if timeouts.first is None else timeouts.first + (timeouts.connect or 0.0)
    return min((seconds for seconds in (timeouts.total, until_head) if seconds is not None), default=None)


@lru_cache(256)
def _head(url: str, upstream_network: UpstreamNetwork) -> _Head:
    """Read a URL: where a request to it goes, and how it begins."""
    if not url.isprintable() or " " in url:
        raise ValueError("an address must have no spaces")
    read = httpx2.URL(url)
    if read.scheme not in DEFAULT_PORTS:
        raise ValueError("an address must begin with http:// or https://")
    host, named = read.raw_host.decode("ascii"), read.netloc.decode("ascii")
    address = _Address(read.scheme, host, read.port or DEFAULT_PORTS[read.scheme], upstream_network)
    target, authorization = read.raw_path.decode("ascii"), _authorization(address.proxy)
    if address.proxy and read.scheme == "http":
        return _Head(address, f"http://{named}{target}", named, authorization)
    return _Head(address, target, named, authorization)


def _authorization(proxy: str) -> str:
    """Return the header with the password of the proxy's URL."""
    login = httpx2.URL(proxy).userinfo if proxy else b""
    user, _, password = login.decode().partition(":")
    return f"Basic {base64.b64encode(f'{unquote(user)}:{unquote(password)}'.encode()).decode()}" if login else ""


def _written(head: _Head, request: HttpRequest) -> bytes:
    """Write the head of a request; the names of its headers are in small letters."""
    headers = {"host": head.host, **request.headers, "accept-encoding": "identity"}
    headers["content-length"] = str(len(request.body))
    if head.authorization and head.address.scheme == "http":
        headers["proxy-authorization"] = head.authorization
    return _lines(f"{request.method} {head.target} HTTP/1.1", headers)


def _lines(first: str, headers: Mapping[str, str]) -> bytes:
    lines = "\n".join([first, *[f"{name}: {value}" for name, value in headers.items()]])
    if "\r" in lines or "\0" in lines or lines.count("\n") != len(headers):
        raise ValueError("a header must be one line")
    return f"{lines}\n\n".replace("\n", "\r\n").encode()


def _failure(problem: Exception, where: str) -> TransportError:
    kind: FailureKind = next((kind for base, kind in _KINDS if isinstance(problem, base)), "protocol")
    return TransportError(kind, f"{where}: {type(problem).__name__.removeprefix('_')}")
