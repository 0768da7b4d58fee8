"""Changes of several files: whatever moment they stop at, they are finished or undone at the next start."""

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import Project
from toolwire import CodeTools
from toolwire.codetools import journal, locks

OLD = {"a": "old a\n", "b": "old b\n", "sub/c": "old c\n"}
NEW = {name: text.replace("old", "new") for name, text in OLD.items()}
EDITS = [{"path": name, "oldText": "old", "newText": "new"} for name in OLD]


class Killed(KeyboardInterrupt):
    """Stands for kill -9: nothing of ours may run after it."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    made = Project(tmp_path)
    for name, text in OLD.items():
        made.file(name, text, 0o640)
    return made


def now(project: Project) -> dict[str, str]:
    return {name: project.read(name).decode() for name in OLD}


def kill_at(project: Project, monkeypatch: pytest.MonkeyPatch, step: int, edits: list[dict[str, str]] = EDITS) -> bool:
    """Stop for good at a system call; gives whether there was one."""
    count = 0
    dead = False
    with monkeypatch.context() as patched:
        for name in ("open", "write", "link", "rename", "unlink"):
            real = getattr(os, name)

            def call(*given: Any, real: Any = real, **more: Any) -> Any:
                nonlocal count, dead
                count += 1
                if dead or count == step:
                    dead = True
                    raise Killed
                return real(*given, **more)

            patched.setattr(os, name, call)
        try:
            project.ok("multi_edit", edits=edits)
        except Killed:
            return True
    return False


@pytest.mark.row("B12")
def test_a_change_that_stops_anywhere_is_all_or_nothing_after_a_start(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = finished = undone = 0
    for step in range(1, 1000):
        for name, text in OLD.items():
            project.file(name, text, 0o640)
        project.restart()
        if not kill_at(project, monkeypatch, step):
            break
        mixed += now(project) not in (OLD, NEW)
        project.restart()
        assert now(project) in (OLD, NEW), step
        finished += now(project) == NEW
        undone += now(project) == OLD
        assert not [name for name in project.left_over() if not name.endswith(".tmp")], step
        assert (project.root / "a").stat().st_mode & 0o777 == 0o640
    assert not locks._locks
    assert mixed
    assert finished
    assert undone > 10


def test_what_is_recovered_is_said(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    step = next(step for step in range(1, 1000) if kill_at(project, monkeypatch, step) and now(project) != OLD)
    assert step
    with caplog.at_level(logging.WARNING, "toolwire"):
        project.restart()
    assert "a change of several files was finished: a, b, sub/c" in caplog.text
    assert str(project.root) not in caplog.text
    caplog.clear()
    project.restart()
    assert not caplog.text


def left_in_the_middle(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in range(1, 1000):
        assert kill_at(project, monkeypatch, step)
        if now(project) not in (OLD, NEW):
            return
        project.restart()
        for name, text in OLD.items():
            project.file(name, text)


def test_what_somebody_changed_since_then_is_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    left_in_the_middle(project, monkeypatch)
    project.file("sub/c", "mine")
    project.restart()
    assert now(project) == {**NEW, "sub/c": "mine"}
    assert not project.left_over()


def test_a_change_whose_new_file_is_lost_is_undone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    left_in_the_middle(project, monkeypatch)
    for path in project.root.rglob("*.staged"):
        path.write_text("spoilt")
    project.restart()
    assert now(project) == OLD
    assert not project.left_over()


def test_a_change_that_can_be_neither_is_said(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left_in_the_middle(project, monkeypatch)
    for path in [*project.root.rglob("*.staged"), *project.root.rglob("*.old")]:
        path.unlink()
    project.restart()
    assert "neither finished nor undone, check: a, b, sub/c" in caplog.text
    assert not project.left_over()
    project.file("b", "x")
    project.ok("multi_edit", edits=[{"path": "b", "oldText": "x", "newText": "y"}, EDITS[2]])


def test_the_next_change_recovers_first(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    left_in_the_middle(project, monkeypatch)
    project.tools.desk.seen.clear()
    project.ok("multi_edit", edits=[{**edit, "oldText": "new", "newText": "newer"} for edit in EDITS])
    assert now(project) == {name: text.replace("new", "newer") for name, text in NEW.items()}


def test_a_change_that_another_process_is_at_is_left_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    left_in_the_middle(project, monkeypatch)
    monkeypatch.setattr(journal, "RECOVERY_WAIT", 0.02)
    before = now(project)
    folder = os.open(project.root, os.O_RDONLY)
    try:
        with locks.locked([folder], "other"):
            assert journal.recover(project.tools.workspace) == []
            assert now(project) == before
    finally:
        os.close(folder)
    project.restart()
    assert now(project) in (OLD, NEW)


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


ID = ".toolwire-0123456789abcdef-0"
FORGED: dict[str, Any] = {
    "no JSON": "{",
    "empty": "",
    "another shape": '{"path": 1}',
    "nothing": "[]",
    "out": {"path": "../outside/f.txt"},
    "absolute": {"path": "/etc/hostname"},
    "protected": {"path": ".git/config", "before": digest("old a\n")},
    "secret": {"path": ".env", "before": digest("old a\n")},
    "a name that is not ours": {"path": "a", "staged": "b"},
    "a path as a name": {"path": "a", "staged": "../outside/f.txt"},
    "another content before": {"path": "a", "before": digest("x")},
    "another content after": {"path": "a", "after": digest("x")},
    "deep": "[" * 100_000,
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", [journal.COMMITTED, journal.PLANNED])
@pytest.mark.parametrize("case", FORGED)
@pytest.mark.row("A23")
def test_a_note_that_somebody_forged_moves_nothing(project: Project, case: str, name: str) -> None:
    for path in (".git/config", ".env"):
        project.file(path, "old a\n")
    project.file(f"{ID}.staged", "evil")
    project.file(f".git/{ID}.staged", "evil")
    entry = {
        "staged": f"{ID}.staged",
        "kept": f"{ID}.old",
        "before": digest("old a\n"),
        "after": digest("evil"),
    }
    forged = FORGED[case]
    project.file(name, forged if isinstance(forged, str) else json.dumps([entry | forged]))
    project.restart()
    assert now(project) == OLD
    assert project.read(".git/config") == project.read(".env") == b"old a\n"
    project.untouched()
    project.ok("multi_edit", edits=EDITS)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [journal.COMMITTED, journal.PLANNED])
@pytest.mark.parametrize("kind", ["file", "folder", "full folder", "pipe", "link", "dangling link"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_planted_at_the_place_of_a_note_is_in_nobodys_way(
    project: Project, kind: str, name: str, restarts: bool
) -> None:
    path = project.root / name
    if kind == "file":
        path.write_text("planted")
    elif kind == "pipe":
        os.mkfifo(path)
    elif "link" in kind:
        path.symlink_to("../outside/nosuch" if kind == "dangling link" else "../outside/f.txt")
    else:
        path.mkdir()
        if kind == "full folder":
            (path / "file").write_text("somebody's")
    if restarts:
        project.restart()
    project.ok("multi_edit", edits=EDITS)
    assert now(project) == NEW
    assert not os.path.lexists(path)
    aside = [found.read_text() for found in project.root.glob(".toolwire-aside-*/file")]
    assert aside == (["somebody's"] if kind == "full folder" else [])
    project.untouched()


def test_files_of_other_roots_and_strange_names_are_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    project = Project(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    strange = os.fsdecode(b"caf\xff \xe2\x82\xac\n.txt")
    project.options = {"roots": [other]}
    files = [project.file(strange, "old"), other / "f", project.file("last", "old")]
    edits = [
        {"path": path, "oldText": "old", "newText": "new"} for path in (r"caf\xff €\x0a.txt", f"{other}/f", "last")
    ]
    seen = set()
    for step in range(1, 1000, 3):
        for file in files:
            file.write_text("old")
        project.restart()
        killed = kill_at(project, monkeypatch, step, edits)
        project.tools = CodeTools(project.root, roots=[other])
        texts = {file.read_text() for file in files}
        assert len(texts) == 1, step
        seen |= texts
        if not killed:
            break
    assert seen == {"old", "new"}
    assert not list(other.glob(".toolwire-*"))
