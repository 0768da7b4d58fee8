"""glob, list_directory, tree and file_info."""

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import Project, as_nobody
from tests.codetools.searching import nasty, spent
from toolwire.codetools import listing, walking


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return nasty(tmp_path_factory.mktemp("nasty"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    for path in ("b.py", "A.txt", "src/x.py", "src/deep/y.py", ".hidden/z.py", "a.log", "out/o.py"):
        made.file(path, "x" * 1500)
    made.file(".gitignore", "*.log\nout/\n")
    made.file(".git/config", "x")
    made.file("small", "x")
    os.truncate(made.file("large"), 3_500_000)
    (made.root / "empty").mkdir()
    (made.root / "link").symlink_to("src")
    (made.root / "gone").symlink_to("nowhere")
    return made


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["b.py"]),
        ("**/*.py", [".hidden/z.py", "b.py", "src/deep/y.py", "src/x.py"]),
        ("src/**", ["src/deep/y.py", "src/x.py"]),
        ("src/*", ["src/x.py"]),
        ("{src,.hidden}/*.py", [".hidden/z.py", "src/x.py"]),
        ("*", [".gitignore", "A.txt", "b.py", "gone", "large", "link", "small"]),
        ("./b.*", ["b.py"]),
        ("s[lm]all", ["small"]),
        ("src", ["No files found"]),
        ("out/*", ["No files found"]),
        (".git/*", ["No files found"]),
    ],
)
@pytest.mark.row("R002-09")
def test_glob_gives_paths_in_order(project: Project, pattern: str, found: list[str]) -> None:
    said = project.ok("glob", pattern=pattern).split("\n")
    assert [line for line in said if line and not line.startswith("[")] == found
    assert found == sorted(found)


def test_glob_is_relative_to_its_folder_and_says_paths_of_the_project(project: Project) -> None:
    assert project.ok("glob", pattern="*.py", path="src") == "src/x.py"
    assert project.ok("glob", pattern="**/*.py", path=str(project.root / "src")) == "src/deep/y.py\nsrc/x.py"
    assert project.ok("glob", pattern="*.py", path="link") == "link/x.py"
    assert project.ok("glob", pattern="*", path="out", ignored=True) == "out/o.py"


@pytest.mark.row("D8")
def test_glob_says_what_was_left_out(project: Project) -> None:
    assert "set ignored" in project.ok("glob", pattern="**/*.log")
    assert project.ok("glob", pattern="**/*.log", ignored=True) == "a.log"
    assert "**/y.py also matches in the folders below it" in project.ok("glob", pattern="y.py")
    said = project.ok("glob", pattern="**", limit=2)
    assert said.split("\n")[:2] == [".gitignore", ".hidden/z.py"]
    assert "[The first 2 files; there are more." in said


@pytest.mark.parametrize("pattern", ["../**", "/etc/*", "**/../../x", "", "src/", "a\0", "x" * 2000])
@pytest.mark.row("D9")
def test_glob_refuses_what_leads_out_or_finds_nothing_ever(project: Project, pattern: str) -> None:
    project.refused("glob", pattern=pattern)


@pytest.mark.row("R002-10")
def test_list_directory(project: Project) -> None:
    assert project.ok("list_directory").split("\n") == [
        ".git/",
        ".gitignore",
        ".hidden/",
        "a.log",
        "A.txt",
        "b.py",
        "empty/",
        "gone -> nowhere",
        "large",
        "link -> src",
        "out/",
        "small",
        "src/",
    ]
    assert project.ok("list_directory", path="empty") == "(empty folder)"
    assert project.ok("list_directory", path="link") == "deep/\nx.py"
    said = project.ok("list_directory", limit=3)
    assert said.split("\n")[:3] == [".git/", ".gitignore", ".hidden/"]
    assert "[3 of 13 entries." in said


