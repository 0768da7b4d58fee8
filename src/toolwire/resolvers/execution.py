"""Runs the calls of a turn: exactly one result for each, in their order, whatever happens.

Rules of this file:
- Calls of tools that say `parallel` run together with their neighbours that say so too; every other call runs
  alone, in its place.
- A call that came broken, whose id another call has, whose tool is not there, that takes too long, or that
  comes after the limit, is not run to its end: its result says why.
- A tool that does not end when it is cancelled is left behind: its result says so, and so does the log.
- A result that is too long is cut, and says so. What stops the program, or the task, goes through.
"""

import asyncio
import contextlib
import inspect
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidField, UnknownTool
from toolwire.resolvers.protocol import AnyResolver, fields_of, resolver_of, resolving
from toolwire.resolvers.recipes import dispatching
from toolwire.streams.settling import without_nulls
from toolwire.types import Part, Text, Tool, ToolCall, ToolResult
from toolwire.waiting.results import (
    FAILED,
    CallEnding,
    CallNote,
    CallRecord,
    Ran,
    error_result,
    failure,
    invalid,
    result_of_answer,
)
from toolwire.waiting.steps import GRACE, Ask, Emit, Work, arun, run, stop_future, wait
from toolwire.waiting.threads import abandoned

# Seconds after which it is looked again whether somebody has approved a call, at the least.
_SOON = 0.05
_STOPPED = "cancelled before it was done; it may have run"
_UNBEGUN = "not run: everything was cancelled before"
_UNAPPROVED = "not run: nobody had approved it when everything was stopped"


