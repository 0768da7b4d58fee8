"""Connections that lead to checked addresses, and nowhere else.

Rules of this file:
- A name is looked up by the system, in a thread: an answer that never comes is waited for by nobody.
- What is connected to is an address. The other end has to be the one that was dialled.
- TLS goes by the name that was asked for, with the certificates of the system, whatever the environment says.
- A connection carries no more bytes than were allowed, and is closed when its use ends, in whatever way.
"""

import functools
import ssl
from typing import Any

from httpcore2 import (
    AnyIOBackend,
    AsyncNetworkBackend,
    AsyncNetworkStream,
    ConnectError,
    NetworkError,
    TimeoutException,
)

from toolwire.errors import ToolError
from toolwire.work.threads import in_thread

CONNECT_SECONDS = 5
HEAD_BYTES = 256 * 1024
PIECE_BYTES = 64 * 1024


class Network:
    """The network as it is: names are looked up by the system, and connections are made by TCP."""

    async def resolve(self, host: str) -> list[str]:
        """Look up the addresses of a name, in the order in which to try them."""
        from socket import SOCK_STREAM, getaddrinfo  # noqa: PLC0415 - nothing else here knows of sockets

        answers = await in_thread(lambda: getaddrinfo(host, None, type=SOCK_STREAM))
        return list(dict.fromkeys(str(answer[4][0]) for answer in answers))

    async def connect(self, address: str, port: int) -> AsyncNetworkStream:
        """Connect to an address, and to nothing else."""
        stream = await AnyIOBackend().connect_tcp(address, port, timeout=CONNECT_SECONDS)
        other = stream.get_extra_info("server_addr")
        if other is None or other[0].partition("%")[0] != address:
            await stream.aclose()
            raise ConnectError("the connection leads elsewhere")
        return stream

    def trust(self) -> ssl.SSLContext:
        """Give the certificates that are trusted: those of the system."""
        return system_trust()


@functools.cache
def system_trust() -> ssl.SSLContext:
    """Load the certificates of the system, once."""
    from httpx2 import create_ssl_context  # noqa: PLC0415 - the client is loaded when something is fetched

    return create_ssl_context(trust_env=False)


class Dialler(AsyncNetworkBackend):
    """Connects to checked addresses only, one after the other, whatever name it is asked for."""

    def __init__(self, addresses: list[str], network: Network) -> None:
        self.addresses, self.network = addresses, network
        self.stream: Counted | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the client's own signature
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> AsyncNetworkStream:
        """Connect to the first address that answers."""
        del host, timeout, local_address, socket_options
        last: Exception = ConnectError("there is no address")
        for address in self.addresses:
            try:
                self.stream = Counted(await self.network.connect(address, port))
            except (NetworkError, TimeoutException, OSError) as problem:
                last = problem
            else:
                return self.stream
        raise last

    async def aclose(self) -> None:
        """Close the connection, if there is one: the client leaves one open whose TLS did not come about."""
        if self.stream is not None:
            await self.stream.aclose()

    def allow(self, size: int) -> None:
        """Let so many more bytes come."""
        if self.stream is not None:
            self.stream.left += size


class Counted(AsyncNetworkStream):
    """A connection on which no more bytes come than were allowed."""

    def __init__(self, inner: AsyncNetworkStream) -> None:
        self.connection = self.inner = inner
        self.left = HEAD_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Read what has come."""
        data = await self.inner.read(min(max_bytes, PIECE_BYTES), timeout)
        self.left -= len(data)
        if self.left < 0:
            raise ToolError("the server sends more around its content than is read")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send bytes."""
        await self.inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self.connection.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncNetworkStream:
        """Go on with TLS, on the same connection."""
        self.inner = await self.connection.start_tls(ssl_context, server_hostname, timeout)
        return self

    def get_extra_info(self, info: str) -> Any:
        """Say something about the connection."""
        return self.inner.get_extra_info(info)
