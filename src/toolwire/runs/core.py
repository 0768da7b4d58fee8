"""The runs of one database in one process: started, executed, watched, and taken over from dead processes.

Rules of this file:
- A run is taken over in the register first, and only then in the engine. If several processes try, one wins.
- One thread renews the leases of this process, applies requests to cancel, and looks for runs without an owner: those
  of this process's queues, and those that were started here under an id that existed already. It wakes up when the
  next lease expires.
- The death of a process counts as a failure of each run that it executed: fully if it executed one run, half if it
  executed several. A run with `MAX_FAILURES` failures and no new step is parked until somebody resumes it. Before that,
  runs whose processes died together are resumed at different times. An unavailable database counts against no run.
"""

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from toolwire.client.dialogue import run_steps
from toolwire.client.failures import ProviderError
from toolwire.databases.opening import first_line
from toolwire.errors import StoreFailed
from toolwire.runs.engine import LOST, Engine
from toolwire.runs.failpoints import failpoint
from toolwire.runs.journal import AwaitingApproval, Journal, StepFailed, WorkerStopping
from toolwire.runs.limits import ProviderLimits
from toolwire.runs.owners import is_dead, new_owner
from toolwire.runs.records import to_plain
from toolwire.runs.register import RUNS, UNAVAILABLE, Register, RunLost
from toolwire.runs.specs import RunInputs, decode_spec, merge_inputs, prompt_from
from toolwire.types import Request
from toolwire.waiting.results import safe
from toolwire.waiting.steps import Raised, run

logger: logging.Logger = logging.getLogger("toolwire")
MAX_FAILURES = 5
_ALONE, _BESIDE_OTHERS = 2, 1
_SEPARATE_AFTER = 4
_DEADLINE_PASSED = "cancelled: its deadline has passed"
_MAX_CACHED_RESULTS = 1000
_SHORTEST, _TICK = 0.02, 0.25


