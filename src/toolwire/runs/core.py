"""The runs of one database in one process: begun, led, watched, and taken over from who is dead.

Rules of this file:
- A run is taken over by its row in the register first, and only then by the engine: one of many wins.
- A thread holds the leases of what is led here, hears what was asked of it, and looks for runs that nobody leads:
  those of the queues of this process, and those that were started here with an id that was there already. It looks
  at the moment when the next lease is over.
- A process that ends is counted where its runs are taken over: wholly against one that it led alone, by half against
  each of many. One that ended `MOST` processes so without a new step is parked, until somebody resumes it; before
  that, those that ended together are given out apart. A database that is away is counted against nobody.
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

from toolwire.client.failures import ProviderError
from toolwire.errors import StoreFailed
from toolwire.runs.engine import LOST, Engine
from toolwire.runs.failpoints import at
from toolwire.runs.journal import Failed, Journal, Leaving, Waiting
from toolwire.runs.limits import ProviderLimits
from toolwire.runs.owners import is_dead, new_owner
from toolwire.runs.records import plain
from toolwire.runs.register import AWAY, RUNS, Lost, Register
from toolwire.runs.specs import Given, prompt_of, read, resumed
from toolwire.traces.databases import words_of
from toolwire.types import Request
from toolwire.work.results import safe
from toolwire.work.waiting import Raised, run

logger: logging.Logger = logging.getLogger("toolwire")
MOST = 5
_ALONE, _BESIDE_OTHERS = 2, 1
_APART = 4
LATE = "cancelled: its deadline has passed"
_KEPT = 1000
_SHORTEST, _TICK = 0.02, 0.25


class Core:
    """What `Runs` of one database share."""

    def __init__(self, url: str, lease: float) -> None:
        self.owner: str = new_owner()
        self.engine: Engine = Engine(url, self.owner)
        self.register: Register = Register(self.engine.db)
        self.register.create()
        self.limits: ProviderLimits = ProviderLimits(self.register)
        self.concurrency: int | None = None
        self.lease: float = lease
        self.given: dict[str, Given] = {}
        self.tools: Any = ()
        self.queues: frozenset[str] = frozenset()
        self.lost: StoreFailed | None = None
        self.held: dict[str, Journal] = {}
        self.done: dict[str, Any] = {}
        self.memory: dict[str, dict[int, Any]] = {}
        self._here = f"here-{self.owner.rpartition('|')[2]}"
        self._listens_here = False
        self._ending: set[str] = set()
        self._over: deque[str] = deque()
        self._mine: set[str] = set()
        self._unclaimed: dict[str, float] = {}
        self._closing = False
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None

    def launch(self) -> None:
        """Begin to lead runs here."""
        with self._lock:
            if self._watcher is not None:
                return
            self.engine.launch(self.lead)
            self._watcher = threading.Thread(target=self._watch, name="toolwire runs", daemon=True)
            self._watcher.start()

    def work_at(self, queue: str) -> None:
        """Take runs from a queue, beside those from which they are taken already."""
        self.launch()
        with self._lock:
            self.engine.listen(queue, self.concurrency)
            self.queues |= {queue}

    def close(self, seconds: float) -> None:
        """Leave what is led here when its present step has ended, and close."""
        self._closing = True
        for journal in list(self.held.values()):
            journal.leaving = True
        late = time.monotonic() + seconds
        self.engine.stop(math.ceil(seconds) if self._mine else 0)
        while self._ending and time.monotonic() < late:
            time.sleep(0.02)
        self._stop.set()
        if self._watcher is not None:
            self._watcher.join()
        if self._listens_here:
            self.engine.drop(self._here)
        self.engine.close()

    def home(self, queue: str | None) -> str:
        """Name the queue by which a run comes here, where it is in none."""
        if queue is not None:
            return queue
        with self._lock:
            if not self._listens_here:
                self.engine.listen(self._here, self.concurrency)
                self._listens_here = True
        return self._here

    def begun_with(self, name: str) -> tuple[Given, Request] | None:
        """Say how a run is led, and what it began with, if it is there."""
        row = self.register.row(name)
        return None if row is None else read(row.spec, self.register.texts(name))

    # Leading

    def lead(self, name: str) -> Any:
        """Lead a run to its end, or to where it is left; what it gives is recorded by the engine."""
        at("before-claim")
        self._mine.add(name)
        try:
            return self._claimed(name)
        except Exception as problem:
            logger.warning("run %r is left: %s: %s", name, type(problem).__name__, problem)
            raise Lost(name) from problem  # what the engine took for a failure, it would record
        finally:
            if name not in self.held:
                self._mine.discard(name)

    def _claimed(self, name: str) -> Any:
        """Own a run, and lead it."""
        known = len(self.engine.steps(name, output=False))
        row = self.register.claim(name, self.owner, self.lease, known)
        if row is None:
            raise Lost(name)
        at("after-claim")
        if row.tries >= MOST * _ALONE:
            often = f"it failed {MOST} times in a row without a new step; times beside other runs count half"
            return self._park(name, row.token, often)
        try:
            output = self._led(name, row, known)
        except Raised as problem:
            return self._left(name, row.token, problem.__cause__ or problem)
        except BaseException as problem:  # noqa: BLE001 - whatever it is, the run is somebody's afterwards
            return self._left(name, row.token, problem)
        at("before-end")
        self._ending.add(name)
        return output

    def _led(self, name: str, row: Any, known: int) -> Any:
        crossed, request = read(row.spec, self.register.texts(name))
        own = resumed(self.given.get(name), crossed, self.tools)
        journal = Journal(self, row, request, known)
        journal.leaving = self._closing
        journal.people, journal.on_event = own.people, own.settings.get("on_event")
        journal.memory = self.memory.setdefault(name, {})
        self.held[name] = journal
        try:
            with own.client() as client:
                done = run(client.run_steps(prompt_of(request), own.settings, call_log=journal))
            if journal.late and done.ending == "cancelled":
                done = replace(done, reason="its deadline has passed")
            self.done[name] = done
            del self.memory[name]
            output = journal.final(done)
        except ProviderError as problem:
            output = {"failed": plain(problem.error), "provider": problem.provider}
        finally:
            if self.held.get(name) is journal:
                del self.held[name]
        self.register.change(name, RUNS.c.token == row.token, reason=_word(output))
        return output

    def _left(self, name: str, token: int, problem: BaseException) -> Any:
        """Leave a run: for good where it is another's, until an answer, or for whoever takes it over."""
        match problem:
            case _ if isinstance(problem, (Lost, *LOST)):
                pass
            case Waiting():
                at("before-park")
                self._release(name, token, "waiting", "")
                at("after-park")
            case Leaving():
                self._release(name, token, "queued", "", expires=0.0, tries=0)
            case _ if isinstance(problem, (Failed, OSError, SystemExit, *AWAY)):
                logger.warning("run %r is led again: %s", name, problem)
                away = isinstance(problem, AWAY) or isinstance(problem.__cause__, AWAY)
                tries = RUNS.c.tries + (0 if away else _ALONE)
                self._release(name, token, "queued", words_of(problem), expires=self.register.now + 1.0, tries=tries)
            case Exception():
                logger.warning("run %r is parked: %s: %s", name, type(problem).__name__, problem)
                self._release(name, token, "parked", f"{type(problem).__name__}: {problem}")
            case _:
                raise problem
        raise Lost(name)

    def _park(self, name: str, token: int, reason: str) -> None:
        logger.warning("run %r is parked: %s", name, reason)
        self._release(name, token, "parked", reason)
        raise Lost(name)

    def _release(self, name: str, token: int, state: str, reason: str, **more: Any) -> None:
        due = sa.case((RUNS.c.cancel != 0, 0.0), else_=RUNS.c.deadline)  # somebody may have cancelled it just now
        values = {"state": state, "reason": safe(reason), "owner": None, "expires": due, **more}
        self.engine.cancel(name)
        at("in-release")
        self.register.change(name, RUNS.c.token == token, **values)

    # Watching

    def _watch(self) -> None:
        renewed = swept = pause = 0.0
        while not self._stop.wait(pause):
            now, pause = time.monotonic(), _TICK
            try:
                self.engine.check()
                if now >= renewed:
                    self._renew()
                    renewed = now + self.lease / 5
                self._heed()
                self._close_ended()
                if now >= swept and not self._closing:
                    swept = now + self.sweep()
                    self._find_unclaimed()
                pause = min(_TICK, max(_SHORTEST, swept - time.monotonic()))
            except StoreFailed as problem:
                logger.warning("runs are not led any more: %s", problem)
                self.lost = problem
                return
            except Exception as problem:  # noqa: BLE001 - a database that is away comes back
                logger.warning("runs cannot be watched: %s", type(problem).__name__)

    def _renew(self) -> None:
        """Hold the leases of what is led here, of what waits here to be led, and of what has just ended."""
        if runs := {*self._mine, *self._ending}:
            self.register.renew(self.owner, runs, self.lease)

    def _heed(self) -> None:
        """Do what was asked of the runs that are led here; stop those that are another's."""
        journals = dict(self.held)
        if not journals:
            return
        rows = self.register.held({name: journal.token for name, journal in journals.items()})
        for name, journal in journals.items():
            if name in rows:
                journal.heed(rows[name])
            elif self.held.get(name) is journal:
                journal.cancel()

    def _close_ended(self) -> None:
        """Say in the register what the engine has recorded as ended."""
        names = list(self._ending)
        for name in self.engine.ended(names):
            self.register.change(name, state="ended", owner=None, expires=None)
            self._ending.discard(name)
            self._over.append(name)
            at("after-end")
        while len(self._over) > _KEPT:
            old = self._over.popleft()
            self.done.pop(old, None)
            self.given.pop(old, None)

    def sweep(self, only: str | None = None) -> float:
        """Take over what nobody leads any more; end what was cancelled, or is too late; say when to look again."""
        interval = min(1.0, self.lease / 4)
        found, soonest = self.register.expired(self.queues, self.given, interval, only)
        rows = [row for row in found if row.id not in self._mine]
        ended = self.engine.ended([row.id for row in rows])
        left = []
        for row in rows:
            if row.id in ended:
                self.register.change(row.id, RUNS.c.token == row.token, state="ended", owner=None, expires=None)
            elif row.cancel or row.late:
                self.end_cancelled(row, "cancelled" if row.cancel else LATE)
            else:
                left.append(row)
        self._take(left)
        return soonest

    def _find_unclaimed(self) -> None:
        """Take over what somebody took from the queue, and died before it was his."""
        queues = [*self.queues, *([self._here] if self._listens_here else [])]
        takers = self.engine.taken(queues) if queues else {}
        rows = self.register.unclaimed(takers, self.owner) if takers else []
        now = time.monotonic()
        self._unclaimed = {row.id: self._unclaimed.get(row.id, now) for row in rows}
        self._take([row for row in rows if now - self._unclaimed[row.id] >= self.lease or is_dead(takers[row.id])])

    def _take(self, rows: Sequence[Any]) -> None:
        """Take runs over, those that nobody else has by now, and have them led again."""
        dead = {row.owner for row in rows if row.state == "running"}
        led = self.register.led(dead) if dead else {}
        blame = {row.id: _blame(led.get(row.owner, 0)) if row.state == "running" else 0 for row in rows}
        taken: list[Any] = []
        for weight in set(blame.values()):
            some = [row for row in rows if blame[row.id] == weight]
            taken += self.register.take(some, self.owner, self.lease, weight)
        if not taken:
            return
        at("after-take")
        apart = [row for row in taken if blame[row.id] == _BESIDE_OTHERS and row.tries >= _APART]
        for row in apart:
            self._put_off(row)
        together = [row for row in taken if row not in apart]
        for queue in {row.queue for row in together}:
            self._resume(queue, [row for row in together if row.queue == queue])

    def _put_off(self, row: Any) -> None:
        """Give a run out later, when another one that its process led may have been what ended it."""
        seconds = random.random() * self.lease * 2 ** (row.tries - _APART)  # noqa: S311 - a moment, not a secret
        self._release(row.id, row.token, "queued", "", expires=self.register.now + seconds)

    def _resume(self, queue: str | None, rows: Sequence[Any]) -> None:
        """Have runs led again, here, or by whoever works at their queue."""
        known = {row.id: row for row in rows}
        if queue is None:
            self._mine.update(known)
        for name in self.engine.resume(list(known), self.home(queue)):
            if known[name].steps:  # led from its beginning, it would do again what it was to begin with
                self._mine.discard(name)
                self.end_cancelled(known[name], "cancelled: its fork was cut off")
            else:
                self.engine.start(name)
        if queue is not None:
            self.register.give_out(rows)

    def end_cancelled(self, row: Any, reason: str = "cancelled") -> bool:
        """End a run that was cancelled and that nobody leads."""
        held = (RUNS.c.token == row.token, RUNS.c.state == row.state)
        values = {"state": "ended", "reason": reason, "owner": None, "expires": None, "token": row.token + 1}
        if not self.register.change(row.id, *held, **values):
            return False
        self.engine.cancel(row.id)
        return True


def _blame(led: int) -> int:
    """Say what a process that ended counts against each of the runs that it led."""
    return _ALONE if led <= 1 else _BESIDE_OTHERS


def _word(output: Any) -> str:
    """Say in a word how a run ended."""
    if "failed" in output:
        return "failed"
    return str(output["outcome"]["value"]["ending"])
