"""Fetch over HTTP, so that a connection is made only to an address that was checked.

Rules of this file:
- The system resolves a name once for each hop. All of its addresses must be allowed. The connection is made to one of
  them by number, and the peer must have the dialled address. TLS and `Host` use the name.
- A connection serves one request. No proxy, cookie or password is used, whatever the environment contains.
- Redirects are followed here, and each target is checked like a new URL. If the scheme, host or port changes, only
  headers that reveal nothing about the sender are sent on.
- A connection reads no more bytes than were allowed. A body is never unpacked beyond the limit. gzip is the only
  coding, it is used once, and it must be complete.
- The caller sets a deadline for all of it. However the call ends, the connection is closed.
"""

import functools
import os
import re
import socket
import ssl
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from ipaddress import ip_address
from typing import Any

import httpcore2
from httpx2 import create_ssl_context
from msgspec import Struct
from msgspec.structs import replace

from toolwire.codetools.addresses import (
    AddressRefused,
    FetchRules,
    FetchTarget,
    parse_number,
    parse_target,
    refusal_reason,
)
from toolwire.codetools.definitions import REDIRECTS
from toolwire.codetools.spelling import escape_name
from toolwire.errors import ToolError
from toolwire.waiting.threads import TooManyThreads, in_thread

_MAX_DIALLED = 4
CONNECT_SECONDS = 5
_HEAD_BYTES = 256 * 1024
_PIECE_BYTES = 64 * 1024
_WIRE_FACTOR = 8
_MAX_MEMBERS = 1000
_REDIRECTING = frozenset({301, 302, 303, 307, 308})
_GZIP = zlib.MAX_WBITS | 16
_CODINGS = {"": False, "identity": False, "gzip": True, "x-gzip": True}

_Headers = dict[str, str]
_MAX_HEADERS = 50
_HEADER_CHARACTERS = 16_000
_STANDARD: _Headers = {
    "user-agent": "toolwire",
    "accept": "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
}
_OWN_HEADERS: _Headers = {"accept-encoding": "gzip, identity", "connection": "close"}
_FRAMING = frozenset(
    "host connection content-length transfer-encoding accept-encoding te trailer upgrade expect "
    "keep-alive http2-settings".split()
)
_SENT_ON = frozenset("accept accept-language cache-control range user-agent".split()) | _OWN_HEADERS.keys()
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")


def build_headers(requested: Mapping[str, Any] | None) -> _Headers:
    """Return the model's headers and those that are always sent, with names in lower case.

    Raise `ToolError` for a header that could change the framing of the request, which the client controls.
    """
    requested = requested or {}
    if (
        len(requested) > _MAX_HEADERS
        or sum(len(name) + len(str(requested[name])) for name in requested) > _HEADER_CHARACTERS
    ):
        raise ToolError(
            f"headers: at most {_MAX_HEADERS} headers of {_HEADER_CHARACTERS} characters together can be sent"
        )
    headers: _Headers = {}
    for name, value in requested.items():
        lower_name = name.lower()
        if not _NAME.fullmatch(name) or not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise ToolError(
                f"headers: {escape_name(name[:80])} is not a header of printable ASCII characters on one line"
            )
        if lower_name in _FRAMING or lower_name.startswith("proxy-"):
            raise ToolError(f"headers: {name} is set by the tool itself; leave it out")
        if lower_name in headers:
            raise ToolError(f"headers: {name} is given twice")
        headers[lower_name] = value
    return _STANDARD | headers | _OWN_HEADERS


