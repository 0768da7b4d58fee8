"""Four workers on one PostgreSQL, one killed again and again: all runs end right, and nothing is done twice."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runs.jobs import TOOLS, serving
from tests.runs.test_workers import ENDING, worker
from tests.traces.postgres import Database, Postgres
from toolwire import Runs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed as POSIX does it"),
]
FULL = os.environ.get("TOOLWIRE_TORTURE") == "full"
RUNS, EVERY, RESTARTS = (500, 2.0, 2) if FULL else (30, 2.0, 1)
WORKERS = 4
PATIENCE = 120.0  # in which one more run ends, however slow the machine is
SEED = 5


@pytest.mark.row("N5")
def test_all_runs_end_right_while_workers_are_killed(
    postgres: Postgres, database: Database, tmp_path: Path, tally: Counter[str]
) -> None:
    moment = random.Random(SEED)  # noqa: S311 - a choice, not a secret
    workers: list[subprocess.Popen[str]] = []
    with contextmanager(serving)() as base_url, Runs(database.url, lease=2.0) as runs:
        options = {"base_url": base_url}
        started = [
            runs.start(f"Job {n}.", "openai", "m", id=f"job-{n}", queue="jobs", tools=TOOLS, options=options)  # type: ignore[arg-type]
            for n in range(RUNS)
        ]
        try:
            workers += [worker(database.url, tmp_path) for _ in range(WORKERS)]
            late, kills, left = time.monotonic() + PATIENCE, 0, {run.id for run in started}
            while left:
                assert time.monotonic() < late, [(run.id, run.state, run.reason) for run in started if run.id in left]
                time.sleep(EVERY)
                if kills < RUNS // 6:
                    place = moment.randrange(WORKERS)
                    workers[place].send_signal(signal.SIGKILL)
                    workers[place].communicate()
                    workers[place] = worker(database.url, tmp_path)
                    kills += 1
                    if kills <= RESTARTS:
                        postgres.run(ENDING.format(database.name))
                if ended := runs.core.engine.ended(list(left)):
                    left -= ended
                    late = time.monotonic() + PATIENCE
            ends = [run.result(5) for run in started]
        finally:
            for one in workers:
                one.kill()
                one.communicate()
    assert [end.content for end in ends] == ["all parts are done"] * RUNS
    did = Counter((tmp_path / "done").read_text().split())
    assert max(did.values()) == 1
    unknown = 3 * RUNS - len(did)
    tally["runs of many workers that ended right"] += RUNS
    tally["workers killed"] += kills
    tally["calls of which nobody knows whether they happened, and that did not"] += unknown
