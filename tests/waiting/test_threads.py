"""Threads are used again when they are done, left behind when they hang, and gone when nobody needs them."""

import asyncio
import contextlib
import contextvars
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.waiting import threads
from toolwire.waiting.threads import TooManyThreads, call_together, in_thread

MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> threads._Pool:
    """Give threads to this test alone."""
    pool = threads._Pool()
    monkeypatch.setattr(threads, "_pool", pool)
    return pool


def becomes(holds: Callable[[], bool], seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)
    return holds()


def one_after_the_other(function: Callable[[], Any], times: int) -> list[Any]:
    async def main() -> list[Any]:
        return [await in_thread(function) for _ in range(times)]

    return asyncio.run(main())


def test_a_thread_that_is_done_is_used_again(pool: threads._Pool) -> None:
    assert len(set(one_after_the_other(threading.get_ident, 200))) == 1
    [other] = set(one_after_the_other(threading.current_thread, 5))
    assert other.daemon
    assert len(pool._alive) == 1, "another loop uses it too"


def test_a_thread_that_hangs_is_left_behind(pool: threads._Pool) -> None:
    release = threading.Event()
    hanging: list[int] = []

    def hang() -> None:
        hanging.append(threading.get_ident())
        release.wait()

    async def main() -> set[int]:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(in_thread(hang), 0.02)
        return {await in_thread(threading.get_ident) for _ in range(20)}

    try:
        [others] = [asyncio.run(main())]
        assert len(others) == 1
        assert not others & set(hanging)
        assert len(pool._alive) == 2
    finally:
        release.set()
    assert becomes(lambda: len(pool._idle) == 2), "what goes on at last is used again"


def test_an_idle_thread_ends(pool: threads._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.2)
    begun = time.monotonic()
    [thread] = one_after_the_other(threading.current_thread, 1)
    thread.join(20)
    assert not thread.is_alive()
    assert time.monotonic() - begun >= 0.2, "it waits for more work"
    assert (pool._alive, pool._idle) == (set(), [])


def test_work_is_not_lost_to_a_thread_that_is_leaving(pool: threads._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.0001)
    seen: set[threading.Thread] = set()

    async def main() -> None:
        for number in range(100):
            seen.add(await asyncio.wait_for(in_thread(threading.current_thread), 10))
            await asyncio.sleep(0.0001 * (number % 3))

    asyncio.run(main())
    assert len(seen) > 1, "a control: some had left"
    assert becomes(lambda: not pool._alive)


def test_a_context_is_that_of_the_caller_and_no_other(pool: threads._Pool) -> None:
    def mark() -> str:
        before = MARK.get()
        MARK.set("of a function")
        return before

    async def main() -> list[str]:
        first = await in_thread(mark)
        MARK.set("of the caller")
        return [first, await in_thread(mark), await in_thread(mark)]

    assert asyncio.run(main()) == ["none", "of the caller", "of the caller"]
    assert len(pool._alive) == 1


def test_an_idle_thread_keeps_nothing(pool: threads._Pool) -> None:
    class Value:
        def __call__(self) -> "Value":
            return self

    async def main() -> weakref.ref[Value]:
        value = Value()
        assert await in_thread(value) is value
        return weakref.ref(value)

    found = asyncio.run(main())
    assert becomes(lambda: found() is None, 0.1)
    assert len(pool._idle) == 1, "a control: it is idle"


def test_functions_are_called_at_the_same_time_and_told_in_order(pool: threads._Pool) -> None:
    barrier = threading.Barrier(3, timeout=5)

    def meet(number: int) -> int:
        barrier.wait()
        return number

    assert call_together([lambda: meet(1), lambda: meet(2), lambda: meet(3)]) == [1, 2, 3]
    assert call_together([]) == []
    assert len(pool._alive) == 3


@pytest.mark.parametrize("problem", [ValueError("x"), KeyboardInterrupt(), SystemExit(1)])
def test_what_is_raised_is_raised_here_and_costs_no_thread(pool: threads._Pool, problem: BaseException) -> None:
    def fail() -> None:
        raise problem

    with pytest.raises(type(problem)) as raised:
        one_after_the_other(fail, 1)
    with pytest.raises(type(problem)) as found:
        call_together([fail, lambda: 1])
    assert found.value is raised.value is problem
    assert becomes(lambda: len(pool._idle) == len(pool._alive) == 2)


def test_a_loop_that_was_closed_costs_no_thread(pool: threads._Pool) -> None:
    release = threading.Event()

    async def main() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(in_thread(release.wait), 0.01)

    asyncio.run(main())
    release.set()
    assert becomes(lambda: len(pool._idle) == 1)


def test_a_thread_that_cannot_begin_leaves_its_place(pool: threads._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            call_together([lambda: 1])
    assert not pool._alive
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    release = threading.Event()
    with pytest.raises(TooManyThreads):
        call_together([release.wait, lambda: 1])
    release.set()


FORKED = """
import os, threading
from toolwire.waiting.threads import call_together
assert call_together([threading.get_ident] * 3)
hangs = threading.Thread(target=lambda: call_together([threading.Event().wait]), daemon=True)
hangs.start()
child = os.fork()
if child == 0:
    os._exit(7 if call_together([lambda: 3, lambda: 4]) == [3, 4] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_threads_of_its_own_and_no_thread_keeps_a_process_alive() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