class Network:
    """The real network: the system resolves names, and connections use TCP."""

    async def resolve(self, host: str) -> list[str]:
        """Return the addresses of a name, in the order in which to try them.

        The look-up runs in a thread: if it hangs, the event loop does not wait for it.
        """
        answers = await in_thread(lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
        return list(dict.fromkeys(str(answer[4][0]) for answer in answers))

    async def connect(self, address: str, port: int) -> httpcore2.AsyncNetworkStream:
        """Connect to `address`; raise `ConnectError` if the peer has another one."""
        stream = await httpcore2.AnyIOBackend().connect_tcp(address, port, timeout=CONNECT_SECONDS)
        peer = stream.get_extra_info("server_addr")
        if peer is None or ip_address(peer[0].partition("%")[0]) != ip_address(address):
            await stream.aclose()
            raise httpcore2.ConnectError("the connection has another peer than the dialled address")
        return stream

    def trust(self) -> ssl.SSLContext:
        """Return the trusted certificates: those of the system."""
        return system_trust()


@functools.cache
def system_trust() -> ssl.SSLContext:
    """Load the system's certificates once, whatever the environment contains."""
    return create_ssl_context(trust_env=False)


class Fetched(Struct, frozen=True):
    """A server's response. `body` is None if it was not read; `cut` is True if it has more than was read."""

    status: int
    target: FetchTarget
    headers: _Headers
    body: bytes | bytearray | None
    cut: bool = False
    dropped: tuple[str, ...] = ()


async def fetch(
    url: str,
    headers: _Headers,
    rules: FetchRules,
    limit: int,
    *,
    wants_body: Callable[[_Headers], bool] = lambda _headers: True,
    network: Network | None = None,
) -> Fetched:
    """GET a URL and follow its redirects; `wants_body` returns True if the body should be read.

    Raise `ToolError` if a URL or an address is refused, or if the exchange fails.
    """
    network, target = network or Network(), parse_target(url, rules)
    visited: set[str] = set()
    dropped: tuple[str, ...] = ()
    while True:
        visited.add(str(target.url))
        addresses = await _resolve_allowed(target, rules, network)
        try:
            stream = await _connect(target, addresses, network)
            try:
                fetched = await _request(target, headers, stream, limit, wants_body)
            finally:
                await stream.aclose()
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as problem:
            raise ToolError(f"cannot connect to {target.host}, port {target.port}: {_reason(problem)}") from None
        except httpcore2.ProtocolError as problem:
            raise ToolError(f"{target.host} does not answer in proper HTTP: {_reason(problem)}") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException, OSError) as problem:
            raise ToolError(f"the connection to {target.host} broke off: {_reason(problem)}") from None
        if fetched.status not in _REDIRECTING:
            return replace(fetched, dropped=dropped)
        previous, target = target, _next_target(target, fetched.headers.get("location"), rules)
        if str(target.url) in visited:
            raise ToolError(f"the redirects of {escape_name(url)} form a loop")
        if len(visited) > REDIRECTS:
            raise ToolError(f"{escape_name(url)} is redirected more than {REDIRECTS} times")
        if target.origin != previous.origin:
            dropped += tuple(name for name in headers if name not in _SENT_ON)
            headers = {name: value for name, value in headers.items() if name in _SENT_ON}


def _next_target(target: FetchTarget, location: str | None, rules: FetchRules) -> FetchTarget:
    if not location:
        raise ToolError(f"{target.host} answered with a redirect that has no location")
    try:
        return parse_target(location, rules, base=target.url)
    except AddressRefused as problem:
        raise AddressRefused(f"{target.host} redirects to an address that is refused: {problem}") from None


async def _resolve_allowed(target: FetchTarget, rules: FetchRules, network: Network) -> list[str]:
    """Return the addresses of a host; raise `AddressRefused` if one of them is not allowed."""
    host = target.host
    try:
        is_number = ":" in host or parse_number(host) is not None
        addresses = [host] if is_number else await network.resolve(host)
    except (OSError, UnicodeError):
        addresses = []
    except TooManyThreads:
        raise ToolError("too many name look-ups are hanging: try again later") from None
    for address in addresses:
        refusal = refusal_reason(address, allow_private=rules.allow_private)
        if refusal is not None:
            verb = "it is" if address == host else "it leads to"
            raise AddressRefused(
                f"{host} is refused: {verb} {refusal}. Only addresses of the public internet are fetched"
            )
    if not addresses:
        raise ToolError(f"{host} is not found: no address is known for that name")
    return addresses[:_MAX_DIALLED]


async def _connect(target: FetchTarget, addresses: list[str], network: Network) -> "_Metered":
    """Connect to the first of the checked addresses that accepts a connection."""
    failure: Exception = httpcore2.ConnectError("there is no address")
    for address in addresses:
        try:
            stream = await network.connect(address, target.port)
            break
        except (httpcore2.NetworkError, httpcore2.TimeoutException, OSError) as problem:
            failure = problem
    else:
        raise failure
    if target.url.scheme == "http":
        return _Metered(stream)
    try:
        trust = network.trust()
        trust.set_alpn_protocols(["http/1.1"])
        return _Metered(await stream.start_tls(trust, target.host))
    except BaseException:
        await stream.aclose()
        raise


