"""One run as it is led: each question to the model and each call is a step, recorded once and given again.

Rules of this file:
- Before anything is asked or called, the lease is looked at: who lost the run does no more for it.
- What had been recorded is given as it was; cancelling, deadlines and leaving wait until that is over.
- Answers are remembered for as long as the process lives, with what is secret in them; the record has them without.
- A call is written down before it begins. What had begun and not ended is treated by what its tool declared.
- A call that a person has to approve is asked about, and the run is left, without a process, until it is answered.
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
from toolwire.loop import Done, RunTools
from toolwire.resolvers import RunSecrets, tools_of
from toolwire.resolvers.effects import Effects, Happened, NotYet, effects_of
from toolwire.resolvers.execution import Cancel, planned
from toolwire.resolvers.session import Session
from toolwire.runs import effects as words
from toolwire.runs.engine import Engine
from toolwire.runs.failpoints import at
from toolwire.runs.limits import ProviderLimits
from toolwire.runs.records import Secrets, builtins, has_hidden, packed, plain, unpacked, value_of
from toolwire.runs.register import Register, Unapproved
from toolwire.traces.databases import words_of
from toolwire.types import Error, Request, Response, Text, Tool, ToolCall, ToolResult
from toolwire.work.keys import CallKey, keyed
from toolwire.work.results import CallRecord, Ran, failure, invalid, result_of, safe
from toolwire.work.threads import call_together
from toolwire.work.waiting import Ask, Work, flow, run

logger: logging.Logger = logging.getLogger("toolwire")
_DENIED = "the call was not approved"
_OTHER = "the call was not run: its approval was for other arguments"
_SHORTEST, _LONGEST = 0.02, 0.5


class Left(BaseException):
    """The run is left here, to go on elsewhere or later."""


class Leaving(Left):
    """The worker stops."""


class Waiting(Left):
    """A person has to answer."""


class Failed(BaseException):
    """A step could not be done, and nothing of it is recorded."""


class _Heard(Struct, frozen=True):
    """What had come of an answer that broke off."""

    response: Response | None


_Ended = tuple[ToolResult, Ran]


class _Job(Struct, frozen=True):
    """One call of a turn, and what is done with it."""

    call: ToolCall
    refusal: ToolResult | None
    key: str
    effects: Effects


class Journal:
    """The steps of one run."""

    def __init__(self, core: Any, row: Any, request: Request, known: int) -> None:
        self.run: str = row.id
        self.token: int = row.token
        self.cancel: Cancel = Cancel()
        self.leaving: bool = False
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
        self._known = known
        self._numbered = 0
        self._texts: dict[str, str] | None = None
        self._recording: Any = None
        self._secrets = Secrets(())
        self._before = self._passed = 0.0
        self._since = time.monotonic()

    # What the conversation asks for

    def bound(self, upstream: ProviderConnection, setup: RunSetup) -> tuple[ProviderConnection, RunSetup]:
        """Give the conversation as it began, led by this journal."""
        if setup.auto_tools and (self._known or self._queued) and hasattr(setup.resolve, "available_tools"):
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
        """Give the seconds for which the run was led, here and before."""
        return self._before + time.monotonic() - self._since

    def asking(self, sent: ExchangeState, steps: Work[Any]) -> Work[Any]:
        """Ask the model, as a step."""
        return (yield Ask(self._asked, (sent, steps)))

    def calling(self, tools: RunTools, resolve: Any, execute: Ask, ran: list[Ran]) -> Work[list[ToolResult]]:
        """Run the calls of a turn, each as a step."""
        return (yield Ask(self._called, (tools, resolve, execute, ran)))  # type: ignore[no-any-return]

    # Questions

    def _asked(self, sent: ExchangeState, steps: Work[Any]) -> Any:
        fresh: list[Any] = []

        def ask() -> Any:
            at("before-ask")
            self._check()
            outcome = self._in_turn(steps)
            fresh.append(outcome)
            at("after-ask")
            return self._packed(outcome, partial=plain(self._secrets.hidden(sent.partial)), over=sent.over_budget)

        said = self._step("ask")(_unrecorded(ask))
        at("after-ask-record")
        if fresh:
            self.memory[self._numbered] = fresh[0]
            return fresh[0]
        steps.close()
        record = self._unpacked(said)
        outcome = self.memory.get(self._numbered) or value_of(record["outcome"])
        if isinstance(outcome, Error) and outcome.code == "transport_cancelled":
            self.cancel()
        sent.accumulator, sent.over_budget = _Heard(value_of(record["partial"])), record["over"]  # type: ignore[assignment]
        if isinstance(outcome, Response):
            sent.losses = outcome.losses
        return outcome

    def _in_turn(self, steps: Work[Any]) -> Any:
        """Ask within the limits of the provider, as soon as there is a place."""
        pause = _SHORTEST
        while (number := self._limits.take(self.run, self.token, self._provider)) is None:
            if self.leaving:
                raise Leaving(self.run)
            if self.cancel.is_set():
                return Error("unknown", "the run was cancelled before its turn", code="transport_cancelled")
            time.sleep(pause)
            pause = min(_LONGEST, pause * 1.5)
            self._check()
        try:
            return self._told(steps)
        finally:
            if number:
                self._limits.leave(number)

    def _told(self, steps: Work[Any]) -> Any:
        """Do the steps of an exchange; who listens hears its events."""
        events = flow(steps)
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                return end.value
            if self.on_event is not None:
                self.on_event(event)

    # Calls

    def _called(self, tools: RunTools, resolve: Any, execute: Ask, ran: list[Ran]) -> list[ToolResult]:
        here = {tool.name: tool for tool in tools_of(resolve)} if hasattr(resolve, "available_tools") else {}
        place = count()
        plan = [
            [_Job(call, refusal or self._unaskable(call, resolve), self._key(tools.turn, next(place), call),
                  effects_of(here.get(call.name)))
             for call, refusal in group]
            for group in planned(tools.calls, resolve, execute.keywords["limits"])
        ]  # fmt: skip
        for job in [job for group in plan for job in group] if self._recording is not None else ():
            self._recording.set_key(job.call, job.key, is_resumed=self._known > 0)
        verdicts = self._asked_people([job for group in plan for job in group if job.refusal is None], here)
        results: list[ToolResult] = []
        for group in plan:
            works = [self._work(job, verdicts.get(job.key), execute) for job in group]
            for result, one in call_together(works) if len(works) > 1 else [work() for work in works]:
                results.append(result)
                ran.append(one)
        return results

    def _key(self, turn: int, place: int, call: ToolCall) -> str:
        return hashlib.sha256(f"{self.run}\n{turn}\n{place}\n{call.id}".encode()).hexdigest()[:32]

    def _asked_people(self, jobs: Sequence[_Job], here: dict[str, Tool]) -> dict[str, str]:
        """Ask about the calls that somebody has to approve; the run is left while one is not answered."""
        fresh = jobs[max(0, self._known - self._numbered) :]
        asked = [job for job in fresh if job.call.name in here and self._needs_person(job.call.name)]
        if not asked:
            return {}
        rows = self._register.ask(self.run, self.token, [{**self._row_of(job), "verdict": ""} for job in asked])
        if any(not rows[job.key].verdict for job in asked):
            raise Waiting(self.run)
        return {job.key: rows[job.key].verdict for job in asked}

    def _unaskable(self, call: ToolCall, resolve: Any) -> ToolResult | None:
        """Refuse a call that a person would be asked about, and that would not run whatever the answer is."""
        if not (self._needs_person(call.name) and isinstance(resolve, Session)):
            return None
        problems = resolve.problems(call)
        return invalid(call, problems) if problems else None

    def _needs_person(self, name: str) -> bool:
        return self.people is True or name in (self.people or ())

    def _row_of(self, job: _Job) -> dict[str, Any]:
        """Say what is written down of a call; its arguments as they may be shown, and the hash of what they are."""
        said = json.dumps(builtins(job.call.arguments), sort_keys=True) + (
            job.call.raw or "" if job.call.custom else ""
        )
        return {
            "key": job.key,
            "call": job.call.id and safe(job.call.id),
            "tool": safe(job.call.name),
            "arguments": self._secrets.shown(job.call),
            "digest": hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest(),
        }

    def _work(self, job: _Job, verdict: str | None, execute: Ask) -> Callable[[], _Ended]:
        """Give what runs a call, as the next step."""
        if job.refusal is not None:
            refused = job.refusal, Ran(job.call, job.refusal, "invalid", None, 0.0)
            return lambda: refused
        step, fresh = self._step("call"), list[_Ended]()

        def call() -> Any:
            at("before-begin")
            fresh.append(self._done(job, verdict, execute))
            at("after-call")
            result, ran = fresh[0]
            said = {name: value for name, value in asdict(ran).items() if name not in ("call", "result")}
            return self._packed(result, ran=said)

        def work() -> _Ended:
            record = step(_unrecorded(call))
            at("after-call-record")
            if fresh:
                return fresh[0]
            said = self._unpacked(record)
            result = value_of(said["outcome"])
            return result, Ran(job.call, result, **said["ran"])

        return work

    def _done(self, job: _Job, verdict: str | None, execute: Ask) -> _Ended:
        """Do what is to be done with a call that is not recorded."""
        call = job.call
        if verdict is not None and verdict != "yes":
            return _unrun(call, verdict.partition(": ")[2] or _DENIED, "denied")
        if self._known and has_hidden(call):
            return _unrun(call, words.NOT_KEPT, "error")
        try:
            again = words.is_repeatable(job.effects)
            said = self._row_of(job)
            begun, row = self._register.begin(self.run, self.token, said, approved=verdict == "yes", again=again)
        except Unapproved:
            return _unrun(call, _OTHER, "denied")
        self.heed(row)
        if self._recording is not None:
            self._recording.record_start(call, begun)
        at("after-begin")
        match words.treatment(begun, job.effects):
            case "run":
                return self._run(job, execute)
            case "again":
                return _noted(self._run(job, execute), words.note(job.effects))
            case "probe":
                return self._probed(job, execute)
        return _unrun(call, words.UNKNOWN, "interrupted")

    def _probed(self, job: _Job, execute: Ask) -> _Ended:
        """Ask what became of a call, and do what follows."""
        try:
            found = run(_asking(job.effects.probe, CallKey(job.key)))  # type: ignore[union-attr]
        except Exception as problem:  # noqa: BLE001 - a probe that fails does not know
            logger.warning("the probe of %r failed: %s", job.call.name, type(problem).__name__)
            found = None
        match found:
            case Happened(value=value):
                result = result_of(value, job.call)
                return _noted((result, Ran(job.call, result, "ok", None, 0.0)), words.HAPPENED)
            case NotYet():
                return _noted(self._run(job, execute), words.NOT_YET)
        return _unrun(job.call, words.UNKNOWN, "interrupted")

    def _run(self, job: _Job, execute: Ask) -> _Ended:
        """Run a call."""
        ran: list[Ran] = []
        asked, resolve = execute.arguments
        record = CallRecord(ran.append, self._secrets.known_now)
        with keyed(job.key):
            [result] = execute.function(
                replace(asked, calls=[job.call]), resolve, **{**execute.keywords, "record": record}
            )
        return result, ran[0]

    # Steps

    def _step(self, name: str) -> Callable[[Callable[[], Any]], Any]:
        """Give the next step; a run that is left begins none that was not recorded."""
        if self.leaving and self._numbered >= self._known:
            raise Leaving(self.run)
        self._numbered += 1
        return self._engine.step(name)

    def _check(self) -> None:
        """Raise where the run is another owner's; heed what was asked of it."""
        self.heed(self._register.holds(self.run, self.token))

    def heed(self, row: Any) -> None:
        """Stop what is done, where somebody has cancelled the run, or its deadline has passed."""
        self.late = self.late or bool(row.late)
        if self._numbered > self._known and (row.cancel or self.late):
            self.cancel()

    def _packed(self, outcome: Any, **more: Any) -> Any:
        """Give what is recorded of an outcome; its long texts are kept first."""
        texts: dict[str, str] = {}
        said = {"outcome": plain(self._secrets.hidden(outcome)), "clock": self.now(), **more}
        made = packed(said, texts)
        self._register.keep(self.run, texts)
        at("after-keep")
        return made

    def final(self, done: Done) -> Any:
        """Give what is recorded of the end; raise where the run is another owner's."""
        self._register.holds(self.run, self.token)
        return self._packed(done)

    def _unpacked(self, said: Any) -> Any:
        if self._texts is None:
            self._texts = self._register.texts(self.run)
        record = unpacked(said, self._texts)
        self._before, self._since = record["clock"], time.monotonic()
        return record


