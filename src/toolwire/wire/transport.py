"""HTTP as the clients see it: a transport of one method, `send`, in sync and in async code.

Rules of this file:
- A transport gives an answer as soon as its head is there; its body is read piece by piece, and no redirect
  is followed.
- What goes wrong is a `TransportError` with a kind; it never holds a header, so that no key gets into a log.
- An answer is closed by whoever asked for it, read to its end or not.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

from toolwire.errors import ToolwireError

FailureKind = Literal["connect", "timeout", "reset", "protocol", "cancelled", "too_long"]


class Timeouts(Struct, frozen=True):
    """Seconds: to connect, until the answer begins, between two pieces of it, and in total.

    Pauses between attempts count in the total.
    """

    connect: float | None = 10.0
    first: float | None = 600.0
    between: float | None = 120.0
    total: float | None = 3600.0


class Bounds(Struct, frozen=True):
    """The largest answer: its bytes, and the events of its stream."""

    bytes: int = 64 * 1024 * 1024
    events: int = 1_000_000


class HttpRequest(Struct, frozen=True):
    """One request; the headers may hold a key, so they are not shown."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"HttpRequest({self.method} {url_without_secrets(self.url)}, {len(self.body)} bytes)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("method", self.method), ("url", url_without_secrets(self.url)), ("bytes", len(self.body))]


class TransportError(ToolwireError):
    """An HTTP request could not be sent, or its answer could not be read; `kind` says how it failed.

    `sent` is False if the server cannot have received the request.
    """

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.sent: bool = kind != "connect"


class Stop(Protocol):
    """Says when to stop, from any thread: `toolwire.Cancel` is one."""

    def is_set(self) -> bool:
        """Whether it was said."""

    def telling(self, listener: Callable[[], None]) -> AbstractContextManager[Any]:
        """Call a listener when it stops, while the `with` lasts."""


class AwaitedResponse(Protocol):
    """What a server answers to who awaits it: its head, and its body in pieces; an empty piece is the end."""

    status: int
    headers: dict[str, str]

    async def aread(self) -> bytes:
        """Give the next piece."""

    async def afinish(self) -> None:
        """Read what little may be left, so that the connection can be used again; then let go of it."""

    async def aclose(self) -> None:
        """Let go of the connection: it is given back if all was read, else closed."""


class HttpResponse(AwaitedResponse, Protocol):
    """What a server answers, in sync and in async code."""

    def read(self) -> bytes:
        """Give the next piece."""

    def finish(self) -> None:
        """Read what little may be left, so that the connection can be used again; then let go of it."""

    def close(self) -> None:
        """Let go of the connection: it is given back if all was read, else closed."""


class AwaitedTransport(Protocol):
    """Sends requests in async code."""

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> AwaitedResponse:
        """Send a request, and give the head of the answer."""


class Transport(Protocol):
    """Sends requests, in sync and in async code."""

    def send(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> HttpResponse:
        """Send a request, and give the head of the answer."""

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> HttpResponse:
        """Send a request, and give the head of the answer."""


def url_without_secrets(url: str) -> str:
    """Give where a URL leads, without what may be secret in it: a password, a query."""
    return re.sub(r"//[^/?#]*@", "//", url.partition("?")[0])
