"""The runs of one database in one process: begun, led, watched, and taken over from who is dead.

Rules of this file:
- A run is taken over by its row in the register first, and only then by the engine: one of many wins.
- A thread holds the leases of what is led here, hears what was asked of it, and looks for runs that nobody leads:
  those of the queues of this process, and those that were started here with an id that was there already.
- A run that has failed `MOST` times without a new step is parked, until somebody resumes it.
"""

import logging
import threading
import time
from collections import deque
from typing import Any

from msgspec.structs import replace

from toolwire.client.failures import ProviderError
from toolwire.runs.engine import LOST, Engine
from toolwire.runs.failpoints import at
from toolwire.runs.journal import Failed, Journal, Leaving, Waiting
from toolwire.runs.limits import ProviderLimits
from toolwire.runs.owners import is_dead, new_owner
from toolwire.runs.records import plain
from toolwire.runs.register import RUNS, Lost, Register
from toolwire.runs.specs import Given, prompt_of, read, resumed
from toolwire.work.waiting import Raised, run

logger: logging.Logger = logging.getLogger("toolwire")
MOST = 5
LATE = "cancelled: its deadline has passed"
_KEPT = 1000
_TICK = 0.25


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
        self.queue: str | None = None
        self.held: dict[str, Journal] = {}
        self.done: dict[str, Any] = {}
        self.memory: dict[str, dict[int, Any]] = {}
        self._here = f"here-{self.owner.rpartition('|')[2]}"
        self._listens_here = False
        self._ending: set[str] = set()
        self._over: deque[str] = deque()
        self._coming: set[str] = set()
        self._unclaimed: dict[str, float] = {}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None

    def launch(self) -> None:
        """Begin to lead runs here."""
        with self._lock:
            if self._watcher is not None:
                return
            self.engine.launch(self.lead, [self._here, *([self.queue] if self.queue else [])])
            if self.queue is not None:
                self.engine.listen(self.queue, self.concurrency)
            self._watcher = threading.Thread(target=self._watch, name="toolwire runs", daemon=True)
            self._watcher.start()

    def close(self, seconds: float) -> None:
        """Leave what is led here when its present step has ended, and close."""
        for journal in list(self.held.values()):
            journal.leaving = True
        until = time.monotonic() + seconds
        while (self.held or self._ending) and time.monotonic() < until:
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

    # Leading

    def lead(self, name: str) -> Any:
        """Lead a run to its end, or to where it is left; what it gives is recorded by the engine."""
        at("before-claim")
        self._coming.discard(name)
        known = len(self.engine.steps(name, output=False))
        row = self.register.claim(name, self.owner, self.lease, known)
        if row is None:
            raise Lost(name)
        at("after-claim")
        if row.tries > MOST:
            return self._park(name, row.token, f"it failed {MOST} times in a row without a new step")
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
        journal.people, journal.on_event = own.people, own.settings.get("on_event")
        journal.memory = self.memory.setdefault(name, {})
        self.held[name] = journal
        try:
            with own.client() as client:
                done = run(client.leading(prompt_of(request), own.settings, journal=journal))
            if journal.late and done.ending == "cancelled":
                done = replace(done, reason="its deadline has passed")
            self.done[name] = done
            del self.memory[name]
            output = journal.final(done)
        except ProviderError as problem:
            output = {"failed": plain(problem.error), "provider": problem.provider}
        finally:
            self.held.pop(name, None)
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
            case Failed() | OSError() | SystemExit():
                logger.warning("run %r is led again: %s", name, problem)
                self._release(name, token, "queued", str(problem), expires=self.register.now + 1.0)
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
        values = {"state": state, "reason": reason, "owner": None, "expires": RUNS.c.deadline, **more}
        self.engine.cancel(name)
        at("in-release")
        self.register.change(name, RUNS.c.token == token, **values)

    # Watching

    def _watch(self) -> None:
        renewed = swept = 0.0
        while not self._stop.wait(_TICK):
            now = time.monotonic()
            try:
                if now >= renewed:
                    self._renew()
                    renewed = now + self.lease / 5
                self._heed()
                self._close_ended()
                if now >= swept:
                    self.sweep()
                    self._find_unclaimed()
                    swept = now + min(1.0, self.lease / 4)
            except Exception as problem:  # noqa: BLE001 - a database that is away comes back
                logger.warning("runs cannot be watched: %s", type(problem).__name__)

    def _renew(self) -> None:
        """Hold the leases of what is led here, and of what waits here to be led."""
        if runs := {*self.held, *self._coming}:
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
        for name in self.engine.ended(names) if names else ():
            self.register.change(name, state="ended", owner=None, expires=None)
            self._ending.discard(name)
            self._over.append(name)
            at("after-end")
        while len(self._over) > _KEPT:
            old = self._over.popleft()
            self.done.pop(old, None)
            self.given.pop(old, None)

    def sweep(self, only: str | None = None) -> None:
        """Take over what nobody leads any more; end what was cancelled, or is too late."""
        queues = [self.queue] if self.queue is not None and self._watcher is not None else []
        rows = [row for row in self.register.expired(queues, self.given, only) if row.id not in self.held]
        ended = self.engine.ended([row.id for row in rows]) if rows else set()
        for row in rows:
            if row.id in ended:
                self.register.change(row.id, RUNS.c.token == row.token, state="ended", owner=None, expires=None)
            elif row.cancel or row.late:
                self.end_cancelled(row, "cancelled" if row.cancel else LATE)
            else:
                self._take(row)

    def _find_unclaimed(self) -> None:
        """Take over what somebody took from the queue, and died before it was his."""
        takers = self.engine.taken(self.queue) if self.queue is not None else {}
        rows = self.register.unclaimed(takers) if takers else []
        now = time.monotonic()
        self._unclaimed = {row.id: self._unclaimed.get(row.id, now) for row in rows}
        for row in rows:
            if now - self._unclaimed[row.id] >= self.lease or is_dead(takers[row.id]):
                self._take(row)

    def _take(self, row: Any) -> None:
        if self.register.take(row.id, row.token, self.owner, self.lease):
            at("after-take")
            self._resume(row.id, row.queue, row.token + 1)

    def _resume(self, name: str, queue: str | None, token: int) -> None:
        """Have a run led again, here, or by whoever works at its queue."""
        if queue is None:
            self._coming.add(name)
        if not self.engine.resume(name, self.home(queue)):
            self.engine.start(name)
        elif queue is not None:
            self.register.change(name, RUNS.c.token == token, owner=None, expires=RUNS.c.deadline)

    def end_cancelled(self, row: Any, reason: str = "cancelled") -> bool:
        """End a run that was cancelled and that nobody leads."""
        held = (RUNS.c.token == row.token, RUNS.c.state == row.state)
        values = {"state": "ended", "reason": reason, "owner": None, "expires": None, "token": row.token + 1}
        if not self.register.change(row.id, *held, **values):
            return False
        self.engine.cancel(row.id)
        return True


def _word(output: Any) -> str:
    """Say in a word how a run ended."""
    if "failed" in output:
        return "failed"
    return str(output["outcome"]["value"]["ending"])
