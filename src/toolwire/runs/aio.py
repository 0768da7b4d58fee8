"""The awaited face of runs: the same names, made from the sync ones.

Rule of this file: the database is asked in threads, so that no event loop waits for it.
"""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from toolwire.loop import Done
from toolwire.runs import run as sync
from toolwire.work.threads import in_thread

_PAUSE = 0.1
_P = ParamSpec("_P")
_T = TypeVar("_T")
_Sync = Callable[Concatenate[Any, _P], _T]
_Awaited = Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]


def _awaited(method: _Sync[_P, _T]) -> _Awaited[_P, _T]:
    """Make a method awaited: it is called in a thread, of what stands behind the awaited face."""

    @functools.wraps(method)
    async def awaited(self: Any, *arguments: _P.args, **keywords: _P.kwargs) -> _T:
        behind = await self._behind()
        return await in_thread(lambda: method(behind, *arguments, **keywords))  # type: ignore[no-any-return]

    return awaited  # type: ignore[return-value]


def _giving_run(method: _Sync[_P, sync.Run]) -> _Awaited[_P, "Run"]:
    """Make a method awaited that gives a run."""
    asked = _awaited(method)

    @functools.wraps(method)
    async def awaited(self: Any, *arguments: _P.args, **keywords: _P.kwargs) -> "Run":
        return Run(await asked(self, *arguments, **keywords))

    return awaited  # type: ignore[return-value]


class Run:
    """One run. Any number of processes may hold one; its id is all that they have in common."""

    def __init__(self, run: sync.Run) -> None:
        self._run = run
        self.id: str = run.id

    async def _behind(self) -> sync.Run:
        return self._run

    async def state(self) -> sync.State:
        """Say what the run does, or how it ended."""
        return await in_thread(lambda: self._run.state)  # type: ignore[no-any-return]

    async def reason(self) -> str:
        """Say why the run is parked, or how it ended, in the words of `Done.ending`."""
        return await in_thread(lambda: self._run.reason)  # type: ignore[no-any-return]

    async def waiting(self) -> list[sync.Question]:
        """List the calls that somebody has to approve before the run goes on."""
        return await in_thread(lambda: self._run.waiting)  # type: ignore[no-any-return]

    async def result(self, timeout: float | None = None) -> Done:  # noqa: ASYNC109 - as the sync one takes it
        """Wait for the end, wherever the run is led, and give it; `RunParked` says that nobody leads it."""
        async with asyncio.timeout(timeout):
            while (done := await in_thread(self._run.ended)) is None:  # noqa: ASYNC110 - it is in a database
                await asyncio.sleep(_PAUSE)
        return done  # type: ignore[no-any-return]

    async def events(self, after: int = 0, *, wait: bool = True) -> AsyncIterator[sync.Offset]:
        """Give what happened after an offset, each with its own; wait for what comes."""
        while True:
            found, over = await in_thread(lambda: self._run.happened(after))  # noqa: B023 - it is called at once
            for after, event in found:  # noqa: PLR1704 - it goes on from there
                yield after, event
            if over or not wait:
                return
            if not found:
                await asyncio.sleep(_PAUSE)

    cancel = _awaited(sync.Run.cancel)
    answer = _awaited(sync.Run.answer)
    resume = _awaited(sync.Run.resume)
    fork = _giving_run(sync.Run.fork)


class Runs:
    """The runs of a database, for async code; see `toolwire.Runs`."""

    def __init__(self, url: str, **options: Any) -> None:
        self._open = functools.partial(sync.Runs, url, **options)
        self._opened: sync.Runs | None = None
        self._lock = threading.Lock()

    def _once(self) -> sync.Runs:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    async def _behind(self) -> sync.Runs:
        return self._opened or await in_thread(self._once)

    start = _giving_run(sync.Runs.start)  # type: ignore[arg-type]  # a setting may be called `self`
    run = _giving_run(sync.Runs.run)
    list = _awaited(sync.Runs.list)
    limit = _awaited(sync.Runs.limit)
    prune = _awaited(sync.Runs.prune)

    async def close(self, seconds: float = 30.0) -> None:
        """Leave the runs that are led here when their present step has ended."""
        if self._opened is not None:
            opened = self._opened
            await in_thread(lambda: opened.close(seconds))

    async def __aenter__(self) -> Self:
        await self._behind()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
