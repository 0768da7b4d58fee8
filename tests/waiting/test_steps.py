"""Work that may wait, written once: the same steps in sync code, in async code, and in a loop inside."""

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.waiting.steps import Ask, Together, Work, arun, count_positional, is_async, run, run_or_await, stop_future

MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


def double(number: int) -> int:
    return number * 2


class Doubling:
    def __call__(self, number: int) -> Any:
        return adouble(number)


async def adouble(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


def fail(problem: BaseException) -> None:
    raise problem


async def afail(problem: BaseException) -> None:
    raise problem


def adding(function: Callable[..., Any], *numbers: int) -> Work[int]:
    total = 0
    for number in numbers:
        total += yield Ask(function, (number,))
    return total


def catching(function: Callable[..., Any], problem: BaseException) -> Work[str]:
    try:
        yield Ask(function, (problem,))
    except BaseException as caught:  # noqa: BLE001 - whatever it is
        return f"caught {type(caught).__name__}"
    return "nothing"


def in_loop(make: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return await arun(make())

    return asyncio.run(main())


@pytest.mark.parametrize("drive", [lambda make: run(make()), lambda make: run_or_await(make()), in_loop])
@pytest.mark.parametrize("function", [double, adouble, functools.partial(adouble), Doubling()])
def test_steps_are_done_in_sync_and_in_async_code(drive: Any, function: Any) -> None:
    assert drive(lambda: adding(function, 1, 2, 3)) == 12
    assert drive(lambda: adding(function)) == 0


@pytest.mark.parametrize("function", [fail, afail])
@pytest.mark.parametrize("problem", [ValueError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_what_is_raised_is_thrown_at_the_steps(function: Any, problem: BaseException) -> None:
    # What would stop the task, had it gone through, comes as an exception that says so.
    name = "Raised" if isinstance(problem, GeneratorExit) else type(problem).__name__
    assert run(catching(function, problem)) == f"caught {name}"
    if not isinstance(problem, SystemExit | KeyboardInterrupt) or function is fail:
        assert in_loop(lambda: catching(function, problem)) == f"caught {name}"


def test_what_the_steps_do_not_catch_is_raised() -> None:
    for drive in (lambda make: run(make()), in_loop):
        with pytest.raises(ValueError, match="x"):
            drive(lambda: adding(lambda _: fail(ValueError("x")), 1))


def test_in_a_running_loop_an_answer_may_be_awaited() -> None:
    async def main() -> tuple[Any, Any]:
        waiting: Any = run_or_await(adding(adouble, 1, 2))
        return run_or_await(adding(double, 1, 2)), await waiting

    assert asyncio.run(main()) == (6, 6)


def test_in_a_running_loop_sync_code_waits_in_a_thread() -> None:
    async def main() -> int:
        return run(adding(adouble, 1, 2))

    assert asyncio.run(main()) == 6


def together(function: Callable[..., Any]) -> Work[list[int]]:
    return (yield Together([adding(function, number) for number in range(5)]))  # type: ignore[no-any-return]


@pytest.mark.parametrize("function", [double, adouble])
def test_works_together_keep_their_order(function: Any) -> None:
    assert run(together(function)) == [0, 2, 4, 6, 8]
    assert in_loop(lambda: together(function)) == [0, 2, 4, 6, 8]


def test_a_problem_of_one_work_is_raised_when_all_are_done() -> None:
    done = []

    def work(number: int) -> int:
        if number == 1:
            raise ValueError("one")
        done.append(number)
        return number

    with pytest.raises(ValueError, match="one"):
        run(together(work))
    assert sorted(done) == [0, 2, 3, 4]


def test_threads_see_the_context_of_their_caller() -> None:
    MARK.set("mine")
    seen = in_loop(lambda: adding(lambda _: len(MARK.get()), 1))
    assert seen == len("mine")
    assert run(together(lambda _: len(MARK.get()))) == [4] * 5


def test_what_is_not_async_runs_in_a_thread_of_its_own_in_async_code() -> None:
    here = threading.get_ident()
    seen = []

    def note(number: int) -> int:
        seen.append(threading.get_ident())
        return number

    run(adding(note, 1))
    in_loop(lambda: adding(note, 1))
    assert seen[0] == here
    assert seen[1] != here


def keyed(one: int, two: int = 1, *, three: int = 2) -> int:
    return one + two + three


class Callee:
    async def __call__(self, number: int) -> int:
        return number * 2

    async def method(self, number: int) -> int:
        return number * 2


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (double, False),
        (adouble, True),
        (functools.partial(functools.partial(adouble), 1), True),
        (Callee(), True),
        (Callee().method, True),
        (print, False),
        (Callee, False),
    ],
)
def test_what_is_async_is_known(function: Any, wanted: bool) -> None:
    assert is_async(function) is wanted


@pytest.mark.parametrize(
    ("function", "places"),
    [
        (double, 1),
        (lambda: None, 0),
        (keyed, 2),
        (print, float("inf")),
        (Callee().method, 1),
    ],
)
def test_places_are_counted(function: Any, places: float) -> None:
    assert count_positional(function) == places


def test_a_stop_that_comes_when_the_loop_is_closed_is_told_to_nobody() -> None:
    class Stop:
        def telling(self, listener: Callable[[], None]) -> Any:
            tell.append(listener)
            return contextlib.nullcontext()

    tell: list[Callable[[], None]] = []

    async def main() -> None:
        with stop_future(Stop()) as stopped:
            assert not stopped.done()

    asyncio.run(main())
    tell[0]()
