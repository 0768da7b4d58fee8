"""Kill -9 at any moment leaves a file as it was or as it will be; several files too."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.codetools.folders import other_process, said_by, sized

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed as POSIX does it"),
]
KILLS = sized(1000, 60)
CONTROLS = sized(200, 40)
SEEDS = (1, 2)
WORKS = ("write_file", "append_to_file", "edit_file", "multi_edit", "multi_edit of several files")
CONTROL = ("writing in place (control)", "replacing one after the other (control)")


def told_by(work: str, folder: Path, kills: int) -> Counter[str]:
    """Kill in two processes at a time, each with a folder of its own, and add up what they say."""
    told: Counter[str] = Counter()
    running = []
    for seed in SEEDS:
        own = folder / str(seed)
        own.mkdir()
        running.append(other_process("victims.py", work, own, kills // len(SEEDS), seed))
    for process in running:
        told.update(said_by(process))
    return told


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.row("R002-70", "B12", "B18", "B24")
def test_nothing_is_torn(tmp_path: Path, tally: Counter[str], work: str) -> None:
    told = told_by(work, tmp_path, KILLS)
    tally[f"kills of {work}, nothing torn or mixed after a start"] += told["kills"]
    if "several" in work:
        tally["of them left the files mixed until then"] += told["before"]
    assert told["kills"] == KILLS
    assert told["changed"] == KILLS, "a process was killed before it changed anything"
    assert not told["ended by themselves"]
    assert not told["after"]
    assert not told["left by the journal"]
    assert not told["left after a write"]
    if work != "multi_edit of several files":
        assert not told["before"]


@pytest.mark.parametrize("work", CONTROL)
def test_the_naive_way_tears(tmp_path: Path, tally: Counter[str], work: str) -> None:
    told = told_by(work, tmp_path, CONTROLS)
    assert told["after"] > CONTROLS // 5
    tally[f"of {CONTROLS} kills of {work} left a file torn or files mixed"] += told["after"]
