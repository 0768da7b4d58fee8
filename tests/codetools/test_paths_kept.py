"""Group A: names are taken as they are; what is kept apart, special or not permitted is refused at once."""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codetools.folders import EACH, KEPT, OPENERS, WRITING, Project, as_nobody, confined
from toolwire import CodeTools


@pytest.fixture(params=OPENERS)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Project]:
    with confined(tmp_path, monkeypatch, request.param) as made:
        yield made


each = pytest.mark.parametrize("tool", EACH)
writing = pytest.mark.parametrize("tool", WRITING)

LITERAL = [
    *("%00", "%2e%2e", "..%2f", "~", "~root", "$HOME", "`id`", "$(id)", "*", "-rf", "--pre=x", " f ", "   "),
    *(
        "C:\\x",
        "\\\\host\\share",
        "a\\..\\..\\b",
        "file:x:stream",
        "CON",
        "new\nline",
        "\x1b[31mred",
        "\u202etxt",
    ),
    *("...", "..x", "a b", "\u00e9", "e\u0301", "\U0001f600", "x" * 255),
]


@pytest.mark.row("A11", "A12", "A15", "A28")
def test_a_name_is_taken_literally(project: Project) -> None:
    for name in LITERAL:
        path = f"n/{name}"
        said = [project.ok("write_file", path=path, content="1")]
        assert project.names("n") == [name]
        assert project.ok("read_file", path=path) == "1"
        said += [project.ok("edit_file", path=path, oldText="1", newText="2")]
        said += [project.refused("edit_file", path=path, oldText="1", newText="2")]
        assert not any(mark in line for line in said for mark in "\x1b\u202e\0\n")
        assert project.read(path) == b"2"
        (project.root / path).unlink()


@each
@pytest.mark.row("A14")
def test_a_folder_is_no_file(project: Project, tool: str) -> None:
    for path in ("", ".", "./", "d", "d/", "/", "f.txt/", "f.txt/.", "f.txt/x", "d/."):
        project.refused(tool, path=path, **EACH[tool])
    assert project.read("f.txt") == b"old inside"
    assert project.names("d") == ["f.txt"]


@pytest.mark.row("A14")
def test_the_root_itself_is_no_file(project: Project) -> None:
    assert "project folder" in project.refused("read_file", path=str(project.root))


@pytest.mark.row("A16")
def test_a_name_that_is_no_text_reads_back_by_its_escape(project: Project) -> None:
    raw = project.file(os.fsdecode(b"caf\xff.txt"), "old")
    assert project.ok("read_file", path=r"caf\xff.txt") == "old"
    project.ok("edit_file", path=r"caf\xff.txt", oldText="old", newText="new")
    assert raw.read_bytes() == b"new"
    project.ok("write_file", path=r"a\x41.txt", content="1")
    assert "said" not in project.ok("read_file", path=r"a\x41.txt")
    for escape in (r".g\x69t/config", r".e\x6ev", r".\x67it/hooks/x"):
        project.refused("write_file", path=escape, content="x")
    for escape in (r"\x2e\x2e/outside/g", r"d\x2f..\x2f..\x2foutside", r"f\x00"):
        project.ok("write_file", path=escape, content="x")


@pytest.mark.row("A17")
def test_the_other_unicode_form_is_another_file(project: Project) -> None:
    composed, apart = (unicodedata.normalize(form, "caf\u00e9.txt") for form in ("NFC", "NFD"))
    project.file(apart, "apart")
    said = project.refused("read_file", path=composed)
    assert f"there is {apart} in its folder" in said
    project.file(composed, "composed")
    assert project.ok("read_file", path=composed) == "composed"
    assert project.ok("read_file", path=apart) == "apart"


PROTECTED = [
    *(".git/config", ".git/hooks/pre-commit", ".GIT/config", ".Git/hooks/x", ".git./x", "sub/.git/config"),
    *(".toolwire-journal", "d/.toolwire-1-2.tmp", ".g\uff49t/config", ".git /x", "d/../.git/x"),
]
SECRETS = [".env", ".ENV", ".env.local", "d/.env", ".env/x", ".env. ", "d/../.env"]


