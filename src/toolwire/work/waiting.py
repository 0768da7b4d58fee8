"""Work that may wait, written once for sync and async code: a generator says what it needs, a driver does it.

Rules of this file:
- A generator yields `Ask` (call this) or `Together` (do these at the same time), and gets the value back, or
  the exception thrown at it. What it returns is what the driver gives. `Emit` is for those who read a stream.
- In async code nothing blocks the event loop: a function that is not async runs in another thread.
- What a function raises that would stop the program or the task, had it gone through (a cancellation that nobody
  asked for, a `GeneratorExit`), is thrown as `Raised`. `KeyboardInterrupt` and the task's own cancellation are not.
- In sync code what is async is run to its end, in another thread where a loop is running in this one. What does not
  end when it is cancelled is left behind, and goes on in a thread of its own.
  Who must not block that loop asks for an awaitable of the rest instead (`answer`).
"""

import contextlib
import functools
import inspect
import logging
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from toolwire.work.threads import call_together, in_thread

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
# Seconds for what was cancelled to end, before it is left behind.
GRACE = 0.2
logger: logging.Logger = logging.getLogger("toolwire")


class Ask(Struct, frozen=True):
    """Call this; `awaited` is the async way to the same, taken in async code."""

    function: Callable[..., Any]
    arguments: Sequence[Any] = ()
    keywords: dict[str, Any] = {}
    awaited: Callable[..., Awaitable[Any]] | None = None


class Together(Struct, frozen=True):
    """Do these at the same time; the values come back in this order."""

    works: "Sequence[Work[Any]]"


class Emit(Struct, frozen=True):
    """Give this to whoever reads the steps as a stream (`flow`); elsewhere it goes nowhere."""

    value: Any


Work = Generator[Ask | Together | Emit, Any, T]


def run(steps: "Work[T]") -> T:
    """Do the steps in sync code."""
    return _run(steps, wait)


def answer(steps: "Work[T]") -> T:
    """Do the steps in sync code; in a running event loop, what is async gives an awaitable of the rest."""
    return _run(steps, None if is_loop_running() else wait)


class Abandoned(BaseException):
    """Nobody reads on: thrown at the steps, so that they let go of what they hold."""


class Raised(Exception):
    """A function raised what would stop the program, or the task, had it gone through."""

    def __init__(self, problem: BaseException) -> None:
        words = ""
        with contextlib.suppress(BaseException):  # of what it says, it may raise as well
            words = str(problem)
        super().__init__(f"{type(problem).__name__}{f': {words}' if words else ''}")
        self.__cause__ = problem


def _thrown(problem: BaseException, *, cancelling: bool = False) -> BaseException:
    """Give what is thrown at the steps for what a function raised."""
    match problem:
        case Exception() | KeyboardInterrupt() | SystemExit() | Abandoned():
            return problem
        case BaseExceptionGroup() if problem.subgroup(KeyboardInterrupt) is not None:
            return problem
    return problem if cancelling else Raised(problem)


def _is_cancelled() -> bool:
    import asyncio  # noqa: PLC0415 - it runs already

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def flow(steps: "Work[T]") -> Generator[Any, None, T]:
    """Do the steps in sync code, and give what they emit."""
    try:
        step = next(steps)
        while True:
            try:
                value = (yield step.value) if type(step) is Emit else _done(step, wait)
            except GeneratorExit:
                with contextlib.suppress(StopIteration, Abandoned):
                    _go(steps, steps.throw(Abandoned()), wait)
                raise
            except BaseException as problem:  # noqa: BLE001 - it is thrown at the steps, which say what to do
                step = steps.throw(_thrown(problem))
            else:
                step = steps.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def aflow(steps: "Work[Any]") -> AsyncGenerator[Any, None]:
    """Do the steps in async code, and give what they emit."""
    try:
        step = next(steps)
        while True:
            try:
                value = (yield step.value) if type(step) is Emit else await _perform(step)
            except GeneratorExit:
                with contextlib.suppress(StopIteration, Abandoned):
                    await _do(steps, steps.throw(Abandoned()))
                raise
            except BaseException as problem:  # noqa: BLE001 - it is thrown at the steps, which say what to do
                step = steps.throw(_thrown(problem, cancelling=_is_cancelled()))
            else:
                step = steps.send(value)
    except StopIteration:
        return


def through(steps: "Work[T]", tell: "Callable[[Any], Work[Any]]") -> "Work[T]":
    """Do the steps, and let `tell` say what is done in the place of each thing that they emit."""
    value: Any = None
    problem: BaseException | None = None
    while True:
        try:
            step = steps.send(value) if problem is None else steps.throw(problem)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        value = problem = None
        try:
            value = (yield from tell(step.value)) if type(step) is Emit else (yield step)
        except BaseException as raised:  # noqa: BLE001 - it is thrown at the steps, which say what to do
            problem = raised


