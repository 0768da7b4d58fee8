"""Functions in threads, so that one that waits or hangs blocks nobody else.

Rules of this file:
- A thread that is done waits a moment for the next function, and ends if none comes.
- A thread that hangs can be left behind, never killed. It dies with the process, which no thread keeps alive.
- Their number is bounded: beyond it a call is refused, it does not wait.
- A function runs in the context (`contextvars`) of who called it, in a copy of its own.
- In a forked process no thread of its parent is believed to exist.
"""

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

_Settled = tuple[Any, BaseException | None]
_Tell = Callable[[_Settled], None]
MAX_THREADS = 256
PATIENCE = 2.0


class TooManyThreads(RuntimeError):
    """So many calls hang that no thread is begun for another one."""


class _Worker:
    """What a thread does next, and the lock that it waits at until something is given."""

    __slots__ = ("call", "context", "tell", "wake")

    call: Callable[[], Any]
    context: contextvars.Context
    tell: _Tell

    def __init__(self) -> None:
        self.wake = threading.Lock()
        self.wake.acquire()

    def take(self) -> tuple[contextvars.Context, Callable[[], Any], _Tell]:
        """Take what was given, and keep nothing of it."""
        work = self.context, self.call, self.tell
        del self.context, self.call, self.tell
        return work


class _Pool:
    """The threads of this process. The idle ones are a stack: who was busy last is asked first."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, without threads."""
        self._lock = threading.Lock()
        self._alive: set[_Worker] = set()
        self._idle: list[_Worker] = []

    def begin(self, call: Callable[[], Any], tell: _Tell) -> None:
        """Call a function in the context of here, in a thread that is idle or new; it tells the outcome."""
        context = contextvars.copy_context()
        with self._lock:
            idle = bool(self._idle)
            worker = self._idle.pop() if idle else self._grow()
        worker.context, worker.call, worker.tell = context, call, tell
        worker.wake.release()
        if idle:
            return
        try:
            threading.Thread(target=self._live, args=(worker,), name="toolwire", daemon=True).start()
        except BaseException:
            self._alive.discard(worker)
            raise

    def _grow(self) -> _Worker:
        if len(self._alive) >= MAX_THREADS:
            raise TooManyThreads(f"{MAX_THREADS} calls are running or hang: no thread is left for another one")
        worker = _Worker()
        self._alive.add(worker)
        return worker

    def _live(self, worker: _Worker) -> None:
        while worker.wake.acquire(timeout=PATIENCE) or self._is_given_more(worker):
            self._serve(worker)

    def _serve(self, worker: _Worker) -> None:
        """Do what was given. The thread is idle before the outcome is told: who asks again then finds it."""
        context, call, tell = worker.take()
        outcome = context.run(_outcome, call)
        with self._lock:
            self._idle.append(worker)
        tell(outcome)

    def _is_given_more(self, worker: _Worker) -> bool:
        """Leave; who took the worker from the stack in this moment is about to give it something."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                self._alive.discard(worker)
                return False
        return worker.wake.acquire()


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def _outcome(function: Callable[[], Any]) -> _Settled:
    try:
        return function(), None
    except BaseException as problem:  # noqa: BLE001 - it is raised where the outcome is wanted
        return None, problem


# Functions that nobody awaits any more, by whether they have ended: for who asks in the context of the await.
abandoned: contextvars.ContextVar[list[threading.Event] | None] = contextvars.ContextVar("abandoned", default=None)


async def in_thread(function: Callable[[], Any]) -> Any:
    """Call a function in a thread, and await what it gives."""
    import asyncio  # noqa: PLC0415 - it runs already, or nobody could wait for this

    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Settled] = loop.create_future()
    ended = threading.Event()

    def settle(outcome: _Settled) -> None:
        if not future.done():
            future.set_result(outcome)

    def tell(outcome: _Settled) -> None:
        ended.set()
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    _pool.begin(function, tell)
    try:
        value, problem = await future
    except asyncio.CancelledError:
        if (left := abandoned.get()) is not None:
            left.append(ended)
        raise
    if problem is not None:
        raise problem
    return value


def call_together(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call functions at the same time, and wait for all; the first problem is raised when they are done."""
    settled: dict[int, _Settled] = {}
    done = threading.Semaphore(0)

    def begin(index: int) -> None:
        def tell(outcome: _Settled) -> None:
            settled[index] = outcome
            done.release()

        _pool.begin(functions[index], tell)

    for index in range(len(functions)):
        begin(index)
    for _ in functions:
        done.acquire()
    outcomes = [settled[index] for index in range(len(functions))]
    for _, problem in outcomes:
        if problem is not None:
            raise problem
    return [value for value, _ in outcomes]
