"""Fetching over HTTP, so that nothing is connected to but the address that was checked.

Rules of this file:
- A name is looked up once for each hop, by the system. All of its addresses have to be allowed; those are
  connected to, by number, and the other end has to be the one that was dialled. TLS and `Host` go by the name.
- A connection serves one request. No proxy, cookie or password is used, whatever the environment says.
- Redirects are followed here, and each is a new address to check. Another scheme, host or port gets only the
  headers that say nothing of the sender.
- A connection carries no more bytes than were allowed. Of a body no more than the limit is ever unpacked; gzip
  is the one coding, used once, and whole.
- Whoever calls sets the deadline of all of it; when the call ends, in whatever way, the connection is closed.
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

from toolwire.codetools.addresses import AddressRefused, FetchRules, FetchTarget, number_of, target_of, why_refused
from toolwire.codetools.definitions import REDIRECTS
from toolwire.codetools.spelling import shown
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
OWN: _Headers = {"accept-encoding": "gzip, identity", "connection": "close"}
_FRAMING = frozenset(
    "host connection content-length transfer-encoding accept-encoding te trailer upgrade expect "
    "keep-alive http2-settings".split()
)
_TRAVELLING = frozenset("accept accept-language cache-control range user-agent".split()) | OWN.keys()
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")


def headers_of(wanted: Mapping[str, Any] | None) -> _Headers:
    """Read the headers that the model gave, with those that are always sent; names are in small letters.

    What frames the request is the client's: a header that could change it is refused.
    """
    wanted = wanted or {}
    if len(wanted) > _MAX_HEADERS or sum(len(name) + len(str(wanted[name])) for name in wanted) > _HEADER_CHARACTERS:
        raise ToolError(f"headers: {_MAX_HEADERS} of {_HEADER_CHARACTERS} characters in all are the most")
    read: _Headers = {}
    for name, value in wanted.items():
        low = name.lower()
        if not _NAME.fullmatch(name) or not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise ToolError(f"headers: {shown(name[:80])} is not a header of printable ASCII characters on one line")
        if low in _FRAMING or low.startswith("proxy-"):
            raise ToolError(f"headers: {name} is set by the tool itself; leave it out")
        if low in read:
            raise ToolError(f"headers: {name} is given twice")
        read[low] = value
    return _STANDARD | read | OWN


class Network:
    """The network as it is: names are looked up by the system, and connections are made by TCP."""

    async def resolve(self, host: str) -> list[str]:
        """Look up the addresses of a name, in the order in which to try them.

        It happens in a thread: an answer that never comes is waited for by nobody.
        """
        answers = await in_thread(lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
        return list(dict.fromkeys(str(answer[4][0]) for answer in answers))

    async def connect(self, address: str, port: int) -> httpcore2.AsyncNetworkStream:
        """Connect to an address, and to nothing else."""
        stream = await httpcore2.AnyIOBackend().connect_tcp(address, port, timeout=CONNECT_SECONDS)
        other = stream.get_extra_info("server_addr")
        if other is None or ip_address(other[0].partition("%")[0]) != ip_address(address):
            await stream.aclose()
            raise httpcore2.ConnectError("the connection leads elsewhere")
        return stream

    def trust(self) -> ssl.SSLContext:
        """Give the certificates that are trusted: those of the system."""
        return system_trust()


@functools.cache
def system_trust() -> ssl.SSLContext:
    """Load the certificates of the system, once, whatever the environment says."""
    return create_ssl_context(trust_env=False)


class Fetched(Struct, frozen=True):
    """What a server sent; `body` is None if it was not read, and `cut` says that more was to come."""

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
    wanted: Callable[[_Headers], bool] = lambda _headers: True,
    network: Network | None = None,
) -> Fetched:
    """GET an address, and follow where it leads; `wanted` says whether a body is worth reading."""
    network, target = network or Network(), target_of(url, rules)
    visited: set[str] = set()
    dropped: tuple[str, ...] = ()
    while True:
        visited.add(str(target.url))
        addresses = await _addresses(target, rules, network)
        try:
            stream = await _connected(target, addresses, network)
            try:
                answer = await _asked(target, headers, stream, limit, wanted)
            finally:
                await stream.aclose()
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as problem:
            raise ToolError(f"cannot connect to {target.host}, port {target.port}: {_reason(problem)}") from None
        except httpcore2.ProtocolError as problem:
            raise ToolError(f"{target.host} does not answer in proper HTTP: {_reason(problem)}") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException, OSError) as problem:
            raise ToolError(f"the connection to {target.host} broke off: {_reason(problem)}") from None
        if answer.status not in _REDIRECTING:
            return replace(answer, dropped=dropped)
        before, target = target, _next(target, answer.headers.get("location"), rules)
        if str(target.url) in visited:
            raise ToolError(f"the redirects of {shown(url)} go around in a circle")
        if len(visited) > REDIRECTS:
            raise ToolError(f"{shown(url)} is redirected more than {REDIRECTS} times")
        if target.origin != before.origin:
            dropped += tuple(name for name in headers if name not in _TRAVELLING)
            headers = {name: value for name, value in headers.items() if name in _TRAVELLING}


def _next(target: FetchTarget, location: str | None, rules: FetchRules) -> FetchTarget:
    if not location:
        raise ToolError(f"{target.host} answered with a redirect that leads nowhere")
    try:
        return target_of(location, rules, base=target.url)
    except AddressRefused as problem:
        raise AddressRefused(f"{target.host} redirects to an address that is refused: {problem}") from None


async def _addresses(target: FetchTarget, rules: FetchRules, network: Network) -> list[str]:
    """Look up a host; one address that is refused refuses it."""
    host = target.host
    try:
        is_number = ":" in host or number_of(host) is not None
        addresses = [host] if is_number else await network.resolve(host)
    except (OSError, UnicodeError):
        addresses = []
    except TooManyThreads:
        raise ToolError("too many look-ups of names hang: try again later") from None
    for address in addresses:
        kind = why_refused(address, allow_private=rules.allow_private)
        if kind is not None:
            leads = "it is" if address == host else "it leads to"
            raise AddressRefused(
                f"{host} is refused: {leads} {kind}. Only addresses of the public internet are fetched"
            )
    if not addresses:
        raise ToolError(f"{host} is not found: no address is known for that name")
    return addresses[:_MAX_DIALLED]


async def _connected(target: FetchTarget, addresses: list[str], network: Network) -> "_Metered":
    """Connect to the first of the checked addresses that answers."""
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


async def _asked(
    target: FetchTarget, headers: _Headers, stream: "_Metered", limit: int, wanted: Callable[[_Headers], bool]
) -> Fetched:
    """Send a request on a connection of its own, and read the answer."""
    url = httpcore2.URL(
        scheme=target.url.raw_scheme, host=target.url.raw_host, port=target.url.port, target=target.url.raw_path
    )
    sent = [(b"host", target.url.netloc), *((name.encode(), value.encode()) for name, value in headers.items())]
    connection = httpcore2.AsyncHTTP11Connection(url.origin, stream)
    async with connection.stream("GET", url, headers=sent) as response:
        answered = _read_headers(response.headers)
        if response.status < 200:
            raise ToolError(f"{target.host} wants to change the protocol, which is not supported")
        if response.status in _REDIRECTING or not wanted(answered):
            return Fetched(response.status, target, answered, None)
        stream.left += _WIRE_FACTOR * limit + _HEAD_BYTES
        body = Unpacking(answered.get("content-encoding", ""), limit)
        async with aclosing(response.aiter_stream()) as pieces:
            async for piece in pieces:
                body.feed(piece)
                if body.cut:
                    break
        body.finish()
    return Fetched(response.status, target, answered, body.data, body.cut)


def _read_headers(pairs: Iterable[tuple[bytes, bytes]]) -> _Headers:
    """Read the headers; of one that is there several times, all values, as a list."""
    read: _Headers = {}
    for name, value in pairs:
        low = name.decode("latin-1").lower()
        text = value.decode("utf-8", "replace").strip()
        read[low] = text if low not in read else f"{read[low]}, {text}"
    return read


def _reason(problem: BaseException) -> str:
    """Say what happened, from the first that knew."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    if isinstance(problem, TimeoutError | httpcore2.TimeoutException):
        return "there is no answer"
    text = str(problem)
    if isinstance(problem, ssl.SSLError):
        text = getattr(problem, "verify_message", "") or problem.reason or text
    elif isinstance(problem, OSError) and problem.errno is not None and problem.errno > 0:
        text = os.strerror(problem.errno)
    return shown(text[:200]) or type(problem).__name__


