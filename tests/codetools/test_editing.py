"""edit_file and multi_edit: exactly once, all or nothing, never a lost edit, never a stale one."""

import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import Project
from tests.timing import within
from toolwire.codetools import editing, files, locks, replacing
from toolwire.codetools.definitions import FILE_BYTES
from toolwire.codetools.paths import PathRefused


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Project(tmp_path)


@pytest.mark.row("B1", "R002-04")
def test_a_text_is_replaced_where_it_is_once(project: Project) -> None:
    project.file("f", "one\ntwo\nthree\n")
    assert project.ok("edit_file", path="f", oldText="two\n", newText="2\n") == "Edited f at line 2."
    assert project.read("f") == b"one\n2\nthree\n"
    assert "3 times, beginning in lines 1, 3, 3" in project.refused("edit_file", path="f", oldText="e", newText="")
    assert "not in the file" in project.refused("edit_file", path="f", oldText="two", newText="")
    assert project.read("f") == b"one\n2\nthree\n"


REFUSED = [
    ({"oldText": "", "newText": "x"}, "oldText is empty"),
    ({"oldText": "old", "newText": "old"}, "nothing would change"),
    ({"oldText": "\n", "newText": "\r\n"}, "nothing would change"),
    ({"oldText": "old", "newText": "x" * (FILE_BYTES + 1)}, "at most 10 MB"),
    ({"oldText": "old", "newText": "x" * FILE_BYTES}, "more than 10 MB"),
    ({"oldText": "aa", "newText": "x"}, "2 times"),
    ({"oldText": "old", "newText": "\ud800"}, "surrogate pair"),
    ({"oldText": "\udfff", "newText": "x"}, "surrogate pair"),
]


@pytest.mark.parametrize(("edit", "said"), REFUSED)
@pytest.mark.row("R002-25", "B2", "B3", "B10", "4.3.2")
def test_an_edit_that_cannot_be_made_changes_nothing(project: Project, edit: dict[str, str], said: str) -> None:
    file = project.file("f", "old aaa\r\n", 0o640)
    before = file.stat()
    assert said in project.refused("edit_file", path="f", **edit)
    assert said in project.refused("multi_edit", path="f", edits=[{"oldText": "old", "newText": "new"}, edit]) or (
        "not in the file" in project.refused("multi_edit", path="f", edits=[{"oldText": "old", "newText": "n"}, edit])
    )
    after = file.stat()
    assert project.read("f") == b"old aaa\r\n"
    assert (before.st_mtime_ns, before.st_ino, before.st_mode) == (
        after.st_mtime_ns,
        after.st_ino,
        after.st_mode,
    )


@pytest.mark.row("R002-67")
def test_snake_case_is_read_too(project: Project) -> None:
    project.file("f", "old")
    project.ok("edit_file", path="f", old_text="old", new_text="new")
    assert project.read("f") == b"new"


@pytest.mark.parametrize("data", [b"old\0", b"old\xff", "old\ufeff".encode("utf-16"), b"old\xed\xa0\x80"])
@pytest.mark.row("B7")
def test_what_is_no_utf_8_is_not_edited(project: Project, data: bytes) -> None:
    project.file("f", data)
    assert "UTF-8" in project.refused("edit_file", path="f", oldText="old", newText="new")
    assert project.read("f") == data


@pytest.mark.row("B4", "B5", "B6", "4.3.2")
def test_every_other_byte_stays(project: Project) -> None:
    data = "\ufeffa\r\nb\nc\rd\u2028e\x85f\x0b\tg  \r\nlast".encode()
    project.file("f", data)
    project.ok("edit_file", path="f", oldText="a\nb", newText="A\nB")
    assert project.read("f") == data.replace(b"a\r\nb", b"A\r\nB")
    project.ok("edit_file", path="f", oldText="last", newText="end\nof it")
    assert project.read("f") == data.replace(b"a\r\nb", b"A\r\nB").replace(b"last", b"end\r\nof it")


@pytest.mark.row("B13", "R002-26")
def test_edits_are_made_in_order_and_see_each_other(project: Project) -> None:
    project.file("f", "a\nb\n")
    edits = [("a", "x y"), ("y", "z"), ("x z\nb", "done")]
    said = project.ok("multi_edit", path="f", edits=[{"oldText": old, "newText": new} for old, new in edits])
    assert said == "Made 3 edits in f, at lines 1, 1, 1."
    assert project.read("f") == b"done\n"


