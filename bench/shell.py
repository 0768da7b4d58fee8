"""Measure what a command costs: bash alone, at each level of the sandbox, and in a large project.

The command does nothing, so that what is measured is everything around it. `bubblewrap alone` is the same
sandbox, started by hand and not looked after: the rest is the watching, the limits and the checks.
"""

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolwire import ToolCall
from toolwire.codetools import CodeTools
from toolwire.codetools.sandbox import BUBBLEWRAP, NONE, in_force

ROUNDS = 40
FILES = 10_000
ALONE = (
    "bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
    "--symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp /bin/bash --noprofile --norc -c :"
)
Work = Callable[[], Any]


def process(words: list[str]) -> Work:
    """Give a way to run a program, and to read what it says."""
    return lambda: subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def command(folder: Path, level: str) -> Work:
    """Give our way to run a command."""
    tools, call = CodeTools(folder, sandbox=level), ToolCall("call_1", "bash", {"command": ":"})

    def work() -> None:
        assert not tools.resolve(call).is_error

    return work


def milliseconds(works: dict[str, Work]) -> dict[str, float]:
    """Give the median of each, taken in turns, so that what else goes on hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(ROUNDS):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            found[name].append((time.perf_counter() - begin) * 1000)
    return {name: statistics.median(values) for name, values in found.items()}


def works_in(small: Path, large: Path) -> dict[str, Work]:
    """Give what is measured."""
    bash = shutil.which("bash") or "/bin/bash"
    works = {"bash alone": process([bash, "--noprofile", "--norc", "-c", ":"])}
    works[f"ours, {NONE}"] = command(small, NONE)
    if in_force({"sandbox": BUBBLEWRAP}) == BUBBLEWRAP:
        works["bubblewrap alone"] = process(ALONE.split())
        works[f"ours, {BUBBLEWRAP}"] = command(small, BUBBLEWRAP)
        works[f"ours, {BUBBLEWRAP}, {FILES} files"] = command(large, BUBBLEWRAP)
    else:
        print("  bubblewrap is not to be had here")
    return works


def report() -> None:
    """Print what a command costs."""
    print(f"\nan empty command, median of {ROUNDS}")
    with tempfile.TemporaryDirectory() as top:
        small, large = Path(top, "small"), Path(top, "large")
        small.mkdir()
        for number in range(FILES):
            path = large / f"folder{number % 100}" / f"file{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        found = milliseconds(works_in(small, large))
    for name, spent in found.items():
        print(f"  {name:>32}: {spent:6.1f} ms, {spent - found['bash alone']:+6.1f} ms")


if __name__ == "__main__":
    report()
