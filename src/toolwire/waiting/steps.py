"""Work that may have to wait, written once for sync and async code: a generator yields steps, a driver performs them.

Rules of this file:
- A generator yields `Ask` (call this function) or `Together` (run these concurrently). The driver sends the value back,
  or throws the exception that was raised. The driver returns what the generator returns. `Emit` passes a value to the
  reader of a stream.
- In async code nothing blocks the event loop: a function that is not async runs in another thread.
- A function may raise an exception that would stop the program or the task, for instance a cancellation that nobody
  requested, or `GeneratorExit`. It is thrown as `Raised`. `KeyboardInterrupt` and the task's own cancellation are not.
- In sync code an awaitable is run to its end. If an event loop runs in this thread, another thread runs it. An
  awaitable that does not end when it is cancelled is abandoned in a thread of its own. A caller that must not block
  the running loop asks for an awaitable of the remaining steps instead (`run_or_await`).
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

from toolwire.waiting.threads import call_together, in_thread

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
# The seconds that cancelled work has to end before it is abandoned.
GRACE = 0.2
logger: logging.Logger = logging.getLogger("toolwire")


class Ask(Struct, frozen=True):
    """Call `function`. In async code, `awaited` is called instead, if it is set."""

    function: Callable[..., Any]
    arguments: Sequence[Any] = ()
    keywords: dict[str, Any] = {}
    awaited: Callable[..., Awaitable[Any]] | None = None


class Together(Struct, frozen=True):
    """Run `works` concurrently. The values come back in this order."""

    works: "Sequence[Work[Any]]"


class Emit(Struct, frozen=True):
    """Pass `value` to whoever reads the steps as a stream (`flow`). Without such a reader it is dropped."""

    value: Any


Work = Generator[Ask | Together | Emit, Any, T]


def run(steps: "Work[T]") -> T:
    """Perform the steps in sync code, and return their value."""
    return _run(steps, wait)


def run_or_await(steps: "Work[T]") -> T:
    """Perform the steps in sync code.

    In a running event loop, the first awaitable returns an awaitable of all that is left.
    """
    return _run(steps, None if is_loop_running() else wait)


class Abandoned(BaseException):
    """The reader of the stream has stopped. It is thrown at the steps, so that they release their resources."""


class Raised(Exception):
    """A function raised `error`, which would have stopped the program or the task."""

    def __init__(self, error: BaseException) -> None:
        message = ""
        with contextlib.suppress(BaseException):  # its `__str__` may raise as well
            message = str(error)
        super().__init__(f"{type(error).__name__}{f': {message}' if message else ''}")
        self.__cause__ = error


def _to_throw(problem: BaseException, *, cancelling: bool = False) -> BaseException:
    """Return the exception that is thrown at the steps for `problem`, which a function raised."""
    match problem:
        case Exception() | KeyboardInterrupt() | SystemExit() | Abandoned():
            return problem
        case BaseExceptionGroup() if problem.subgroup(KeyboardInterrupt) is not None:
            return problem
    return problem if cancelling else Raised(problem)


def _is_cancelled() -> bool:
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def flow(steps: "Work[T]") -> Generator[Any, None, T]:
    """Perform the steps in sync code, and yield what they emit."""
    try:
        step = next(steps)
        while True:
            try:
                value = (yield step.value) if type(step) is Emit else _perform_sync(step, wait)
            except GeneratorExit:
                with contextlib.suppress(StopIteration, Abandoned):
                    _continue_sync(steps, steps.throw(Abandoned()), wait)
                raise
            except BaseException as problem:  # noqa: BLE001 - the steps handle it
                step = steps.throw(_to_throw(problem))
            else:
                step = steps.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def aflow(steps: "Work[Any]") -> AsyncGenerator[Any, None]:
    """Perform the steps in async code, and yield what they emit."""
    try:
        step = next(steps)
        while True:
            try:
                value = (yield step.value) if type(step) is Emit else await _perform(step)
            except GeneratorExit:
                with contextlib.suppress(StopIteration, Abandoned):
                    await _perform_all(steps, steps.throw(Abandoned()))
                raise
            except BaseException as problem:  # noqa: BLE001 - the steps handle it
                step = steps.throw(_to_throw(problem, cancelling=_is_cancelled()))
            else:
                step = steps.send(value)
    except StopIteration:
        return


def handle_emits(steps: "Work[T]", handle: "Callable[[Any], Work[Any]]") -> "Work[T]":
    """Run the steps. `handle` answers each value that they emit, in steps of its own."""
    value: Any = None
    problem: BaseException | None = None
    while True:
        try:
            step = steps.send(value) if problem is None else steps.throw(problem)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        value = problem = None
        try:
            value = (yield from handle(step.value)) if type(step) is Emit else (yield step)
        except BaseException as raised:  # noqa: BLE001 - the steps handle it
            problem = raised


def filter_emits(steps: "Work[T]", pick: "Callable[[Any], Any]") -> "Work[T]":
    """Run the steps, and emit what `pick` returns for each value that they emit. None emits nothing."""
    answer: Any = None
    problem: BaseException | None = None
    while True:
        try:
            step = steps.send(answer) if problem is None else steps.throw(problem)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = problem = None
        if type(step) is Emit:
            value = pick(step.value)
            if value is None:
                continue
            step = step if value is step.value else Emit(value)
        try:
            answer = yield step
        except BaseException as raised:  # noqa: BLE001 - the steps handle it
            problem = raised


def _call(step: Ask | Together | Emit) -> Any:
    match step:
        case Ask(function, arguments, keywords):
            return function(*arguments, **keywords)
        case Together():
            return call_together([functools.partial(run, work) for work in step.works])
    return None


def _perform_sync(step: Ask | Together | Emit, finish: Callable[[Awaitable[Any]], Any]) -> Any:
    value = _call(step)
    return finish(value) if inspect.isawaitable(value) else value


def _run(steps: "Work[T]", finish: Callable[[Awaitable[Any]], Any] | None) -> T:
    try:
        return _continue_sync(steps, next(steps), finish)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _continue_sync(steps: "Work[T]", step: Ask | Together | Emit, finish: Callable[[Awaitable[Any]], Any] | None) -> T:
    try:
        while True:
            try:
                value = _call(step)
                if inspect.isawaitable(value):
                    if finish is None:
                        return _continue_async(steps, value)  # type: ignore[return-value]
                    value = finish(value)
            except BaseException as problem:  # noqa: BLE001 - the steps handle it
                step = steps.throw(_to_throw(problem))
            else:
                step = steps.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def arun(steps: "Work[T]") -> T:
    """Perform the steps in async code, and return their value."""
    try:
        return await _perform_all(steps, next(steps))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _continue_async(steps: "Work[T]", value: Awaitable[Any]) -> T:
    """Send the awaited `value` to the steps, and perform the remaining ones in async code."""

    async def awaited() -> Any:
        return await value

    return await _perform_all(steps, Ask(awaited))


async def _perform_all(steps: "Work[T]", step: Ask | Together | Emit) -> T:
    while True:
        try:
            value = await _perform(step)
        except BaseException as problem:  # noqa: BLE001 - the steps handle it
            failed: BaseException | None = _to_throw(problem, cancelling=_is_cancelled())
        else:
            failed = None
        try:
            step = steps.send(value) if failed is None else steps.throw(failed)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def _perform(step: Ask | Together | Emit) -> Any:
    """Perform one step without blocking the event loop."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    if type(step) is not Ask:
        return await asyncio.gather(*map(arun, step.works)) if type(step) is Together else None
    function = step.awaited or step.function
    if step.awaited is not None or is_async(function):
        return await function(*step.arguments, **step.keywords)
    value = await in_thread(functools.partial(_call, step))
    return await value if inspect.isawaitable(value) else value