@pytest.mark.parametrize("failing", [1, 3, 5])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.row("R002-05", "R002-69", "B11", "4.3.3")
def test_one_that_fails_stops_all_and_is_named(project: Project, failing: int, *, several: bool) -> None:
    for number in range(1, 6):
        project.file(f"f{number if several else ''}", "".join(f"w{one}\n" for one in range(1, 6)))
    edits: list[dict[str, Any]] = [
        {"path": f"f{number if several else ''}", "oldText": f"w{number}", "newText": "x"} for number in range(1, 6)
    ]
    edits[failing - 1]["oldText"] = "absent"
    before = {path: path.read_bytes() for path in project.root.iterdir()}
    assert f": edit {failing}: oldText is not in the file" in project.refused("multi_edit", edits=edits)
    assert {path: path.read_bytes() for path in project.root.iterdir()} == before


@pytest.mark.row("B13")
def test_overlapping_edits_are_an_error(project: Project) -> None:
    project.file("f", "abcdef")
    edits = [{"oldText": "abcd", "newText": "x"}, {"oldText": "cdef", "newText": "y"}]
    assert "edit 2: oldText is not in the file" in project.refused("multi_edit", path="f", edits=edits)
    assert project.read("f") == b"abcdef"


@pytest.mark.row("B13")
def test_one_file_by_several_spellings_is_one_file(project: Project) -> None:
    project.file("d/f", "a b c d e")
    (project.root / "link").symlink_to("d")
    paths = ["d/f", "./d/f", "d/../d//f", "link/f", f"{project.root}/d/f"]
    edits = [{"path": path, "oldText": letter, "newText": "x"} for path, letter in zip(paths, "abcde", strict=True)]
    assert project.ok("multi_edit", edits=edits) == "Made 5 edits in d/f, at lines 1, 1, 1, 1, 1."
    assert project.read("d/f") == b"x x x x x"


@pytest.mark.row("B13")
def test_two_names_of_one_file_are_refused(project: Project) -> None:
    file = project.file("a", "old")
    os.link(file, project.root / "b")
    edits = [{"path": path, "oldText": "old", "newText": path} for path in "ab"]
    assert "b: it is the same file as a" in project.refused("multi_edit", edits=edits)
    assert project.read("a") == project.read("b") == b"old"


COUNTS: list[tuple[dict[str, Any], str]] = [
    ({"path": "f", "edits": []}, "edits"),
    ({"edits": [{"oldText": "a", "newText": "b"}]}, "edit 1 has no path"),
    ({"path": "f", "edits": [{"oldText": "a", "newText": "b"}] * 10_000}, "edits"),
    (
        {
            "path": "f",
            "edits": [{"oldText": "old", "newText": "b"}, {"path": "../x", "oldText": "a", "newText": "b"}],
        },
        "leads out",
    ),
    (
        {
            "path": "f",
            "edits": [{"oldText": "old", "newText": "b"}, {"path": "none", "oldText": "a", "newText": "b"}],
        },
        "no such file",
    ),
    ({"edits": [{"path": f"f{n}", "oldText": "a", "newText": "b"} for n in range(101)]}, "at most 100 files"),
    (
        {"path": "f", "edits": [{"oldText": "old", "newText": "b"}, {"oldText": "b", "newText": "old"}]},
        "change nothing",
    ),
]


@pytest.mark.parametrize(("asked", "said"), COUNTS)
@pytest.mark.row("B14")
def test_edits_that_cannot_be_are_refused_before_anything_is_written(
    project: Project, asked: dict[str, Any], said: str
) -> None:
    project.file("f", "old")
    project.file("f0", "a")
    assert said in project.refused("multi_edit", **asked)
    assert project.read("f") == b"old"
    assert project.read("f0") == b"a"


@pytest.mark.row("B14")
def test_a_thousand_edits_take_bounded_time(project: Project) -> None:
    project.file("f", "".join(f"<{number}>\n" for number in range(1000)) + "x" * 10_000)
    edits = [{"oldText": f"<{number}>", "newText": "<>" * (number % 9)} for number in range(1000)]
    with within(4):
        project.ok("multi_edit", path="f", edits=edits)


