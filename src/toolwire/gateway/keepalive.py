"""Signs of life to a client whose model thinks."""

import asyncio
import time

from toolwire.gateway.context import Answering


class Pulse:
    """Says that the connection lives while a model thinks; between two pieces, never within one."""

    def __init__(self, seconds: float, client: Answering, words: bytes | None) -> None:
        self.client: Answering = client
        self._seconds, self._words = seconds, words
        self._last = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Future[None] | None = None
        self._timer = self._loop.call_later(seconds, self._look) if words is not None else None

    def beat(self) -> None:
        """Note that something was said."""
        self._last = time.monotonic()

    def _look(self) -> None:
        silent = time.monotonic() - self._last
        if silent >= self._seconds and self._words is not None:
            self._last, silent = time.monotonic(), 0.0
            self._task = asyncio.ensure_future(self.client.send(self._words, True))
            self._task.add_done_callback(_pass_over)
        self._timer = self._loop.call_later(self._seconds - silent, self._look)

    def stop(self) -> None:
        """Say nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


def _pass_over(task: "asyncio.Future[None]") -> None:
    """Leave a failure to whoever sends next: it meets the same one."""
    if not task.cancelled():
        task.exception()
