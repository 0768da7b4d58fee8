"""Hard links to secrets and to protected files: what the tools refuse, and what they cannot detect.

- The file tools refuse a hard link to a secret that lies in the project folder itself or beside the link.
- They cannot detect a secret in any other folder: each read of a linked file would have to walk the whole project.
- They never change a protected file through a hard link, because they never write in place.
- bash walks the project before each command, and covers each hard link to a secret. It does not cover a hard link to a
  file in `.git`; a command cannot create one.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.commands import run, tools_at
from tests.codetools.folders import EACH, KEPT, OPENERS, WRITING, Project, confined
from tests.codetools.searching import ENGINES
from toolwire import ToolCall
from toolwire.codetools import masks

# The path of the file, and the path of a hard link to it.
KNOWN = [
    (".env", "notes.txt"),
    (".env", "sub/notes.txt"),
    (".env", "sub/deep/notes.txt"),
    (".env", "sub/.env.example"),
    ("sub/.env", "sub/notes.txt"),
    ("sub/.ENV.local", "sub/notes.txt"),
    ("state/traces.db", "state/notes.txt"),
    ("traces.db", "sub/notes.txt"),
]
UNKNOWN = [
    ("sub/.env", "notes.txt"),
    ("sub/.env", "sub/deep/notes.txt"),
    ("sub/.env", "other/notes.txt"),
    ("state/traces.db", "notes.txt"),
]
PROTECTED = [
    (".git/config", "notes.txt"),
    (".git/config", "sub/notes.txt"),
    ("sub/.git/hooks/pre-commit", "sub/notes.txt"),
    (".toolwire-journal", "sub/notes.txt"),
]
# Tools that list names and sizes, and show no content.
NAMING: dict[str, dict[str, Any]] = {"list_directory": {}, "tree": {"max_depth": 9}, "glob": {"pattern": "**"}}


@pytest.fixture(params=OPENERS)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Project]:
    with confined(tmp_path, monkeypatch, request.param) as made:
        made.tools.desk.workspace.cover([made.root / "state/traces.db", made.root / "traces.db"])
        yield made


def write_linked(project: Project, file: str, link: str, text: str) -> None:
    """Write a file, and create a hard link to it."""
    project.file(file, text)
    (project.root / link).parent.mkdir(parents=True, exist_ok=True)
    os.link(project.root / file, project.root / link)


@pytest.mark.parametrize(("secret", "link"), KNOWN)
@pytest.mark.row("A21", "A24")
def test_a_hard_link_to_a_secret_is_neither_read_nor_written(project: Project, secret: str, link: str) -> None:
    write_linked(project, secret, link, KEPT + "old")
    for tool, arguments in EACH.items():
        assert "it may contain secrets" in project.refused(tool, path=link, **arguments)
        shown = project.tools.preview(ToolCall("1", tool, {"path": link, **arguments}))
        assert shown is None or ("would be refused" in shown and KEPT not in shown)
    edits = [{"path": path, "oldText": "old", "newText": "new"} for path in ("f.txt", link)]
    assert "it may contain secrets" in project.refused("multi_edit", edits=edits)
    assert project.read("f.txt") == b"old inside"
    assert project.read(secret) == project.read(link) == f"{KEPT}old".encode()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("secret", "link"), KNOWN)
@pytest.mark.row("A21", "D15")
def test_a_hard_link_to_a_secret_is_not_searched(tmp_path: Path, secret: str, link: str, engine: Any) -> None:
    project = Project(tmp_path, covered=[tmp_path / "proj/state/traces.db", tmp_path / "proj/traces.db"])
    write_linked(project, secret, link, f"{KEPT}\n")
    project.tools.desk.options["ripgrep"] = engine
    for more in ({}, {"glob": "*.txt"}, {"path": str(Path(link).parent)}):
        assert project.ok("grep", pattern="root:x", ignored=True, **more).startswith("No matches found")
    assert "it may contain secrets" in project.refused("grep", pattern="root:x", path=link)


@pytest.mark.parametrize(("secret", "link"), [*KNOWN, *UNKNOWN])
def test_a_hard_link_to_a_secret_is_listed_without_its_content(project: Project, secret: str, link: str) -> None:
    write_linked(project, secret, link, KEPT)
    for tool, arguments in NAMING.items():
        found = project.ok(tool, **arguments)
        assert KEPT not in found
        assert tool == "list_directory" or Path(link).name in found
    assert "type: file" in project.ok("file_info", path=link)


@pytest.mark.parametrize(("secret", "link"), UNKNOWN)
def test_a_hard_link_to_a_secret_in_another_folder_is_read(project: Project, secret: str, link: str) -> None:
    write_linked(project, secret, link, "KEY=1")
    assert project.ok("read_file", path=link) == "KEY=1"
    assert f"{link}:1: KEY=1" in project.ok("grep", pattern="KEY")
    project.ok("edit_file", path=link, oldText="1", newText="2")
    assert (project.read(secret), project.read(link)) == (b"KEY=1", b"KEY=2")


def test_a_hard_link_to_a_secret_in_another_root_is_read(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.options["roots"] = [project.outside]
    project.restart()
    project.file(".env", "KEY=1")
    os.link(project.root / ".env", project.outside / "notes.txt")
    assert project.ok("read_file", path=str(project.outside / "notes.txt")) == "KEY=1"


@pytest.mark.parametrize("tool", WRITING)
@pytest.mark.parametrize(("file", "link"), PROTECTED)
@pytest.mark.row("A21", "A23")
def test_a_protected_file_is_read_and_not_changed_through_a_hard_link(
    project: Project, tool: str, file: str, link: str
) -> None:
    write_linked(project, file, link, "old")
    assert project.ok("read_file", path=link) == "old"
    said = project.ok(tool, path=link, **WRITING[tool])
    assert "1 more name (hard links)" in said
    assert project.read(file) == b"old"
    assert project.read(link).endswith(b"new")
    (project.root / file).unlink()


@pytest.mark.parametrize(("secret", "link"), [*KNOWN, *UNKNOWN])
@pytest.mark.row("A21", "A24")
def test_each_hard_link_to_a_secret_is_covered_while_a_command_runs(tmp_path: Path, secret: str, link: str) -> None:
    project = Project(tmp_path, covered=[tmp_path / "proj/state/traces.db", tmp_path / "proj/traces.db"])
    write_linked(project, secret, link, KEPT)
    covered = {os.path.relpath(mask.path, project.root) for mask in masks.masks_of(project.tools.desk.workspace)}
    assert {secret, link} <= covered


def test_a_command_neither_reads_nor_writes_a_secret_through_a_hard_link(tmp_path: Path) -> None:
    tools = tools_at(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.env").write_text(KEPT)
    os.link(tmp_path / "sub/.env", tmp_path / "notes.txt")
    result = run(tools, "cat notes.txt; echo x > notes.txt; ln sub/.env more.txt; cat more.txt")
    assert KEPT not in str(result.content)
    assert (tmp_path / "notes.txt").read_text() == KEPT


def test_a_command_cannot_create_a_hard_link_to_a_protected_file_and_can_write_through_one_that_exists(
    tmp_path: Path,
) -> None:
    tools = tools_at(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("old")
    result = run(tools, "ln .git/config more.txt; echo new > .git/config")
    assert "cross-device" in str(result.content)
    assert not (tmp_path / "more.txt").exists()
    assert (tmp_path / ".git/config").read_text() == "old"
    os.link(tmp_path / ".git/config", tmp_path / "notes.txt")
    run(tools, "echo new > notes.txt")
    assert (tmp_path / ".git/config").read_text() == "new\n"