class Cancel:
    """Stops calls that run, from any thread: call the object, or `cancel()`. The calls get results that say so."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Stop."""
        with self._lock:
            self._event.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def cancel(self) -> None:
        """Stop the calls; the same as calling the object."""
        self()

    def is_set(self) -> bool:
        """Whether it was stopped."""
        return self._event.is_set()

    @contextlib.contextmanager
    def telling(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call a listener when it stops, while the `with` lasts."""
        with self._lock:
            stopped = self._event.is_set()
            if not stopped:
                self._listeners.append(listener)
        if stopped:
            listener()
        try:
            yield
        finally:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)


class Limits(Struct, frozen=True):
    """How calls run, unless their tools declare limits of their own: `timeout` in seconds, `output` in characters."""

    timeout: float | None = None
    output: int = 100_000
    calls: int = 128
    parallel: int = 16


class LimitOptions(TypedDict, total=False):
    """The fields of `Limits`, one by one."""

    timeout: float | None
    """The seconds that a call may take."""
    output: int
    """The characters that a result may have; the rest is cut."""
    calls: int
    """How many calls a turn may have."""
    parallel: int
    """How many calls may run at the same time."""


_USUAL = Limits()
logger: logging.Logger = logging.getLogger("toolwire")


class _Job(Struct, frozen=True):
    """One call, how it is run, and its result if it is known without running it."""

    call: ToolCall
    parallel: bool
    timeout: float | None
    output: int
    result: ToolResult | None


def _jobs_of(calls: list[ToolCall], resolve: Any, tools: Iterable[Tool] | None, limits: Limits) -> list[_Job]:
    """Say how each call is run; tools that nobody gave are those of what resolves the calls."""
    if tools is None:
        listed = getattr(resolve, "available_tools", None)
        tools = listed() if callable(listed) else ()
    known: dict[str, Tool] = {}
    for tool in tools:
        known.setdefault(tool.name, tool)
    ids = Counter(call.id for call in calls if call.id is not None) if len(calls) > 1 else {}
    return [
        _job_of(call, known.get(call.name), limits, refusal=_refusal(call, index, ids, limits))
        for index, call in enumerate(calls)
    ]


def _refusal(call: ToolCall, index: int, ids: dict[str, int], limits: Limits) -> ToolResult | None:
    if index >= limits.calls:
        return failure(call, f"not run: a turn may have {limits.calls} calls")
    if call.id is not None and ids.get(call.id, 1) > 1:
        return failure(call, f"not run: {ids[call.id]} calls share the id {call.id!r}; each needs its own")
    if not call.runs:
        return invalid(call, [call.error or "they were cut off"])
    return None


def _job_of(call: ToolCall, tool: Tool | None, limits: Limits, *, refusal: ToolResult | None) -> _Job:
    metadata = tool.plain_metadata if tool is not None else {}
    timeout, output = metadata.get("timeout"), metadata.get("output_limit")
    return _Job(
        without_nulls(call, tool),
        metadata.get("parallel") is True,
        limits.timeout if timeout is None or _is_no_amount(timeout) else timeout,
        limits.output if output is None or _is_no_amount(output) else int(output),
        refusal,
    )


def _is_no_amount(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf


def _groups_of(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Cut jobs into what runs at the same time, in order."""
    groups: list[list[_Job]] = []
    for job in jobs:
        if job.parallel and groups and groups[-1][-1].parallel:
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def planned(calls: Sequence[ToolCall], resolve: Any, limits: Limits) -> list[list[tuple[ToolCall, ToolResult | None]]]:
    """Cut the calls of a turn into what runs at the same time, in order; one that is not run has its result."""
    groups = _groups_of(_jobs_of(list(calls), resolve, None, limits))
    width = max(1, limits.parallel)
    return [
        [(job.call, job.result) for job in group[at : at + width]]
        for group in groups
        for at in range(0, len(group), width)
    ]


def _working(job: _Job, resolve: Any, context: Any, record: CallRecord | None = None) -> Work[ToolResult]:
    """Give the steps that run one job to its result; only what stops the program is raised."""
    steps = _resolved(job, resolve, context)
    return steps if record is None else record.record_steps(job.call, steps)


def _resolved(job: _Job, resolve: Any, context: Any) -> Work[ToolResult]:
    if job.result is not None:
        yield Emit(CallNote("invalid"))
        return job.result
    call = job.call
    try:
        result = yield from _asking(resolve, call, context)
    except UnknownTool as problem:
        yield Emit(CallNote("unknown_tool"))
        known = ", ".join(problem.known) or "none"
        return failure(call, f"unknown tool {call.name!r}. Available: {known}")
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - every call gets a result, whatever its resolver raises
        return (yield from error_result(problem, call, fields_of(resolve, call.name)))
    return _cut_to(result, job.output)


def _asking(resolve: Any, call: ToolCall, context: Any) -> Work[ToolResult]:
    if hasattr(resolve, "available_tools") and not callable(resolve):
        return (yield from dispatching(resolve, call, context))
    if hasattr(resolve, "resolving"):
        return (yield from resolving(resolve, call, context))
    if callable(getattr(resolve, "resolve", None)):
        return (yield from dispatching(resolve, call, context))
    return result_of_answer((yield Ask(resolve, (call,))), call)


def _cut_to(result: ToolResult, limit: int) -> ToolResult:
    """Cut what is longer than the limit, and say so."""
    content = result.content
    if isinstance(content, str):
        return result if len(content) <= limit else replace(result, content=_cut(content, limit))
    left, parts = limit, list[Part]()
    for part in content:
        if type(part) is Text:
            parts.append(part if len(part.text) <= left else replace(part, text=_cut(part.text, left)))
            left = max(0, left - len(part.text))
        else:
            parts.append(part)
    return replace(result, content=parts)


def _cut(text: str, limit: int) -> str:
    return f"{text[:limit]}\n[{len(text) - limit} of {len(text)} characters were left out]"


def execute(
    calls: Iterable[ToolCall],
    resolve: AnyResolver | Callable[[ToolCall], object] | None,
    /,
    *,
    tools: Iterable[Tool] | None = None,
    context: object = None,
    limits: Limits | None = None,
    cancel: Cancel | None = None,
    record: CallRecord | None = None,
    **options: Unpack[LimitOptions],
) -> list[ToolResult]:
    """Run calls, and give one result for each, in order.

    `resolve` is the function that `session_tools.prepare` gave, a resolver (with `context`; also a class, or a pair
    with its folder), or a function of a call. `timeout`, `output`, `calls` and `parallel` are limits. `record` gets
    what became of each call.
    """
    limits = _limits_of(limits, options)
    resolve = runner_of(resolve, "execute")
    jobs = _jobs_of(list(calls), resolve, tools, limits)
    groups = _groups_of(jobs)
    if cancel is None and len(groups) == len(jobs) and {job.timeout for job in jobs} <= {None}:
        return [run(_working(job, resolve, context, record)) for [job] in groups]
    return wait(_run_groups(groups, _Running(resolve, context, limits, cancel, record or CallRecord(_nobody))))


def runner_of(given: Any, path: str) -> Any:
    """Give what is asked to run the calls; what nobody can ask is refused."""
    if inspect.isclass(given) or type(given) is tuple:
        return resolver_of(given, path)
    if callable(given) or hasattr(given, "resolve") or hasattr(given, "resolving"):
        return given
    raise InvalidField("resolver", f"must be a resolver, or a function of a call, not {given!r}", path=path)


def _limits_of(limits: Limits | None, options: LimitOptions) -> Limits:
    unknown = sorted(options.keys() - set(Limits.__struct_fields__))
    if unknown:
        known = ", ".join(Limits.__struct_fields__)
        raise InvalidField(unknown[0], f"is not a limit; there are: {known}", path="execute")
    for name, amount in options.items():
        if amount is not None and (type(amount) not in (int, float) or not amount >= 0):  # type: ignore[operator]
            raise InvalidField(name, f"must be a number, 0 or more, not {amount!r}", path="execute")
    return replace(limits or _USUAL, **options) if options else limits or _USUAL


async def aexecute(
    calls: Iterable[ToolCall],
    resolve: AnyResolver | Callable[[ToolCall], object] | None,
    /,
    *,
    tools: Iterable[Tool] | None = None,
    context: object = None,
    limits: Limits | None = None,
    cancel: Cancel | None = None,
    record: CallRecord | None = None,
    **options: Unpack[LimitOptions],
) -> list[ToolResult]:
    """Run calls without blocking the event loop; see `execute`."""
    limits = _limits_of(limits, options)
    resolve = runner_of(resolve, "execute")
    groups = _groups_of(_jobs_of(list(calls), resolve, tools, limits))
    return await _run_groups(groups, _Running(resolve, context, limits, cancel, record or CallRecord(_nobody)))


def _nobody(_ran: Ran) -> None:
    """Keep nothing."""


class _Running(Struct, frozen=True):
    """What the calls of a turn have in common."""

    resolve: Any
    context: Any
    limits: Limits
    cancel: Cancel | None
    record: CallRecord

    def steps(self, job: _Job) -> Work[ToolResult]:
        return _working(job, self.resolve, self.context, self.record)

    def ended(self, job: _Job, reason: str, ending: CallEnding) -> ToolResult:
        result = failure(job.call, _UNAPPROVED if self.record.is_unapproved(job.call) else reason)
        self.record.end(job.call, result, ending)
        return result


async def _run_groups(groups: list[list[_Job]], running: _Running) -> list[ToolResult]:
    results: list[ToolResult] = []
    slots = asyncio.Semaphore(max(1, running.limits.parallel))

    async def one(job: _Job) -> ToolResult | _Stopped:
        async with slots:
            return await _run_job(job, running)

    with stop_future(running.cancel) as stopped:
        for group in groups:
            if running.cancel is not None and running.cancel.is_set():
                results += [job.result or running.ended(job, _UNBEGUN, "cancelled") for job in group]
                continue
            tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(one(job)) for job in group]
            try:
                await _any_end(tasks, stopped)
                results += [_result_of(task, job, running) for task, job in zip(tasks, group, strict=True)]
            finally:
                await _drop(tasks)
    return results


