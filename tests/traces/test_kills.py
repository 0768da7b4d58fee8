"""Kill -9 while traces are written: what was acknowledged is there, and the chain is whole."""

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.amounts import FULL
from tests.traces.making import asked
from tests.traces.test_writers import process
from toolwire import traces

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed as POSIX does it"),
]
KILLS, CONTROLS = (1000, 20) if FULL else (10, 4)
SEED = 7


def killed(work: str, url: str, folder: Path, round_: int, moment: random.Random) -> tuple[int, int]:
    """Kill a writer after its first acknowledgement; give how many it made, how many are lost."""
    acknowledged, name = folder / f"{round_}", f"r{round_}"
    running = process(work, url, acknowledged, name)
    try:
        late = time.monotonic() + 60
        while not (acknowledged.exists() and acknowledged.stat().st_size):
            assert running.poll() is None, "the writer ended by itself"
            assert time.monotonic() < late
            time.sleep(0.002)
        time.sleep(moment.random() * 0.05)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    said = [int(line) for line in acknowledged.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    where = f"SELECT iteration FROM tool_traces WHERE tenant_id = '{name}'"
    there = {row[0] for row in asked(url, where)}
    return len(said), len(set(said) - there)


@pytest.mark.row("T6")
def test_nothing_acknowledged_is_lost(store_url: str, tmp_path: Path, tally: Counter[str]) -> None:
    moment = random.Random(SEED)  # noqa: S311 - a moment, not a secret
    database = store_url.partition(":")[0]
    traces.open(store_url).close()
    rows = 0
    for number in range(KILLS // 2):
        said, lost = killed("victim", store_url, tmp_path, number, moment)
        assert lost == 0
        assert said > 0
        rows += said
        if number % 20 == 0 or number == KILLS // 2 - 1:
            with traces.open(store_url, create=False) as store:
                assert store.verify().ok
    tally[f"kills while writing to {database}, nothing acknowledged lost, chain valid"] += KILLS // 2
    tally[f"rows that were acknowledged before a kill, {database}"] += rows


@pytest.mark.row("T6")
def test_who_acknowledges_too_early_loses(store_url: str, tmp_path: Path, tally: Counter[str]) -> None:
    moment = random.Random(SEED)  # noqa: S311 - the same
    traces.open(store_url).close()
    lost = sum(killed("early", store_url, tmp_path, number, moment)[1] for number in range(CONTROLS))
    assert lost > 0
    tally["rows lost by acknowledging before the commit (control)"] += lost
