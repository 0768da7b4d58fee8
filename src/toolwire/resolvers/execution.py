"""Runs the calls of a turn: exactly one result for each call, in order, whatever happens.

Rules of this file:
- Neighbouring calls of tools with `parallel` run together. Every other call runs alone, in its place.
- A call is not run, or not to its end, if it is broken, shares its id with another call, has an unknown tool, takes
  too long, or exceeds the limit of calls. Its result gives the reason.
- A tool that does not stop when it is cancelled is abandoned. Its result and the log say so.
- A result that is too long is cut, and says so. An exception that stops the program, or the task, is raised.
"""

import contextlib
import inspect
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidField, UnknownTool, did_you_mean
from toolwire.resolvers.functions import FunctionTool
from toolwire.resolvers.protocol import AnyResolver, fields_of, offers_tools, resolver_of, resolving
from toolwire.resolvers.reading import AnyTool, runnable_of
from toolwire.resolvers.recipes import dispatching
from toolwire.streams.call_normalizer import without_nulls
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

if TYPE_CHECKING:
    import asyncio

# The shortest interval, in seconds, at which the time that a person needed for approval is checked again.
_POLL_SECONDS = 0.05
_CANCELLED_RUNNING = "cancelled before it was done; it may have run"
_CANCELLED_BEFORE = "not run: everything was cancelled before"
_CANCELLED_UNAPPROVED = "not run: nobody had approved it when everything was stopped"