class _Metered(httpcore2.AsyncNetworkStream):
    """A connection on which no more bytes come than were allowed."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self.stream, self.left = stream, _HEAD_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - of the client
        data = await self.stream.read(min(max_bytes, _PIECE_BYTES), timeout)
        self.left -= len(data)
        if self.left < 0:
            raise ToolError("the server sends too much besides its content")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self.stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self.stream.aclose()


class Unpacking:
    """The first bytes of a body, at most `limit`, unpacked as they come; `cut` says that there are more.

    However little comes, no more than a piece of it is unpacked at a time. What ends too early is an error, and
    so is what follows a packed body and is none.
    """

    def __init__(self, coding: str, limit: int) -> None:
        packed = _CODINGS.get(coding.strip().lower())
        if packed is None:
            raise ToolError(f"the content is packed as {shown(coding[:80])}, which is not read: only gzip is")
        self.packed: bool = packed
        self.limit: int = limit
        self.data: bytearray = bytearray()
        self.cut: bool = False
        self.member: Any = None
        self.members: int = 0

    def feed(self, piece: bytes) -> None:
        """Take what came."""
        if self.packed:
            self._unpack(piece)
        else:
            self._add(piece)

    def _add(self, piece: bytes) -> None:
        left = self.limit - len(self.data)
        self.cut = self.cut or len(piece) > left
        self.data += piece[:left] if len(piece) > left else piece

    def _unpack(self, piece: bytes) -> None:
        while piece and not self.cut:
            if self.member is None:
                piece = piece.lstrip(b"\0") if self.members else piece  # zeros may stand between two parts
                if not piece:
                    return
                self.member = zlib.decompressobj(_GZIP)
                self.members += 1
                if self.members > _MAX_MEMBERS:
                    raise ToolError(f"the content is packed in more than {_MAX_MEMBERS} parts, which is not read")
            try:
                self._add(self.member.decompress(piece, _PIECE_BYTES))
            except zlib.error:
                raise ToolError("the content is not proper gzip, so it was not read") from None
            piece = self.member.unused_data if self.member.eof else self.member.unconsumed_tail
            if self.member.eof:
                self.member = None

    def finish(self) -> None:
        """Say that nothing more comes."""
        if self.member is not None and not self.cut:
            raise ToolError("the content ends too early: the gzip is not whole, so it was not read")
