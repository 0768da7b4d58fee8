"""The async API of durable runs: the same names, built from the sync ones.

Rule of this file: the database is accessed in threads, so that it never blocks the event loop.
"""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from toolwire.loop import Done
from toolwire.runs import run as sync
from toolwire.waiting.threads import in_thread

_PAUSE = 0.1
_P = ParamSpec("_P")
_T = TypeVar("_T")
_Sync = Callable[Concatenate[Any, _P], _T]
_Awaited = Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]


def _awaited(method: _Sync[_P, _T]) -> _Awaited[_P, _T]:
    """Return an async version of a sync method. It calls the method in a thread."""

    @functools.wraps(method)
    async def awaited(self: Any, *arguments: _P.args, **keywords: _P.kwargs) -> _T:
        sync_object = await self._sync_object()
        return await in_thread(lambda: method(sync_object, *arguments, **keywords))  # type: ignore[no-any-return]

    return awaited  # type: ignore[return-value]


def _returning_run(method: _Sync[_P, sync.Run]) -> _Awaited[_P, "Run"]:
    """Return an async version of a sync method that returns a run."""
    call = _awaited(method)

    @functools.wraps(method)
    async def awaited(self: Any, *arguments: _P.args, **keywords: _P.kwargs) -> "Run":
        return Run(await call(self, *arguments, **keywords))

    return awaited  # type: ignore[return-value]


class Run:
    """A durable run. Any number of processes may have a `Run` of one run; they share only its id."""

    def __init__(self, run: sync.Run) -> None:
        self._run = run
        self.id: str = run.id

    async def _sync_object(self) -> sync.Run:
        return self._run

    async def state(self) -> sync.State:
        """Return the state of the run, or how it ended."""
        return await in_thread(lambda: self._run.state)  # type: ignore[no-any-return]

    async def reason(self) -> str:
        """Return why the run is parked, or how it ended (as in `Done.ending`)."""
        return await in_thread(lambda: self._run.reason)  # type: ignore[no-any-return]

    async def waiting(self) -> list[sync.Question]:
        """Return the calls that wait for a person's approval."""
        return await in_thread(lambda: self._run.waiting)  # type: ignore[no-any-return]

    async def result(self, timeout: float | None = None) -> Done:  # noqa: ASYNC109 - the same parameter as in the sync method
        """Wait until the run has ended, in whichever process, and return its `Done`.

        Raise `TimeoutError` after `timeout` seconds, `RunParked` if the run is parked, and the provider's error if the
        run failed with it.
        """
        async with asyncio.timeout(timeout):
            while (done := await in_thread(self._run.ended)) is None:  # noqa: ASYNC110 - a database cannot notify
                await asyncio.sleep(_PAUSE)
        return done  # type: ignore[no-any-return]

    async def events(self, after: int = 0, *, wait: bool = True) -> AsyncIterator[sync.Offset]:
        """Yield the events after an offset, each with its own offset. Wait for further ones, unless `wait` is false."""
        while True:
            events, is_over = await in_thread(lambda: self._run.happened(after))  # noqa: B023 - the lambda is called immediately
            for after, event in events:  # noqa: PLR1704 - the next read starts there
                yield after, event
            if is_over or not wait:
                return
            if not events:
                await asyncio.sleep(_PAUSE)

    cancel = _awaited(sync.Run.cancel)
    answer = _awaited(sync.Run.answer)
    resume = _awaited(sync.Run.resume)
    fork = _returning_run(sync.Run.fork)


class Runs:
    """The durable runs of a database, for async code. See `toolwire.Runs`.

    >>> import asyncio, tempfile
    >>> from toolwire import aio
    >>> from toolwire.testing import simulate
    >>> async def main(url: str) -> str | None:
    ...     async with aio.Runs(f"sqlite:///{tempfile.mkdtemp()}/runs.db") as runs:
    ...         run = await runs.start("Hi.", "openai", "m", id="r1", options={"base_url": url, "api_key": "any"})
    ...         return (await run.result()).content
    >>> with simulate(["Hello."]) as model:
    ...     asyncio.run(main(model.url))
    'Hello.'
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._open = functools.partial(sync.Runs, url, **options)
        self._opened: sync.Runs | None = None
        self._lock = threading.Lock()

    def _open_once(self) -> sync.Runs:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    async def _sync_object(self) -> sync.Runs:
        return self._opened or await in_thread(self._open_once)

    start = _returning_run(sync.Runs.start)  # type: ignore[arg-type]  # a setting may be called `self`
    run = _returning_run(sync.Runs.run)
    list = _awaited(sync.Runs.list)
    limit = _awaited(sync.Runs.limit)
    prune = _awaited(sync.Runs.prune)

    async def close(self, seconds: float = 30.0) -> None:
        """Release this process's runs when their current steps have ended, and close the database."""
        if self._opened is not None:
            opened = self._opened
            await in_thread(lambda: opened.close(seconds))

    async def __aenter__(self) -> Self:
        await self._sync_object()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
