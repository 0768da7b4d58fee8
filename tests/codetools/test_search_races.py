"""Somebody swaps a folder with a link that leads out while it is searched; very much of it."""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codetools.folders import Project, sized
from tests.codetools.searching import HAS_RG, RG
from tests.codetools.test_paths_races import swapping

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="names are swapped in one step on Linux only"),
]
FOLDERS = 40
SEEN = "sentinel of the outside"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Make a folder `d` with folders in it, and a link `way` to such a folder outside."""
    made = Project(tmp_path)
    for number in range(FOLDERS):
        made.file(f"d/n{number}/f.txt", "inside\n")
        (made.outside / f"n{number}").mkdir()
        (made.outside / f"n{number}/f.txt").write_text(f"{SEEN}\n")
        (made.outside / f"n{number}/sentinel-name").write_text("")
    (made.root / "way").symlink_to("../outside")
    return made


def grep(project: Project, _: int) -> str:
    return str(project.call("grep", pattern="inside|sentinel", ignored=True)[0])


def grep_in(project: Project, _: int) -> str:
    return str(project.call("grep", pattern="inside|sentinel", path="d")[0])


def grep_file(project: Project, number: int) -> str:
    return str(project.call("grep", pattern="inside|sentinel", path=f"d/n{number % FOLDERS}/f.txt")[0])


def glob(project: Project, _: int) -> str:
    return str(project.call("glob", pattern="d/**")[0])


def tree(project: Project, _: int) -> str:
    return str(project.call("tree")[0])


def list_directory(project: Project, number: int) -> str:
    return str(project.call("list_directory", path=f"d/n{number % FOLDERS}")[0])


def file_info(project: Project, number: int) -> str:
    said, failed = project.call("file_info", path=f"d/n{number % FOLDERS}/sentinel-name")
    return "" if failed else f"{SEEN}: {said}"


TOOLS = [
    pytest.param(grep, RG, 200_000, 8_000, FOLDERS, marks=HAS_RG, id="grep-ripgrep"),
    pytest.param(grep_in, RG, 200_000, 8_000, FOLDERS, marks=HAS_RG, id="grep-in-ripgrep"),
    pytest.param(grep_file, RG, 20_000, 400, 1, marks=HAS_RG, id="grep-file-ripgrep"),
    pytest.param(grep, False, 200_000, 8_000, FOLDERS, id="grep-fallback"),
    pytest.param(grep_file, False, 20_000, 400, 1, id="grep-file-fallback"),
    pytest.param(glob, False, 200_000, 8_000, FOLDERS, id="glob"),
    pytest.param(tree, False, 200_000, 8_000, FOLDERS, id="tree"),
    pytest.param(list_directory, False, 200_000, 8_000, 1, id="list_directory"),
    pytest.param(file_info, False, 200_000, 8_000, 1, id="file_info"),
]


@pytest.mark.parametrize(("tool", "engine", "full", "short", "opened"), TOOLS)
@pytest.mark.row("A8")
def test_nothing_outside_is_shown(
    project: Project,
    tool: Callable[[Project, int], str],
    engine: str | bool,
    full: int,
    short: int,
    opened: int,
    tally: Counter[str],
    request: pytest.FixtureRequest,
) -> None:
    project.options["ripgrep"] = engine
    project.restart()
    calls = sized(full, short) // opened
    insides = tries = 0
    with swapping(project, "d", "way"):
        late = time.monotonic() + 60
        # Whether a try meets the folder at its place is chance: there are more until one has.
        while tries < calls or (not insides and tool is not file_info and time.monotonic() < late):
            said = tool(project, tries)
            tries += 1
            assert "sentinel" not in said, said
            insides += "n1" in said or "inside" in said or "f.txt" in said or "type: " in said
    assert insides or tool is file_info
    tally[f"folders opened while somebody swaps them: {request.node.callspec.id}"] += tries * opened


@HAS_RG
def test_the_naive_way_shows_what_is_outside(project: Project, tally: Counter[str]) -> None:
    shown = tries = 0
    with swapping(project, "d", "way"):
        until = time.monotonic() + 60
        while not shown and time.monotonic() < until:
            command = [str(RG), "--no-config", "-e", "sentinel", "--", "."]
            done = subprocess.run(command, cwd=project.root, capture_output=True, check=False)
            shown += SEEN.encode() in done.stdout
            tries += 1
    tally["searches until ripgrep alone showed what is outside"] += tries
    assert shown


@HAS_RG
@pytest.mark.row("D5")
def test_a_large_tree_is_searched_within_its_bounds(tmp_path: Path, tally: Counter[str]) -> None:
    project = Project(tmp_path)
    count = sized(1_000_000, 20_000)
    for number in range(count // 1000):
        (project.root / str(number)).mkdir()
        for name in range(1000):
            fd = os.open(project.root / str(number) / str(name), os.O_CREAT | os.O_WRONLY)
            os.write(fd, b"match\n" * 5)
            os.close(fd)
    with (project.root / "huge.txt").open("wb") as file:
        for _ in range(sized(2_000, 200)):
            file.write(b"match on every line of a large file\n" * 30_000)
    for engine in (RG, False):
        project.options["ripgrep"] = engine
        project.restart()
        for tool in ("grep", "glob"):
            begin = time.monotonic()
            said = project.ok(tool, pattern="match" if tool == "grep" else "**")
            assert time.monotonic() - begin < 25
            assert len(said) < 60 * 1024
            assert "[" in said
    shutil.rmtree(project.root)
    tally["files of one tree, searched within 20 s"] += count


@pytest.mark.row("D13")
def test_a_folder_of_very_many_entries_is_listed(tmp_path: Path, tally: Counter[str]) -> None:
    project = Project(tmp_path)
    count = sized(200_000, 20_000)
    fd = os.open(project.root, os.O_RDONLY)
    for number in range(count):
        os.close(os.open(f"f{number:06}", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    for tool in ("list_directory", "tree", "glob"):
        begin = time.monotonic()
        said = project.ok(tool, **({"pattern": "*"} if tool == "glob" else {}))
        assert said == project.ok(tool, **({"pattern": "*"} if tool == "glob" else {}))
        assert "f000000" in said
        assert time.monotonic() - begin < 10
    shutil.rmtree(project.root)
    tally["entries of one folder, listed"] += count
