"""Connections to providers, for httpcore2 (and so for httpx2): each answer goes to the request that it belongs to.

HTTP/1.1 has no number that ties an answer to its request: only their order does. A server that sends an unrequested
answer (a 408 to an idle client, the same answer twice) shifts all later ones, unless the client notices.

Rules of this file:
- Bytes that arrive while no request is open close the connection. So do bytes beyond the end of an answer.
- A connection is used again only after it was silent for as long as its longest answer took. If an unrequested answer
  was taken for the real one, the real one arrives in that time, and closes the connection.
- A closed connection is aborted at once, even if data is still to be written.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpcore2

from toolwire.wire.response_bytes import ResponseBytes
from toolwire.wire.transport import Stop

STOPPED = "the request was stopped"
LATE = "it took too long"
_SHORTEST_REST = 0.05
"""Seconds of silence after an answer, before the connection is used again."""
PIECE = 32_768  # bytes that are received at once; a loop's own buffer has 256 KiB, and a slow reader would hold them
SYSTEM_BUFFER = 131_072
_REQUEST_TIMEOUT = 408


class Exchanges:
    """The requests and answers of one connection, one after the other, and whether another may follow."""

    def __init__(self) -> None:
        self.received: ResponseBytes = ResponseBytes()
        self.number: int = 0
        self.is_idle: bool = True
        self.retired: bool = False
        self._has_read = True
        self._began = self._last_read = time.monotonic()
        self._longest = 0.0

    def write(self) -> None:
        """Note that bytes of a request are sent; the first ones begin an exchange, if one may follow."""
        if not self._has_read:
            return
        if self.number and not self.may_follow:
            raise httpcore2.ConnectionNotAvailable
        self.number += 1
        self.is_idle = self._has_read = False
        self._began = time.monotonic()
        self.received.begin()

    def read(self) -> bytes:
        """Return the next bytes of the answer."""
        data = self.received.take()
        self._has_read = self._has_read or bool(data)
        self._last_read = time.monotonic()
        return data

    def end(self, number: int) -> None:
        """Note that the answer to request `number` was read to its end."""
        if number == self.number:
            self.is_idle = True

    def see_status(self, status: int) -> None:
        """Retire the connection if `status` says that its server gives it up (RFC 9110, section 15.5.9)."""
        self.retired = self.retired or status == _REQUEST_TIMEOUT

    @property
    def is_spent(self) -> bool:
        """True if the connection must not be used again: an unrequested answer has arrived, or it was retired."""
        return self.retired or self.received.size > 0

    @property
    def may_follow(self) -> bool:
        """True if the connection was silent for long enough after its last answer."""
        self._longest = max(self._longest, _SHORTEST_REST, self._last_read - self._began)
        return not self.is_spent and time.monotonic() - self._last_read >= self._longest


class Guard:
    """A deadline for the blocking calls of one exchange, and a `stop` that can interrupt them."""

    def __init__(self, stop: Stop | None) -> None:
        self.stop: Stop | None = stop
        self.deadline: float | None = None
        self.stopped: bool = False
        self.stream: Any = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Apply the guard to the calls of this thread."""
        _present.guard = self
        try:
            with contextlib.nullcontext() if self.stop is None else self.stop.telling(self._interrupt):
                yield
        finally:
            _present.guard = None

    def remaining(self, timeout: float | None) -> float | None:
        """Return the seconds that a call may take."""
        if self.stopped:
            raise httpcore2.ReadError(STOPPED)
        if self.deadline is None:
            return timeout
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise httpcore2.ReadTimeout(LATE)
        return remaining if timeout is None else min(remaining, timeout)

    def _interrupt(self) -> None:
        """Wake the thread that reads: the socket ends."""
        self.stopped = True
        connection = self.stream.get_extra_info("socket") if self.stream is not None else None
        if connection is not None:
            with contextlib.suppress(OSError):  # it is closed already
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Present(threading.local):
    guard: Guard | None = None


_present = _Present()


class _BlockingStream(httpcore2.NetworkStream):
    """A connection of sync code. Its reads and writes obey the guard of their thread."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream
        self.exchanges = Exchanges()

    def _limit(self, timeout: float | None) -> float | None:
        guard = _present.guard
        if guard is None:
            return timeout
        guard.stream = self._stream
        return guard.remaining(timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        received = self.exchanges.received
        if not received.size and (data := self._stream.read(max_bytes, self._limit(timeout))):
            received.add(data)
        return self.exchanges.read()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.exchanges.write()
        self._stream.write(buffer, self._limit(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return _BlockingStream(self._stream.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        if info != "is_readable":
            return self._stream.get_extra_info(info)
        # httpcore2 asks this of an idle connection, and closes the connection if it is true.
        encrypted = self._stream.get_extra_info("ssl_object")
        unread = encrypted is not None and hasattr(encrypted, "pending") and encrypted.pending()
        return self.exchanges.is_spent or bool(unread) or self._stream.get_extra_info("is_readable")


class BlockingBackend(httpcore2.SyncBackend):
    """Opens connections for sync code."""

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.NetworkStream:
        """Open a connection."""
        guard = _present.guard
        limit = timeout if guard is None else guard.remaining(timeout)
        return _BlockingStream(super().connect_tcp(host, port, limit, *args, **options))


def connect_error(problem: BaseException) -> BaseException:
    """Return httpcore2's exception for `problem`; an exception that is not a network failure is returned unchanged."""
    if isinstance(problem, TimeoutError):
        return httpcore2.ConnectTimeout(LATE)
    return httpcore2.ConnectError(str(problem)) if isinstance(problem, OSError) else problem
