"""write_file and append_to_file: all of it or nothing, and what belongs to a file stays."""

import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import Project, as_nobody
from toolwire.codetools import editing, replacing
from toolwire.codetools.definitions import FILE_BYTES, WRITE_BYTES
from toolwire.codetools.paths import PathRefused

ROOT = os.geteuid() == 0


@pytest.fixture(params=["as the system can", pytest.param("named", marks=pytest.mark.slow)])
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Project:
    """Write by a file without a name where that can be, and by one with a name, as other systems have to."""
    if request.param == "named":
        monkeypatch.setitem(replacing._capabilities, "unnamed", value=False)
    return Project(tmp_path)


@pytest.mark.row("R002-03")
def test_a_file_is_made_and_replaced(project: Project) -> None:
    assert project.ok("write_file", path="a/b/f", content="1\n") == "Wrote 2 bytes to a/b/f (a new file)."
    assert project.ok("write_file", path="a/b/f", content="22\n") == "Wrote 3 bytes to a/b/f (it had 2 bytes)."
    assert project.read("a/b/f") == b"22\n"
    assert project.names("a/b") == ["f"]


@pytest.mark.row("B17")
def test_a_file_that_is_there_is_kept_if_asked(project: Project) -> None:
    project.file("f", "never read")
    assert "exists already" in project.refused("write_file", path="f", content="x", overwrite=False)
    assert project.read("f") == b"never read"
    project.ok("write_file", path="g", content="x", overwrite=False)
    project.ok("write_file", path="f", content="x")
    assert project.read("f") == b"x"


@pytest.mark.parametrize("content", ["", "x", "\n", "a\r\nb\r\n", "\ufeffa", "\0", "\u20ac\U0001f600", "x" * 1_000_000])
@pytest.mark.row("B27")
def test_what_is_written_is_what_was_given(project: Project, content: str) -> None:
    project.ok("write_file", path="f", content=content)
    assert project.read("f") == content.encode()
    project.ok("append_to_file", path="g", content=content)
    assert project.read("g") == content.encode()