@pytest.mark.row("B30")
def test_a_long_line_is_edited_in_linear_time(project: Project) -> None:
    project.file("f", "x" * 5_000_000 + "<here>" + "x" * 5_000_000)
    with within(2):
        project.ok("edit_file", path="f", oldText="<here>", newText="<there>")
        project.ok("edit_file", path="f", oldText="x" * 5_000_000 + "<", newText="")
    os.truncate(project.root / "f", 50 << 20)
    assert "50 MB" in project.refused("edit_file", path="f", oldText="x", newText="y")


CHANGES: dict[str, dict[str, Any]] = {
    "edit_file": {"oldText": "same", "newText": "x"},
    "multi_edit": {"edits": [{"oldText": "same", "newText": "x"}]},
    "write_file": {"content": "x"},
    "append_to_file": {"content": "x"},
}


@pytest.mark.sampled
@pytest.mark.parametrize("tool", CHANGES)
@pytest.mark.parametrize("size", [10, files.KNOWN_BY_CONTENT + 1])
@pytest.mark.parametrize("lately", [True, False])
@pytest.mark.row("B15")
def test_a_file_that_changed_since_it_was_read_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, tool: str, size: int, *, lately: bool
) -> None:
    if not lately:
        monkeypatch.setattr(files, "LATELY", 0)
    file = project.file("f", "same1" + "." * size)
    project.ok("read_file", path="f")
    before = file.stat()
    file.write_text("same2" + "." * size)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    if tool == "append_to_file":
        project.ok(tool, path="f", **CHANGES[tool])
        assert project.read("f") == b"same2" + b"." * size + b"x"
        project.refused("edit_file", path="f", **CHANGES["edit_file"])
        return
    assert "changed since it was last read" in project.refused(tool, path="f", **CHANGES[tool])
    assert project.read("f") == b"same2" + b"." * size
    project.ok("read_file", path="f")
    project.ok(tool, path="f", **CHANGES[tool])


@pytest.mark.row("B15")
def test_a_large_file_that_just_changed_is_known_by_content_though_its_times_say_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:  # a clock so coarse that two changes have one time
    file = project.file("f", "same1" + "." * files.KNOWN_BY_CONTENT)
    monkeypatch.setattr(files, "_signature", lambda status: (0, 0, status.st_size, 0, 0))
    project.ok("read_file", path="f")
    file.write_text("same2" + "." * files.KNOWN_BY_CONTENT)
    project.refused("edit_file", path="f", oldText="same", newText="x")


@pytest.mark.parametrize("tool", CHANGES)
@pytest.mark.row("B15")
def test_a_file_that_was_only_touched_is_not_stale(project: Project, tool: str) -> None:
    file = project.file("f", "same")
    project.ok("read_file", path="f")
    os.utime(file, (1, 1))
    file.chmod(0o600)
    project.ok(tool, path="f", **CHANGES[tool])


@pytest.mark.parametrize("tool", CHANGES)
@pytest.mark.row("B15", "B17")
def test_what_the_tools_wrote_is_known_and_what_others_wrote_is_not(project: Project, tool: str) -> None:
    file = project.file("f", "never read: same")
    project.ok(tool, path="f", **CHANGES[tool])
    file.write_text("same")
    assert "changed since" in project.refused("edit_file", path="f", oldText="same", newText="x")
    project.restart()
    project.ok("edit_file", path="f", oldText="same", newText="x")
    project.ok("edit_file", path="f", oldText="x", newText="y")
    project.ok("append_to_file", path="f", content="z")
    project.ok("edit_file", path="f", oldText="yz", newText="y")


@pytest.mark.row("B15")
def test_a_file_that_was_read_through_a_link_is_known_by_its_own_path(project: Project) -> None:
    file = project.file("d/f", "same")
    (project.root / "link").symlink_to("d/f")
    project.ok("read_file", path="link")
    file.write_text("same but changed")
    project.refused("edit_file", path="d/f", oldText="same", newText="x")


