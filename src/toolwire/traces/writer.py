"""The thread that writes a store's traces. Traces that arrive during a commit go into the next one.

Rules of this file:
- Each row has a number. Rows are settled in the order of their numbers: committed, or lost for a reason.
- An acknowledged row (its ticket is done, or a flush has returned) was committed.
- At most `queue` rows are unsettled. Recording more waits; in async code it does not block the event loop.
- The thread does not reference the store. A store that is garbage-collected is flushed, and its thread ends. At exit
  all stores are flushed.
- A forked child writes nothing of its parent. Rows that were not settled belong to the parent.
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

from toolwire.databases.opening import first_line, is_transient
from toolwire.errors import StoreFailed, UserError
from toolwire.traces.committer import Committer

_LOG = logging.getLogger("toolwire.traces")
_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
_EXIT_SECONDS = 30.0

Row = dict[str, Any] | Callable[[], dict[str, Any]]
Item = tuple[int, Row]


class Ticket:
    """A trace that was recorded. `done` is True once it is committed; `wait` and `committed` wait for that."""

    __slots__ = ("_number", "_writer")

    def __init__(self, writer: "Writer", number: int) -> None:
        self._writer = writer
        self._number = number

    @property
    def done(self) -> bool:
        """True if the trace is committed."""
        return self._writer.settled >= self._number and self.problem is None

    @property
    def problem(self) -> Exception | None:
        """The reason why the trace will never be committed, or None."""
        return self._writer.problem(self._number)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the trace is committed. Return False after `timeout` seconds. Raise the reason if it is lost."""
        return self._writer.wait(self._number, timeout)

    async def committed(self) -> None:
        """Wait in async code until the trace is committed. Raise the reason if it is lost."""
        await self._writer.wait_async(self._number)
        if problem := self.problem:
            raise problem


class Writer:
    """The queue of a store, and the thread that writes it."""

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
        self._stops, self._batch, self._limit, self._patience = stops, batch, queue, patience
        self.last: int = 0
        self.settled: int = 0
        self.lost: int = 0
        self.failed: StoreFailed | None = None
        self._troubled = False
        self.closed: bool = False
        self._losses: list[tuple[int, int, Exception]] = []
        self._reset()
        _install_hooks()
        _WRITERS.add(self)

    def _reset(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self.commit_lock: threading.Lock = threading.Lock()
        self._inbox: SimpleQueue[Item | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiters: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    # Called by the store and its tickets

    def try_put(self, row: Row) -> Ticket | None:
        """Put a row into the queue. Return its ticket, or None if the queue is full."""
        with self._changed:
            return self._try_put(row)

    def put(self, row: Row) -> Ticket:
        """Put a row into the queue. Wait while it is full."""
        with self._changed:
            while (ticket := self._try_put(row)) is None:
                self._changed.wait()
            return ticket

    def _try_put(self, row: Row) -> Ticket | None:
        if self.closed:
            raise StoreFailed("the store is closed", path="traces")
        if self.failed is not None:
            raise StoreFailed(str(self.failed))
        if self.last - self.settled >= self._limit:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolwire traces", daemon=True)
            self._thread.start()
        self.last += 1
        self._inbox.put((self.last, row))
        return Ticket(self, self.last)

    def wait(self, number: int, timeout: float | None = None) -> bool:
        """Wait until a row is settled. Raise the reason if it was lost."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.settled >= number, timeout):
                return False
        if problem := self.problem(number):
            raise problem
        return True

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all rows so far are settled. Raise `StoreFailed` if the store failed."""
        with self._changed:
            number = self.last
            done = self._changed.wait_for(lambda: self.settled >= number, timeout)
        self.check()
        self._raise_failure()
        return done

    async def wait_async(self, number: int) -> None:
        """Wait in async code until a row is settled."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._changed:
            if self.settled >= number:
                return
            self._waiters.append((number, loop, future))
        await future

    async def aflush(self) -> None:
        """Wait in async code until all rows so far are settled. Raise `StoreFailed` if the store failed."""
        await self.wait_async(self.last)
        self.check()
        self._raise_failure()

    async def aput(self, row: Row) -> Ticket:
        """Put a row into the queue. Wait in async code while it is full."""
        while (ticket := self.try_put(row)) is None:
            await self.wait_async(self.last - self._limit + 1)
        return ticket

    def problem(self, number: int) -> Exception | None:
        """Return the reason why a row was lost, or None."""
        return next((problem for first, last, problem in self._losses if first <= number <= last), None)

    def check(self) -> None:
        """Set `failed` if committed rows are no longer there. A running commit makes this check itself."""
        if self.failed is not None or not self.last:
            return
        idle = self.commit_lock.acquire(blocking=False)
        try:
            self._committer.check(idle=idle)
        except StoreFailed as problem:
            _LOG.error("traces that were recorded are lost: %s", problem)
            if self._stops:
                self.failed = problem
        finally:
            if idle:
                self.commit_lock.release()

    def _raise_failure(self) -> None:
        if self.failed is not None:
            raise StoreFailed(str(self.failed))

    def resume(self) -> None:
        """Accept traces again after a failure."""
        with self._changed:
            self._committer.resume()
            self.failed = None

    def close(self, timeout: float | None = None) -> None:
        """Settle all rows, end the thread and close the connections."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        self.finish()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        elif thread is None:
            self.release()
        if self.lost and not self._stops:
            _LOG.error("%d traces were lost", self.lost)
        if self._stops:
            self._raise_failure()

    def finish(self) -> None:
        """Stop the thread after the rows in the queue. A garbage collector may call this at any point."""
        self._inbox.put(None)

    def fork(self) -> None:
        """Reset the writer in a forked child."""
        self._reset()
        if self.last > self.settled:
            words = "it was recorded before the process forked: its parent writes it"
            self._losses.append((self.settled + 1, self.last, StoreFailed(words, path="traces")))
            self.settled = self.last
        self.failed = self._forked() or self.failed

    # Runs in the thread

    def _run(self) -> None:
        inbox = self._inbox
        try:
            while (item := inbox.get()) is not None:
                batch, ended = self._collect(inbox, item)
                self._write(batch)
                if ended:
                    break
            self.check()
        finally:
            self.release()

    def _collect(self, inbox: "SimpleQueue[Item | None]", item: Item) -> tuple[list[Item], bool]:
        """Return the rows that have arrived, and True if the queue ends after them."""
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
        rows, refused = _build_rows(batch)
        indexes = list(rows)
        try:
            rejected_rows = self._commit(list(rows.values())) if rows else {}
            refused.update({indexes[index]: problem for index, problem in rejected_rows.items()})
        except Exception as problem:  # noqa: BLE001 - all who wait get the failure
            words = f"traces cannot be written: {first_line(problem)}"
            failure = problem if isinstance(problem, StoreFailed) else StoreFailed(words, path="traces")
            self._troubled = True
            self._settle(batch, {}, failure)
        else:
            self._troubled = False
            self._settle(batch, refused, None)

    def _commit(self, rows: list[dict[str, Any]]) -> dict[int, UserError]:
        """Commit rows. Retry transient errors for `patience` seconds."""
        until = time.monotonic() + (0.0 if self._troubled else self._patience)
        pause, tries = _PAUSE, 0
        while True:
            try:
                with self.commit_lock:
                    return self._committer.commit(rows, again=tries > 0)
            except Exception as problem:
                tries += 1
                doubled = isinstance(problem, IntegrityError) and tries < 3
                if not doubled and (not is_transient(problem) or time.monotonic() > until):
                    raise
                _LOG.info("a commit of traces is retried: %s", first_line(problem))
                if not doubled:
                    time.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)

    def _settle(self, batch: list[Item], refused: dict[int, UserError], failure: StoreFailed | None) -> None:
        first, last = batch[0][0], batch[-1][0]
        if failure is not None:
            _LOG.error("%d traces are lost: %s", len(batch), failure)
        with self._changed:
            if failure is not None:
                self.lost += len(batch)
                self._lose(first, last, failure)
                self.failed = failure if self._stops else None
            for index, problem in refused.items():
                self.lost += 1
                self._lose(batch[index][0], batch[index][0], problem)
                _LOG.error("a trace is rejected: %s", problem)
            self.settled = last
            self._changed.notify_all()
            waiters = [waiter for waiter in self._waiters if waiter[0] <= last]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > last]
        for _, loop, future in waiters:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, future)

    def _lose(self, first: int, last: int, problem: Exception) -> None:
        """Record which rows were lost. Adjacent ranges with the same reason are merged."""
        if self._losses:
            first_lost, last_lost, reason = self._losses[-1]
            if last_lost == first - 1 and str(reason) == str(problem):
                self._losses[-1] = (first_lost, last, reason)
                return
        self._losses.append((first, last, problem))


