"""Group A: no path leads a file tool out of its folder, to what is kept apart, or into a wait."""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import EACH, KEPT, WRITING, Project, as_nobody
from toolwire import CodeTools
from toolwire.codetools import paths


@pytest.fixture(params=["openat2", "walk"])
def _opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Confine by the kernel, or name by name."""
    if request.param == "walk":
        monkeypatch.setitem(paths._found, "openat2", False)
    elif not paths.has_openat2():
        pytest.skip("this kernel has no openat2")


@pytest.fixture
def project(tmp_path: Path, _opener: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    made = Project(tmp_path)
    made.file("f.txt", "old inside")
    made.file("d/f.txt", "old in d")
    yield made
    made.untouched()
    assert not made.left_over()


each = pytest.mark.parametrize("tool", EACH)
writing = pytest.mark.parametrize("tool", WRITING)

# A1, A2, A3, A10: out of the folder by name
OUTSIDE = [
    *("../outside/f.txt", "..", "../", "./..//..", "a/../../outside/f.txt", "d/../../outside/f.txt", "/.."),
    *("/etc/passwd", "//etc/passwd", "/proc/self/root/etc/passwd", "/dev/fd/0", "../proj-evil/f.txt"),
]


@each
def test_a_path_that_leads_out_is_refused(project: Project, tool: str) -> None:  # A1 A2 A3
    evil = project.root.with_name("proj-evil")
    evil.mkdir()
    (evil / "f.txt").write_text(KEPT)
    for given in (*OUTSIDE, f"{project.root}-evil/f.txt"):
        said = project.refused(tool, path=given, **EACH[tool])
        assert "leads out" in said or "outside" in said
        assert given in said  # A29
    assert (evil / "f.txt").read_text() == KEPT


@each
def test_an_absolute_path_inside_is_the_same_file(project: Project, tool: str) -> None:  # A2
    for given in (f"{project.root}/f.txt", f"{project.root}/d/.././f.txt", f"//{project.root}/f.txt"):
        project.file("f.txt", "old inside")
        project.restart()
        project.ok(tool, path=given, **EACH[tool])
        assert project.read("f.txt") == (b"old inside" if tool == "read_file" else _changed(tool))


def _changed(tool: str) -> bytes:
    return {"write_file": b"new", "append_to_file": b"old insidenew"}.get(tool, b"new inside")


# A4: a link to a file outside; A6: a link to a folder outside, a chain of 40, a loop
LINKS: dict[str, tuple[str, Callable[[Project], Any]]] = {
    "absolute": ("link", lambda project: project.outside / "f.txt"),
    "relative": ("link", lambda _: "../outside/f.txt"),
    "of the system": ("link", lambda _: "/etc/passwd"),
    "up and in": ("link", lambda project: f"../{project.root.name}/f.txt"),
    "folder": ("link/f.txt", lambda _: "../outside"),
    "folder, absolute": ("link/f.txt", lambda project: project.outside),
    "absolute, inside": ("link", lambda project: project.root / "f.txt"),  # A7
    "folder, absolute, inside": ("link/f.txt", lambda project: project.root / "d"),
    "loop": ("link", lambda _: "link"),
    "folder, loop": ("link/f.txt", lambda _: "./link"),
    "magic": ("link", lambda _: "/proc/self/fd/0"),
}


@each
def test_a_link_that_leads_out_is_refused(project: Project, tool: str) -> None:  # A4 A6 A7
    for path, target in LINKS.values():
        (project.root / "link").symlink_to(target(project))
        project.refused(tool, path=path, **EACH[tool])
        assert (project.root / "link").is_symlink()
        assert project.read("f.txt") == b"old inside"
        assert project.read("d/f.txt") == b"old in d"
        (project.root / "link").unlink()


@writing
def test_a_dangling_link_is_not_written(project: Project, tool: str) -> None:  # A5
    for target in ("../outside/new.txt", project.outside / "new.txt", "nowhere"):
        (project.root / "link").symlink_to(target)
        said = project.refused(tool, path="link", **EACH[tool])
        assert "link" in said
        assert not (project.root / "link").exists()
        (project.root / "link").unlink()


@writing
def test_a_link_inside_is_read_and_not_written(project: Project, tool: str) -> None:  # A7
    (project.root / "link").symlink_to("d/f.txt")
    assert project.ok("read_file", path="link") == "old in d"
    assert "symbolic link" in project.refused(tool, path="link", **EACH[tool])
    assert (project.root / "link").is_symlink()
    (project.root / "folder").symlink_to("d")
    project.ok(tool, path="folder/f.txt", **EACH[tool])
    assert b"new" in project.read("d/f.txt")


def test_a_chain_of_links_is_followed_as_far_as_the_kernel_does(project: Project) -> None:  # A6
    (project.root / "l0").symlink_to("f.txt")
    for number in range(1, 60):
        (project.root / f"l{number}").symlink_to(f"l{number - 1}")
    assert project.ok("read_file", path="l39") == "old inside"
    assert "links" in project.refused("read_file", path="l40")
    assert "links" in project.refused("read_file", path="l59")


@each
def test_a_root_that_holds_the_system_gives_nothing_of_it(project: Project, tool: str) -> None:  # A10
    project.tools = CodeTools("/")
    for path in ("self/root/etc/passwd", "self/environ", "self/fd/0", "1/cwd/x", "../dev/null", "../sys/x"):
        project.refused(tool, path=f"proc/{path}", **EACH[tool])
        project.refused(tool, path=f"/proc/{path}", **EACH[tool])


@each
def test_a_path_that_is_none_is_refused(project: Project, tool: str) -> None:  # A11 A13
    names = ["f.txt\0", "\0", "a\0/../f.txt", "f\ud800", "x" * 300, "x" * 5000]
    for path in (*names, "a/" * 1000 + "f", "a/" * 5000 + "f", "/" * 50):
        project.refused(tool, path=path, **EACH[tool])


def test_a_deep_path_is_made_and_found(project: Project) -> None:  # A13
    path = "d/" * 200 + "f"
    project.ok("write_file", path=path, content="deep")
    assert project.ok("read_file", path=path) == "deep"


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


def test_a_name_is_taken_literally(project: Project) -> None:  # A11 A12 A15 A28
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
def test_a_folder_is_no_file(project: Project, tool: str) -> None:  # A14
    for path in ("", ".", "./", "d", "d/", "/", "f.txt/", "f.txt/.", "f.txt/x", "d/."):
        project.refused(tool, path=path, **EACH[tool])
    assert project.read("f.txt") == b"old inside"
    assert project.names("d") == ["f.txt"]


def test_the_root_itself_is_no_file(project: Project) -> None:  # A14
    assert "project folder" in project.refused("read_file", path=str(project.root))


def test_a_name_that_is_no_text_reads_back_by_its_escape(project: Project) -> None:  # A16
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


def test_the_other_unicode_form_is_another_file(project: Project) -> None:  # A17
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
def test_what_is_protected_is_not_written_though_it_is_not_there(
    project: Project, tool: str
) -> None:  # A18 A23
    before = sorted(project.root.rglob("*"))
    for path in (*PROTECTED, *SECRETS):
        said = project.refused(tool, path=path, **EACH[tool])
        assert "protected" in said or "secret" in said
        edits = [{"path": one, "oldText": "old", "newText": "new"} for one in ("f.txt", path)]
        project.refused("multi_edit", edits=edits)
    assert sorted(project.root.rglob("*")) == before
    assert project.read("f.txt") == b"old inside"


@writing
def test_a_link_does_not_lead_to_what_is_protected(project: Project, tool: str) -> None:  # A23
    project.file(".git/config", "old")
    (project.root / ".git/hooks").mkdir()
    (project.root / "link").symlink_to(".git")
    (project.root / "d/link2").symlink_to("../.git")
    before = sorted(project.root.rglob("*"))
    for path in ("link/config", "link/new/deep/x", "d/link2/hooks/x", "d/link2/new/x"):
        project.refused(tool, path=path, **EACH[tool])
    assert sorted(project.root.rglob("*")) == before
    assert project.read(".git/config") == b"old"


@each
def test_what_is_secret_is_not_read_by_any_name(project: Project, tool: str) -> None:  # A24
    secret = project.file(".env", KEPT + "old")
    (project.root / "link").symlink_to(".env")
    (project.root / "d/link").symlink_to("../.env")
    (project.root / "folder").symlink_to(".")
    os.link(secret, project.root / "hard")
    for path in (".env", ".ENV", "link", "d/link", "hard", "folder/.env", "folder/hard"):
        project.refused(tool, path=path, **EACH[tool])
    assert project.read(".env") == (KEPT + "old").encode()
    assert project.read("hard") == project.read(".env")


def test_an_example_of_what_is_secret_may_be_read(project: Project) -> None:
    project.file(".env.example", "KEY=")
    assert project.ok("read_file", path=".env.example") == "KEY="


@each
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_what_is_no_file_is_refused_at_once(project: Project, tool: str, kind: str) -> None:  # A19
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
    assert time.perf_counter() - begin < 1
    assert "only files" in said or "no regular file" in said
    assert not stat.S_ISREG(path.lstat().st_mode)


@writing
def test_a_hard_link_to_a_file_outside_is_cut_and_not_written(project: Project, tool: str) -> None:  # A21
    other = project.outside / "old.txt"
    other.write_text("old")
    project.before["old.txt"] = b"old"
    os.link(other, project.root / "hard")
    said = project.ok(tool, path="hard", **EACH[tool])
    assert "1 more name (hard links)" in said
    assert project.read("hard").endswith(b"new")


def test_the_root_may_be_a_link_and_may_be_moved(project: Project, tmp_path: Path) -> None:  # A22
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
def test_a_root_that_is_gone_is_an_error(project: Project, tmp_path: Path, tool: str) -> None:  # A22
    gone = tmp_path / "gone"
    gone.mkdir()
    project.tools = CodeTools(gone)
    gone.rmdir()
    project.refused(tool, path="f.txt", **EACH[tool])
    assert not gone.exists()


@each
def test_what_may_not_be_opened_is_an_error(project: Project, tool: str) -> None:  # A25
    project.file("locked.txt", "old", 0o000)
    project.file("shut/f.txt", "old")
    (project.root / "shut").chmod(0o000)
    with as_nobody():
        for path in ("locked.txt", "shut/f.txt"):
            said = project.refused(tool, path=path, **EACH[tool])
            assert "permission" in said
    (project.root / "shut").chmod(0o755)
    assert project.read("locked.txt") == b"old"


@writing
def test_what_may_not_be_changed_is_an_error(project: Project, tool: str) -> None:  # A25
    chattr = shutil.which("chattr")
    if chattr is None or subprocess.run([chattr, "+i", project.root / "f.txt"], check=False).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        assert "permission" in project.refused(tool, path="f.txt", **EACH[tool])
    finally:
        subprocess.run([chattr, "-i", project.root / "f.txt"], check=True)
    assert project.read("f.txt") == b"old inside"


def test_what_vanishes_is_an_error(project: Project) -> None:  # A26
    project.ok("read_file", path="f.txt")
    (project.root / "f.txt").unlink()
    assert "no such file" in project.refused("read_file", path="f.txt")
    assert "no such file" in project.refused("edit_file", path="f.txt", oldText="old", newText="new")
    (project.root / "f.txt").mkdir()
    project.refused("edit_file", path="f.txt", oldText="old", newText="new")


def test_new_files_are_not_writable_for_all(project: Project) -> None:  # A27
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


def test_each_session_is_held_to_its_own_root(project: Project, tmp_path: Path) -> None:  # A30
    other = tmp_path / "other"
    other.mkdir()
    (other / "o.txt").write_text("other")
    two = CodeTools(other)
    project.refused("read_file", path=str(other / "o.txt"))
    assert project.ok("read_file", path="f.txt") == "old inside"
    project.tools = two
    assert project.ok("read_file", path="o.txt") == "other"
    project.refused("read_file", path="../proj/f.txt")
    project.tools = CodeTools(project.root, roots=[other])
    assert project.ok("read_file", path=str(other / "o.txt")) == "other"
    project.refused("read_file", path="../other/o.txt")
    project.ok(
        "multi_edit",
        edits=[
            {"path": "f.txt", "oldText": "old", "newText": "new"},
            {"path": f"{other}/o.txt", "oldText": "other", "newText": "new"},
        ],
    )
    assert (other / "o.txt").read_text() == "new"


def test_folders_that_were_made_are_taken_away_on_failure(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:  # B25
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert "no space" in project.refused("write_file", path="d/new/deep/x", content="1")
    assert project.names("d") == ["f.txt"]


def test_a_walk_and_the_kernel_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever links there are, both openers come to the same file or both refuse."""
    if not paths.has_openat2():
        pytest.skip("this kernel has no openat2")
    project = Project(tmp_path)
    project.file("a/b/f", "1")
    project.file("f", "2")
    targets = [
        ".",
        "..",
        "a",
        "a/b",
        "../a",
        "b/../f",
        "./b/./f",
        "../..",
        "l0",
        "l1/f",
        "/",
        "a/b/f/",
        "f",
        "x",
    ]
    links = []
    for place, target in enumerate(targets):
        for folder in ("", "a/", "a/b/"):
            (project.root / f"{folder}l{place}").symlink_to(target)
            links.append(f"{folder}l{place}")
    tails = ["", "/f", "/b", "/l0", "/l1/l1", "/b/l3/f", "/l4/b/f", "/."]
    workspace = project.tools.workspace

    def found(path: str, flags: int) -> object:
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        try:
            fd = workspace.cwd.open(parts, flags)
        except OSError as problem:
            return problem.errno is not None
        status = os.fstat(fd)
        os.close(fd)
        return status.st_ino

    count = 0
    for path in (link + tail for link in links for tail in tails):
        for flags in (paths.READ, paths.FOLDER):
            monkeypatch.setitem(paths._found, "openat2", True)
            by_kernel = found(path, flags)
            monkeypatch.setitem(paths._found, "openat2", False)
            assert found(path, flags) == by_kernel, path
            count += isinstance(by_kernel, int) and by_kernel > 1
    assert count > 50
