"""Durable runs: `Runs` starts them, `Run` is one of them, in any process.

Rules of this file:
- An id identifies a run. A second start with the same id attaches to the run, whatever its other arguments are.
- Events are read from the record only, so that every process sees the same ones.
"""

import contextlib
import math
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any, Literal, Self, get_args

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from toolwire.client.failures import exception_of
from toolwire.client.settings import ClientOptions, Prompt, Providers
from toolwire.errors import InvalidField, RunParked, ToolwireError
from toolwire.loop import Done
from toolwire.resolvers.reading import Tools
from toolwire.runs.core import Core
from toolwire.runs.engine import normalize_url
from toolwire.runs.failpoints import failpoint
from toolwire.runs.limits import check_count
from toolwire.runs.owners import is_dead
from toolwire.runs.records import from_plain, unpack
from toolwire.runs.register import BATCH, RUNS
from toolwire.runs.specs import collect_inputs, encode_spec
from toolwire.types import Message, Response, ToolResult
from toolwire.waiting.results import safe

State = Literal["queued", "running", "waiting", "parked", "done", "failed", "cancelled"]
Offset = tuple[int, Any]
_SHORTEST, _LONGEST = 0.02, 0.5
_LAST = (1 << 63) - 1  # the largest integer of the databases
_CORES: dict[str, tuple[Core, int]] = {}
_LOCK = threading.Lock()


def _state_of(row: Any, ended: bool) -> State:
    """Return the state of a run, or its ending. The engine may know the end before the register does."""
    if row.state != "ended" and not ended:
        return row.state  # type: ignore[no-any-return]
    return "cancelled" if row.reason.startswith("cancelled") else "failed" if row.reason == "failed" else "done"


def _check_name(name: str, value: Any) -> None:
    """Raise `InvalidField` for a value that is no valid id of a run, or name of a queue, in every database."""
    if value is not None and not (isinstance(value, str) and value.strip() and safe(value) == value):
        raise InvalidField(name, f"must be text without control characters, not {value!r}", path="Runs")


def _check_seconds(name: str, value: Any, *, zero: bool = False) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf or not (value or zero):
        words = f"must be a number of seconds{'' if zero else ' above 0'}, not {value!r}"
        raise InvalidField(name, words, path="Runs")


class Question(Struct, frozen=True):
    """A call that waits for a person's approval."""

    run: str
    call_id: str
    tool: str
    arguments: str


class Listed(Struct, frozen=True):
    """A run in a list. Times are Unix times."""

    id: str
    state: str
    queue: str | None
    reason: str
    created: float
    deadline: float | None