def _build_rows(batch: list[Item]) -> tuple[dict[int, dict[str, Any]], dict[int, UserError]]:
    """Return the rows of a batch by index, and the errors of those that cannot be built."""
    rows: dict[int, dict[str, Any]] = {}
    refused: dict[int, UserError] = {}
    for index, (_, row) in enumerate(batch):
        try:
            rows[index] = row() if callable(row) else row
        except Exception as problem:  # noqa: BLE001 - the other rows are still written
            refused[index] = UserError(f"cannot be made: {type(problem).__name__}", path="Trace")
    return rows, refused


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


_WRITERS: "weakref.WeakSet[Writer]" = weakref.WeakSet()
_FORK_SECONDS = 5.0


@functools.cache
def _install_hooks() -> None:
    """Make forks wait for commits, and close all stores at exit."""
    atexit.register(_at_exit)
    if hasattr(os, "register_at_fork"):
        locks: list[threading.Lock] = []
        os.register_at_fork(
            before=lambda: _before_fork(locks),
            after_in_parent=lambda: _release(locks),
            after_in_child=lambda: _after_fork(locks),
        )


def _before_fork(locks: list[threading.Lock]) -> None:
    """Wait for commits, and close idle connections, because no connection survives a fork."""
    for writer in list(_WRITERS):
        if writer.commit_lock.acquire(timeout=_FORK_SECONDS):
            locks.append(writer.commit_lock)
        writer.release()


def _release(locks: list[threading.Lock]) -> None:
    while locks:
        locks.pop().release()


def _after_fork(locks: list[threading.Lock]) -> None:
    _release(locks)
    for writer in list(_WRITERS):
        writer.fork()


def _at_exit() -> None:
    for writer in [one for one in _WRITERS if not one.closed]:
        try:
            writer.close(_EXIT_SECONDS)
        except StoreFailed as problem:
            _LOG.error("at the end of the process: %s", problem)
