"""Kill -9 at every moment at which something is written, and at random ones: every run ends right."""

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.amounts import FULL
from tests.runs.killing import begun, check, ended
from toolwire.runs.failpoints import POINTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed as POSIX does it"),
]
TIMES, RANDOM = (50, 1000) if FULL else (1, 7)
PARKING = ("before-park", "in-release", "after-park")
SEED = 11


@pytest.mark.row("N1")
@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.row("T9")
def test_a_kill_at_a_failpoint(point: str, runs_url: str, tmp_path: Path, tally: Counter[str]) -> None:
    moment = random.Random(SEED)  # noqa: S311 - a moment, not a secret
    asks = point in PARKING
    for number in range(TIMES):
        folder = tmp_path / str(number)
        folder.mkdir()
        name = f"run-{number}"
        often = 1 if point.endswith(("start", "claim", "end", "take")) else moment.randint(1, 4)
        if point == "after-take":  # a run is taken over from a process that was killed before
            ended(begun(runs_url, name, folder, f"in-call:{moment.randint(1, 20)}"))
        code, _, complained = ended(begun(runs_url, name, folder, f"{point}:{often}", asks=asks))
        assert code == -signal.SIGKILL or (point == "after-end" and code == 0), complained
        code, said, complained = ended(begun(runs_url, name, folder, asks=asks))
        assert code == 0, complained
        tally["kills of a process that leads a run"] += 1
        for what, times in check(folder, said).items():
            if times:
                tally[f"{what}, killed at {point}"] += times


@pytest.mark.row("N1")
@pytest.mark.timeout(4 * 3600 if FULL else 300)
def test_kills_at_random_moments(runs_url: str, tmp_path: Path, tally: Counter[str]) -> None:
    moment = random.Random(SEED)  # noqa: S311 - the same
    kills = number = 0
    while kills < RANDOM:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        for _ in range(3):
            process = begun(runs_url, f"run-{number}", folder)
            late = time.monotonic() + 30
            while not (folder / "look").exists() and process.poll() is None and time.monotonic() < late:
                time.sleep(0.01)
            time.sleep(moment.random() * 0.6)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            ended(process)
        code, said, complained = ended(begun(runs_url, f"run-{number}", folder))
        assert code == 0, complained
        for what, times in check(folder, said).items():
            if times:
                tally[f"{what}, killed at random"] += times
    assert kills >= RANDOM
    tally["kills of a process that leads a run"] += kills


def test_a_tool_without_the_contract_is_run_twice(tmp_path: Path) -> None:
    folder = tmp_path / "effects"
    folder.mkdir()
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    code, _, _ = ended(begun(url, "run", folder, "in-call:6"))
    assert code == -signal.SIGKILL
    code, said, complained = ended(begun(url, "run", folder))
    assert code == 0, complained
    assert check(folder, said)["careless twice"] == 1