class Run:
    """A durable run. Any number of processes may have a `Run` of one run; they share only its id.

    >>> import tempfile
    >>> from toolwire import Run, Runs
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model, Runs(f"sqlite:///{tempfile.mkdtemp()}/runs.db") as runs:
    ...     run: Run = runs.start("Hi.", "ollama", "m", id="r1", options={"base_url": model.url})
    ...     (run.result().content, run)
    ('Hello.', <run 'r1': done>)
    """

    def __init__(self, runs: "Runs", id: str) -> None:  # noqa: A002 - the run's id
        self._runs = runs
        self.id: str = id

    def __repr__(self) -> str:
        return f"<run {self.id!r}: {self.state}>"

    @property
    def state(self) -> State:
        """The state of the run, or how it ended."""
        row = self._row()
        return _state_of(row, row.state != "ended" and row.id in self._core.engine.ended([row.id]))

    @property
    def reason(self) -> str:
        """Why the run is parked, or how it ended (as in `Done.ending`)."""
        return str(self._row().reason)

    @property
    def waiting(self) -> list[Question]:
        """The calls that wait for a person's approval."""
        over = self._row().state == "ended"
        return [
            Question(self.id, row.call or row.key, row.tool, row.arguments)
            for row in self._core.register.calls(self.id)
            if row.verdict == "" and not over
        ]

    @property
    def _core(self) -> Core:
        return self._runs.core

    def _row(self) -> Any:
        """Return the row of this run in the register. Raise `InvalidField` if it was deleted."""
        row = self._core.register.row(self.id)
        if row is None:
            raise InvalidField("id", f"is no run of this database: {self.id!r}", path="Runs")
        return row

    def result(self, timeout: float | None = None) -> Done:
        """Wait until the run has ended, in whichever process, and return its `Done`.

        Raise `TimeoutError` after `timeout` seconds, `RunParked` if the run is parked, and the provider's error if the
        run failed with it.
        """
        until = None if timeout is None else time.monotonic() + timeout
        pause = _SHORTEST
        while (done := self.ended()) is None:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"run {self.id!r} is {self.state} after {timeout:g} s")
            time.sleep(pause)
            pause = min(_LONGEST, pause * 1.5)
        return done

    def ended(self) -> Done | None:
        """Return the run's `Done`, or None if it has not ended.

        Raise `RunParked` if the run is parked, and the provider's error if the run failed with it.
        """
        output = self._core.engine.output(self.id)
        if output is None:
            row = self._row()
            if row.state == "parked":
                raise RunParked(self.id, row.reason)
            if row.state != "ended":
                return None
            output = self._core.engine.output(self.id)  # it may have ended after the first query
        if output is None:
            reason = row.reason.partition(": ")[2] or "the run was cancelled"
            return self._with_request(Done("cancelled", self._recorded_messages(), reason=reason))
        if "failed" in output:
            error = output["failed"]
            if isinstance(error, str):
                raise ToolwireError(error, path=f"run {self.id}")
            raise exception_of(from_plain(error), output["provider"])
        done: Done | None = self._core.results.get(self.id)
        return self._with_request(self._value(output)) if done is None else done

    def _with_request(self, done: Done) -> Done:
        """Return the end of the run with the messages with which it began; they are stored once, with its inputs."""
        inputs = self._core.inputs_of(self.id)
        return done if inputs is None else replace(done, earlier=list(inputs[1].messages))

    def _value(self, record: Any) -> Any:
        return from_plain(unpack(record, self._core.register.texts(self.id))["outcome"])

    def _recorded_messages(self) -> list[Message]:
        """Return the messages that the run has recorded so far."""
        events = (self._value(record) for _, record in self._core.engine.steps(self.id))
        return [
            one.message if isinstance(one, Response) else Message("tool", [one])
            for one in events
            if isinstance(one, Response | ToolResult)
        ]

    def events(self, after: int = 0, *, wait: bool = True) -> Iterator[Offset]:
        """Yield the events after the offset `after`, each with its own offset: answers, results and the end.

        Wait for further events, unless `wait` is false. Every process sees the same events, also afterwards.
        """
        pause = _SHORTEST
        while True:
            events, is_over = self.happened(after)
            for after, event in events:  # noqa: PLR1704 - the next read starts there
                yield after, event
            if is_over or not wait:
                return
            pause = _SHORTEST if events else min(_LONGEST, pause * 1.5)
            time.sleep(pause)

    def happened(self, after: int = 0) -> tuple[list[Offset], bool]:
        """Return the events after the offset `after` so far, and True if these are all.

        Raise InvalidField if `after` is not an offset.
        """
        if type(after) is not int or not 0 <= after <= _LAST:
            words = f"must be an offset, a whole number of 0 or more, not {after!r}"
            raise InvalidField("after", words, path="events")
        is_over = self._core.engine.output(self.id) is not None or self._row().state == "ended"
        steps = self._core.engine.steps(self.id, after)
        texts = self._core.register.texts(self.id) if steps else {}
        events: list[Offset] = [(number, from_plain(unpack(record, texts)["outcome"])) for number, record in steps]
        last_number = events[-1][0] if events else after
        if is_over and last_number <= len(self._core.engine.steps(self.id, output=False)):
            with contextlib.suppress(ToolwireError):
                events.append((last_number + 1, self.ended()))
        return events, is_over

    def cancel(self) -> None:
        """Cancel the run: immediately if a process executes it, and without resuming it if none does."""
        self._core.register.change(self.id, RUNS.c.state != "ended", cancel=1)
        self._core.engine.check()
        row = self._row()
        idle = row.owner is None or (row.expires or 0.0) <= row.now or is_dead(row.owner)
        if row.state != "ended" and idle:
            self._core.end_cancelled(row)

    def answer(self, call_id: str, approve: bool | str = True) -> None:
        """Approve the call `call_id`, or reject it with `False` or with a text that the model reads.

        An answer is used once. Raise `InvalidField` if no such call waits.
        """
        verdict = "yes" if approve is True else f"no: {approve}" if isinstance(approve, str) else "no"
        answered = self._core.register.answer(self.id, call_id, verdict)
        self._core.engine.check()
        if not answered:
            waiting = ", ".join(question.call_id for question in self.waiting) or "none"
            raise InvalidField(
                "call_id", f"is no call that waits for approval: {call_id!r}; these wait: {waiting}", path=self.id
            )

    def resume(self) -> None:
        """Resume a parked run."""
        parked = RUNS.c.state == "parked"
        self._core.register.change(self.id, parked, state="queued", tries=0, expires=0.0, owner=None, reason="")
        self._core.engine.check()

    def fork(self, at: int, id: str | None = None) -> "Run":  # noqa: A002 - the new run's id
        """Start a new run from this run's recorded steps up to the offset `at`. It continues independently."""
        return self._runs.forked(self, at, id)


