"""`/undo` and `/diff`: what comes back, what stays, and a file that somebody else has changed."""

from pathlib import Path
from typing import Any

import pytest

from toolwire.cli.edits import EditLog, UndoReport
from toolwire.codetools import CodeTools
from toolwire.types import ToolCall


class Project:
    """A project folder with code tools whose edits are logged."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, EditLog()
        self.kit = CodeTools(folder, on_change=self.log.record)

    def call(self, tool: str, **arguments: Any) -> str:
        result = self.kit.resolve(ToolCall("1", tool, arguments))
        assert not result.is_error, result.content
        return str(result.content)

    def undo(self) -> UndoReport | None:
        return self.log.undo(self.kit.desk)

    def diff(self) -> str:
        return "\n".join(self.log.differences(self.kit.desk))


@pytest.fixture
def here(tmp_path: Path) -> Project:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "b.txt").write_text("bee\n")
    return Project(tmp_path)


def test_every_kind_of_edit_comes_back(here: Project) -> None:
    (here.folder / "b.txt").chmod(0o640)
    here.call("edit_file", path="a.txt", oldText="two", newText="2")
    here.call("append_to_file", path="a.txt", content="three\n")
    here.call("write_file", path="b.txt", content="other\n")
    here.call("write_file", path="deep/new.txt", content="new\n")
    edits = [
        {"path": "a.txt", "oldText": "one", "newText": "1"},
        {"path": "deep/new.txt", "oldText": "new", "newText": "newer"},
    ]
    here.call("multi_edit", edits=edits)
    assert (here.folder / "a.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"
    diff = here.diff()
    assert "a.txt\n- 1 one\r\n- 2 two\r\n+ 1 1\r\n+ 2 2\r\n+ 3 three\r" in diff
    assert "b.txt\n- 1 bee\n+ 1 other" in diff
    assert "deep/new.txt (a new file)\n+ 1 newer" in diff
    assert here.undo() == UndoReport(restored=["a.txt", "b.txt"], removed=["deep/new.txt"])
    assert (here.folder / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (here.folder / "b.txt").read_text() == "bee\n"
    assert (here.folder / "b.txt").stat().st_mode & 0o777 == 0o640
    assert not (here.folder / "deep/new.txt").exists()
    assert (here.diff(), here.undo()) == ("", None)


def test_the_last_prompt_comes_back_and_then_the_one_before(here: Project) -> None:
    for text in ("x", "y", "z"):
        here.log.begin_prompt()
        here.call("write_file", path="b.txt", content=text)
        here.log.begin_prompt()  # a prompt without edits
    for text in ("y", "x", "bee\n"):
        report = here.undo()
        assert report is not None
        assert (report.restored, (here.folder / "b.txt").read_text()) == (["b.txt"], text)
    assert here.undo() is None


def test_what_somebody_else_has_changed_is_left_and_the_others_come_back(here: Project) -> None:
    here.call("write_file", path="a.txt", content="mine\n")
    here.call("write_file", path="b.txt", content="mine\n")
    here.call("write_file", path="c.txt", content="mine\n")
    here.call("write_file", path="d.txt", content="mine\n")
    (here.folder / "a.txt").write_text("theirs\n")
    (here.folder / "c.txt").write_text("theirs\n")
    (here.folder / "d.txt").unlink()
    report = here.undo()
    assert report == UndoReport(
        restored=["b.txt"],
        left=[
            ("a.txt", "it was changed since"),
            ("c.txt", "it was changed since"),
            ("d.txt", "it does not exist any more"),
        ],
    )
    assert [(here.folder / name).read_text() for name in ("a.txt", "b.txt", "c.txt")] == [
        "theirs\n",
        "bee\n",
        "theirs\n",
    ]
    assert not (here.folder / "d.txt").exists()


def test_a_change_of_somebody_else_between_two_edits_is_kept(here: Project) -> None:
    here.call("write_file", path="b.txt", content="one\n")
    (here.folder / "b.txt").write_text("theirs\n")
    here.call("read_file", path="b.txt")
    here.call("append_to_file", path="b.txt", content="two\n")
    report = here.undo()
    assert report is not None
    assert report.restored == ["b.txt"]
    assert report.left == [("b.txt", "edits before somebody else changed it were not taken back")]
    assert (here.folder / "b.txt").read_text() == "theirs\n"


def test_a_link_in_place_of_the_file_is_not_followed(here: Project, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("mine\n")
    here.call("write_file", path="b.txt", content="mine\n")
    (here.folder / "b.txt").unlink()
    (here.folder / "b.txt").symlink_to(outside)
    report = here.undo()
    assert report is not None
    assert not report.restored
    assert "link" in report.left[0][1]
    assert outside.read_text() == "mine\n"


def test_the_model_has_to_read_a_restored_file_again(here: Project) -> None:
    here.call("edit_file", path="b.txt", oldText="bee", newText="cee")
    here.undo()
    result = here.kit.resolve(ToolCall("1", "edit_file", {"path": "b.txt", "oldText": "bee", "newText": "dee"}))
    assert "read it again" in str(result.content)


def test_binary_contents_come_back(here: Project) -> None:
    (here.folder / "b.txt").write_bytes(b"\x00\xff\xfe")
    here.call("write_file", path="b.txt", content="text")
    here.undo()
    assert (here.folder / "b.txt").read_bytes() == b"\x00\xff\xfe"


def test_a_failed_call_is_no_edit(here: Project) -> None:
    result = here.kit.resolve(ToolCall("1", "edit_file", {"path": "b.txt", "oldText": "no", "newText": "x"}))
    assert result.is_error
    assert here.undo() is None


def test_the_edits_are_kept_in_a_file_of_their_owner(here: Project, tmp_path: Path) -> None:
    path = tmp_path / "state" / "edits.json"
    here.log.open(path)
    here.log.save()
    assert not path.exists(), "without edits there is no file"
    here.call("write_file", path="b.txt", content="x")
    here.log.save()
    assert path.stat().st_mode & 0o077 == 0
    later = Project(here.folder)
    later.log.open(path)
    later.log.begin_prompt()
    report = later.undo()
    assert report is not None
    assert report.restored == ["b.txt"]
    assert (here.folder / "b.txt").read_text() == "bee\n"
    again = Project(here.folder)
    again.log.open(path)
    assert again.undo() is None


def test_old_edits_are_dropped_when_they_become_too_large(here: Project) -> None:
    for letter in "abcdef":
        here.log.begin_prompt()
        here.call("write_file", path="b.txt", content=letter * 9_000_000)
    count = 0
    while here.undo() is not None:
        count += 1
    assert 2 <= count < 6
