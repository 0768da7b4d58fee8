"""One run while it is executed: each request to the model and each call is a step, which is recorded once.

Rules of this file:
- Before every request and every call, the ownership of the run is checked. A process that lost the run stops.
- When a run is resumed, its recorded steps return their recorded values. Cancellation, deadlines and stopping apply
  only after the last recorded step.
- This process keeps the model's answers in memory, including secrets. The records do not contain secrets.
- A call is stored before it starts. A call that started and did not end is treated as its tool's `effects` say.
- If a person has to approve a call, the request is stored and the run is released. No process waits for the answer.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from toolwire.client.conversation import RunSetup
from toolwire.client.exchange import ExchangeState, ProviderConnection
from toolwire.databases.opening import first_line
from toolwire.loop import Done, RunTools
from toolwire.resolvers import RunSecrets, tools_of
from toolwire.resolvers.effects import Effects, Happened, NotYet, effects_of
from toolwire.resolvers.execution import Cancel, planned
from toolwire.resolvers.session import Session
from toolwire.runs import effects as treatments
from toolwire.runs.engine import Engine
from toolwire.runs.failpoints import failpoint
from toolwire.runs.limits import ProviderLimits
from toolwire.runs.records import Secrets, from_plain, has_hidden, pack, to_builtins, to_plain, unpack
from toolwire.runs.register import Register, Unapproved
from toolwire.types import Error, Request, Response, Text, Tool, ToolCall, ToolResult
from toolwire.waiting.call_keys import CallKey, use_key
from toolwire.waiting.results import CallRecord, Ran, failure, invalid, result_of, safe
from toolwire.waiting.steps import Ask, Work, flow, run
from toolwire.waiting.threads import call_together

logger: logging.Logger = logging.getLogger("toolwire")
_DENIED = "the call was not approved"
_CHANGED = "the call was not run: its approval was for other arguments"
_SHORTEST, _LONGEST = 0.02, 0.5


class _Suspended(BaseException):
    """The run is released here, to be resumed elsewhere or later."""


class WorkerStopping(_Suspended):
    """The worker stops."""


class AwaitingApproval(_Suspended):
    """A person has to approve a call."""


class StepFailed(BaseException):
    """A step could not be executed, and nothing of it is recorded."""


class _PartialResponse(Struct, frozen=True):
    """The part of an answer that had arrived when the connection broke."""

    response: Response | None


_CallEnd = tuple[ToolResult, Ran]


class _Job(Struct, frozen=True):
    """One call of a turn, and how it is treated."""

    call: ToolCall
    refusal: ToolResult | None
    key: str
    effects: Effects


class Journal:
    """The steps of one run."""

    def __init__(self, core: Any, row: Any, request: Request, recorded_count: int) -> None:
        self.run: str = row.id
        self.token: int = row.token
        self.cancel: Cancel = Cancel()
        self.stopping: bool = False
        self.late: bool = False
        self.people: Any = ()
        self.on_event: Any = None
        self.memory: dict[int, Any] = {}
        self._engine: Engine = core.engine
        self.files: tuple[Path, ...] = core.engine.files
        self._register: Register = core.register
        self._limits: ProviderLimits = core.limits
        self._queued = row.queue is not None
        self._provider = ""
        self._request = request
        self._recorded_count = recorded_count
        self._step_number = 0
        self._texts: dict[str, str] | None = None
        self._recording: Any = None
        self._secrets = Secrets(())
        self._seconds_before = 0.0
        self._since = time.monotonic()

    # Called by the conversation

    def bind(self, upstream: ProviderConnection, setup: RunSetup) -> tuple[ProviderConnection, RunSetup]:
        """Return the connection and the setup with this journal, and with the request that the run began with."""
        if setup.auto_tools and (self._recorded_count or self._queued) and hasattr(setup.resolve, "available_tools"):
            _check_tools(self._request.tools, {tool.name: tool for tool in tools_of(setup.resolve)})
        self._provider = upstream.provider.name
        secrecy = RunSecrets(setup.resolve, [upstream.provider.key])
        self._secrets = Secrets(secrecy.given, setup.resolve)
        self._recording = setup.recording
        if setup.cancel is not None:
            setup.cancel.telling(self.cancel).__enter__()
        request = replace(self._request, model=setup.request.model, stream=setup.request.stream)
        setup = replace(setup, request=request, cancel=self.cancel, call_log=self)
        return replace(upstream, now=self.now), setup

    def now(self) -> float:
        """Return the seconds for which the run has been executed, here and in earlier processes."""
        return self._seconds_before + time.monotonic() - self._since

    def ask_model(self, sent: ExchangeState, steps: Work[Any]) -> Work[Any]:
        """Send a request to the model, as a step."""
        return (yield Ask(self._ask_step, (sent, steps)))

    def run_calls(self, tools: RunTools, resolve: Any, execute: Ask, ran: list[Ran]) -> Work[list[ToolResult]]:
        """Run the calls of a turn, each as a step."""
        return (yield Ask(self._run_turn, (tools, resolve, execute, ran)))  # type: ignore[no-any-return]

    # Requests to the model

    def _ask_step(self, sent: ExchangeState, steps: Work[Any]) -> Any:
        fresh: list[Any] = []

        def ask() -> Any:
            failpoint("before-ask")
            self._check_owner()
            outcome = self._ask_within_limits(steps)
            fresh.append(outcome)
            failpoint("after-ask")
            return self._pack(outcome, partial=to_plain(self._secrets.hide(sent.partial)), over=sent.over_budget)

        packed = self._step("ask")(_not_recording_failures(ask))
        failpoint("after-ask-record")
        if fresh:
            self.memory[self._step_number] = fresh[0]
            return fresh[0]
        steps.close()
        record = self._unpack(packed)
        outcome = self.memory.get(self._step_number) or from_plain(record["outcome"])
        if isinstance(outcome, Error) and outcome.code == "transport_cancelled":
            self.cancel()
        sent.accumulator, sent.over_budget = _PartialResponse(from_plain(record["partial"])), record["over"]  # type: ignore[assignment]
        if isinstance(outcome, Response):
            sent.losses = outcome.losses
        return outcome

    def _ask_within_limits(self, steps: Work[Any]) -> Any:
        """Send the request as soon as the provider's limits allow it."""
        pause = _SHORTEST
        while (number := self._limits.acquire(self.run, self.token, self._provider)) is None:
            if self.stopping:
                raise WorkerStopping(self.run)
            if self.cancel.is_set():
                return Error("unknown", "the run was cancelled before its turn", code="transport_cancelled")
            time.sleep(pause)
            pause = min(_LONGEST, pause * 1.5)
            self._check_owner()
        try:
            return self._drive(steps)
        finally:
            if number:
                self._limits.release(number)

    def _drive(self, steps: Work[Any]) -> Any:
        """Perform the steps of an exchange, and pass its events to `on_event`."""
        events = flow(steps)
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                return end.value
            if self.on_event is not None:
                self.on_event(event)

    # Calls

    def _run_turn(self, tools: RunTools, resolve: Any, execute: Ask, ran: list[Ran]) -> list[ToolResult]:
        tools_by_name = {tool.name: tool for tool in tools_of(resolve)} if hasattr(resolve, "available_tools") else {}
        position = count()
        plan = [
            [_Job(call, refusal or self._reject_before_asking(call, resolve),
                  self._key(tools.turn, next(position), call), effects_of(tools_by_name.get(call.name)))
             for call, refusal in group]
            for group in planned(tools.calls, resolve, execute.keywords["limits"])
        ]  # fmt: skip
        for job in [job for group in plan for job in group] if self._recording is not None else ():
            self._recording.set_key(job.call, job.key, is_resumed=self._recorded_count > 0)
        verdicts = self._collect_verdicts(
            [job for group in plan for job in group if job.refusal is None], tools_by_name
        )
        results: list[ToolResult] = []
        for group in plan:
            works = [self._call_step(job, verdicts.get(job.key), execute) for job in group]
            for result, outcome in call_together(works) if len(works) > 1 else [work() for work in works]:
                results.append(result)
                ran.append(outcome)
        return results

    def _key(self, turn: int, position: int, call: ToolCall) -> str:
        return hashlib.sha256(f"{self.run}\n{turn}\n{position}\n{call.id}".encode()).hexdigest()[:32]

    def _collect_verdicts(self, jobs: Sequence[_Job], tools_by_name: dict[str, Tool]) -> dict[str, str]:
        """Return the verdicts on the calls that need approval. While one is missing, release the run."""
        unrecorded = jobs[max(0, self._recorded_count - self._step_number) :]
        to_ask = [job for job in unrecorded if job.call.name in tools_by_name and self._needs_person(job.call.name)]
        if not to_ask:
            return {}
        rows = self._register.request_approval(
            self.run, self.token, [{**self._row_of(job), "verdict": ""} for job in to_ask]
        )
        if any(not rows[job.key].verdict for job in to_ask):
            raise AwaitingApproval(self.run)
        return {job.key: rows[job.key].verdict for job in to_ask}

    def _reject_before_asking(self, call: ToolCall, resolve: Any) -> ToolResult | None:
        """Return an error result if `call` needs approval and its arguments are invalid, else None.

        So nobody is asked to approve a call that cannot run.
        """
        if not (self._needs_person(call.name) and isinstance(resolve, Session)):
            return None
        problems = resolve.problems(call)
        return invalid(call, problems) if problems else None

    def _needs_person(self, name: str) -> bool:
        return self.people is True or name in (self.people or ())

    def _row_of(self, job: _Job) -> dict[str, Any]:
        """Return the row that is stored for a call: its arguments without secrets, and the digest of the real ones."""
        digested = json.dumps(to_builtins(job.call.arguments), sort_keys=True) + (
            job.call.raw or "" if job.call.custom else ""
        )
        return {
            "key": job.key,
            "call": job.call.id and safe(job.call.id),
            "tool": safe(job.call.name),
            "arguments": self._secrets.visible_arguments(job.call),
            "digest": hashlib.sha256(digested.encode("utf-8", "surrogatepass")).hexdigest(),
        }

    def _call_step(self, job: _Job, verdict: str | None, execute: Ask) -> Callable[[], _CallEnd]:
        """Return a function that executes a call as the next step."""
        if job.refusal is not None:
            refused = job.refusal, Ran(job.call, job.refusal, "invalid", None, 0.0)
            return lambda: refused
        step, fresh = self._step("call"), list[_CallEnd]()

        def call() -> Any:
            failpoint("before-begin")
            fresh.append(self._execute_call(job, verdict, execute))
            failpoint("after-call")
            result, ran = fresh[0]
            fields = {name: value for name, value in asdict(ran).items() if name not in ("call", "result")}
            return self._pack(result, ran=fields)

        def work() -> _CallEnd:
            record = step(_not_recording_failures(call))
            failpoint("after-call-record")
            if fresh:
                return fresh[0]
            fields = self._unpack(record)
            result = from_plain(fields["outcome"])
            return result, Ran(job.call, result, **fields["ran"])

        return work

    def _execute_call(self, job: _Job, verdict: str | None, execute: Ask) -> _CallEnd:
        """Execute a call that is not recorded, as its verdict and its earlier starts require."""
        call = job.call
        if verdict is not None and verdict != "yes":
            return _not_run(call, verdict.partition(": ")[2] or _DENIED, "denied")
        if self._recorded_count and has_hidden(call):
            return _not_run(call, treatments.NOT_RECORDED, "error")
        try:
            repeatable = treatments.is_repeatable(job.effects)
            row_values = self._row_of(job)
            earlier_starts, row = self._register.start_call(
                self.run, self.token, row_values, approved=verdict == "yes", again=repeatable
            )
        except Unapproved:
            return _not_run(call, _CHANGED, "denied")
        self.apply_requests(row)
        if self._recording is not None:
            self._recording.record_start(call, earlier_starts)
        failpoint("after-begin")
        match treatments.choose_treatment(earlier_starts, job.effects):
            case "run":
                return self._run(job, execute)
            case "again":
                return _add_note(self._run(job, execute), treatments.rerun_note(job.effects))
            case "probe":
                return self._probe(job, execute)
        return _not_run(call, treatments.UNKNOWN, "interrupted")

    def _probe(self, job: _Job, execute: Ask) -> _CallEnd:
        """Call the tool's probe to find out whether a call took effect, and run the call if it did not."""
        try:
            answer = run(_ask(job.effects.probe, CallKey(job.key)))  # type: ignore[union-attr]
        except Exception as problem:  # noqa: BLE001 - a failing probe counts as unknown
            logger.warning("the probe of %r failed: %s", job.call.name, type(problem).__name__)
            answer = None
        match answer:
            case Happened(value=value):
                result = result_of(value, job.call)
                return _add_note((result, Ran(job.call, result, "ok", None, 0.0)), treatments.HAPPENED)
            case NotYet():
                return _add_note(self._run(job, execute), treatments.NOT_YET)
        return _not_run(job.call, treatments.UNKNOWN, "interrupted")

    def _run(self, job: _Job, execute: Ask) -> _CallEnd:
        """Run a call in this process."""
        ran: list[Ran] = []
        tools, resolve = execute.arguments
        record = CallRecord(ran.append, self._secrets.known_now)
        with use_key(job.key):
            [result] = execute.function(
                replace(tools, calls=[job.call]), resolve, **{**execute.keywords, "record": record}
            )
        return result, ran[0]

    # Steps

    def _step(self, name: str) -> Callable[[Callable[[], Any]], Any]:
        """Reserve the next step. Raise `WorkerStopping` if the worker stops and the step is not recorded."""
        if self.stopping and self._step_number >= self._recorded_count:
            raise WorkerStopping(self.run)
        self._step_number += 1
        return self._engine.step(name)

    def _check_owner(self) -> None:
        """Raise `RunLost` if the run has another owner. Apply requests to cancel it."""
        self.apply_requests(self._register.check_owner(self.run, self.token))

    def apply_requests(self, row: Any) -> None:
        """Cancel the current work if somebody has cancelled the run, or if its deadline has passed."""
        self.late = self.late or bool(row.late)
        if self._step_number > self._recorded_count and (row.cancel or self.late):
            self.cancel()

    def _pack(self, outcome: Any, **more: Any) -> Any:
        """Return the record of an outcome. Its long texts are stored first."""
        texts: dict[str, str] = {}
        record = {"outcome": to_plain(self._secrets.hide(outcome)), "clock": self.now(), **more}
        packed = pack(record, texts)
        self._register.store_texts(self.run, texts)
        failpoint("after-keep")
        return packed

    def record_end(self, done: Done) -> Any:
        """Return the record of the run's end. Raise `RunLost` if the run has another owner."""
        self._register.check_owner(self.run, self.token)
        return self._pack(replace(done, earlier=[]))  # the request of the run holds these messages

    def _unpack(self, packed: Any) -> Any:
        if self._texts is None:
            self._texts = self._register.texts(self.run)
        record = unpack(packed, self._texts)
        self._seconds_before, self._since = record["clock"], time.monotonic()
        return record


