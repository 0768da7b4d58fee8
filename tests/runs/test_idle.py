"""Runs that wait for a person cost nothing: ten thousand of them, beside none."""

import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.runs.test_workers import waited, worker
from toolwire import Runs, tool
from toolwire.runs.register import CALLS, RUNS
from toolwire.testing import simulate
from toolwire.types import ToolCall

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="what a process costs is read from /proc"),
]
WAITING, SECONDS = 10_000, 10.0
MOST_SHARE, MOST_BYTES = 0.01, 5_000_000


def spent(process: "subprocess.Popen[str]") -> tuple[float, int]:
    """Give the seconds of a processor that a process used, and the bytes of memory that are its own."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    own = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "RssAnon" in line)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 1000 * int(own.split()[1])


def idle(url: str, folder: Path) -> tuple[float, int]:
    """Give the share of a processor, and the bytes, that a worker with nothing to do takes."""
    one = worker(url, folder, lease=30.0)
    try:
        assert one.stdout is not None
        assert one.stdout.readline().startswith("toolwire executes runs of queue")
        time.sleep(2.0)
        before, _ = spent(one)
        time.sleep(SECONDS)
        after, held = spent(one)
    finally:
        one.kill()
        one.communicate()
    return (after - before) / SECONDS, held


@tool
def pay(order: str) -> str:
    """Pay an order."""
    return f"{order} is paid"


def copied(runs: Runs, number: int) -> None:
    """Have as many runs wait as the one that does, each as long as that one."""
    db = runs.core.register.db
    engine = sa.MetaData()
    schema = None if db.dialect.name == "sqlite" else "dbos"
    tables = [
        sa.Table(name, engine, schema=schema, autoload_with=db) for name in ("workflow_status", "operation_outputs")
    ]
    with db.begin() as connection:
        for table, column in ((RUNS, "id"), (CALLS, "run"), *((one, "workflow_uuid") for one in tables)):
            rows = [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for row in rows:
                more = [{**row, column: f"copy-{n}"} for n in range(number)]
                for start in range(0, number, 500):
                    connection.execute(sa.insert(table), more[start : start + 500])


def test_ten_thousand_runs_that_wait_cost_a_worker_nothing(runs_url: str, tmp_path: Path, tally: Counter[str]) -> None:
    with simulate([ToolCall(None, "pay", {"order": "17"})]) as model, Runs(runs_url) as runs:
        options: Any = {"base_url": model.url, "api_key": "any"}
        run = runs.start("Pay.", "openai", "m", id="one", tools=[pay], approve=True, options=options)
        waited(lambda: run.state == "waiting")
        runs.core.register.change("one", queue="jobs")
        share, held = idle(runs_url, tmp_path)
        copied(runs, WAITING - 1)
        assert len(runs.list("waiting", 20_000)) == WAITING
        more_share, more_held = idle(runs_url, tmp_path)
        for _ in range(2):  # a busy machine has a processor take longer for the same, now and then
            if more_share - share >= MOST_SHARE:
                more_share = min(more_share, idle(runs_url, tmp_path)[0])
        run = runs.run("copy-77")
        assert [question.tool for question in run.waiting] == ["pay"]
    tally["per mille of a processor that an idle worker takes, without a run that waits"] += round(1000 * share)
    tally["per mille of a processor that an idle worker takes, with 10,000 of them"] += round(1000 * more_share)
    tally["KB that an idle worker holds more with 10,000 of them"] += round((more_held - held) / 1000)
    assert more_share - share < MOST_SHARE
    assert more_held - held < MOST_BYTES