class Cancel:
    """Stops running calls, from any thread: call the object, or `cancel()`. The calls get error results.

    >>> from toolwire import AgentResolver, Cancel, ToolCall, execute
    >>> cancel = Cancel()
    >>> cancel()
    >>> [result] = execute([ToolCall("call_1", "ping", {})], AgentResolver([]), cancel=cancel)
    >>> result.is_error
    True
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Stop the calls."""
        with self._lock:
            self._event.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def cancel(self) -> None:
        """Stop the calls; the same as calling the object."""
        self()

    def is_set(self) -> bool:
        """Return True if the calls were stopped."""
        return self._event.is_set()

    @contextlib.contextmanager
    def telling(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` on a stop, as long as the `with` block lasts."""
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
    """The limits of calls, unless their tools declare limits of their own.

    `timeout` is in seconds, and `output` in characters. `calls` limits the calls of a turn, `parallel` those at a time.

    >>> from toolwire import AgentResolver, Limits, ToolCall, execute
    >>> def count(to: int) -> str:
    ...     return " ".join(str(number) for number in range(to))
    >>> [result] = execute([ToolCall("1", "count", {"to": 1000})], AgentResolver([count]), limits=Limits(output=100))
    >>> len(result.content) < 300
    True
    """

    timeout: float | None = None
    output: int = 100_000
    calls: int = 128
    parallel: int = 16


class LimitOptions(TypedDict, total=False):
    """The fields of `Limits`, one by one.

    >>> from toolwire import LimitOptions, ToolCall, execute
    >>> options: LimitOptions = {"timeout": 5, "parallel": 2}
    >>> execute([ToolCall("1", "ping", {})], lambda call: "pong", **options)[0].content
    'pong'
    """

    timeout: float | None
    """The maximum duration of a call, in seconds."""
    output: int
    """The maximum length of a result, in characters. The rest is cut off."""
    calls: int
    """The maximum number of calls in a turn."""
    parallel: int
    """The maximum number of calls that run at the same time."""


_DEFAULT_LIMITS = Limits()
logger: logging.Logger = logging.getLogger("toolwire")


class _Job(Struct, frozen=True):
    """A call with its limits, and its result if it is not run."""

    call: ToolCall
    parallel: bool
    timeout: float | None
    output: int
    result: ToolResult | None


def _jobs_of(calls: list[ToolCall], resolve: Any, tools: Iterable[Tool] | None, limits: Limits) -> list[_Job]:
    """Return a job for each call. If `tools` is None, the tools come from the resolver."""
    if tools is None:
        list_tools = getattr(resolve, "available_tools", None)
        tools = list_tools() if callable(list_tools) else ()
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
        limits.timeout if timeout is None or _is_invalid_limit(timeout) else timeout,
        limits.output if output is None or _is_invalid_limit(output) else int(output),
        refusal,
    )


def _is_invalid_limit(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf


def _groups_of(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Split the jobs into groups that run at the same time, in order."""
    groups: list[list[_Job]] = []
    for job in jobs:
        if job.parallel and groups and groups[-1][-1].parallel:
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def planned(calls: Sequence[ToolCall], resolve: Any, limits: Limits) -> list[list[tuple[ToolCall, ToolResult | None]]]:
    """Split the calls of a turn into groups that run at the same time, in order.

    A call that is not run has its result.
    """
    groups = _groups_of(_jobs_of(list(calls), resolve, None, limits))
    width = max(1, limits.parallel)
    return [
        [(job.call, job.result) for job in group[start : start + width]]
        for group in groups
        for start in range(0, len(group), width)
    ]


def _job_steps(job: _Job, resolve: Any, context: Any, record: CallRecord | None = None) -> Work[ToolResult]:
    """Return the steps that run a job. Only exceptions that stop the program are raised."""
    steps = _run_call(job, resolve, context)
    return steps if record is None else record.record_steps(job.call, steps)


def _run_call(job: _Job, resolve: Any, context: Any) -> Work[ToolResult]:
    if job.result is not None:
        yield Emit(CallNote("invalid"))
        return job.result
    call = job.call
    try:
        result = yield from _call_resolver(resolve, call, context)
    except UnknownTool as problem:
        yield Emit(CallNote("unknown_tool"))
        known = ", ".join(problem.known) or "none"
        return failure(call, f"unknown tool {call.name!r}. Available: {known}{did_you_mean(call.name, problem.known)}")
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - every call gets a result, whatever its resolver raises
        return (yield from error_result(problem, call, fields_of(resolve, call.name)))
    return _cut_to(result, job.output)


def _call_resolver(resolve: Any, call: ToolCall, context: Any) -> Work[ToolResult]:
    if hasattr(resolve, "available_tools") and not callable(resolve):
        return (yield from dispatching(resolve, call, context))
    if hasattr(resolve, "resolving"):
        return (yield from resolving(resolve, call, context))
    if callable(getattr(resolve, "resolve", None)):
        return (yield from dispatching(resolve, call, context))
    return result_of_answer((yield Ask(resolve, (call,))), call)


def _cut_to(result: ToolResult, limit: int) -> ToolResult:
    """Cut a result that is longer than `limit`, and add a note about it."""
    content = result.content
    if isinstance(content, str):
        return result if len(content) <= limit else replace(result, content=_cut(content, limit))
    remaining, parts = limit, list[Part]()
    for part in content:
        if type(part) is Text:
            parts.append(part if len(part.text) <= remaining else replace(part, text=_cut(part.text, remaining)))
            remaining = max(0, remaining - len(part.text))
        else:
            parts.append(part)
    return replace(result, content=parts)


def _cut(text: str, limit: int) -> str:
    return f"{text[:limit]}\n[{len(text) - limit} of {len(text)} characters were left out]"


def execute(
    calls: Iterable[ToolCall],
    resolve: AnyResolver | Callable[[ToolCall], object] | Sequence[AnyTool] | None,
    /,
    *,
    tools: Iterable[Tool] | None = None,
    context: object = None,
    limits: Limits | None = None,
    cancel: Cancel | None = None,
    record: CallRecord | None = None,
    **options: Unpack[LimitOptions],
) -> list[ToolResult]:
    """Run `calls`, and return one result for each, in order.

    - `resolve`: the function that `session_tools.prepare` returned, a resolver, a resolver class, a pair of a resolver
      and its folder, a list of tools, or a function of a call.
    - `tools`: the declarations of the tools, by default those of the resolver. They have the limits of single tools.
    - `context`: the context that a resolver passes to its tools.
    - `limits`, or `options` with its fields: `timeout`, `output`, `calls` and `parallel`.
    - `cancel`: stops the calls. `record`: receives what happened to each call.

    Raises `InvalidField` for a wrong limit.

    >>> from toolwire import AgentResolver, ToolCall, execute
    >>> def add(a: int, b: int) -> int:
    ...     return a + b
    >>> results = execute([ToolCall("1", "add", {"a": 2, "b": 3}), ToolCall("2", "sub", {})], AgentResolver([add]))
    >>> [result.content for result in results]
    ['5', "unknown tool 'sub'. Available: add"]
    """
    limits = _limits_of(limits, options)
    resolve = runner_of(resolve, "execute")
    jobs = _jobs_of(list(calls), resolve, tools, limits)
    groups = _groups_of(jobs)
    if cancel is None and len(groups) == len(jobs) and {job.timeout for job in jobs} <= {None}:
        return [run(_job_steps(job, resolve, context, record)) for [job] in groups]
    return wait(_run_groups(groups, _Running(resolve, context, limits, cancel, record or CallRecord(_ignore))))


def runner_of(resolver: Any, path: str) -> Any:
    """Return what runs the calls, from any value that `execute` accepts. Raise `InvalidField` for another value."""
    if inspect.isclass(resolver) or (type(resolver) is tuple and offers_tools(resolver)):
        return resolver_of(resolver, path)
    if isinstance(resolver, list | tuple | FunctionTool):
        return runnable_of(resolver, path)
    if callable(resolver) or hasattr(resolver, "resolve") or hasattr(resolver, "resolving"):
        return resolver
    raise InvalidField("resolver", f"must be a resolver, or a function of a call, not {resolver!r}", path=path)


def _limits_of(limits: Limits | None, options: LimitOptions) -> Limits:
    unknown = sorted(options.keys() - set(Limits.__struct_fields__))
    if unknown:
        known = ", ".join(Limits.__struct_fields__)
        raise InvalidField(unknown[0], f"is not a limit; there are: {known}", path="execute")
    for name, amount in options.items():
        if amount is not None and (type(amount) not in (int, float) or not amount >= 0):  # type: ignore[operator]
            raise InvalidField(name, f"must be a number, 0 or more, not {amount!r}", path="execute")
    return replace(limits or _DEFAULT_LIMITS, **options) if options else limits or _DEFAULT_LIMITS


async def aexecute(
    calls: Iterable[ToolCall],
    resolve: AnyResolver | Callable[[ToolCall], object] | Sequence[AnyTool] | None,
    /,
    *,
    tools: Iterable[Tool] | None = None,
    context: object = None,
    limits: Limits | None = None,
    cancel: Cancel | None = None,
    record: CallRecord | None = None,
    **options: Unpack[LimitOptions],
) -> list[ToolResult]:
    """Run `calls` without blocking the event loop, and return one result for each.

    `resolve`, `tools`, `context`, `limits`, `cancel`, `record` and `options` are those of `execute`.

    >>> import asyncio
    >>> from toolwire import AgentResolver, ToolCall, aio
    >>> async def add(a: int, b: int) -> int:
    ...     return a + b
    >>> [result] = asyncio.run(aio.execute([ToolCall("1", "add", {"a": 2, "b": 3})], AgentResolver([add])))
    >>> result.content
    '5'
    """
    limits = _limits_of(limits, options)
    resolve = runner_of(resolve, "execute")
    groups = _groups_of(_jobs_of(list(calls), resolve, tools, limits))
    return await _run_groups(groups, _Running(resolve, context, limits, cancel, record or CallRecord(_ignore)))


def _ignore(_ran: Ran) -> None:
    """Ignore the record."""


class _Running(Struct, frozen=True):
    """The common settings of the calls of a turn."""

    resolve: Any
    context: Any
    limits: Limits
    cancel: Cancel | None
    record: CallRecord

    def steps(self, job: _Job) -> Work[ToolResult]:
        return _job_steps(job, self.resolve, self.context, self.record)

    def ended(self, job: _Job, reason: str, ending: CallEnding) -> ToolResult:
        result = failure(job.call, _CANCELLED_UNAPPROVED if self.record.is_unapproved(job.call) else reason)
        self.record.end(job.call, result, ending)
        return result


async def _run_groups(groups: list[list[_Job]], running: _Running) -> list[ToolResult]:
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    results: list[ToolResult] = []
    slots = asyncio.Semaphore(max(1, running.limits.parallel))

    async def run_job(job: _Job) -> ToolResult | _Stopped:
        async with slots:
            return await _run_job(job, running)

    with stop_future(running.cancel) as stopped:
        for group in groups:
            if running.cancel is not None and running.cancel.is_set():
                results += [job.result or running.ended(job, _CANCELLED_BEFORE, "cancelled") for job in group]
                continue
            tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(run_job(job)) for job in group]
            try:
                await _wait_for_end(tasks, stopped)
                results += [_task_result(task, job, running) for task, job in zip(tasks, group, strict=True)]
            finally:
                await _cancel_tasks(tasks)
    return results


async def _wait_for_end(tasks: "list[asyncio.Future[Any]]", stopped: "asyncio.Future[None]") -> None:
    """Wait until all tasks are done, one raises an exception that stops the program, or all are stopped."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    waiting: set[asyncio.Future[Any]] = set(tasks)
    while waiting and not stopped.done():
        done, pending = await asyncio.wait({*waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        waiting = {task for task in waiting if task in pending}
        for task in done - {stopped}:
            if type(result := task.result()) is _Stopped:
                raise result.problem


def _task_result(task: "asyncio.Future[Any]", job: _Job, running: _Running) -> ToolResult:
    if task.done() and not task.cancelled():
        return task.result()  # type: ignore[no-any-return]
    return job.result or running.ended(job, _CANCELLED_RUNNING, "cancelled")


async def _cancel_tasks(tasks: "list[asyncio.Future[Any]]") -> None:
    """Cancel the unfinished tasks, and wait until they have ended."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    unfinished = [task for task in tasks if not task.done()]
    for task in unfinished:
        task.cancel()
    if unfinished:
        await asyncio.wait(unfinished, timeout=2 * GRACE)


class _Stopped(Struct, frozen=True):
    """An exception that stops the program, as the result of a task.

    An event loop would raise it immediately, past all cleanup.
    """

    problem: BaseException


async def _run_job(job: _Job, running: _Running) -> ToolResult | _Stopped:
    try:
        return await _run_in_time(job, running)
    except (KeyboardInterrupt, SystemExit) as problem:
        return _Stopped(problem)


async def _run_in_time(job: _Job, running: _Running) -> ToolResult:
    """Run a job until its timeout. A job that does not stop when it is cancelled is abandoned."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    threads: list[threading.Event] = []
    token = abandoned.set(threads)
    task = asyncio.ensure_future(arun(running.steps(job)))
    abandoned.reset(token)
    try:
        await asyncio.wait({task}, timeout=job.timeout)
        waited_before = 0.0
        while (
            not task.done() and (waited := running.record.waited(job.call)) > waited_before
        ):  # waiting for a person does not count
            await asyncio.wait({task}, timeout=max(_POLL_SECONDS, waited - waited_before))
            waited_before = waited
    except asyncio.CancelledError:
        await _end(task, job, threads)
        raise
    if task.cancelled():  # the tool cancelled itself
        return running.ended(job, f"{FAILED}CancelledError", "error")
    if task.done():
        return task.result()
    running.record.stop(job.call)
    ended = await _end(task, job, threads)
    note = "" if ended else ", and is still running: it did not stop when it was cancelled"
    return running.ended(job, f"{FAILED}it took longer than {job.timeout:g} s{note}", "timed_out")


async def _end(task: "asyncio.Future[Any]", job: _Job, threads: Sequence[threading.Event]) -> bool:
    """Cancel a job. Return True if it has ended, together with the threads that it started."""
    import asyncio  # noqa: PLC0415 - a running loop has imported it

    task.cancel()
    deadline = time.monotonic() + GRACE
    await asyncio.wait({task}, timeout=GRACE)
    while time.monotonic() < deadline and not all(ended.is_set() for ended in threads):  # noqa: ASYNC110 - of threads
        await asyncio.sleep(_POLL_SECONDS / 5)
    if not task.done():
        _abandoned_tasks.add(task)
        task.add_done_callback(_discard_task)
    else:
        with contextlib.suppress(BaseException):
            task.exception()
        if all(ended.is_set() for ended in threads):
            return True
    logger.warning("tool %r did not stop when it was cancelled, and was abandoned", job.call.name)
    return False


# An event loop has only weak references to its tasks, so abandoned tasks are kept here until they end.
_abandoned_tasks: set["asyncio.Future[Any]"] = set()


def _discard_task(task: "asyncio.Future[Any]") -> None:
    _abandoned_tasks.discard(task)
    with contextlib.suppress(BaseException):
        task.exception()
