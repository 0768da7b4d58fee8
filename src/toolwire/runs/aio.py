"""The awaited face of runs: the same names; the database is asked in threads, so that no event loop waits for it."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Self

from toolwire.client.settings import ClientOptions, Prompt, Providers, Tools
from toolwire.loop import Done
from toolwire.runs import run as sync
from toolwire.work.threads import in_thread

_PAUSE = 0.1


class Run:
    """One run. Any number of processes may hold one; its id is all that they have in common."""

    def __init__(self, run: sync.Run) -> None:
        self._run = run
        self.id: str = run.id

    async def state(self) -> sync.State:
        """Say what the run does, or how it ended."""
        return await in_thread(lambda: self._run.state)  # type: ignore[no-any-return]

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

    async def cancel(self) -> None:
        """End the run: where it is led, at once; where nobody leads it, without leading it again."""
        await in_thread(self._run.cancel)

    async def answer(self, call_id: str, approve: bool | str = True) -> None:
        """Approve a call that waits, or say no: `False`, or a text, which the model reads."""
        await in_thread(lambda: self._run.answer(call_id, approve))

    async def resume(self) -> None:
        """Have a run that is parked led again."""
        await in_thread(self._run.resume)

    async def fork(self, at: int, id: str | None = None) -> "Run":  # noqa: A002 - it is the new run's
        """Begin a new run that has all that happened up to an offset, and goes on from there by itself."""
        return Run(await in_thread(lambda: self._run.fork(at, id)))


class Runs:
    """The runs of a database, for async code; see `toolwire.Runs`."""

    def __init__(self, url: str, **options: Any) -> None:
        self._given = url, options
        self._opened: sync.Runs | None = None

    async def _runs(self) -> sync.Runs:
        if self._opened is None:
            url, options = self._given
            self._opened = await in_thread(lambda: sync.Runs(url, **options))
        return self._opened

    async def start(
        self,
        prompt: Prompt = None,
        provider: Providers = None,
        model: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - it is the run's
        tools: Tools = (),
        options: ClientOptions | None = None,
        queue: str | None = None,
        **settings: Any,
    ) -> Run:
        """Begin a run, here or where `queue` is worked at; one that is there already is attached to."""
        runs = await self._runs()
        said: Any = {"id": id, "tools": tools, "options": options, "queue": queue, **settings}
        return Run(await in_thread(lambda: runs.start(prompt, provider, model, **said)))

    async def run(self, id: str) -> Run:  # noqa: A002 - it is the run's
        """Give a run by its id."""
        runs = await self._runs()
        return Run(await in_thread(lambda: runs.run(id)))

    async def list(self, state: str | None = None, limit: int = 100) -> list[sync.Listed]:
        """List runs, the newest first; a run that has ended has its ending as the reason."""
        runs = await self._runs()
        return await in_thread(lambda: runs.list(state, limit))  # type: ignore[no-any-return]

    async def close(self, seconds: float = 30.0) -> None:
        """Leave the runs that are led here when their present step has ended."""
        if self._opened is not None:
            await in_thread(partial(self._opened.close, seconds))

    async def __aenter__(self) -> Self:
        await self._runs()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