@pytest.mark.row("R002-11")
def test_tree(project: Project) -> None:
    assert project.ok("tree").split("\n") == [
        "./",
        "├── .git/ (ignored, not shown)",
        "├── .gitignore (11B)",
        "├── .hidden/",
        "│   └── z.py (1.5KB)",
        "├── a.log (1.5KB)",
        "├── A.txt (1.5KB)",
        "├── b.py (1.5KB)",
        "├── empty/",
        "├── gone -> nowhere",
        "├── large (3.3MB)",
        "├── link -> src",
        "├── out/ (ignored, not shown)",
        "├── small (1B)",
        "└── src/",
        "    ├── deep/",
        "    │   └── y.py (1.5KB)",
        "    └── x.py (1.5KB)",
    ]
    assert project.ok("tree", path="src", max_depth=1) == "src/\n├── deep/\n└── x.py (1.5KB)"
    assert project.ok("tree", path="out") == "out/\n└── o.py (1.5KB)"
    assert project.ok("tree", path="empty") == "empty/\n(empty folder)"


def test_a_cut_tree_shows_what_is_near_the_top(project: Project) -> None:
    said = project.ok("tree", max_entries=14).split("\n")
    assert "└── src/" in said
    assert "    └── ... 2 more" in said
    assert "[2 entries are not shown." in said[-1]
    assert "    ... 10 more" not in said
    assert "└── ... 12 more" in project.ok("tree", max_entries=1)


SIZES = [(0, "0B"), (1023, "1023B"), (1024, "1.0KB"), (1536, "1.5KB"), (1024**2, "1.0MB"), (2**63, "8.0EB")]


@pytest.mark.parametrize(("count", "said"), SIZES)
@pytest.mark.row("D14")
def test_sizes_are_said_shortly(count: int, said: str) -> None:
    assert listing.format_short_size(count) == said


MOMENTS = [
    (0, "1970-01-01T00:00:00Z"),
    (1_700_000_000_999_999_999, "2023-11-14T22:13:20Z"),
    (-1, "1969-12-31T23:59:59Z"),
    (-62_135_596_800 * 10**9, "0001-01-01T00:00:00Z"),
    (4_102_444_800 * 10**9, "2100-01-01T00:00:00Z"),
    (2**63 * 10**9, f"{2**63} seconds since 1970-01-01T00:00:00Z"),
    (-(2**63) * 10**9, f"{-(2**63)} seconds since 1970-01-01T00:00:00Z"),
]


@pytest.mark.parametrize(("nanoseconds", "said"), MOMENTS)
@pytest.mark.row("D14")
def test_moments_are_said_in_utc(nanoseconds: int, said: str) -> None:
    assert listing.format_time(nanoseconds) == said


def info(project: Project, path: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in project.ok("file_info", path=path).split("\n"))


@pytest.mark.row("R002-12")
def test_file_info_of_a_file(project: Project) -> None:
    path = project.file("run.py", "x" * 2048, 0o640)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert info(project, "run.py") == {
        "path": "run.py",
        "type": "file",
        "size": "2048 bytes (2.0KB)",
        "modified": "2023-11-14T22:13:20Z",
        "mode": "0640 (-rw-r-----)",
        "mime": "text/x-python",
    }


@pytest.mark.row("D14", "A14")
def test_file_info_is_about_the_path_itself(project: Project) -> None:
    os.mkfifo(project.root / "pipe")
    (project.root / "out-link").symlink_to("../outside/f.txt")
    (project.root / "loop").symlink_to("loop")
    project.file("zero")
    project.file("odd", b"\0")
    with socket.socket(socket.AF_UNIX) as one:
        here = os.open(project.root, os.O_RDONLY)
        one.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    facts = {path: info(project, path) for path in os.listdir(project.root)}  # noqa: PTH208 - with odd names
    assert {path: fact["type"] for path, fact in facts.items() if path in ("pipe", "socket", "src", "zero")} == {
        "pipe": "pipe",
        "socket": "socket",
        "src": "folder",
        "zero": "file",
    }
    assert facts["zero"]["size"] == "0 bytes (0B)"
    assert facts["zero"]["mime"] == "text/plain"
    assert facts["odd"]["mime"] == "application/octet-stream"
    links = {path: (fact["target"], fact["leads to"]) for path, fact in facts.items() if fact["type"] == "link"}
    assert links["link"] == ("src", "folder")
    assert links["gone"] == ("nowhere", "nothing")
    assert links["out-link"][1] == "it leads out of the project folder"
    assert "loop" in links["loop"][1]
    assert info(project, ".")["type"] == "folder"
    assert info(project, ".")["path"] == "."