@writing
@pytest.mark.row("A18", "A23")
def test_what_is_protected_is_not_written_though_it_is_not_there(project: Project, tool: str) -> None:
    before = sorted(project.root.rglob("*"))
    for path in (*PROTECTED, *SECRETS):
        said = project.refused(tool, path=path, **EACH[tool])
        assert "protected" in said or "secret" in said
        edits = [{"path": one, "oldText": "old", "newText": "new"} for one in ("f.txt", path)]
        project.refused("multi_edit", edits=edits)
    assert sorted(project.root.rglob("*")) == before
    assert project.read("f.txt") == b"old inside"


@writing
@pytest.mark.row("A23")
def test_a_link_does_not_lead_to_what_is_protected(
    project: Project, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    project.file(".git/config", "old")
    (project.root / ".git/hooks").mkdir()
    (project.root / "link").symlink_to(".git")
    (project.root / "d/link2").symlink_to("../.git")
    before = sorted(project.root.rglob("*"))
    mkdir, kept = os.mkdir, (project.root / ".git").stat().st_ino

    def made(name: str, mode: int, *, dir_fd: int) -> None:
        assert os.fstat(dir_fd).st_ino != kept, "a folder is made there, if only for a moment"
        mkdir(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", made)
    for path in ("link/config", "link/new/deep/x", "d/link2/hooks/x", "d/link2/new/x"):
        project.refused(tool, path=path, **EACH[tool])
    assert sorted(project.root.rglob("*")) == before
    assert project.read(".git/config") == b"old"


@each
@pytest.mark.row("A24")
def test_what_is_secret_is_not_read_by_any_name(project: Project, tool: str) -> None:
    secret = project.file(".env", KEPT + "old")
    (project.root / "link").symlink_to(".env")
    (project.root / "d/link").symlink_to("../.env")
    (project.root / "folder").symlink_to(".")
    os.link(secret, project.root / "hard")
    for path in (".env", ".ENV", "link", "d/link", "hard", "folder/.env", "folder/hard"):
        project.refused(tool, path=path, **EACH[tool])
    assert project.read(".env") == (KEPT + "old").encode()
    assert project.read("hard") == project.read(".env")


@pytest.mark.parametrize("name", [".en", "env", ".Env.loca", "ENV"])
def test_what_is_secret_is_not_named_where_another_name_is_misspelt(project: Project, name: str) -> None:
    for kept in (".env", ".Env.local", "ENVY"):
        project.file(kept, "secret")
    said = project.refused("read_file", path=name)
    assert ".env" not in said.casefold().removeprefix(name.casefold())
    assert "there is ENVY in its folder" in said or name != "ENV"


def test_an_example_of_what_is_secret_may_be_read(project: Project) -> None:
    project.file(".env.example", "KEY=")
    assert project.ok("read_file", path=".env.example") == "KEY="


@pytest.mark.sampled
@each
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
@pytest.mark.row("A19")
def test_what_is_no_file_is_refused_at_once(project: Project, tool: str, kind: str) -> None:
    path = project.root / "thing"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with contextlib.chdir(project.root), socket.socket(socket.AF_UNIX) as made:
            made.bind("thing")
    else:
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("only root may make a device")
    begin = time.perf_counter()
    said = project.refused(tool, path="thing", **EACH[tool])
    assert time.perf_counter() - begin < 20
    assert "only regular files" in said or "not a regular file" in said or (kind == "device" and "permission" in said)
    assert not stat.S_ISREG(path.lstat().st_mode)


@writing
@pytest.mark.row("A21")
def test_a_hard_link_to_a_file_outside_is_cut_and_not_written(project: Project, tool: str) -> None:
    other = project.outside / "old.txt"
    other.write_text("old")
    project.before["old.txt"] = b"old"
    os.link(other, project.root / "hard")
    said = project.ok(tool, path="hard", **EACH[tool])
    assert "1 more name (hard links)" in said
    assert project.read("hard").endswith(b"new")


@pytest.mark.row("A22")
def test_the_root_may_be_a_link_and_may_be_moved(project: Project, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to("proj")
    project.tools = CodeTools(tmp_path / "way")
    assert project.ok("read_file", path="f.txt") == "old inside"
    assert project.ok("read_file", path=f"{tmp_path}/way/f.txt") == "old inside"
    assert project.ok("read_file", path=f"{tmp_path}/proj/f.txt") == "old inside"
    project.root.rename(tmp_path / "moved")
    project.root.symlink_to("outside")
    assert project.ok("read_file", path="f.txt") == "old inside"
    project.ok("write_file", path="f.txt", content="moved")
    assert (tmp_path / "moved/f.txt").read_text() == "moved"
    project.root.unlink()
    (tmp_path / "moved").rename(project.root)


@each
@pytest.mark.row("A22")
def test_a_root_that_is_gone_is_an_error(project: Project, tmp_path: Path, tool: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    project.tools = CodeTools(gone)
    gone.rmdir()
    project.refused(tool, path="f.txt", **EACH[tool])
    assert not gone.exists()


@each
@pytest.mark.row("A25")
def test_what_may_not_be_opened_is_an_error(project: Project, tool: str) -> None:
    project.file("locked.txt", "old", 0o000)
    project.file("shut/f.txt", "old")
    (project.root / "shut").chmod(0o000)
    with as_nobody():
        for path in ("locked.txt", "shut/f.txt"):
            said = project.refused(tool, path=path, **EACH[tool])
            assert "permission" in said
    (project.root / "shut").chmod(0o755)
    assert project.read("locked.txt") == b"old"


@pytest.mark.sampled
@writing
@pytest.mark.row("A25")
def test_what_may_not_be_changed_is_an_error(project: Project, tool: str) -> None:
    chattr = shutil.which("chattr")
    if chattr is None or subprocess.run([chattr, "+i", project.root / "f.txt"], check=False).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        assert "permission" in project.refused(tool, path="f.txt", **EACH[tool])
    finally:
        subprocess.run([chattr, "-i", project.root / "f.txt"], check=True)
    assert project.read("f.txt") == b"old inside"


@pytest.mark.row("A26")
def test_what_vanishes_is_an_error(project: Project) -> None:
    project.ok("read_file", path="f.txt")
    (project.root / "f.txt").unlink()
    assert "no such file" in project.refused("read_file", path="f.txt")
    assert "no such file" in project.refused("edit_file", path="f.txt", oldText="old", newText="new")
    (project.root / "f.txt").mkdir()
    project.refused("edit_file", path="f.txt", oldText="old", newText="new")


@pytest.mark.row("A27")
def test_new_files_are_not_writable_for_all(project: Project) -> None:
    (project.root / "group").mkdir()
    os.chown(project.root / "group", -1, NOGROUP if os.geteuid() == 0 else -1)
    (project.root / "group").chmod(0o2775)
    before = os.umask(0)
    try:
        project.ok("write_file", path="a/b/c", content="1")
        project.ok("append_to_file", path="a/b/d", content="1")
        project.ok("write_file", path="group/f", content="1")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((project.root / path).stat().st_mode) for path in ("a", "a/b", "a/b/c", "a/b/d")]
    assert modes == [0o755, 0o755, 0o644, 0o644]
    assert (project.root / "group/f").stat().st_gid == (project.root / "group").stat().st_gid
    os.umask(0o077)
    try:
        project.ok("write_file", path="private/f", content="1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((project.root / "private/f").stat().st_mode) == 0o600
    assert stat.S_IMODE((project.root / "private").stat().st_mode) == 0o700


NOGROUP = 65534


@pytest.mark.row("B25")
def test_folders_that_were_made_are_taken_away_on_failure(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert "no space" in project.refused("write_file", path="d/new/deep/x", content="1")
    assert project.names("d") == ["f.txt"]