@pytest.mark.row("B27")
def test_too_much_is_refused_before_anything_is_written(project: Project) -> None:
    project.ok("write_file", path="f", content="x" * WRITE_BYTES)
    assert "10 MB" in project.refused("write_file", path="f", content="y" * (WRITE_BYTES + 1))
    assert "10 MB" in project.refused("write_file", path="f", content="\u20ac" * (WRITE_BYTES // 3 + 1))
    assert "10 MB" in project.refused("append_to_file", path="f", content="y" * (FILE_BYTES - WRITE_BYTES + 1))
    assert "10 MB" in project.refused("write_file", path="new/f", content="y" * (WRITE_BYTES + 1))
    assert project.names(".") == ["f"]


@pytest.mark.parametrize("tool", ["write_file", "append_to_file"])
@pytest.mark.row("B10")
def test_half_of_a_surrogate_pair_is_refused(project: Project, tool: str) -> None:
    project.file("f", "old")
    assert "surrogate pair" in project.refused(tool, path="f", content="abc\ud800")
    with pytest.raises(PathRefused, match="surrogate pair at character 3"):
        getattr(editing, tool)(project.tools.desk, path="f", content="abc\ud800")
    assert project.read("f") == b"old"
    project.refused(tool, path="new/f", content="\udfff")
    assert project.names(".") == ["f"]


# What is there, what is added, what comes, what is said
APPENDED = [
    (b"a\n", "b\n", b"a\nb\n", ""),
    (b"a", "b\n", b"ab\n", "did not end in a line break"),
    (b"", "b", b"b", ""),
    (b"a", "", b"a", ""),
    (b"a\r\n", "b\nc\r\nd", b"a\r\nb\r\nc\r\nd", ""),
    (b"a\r\nb\n", "c\n", b"a\r\nb\nc\n", ""),
    (b"a\nb\r\n", "c\n", b"a\nb\r\nc\r\n", ""),
    (b"a\n", "b\r\n", b"a\nb\r\n", ""),
    (b"\xef\xbb\xbfa\n", "b", b"\xef\xbb\xbfa\nb", ""),
]


@pytest.mark.parametrize(("data", "added", "made", "said"), APPENDED)
@pytest.mark.row("R002-06", "B24")
def test_text_is_added_and_nothing_else(project: Project, data: bytes, added: str, made: bytes, said: str) -> None:
    project.file("f", data)
    told = project.ok("append_to_file", path="f", content=added)
    assert project.read("f") == made
    assert said in told
    assert ("line break" in told) == bool(said)


@pytest.mark.row("B25")
def test_a_missing_file_and_folder_are_made(project: Project) -> None:
    assert project.ok("append_to_file", path="a/b/f", content="x") == "Created a/b/f with 1 byte."


@pytest.mark.parametrize("data", [b"a\0b", b"caf\xe9", b"\xff\xfea\0"])
@pytest.mark.row("B7")
def test_text_is_not_added_to_what_is_no_utf_8(project: Project, data: bytes) -> None:
    project.file("f", data)
    project.refused("append_to_file", path="f", content="x")
    assert project.read("f") == data


def test_what_is_lost_is_said(project: Project) -> None:
    project.file("f", "\ufeffa\r\nb\r\n")
    said = project.ok("write_file", path="f", content="a\nb\n")
    assert "[Its lines ended in CRLF; they end in LF now.]" in said
    assert "[It began with a byte order mark; now it does not.]" in said


EDITS: dict[str, dict[str, Any]] = {
    "write_file": {"content": "new"},
    "append_to_file": {"content": "new"},
    "edit_file": {"oldText": "old", "newText": "new"},
    "multi_edit": {"edits": [{"oldText": "old", "newText": "new"}]},
    "multi_edit of two": {
        "edits": [
            {"path": "f", "oldText": "old", "newText": "new"},
            {"path": "other", "oldText": "old", "newText": "new"},
        ]
    },
}
each = pytest.mark.parametrize("tool", EDITS)


def change(project: Project, tool: str, *, refused: bool = False) -> str:
    project.file("other", "old")
    name = tool.partition(" ")[0]
    arguments = EDITS[tool] if name != tool else {"path": "f", **EDITS[tool]}
    return project.refused(name, **arguments) if refused else project.ok(name, **arguments)


@pytest.mark.sampled
@each
@pytest.mark.parametrize("mode", [0o750, 0o644, 0o600, 0o777, 0o222, 0o4755, 0o2755, 0o1644])
@pytest.mark.row("B21")
def test_the_mode_stays_and_rights_of_the_file_do_not(project: Project, tool: str, mode: int) -> None:
    file = project.file("f", "old", mode)
    if mode == 0o222 and not ROOT:
        change(project, tool, refused=True)
        return
    change(project, tool)
    assert stat.S_IMODE(file.stat().st_mode) == mode & 0o777


@each
@pytest.mark.row("B21")
def test_owner_and_group_stay_where_that_is_permitted(project: Project, tool: str) -> None:
    if not ROOT:
        pytest.skip("only root may give files away")
    file = project.file("f", "old", 0o664)
    os.chown(file, 1234, 4321)
    change(project, tool)
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 4321, 0o664)


@pytest.mark.parametrize("mode", [0o664, 0o670])
@pytest.mark.row("B21")
def test_a_group_that_cannot_be_kept_gets_no_more_than_all(project: Project, mode: int) -> None:
    if not ROOT:
        pytest.skip("only root may give files away")
    folder = project.root / "d"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    file = project.file("d/f", "old", mode)
    os.chown(file, 65534, 4321)
    groups = os.getgroups()
    os.setgroups([])
    try:
        with as_nobody():
            project.ok("edit_file", path="d/f", oldText="old", newText="new")
    finally:
        os.setgroups(groups)
    status = file.stat()
    others = mode & 0o007
    assert (status.st_gid, stat.S_IMODE(status.st_mode)) == (65534, mode & 0o707 | others << 3)


@each
@pytest.mark.row("B21")
def test_attributes_stay(project: Project, tool: str) -> None:
    file = project.file("f", "old", 0o640)
    try:
        os.setxattr(file, "user.note", b"kept")
    except (OSError, AttributeError):
        pytest.skip("this file system has no attributes")
    change(project, tool)
    assert os.getxattr(file, "user.note") == b"kept"


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """Write a list of who may do what, as the kernel keeps it."""
    return (2).to_bytes(4, "little") + b"".join(
        tag.to_bytes(2, "little") + rights.to_bytes(2, "little") + (who & 0xFFFFFFFF).to_bytes(4, "little")
        for tag, rights, who in entries
    )


ACCESS = access_list((1, 6, -1), (2, 4, 1234), (4, 0, -1), (16, 4, -1), (32, 0, -1))
DEFAULT = access_list((1, 7, -1), (2, 7, 4321), (4, 5, -1), (16, 7, -1), (32, 5, -1))


@each
@pytest.mark.row("B21")
def test_an_access_list_stays_and_none_is_added(project: Project, tool: str) -> None:
    listed, plain = project.file("f", "old", 0o640), project.file("p", "old", 0o640)
    try:
        os.setxattr(listed, "system.posix_acl_access", ACCESS)
    except (OSError, AttributeError):
        pytest.skip("this file system has no access lists")
    os.setxattr(project.root, "system.posix_acl_default", DEFAULT)
    change(project, tool)
    assert os.getxattr(listed, "system.posix_acl_access") == ACCESS
    project.ok("write_file", path="p", content="new")
    assert "system.posix_acl_access" not in os.listxattr(plain)
    assert stat.S_IMODE(plain.stat().st_mode) == 0o640
    project.ok("write_file", path="new", content="new")
    assert "system.posix_acl_access" in os.listxattr(project.root / "new")


@each
@pytest.mark.row("B22")
def test_a_read_only_file_is_refused(project: Project, tool: str) -> None:
    file = project.file("f", "old", 0o444)
    assert "read-only" in change(project, tool, refused=True)
    assert project.read("f") == b"old"
    assert project.read("other") == b"old"
    assert stat.S_IMODE(file.stat().st_mode) == 0o444


@pytest.mark.row("R002-68")
def test_what_is_wrong_with_the_text_is_said_before_the_mode(project: Project) -> None:
    project.file("f", "old", 0o444)
    assert "not in the file" in project.refused("edit_file", path="f", oldText="absent", newText="x")


@pytest.mark.row("B23")
def test_a_file_in_use_is_replaced_and_its_user_keeps_the_old(project: Project) -> None:
    file = project.file("f", "old")
    with file.open() as used:
        project.ok("write_file", path="f", content="new")
        assert used.read() == "old"
    program = project.root / "run"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    with subprocess.Popen([program, "30"]) as running:
        project.ok("write_file", path="run", content="#!/bin/sh\n")
        running.kill()
    assert stat.S_IMODE(program.stat().st_mode) & 0o111


@pytest.mark.row("B24")
def test_fifty_threads_add_whole_lines(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    lines = [f"{number:03}" * 300 + "\n" for number in range(50)]
    threads = [
        threading.Thread(target=project.ok, args=("append_to_file",), kwargs={"path": "log", "content": line})
        for line in lines
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(project.read("log").decode().splitlines(keepends=True)) == lines
    assert not project.left_over()


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.row("B18")
def test_where_there_are_no_locks_only_what_is_old_and_of_the_dead_is_swept(project: Project, *, alone: bool) -> None:
    dead = subprocess.Popen(["true"])  # noqa: S607 - any program that ends
    dead.wait()
    hexadecimal = "0123456789abcdef"
    old = [project.file(f".toolwire-{process}-{hexadecimal}.tmp", "left") for process in (dead.pid, os.getpid())]
    young = project.file(f".toolwire-{dead.pid}-{hexadecimal[::-1]}.tmp", "left")
    for path in old:
        os.utime(path, (1, 1))
    folder = os.open(project.root, os.O_RDONLY)
    replacing._swept.clear()
    replacing.sweep(folder, is_alone=alone)
    os.close(folder)
    assert [path.exists() for path in old] == [False, not alone]
    assert young.exists() != alone


@pytest.mark.parametrize("tool", ["write_file", "append_to_file", "edit_file", "multi_edit"])
@pytest.mark.row("B18")
def test_what_a_killed_process_left_is_swept(project: Project, tool: str) -> None:
    project.file("f", "old")
    project.file(".toolwire-99-0123456789abcdef.tmp", "left")
    project.file(".toolwire-99-notours.tmp", "stays")
    replacing._swept.clear()
    change(project, tool)
    assert [Path(name).name for name in project.left_over()] == [".toolwire-99-notours.tmp"]
