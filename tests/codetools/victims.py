"""Change files in processes that are killed at any moment, and look at what is left.

`victims.py WORK FOLDER KILLS SEED` prints one line of JSON: how often a file was torn or several files did
not fit together, before the next start and after it, and how often names were left over.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from toolwire import CodeTools, ToolCall
from toolwire.codetools import replacing

LINES = 4000
RECORD = "x" * 2000
LONGEST = 0.008
NAMES = ("a", "b", "sub/c")


def call(tools: CodeTools, name: str, **arguments: Any) -> None:
    """Call a tool that has to succeed."""
    result = tools.resolve(ToolCall("1", name, arguments))
    if result.is_error:
        raise RuntimeError(str(result.content))


def uniform(number: int) -> str:
    """Make content that shows if it is mixed: the same number in each line."""
    return f"{number}\n" * LINES


def marked(number: int) -> str:
    """Make content that begins and ends with a number."""
    return f"<begin {number}>\n{'middle' * LINES}\n<end {number}>\n"


def numbers_of(path: Path) -> list[int]:
    """Read the numbers of marked content; none if anything else of it changed."""
    lines = path.read_text().split("\n")
    if len(lines) != 4 or lines[1] != "middle" * LINES or lines[3]:
        return []
    return [int(lines[0][7:-1]), int(lines[2][5:-1])]


def write(tools: CodeTools, _: Path, number: int) -> None:
    """Write a whole file."""
    call(tools, "write_file", path="f", content=uniform(number))


def write_naive(_: CodeTools, folder: Path, number: int) -> None:
    """Write in place, as `open` does."""
    (folder / "f").write_text(uniform(number))


def append(tools: CodeTools, folder: Path, number: int) -> None:
    """Add a record; begin anew when there are many."""
    if (folder / "f").stat().st_size > 200 * len(RECORD):
        call(tools, "write_file", path="f", content="")
    call(tools, "append_to_file", path="f", content=f"{number}:{RECORD}\n")


def edit(tools: CodeTools, folder: Path, number: int) -> None:
    """Change one number."""
    old = numbers_of(folder / "f")[0]
    call(tools, "edit_file", path="f", oldText=f"<begin {old}>", newText=f"<begin {number}>")


def edit_twice(tools: CodeTools, folder: Path, number: int) -> None:
    """Change both numbers of a file."""
    old = numbers_of(folder / "f")[0]
    edits = [{"oldText": f"<{what} {old}>", "newText": f"<{what} {number}>"} for what in ("begin", "end")]
    call(tools, "multi_edit", path="f", edits=edits)


def edit_several(tools: CodeTools, folder: Path, number: int) -> None:
    """Change both numbers of several files."""
    old = numbers_of(folder / NAMES[0])[0]
    edits = [
        {"path": name, "oldText": f"<{what} {old}>", "newText": f"<{what} {number}>"}
        for name in NAMES
        for what in ("begin", "end")
    ]
    call(tools, "multi_edit", edits=edits)


def edit_several_naive(_: CodeTools, folder: Path, number: int) -> None:
    """Replace one file after the other, each in one step."""
    for name in NAMES:
        (folder / f"{name}.tmp").write_text(marked(number))
        (folder / f"{name}.tmp").replace(folder / name)


def is_uniform(folder: Path) -> bool:
    """Whether a file is of one writing."""
    lines = (folder / "f").read_text().split("\n")
    return len(lines) == LINES + 1 and len(set(lines[:-1])) == 1


def is_of_records(folder: Path) -> bool:
    """Whether a file holds whole records, each after the one before."""
    lines = (folder / "f").read_text().split("\n")
    numbers = [int(line.split(":")[0]) for line in lines[:-1]]
    whole = all(line.split(":")[1] == RECORD for line in lines[:-1])
    return whole and not lines[-1] and numbers == sorted(numbers)


def is_marked(folder: Path) -> bool:
    """Whether nothing but the first number changed."""
    return bool(numbers_of(folder / "f"))


def is_pair(folder: Path) -> bool:
    """Whether both numbers are the same."""
    return len(set(numbers_of(folder / "f"))) == 1


def are_together(folder: Path) -> bool:
    """Whether all numbers of all files are the same."""
    return len({number for name in NAMES for number in numbers_of(folder / name) or [-1]}) == 1


Change = Callable[[CodeTools, Path, int], None]
WORKS: dict[str, tuple[Change, Callable[[Path], bool], str]] = {
    "write_file": (write, is_uniform, uniform(0)),
    "append_to_file": (append, is_of_records, ""),
    "edit_file": (edit, is_marked, marked(0)),
    "multi_edit": (edit_twice, is_pair, marked(0)),
    "multi_edit of several files": (edit_several, are_together, marked(0)),
    "writing in place (control)": (write_naive, is_uniform, uniform(0)),
    "replacing one after the other (control)": (edit_several_naive, are_together, marked(0)),
}


def victim(change: Change, folder: Path, first: int, begun: int, *, synced: bool) -> NoReturn:
    """Change files until the end; say so when that has begun."""
    if not synced:
        patch.object(os, "fsync").start()  # kill -9 does not test the disk, and meets more so
    tools = CodeTools(folder)
    number = first
    while True:
        change(tools, folder, number)
        if number == first:
            os.write(begun, b"!")
        number += 1


def main(work: str, folder: Path, kills: int, seed: int) -> None:
    """Kill, look, start anew, look again."""
    change, is_right, begin = WORKS[work]
    (folder / "sub").mkdir()
    for name in ("f", *NAMES):
        (folder / name).write_text(begin)
    first = 0 if work.startswith("append") else -1
    change(CodeTools(folder), folder, first)  # from here on what is imported late is there
    chance = random.Random(seed)  # noqa: S311 - it only has to come again
    told: Counter[str] = Counter()
    for kill in range(kills):
        was = contents(folder)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                victim(change, folder, kill * 1000 + 1, writing, synced=kill % 10 == 0)
            finally:
                os._exit(3)
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        time.sleep(chance.uniform(0, LONGEST))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        told["ended by themselves"] += not os.WIFSIGNALED(status)
        told["before"] += not is_right(folder)
        told["left"] += bool(left_over(folder))
        tools = CodeTools(folder)
        told["after"] += not is_right(folder)
        told["left by the journal"] += any(not name.endswith(".tmp") for name in left_over(folder))
        told["changed"] += contents(folder) != was
        if "control" in work:
            (folder / "f").write_text(begin)
            for name in NAMES:
                (folder / name).write_text(begin)
        elif kill % 50 == 49:
            replacing._swept.clear()
            for name in ("f2", "sub/c2"):
                call(tools, "write_file", path=name, content="x")
            told["left after a write"] += bool(left_over(folder))
    sys.stdout.write(json.dumps({"kills": kills, **told}) + "\n")


def contents(folder: Path) -> list[str]:
    """Read all files."""
    return [(folder / name).read_text() for name in ("f", *NAMES)]


def left_over(folder: Path) -> list[str]:
    """List what is named as our own files are."""
    return [path.name for path in folder.rglob(".toolwire-*")]


main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