@pytest.mark.parametrize("seconds", [-5_000_000_000, -1, 0, 4_000_000_000, 2**34])
@pytest.mark.row("D14")
def test_file_info_of_an_odd_time(project: Project, seconds: int) -> None:
    os.utime(project.root / "small", (0, seconds))
    assert info(project, "small")["modified"].endswith("Z")


@pytest.mark.sampled
@pytest.mark.parametrize("tool", ["glob", "list_directory", "tree", "file_info"])
@pytest.mark.parametrize("path", ["../x", "..", "/etc", "", "nothing", "a\0b", "x" * 5000, "small/x", "gone/x"])
@pytest.mark.row("A1", "A2", "A11", "A13", "A14")
def test_a_path_that_cannot_be_is_refused(project: Project, tool: str, path: str) -> None:
    project.refused(tool, path=path, **({"pattern": "*"} if tool == "glob" else {}))


@pytest.mark.parametrize("tool", ["glob", "list_directory", "tree"])
@pytest.mark.row("A4", "A6", "A19")
def test_a_folder_tool_refuses_what_is_no_folder_or_leads_out(tree: Project, tool: str) -> None:
    more = {"pattern": "**"} if tool == "glob" else {}
    for path in ("plain.txt", "pipe", "link-dir-out", "link-out", "circle", "dangling"):
        assert "outside\n" not in tree.refused(tool, path=path, **more)
    for path in (".", "./", "sub/..", str(tree.root), "loop-a", "link-dir"):
        assert tree.ok(tool, path=path, **more)


@pytest.mark.row("A15", "A16")
def test_names_are_said_on_one_line_and_read_back(tree: Project) -> None:
    for tool in ("list_directory", "tree", "glob"):
        said = tree.ok(tool, **({"pattern": "**"} if tool == "glob" else {}))
        for name in (r"new\x0aline", r"\x1b[31m", "-e", "--help", r"odd\xff.txt", r"a\x5cx41b", "ünï.txt"):
            assert name in said
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e\ud800-\udfff]", said)
    for name in (r"new\x0aline", r"odd\xff.txt", r"\xe2\x80\xaegnp.exe", "   ", "-e", r"a\x5cx41b"):
        assert info(tree, name)["path"] == name
        assert tree.ok("glob", pattern=name) == name


@pytest.mark.row("D7")
def test_looping_links_are_entries_and_no_ways(tree: Project) -> None:
    begin = spent()
    found = tree.ok("glob", pattern="**").split("\n")
    assert len(found) == len(set(found))
    assert {"loop-a", "sub/loop-b", "link-out", "dangling", "circle"} <= set(found)
    assert not [path for path in found if path.startswith(("loop-a/", "sub/loop-b/", "link-dir/"))]
    assert tree.ok("tree", max_depth=100).count("loop-a -> .") == 1
    assert spent() - begin < 1


@pytest.mark.row("A25")
def test_unreadable_places_are_counted_and_passed_over(project: Project) -> None:
    project.root.chmod(0o755)
    for folder in ("src", ".hidden", "empty", "out", ".git", "src/deep"):
        (project.root / folder).chmod(0o755)
    (project.root / "src").chmod(0)
    try:
        with as_nobody():
            told = "[Files or folders that could not be read: 1.]"
            assert project.ok("glob", pattern="**/*.py") == f".hidden/z.py\nb.py\n\n{told}"
            said = project.ok("tree")
            assert said.endswith(f"└── src/\n    └── (cannot be read)\n\n{told}")
            assert "src/" in project.ok("list_directory")
            for tool in ("tree", "list_directory"):
                assert "permission" in project.refused(tool, path="src")
    finally:
        (project.root / "src").chmod(0o755)