async def _any_end(tasks: list[asyncio.Future[Any]], stopped: "asyncio.Future[None]") -> None:
    """Wait until all tasks are done, or one is raised through, or everything is stopped."""
    waiting: set[asyncio.Future[Any]] = set(tasks)
    while waiting and not stopped.done():
        done, pending = await asyncio.wait({*waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        waiting = {task for task in waiting if task in pending}
        for task in done - {stopped}:
            if type(result := task.result()) is _Stopped:
                raise result.problem


def _result_of(task: "asyncio.Future[Any]", job: _Job, running: _Running) -> ToolResult:
    if task.done() and not task.cancelled():
        return task.result()  # type: ignore[no-any-return]
    return job.result or running.ended(job, _STOPPED, "cancelled")


async def _drop(tasks: list[asyncio.Future[Any]]) -> None:
    """Cancel what still runs, and wait until it has ended."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=2 * GRACE)


class _Stopped(Struct, frozen=True):
    """What stops the program, on its way out of a task: an event loop would raise it past everybody."""

    problem: BaseException


async def _run_job(job: _Job, running: _Running) -> ToolResult | _Stopped:
    try:
        return await _run_in_time(job, running)
    except (KeyboardInterrupt, SystemExit) as problem:
        return _Stopped(problem)


async def _run_in_time(job: _Job, running: _Running) -> ToolResult:
    """Run a job for as long as it may take; what does not end when it is cancelled is left behind."""
    left: list[threading.Event] = []
    token = abandoned.set(left)
    task = asyncio.ensure_future(arun(running.steps(job)))
    abandoned.reset(token)
    try:
        await asyncio.wait({task}, timeout=job.timeout)
        given = 0.0
        while not task.done() and (waited := running.record.waited(job.call)) > given:  # the time of a person is added
            await asyncio.wait({task}, timeout=max(_SOON, waited - given))
            given = waited
    except asyncio.CancelledError:
        await _end(task, job, left)
        raise
    if task.cancelled():  # by itself: nobody else had a reason to
        return running.ended(job, f"{FAILED}CancelledError", "error")
    if task.done():
        return task.result()
    running.record.stop(job.call)
    ended = await _end(task, job, left)
    goes_on = "" if ended else ", and goes on: it does not end when it is cancelled"
    return running.ended(job, f"{FAILED}it took longer than {job.timeout:g} s{goes_on}", "timed_out")


async def _end(task: "asyncio.Future[Any]", job: _Job, threads: Sequence[threading.Event]) -> bool:
    """Cancel what runs, and whether it has ended, with what it had begun in threads."""
    task.cancel()
    late = time.monotonic() + GRACE
    await asyncio.wait({task}, timeout=GRACE)
    while time.monotonic() < late and not all(ended.is_set() for ended in threads):  # noqa: ASYNC110 - of threads
        await asyncio.sleep(_SOON / 5)
    if not task.done():
        _left_behind.add(task)
        task.add_done_callback(_forget)
    else:
        with contextlib.suppress(BaseException):
            task.exception()
        if all(ended.is_set() for ended in threads):
            return True
    logger.warning("tool %r does not end when it is cancelled: it is left behind", job.call.name)
    return False


# An event loop holds its tasks weakly, and these are nobody's.
_left_behind: set["asyncio.Future[Any]"] = set()


def _forget(task: "asyncio.Future[Any]") -> None:
    _left_behind.discard(task)
    with contextlib.suppress(BaseException):
        task.exception()
