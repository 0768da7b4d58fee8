"""Group A: no path and no link leads a file tool out of its folder."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import EACH, KEPT, OPENERS, WRITING, Project, confined
from toolwire import CodeTools
from toolwire.codetools import paths


@pytest.fixture(params=OPENERS)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Project]:
    with confined(tmp_path, monkeypatch, request.param) as made:
        yield made


each = pytest.mark.parametrize("tool", EACH)
writing = pytest.mark.parametrize("tool", WRITING)

# Out of the folder by name. What is of the system is only read: a test that falls must not
# be one that writes there.
OUTSIDE = [
    *("../outside/f.txt", "..", "../", "./..//..", "a/../../outside/f.txt", "d/../../outside/f.txt", "/.."),
    "../proj-evil/f.txt",
]
SYSTEM = ["/etc/passwd", "//etc/passwd", "/proc/self/root/etc/passwd", "/dev/fd/0", "/dev/zero"]


@each
@pytest.mark.row("A1", "A2", "A3", "A29")
def test_a_path_that_leads_out_is_refused(project: Project, tool: str) -> None:
    evil = project.root.with_name("proj-evil")
    evil.mkdir()
    (evil / "f.txt").write_text(KEPT)
    around = [
        f"{project.root}-evil/f.txt",
        f"{project.outside}/f.txt",
        f"/proc/self/root{project.outside}/f.txt",
    ]
    for given in (*OUTSIDE, *around, *(SYSTEM if tool == "read_file" else ())):
        said = project.refused(tool, path=given, **EACH[tool])
        assert "leads out" in said or "outside" in said
        assert given in said
    assert (evil / "f.txt").read_text() == KEPT


@each
@pytest.mark.row("A2")
def test_an_absolute_path_inside_is_the_same_file(project: Project, tool: str) -> None:
    for given in (f"{project.root}/f.txt", f"{project.root}/d/.././f.txt", f"//{project.root}/f.txt"):
        project.file("f.txt", "old inside")
        project.restart()
        project.ok(tool, path=given, **EACH[tool])
        assert project.read("f.txt") == (b"old inside" if tool == "read_file" else _changed(tool))


def _changed(tool: str) -> bytes:
    return {"write_file": b"new", "append_to_file": b"old insidenew"}.get(tool, b"new inside")


# A link to a file outside, a link to a folder outside, a chain of 40, a loop
LINKS: dict[str, tuple[str, Callable[[Project], Any]]] = {
    "absolute": ("link", lambda project: project.outside / "f.txt"),
    "relative": ("link", lambda _: "../outside/f.txt"),
    "magic folder": ("link/f.txt", lambda project: f"/proc/self/root{project.outside}"),
    "up and in": ("link", lambda project: f"../{project.root.name}/f.txt"),
    "folder": ("link/f.txt", lambda _: "../outside"),
    "folder, absolute": ("link/f.txt", lambda project: project.outside),
    "absolute, inside": ("link", lambda project: project.root / "f.txt"),
    "folder, absolute, inside": ("link/f.txt", lambda project: project.root / "d"),
    "loop": ("link", lambda _: "link"),
    "folder, loop": ("link/f.txt", lambda _: "./link"),
    "magic": ("link", lambda project: f"/proc/self/root{project.outside}/f.txt"),
}


@pytest.mark.sampled
@each
@pytest.mark.row("A4", "A6", "A7")
def test_a_link_that_leads_out_is_refused(project: Project, tool: str) -> None:
    for path, target in LINKS.values():
        (project.root / "link").symlink_to(target(project))
        project.refused(tool, path=path, **EACH[tool])
        assert (project.root / "link").is_symlink()
        assert project.read("f.txt") == b"old inside"
        assert project.read("d/f.txt") == b"old in d"
        (project.root / "link").unlink()


@writing
@pytest.mark.row("A5")
def test_a_dangling_link_is_not_written(project: Project, tool: str) -> None:
    for target in ("../outside/new.txt", project.outside / "new.txt", "nowhere"):
        (project.root / "link").symlink_to(target)
        said = project.refused(tool, path="link", **EACH[tool])
        assert "link" in said
        assert not (project.root / "link").exists()
        (project.root / "link").unlink()


@writing
@pytest.mark.row("A7")
def test_a_link_inside_is_read_and_not_written(project: Project, tool: str) -> None:
    (project.root / "link").symlink_to("d/f.txt")
    assert project.ok("read_file", path="link") == "old in d"
    assert "symbolic link" in project.refused(tool, path="link", **EACH[tool])
    assert (project.root / "link").is_symlink()
    (project.root / "folder").symlink_to("d")
    project.ok(tool, path="folder/f.txt", **EACH[tool])
    assert b"new" in project.read("d/f.txt")


@pytest.mark.row("A6")
def test_a_chain_of_links_is_followed_as_far_as_the_kernel_does(project: Project) -> None:
    (project.root / "l0").symlink_to("f.txt")
    for number in range(1, 60):
        (project.root / f"l{number}").symlink_to(f"l{number - 1}")
    assert project.ok("read_file", path="l39") == "old inside"
    assert "links" in project.refused("read_file", path="l40")
    assert "links" in project.refused("read_file", path="l59")


@each
@pytest.mark.row("A10")
def test_a_root_that_holds_the_system_gives_nothing_of_it(project: Project, tool: str) -> None:
    project.tools = CodeTools("/proc")  # where nothing can be put in the place of a file
    for path in ("self/root/etc/passwd", "self/environ", "self/fd/0", "1/cwd/x", "self/../version"):
        project.refused(tool, path=path, **EACH[tool])
        project.refused(tool, path=f"/proc/{path}", **EACH[tool])


@pytest.mark.row("A10", "A19")
def test_the_whole_system_as_a_root_gives_no_process_and_no_device(project: Project) -> None:
    project.tools = CodeTools("/")
    for path in ("proc/self/root/etc/passwd", "proc/self/environ", "/proc/version", "dev/zero", "dev/fd/0"):
        project.refused("read_file", path=path)


@pytest.mark.sampled
@each
@pytest.mark.row("A11", "A13")
def test_a_path_that_is_none_is_refused(project: Project, tool: str) -> None:
    names = ["f.txt\0", "\0", "a\0/../f.txt", "f\ud800", "x" * 300, "x" * 5000]
    for path in (*names, "a/" * 1000 + "f", "a/" * 5000 + "f", "/" * 50):
        project.refused(tool, path=path, **EACH[tool])


@pytest.mark.row("A13")
def test_a_deep_path_is_made_and_found(project: Project) -> None:
    path = "d/" * 200 + "f"
    project.ok("write_file", path=path, content="deep")
    assert project.ok("read_file", path=path) == "deep"


@pytest.mark.row("A30")
def test_each_session_is_held_to_its_own_root(project: Project, tmp_path: Path) -> None:
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


TARGETS = [".", "..", "a", "a/b", "../a", "b/../f", "./b/./f", "../..", "l0", "l1/f", "/", "a/b/f/", "f", "x"]
TAILS = ["", "/f", "/b", "/l0", "/l1/l1", "/b/l3/f", "/l4/b/f", "/."]


def found(root: paths.Root, path: str, flags: int) -> int:
    """Give the inode that a path leads to, 0 if it is refused."""
    try:
        fd = root.open(tuple(part for part in path.split("/") if part not in ("", ".")), flags)
    except OSError:
        return 0
    inode = os.fstat(fd).st_ino
    os.close(fd)
    return inode


def test_a_walk_and_the_kernel_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever links there are, both openers come to the same file or both refuse."""
    if not paths.has_openat2():
        pytest.skip("this kernel has no openat2")
    project = Project(tmp_path)
    project.file("a/b/f", "1")
    project.file("f", "2")
    links = [f"{folder}l{place}" for folder in ("", "a/", "a/b/") for place in range(len(TARGETS))]
    for link in links:
        (project.root / link).symlink_to(TARGETS[int(link.rpartition("l")[2])])
    root = project.tools.workspace.cwd
    led = 0
    for path in (link + tail for link in links for tail in TAILS):
        for flags in (paths.READ, paths.FOLDER):
            monkeypatch.setitem(paths._kernel, "openat2", value=True)
            by_kernel = found(root, path, flags)
            monkeypatch.setitem(paths._kernel, "openat2", value=False)
            assert found(root, path, flags) == by_kernel, path
            led += by_kernel > 0
    assert led > 50