def _check_tools(declared: Sequence[Any], available: dict[str, Tool]) -> None:
    """Raise `LookupError` if a tool that the run began with is missing here, or has other parameters."""
    named = [tool for tool in declared if isinstance(tool, Tool)]
    missing = [tool.name for tool in named if tool.name not in available]
    changed = [
        tool.name for tool in named if tool.name in available and tool.parameters != available[tool.name].parameters
    ]
    for names, words in ((missing, "are missing"), (changed, "have other parameters")):
        if names:
            raise LookupError(
                f"the run began with tools that {words} here: {', '.join(names)}. Restore them and resume it"
            )


def _not_recording_failures(function: Callable[[], Any]) -> Callable[[], Any]:
    """Return `function` with its exceptions as `StepFailed`, so that they are not recorded and the step is repeated."""

    def guarded() -> Any:
        try:
            return function()
        except Exception as problem:
            raise StepFailed(first_line(problem)) from problem

    return guarded


def _ask(function: Any, *arguments: Any) -> Work[Any]:
    return (yield Ask(function, arguments))


def _not_run(call: ToolCall, reason: str, ending: Any) -> _CallEnd:
    result = failure(call, reason)
    return result, Ran(call, result, ending, None, 0.0, "denied" if ending == "denied" else None)


def _add_note(end: _CallEnd, words: str) -> _CallEnd:
    """Add a note for the model to a call's result."""
    result, ran = end
    content: Any = result.content
    note = f"[{words}]"
    content = f"{content}\n{note}" if isinstance(content, str) else [*content, Text(note)]
    result = replace(result, content=content)
    return result, replace(ran, result=result)
