"""Keepalive signals for a client while its model thinks."""

import asyncio
import time

from toolwire.gateway.context import ResponseWriter


class KeepAlive:
    """Sends a keepalive signal when a stream is silent: between two pieces, never inside of one.

    `signal` is what to send. With None nothing is sent, for a wire that has no such signal.
    """

    def __init__(self, seconds: float, client: ResponseWriter, signal: bytes | None) -> None:
        self.client: ResponseWriter = client
        self._seconds, self._signal = seconds, signal
        self._last = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Future[None] | None = None
        self._timer = self._loop.call_later(seconds, self._check) if signal is not None else None

    def note_activity(self) -> None:
        """Note that something was sent."""
        self._last = time.monotonic()

    def _check(self) -> None:
        silent = time.monotonic() - self._last
        if silent >= self._seconds and self._signal is not None:
            self._last, silent = time.monotonic(), 0.0
            self._task = asyncio.ensure_future(self.client.send(self._signal, True))
            self._task.add_done_callback(_ignore_failure)
        self._timer = self._loop.call_later(self._seconds - silent, self._check)

    def stop(self) -> None:
        """Stop sending signals."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


def _ignore_failure(task: "asyncio.Future[None]") -> None:
    """Ignore a failure to send: the next write of the answer meets the same one."""
    if not task.cancelled():
        task.exception()
