"""Processes that lead a run, killed and begun again, and what must be true of what they did."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.runs.forking import ROOT, Victim, environment
from tests.runs.victim import TURNS, lines
from toolwire.runs.failpoints import VARIABLE

ALL = sorted(str(number) for number in range(TURNS))


def begun(url: str, name: str, folder: Path, point: str = "", pause: float = 0.0, *, asks: bool = False) -> Victim:
    """Begin a process that leads the run."""
    return Victim(url, name, folder, {VARIABLE: point, "VICTIM_PAUSE": str(pause), "VICTIM_ASKS": "yes" * asks})


def program(module: str, *arguments: object, **around: str) -> "subprocess.Popen[str]":
    """Begin a program of the tests."""
    command, pipe = [sys.executable, "-m", f"tests.runs.{module}", *map(str, arguments)], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment(**around), text=True, stdout=pipe, stderr=pipe)


def ended(process: "Victim | subprocess.Popen[str]") -> tuple[int, str, str]:
    """Wait for a process."""
    if isinstance(process, Victim):
        return process.ended()
    try:
        said, complained = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        said, complained = process.communicate()
    return process.returncode, said, complained


def check(folder: Path, said: str) -> Counter[str]:
    """Check what the tools did, against what the model read; count what was told of interruptions."""
    effects = {name: lines(folder, name) for name in ("look", "note", "tried", "pay", "send", "careless")}
    assert said.startswith("answer all is done")
    told = Counter[str]()
    results = [line.split(" ", 1) for line in said.splitlines()[1:]]
    assert [name for name, _ in results] == ["look", "look", "note", "pay", "send", "careless"] * TURNS
    unknown = {
        str(turn)
        for turn, (_, words) in enumerate([one for one in results if one[0] == "pay"])
        if "Whether it happened is unknown" in words
    }
    assert max(Counter(effects["pay"]).values(), default=0) <= 1
    assert set(ALL) - set(effects["pay"]) <= unknown
    assert sorted(line.split()[1] for line in effects["note"]) == ALL
    assert sorted(line.split()[1] for line in effects["send"]) == ALL
    assert set(effects["look"]) == {f"{number}{side}" for number in ALL for side in "ab"}
    assert set(effects["careless"]) == set(ALL)
    told["unknown"] = len(unknown)
    told["careless twice"] = len(effects["careless"]) - TURNS
    told["none again"] = len(effects["look"]) - 2 * TURNS
    told["again"] = sum("an earlier attempt" in words for _, words in results)
    return told