def is_async(function: Any) -> bool:
    """Return True if calling `function` returns a coroutine."""
    while hasattr(function, "func"):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return inspect.iscoroutinefunction(function)
    return inspect.iscoroutinefunction(type(function).__call__)


def count_positional(function: Callable[..., Any]) -> float:
    """Return how many positional arguments `function` accepts; infinity if it is unknown or unlimited."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return float("inf")
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return float("inf")
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


@contextlib.contextmanager
def stop_future(stop: Any) -> Iterator["asyncio.Future[None]"]:
    """Return a context with a future of the running event loop that is done once `stop` is called, from any thread.

    `stop` has `telling`, as `toolwire.Cancel` has. If it is None, the future is never done.
    """
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()

    def on_stop() -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(lambda: None if stopped.done() else stopped.set_result(None))

    with contextlib.nullcontext() if stop is None else stop.telling(on_stop):
        yield stopped
    stopped.cancel()


def is_loop_running() -> bool:
    """Return True if an event loop runs in this thread."""
    asyncio = sys.modules.get("asyncio")  # unless it has been imported, no loop can run
    # The public `get_running_loop` raises without a loop, which is slower.
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001


def wait(awaitable: Awaitable[T]) -> T:
    """Run `awaitable` to its end in a new event loop, and return its value."""
    if not is_loop_running():
        return _run_in_new_loop(awaitable)
    [value] = call_together([lambda: _run_in_new_loop(awaitable)])
    return value  # type: ignore[no-any-return]


def _run_in_new_loop(awaitable: Awaitable[T]) -> T:
    import asyncio  # noqa: PLC0415 - only async code needs it

    async def main() -> T:
        return await awaitable

    runner = asyncio.Runner()
    try:
        return runner.run(main())
    finally:
        _close_loop(runner)


def _close_loop(runner: Any) -> None:
    """Close the runner's event loop. If a task in it does not end, a thread closes it when the task has ended."""
    import asyncio  # noqa: PLC0415 - the runner has imported it

    loop = runner.get_loop()
    pending = [task for task in asyncio.all_tasks(loop) if not task.done()]
    for task in pending:
        task.cancel()
    if pending:
        runner.run(asyncio.wait(pending, timeout=GRACE))
    ended = all(task.done() for task in pending)
    if ended and getattr(loop, "_default_executor", None) is None:
        runner.close()
        return
    closing = threading.Thread(target=runner.close, name="toolwire left behind", daemon=True)
    closing.start()
    if ended:  # closing waits for the threads that were started in it
        closing.join(GRACE)
