"""Fetching over HTTP, so that nothing is connected to but the address that was checked.

Rules of this file:
- A name is looked up once for each hop. All of its addresses have to be allowed; those are connected to, by
  number, and the other end has to be the one that was dialled. TLS and `Host` go by the name.
- A connection serves one request. No proxy, cookie or password is used, whatever the environment says.
- Redirects are followed here, and each is a new address to check.
- Of a body no more than the limit is ever unpacked; gzip is the one coding, used once, and whole.
- Whoever calls sets the deadline of all of it; when the call ends, in whatever way, the connection is closed.
"""

import os
import ssl
from collections.abc import Callable, Iterable
from contextlib import aclosing

from httpcore2 import (
    URL,
    AsyncHTTPConnection,
    ConnectError,
    ConnectTimeout,
    NetworkError,
    ProtocolError,
    TimeoutException,
)
from msgspec import Struct

from toolwire.codetools.addresses import (
    AddressRefused,
    FetchRules,
    FetchTarget,
    number_of,
    target_of,
    why_refused,
)
from toolwire.codetools.definitions import REDIRECTS
from toolwire.codetools.dialling import HEAD_BYTES, Dialler, Network
from toolwire.codetools.outbound import Headers, travelling
from toolwire.codetools.spelling import shown
from toolwire.codetools.unpacking import Unpacking
from toolwire.errors import ToolError
from toolwire.work.threads import TooManyThreads

MAX_DIALLED = 4
WIRE_FACTOR = 8
REDIRECTING = frozenset({301, 302, 303, 307, 308})


class Fetched(Struct, frozen=True):
    """What a server sent; `body` is None if it was not read, and `cut` says that more was to come."""

    status: int
    target: FetchTarget
    headers: dict[str, str]
    body: bytes | bytearray | None
    cut: bool
    dropped: tuple[str, ...]


async def fetch(
    given: str,
    headers: Headers,
    rules: FetchRules,
    limit: int,
    *,
    wanted: Callable[[int, dict[str, str]], bool] = lambda _status, _headers: True,
    network: Network | None = None,
) -> Fetched:
    """GET an address, and follow where it leads; `wanted` says whether a body is worth reading."""
    network, target = network or Network(), target_of(given, rules)
    visited: set[str] = set()
    dropped: tuple[str, ...] = ()
    while True:
        visited.add(str(target.url))
        hop = _Hop(target, headers, limit, wanted)
        found = await hop.run(await _addresses(target, rules, network), network)
        if found.status not in REDIRECTING:
            return Fetched(found.status, target, found.headers, found.body, found.cut, dropped)
        before, target = target, _next(target, found.headers.get("location"), rules)
        if str(target.url) in visited:
            raise ToolError(f"the redirects of {shown(given)} go around in a circle")
        if len(visited) > REDIRECTS:
            raise ToolError(f"{shown(given)} is redirected more than {REDIRECTS} times")
        if target.origin != before.origin:
            kept = travelling(headers)
            dropped += tuple(name for name in headers if name not in kept)
            headers = kept


def _next(target: FetchTarget, location: str | None, rules: FetchRules) -> FetchTarget:
    if not location:
        raise ToolError(f"{target.host} answered with a redirect that leads nowhere")
    try:
        return target_of(location, rules, base=target.url)
    except AddressRefused as problem:
        raise AddressRefused(f"{target.host} redirects to what is not fetched: {problem}") from None


async def _addresses(target: FetchTarget, rules: FetchRules, network: Network) -> list[str]:
    """Look up a host; one address that is refused refuses it."""
    if ":" in target.host or number_of(target.host) is not None:
        found = [target.host]
    else:
        try:
            found = await network.resolve(target.host)
        except (OSError, UnicodeError):
            raise ToolError(f"{target.host} is not found: no address is known for that name") from None
        except TooManyThreads:
            raise ToolError("too many look-ups of names hang: try again later") from None
    for address in found:
        kind = why_refused(address, allow_private=rules.allow_private)
        if kind is not None:
            leads = "it is" if address == target.host else "it leads to"
            raise AddressRefused(
                f"{target.host} is refused: {leads} {kind}. Only addresses of the public internet are fetched"
            )
    if not found:
        raise ToolError(f"{target.host} is not found: no address is known for that name")
    return found[:MAX_DIALLED]


class _Answer(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes | bytearray | None
    cut: bool


class _Hop:
    """One request on a connection of its own."""

    def __init__(
        self, target: FetchTarget, headers: Headers, limit: int, wanted: Callable[[int, dict[str, str]], bool]
    ) -> None:
        self.target, self.headers, self.limit, self.wanted = target, headers, limit, wanted

    async def run(self, addresses: list[str], network: Network) -> _Answer:
        """Ask, and read the answer; what goes wrong is said in words."""
        dialler = Dialler(addresses, network)
        host = self.target.host
        try:
            return await self._ask(dialler, network.trust() if self.target.url.scheme == "https" else None)
        except (ConnectError, ConnectTimeout) as problem:
            raise ToolError(f"cannot connect to {host}, port {self.target.port}: {_said(problem)}") from None
        except ProtocolError as problem:
            raise ToolError(f"{host} does not answer in proper HTTP: {_said(problem)}") from None
        except (NetworkError, TimeoutException, OSError) as problem:
            raise ToolError(f"the connection to {host} broke off: {_said(problem)}") from None
        finally:
            await dialler.aclose()

    async def _ask(self, dialler: Dialler, trust: ssl.SSLContext | None) -> _Answer:
        url = self.target.url
        asked = URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        sent = [(b"host", url.netloc), *((k.encode(), v.encode()) for k, v in self.headers.items())]
        async with (
            AsyncHTTPConnection(asked.origin, ssl_context=trust, network_backend=dialler) as connection,
            connection.stream("GET", asked, headers=sent) as response,
        ):
            headers = _headers(response.headers)
            status = response.status
            if status < 200:
                raise ToolError(f"{self.target.host} wants to change the protocol, which is not done")
            if status in REDIRECTING or not self.wanted(status, headers):
                return _Answer(status, headers, None, cut=False)
            dialler.allow(WIRE_FACTOR * self.limit + HEAD_BYTES)
            body = Unpacking(headers.get("content-encoding", ""), self.limit)
            async with aclosing(response.aiter_stream()) as pieces:
                async for piece in pieces:
                    body.feed(piece)
                    if body.cut:
                        break
            body.finish()
        return _Answer(status, headers, body.data, body.cut)


def _said(problem: BaseException) -> str:
    """Say what happened, from the first that knew."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    if isinstance(problem, TimeoutError | TimeoutException):
        return "there is no answer"
    text = str(problem)
    if isinstance(problem, ssl.SSLError):
        text = getattr(problem, "verify_message", "") or problem.reason or text
    elif isinstance(problem, OSError) and problem.errno is not None and problem.errno > 0:
        text = os.strerror(problem.errno)
    return shown(text[:200]) or type(problem).__name__


def _headers(given: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Read the headers; of one that is there several times, all values, as a list."""
    read: dict[str, str] = {}
    for name, value in given:
        low = name.decode("latin-1").lower()
        text = value.decode("utf-8", "replace").strip()
        read[low] = text if low not in read else f"{read[low]}, {text}"
    return read
