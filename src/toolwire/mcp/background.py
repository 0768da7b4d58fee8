"""An event loop in a daemon thread of its own, for a session that lives longer than a call."""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 15.0


class Background:
    """Runs coroutines for any thread, until it is stopped."""

    def __init__(self, name: str) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(begun,), name=name, daemon=True)
        self._thread.start()
        begun.wait()

    def _run(self, begun: threading.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._over = asyncio.Event()
            begun.set()
            await self._over.wait()

        asyncio.run(main())

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Begin a coroutine; RuntimeError if the loop was stopped."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise

    def finish(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do a last thing, stop the loop, and wait until its thread has ended; nothing is raised."""

        async def last() -> None:
            try:
                await work
            finally:
                self._over.set()

        with contextlib.suppress(RuntimeError):
            self.submit(last())
        if threading.current_thread() is not self._thread:
            self._thread.join(PATIENCE)
