"""Four workers on one PostgreSQL, one killed again and again: all runs end right, and nothing is done twice.

Each worker takes itself for one of another machine, so that its lease alone says that it is dead.
"""

import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.amounts import FULL
from tests.runs.jobs import serving, started
from tests.runs.test_workers import worker
from tests.traces.postgres import Database, Postgres
from toolwire import Runs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed as POSIX does it"),
]
RUNS, TURNS, RESTARTS = (500, 10, (5, 15)) if FULL else (24, 10, (3,))
EVERY, LEASE, GRACE = 2.0, 5.0, 2.0
WORKERS = 4
PATIENCE = 120.0  # in which one more run ends, however slow the machine is
SEED = 5


class Hill:
    """Workers, one of which is killed now and then, and what became of the runs that it led."""

    def __init__(self, runs: Runs, url: str, folder: Path) -> None:
        self.runs = runs
        self._url, self._folder = url, folder
        self.workers = [self._worker() for _ in range(WORKERS)]
        self.dead: dict[str, tuple[int, float, float]] = {}
        self.waited: list[tuple[float, float]] = []
        self.nobody = 0.0
        self._looked = time.monotonic()

    def _worker(self) -> "subprocess.Popen[str]":
        return worker(self._url, self._folder, lease=LEASE, program="tests.runs.elsewhere", JOBS_PAUSE="0.05")

    def kill(self, place: int) -> None:
        """Kill a worker, and begin another one."""
        one = self.workers[place]
        one.send_signal(signal.SIGKILL)
        one.communicate()
        killed = time.monotonic()
        owned = [row for row in self.runs.core.register.rows("running", RUNS) if f"|{one.pid}|" in (row.owner or "")]
        self.dead |= {row.id: (row.token, killed, self.nobody) for row in owned}
        self.workers[place] = self._worker()

    def look(self) -> None:
        """See which runs of the dead were taken over, and how long that took while some worker was there to do it."""
        before, self._looked = self._looked, time.monotonic()
        begun = select.poll()  # `select` takes no file of a number over 1,023
        for one in self.workers:
            if one.stdout is not None:
                begun.register(one.stdout, select.POLLIN)
        if not begun.poll(0):  # each of them has just been begun
            self.nobody += self._looked - before
        for name, (token, killed, nobody) in list(self.dead.items()):
            row = self.runs.core.register.row(name)
            if row is None or row.token > token or row.state == "ended":
                seconds = time.monotonic() - killed
                self.waited.append((seconds - (self.nobody - nobody), seconds))
                del self.dead[name]

    def end(self) -> None:
        """End all of them."""
        for one in self.workers:
            one.kill()
            one.communicate()


@pytest.mark.row("N5")
@pytest.mark.timeout(3600 if FULL else 300)
def test_all_runs_end_right_while_workers_are_killed(  # noqa: PLR0915 - one story
    postgres: Postgres, database: Database, tmp_path: Path, tally: Counter[str]
) -> None:
    moment = random.Random(SEED)  # noqa: S311 - a choice, not a secret
    kills = 0
    with contextmanager(serving)() as model, Runs(database.url, lease=LEASE) as runs:
        jobs = [started(runs, number, model.url, TURNS) for number in range(RUNS)]
        left, begun = {run.id for run in jobs}, time.monotonic()
        hill = Hill(runs, database.url, tmp_path)
        late = begun + PATIENCE
        try:
            while left or hill.dead:
                assert time.monotonic() < late, [(one.id, one.state, one.reason) for one in jobs if one.id in left]
                time.sleep(0.1)
                hill.look()
                if ended := runs.core.engine.ended(list(left)):
                    left -= ended
                    late = time.monotonic() + PATIENCE
                if left and time.monotonic() - begun > EVERY * (kills + 1):
                    hill.kill(moment.randrange(WORKERS))
                    kills += 1
                    if kills in RESTARTS:
                        postgres.restart()
                        hill.dead.clear()  # the server was away, so that nobody could take them over
            seconds = time.monotonic() - begun
            ends = [run.result(5) for run in jobs]
        finally:
            hill.end()
    assert [end.content for end in ends] == ["all parts are done"] * RUNS
    did = Counter((tmp_path / "done").read_text().split())
    assert max(did.values()) == 1
    assert kills >= len(RESTARTS)
    unknown = TURNS * RUNS - len(did)
    told = sum("Whether it happened is unknown" in str(end.messages) for end in ends)
    assert unknown <= sum(str(end.messages).count("Whether it happened is unknown") for end in ends)
    sys.stdout.write(f"the longest waited (with a worker there, at all): {sorted(hill.waited)[-9:]}\n")
    longest = max(hill.waited, default=(0.0, 0.0))[0]  # the few kills of a short run may have met nobody at work
    assert longest <= LEASE + GRACE
    assert hill.waited or not FULL
    tally["runs of many workers that ended right"] += RUNS
    tally["seconds that they took"] += round(seconds)
    tally["workers killed"] += kills
    tally["runs that a dead worker led"] += len(hill.waited)
    tally["milliseconds until the last one was taken over, at most"] += round(1000 * longest)
    tally["milliseconds in which no worker had begun"] += round(1000 * hill.nobody)
    tally["runs that were told of a call of which nobody knows whether it happened"] += told
    tally["calls of them that did not happen"] += unknown
