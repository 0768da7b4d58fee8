"""The HTTP interface of the clients: a transport with one method, `send`, in sync and in async code.

Rules of this file:
- A transport returns the response when its head has arrived. The body is read piece by piece. Redirects are not
  followed.
- A failure is a `TransportError` with a kind. It never contains a header, so that no key gets into a log.
- The caller closes the response, whether it has read the whole body or not.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

from toolwire.errors import ToolwireError

DEFAULT_PORTS = {"http": 80, "https": 443}
FailureKind = Literal["connect", "timeout", "reset", "protocol", "cancelled", "too_long"]


class Timeouts(Struct, frozen=True):
    """The time limits of an exchange in seconds. None means no limit.

    - `connect`: to connect.
    - `first`: until the response starts.
    - `between`: between two pieces of the response.
    - `total`: in total, with the pauses between attempts.

    >>> from toolwire import Client, Timeouts
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model:
    ...     with Client("ollama", "m", base_url=model.url, timeouts=Timeouts(connect=2, total=60)) as client:
    ...         client.chat("Hi.").content
    'Hello.'
    """

    connect: float | None = 10.0
    first: float | None = 600.0
    between: float | None = 120.0
    total: float | None = 3600.0


class Bounds(Struct, frozen=True):
    """The size limits of an answer: its bytes, and the events of its stream.

    >>> from toolwire import Bounds, Client, ProviderError
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model:
    ...     try:
    ...         Client("ollama", "m", base_url=model.url, bounds=Bounds(bytes=10)).chat("Hi.")
    ...     except ProviderError as error:
    ...         print(error)
    ollama: the answer has more than 10 bytes
    """

    bytes: int = 64 * 1024 * 1024
    events: int = 1_000_000


class HttpRequest(Struct, frozen=True):
    """An HTTP request. Its headers may contain a key, so `repr` leaves them out."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"HttpRequest({self.method} {url_without_secrets(self.url)}, {len(self.body)} bytes)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("method", self.method), ("url", url_without_secrets(self.url)), ("bytes", len(self.body))]


class TransportError(ToolwireError):
    """An HTTP request could not be sent, or its response could not be read.

    `kind` is the kind of failure. `sent` is False if the server cannot have received the request.
    """

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.sent: bool = kind != "connect"


class Stop(Protocol):
    """A signal to stop, which any thread may set. `toolwire.Cancel` is one."""

    def is_set(self) -> bool:
        """Return True if the signal is set."""

    def telling(self, listener: Callable[[], None]) -> AbstractContextManager[Any]:
        """Call `listener` when the signal is set, as long as the `with` block lasts."""


class AwaitedResponse(Protocol):
    """An HTTP response in async code: its head, and its body in pieces. An empty piece is the end."""

    status: int
    headers: dict[str, str]

    async def aread(self) -> bytes:
        """Return the next piece of the body."""

    async def afinish(self) -> None:
        """Read a short rest of the body, so that the connection can be reused, and release the connection."""

    async def aclose(self) -> None:
        """Release the connection. It is reused if the whole body was read, else closed."""


class HttpResponse(AwaitedResponse, Protocol):
    """An HTTP response, in sync and in async code."""

    def read(self) -> bytes:
        """Return the next piece of the body."""

    def finish(self) -> None:
        """Read a short rest of the body, so that the connection can be reused, and release the connection."""

    def close(self) -> None:
        """Release the connection. It is reused if the whole body was read, else closed."""


class AwaitedTransport(Protocol):
    """Sends HTTP requests in async code."""

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> AwaitedResponse:
        """Send `request`, and return the response when its head has arrived. Raise `TransportError` on failure."""


class Transport(Protocol):
    """Sends HTTP requests, in sync and in async code.

    >>> from toolwire import Client, Transport
    >>> class Canned:
    ...     status, headers = 200, {}
    ...
    ...     def send(self, request, timeouts, stop=None):
    ...         self.pieces = [b'{"message": {"role": "assistant", "content": "Hi."}, "done": true}', b""]
    ...         return self
    ...
    ...     async def asend(self, request, timeouts, stop=None):
    ...         return self.send(request, timeouts)
    ...
    ...     def read(self):
    ...         return self.pieces.pop(0)
    >>> transport: Transport = Canned()
    >>> Client("ollama", "m", transport=transport).chat("Hello.").content
    'Hi.'
    """

    def send(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> HttpResponse:
        """Send `request`, and return the response when its head has arrived. Raise `TransportError` on failure."""

    async def asend(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> HttpResponse:
        """Send `request`, and return the response when its head has arrived. Raise `TransportError` on failure."""


def url_without_secrets(url: str) -> str:
    """Return `url` without the parts that may be secret: user name, password and query."""
    return re.sub(r"//[^/?#]*@", "//", url.partition("?")[0])
