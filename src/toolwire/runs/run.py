"""Runs that survive their process: `Runs` begins them, `Run` is one of them, from whichever process.

Rules of this file:
- An id is a run: a second start of it attaches to the run, whatever else is said beside it.
- What happened is read from the record alone, so that it is the same from everywhere.
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

from toolwire.client.failures import exception_of
from toolwire.client.settings import ClientOptions, Prompt, Providers, Tools
from toolwire.errors import InvalidField, RunParked, ToolwireError
from toolwire.loop import Done
from toolwire.runs.core import Core
from toolwire.runs.engine import place_of
from toolwire.runs.failpoints import at
from toolwire.runs.limits import check_count
from toolwire.runs.owners import is_dead
from toolwire.runs.records import unpacked, value_of
from toolwire.runs.register import RUNS, TOGETHER
from toolwire.runs.specs import given, spec_of
from toolwire.types import Message, Response, ToolResult
from toolwire.work.results import safe

State = Literal["queued", "running", "waiting", "parked", "done", "failed", "cancelled"]
Offset = tuple[int, Any]
_SHORTEST, _LONGEST = 0.02, 0.5
_LAST = (1 << 63) - 1  # that a database can be asked for
_CORES: dict[str, tuple[Core, int]] = {}
_LOCK = threading.Lock()


def _state_of(row: Any, ended: bool) -> State:
    """Say what a run does, or how it ended, which the engine may know before the register does."""
    if row.state != "ended" and not ended:
        return row.state  # type: ignore[no-any-return]
    return "cancelled" if row.reason.startswith("cancelled") else "failed" if row.reason == "failed" else "done"


def _check_name(name: str, value: Any) -> None:
    """Refuse what is no id of a run, and no name of a queue, in every database."""
    if value is not None and not (isinstance(value, str) and value.strip() and safe(value) == value):
        raise InvalidField(name, f"must be text without control characters, not {value!r}", path="Runs")


def _check_seconds(name: str, value: Any, *, zero: bool = False) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf or not (value or zero):
        words = f"must be a number of seconds{'' if zero else ' above 0'}, not {value!r}"
        raise InvalidField(name, words, path="Runs")


class Question(Struct, frozen=True):
    """A call that waits for somebody to approve it."""

    run: str
    call_id: str
    tool: str
    arguments: str


class Listed(Struct, frozen=True):
    """A run in a list; times are Unix times."""

    id: str
    state: str
    queue: str | None
    reason: str
    created: float
    deadline: float | None


class Run:
    """One run. Any number of processes may hold one; its id is all that they have in common."""

    def __init__(self, runs: "Runs", id: str) -> None:  # noqa: A002 - it is the run's
        self._runs = runs
        self.id: str = id

    def __repr__(self) -> str:
        return f"<run {self.id!r}: {self.state}>"

    @property
    def state(self) -> State:
        """What the run does, or how it ended."""
        row = self._row()
        return _state_of(row, row.state != "ended" and row.id in self._core.engine.ended([row.id]))

    @property
    def reason(self) -> str:
        """Why the run is parked, or how it ended, in the words of `Done.ending`."""
        return str(self._row().reason)

    @property
    def waiting(self) -> list[Question]:
        """The calls that somebody has to approve before the run goes on."""
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
        row = self._core.register.row(self.id)
        if row is None:
            raise InvalidField("id", f"is no run of this database: {self.id!r}", path="Runs")
        return row

    def result(self, timeout: float | None = None) -> Done:
        """Wait for the end, wherever the run is led, and give it; `RunParked` says that nobody leads it."""
        until = None if timeout is None else time.monotonic() + timeout
        pause = _SHORTEST
        while (done := self.ended()) is None:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"run {self.id!r} is {self.state} after {timeout:g} s")
            time.sleep(pause)
            pause = min(_LONGEST, pause * 1.5)
        return done

    def ended(self) -> Done | None:
        """Give the end, if there is one."""
        output = self._core.engine.output(self.id)
        if output is None:
            row = self._row()
            if row.state == "parked":
                raise RunParked(self.id, row.reason)
            if row.state != "ended":
                return None
            output = self._core.engine.output(self.id)  # it may have ended between the two looks
        if output is None:
            reason = row.reason.partition(": ")[2] or "the run was cancelled"
            return Done("cancelled", self._so_far(), reason=reason)
        if "failed" in output:
            said = output["failed"]
            if isinstance(said, str):
                raise ToolwireError(said, path=f"run {self.id}")
            raise exception_of(value_of(said), output["provider"])
        done: Done | None = self._core.done.get(self.id)
        return self._value(output) if done is None else done

    def _value(self, said: Any) -> Any:
        return value_of(unpacked(said, self._core.register.texts(self.id))["outcome"])

    def _so_far(self) -> list[Message]:
        """Give the messages that the run has added by now, as they are recorded."""
        events = (self._value(said) for _, said in self._core.engine.steps(self.id))
        return [
            one.message if isinstance(one, Response) else Message("tool", [one])
            for one in events
            if isinstance(one, Response | ToolResult)
        ]

    def events(self, after: int = 0, *, wait: bool = True) -> Iterator[Offset]:
        """Give what happened after an offset, each with its own: answers, results, the end; wait for what comes.

        The same from every process and at any time. `wait=False` gives what there is.
        """
        pause = _SHORTEST
        while True:
            found, over = self.happened(after)
            for after, event in found:  # noqa: PLR1704 - it goes on from there
                yield after, event
            if over or not wait:
                return
            pause = _SHORTEST if found else min(_LONGEST, pause * 1.5)
            time.sleep(pause)

    def happened(self, after: int = 0) -> tuple[list[Offset], bool]:
        """Give what has happened after an offset by now, and whether that is all."""
        if type(after) is not int or not 0 <= after <= _LAST:
            what = f"must be an offset, a whole number of 0 or more, not {after!r}"
            raise InvalidField("after", what, path="events")
        over = self._core.engine.output(self.id) is not None or self._row().state == "ended"
        steps = self._core.engine.steps(self.id, after)
        texts = self._core.register.texts(self.id) if steps else {}
        found: list[Offset] = [(number, value_of(unpacked(said, texts)["outcome"])) for number, said in steps]
        last = found[-1][0] if found else after
        if over and last <= len(self._core.engine.steps(self.id, output=False)):
            with contextlib.suppress(ToolwireError):
                found.append((last + 1, self.ended()))
        return found, over

    def cancel(self) -> None:
        """End the run: where it is led, at once; where nobody leads it, without leading it again."""
        self._core.register.change(self.id, RUNS.c.state != "ended", cancel=1)
        self._core.engine.check()
        row = self._row()
        idle = row.owner is None or (row.expires or 0.0) <= row.now or is_dead(row.owner)
        if row.state != "ended" and idle:
            self._core.end_cancelled(row)

    def answer(self, call_id: str, approve: bool | str = True) -> None:
        """Approve a call that waits, or say no: `False`, or a text, which the model reads. An answer is used once."""
        verdict = "yes" if approve is True else f"no: {approve}" if isinstance(approve, str) else "no"
        answered = self._core.register.answer(self.id, call_id, verdict)
        self._core.engine.check()
        if not answered:
            waiting = ", ".join(one.call_id for one in self.waiting) or "none"
            raise InvalidField("call_id", f"is no call that waits: {call_id!r}; there are: {waiting}", path=self.id)

    def resume(self) -> None:
        """Have a run that is parked led again."""
        parked = RUNS.c.state == "parked"
        self._core.register.change(self.id, parked, state="queued", tries=0, expires=0.0, owner=None, reason="")
        self._core.engine.check()

    def fork(self, at: int, id: str | None = None) -> "Run":  # noqa: A002 - it is the new run's
        """Begin a new run that has all that happened up to an offset, and goes on from there by itself."""
        return self._runs.forked(self, at, id)


class Runs:
    """The runs of a database: `sqlite:///FILE` for one machine, `postgresql://...` for many.

    `tools` are those of runs that come here from elsewhere, `queue` is the queue that is worked at, `lease` are the
    seconds after which the runs of a process that is gone are taken over. Of those that come from a queue or are taken
    over, `concurrency` are led at once.
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
        self._place = place_of(url)
        with _LOCK:
            core, users = _CORES.get(self._place) or (Core(url, lease), 0)
            _CORES[self._place] = core, users + 1
        self.core: Core = core
        self._closed = False
        core.concurrency = concurrency
        if tools:
            core.tools = tools
        try:
            if queue is not None:
                core.work_at(queue)
        except BaseException:
            self.close(0)
            raise

    def start(
        self,
        prompt: Prompt = None,
        provider: Providers = None,
        model: str | None = None,
        *,
        id: str | None = None,  # noqa: A002 - it is the run's
        tools: Tools = (),
        options: ClientOptions | None = None,
        queue: str | None = None,
        deadline: float | None = None,
        **settings: Any,
    ) -> Run:
        """Begin a run, here or where `queue` is worked at; one that is there already is attached to.

        `approve` may be True or names of tools besides: then the run waits, without a process, for `Run.answer`.
        `deadline` are the seconds after which the run is cancelled, whatever it does.
        """
        _check_name("id", id)
        _check_name("queue", queue)
        if deadline is not None:
            _check_seconds("deadline", deadline)
        name = id or uuid.uuid4().hex
        own = given(provider, model, tools or self.core.tools, options, settings)
        there = self.core.register.row(name)
        if there is None:
            texts: dict[str, str] = {}
            spec = spec_of(own, prompt, queue, texts)
            at("before-start")
            if self._begun(name, spec, texts, own, queue, deadline):
                at("after-start")
                return Run(self, name)
        if queue is None and (there is None or there.state != "ended"):
            self.core.given.setdefault(name, own)
            self.core.launch()
            self.core.sweep(name)
        return Run(self, name)

    def _begun(
        self, name: str, spec: str, texts: dict[str, str], own: Any, queue: str | None, deadline: float | None
    ) -> bool:
        """Write the run down, and begin it; False where somebody else did."""
        core, now = self.core, self.core.register.now
        here = queue is None
        row = {"id": name, "spec": spec, "queue": queue, "state": "queued", "created": now, "token": 0}
        row |= {"owner": core.owner if here else None, "deadline": deadline and now + deadline}
        row["expires"] = now + core.lease if here else row["deadline"]
        if here:
            core.launch()
        with core.engine.db.begin() as connection:
            if connection.execute(core.register.insert(RUNS, row).returning(RUNS.c.id)).first() is None:
                return False
            core.register.keep(name, texts, connection)
            if queue is not None:
                core.engine.enqueue(connection, name, queue)
        core.engine.check()
        if here:
            core.given[name] = own
            core.engine.start(name)
        return True

    def run(self, id: str) -> Run:  # noqa: A002 - it is the run's
        """Give a run by its id."""
        run = Run(self, id)
        run._row()  # noqa: SLF001 - it says that there is none
        return run

    def list(self, state: str | None = None, limit: int = 100) -> list[Listed]:
        """List runs, the newest first, all or those of a state; one that has ended has its ending as the reason."""
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
        """Limit the questions to a provider, over all that lead runs of the database; give all limits.

        `at_once` may be open at the same time, `per_minute` be begun in any 60 seconds. A provider that is given
        without figures has no limit from then on.
        """
        if provider is not None:
            self.core.limits.change(provider, at_once, per_minute)
            self.core.engine.check()
        return self.core.limits.all()

    def forked(self, run: Run, at: int, id: str | None = None) -> Run:  # noqa: A002 - it is the new run's
        """Begin a run with what happened in another one up to an offset."""
        there = len(self.core.engine.steps(run.id, output=False))
        if type(at) is not int or not 0 <= at <= there:
            raise InvalidField("at", f"must be an offset of the run's events, 0 to {there}, not {at!r}", path="fork")
        _check_name("id", id)
        name, core = id or uuid.uuid4().hex, self.core
        row = run._row()  # noqa: SLF001 - the same file
        core.launch()
        values = {"owner": core.owner, "expires": core.register.now + core.lease, "steps": at}
        if not core.register.copy(run.id, name, state="queued", **values):
            raise InvalidField("id", f"is a run already: {name!r}", path="fork")
        if run.id in core.given:
            core.given[name] = core.given[run.id]
        core.engine.fork(run.id, name, at, core.home(row.queue))
        core.engine.check()
        return Run(self, name)

    def prune(self, older: float) -> int:
        """Remove the runs that ended or were cancelled, and began more seconds ago than these; give their number."""
        _check_seconds("older", older, zero=True)
        self.core.engine.check()
        register = self.core.register
        query = sa.select(RUNS.c.id).where(RUNS.c.state == "ended", RUNS.c.created < register.now - older)
        with register.db.connect() as connection:
            names = list(connection.execute(query).scalars())
        for some in (names[place : place + TOGETHER] for place in range(0, len(names), TOGETHER)):
            self.core.engine.forget(some)
            register.forget(some)
        return len(names)

    def close(self, seconds: float = 30.0) -> None:
        """Leave the runs that are led here when their present step has ended; they go on where they are started."""
        if self._closed:
            return
        self._closed = True
        with _LOCK:
            core, users = _CORES[self._place]
            if users > 1:
                _CORES[self._place] = core, users - 1
                return
            del _CORES[self._place]
        core.close(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