class Core:
    """The state that all `Runs` objects of one database share in a process."""

    def __init__(self, url: str, lease: float) -> None:
        self.owner: str = new_owner()
        self.engine: Engine = Engine(url, self.owner)
        self.register: Register = Register(self.engine.db)
        self.register.create()
        self.limits: ProviderLimits = ProviderLimits(self.register)
        self.concurrency: int | None = None
        self.lease: float = lease
        self.inputs: dict[str, RunInputs] = {}
        self.tools: Any = ()
        self.queues: frozenset[str] = frozenset()
        self.failure: StoreFailed | None = None
        self.journals: dict[str, Journal] = {}
        self.results: dict[str, Any] = {}
        self.memory: dict[str, dict[int, Any]] = {}
        self._own_queue = f"here-{self.owner.rpartition('|')[2]}"
        self._has_own_queue = False
        self._ending: set[str] = set()
        self._recently_ended: deque[str] = deque()
        self._owned: set[str] = set()
        self._unclaimed_since: dict[str, float] = {}
        self._closing = False
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None

    def launch(self) -> None:
        """Start to execute runs in this process."""
        with self._lock:
            if self._watcher is not None:
                return
            self.engine.launch(self.execute)
            self._watcher = threading.Thread(target=self._watch, name="toolwire runs", daemon=True)
            self._watcher.start()

    def listen_to(self, queue: str) -> None:
        """Execute runs from `queue`, in addition to the queues so far."""
        self.launch()
        with self._lock:
            self.engine.listen(queue, self.concurrency)
            self.queues |= {queue}

    def close(self, seconds: float) -> None:
        """Release the runs of this process when their current steps have ended, within `seconds`, and close."""
        self._closing = True
        for journal in list(self.journals.values()):
            journal.stopping = True
        until = time.monotonic() + seconds
        self.engine.stop(math.ceil(seconds) if self._owned else 0)
        while self._ending and time.monotonic() < until:
            time.sleep(0.02)
        self._stop.set()
        if self._watcher is not None:
            self._watcher.join()
        if self._has_own_queue:
            self.engine.drop(self._own_queue)
        self.engine.close()

    def queue_for(self, queue: str | None) -> str:
        """Return `queue`, or for a run without one this process's own queue."""
        if queue is not None:
            return queue
        with self._lock:
            if not self._has_own_queue:
                self.engine.listen(self._own_queue, self.concurrency)
                self._has_own_queue = True
        return self._own_queue

    def inputs_of(self, name: str) -> tuple[RunInputs, Request] | None:
        """Return the stored inputs of a run and the request with which it began, or None if there is no such run."""
        row = self.register.row(name)
        return None if row is None else decode_spec(row.spec, self.register.texts(name))

    # Execution

    def execute(self, name: str) -> Any:
        """Execute a run until it ends or is released. The engine records the returned value."""
        failpoint("before-claim")
        self._owned.add(name)
        try:
            return self._claim_and_execute(name)
        except Exception as problem:
            logger.warning("run %r is released: %s: %s", name, type(problem).__name__, problem)
            raise RunLost(name) from problem  # the engine would record any other exception as the run's end
        finally:
            if name not in self.journals:
                self._owned.discard(name)

    def _claim_and_execute(self, name: str) -> Any:
        """Become the owner of a run, and execute it."""
        recorded = len(self.engine.steps(name, output=False))
        row = self.register.claim(name, self.owner, self.lease, recorded)
        if row is None:
            raise RunLost(name)
        failpoint("after-claim")
        if row.tries >= MAX_FAILURES * _ALONE:
            reason = f"it failed {MAX_FAILURES} times in a row without a new step; shared failures count half"
            return self._park(name, row.token, reason)
        try:
            output = self._execute(name, row, recorded)
        except Raised as problem:
            return self._handle_interruption(name, row.token, problem.__cause__ or problem)
        except BaseException as problem:  # noqa: BLE001 - the run must be released after any exception
            return self._handle_interruption(name, row.token, problem)
        failpoint("before-end")
        self._ending.add(name)
        return output

    def _execute(self, name: str, row: Any, recorded: int) -> Any:
        stored, request = decode_spec(row.spec, self.register.texts(name))
        inputs = merge_inputs(self.inputs.get(name), stored, self.tools)
        journal = Journal(self, row, request, recorded)
        journal.stopping = self._closing
        journal.people, journal.on_event = inputs.people, inputs.settings.get("on_event")
        journal.memory = self.memory.setdefault(name, {})
        self.journals[name] = journal
        try:
            with inputs.client() as client:
                done = run(run_steps(client, prompt_from(request), inputs.settings, call_log=journal))
            if journal.late and done.ending == "cancelled":
                done = replace(done, reason="its deadline has passed")
            self.results[name] = done
            del self.memory[name]
            output = journal.record_end(done)
        except ProviderError as problem:
            output = {"failed": to_plain(problem.error), "provider": problem.provider}
        finally:
            if self.journals.get(name) is journal:
                del self.journals[name]
        self.register.change(name, RUNS.c.token == row.token, reason=_ending_of(output))
        return output

    def _handle_interruption(self, name: str, token: int, problem: BaseException) -> Any:
        """Release a run that `problem` interrupted. Whether it is resumed depends on the exception."""
        match problem:
            case _ if isinstance(problem, (RunLost, *LOST)):
                pass
            case AwaitingApproval():
                failpoint("before-park")
                self._release(name, token, "waiting", "")
                failpoint("after-park")
            case WorkerStopping():
                self._release(name, token, "queued", "", expires=0.0, tries=0)
            case _ if isinstance(problem, (StepFailed, OSError, SystemExit, *UNAVAILABLE)):
                logger.warning("run %r will be resumed: %s", name, problem)
                away = isinstance(problem, UNAVAILABLE) or isinstance(problem.__cause__, UNAVAILABLE)
                tries = RUNS.c.tries + (0 if away else _ALONE)
                self._release(name, token, "queued", first_line(problem), expires=self.register.now + 1.0, tries=tries)
            case Exception():
                logger.warning("run %r is parked: %s: %s", name, type(problem).__name__, problem)
                self._release(name, token, "parked", f"{type(problem).__name__}: {problem}")
            case _:
                raise problem
        raise RunLost(name)

    def _park(self, name: str, token: int, reason: str) -> None:
        logger.warning("run %r is parked: %s", name, reason)
        self._release(name, token, "parked", reason)
        raise RunLost(name)

    def _release(self, name: str, token: int, state: str, reason: str, **more: Any) -> None:
        expires = sa.case((RUNS.c.cancel != 0, 0.0), else_=RUNS.c.deadline)  # it may have been cancelled just now
        values = {"state": state, "reason": safe(reason), "owner": None, "expires": expires, **more}
        self.engine.cancel(name)
        failpoint("in-release")
        if state == "waiting":
            self.register.wait_for_approval(name, token, values)
        else:
            self.register.change(name, RUNS.c.token == token, **values)

    # The watcher thread

    def _watch(self) -> None:
        next_renewal = next_sweep = pause = 0.0
        while not self._stop.wait(pause):
            now, pause = time.monotonic(), _TICK
            try:
                self.engine.check()
                if now >= next_renewal:
                    self._renew()
                    next_renewal = now + self.lease / 5
                self._apply_requests()
                self._close_ended()
                if now >= next_sweep and not self._closing:
                    next_sweep = now + self.sweep()
                    self._take_unclaimed()
                pause = min(_TICK, max(_SHORTEST, next_sweep - time.monotonic()))
            except StoreFailed as problem:
                logger.warning("this process executes no more runs: %s", problem)
                self.failure = problem
                return
            except Exception as problem:  # noqa: BLE001 - the database may come back
                logger.warning("the database of the runs cannot be reached now: %s", type(problem).__name__)

    def _renew(self) -> None:
        """Renew the leases of all runs that are executed here, are about to be, or have just ended."""
        if runs := {*self._owned, *self._ending}:
            self.register.renew(self.owner, runs, self.lease)

    def _apply_requests(self) -> None:
        """Apply cancellations and deadlines to the runs executed here. Stop those that have another owner."""
        journals = dict(self.journals)
        if not journals:
            return
        rows = self.register.owned_rows({name: journal.token for name, journal in journals.items()})
        for name, journal in journals.items():
            if name in rows:
                journal.apply_requests(rows[name])
            elif self.journals.get(name) is journal:
                journal.cancel()

    def _close_ended(self) -> None:
        """Mark the runs as ended in the register that the engine has recorded as ended."""
        names = list(self._ending)
        for name in self.engine.ended(names):
            self.register.change(name, state="ended", owner=None, expires=None)
            self._ending.discard(name)
            self._recently_ended.append(name)
            failpoint("after-end")
        while len(self._recently_ended) > _MAX_CACHED_RESULTS:
            old = self._recently_ended.popleft()
            self.results.pop(old, None)
            self.inputs.pop(old, None)

    def sweep(self, only: str | None = None) -> float:
        """Take over runs without a live owner, and end cancelled and late ones.

        Return the seconds until the next sweep.
        """
        interval = min(1.0, self.lease / 4)
        expired, next_look = self.register.expired(self.queues, self.inputs, interval, only)
        rows = [row for row in expired if row.id not in self._owned]
        ended = self.engine.ended([row.id for row in rows])
        unowned = []
        for row in rows:
            if row.id in ended:
                self.register.change(row.id, RUNS.c.token == row.token, state="ended", owner=None, expires=None)
            elif row.cancel or row.late:
                self.end_cancelled(row, "cancelled" if row.cancel else _DEADLINE_PASSED)
            else:
                unowned.append(row)
        self._take_over(unowned)
        return next_look

    def _take_unclaimed(self) -> None:
        """Take over runs that a process took from a queue and did not claim, because it died."""
        queues = [*self.queues, *([self._own_queue] if self._has_own_queue else [])]
        owners = self.engine.dequeued(queues) if queues else {}
        rows = self.register.unclaimed(owners, self.owner) if owners else []
        now = time.monotonic()
        self._unclaimed_since = {row.id: self._unclaimed_since.get(row.id, now) for row in rows}
        self._take_over(
            [row for row in rows if now - self._unclaimed_since[row.id] >= self.lease or is_dead(owners[row.id])]
        )

    def _take_over(self, rows: Sequence[Any]) -> None:
        """Take over the runs that no other process has taken yet, and resume them."""
        dead_owners = {row.owner for row in rows if row.state == "running"}
        counts = self.register.count_running(dead_owners) if dead_owners else {}
        weights = {row.id: _failure_weight(counts.get(row.owner, 0)) if row.state == "running" else 0 for row in rows}
        taken: list[Any] = []
        for weight in set(weights.values()):
            rows_of_weight = [row for row in rows if weights[row.id] == weight]
            taken += self.register.take_over(rows_of_weight, self.owner, self.lease, weight)
        if not taken:
            return
        failpoint("after-take")
        separate = [row for row in taken if weights[row.id] == _BESIDE_OTHERS and row.tries >= _SEPARATE_AFTER]
        for row in separate:
            self._delay(row)
        together = [row for row in taken if row not in separate]
        for queue in {row.queue for row in together}:
            self._resume(queue, [row for row in together if row.queue == queue])

    def _delay(self, row: Any) -> None:
        """Resume a run after a random delay, because another run of its dead process may have caused the death."""
        seconds = random.random() * self.lease * 2 ** (row.tries - _SEPARATE_AFTER)  # noqa: S311 - a delay, not a secret
        self._release(row.id, row.token, "queued", "", expires=self.register.now + seconds)

    def _resume(self, queue: str | None, rows: Sequence[Any]) -> None:
        """Queue runs to be resumed, in this process or by the workers of `queue`."""
        rows_by_id = {row.id: row for row in rows}
        if queue is None:
            self._owned.update(rows_by_id)
        for name in self.engine.resume(list(rows_by_id), self.queue_for(queue)):
            if rows_by_id[name].steps:  # an incomplete fork would repeat the steps that it should start with
                self._owned.discard(name)
                self.end_cancelled(rows_by_id[name], "cancelled: its fork was cut off")
            else:
                self.engine.start(name)
        if queue is not None:
            self.register.release(rows)

    def end_cancelled(self, row: Any, reason: str = "cancelled") -> bool:
        """End a cancelled run that no process executes. Return True if it was ended."""
        unchanged = (RUNS.c.token == row.token, RUNS.c.state == row.state)
        values = {"state": "ended", "reason": reason, "owner": None, "expires": None, "token": row.token + 1}
        if not self.register.change(row.id, *unchanged, **values):
            return False
        self.engine.cancel(row.id)
        return True


def _failure_weight(runs: int) -> int:
    """Return what the death of a process counts against each of the `runs` runs that it executed."""
    return _ALONE if runs <= 1 else _BESIDE_OTHERS


def _ending_of(output: Any) -> str:
    """Return the ending of a run in one word."""
    if "failed" in output:
        return "failed"
    return str(output["outcome"]["value"]["ending"])