async def _request(
    target: FetchTarget, headers: _Headers, stream: "_Metered", limit: int, wants_body: Callable[[_Headers], bool]
) -> Fetched:
    """Send a request on a connection of its own, and read the response."""
    url = httpcore2.URL(
        scheme=target.url.raw_scheme, host=target.url.raw_host, port=target.url.port, target=target.url.raw_path
    )
    sent = [(b"host", target.url.netloc), *((name.encode(), value.encode()) for name, value in headers.items())]
    connection = httpcore2.AsyncHTTP11Connection(url.origin, stream)
    async with connection.stream("GET", url, headers=sent) as response:
        response_headers = _read_headers(response.headers)
        if response.status < 200:
            raise ToolError(f"{target.host} asks to change the protocol, which is not supported")
        if response.status in _REDIRECTING or not wants_body(response_headers):
            return Fetched(response.status, target, response_headers, None)
        stream.allowance += _WIRE_FACTOR * limit + _HEAD_BYTES
        unpacking = Unpacking(response_headers.get("content-encoding", ""), limit)
        async with aclosing(response.aiter_stream()) as pieces:
            async for piece in pieces:
                unpacking.feed(piece)
                if unpacking.cut:
                    break
        unpacking.finish()
    return Fetched(response.status, target, response_headers, unpacking.data, unpacking.cut)


def _read_headers(pairs: Iterable[tuple[bytes, bytes]]) -> _Headers:
    """Return the headers; the values of a repeated header are joined with commas."""
    headers: _Headers = {}
    for name, value in pairs:
        lower_name = name.decode("latin-1").lower()
        text = value.decode("utf-8", "replace").strip()
        headers[lower_name] = text if lower_name not in headers else f"{headers[lower_name]}, {text}"
    return headers


def _reason(error: BaseException) -> str:
    """Return the message of the innermost cause of `error`."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, TimeoutError | httpcore2.TimeoutException):
        return "no response in time"
    text = str(error)
    if isinstance(error, ssl.SSLError):
        text = getattr(error, "verify_message", "") or error.reason or text
    elif isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        text = os.strerror(error.errno)
    return escape_name(text[:200]) or type(error).__name__


class _Metered(httpcore2.AsyncNetworkStream):
    """A connection that reads no more bytes than were allowed."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self.stream, self.allowance = stream, _HEAD_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        data = await self.stream.read(min(max_bytes, _PIECE_BYTES), timeout)
        self.allowance -= len(data)
        if self.allowance < 0:
            raise ToolError("the server sends too much data besides its content")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self.stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self.stream.aclose()


class Unpacking:
    """The first bytes of a body, at most `limit`, unpacked while they arrive; `cut` is True if there are more.

    At most one block is unpacked at a time, however small the packed data is. Incomplete gzip is an error, and so is
    other data after it.
    """

    def __init__(self, coding: str, limit: int) -> None:
        packed = _CODINGS.get(coding.strip().lower())
        if packed is None:
            raise ToolError(f"the content is packed as {escape_name(coding[:80])}: only gzip can be read")
        self.packed: bool = packed
        self.limit: int = limit
        self.data: bytearray = bytearray()
        self.cut: bool = False
        self.member: Any = None
        self.members: int = 0

    def feed(self, piece: bytes) -> None:
        """Unpack the next bytes of the body."""
        if self.packed:
            self._unpack(piece)
        else:
            self._add(piece)

    def _add(self, piece: bytes) -> None:
        room = self.limit - len(self.data)
        self.cut = self.cut or len(piece) > room
        self.data += piece[:room] if len(piece) > room else piece

    def _unpack(self, piece: bytes) -> None:
        while piece and not self.cut:
            if self.member is None:
                piece = piece.lstrip(b"\0") if self.members else piece  # gzip allows zeros between two members
                if not piece:
                    return
                self.member = zlib.decompressobj(_GZIP)
                self.members += 1
                if self.members > _MAX_MEMBERS:
                    raise ToolError(f"the content is packed in more than {_MAX_MEMBERS} parts, so it was not read")
            try:
                self._add(self.member.decompress(piece, _PIECE_BYTES))
            except zlib.error:
                raise ToolError("the content is not proper gzip, so it was not read") from None
            piece = self.member.unused_data if self.member.eof else self.member.unconsumed_tail
            if self.member.eof:
                self.member = None

    def finish(self) -> None:
        """End the body; raise `ToolError` if it is incomplete."""
        if self.member is not None and not self.cut:
            raise ToolError("the content ends too early: its gzip is incomplete, so it was not read")
