"""Threads for work on large bodies, so that the event loop answers other clients meanwhile.

A thread does not make such work faster: Python runs one thread at a time. But it lets the event loop run every few
milliseconds. Work on small bodies is done at once, because a thread costs more than the work.
"""

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
LARGE = 524_288
"""Bytes of a body from which on it is worked on in a thread: a translation takes about 5 ms there."""
_THREADS = 2


class Offloader:
    """The threads of a gateway for large bodies. If all are busy, work waits."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._busy = 0

    async def run(self, size: int, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Return what `work` returns; do it in a thread if it is about a body of `LARGE` bytes or more."""
        if size < LARGE:
            return work(*args, **options)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "toolwire-bodies")
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._uncollected, partial(work, *args, **options)
        )

    def _uncollected(self, work: Callable[[], T]) -> T:
        """Do `work` without looking for garbage: among millions of objects that stops all threads for seconds."""
        with self._lock:
            self._busy += 1
            gc.disable()
        try:
            return work()
        finally:
            with self._lock:
                self._busy -= 1
                if not self._busy:
                    gc.enable()

    def close(self) -> None:
        """Start no more work. Running work finishes."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