def picking(steps: "Work[T]", pick: "Callable[[Any], Any]") -> "Work[T]":
    """Do the steps, and emit what `pick` makes of each thing that they emit; None is left out."""
    given: Any = None
    problem: BaseException | None = None
    while True:
        try:
            step = steps.send(given) if problem is None else steps.throw(problem)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        given = problem = None
        if type(step) is Emit:
            value = pick(step.value)
            if value is None:
                continue
            step = step if value is step.value else Emit(value)
        try:
            given = yield step
        except BaseException as raised:  # noqa: BLE001 - it is thrown at the steps, which say what to do
            problem = raised


def _call(step: Ask | Together | Emit) -> Any:
    match step:
        case Ask(function, arguments, keywords):
            return function(*arguments, **keywords)
        case Together():
            return call_together([functools.partial(run, work) for work in step.works])
    return None


def _done(step: Ask | Together | Emit, finish: Callable[[Awaitable[Any]], Any]) -> Any:
    value = _call(step)
    return finish(value) if inspect.isawaitable(value) else value


def _run(steps: "Work[T]", finish: Callable[[Awaitable[Any]], Any] | None) -> T:
    try:
        return _go(steps, next(steps), finish)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _go(steps: "Work[T]", step: Ask | Together | Emit, finish: Callable[[Awaitable[Any]], Any] | None) -> T:
    try:
        while True:
            try:
                value = _call(step)
                if inspect.isawaitable(value):
                    if finish is None:
                        return _go_on(steps, value)  # type: ignore[return-value]
                    value = finish(value)
            except BaseException as problem:  # noqa: BLE001 - it is thrown at the steps, which say what to do
                step = steps.throw(_thrown(problem))
            else:
                step = steps.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def arun(steps: "Work[T]") -> T:
    """Do the steps in async code."""
    try:
        return await _do(steps, next(steps))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _go_on(steps: "Work[T]", value: Awaitable[Any]) -> T:
    """Do the rest of the steps in async code, after this value."""

    async def given() -> Any:
        return await value

    return await _do(steps, Ask(given))


async def _do(steps: "Work[T]", step: Ask | Together | Emit) -> T:
    while True:
        try:
            value = await _perform(step)
        except BaseException as problem:  # noqa: BLE001 - it is thrown at the steps, which say what to do
            failed: BaseException | None = _thrown(problem, cancelling=_is_cancelled())
        else:
            failed = None
        try:
            step = steps.send(value) if failed is None else steps.throw(failed)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def _perform(step: Ask | Together | Emit) -> Any:
    """Do one step without blocking the event loop."""
    import asyncio  # noqa: PLC0415 - it runs already

    if type(step) is not Ask:
        return await asyncio.gather(*map(arun, step.works)) if type(step) is Together else None
    function = step.awaited or step.function
    if step.awaited is not None or is_async(function):
        return await function(*step.arguments, **step.keywords)
    value = await in_thread(functools.partial(_call, step))
    return await value if inspect.isawaitable(value) else value


def is_async(function: Any) -> bool:
    """Whether calling this gives a coroutine."""
    while hasattr(function, "func"):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return inspect.iscoroutinefunction(function)
    return inspect.iscoroutinefunction(type(function).__call__)


def places_of(function: Callable[..., Any]) -> float:
    """Count the arguments that a function takes by place; it is any number where nobody can know."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return float("inf")
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return float("inf")
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


@contextlib.contextmanager
def stop_future(stop: Any) -> Iterator["asyncio.Future[None]"]:
    """Give a future of the running event loop that is done when somebody says stop, from whichever thread.

    `stop` has `telling`, as `toolwire.Cancel` has; where it is None, the future is never done.
    """
    import asyncio  # noqa: PLC0415 - it runs already

    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(lambda: None if stopped.done() else stopped.set_result(None))

    with contextlib.nullcontext() if stop is None else stop.telling(tell):
        yield stopped
    stopped.cancel()


def is_loop_running() -> bool:
    """Whether an event loop runs in this thread."""
    asyncio = sys.modules.get("asyncio")  # where nobody has imported it, none can run
    # The public function raises, which costs more.
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001


def wait(awaitable: Awaitable[T]) -> T:
    """Run an awaitable to its end, in an event loop of its own."""
    if not is_loop_running():
        return _run_apart(awaitable)
    [value] = call_together([lambda: _run_apart(awaitable)])
    return value  # type: ignore[no-any-return]


def _run_apart(awaitable: Awaitable[T]) -> T:
    import asyncio  # noqa: PLC0415 - only what is async needs it

    async def main() -> T:
        return await awaitable

    runner = asyncio.Runner()
    try:
        return runner.run(main())
    finally:
        _let_go(runner)


def _let_go(runner: Any) -> None:
    """Close an event loop; where something in it does not end, that is done by a thread, when it has ended."""
    import asyncio  # noqa: PLC0415 - the runner is of it

    loop = runner.get_loop()
    left = [task for task in asyncio.all_tasks(loop) if not task.done()]
    for task in left:
        task.cancel()
    if left:
        runner.run(asyncio.wait(left, timeout=GRACE))
    ended = all(task.done() for task in left)
    if ended and getattr(loop, "_default_executor", None) is None:
        runner.close()
        return
    closing = threading.Thread(target=runner.close, name="toolwire left behind", daemon=True)
    closing.start()
    if ended:  # of threads that were begun in it, closing waits for the end
        closing.join(GRACE)