class Runs:
    """The durable runs of a database: `sqlite:///FILE` for one machine, `postgresql://...` for several.

    `tools` are used for runs that were started in other processes. `queue` is the queue whose runs this process
    executes. `lease` is the number of seconds after which the runs of a dead process are taken over. `concurrency`
    limits how many runs from the queue, and runs that were taken over, are executed at the same time.

    >>> import tempfile
    >>> from toolwire import Runs
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model, Runs(f"sqlite:///{tempfile.mkdtemp()}/runs.db") as runs:
    ...     run = runs.start("Hi.", "openai", "m", id="r1", options={"base_url": model.url, "api_key": "any"})
    ...     print(run.result().content, run.state)
    Hello. done
    """

    def __init__(
        self,
        url: str,
        *,
        tools: Tools = (),
        queue: str | None = None,
        concurrency: int = 4,
        lease: float = 30.0,
    ) -> None:
        if not isinstance(url, str):
            raise InvalidField("url", "must be sqlite:///FILE or postgresql://...", path="Runs")
        _check_seconds("lease", lease)
        check_count("concurrency", concurrency, "Runs")
        _check_name("queue", queue)
        self._url_key = normalize_url(url)
        with _LOCK:
            core, users = _CORES.get(self._url_key) or (Core(url, lease), 0)
            _CORES[self._url_key] = core, users + 1
        self.core: Core = core
        self._closed = False
        core.concurrency = concurrency
        if tools:
            core.tools = tools
        try:
            if queue is not None:
                core.listen_to(queue)
        except BaseException:
            self.close(0)
            raise

    def start(
        self,
        prompt: Prompt = None,
        provider: Providers = None,
        model: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the run's id
        tools: Tools = (),
        options: ClientOptions | None = None,
        queue: str | None = None,
        deadline: float | None = None,
        **settings: Any,
    ) -> Run:
        """Start a run here, or in the workers of `queue`. If a run with this `id` exists, attach to it.

        The arguments are those of `generate`. `approve` may also be True or a list of tool names. Their calls then wait
        for `Run.answer`, without a process. The run is cancelled after `deadline` seconds, whatever its state. Raise
        `InvalidField` for an argument that is invalid, or that cannot be stored for the workers of `queue`.
        """
        _check_name("id", id)
        _check_name("queue", queue)
        if deadline is not None:
            _check_seconds("deadline", deadline)
        name = id or uuid.uuid4().hex
        inputs = collect_inputs(provider, model, tools or self.core.tools, options, settings)
        row = self.core.register.row(name)
        if row is None:
            texts: dict[str, str] = {}
            spec = encode_spec(inputs, prompt, queue, texts)
            failpoint("before-start")
            if self._create(name, spec, texts, inputs, queue, deadline):
                failpoint("after-start")
                return Run(self, name)
        if queue is None and (row is None or row.state != "ended"):
            self.core.inputs.setdefault(name, inputs)
            self.core.launch()
            self.core.sweep(name)
        return Run(self, name)

    def _create(
        self, name: str, spec: str, texts: dict[str, str], inputs: Any, queue: str | None, deadline: float | None
    ) -> bool:
        """Store the run and start it. Return False if another process created it first."""
        core, now = self.core, self.core.register.now
        is_here = queue is None
        row = {"id": name, "spec": spec, "queue": queue, "state": "queued", "created": now, "token": 0}
        row |= {"owner": core.owner if is_here else None, "deadline": deadline and now + deadline}
        row["expires"] = now + core.lease if is_here else row["deadline"]
        if is_here:
            core.launch()
        with core.engine.db.begin() as connection:
            if connection.execute(core.register.insert(RUNS, row).returning(RUNS.c.id)).first() is None:
                return False
            core.register.store_texts(name, texts, connection)
            if queue is not None:
                core.engine.enqueue(connection, name, queue)
        core.engine.check()
        if is_here:
            core.inputs[name] = inputs
            core.engine.start(name)
        return True

    def run(self, id: str) -> Run:  # noqa: A002 - the run's id
        """Return the run with an id. Raise `InvalidField` if there is none."""
        run = Run(self, id)
        run._row()  # noqa: SLF001 - it raises if there is none
        return run

    def list(self, state: str | None = None, limit: int = 100) -> list[Listed]:
        """Return at most `limit` runs, newest first; with `state`, only those in it.

        The reason of an ended run is its ending. Raise InvalidField for a wrong `state` or `limit`.
        """
        if state not in (None, "ended", *get_args(State)):
            words = ", ".join(get_args(State))
            raise InvalidField("state", f"must be one of {words}, or ended, not {state!r}", path="Runs.list")
        check_count("limit", limit, "Runs.list")
        rows = self.core.register.rows(state, limit)
        ended = self.core.engine.ended([row.id for row in rows if row.state == "running"])
        return [
            Listed(row.id, _state_of(row, row.id in ended), row.queue, row.reason, row.created, row.deadline)
            for row in rows
        ]

    def limit(
        self, provider: str | None = None, *, at_once: int | None = None, per_minute: int | None = None
    ) -> dict[str, dict[str, int | None]]:
        """Limit the requests to a provider by all workers of the database. Return all limits.

        `at_once` is the number of concurrent requests, `per_minute` the number of requests that start within any 60
        seconds. A provider without numbers has no limit from then on.
        """
        if provider is not None:
            self.core.limits.set(provider, at_once, per_minute)
            self.core.engine.check()
        return self.core.limits.all()

    def forked(self, run: Run, at: int, id: str | None = None) -> Run:  # noqa: A002 - the new run's id
        """Start a run with the id `id` from the recorded steps of `run`, up to the offset `at`.

        Raise InvalidField for an offset that `run` does not have, or an id that is in use.
        """
        recorded = len(self.core.engine.steps(run.id, output=False))
        if type(at) is not int or not 0 <= at <= recorded:
            raise InvalidField("at", f"must be an offset of the run's events, 0 to {recorded}, not {at!r}", path="fork")
        _check_name("id", id)
        name, core = id or uuid.uuid4().hex, self.core
        row = run._row()  # noqa: SLF001 - the class is in this file
        core.launch()
        values = {"owner": core.owner, "expires": core.register.now + core.lease, "steps": at}
        if not core.register.copy(run.id, name, state="queued", **values):
            raise InvalidField("id", f"is a run already: {name!r}", path="fork")
        if run.id in core.inputs:
            core.inputs[name] = core.inputs[run.id]
        core.engine.fork(run.id, name, at, core.queue_for(row.queue))
        core.engine.check()
        return Run(self, name)

    def prune(self, older: float) -> int:
        """Delete the ended runs that were created more than `older` seconds ago. Return their number."""
        _check_seconds("older", older, zero=True)
        self.core.engine.check()
        register = self.core.register
        query = sa.select(RUNS.c.id).where(RUNS.c.state == "ended", RUNS.c.created < register.now - older)
        with register.db.connect() as connection:
            names = list(connection.execute(query).scalars())
        for batch in (names[start : start + BATCH] for start in range(0, len(names), BATCH)):
            self.core.engine.delete(batch)
            register.delete(batch)
        return len(names)

    def close(self, seconds: float = 30.0) -> None:
        """Release this process's runs when their current steps have ended, and close the database.

        The runs continue when they are started again, or when a worker takes them over.
        """
        if self._closed:
            return
        self._closed = True
        with _LOCK:
            core, users = _CORES[self._url_key]
            if users > 1:
                _CORES[self._url_key] = core, users - 1
                return
            del _CORES[self._url_key]
        core.close(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
