"""The numeric limits of the code tools: what holds just below each, at it, and just above it."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import Project
from tests.codetools.searching import ENGINES
from toolwire import Image
from toolwire.codetools import editing
from toolwire.codetools.definitions import (
    COMMAND_BYTES,
    FILE_BYTES,
    IMAGE_BYTES,
    LINE_CHARACTERS,
    LIST_ENTRIES,
    MAX_EDITS,
    READ_BYTES,
    READ_LINES,
    TREE_ENTRIES,
)
from toolwire.codetools.output import Captured, render_both
from toolwire.codetools.paths import MAX_PARTS, MAX_PATH
from toolwire.codetools.patterns import MAX_PATTERN


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    made = Project(tmp_path)
    yield made
    made.untouched()


# The text of a file, and the number of its lines; the last of them may have no line break.
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x\n" * (READ_LINES - 1), READ_LINES - 1),
        ("x\n" * (READ_LINES - 1) + "x", READ_LINES),
        ("x\n" * READ_LINES, READ_LINES),
        ("x\n" * READ_LINES + "x", READ_LINES + 1),
        ("x\n" * (READ_LINES + 1), READ_LINES + 1),
    ],
)
def test_so_many_lines_of_a_file_are_shown(project: Project, text: str, lines: int) -> None:
    project.file("f", text)
    rest = f"[Showing lines 1-{READ_LINES} of {lines}. Use offset={READ_LINES + 1} to continue.]"
    assert project.ok("read_file", path="f") == (text if lines <= READ_LINES else "x\n" * READ_LINES + rest)


# The bytes of a second line after a first of ten, and how many lines are shown.
@pytest.mark.parametrize(("more", "shown"), [(-1, 2), (0, 2), (1, 1)])
def test_so_many_bytes_of_a_file_are_shown(project: Project, more: int, shown: int) -> None:
    project.file("f", "x" * 9 + "\n" + "y" * (READ_BYTES - 11 + more) + "\n")
    found = project.ok("read_file", path="f")
    assert ("y" in found) is (shown == 2)
    assert ("[Showing lines 1-1 of 2." in found) is (shown == 1)


@pytest.mark.parametrize(("more", "cut"), [(-1, False), (0, False), (1, True)])
def test_so_many_bytes_of_one_line_are_shown(project: Project, more: int, cut: bool) -> None:
    project.file("f", "x" * (READ_BYTES + more))
    found = project.ok("read_file", path="f")
    assert found.count("x") - found.count("next") == READ_BYTES + min(more, 0)
    assert ("only its beginning is shown" in found) is cut


@pytest.mark.parametrize(("more", "shown"), [(-1, True), (0, True), (1, False)])
def test_an_image_of_so_many_bytes_is_shown(project: Project, more: int, shown: bool) -> None:
    os.truncate(project.file("f", b"\x89PNG\r\n\x1a\n"), IMAGE_BYTES + more)
    content, failed = project.call("read_file", path="f")
    assert failed is not shown
    if shown:
        assert isinstance(content[0], Image)
        assert len(base64.b64decode(content[0].data or "")) == IMAGE_BYTES + more


@pytest.mark.parametrize(("more", "changed"), [(-1, True), (0, True), (1, False)])
def test_a_file_of_so_many_bytes_is_edited(project: Project, more: int, changed: bool) -> None:
    project.file("f", b"old" + b"x" * (FILE_BYTES + more - 3))
    said, failed = project.call("edit_file", path="f", oldText="old", newText="new")
    assert failed is not changed, said
    assert project.read("f")[:3] == (b"new" if changed else b"old")


@pytest.mark.parametrize(("count", "made"), [(MAX_EDITS - 1, True), (MAX_EDITS, True), (MAX_EDITS + 1, False)])
def test_so_many_edits_are_made_at_once(project: Project, count: int, made: bool) -> None:
    project.file("f", "".join(f"<{number}>\n" for number in range(count)))
    edits = [{"oldText": f"<{number}>", "newText": f"[{number}]"} for number in range(count)]
    said, failed = project.call("multi_edit", path="f", edits=edits)
    assert failed is not made, said
    assert project.read("f")[:3] == (b"[0]" if made else b"<0>")


@pytest.mark.parametrize(("more", "made"), [(-1, True), (0, True), (1, False)])
def test_so_many_files_are_edited_at_once(
    project: Project, monkeypatch: pytest.MonkeyPatch, more: int, made: bool
) -> None:
    monkeypatch.setattr(editing, "_MAX_FILES", 4)
    edits = [{"path": f"f{number}", "oldText": "old", "newText": "new"} for number in range(4 + more)]
    for edit in edits:
        project.file(edit["path"], "old")
    said, failed = project.call("multi_edit", edits=edits)
    assert failed is not made, said
    assert {project.read(edit["path"]) for edit in edits} == {b"new" if made else b"old"}


@pytest.mark.parametrize(("more", "runs"), [(-1, True), (0, True), (1, False)])
def test_a_command_has_so_many_bytes(tmp_path: Path, more: int, runs: bool) -> None:
    project = Project(tmp_path, sandbox="none")
    command = ": " + "x" * (COMMAND_BYTES + more - 2)
    said, failed = project.call("bash", command=command)
    assert failed is not runs, said
    assert runs or f"the limit is {COMMAND_BYTES}" in said


NUMBERS: list[tuple[str, str, list[float], list[float]]] = [
    ("bash", "timeout", [0.01, 599.9, 600], [-1, 0, 600.1]),
    ("grep", "context", [0, 1, 19, 20], [-1, 21]),
    ("grep", "limit", [1, 999, 1000], [0, 1001]),
    ("glob", "limit", [1, 9_999, 10_000], [0, 10_001]),
    ("list_directory", "limit", [1, 4_999, 5_000], [0, 5_001]),
    ("tree", "max_depth", [1, 99, 100], [0, 101]),
    ("tree", "max_entries", [1, 4_999, 5_000], [0, 5_001]),
    ("read_file", "offset", [1], [0]),
    ("read_file", "limit", [1, 2_001], [0]),
    ("http_get", "timeout", [0.01, 60], [0, 60.1]),
    ("http_get", "max_bytes", [1, 10_485_760], [0, 10_485_761]),
]
NEEDED: dict[str, dict[str, Any]] = {
    "bash": {"command": "true"},
    "grep": {"pattern": "x"},
    "glob": {"pattern": "*"},
    "read_file": {"path": "f"},
    "http_get": {"url": "ftp://nowhere"},
}


@pytest.mark.parametrize(("tool", "name", "taken", "refused"), NUMBERS)
def test_a_number_is_taken_within_its_bounds(
    tmp_path: Path, tool: str, name: str, taken: list[float], refused: list[float]
) -> None:
    project = Project(tmp_path, sandbox="none")
    project.file("f", "x\n")
    for value in taken:
        said, _ = project.call(tool, **NEEDED.get(tool, {}), **{name: value})
        assert f"field {name}" not in str(said), value
    for value in refused:
        said, failed = project.call(tool, **NEEDED.get(tool, {}), **{name: value})
        assert failed
        assert f"field {name}" in said, value


# How many there are beside the limit of five, and whether the answer says that there are more.
MORE = pytest.mark.parametrize(("count", "more"), [(4, False), (5, False), (6, True)])


@MORE
@pytest.mark.parametrize("engine", ENGINES)
def test_so_many_matches_are_shown(project: Project, engine: Any, count: int, more: bool) -> None:
    project.tools.desk.options["ripgrep"] = engine
    project.file("f", "needle\n" * count)
    for path in ("f", "."):
        found = project.ok("grep", pattern="needle", limit=5, path=path)
        assert found.count("needle") == min(count, 5)
        assert ("[The first 5 matches; there are more." in found) is more


@MORE
def test_so_many_entries_are_shown(project: Project, count: int, more: bool) -> None:
    for number in range(count):
        project.file(f"f{number}", "x")
    found = project.ok("glob", pattern="*", limit=5)
    assert sum(line.startswith("f") for line in found.split("\n")) == min(count, 5)
    assert ("[The first 5 files; there are more." in found) is more
    found = project.ok("list_directory", limit=5)
    assert sum(line.startswith("f") for line in found.split("\n")) == min(count, 5)
    assert (f"[5 of {count} entries." in found) is more
    found = project.ok("tree", max_entries=5)
    assert sum("── f" in line for line in found.split("\n")) == min(count, 5)
    assert ("[1 entries are not shown." in found) is more


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_entries_are_shown_where_nobody_says_how_many(project: Project, more: int) -> None:
    assert LIST_ENTRIES == TREE_ENTRIES
    for number in range(LIST_ENTRIES + more):
        os.mknod(project.root / f"{number}")
    for tool in ("list_directory", "tree"):
        assert ("Give a higher" in project.ok(tool)) is bool(more)


# Each folder of a tree has one folder; how deep it is shown.
@pytest.mark.parametrize(("depth", "shown"), [(1, ["a"]), (2, ["a", "b"]), (3, ["a", "b", "c"]), (4, ["a", "b", "c"])])
def test_a_tree_is_so_deep(project: Project, depth: int, shown: list[str]) -> None:
    (project.root / "a/b/c").mkdir(parents=True)
    found = project.ok("tree", max_depth=depth)
    assert [name for name in "abc" if f"── {name}/" in found] == shown


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("more", "cut"), [(-1, False), (0, False), (1, True)])
def test_a_line_that_was_found_is_shown_up_to_so_many_characters(
    project: Project, engine: Any, more: int, cut: bool
) -> None:
    project.tools.desk.options["ripgrep"] = engine
    project.file("f", "n" + "é" * (LINE_CHARACTERS + more - 2) + "z\n")
    found = project.ok("grep", pattern="^n")
    assert found.count("é") == LINE_CHARACTERS - 2 + min(more, 0) + cut
    assert ("z" in found) is not cut


@pytest.mark.parametrize(("length", "fits"), [(MAX_PATH - 1, True), (MAX_PATH, True), (MAX_PATH + 1, False)])
def test_a_path_has_so_many_characters(project: Project, length: int, fits: bool) -> None:
    project.file("f", "x")
    said, failed = project.call("read_file", path="./" * ((length - 1) // 2) + "/" * ((length - 1) % 2) + "f")
    assert failed is not fits, said
    assert fits or f"at most {MAX_PATH} characters" in said


@pytest.mark.parametrize(("count", "fits"), [(MAX_PARTS - 1, True), (MAX_PARTS, True), (MAX_PARTS + 1, False)])
def test_a_path_has_so_many_parts(project: Project, count: int, fits: bool) -> None:
    said = project.refused("read_file", path="/".join("a" * count))
    assert (f"it has more than {MAX_PARTS} parts" in said) is not fits


@pytest.mark.parametrize(("length", "fits"), [(MAX_PATTERN - 1, True), (MAX_PATTERN, True), (MAX_PATTERN + 1, False)])
def test_a_pattern_has_so_many_characters(project: Project, length: int, fits: bool) -> None:
    said, failed = project.call("glob", pattern="a" * length)
    assert failed is not fits, said


# The bytes of both streams of a command, and whether any of them is cut at a limit of ten.
STREAMS = [(10, 0, False), (0, 10, False), (5, 5, False), (9, 1, False), (1, 9, False), (4, 6, False), (6, 4, False)]
CUTS = [(11, 0, True), (0, 11, True), (6, 5, True), (5, 6, True), (10, 1, True), (1, 10, True), (99, 99, True)]


@pytest.mark.parametrize(("first", "second", "cut"), [*STREAMS, *CUTS])
def test_the_output_of_a_command_is_cut_where_both_streams_have_more_than_the_limit(
    first: int, second: int, cut: bool
) -> None:
    streams = Captured(10), Captured(10)
    for stream, size in zip(streams, (first, second), strict=True):
        stream.add(b"x" * size)
    one, other, was_cut = render_both(*streams, 10)
    assert was_cut is cut
    assert ("left out" in one + other) is cut
    assert one.count("x") + other.count("x") <= 10
    assert cut or (len(one), len(other)) == (first, second)
