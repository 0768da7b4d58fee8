"""Calls in threads, so that a function that waits or hangs blocks nothing else.

Rules of this file:
- A thread that finishes waits for the next function for `PATIENCE` seconds, then it ends.
- A thread that hangs cannot be killed. It is abandoned, and dies with the process, because all threads are daemons.
- There are at most `MAX_THREADS` threads. Further calls raise `TooManyThreads`; they do not wait.
- A function runs in a copy of its caller's context (`contextvars`).
- A forked child process starts without threads.
"""

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

_Outcome = tuple[Any, BaseException | None]
_Callback = Callable[[_Outcome], None]
MAX_THREADS = 256
PATIENCE = 2.0


class TooManyThreads(RuntimeError):
    """`MAX_THREADS` calls are running or hang, so that no thread is left for another one."""


class _Worker:
    """A thread's next call, and the lock on which the thread waits for it."""

    __slots__ = ("call", "context", "on_outcome", "wake")

    call: Callable[[], Any]
    context: contextvars.Context
    on_outcome: _Callback

    def __init__(self) -> None:
        self.wake = threading.Lock()
        self.wake.acquire()

    def take(self) -> tuple[contextvars.Context, Callable[[], Any], _Callback]:
        """Return the next call and drop the references to it."""
        work = self.context, self.call, self.on_outcome
        del self.context, self.call, self.on_outcome
        return work


class _Pool:
    """The threads of this process. The idle ones are a stack: the thread that finished last is used first."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset the pool to no threads."""
        self._lock = threading.Lock()
        self._alive: set[_Worker] = set()
        self._idle: list[_Worker] = []

    def start(self, call: Callable[[], Any], on_outcome: _Callback) -> None:
        """Call `call` in an idle or new thread, in a copy of the current context.

        The thread passes the outcome to `on_outcome`.
        """
        context = contextvars.copy_context()
        with self._lock:
            is_idle = bool(self._idle)
            worker = self._idle.pop() if is_idle else self._grow()
        worker.context, worker.call, worker.on_outcome = context, call, on_outcome
        worker.wake.release()
        if is_idle:
            return
        try:
            threading.Thread(target=self._work, args=(worker,), name="toolwire", daemon=True).start()
        except BaseException:
            self._alive.discard(worker)
            raise

    def _grow(self) -> _Worker:
        if len(self._alive) >= MAX_THREADS:
            raise TooManyThreads(f"{MAX_THREADS} calls are running or hang: no thread is left for another one")
        worker = _Worker()
        self._alive.add(worker)
        return worker

    def _work(self, worker: _Worker) -> None:
        while worker.wake.acquire(timeout=PATIENCE) or self._accepts_more(worker):
            self._call(worker)

    def _call(self, worker: _Worker) -> None:
        """Call the worker's function.

        The thread becomes idle before it reports the outcome, so that the next call can reuse it.
        """
        context, call, on_outcome = worker.take()
        outcome = context.run(_outcome, call)
        with self._lock:
            self._idle.append(worker)
        on_outcome(outcome)

    def _accepts_more(self, worker: _Worker) -> bool:
        """Return True if a caller has just taken `worker`, and wait for its function.

        Else remove `worker` from the pool.
        """
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                self._alive.discard(worker)
                return False
        return worker.wake.acquire()


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def _outcome(function: Callable[[], Any]) -> _Outcome:
    try:
        return function(), None
    except BaseException as problem:  # noqa: BLE001 - the caller raises it
        return None, problem


# Set it to a list to collect an event for each function whose await is cancelled. A function's event is set when the
# function ends.
abandoned: contextvars.ContextVar[list[threading.Event] | None] = contextvars.ContextVar("abandoned", default=None)


async def in_thread(function: Callable[[], Any]) -> Any:
    """Call `function` in a thread, and await its value. A cancelled await abandons the thread."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Outcome] = loop.create_future()
    ended = threading.Event()

    def set_outcome(outcome: _Outcome) -> None:
        if not future.done():
            future.set_result(outcome)

    def on_outcome(outcome: _Outcome) -> None:
        ended.set()
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(set_outcome, outcome)

    _pool.start(function, on_outcome)
    try:
        value, problem = await future
    except asyncio.CancelledError:
        if (events := abandoned.get()) is not None:
            events.append(ended)
        raise
    if problem is not None:
        raise problem
    return value


def call_together(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call `functions` concurrently, wait for all, and return their values in order.

    Raise the first exception, if any.
    """
    outcomes_by_index: dict[int, _Outcome] = {}
    done = threading.Semaphore(0)

    def start(index: int) -> None:
        def on_outcome(outcome: _Outcome) -> None:
            outcomes_by_index[index] = outcome
            done.release()

        _pool.start(functions[index], on_outcome)

    for index in range(len(functions)):
        start(index)
    for _ in functions:
        done.acquire()
    outcomes = [outcomes_by_index[index] for index in range(len(functions))]
    for _, problem in outcomes:
        if problem is not None:
            raise problem
    return [value for value, _ in outcomes]
