"""Somebody swaps a folder or a file with a link that leads out, while the tools work on it."""

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import KEPT, Project, other_process, said_by, sized
from toolwire.codetools import editing, paths, reading
from toolwire.codetools.paths import PathRefused

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="names are swapped in one step on Linux only"),
]
TRIES = sized(200_000, 2_000)  # of each operation: a quarter each for folder and file, by kernel and by walk
NAIVE = 20_000
FILLING = "inside " * 20


@contextlib.contextmanager
def swapping(project: Project, one: str, other: str) -> Iterator[dict[str, Any]]:
    """Swap two names all the while."""
    told: dict[str, Any] = {}
    attacker = other_process("attacker.py", project.root, one, other, stdin=subprocess.PIPE)
    assert attacker.stdout is not None
    assert attacker.stdout.readline() == "ready\n"
    try:
        yield told
    finally:
        told |= said_by(attacker)
    assert told["swaps"] - told["failed"] > 1000


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Make a folder `d` and a file `f`, and links to the same names outside."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # what is raced for is names, not the disk
    made = Project(tmp_path)
    made.file("d/f.txt", FILLING)
    made.file("f.txt", FILLING)
    (made.root / "way").symlink_to("../outside")
    (made.root / "file").symlink_to("../outside/f.txt")
    return made


def read(project: Project, path: str, _: int) -> None:
    said = reading.read_file(project.tools.desk, path=path)
    assert KEPT not in str(said)


def write(project: Project, path: str, number: int) -> None:
    folder = path.rpartition("/")[0]
    where = f"{folder}/new{number % 50}" if folder and number % 2 else path
    editing.write_file(project.tools.desk, path=where, content=FILLING)


def make(project: Project, path: str, number: int) -> None:
    folder = path.rpartition("/")[0]
    where = f"{folder}/sub{number}/x" if folder else path
    editing.write_file(project.tools.desk, path=where, content=FILLING)
    if folder:
        for place in (project.root / "d", project.root / "way"):
            with contextlib.suppress(OSError):
                (place / f"sub{number}/x").unlink()
                (place / f"sub{number}").rmdir()


def append(project: Project, path: str, number: int) -> None:
    if number % 20 == 0:
        editing.write_file(project.tools.desk, path=path, content=FILLING)
    editing.append_to_file(project.tools.desk, path=path, content="x")


def edit(project: Project, path: str, number: int) -> None:
    del number
    editing.write_file(project.tools.desk, path=path, content="inside")
    editing.edit_file(project.tools.desk, path=path, oldText="inside", newText=FILLING)


def edits(project: Project, path: str, number: int) -> None:
    del number
    for name in ("other.txt", path):
        editing.write_file(project.tools.desk, path=name, content="inside")
    pair = [{"path": name, "oldText": "inside", "newText": FILLING} for name in ("other.txt", path)]
    editing.multi_edit(project.tools.desk, edits=pair)


WORKS: dict[str, Callable[[Project, str, int], None]] = {
    "read_file": read,
    "write_file": write,
    "write_file with folders": make,
    "append_to_file": append,
    "edit_file": edit,
    "multi_edit": edits,
}
# A link that is swapped in after the last look is itself replaced. From then on two files are swapped, so
# that the text to edit is in the other one; the link is set anew.
OTHER_FILE = {"ambiguous", "no_match"}
REFUSED = {"outside_root", "not_found", "link", "stale", "not_a_folder", "link_loop", *OTHER_FILE}


def set_link_anew(project: Project) -> None:
    """Make one of the two names a link and the other a file again; a swap in between is mended later."""
    names = [project.root / name for name in ("f.txt", "file")]
    links = sum(name.is_symlink() for name in names)
    with contextlib.suppress(OSError):
        if links != 1:
            names[1].unlink()
        if links == 0:
            names[1].symlink_to("../outside/f.txt")
        if links == 2:
            names[1].open("x").close()


@pytest.mark.parametrize("opener", ["openat2", "walk"])
@pytest.mark.parametrize("kind", ["folder", "file"])
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.row("A8", "A9", "B26")
def test_nothing_outside_is_read_or_written(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    tally: Counter[str],
    work: str,
    kind: str,
    opener: str,
) -> None:
    if opener == "walk":
        monkeypatch.setitem(paths._kernel, "openat2", False)
    elif not paths.has_openat2():
        pytest.skip("this kernel has no openat2")
    path, names = ("d/f.txt", ("d", "way")) if kind == "folder" else ("f.txt", ("f.txt", "file"))
    worked = 0
    codes: Counter[str] = Counter()
    with swapping(project, *names):
        number = 0
        while number < TRIES // 4 or (number < 100 * TRIES and not (worked and codes)):
            number += 1
            project.tools.desk.seen.clear()  # else a file swapped in is stale for good
            try:
                WORKS[work](project, path, number)
                worked += 1
            except PathRefused as problem:
                codes[problem.code] += 1
            if kind == "file" and number % 10 == 0:
                set_link_anew(project)
    project.untouched()
    assert set(codes) <= REFUSED, codes
    assert worked, f"the attacker was all there was: {codes}"
    assert codes, "the attacker was never met"
    tally[f"of the tries of {work} went through between two swaps"] += worked
    tally[f"tries of {work} against a swapping attacker, none read or wrote outside"] += number


def test_the_naive_way_is_led_out(project: Project, tally: Counter[str]) -> None:
    root = os.path.realpath(project.root)
    led = 0
    with swapping(project, "d", "way"):
        for _ in range(NAIVE):
            with contextlib.suppress(OSError):
                if os.path.realpath(f"{root}/d/f.txt").startswith(root + "/"):
                    led += Path(f"{root}/d/f.txt").read_text() == KEPT
    assert led > sized(NAIVE // 200, 0)
    tally["naive reads of 20,000 that were led outside (control)"] += led