@pytest.mark.parametrize("tool", CHANGES)
@pytest.mark.row("B15", "B26")
def test_a_change_while_the_tool_works_is_kept(project: Project, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    file = project.file("f", "same")
    real = replacing.check_not_replaced

    def overtaken(*given: Any) -> None:
        file.write_text("by somebody else")
        real(*given)

    monkeypatch.setattr(replacing, "check_not_replaced", overtaken)
    assert "changed since" in project.refused(tool, path="f", **CHANGES[tool])
    assert project.read("f") == b"by somebody else"
    file.unlink()
    assert not project.left_over()
    monkeypatch.setattr(replacing, "check_not_replaced", lambda *_: file.write_text("by somebody else"))
    assert "another program created it meanwhile" in project.refused("write_file", path="f", content="x")
    assert project.read("f") == b"by somebody else"
    assert not project.left_over()


@pytest.mark.row("B32")
def test_what_is_overtaken_at_once_is_no_success(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project.file("f", "same")

    def overtaken(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            file.write_text("by somebody else")

    monkeypatch.setattr(replacing, "sync", overtaken)
    assert "another program changed it immediately" in project.refused(
        "edit_file", path="f", oldText="same", newText="x"
    )


@pytest.mark.parametrize("tool", ["edit_file", "multi_edit", "multi_edit of two"])
@pytest.mark.row("B16")
def test_parallel_edits_of_one_file_are_all_made(project: Project, tool: str) -> None:
    project.file("f", "".join(f"<{number}>\n" for number in range(60)))
    project.file("g", "".join(f"<{number}>\n" for number in range(60)))
    project.ok("read_file", path="f")
    said: list[str] = []

    def edit(number: int) -> None:
        one = {"oldText": f"<{number}>", "newText": f"{number} done"}
        if tool == "edit_file":
            said.append(project.ok("edit_file", path="f", **one))
        elif tool == "multi_edit":
            said.append(project.ok("multi_edit", path="f", edits=[one]))
        else:
            pair = ["f", "g"] if number % 2 else ["g", "f"]
            said.append(project.ok("multi_edit", edits=[{"path": path, **one} for path in pair]))

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 60
    assert project.read("f").decode() == "".join(f"{number} done\n" for number in range(60))
    assert not locks._locks


@pytest.mark.row("B16")
def test_a_lock_that_is_held_is_waited_for_and_then_said(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.file("f", "old")
    monkeypatch.setattr(locks, "WAIT", 0.05)
    monkeypatch.setattr(editing, "locked", lambda folders, given: locks.locked(folders, given, 0.05))
    folder = os.open(project.root, os.O_RDONLY)
    try:
        with locks.locked([folder], "other"):
            begin = time.perf_counter()
            with pytest.raises(PathRefused, match="is still running"), locks.locked([folder], "f", 0.05):
                pytest.fail("two hold one lock")
            assert 0.04 < time.perf_counter() - begin < 20
        with locks.locked([folder], "f", 0.05) as alone:
            assert alone
    finally:
        os.close(folder)
    assert not locks._locks


@pytest.mark.row("B8")
def test_a_fuzzy_match_is_never_written(project: Project) -> None:
    for text, old in [
        ("a\tb", "a b"),
        ("\u201chi\u201d", '"hi"'),
        ("cafe\u0301", "caf\u00e9"),
        ("a \n", "a\n"),
    ]:
        project.file("f", text)
        project.restart()
        said = project.refused("edit_file", path="f", oldText=old, newText="x")
        assert "A similar text is in line 1, but differs in " in said
        assert project.read("f") == text.encode()


@pytest.mark.row("B9")
def test_what_is_inserted_is_literal(project: Project) -> None:
    for new in ("$&", r"\1", r"\n", "{} %s {0}", "```\ncode\n```", "\\", "\x00"):
        project.file("f", "<here>")
        project.restart()
        project.ok("edit_file", path="f", oldText="here", newText=new)
        assert project.read("f") == f"<{new}>".encode()


@pytest.mark.row("R002-26", "R002-70")
def test_several_edits_of_a_file_are_one_write(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.file("f", "a b c")
    written: list[bytes] = []
    put = replacing._write_new

    def note(spot: Any, data: bytes, old: Any) -> None:
        assert project.read("f") == b"a b c", "until then nothing was written"
        written.append(data)
        put(spot, data, old)

    monkeypatch.setattr(replacing, "_write_new", note)
    edits = [{"oldText": one, "newText": one.upper()} for one in "abc"]
    project.ok("multi_edit", path="f", edits=edits)
    assert (written, project.read("f")) == ([b"A B C"], b"A B C")
