"""Measure what the file tools cost on a file of 1 MB, as ratios in one run to the plain Python calls.

Both work on files of the same content, in the same folder, one after the other; the ratio quoted is the
median over rounds. A tool is called as a model calls it: found by name, its arguments validated, its result
made. Where there is a file system in memory, it is measured too: there the plain calls cost least.
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from toolwire import CodeTools, ToolCall

ROUNDS = 40
TARGET = 3.0
SETTLED = 2.1
SIZE = 1024 * 1024
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
TEXT = "".join(f"line {number} of a file that is neither short nor long\n" for number in range(30_000))[:SIZE]
OLD, NEW = "line 9000 of a file", "LINE 9000 OF A FILE"
Work = Callable[[str], Any]


def ours(folder: Path) -> dict[str, Work]:
    """Give our ways, on a file of ours."""
    tools = CodeTools(folder)

    def call(name: str, **arguments: Any) -> None:
        result = tools.resolve(ToolCall("1", name, {"path": "ours", **arguments}))
        assert not result.is_error, result.content

    return {
        "read": lambda _: call("read_file"),
        "edit": lambda old: call("edit_file", oldText=old, newText=NEW if old == OLD else OLD),
        "write": lambda _: call("write_file", content=TEXT),
        "append": lambda _: call("append_to_file", content="one more line\n"),
    }


def plain(folder: Path) -> dict[str, Work]:
    """Give the plain calls, on a file of their own."""
    path = folder / "plain"

    def append(_: str) -> None:
        with path.open("a") as file:
            file.write("one more line\n")
            file.flush()
            os.fsync(file.fileno())

    def write(text: str) -> None:
        with path.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    return {
        "read": lambda _: path.read_text(),
        "edit": lambda old: write(path.read_text().replace(old, NEW if old == OLD else OLD, 1)),
        "write": lambda _: write(TEXT),
        "append": append,
    }


def spent(work: Work, old: str) -> float:
    """Give the microseconds of one call."""
    begin = time.perf_counter()
    work(old)
    return (time.perf_counter() - begin) * 1e6


def ratio(work: Work, floor: Work, rounds: int) -> tuple[float, float, float]:
    """Give the median ratio, and the medians of both in microseconds."""
    pairs = []
    texts: Iterator[str] = (OLD if number % 2 == 0 else NEW for number in count())
    for _ in range(rounds + 2):
        old = next(texts)
        pairs.append((spent(floor, old), spent(work, old)))
    del pairs[:2]
    median = statistics.median
    return median(b / a for a, b in pairs), median(a for a, _ in pairs), median(b for _, b in pairs)


def measured(folder: Path, rounds: int) -> dict[str, tuple[float, float, float]]:
    """Measure each tool in a folder."""
    found = {}
    for name in ours(folder):
        for file in ("ours", "plain"):
            (folder / file).write_text(TEXT)
        if name == "read":
            time.sleep(SETTLED)  # a file that changed just now is hashed when it is read
        found[name] = ratio(ours(folder)[name], plain(folder)[name], rounds)
    return found


def report(*, short: bool = False) -> None:
    """Print the ratios: without fsync, which the target is of, and with it."""
    rounds = ROUNDS // 4 if short else ROUNDS
    print(f"\nfile tools on a file of 1 MB, target at most {TARGET} x the plain calls, both without fsync")
    print("  (append puts a whole new file in place, so that it is never torn; the plain call does not)")
    for where in (None, MEMORY if MEMORY.is_dir() else None):
        folder = Path(tempfile.mkdtemp(dir=where))
        try:
            kind = "in memory" if where else "on disk"
            with patch.object(os, "fsync"):
                _print(measured(folder, rounds), kind)
            if where is None:
                _print(measured(folder, rounds), f"{kind}, both with fsync")
        finally:
            shutil.rmtree(folder)
        if not MEMORY.is_dir():
            return


def _print(found: dict[str, tuple[float, float, float]], where: str) -> None:
    for name, (times, floor, cost) in found.items():
        print(f"  {name:<7} {where:<26} {times:5.2f} x   ({cost:7.0f} us, plain {floor:7.0f} us)")


if __name__ == "__main__":
    report()
