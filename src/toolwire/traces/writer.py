"""One thread that writes the traces of a store: what arrives while it commits goes into the next commit.

Rules of this file:
- A row has a number, and rows are settled in the order of their numbers: committed, or lost with a reason.
- What was acknowledged (a ticket that is done, a flush that returned) was committed.
- At most `queue` rows are not settled: who records more waits, in async code without blocking the loop.
- The thread holds no store: one that is dropped is flushed, and its thread ends. At exit all are flushed.
- In a forked child nothing of the parent is written: what it had not settled is the parent's.
"""

import asyncio
import atexit
import contextlib
import functools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from sqlalchemy.exc import IntegrityError

from toolwire.errors import StoreFailed, UserError
from toolwire.traces.committing import Committer
from toolwire.traces.databases import passes, words_of

_LOG = logging.getLogger("toolwire.traces")
_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
_EXIT_SECONDS = 30.0

Row = dict[str, Any] | Callable[[], dict[str, Any]]
Item = tuple[int, Row]


class Ticket:
    """A trace on its way into the store: `done` says if it is committed, `wait` and `committed` wait until it is."""

    __slots__ = ("_number", "_writer")

    def __init__(self, writer: "Writer", number: int) -> None:
        self._writer = writer
        self._number = number

    @property
    def done(self) -> bool:
        """Whether the trace is committed."""
        return self._writer.settled >= self._number and self.problem is None

    @property
    def problem(self) -> Exception | None:
        """Why the trace will never be committed."""
        return self._writer.problem(self._number)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the trace is committed; raise what keeps it from that."""
        return self._writer.wait(self._number, timeout)

    async def committed(self) -> None:
        """Wait in async code until the trace is committed; raise what keeps it from that."""
        await self._writer.watched(self._number)
        if problem := self.problem:
            raise problem


class Writer:
    """The queue of a store and the thread that empties it."""

    def __init__(
        self,
        committer: Committer,
        *,
        close: Callable[[], None],
        forked: Callable[[], StoreFailed | None],
        stops: bool,
        batch: int,
        queue: int,
        patience: float,
    ) -> None:
        self._committer, self._forked = committer, forked
        self.release: Callable[[], None] = close
        self._stops, self._batch, self._bound, self._patience = stops, batch, queue, patience
        self.last: int = 0
        self.settled: int = 0
        self.lost: int = 0
        self.failed: StoreFailed | None = None
        self._troubled = False
        self.closed: bool = False
        self._losses: list[tuple[int, int, Exception]] = []
        self._begin()
        _hooked()
        _WRITERS.add(self)

    def _begin(self) -> None:
        self._moved = threading.Condition(threading.Lock())
        self.quiet: threading.Lock = threading.Lock()
        self._inbox: SimpleQueue[Item | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._watchers: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    # What others call

    def offer(self, row: Row) -> Ticket | None:
        """Put a row into the queue, unless it is full."""
        with self._moved:
            return self._offer(row)

    def put(self, row: Row) -> Ticket:
        """Put a row into the queue; wait while it is full."""
        with self._moved:
            while (ticket := self._offer(row)) is None:
                self._moved.wait()
            return ticket

    def _offer(self, row: Row) -> Ticket | None:
        if self.closed:
            raise StoreFailed("the store is closed", path="traces")
        if self.failed is not None:
            raise StoreFailed(str(self.failed))
        if self.last - self.settled >= self._bound:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolwire traces", daemon=True)
            self._thread.start()
        self.last += 1
        self._inbox.put((self.last, row))
        return Ticket(self, self.last)

    def wait(self, number: int, timeout: float | None = None) -> bool:
        """Wait until a row is settled; raise why it was lost."""
        with self._moved:
            if not self._moved.wait_for(lambda: self.settled >= number, timeout):
                return False
        if problem := self.problem(number):
            raise problem
        return True

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was recorded so far is settled; raise what failed."""
        with self._moved:
            number = self.last
            done = self._moved.wait_for(lambda: self.settled >= number, timeout)
        self.check()
        self._say_failed()
        return done

    async def watched(self, number: int) -> None:
        """Wait in async code until a row is settled."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._moved:
            if self.settled >= number:
                return
            self._watchers.append((number, loop, future))
        await future

    async def aflush(self) -> None:
        """Wait in async code until all that was recorded so far is settled; raise what failed."""
        await self.watched(self.last)
        self.check()
        self._say_failed()

    async def aput(self, row: Row) -> Ticket:
        """Put a row into the queue; wait in async code while it is full."""
        while (ticket := self.offer(row)) is None:
            await self.watched(self.last - self._bound + 1)
        return ticket

    def problem(self, number: int) -> Exception | None:
        """Say why a row was lost."""
        return next((problem for first, last, problem in self._losses if first <= number <= last), None)

    def check(self) -> None:
        """Fail where what was committed is not there any more; what a commit just now looks at is left to it."""
        if self.failed is not None or not self.last:
            return
        idle = self.quiet.acquire(blocking=False)
        try:
            self._committer.check(idle=idle)
        except StoreFailed as problem:
            _LOG.error("traces that were recorded are lost: %s", problem)
            if self._stops:
                self.failed = problem
        finally:
            if idle:
                self.quiet.release()

    def _say_failed(self) -> None:
        if self.failed is not None:
            raise StoreFailed(str(self.failed))

    def resume(self) -> None:
        """Take traces again after a failure."""
        with self._moved:
            self.failed = None

    def close(self, timeout: float | None = None) -> None:
        """Settle all that was recorded, end the thread and close the connections."""
        with self._moved:
            self.closed = True
            self._moved.notify_all()
            thread, self._thread = self._thread, None
        self.leave()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        elif thread is None:
            self.release()
        if self.lost and not self._stops:
            _LOG.error("%d traces were lost", self.lost)
        if self._stops:
            self._say_failed()

    def leave(self) -> None:
        """Let the thread end when it has written what is there; safe wherever garbage is collected."""
        self._inbox.put(None)

    def fork(self) -> None:
        """Begin anew in a forked child."""
        self._begin()
        if self.last > self.settled:
            words = "it was recorded before the process forked: its parent writes it"
            self._losses.append((self.settled + 1, self.last, StoreFailed(words, path="traces")))
            self.settled = self.last
        self.failed = self._forked() or self.failed

    # What the thread does

    def _run(self) -> None:
        inbox = self._inbox
        try:
            while (item := inbox.get()) is not None:
                batch, ended = self._gathered(inbox, item)
                self._write(batch)
                if ended:
                    break
            self.check()
        finally:
            self.release()

    def _gathered(self, inbox: "SimpleQueue[Item | None]", item: Item) -> tuple[list[Item], bool]:
        """Take what has arrived by now, and say whether it is the end."""
        batch = [item]
        with contextlib.suppress(Empty):
            while len(batch) < self._batch:
                following = inbox.get_nowait()
                if following is None:
                    return batch, True
                batch.append(following)
        return batch, False

    def _write(self, batch: list[Item]) -> None:
        if self.failed is not None:
            self._settle(batch, {}, self.failed)
            return
        rows, refused = _made(batch)
        places = list(rows)
        try:
            late = self._committed(list(rows.values())) if rows else {}
            refused.update({places[index]: problem for index, problem in late.items()})
        except Exception as problem:  # noqa: BLE001 - whatever fails is said to all who wait
            words = f"traces cannot be written: {words_of(problem)}"
            failure = problem if isinstance(problem, StoreFailed) else StoreFailed(words, path="traces")
            self._troubled = True
            self._settle(batch, {}, failure)
        else:
            self._troubled = False
            self._settle(batch, refused, None)

    def _committed(self, rows: list[dict[str, Any]]) -> dict[int, UserError]:
        """Commit; try again what may pass, until patience ends."""
        late = time.monotonic() + (0.0 if self._troubled else self._patience)
        pause, tries = _PAUSE, 0
        while True:
            try:
                with self.quiet:
                    return self._committer.commit(rows, again=tries > 0)
            except Exception as problem:
                tries += 1
                doubled = isinstance(problem, IntegrityError) and tries < 3
                if not doubled and (not passes(problem) or time.monotonic() > late):
                    raise
                _LOG.info("a commit of traces is tried again: %s", words_of(problem))
                if not doubled:
                    time.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)

    def _settle(self, batch: list[Item], refused: dict[int, UserError], failure: StoreFailed | None) -> None:
        first, last = batch[0][0], batch[-1][0]
        if failure is not None:
            _LOG.error("%d traces are lost: %s", len(batch), failure)
        with self._moved:
            if failure is not None:
                self.lost += len(batch)
                self._lose(first, last, failure)
                self.failed = failure if self._stops else None
            for index, problem in refused.items():
                self.lost += 1
                self._lose(batch[index][0], batch[index][0], problem)
                _LOG.error("a trace is refused: %s", problem)
            self.settled = last
            self._moved.notify_all()
            watchers = [one for one in self._watchers if one[0] <= last]
            self._watchers = [one for one in self._watchers if one[0] > last]
        for _, loop, future in watchers:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, future)

    def _lose(self, first: int, last: int, problem: Exception) -> None:
        """Note what was lost; ranges with one reason that follow each other are one."""
        if self._losses:
            begun, before, known = self._losses[-1]
            if before == first - 1 and str(known) == str(problem):
                self._losses[-1] = (begun, last, known)
                return
        self._losses.append((first, last, problem))


def _made(batch: list[Item]) -> tuple[dict[int, dict[str, Any]], dict[int, UserError]]:
    """Give the rows of a batch by their places, and what cannot be made."""
    rows: dict[int, dict[str, Any]] = {}
    refused: dict[int, UserError] = {}
    for place, (_, row) in enumerate(batch):
        try:
            rows[place] = row() if callable(row) else row
        except Exception as problem:  # noqa: BLE001 - one that cannot be made takes no other with it
            refused[place] = UserError(f"cannot be made: {type(problem).__name__}", path="Trace")
    return rows, refused


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


_WRITERS: "weakref.WeakSet[Writer]" = weakref.WeakSet()
_FORK_SECONDS = 5.0


@functools.cache
def _hooked() -> None:
    """Have forks wait for commits, and stores closed at exit."""
    atexit.register(_at_exit)
    if hasattr(os, "register_at_fork"):
        held: list[threading.Lock] = []
        os.register_at_fork(
            before=lambda: _before_fork(held),
            after_in_parent=lambda: _release(held),
            after_in_child=lambda: _after_fork(held),
        )


def _before_fork(held: list[threading.Lock]) -> None:
    """Wait for commits, and close what is not in use: no connection survives a fork."""
    for writer in list(_WRITERS):
        if writer.quiet.acquire(timeout=_FORK_SECONDS):
            held.append(writer.quiet)
        writer.release()


def _release(held: list[threading.Lock]) -> None:
    while held:
        held.pop().release()


def _after_fork(held: list[threading.Lock]) -> None:
    _release(held)
    for writer in list(_WRITERS):
        writer.fork()


def _at_exit() -> None:
    for writer in [one for one in _WRITERS if not one.closed]:
        try:
            writer.close(_EXIT_SECONDS)
        except StoreFailed as problem:
            _LOG.error("at the end of the process: %s", problem)