def _check_tools(began: Sequence[Any], here: dict[str, Tool]) -> None:
    """Raise where the tools that a run began with are not those of here."""
    named = [tool for tool in began if isinstance(tool, Tool)]
    gone = [tool.name for tool in named if tool.name not in here]
    other = [tool.name for tool in named if tool.name in here and tool.parameters != here[tool.name].parameters]
    for names, what in ((gone, "are gone"), (other, "take other arguments")):
        if names:
            raise LookupError(f"the run began with tools that {what} here: {', '.join(names)}")


def _unrecorded(function: Callable[[], Any]) -> Callable[[], Any]:
    """Have no failure of ours recorded as what the step gave: the step is done again."""

    def guarded() -> Any:
        try:
            return function()
        except Exception as problem:
            raise Failed(words_of(problem)) from problem

    return guarded


def _asking(function: Any, *arguments: Any) -> Work[Any]:
    return (yield Ask(function, arguments))


def _unrun(call: ToolCall, reason: str, ending: Any) -> _Ended:
    result = failure(call, reason)
    return result, Ran(call, result, ending, None, 0.0, "denied" if ending == "denied" else None)


def _noted(ended: _Ended, words: str) -> _Ended:
    """Add to the result what the model has to know of it."""
    result, ran = ended
    content: Any = result.content
    note = f"[{words}]"
    content = f"{content}\n{note}" if isinstance(content, str) else [*content, Text(note)]
    result = replace(result, content=content)
    return result, replace(ran, result=result)