def test_what_is_secret_is_not_found(tmp_path: Path) -> None:
    project = Project(tmp_path, secret=(".env", ".env.*", "vault"))
    for path in ("vault/key.pem", ".env", "sub/.ENV", "sub/.env.local", "sub/.env.example"):
        project.file(path)
    (project.root / "link").symlink_to(".env")
    (project.root / "onward").symlink_to("link")
    shown = "link -> (hidden)"
    assert project.ok("list_directory") == f"{shown}\nonward -> link\nsub/"
    assert project.ok("list_directory", path="sub") == ".env.example"
    assert project.ok("tree") == f"./\n├── {shown}\n├── onward -> link\n└── sub/\n    └── .env.example (0B)"
    for pattern in ("**", "**/.e*", "{.env,sub/.ENV,sub/.*,link,onward}"):
        found = project.ok("glob", pattern=pattern, ignored=True).split()
        assert "sub/.env.example" in found
        assert set(found) <= {"sub/.env.example", "link", "onward"}
    assert project.ok("glob", pattern=".env").splitlines()[0] == "No files found"
    for name in ("link", "onward"):
        assert "leads to: (hidden)" in project.ok("file_info", path=name)
    for path in ("vault", ".env", "sub/.ENV", "vault/key.pem", "vault/nosuch"):
        assert project.refused("file_info", path=path) == project.refused("list_directory", path=path)
        assert project.refused("glob", pattern="*", path=path) == project.refused("tree", path=path)


def test_how_many_there_are_is_said_without_what_is_secret(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for path in (".env", ".env.a", "a", "b"):
        project.file(path)
    assert "[1 of 2 entries." in project.ok("list_directory", limit=1)
    assert "[1 entries are not shown." in project.ok("tree", max_entries=1)
    project.file("only/.env")
    assert project.ok("list_directory", path="only") == "(empty folder)"


@pytest.mark.row("D5", "D13")
def test_a_walk_says_what_ended_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "TICKS", 1)
    monkeypatch.setattr(walking, "MAX_ENTRIES", 3)
    assert "Too many files" in project.ok("glob", pattern="**")
    monkeypatch.setattr(walking, "MAX_ENTRIES", 1000)
    monkeypatch.setattr(walking, "FOLDER_ENTRIES", 2)
    said = project.ok("glob", pattern="**")
    assert "Too many files" in said
    assert len(said.split("\n")) > 2
    with project.tools.workspace.open_folder(project.tools.workspace.resolve(".")) as fd:
        late = walking.FolderWalk(fd, seconds=0)
        assert len(list(late.entries())) <= 2
        assert late.cut == "time"
        asked = walking.FolderWalk(fd, stopped=lambda: True)
        list(asked.entries())
        assert asked.cut


def deep(project: Project, depth: int) -> None:
    """Make folders in each other, deeper than any path can say."""
    fd = os.open(project.root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("bottom.py", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def flattened(project: Project) -> None:
    """Take such folders away again, one level at a time."""
    while (project.root / "d").is_dir():
        (project.root / "d").rename(project.root / "old")
        if (project.root / "old/d").is_dir():
            (project.root / "old/d").rename(project.root / "d")
        for left in (project.root / "old").iterdir():
            left.unlink()
        (project.root / "old").rmdir()


@pytest.mark.parametrize("engine", [None, False])
@pytest.mark.row("D13")
def test_folders_deeper_than_any_path_end_the_walk_and_nothing_else(tmp_path: Path, engine: Any) -> None:
    project = Project(tmp_path, ripgrep=engine)
    project.file("top.py", "needle\n")
    deep(project, 1000)
    try:
        begin = spent()
        assert project.ok("glob", pattern="**/*.py") == "top.py\n\n[Folders that are too deep to look into: 1.]"
        assert project.ok("grep", pattern="needle").startswith("top.py:1: needle")
        said = project.ok("tree", max_depth=100)
        assert said.count("d/") == 100
        assert spent() - begin < 3
    finally:
        flattened(project)
