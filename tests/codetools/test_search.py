"""grep, with ripgrep and without: one answer, one set of rules."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.commands import descriptors
from tests.codetools.folders import Project, as_nobody
from tests.codetools.searching import ENGINES, HAS_RG, KEPT_APART, RG, Searched, lines, nasty, paths, spent
from toolwire.codetools import CodeTools
from toolwire.types import ToolCall

CALLS: list[dict[str, Any]] = [
    {},
    {"context": 2},
    {"context": 1, "limit": 7},
    {"limit": 1},
    {"limit": 101},
    {"limit": 1000},
    {"ignoreCase": True},
    {"ignored": True, "limit": 1000},
    {"glob": "*.txt"},
    {"glob": "sub/**"},
    {"glob": "**/*.log"},
    {"glob": "!*.txt"},
    {"glob": "*.{js,txt}"},
    {"glob": "[a-m]*"},
    {"path": "sub"},
    {"path": "sub/deep"},
    {"path": "sub", "ignored": True},
    {"path": "build"},
    {"path": "link-dir"},
    {"path": "link-file"},
    {"path": "vendor/repo"},
    {"path": "plain.txt"},
    {"path": "latin.txt"},
    {"path": "utf16le.txt"},
    {"path": "crlf.txt", "context": 1},
    {"path": "many.txt", "limit": 5, "context": 3},
    {"path": "minified.js"},
    {"path": "empty"},
    {"path": ".git"},
    {"pattern": "^needle$"},
    {"pattern": "a.needle|^two$"},
    {"pattern": r"a[^x]needle"},
    {"pattern": r"a\sneedle"},
    {"pattern": "^$"},
    {"pattern": r"\Aneedle|b$", "limit": 1000},
    {"pattern": "^b", "path": "cr.txt"},
    {"pattern": ""},
    {"pattern": "^", "glob": "*.txt"},
    {"pattern": r"needle\b.*\w+"},
    {"pattern": "É", "ignoreCase": True},
    {"pattern": ".", "path": "latin.txt", "literal": True},
    {"pattern": "needle.", "literal": True},
    {"pattern": "nothing has this"},
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return nasty(tmp_path_factory.mktemp("nasty"))


@pytest.fixture(params=ENGINES)
def searched(request: pytest.FixtureRequest, tree: Project) -> Searched:
    return Searched(tree, request.param)


@HAS_RG
@pytest.mark.parametrize("arguments", CALLS, ids=str)
@pytest.mark.row("R002-08", "D6", "D8", "4.3.4")
def test_both_ways_give_the_same_answer(tree: Project, arguments: dict[str, Any]) -> None:
    given = {"pattern": "needle", **arguments}
    assert Searched(tree, RG).grep(**given) == Searched(tree, False).grep(**given)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("plain.txt", ["plain.txt:1: one needle", "plain.txt:3: three needle"]),
        ("bom.txt", ["bom.txt:1: needle first", "bom.txt:2: second needle"]),
        ("utf16le.txt", ["utf16le.txt:1: needle sixteen", "utf16le.txt:2: écond needle"]),
        ("crlf.txt", ["crlf.txt:1: needle", "crlf.txt:2: x needle"]),
        ("cr.txt", [r"cr.txt:1: a\x0dneedle\x0db"]),
        ("latin.txt", ["latin.txt:1: needle caf\ufffd", "latin.txt:2: needle\ufffd\ufffd"]),
        ("escape.txt", [r"escape.txt:1: needle \x1b[31mred\x1b[0m \u2028two"]),
        ("no-newline", ["no-newline:2: needle"]),
        ("empty", ["No matches found"]),
    ],
)
@pytest.mark.row("R002-08", "D6")
def test_lines_are_shown_as_text_on_one_line(searched: Searched, path: str, first: list[str]) -> None:
    assert lines(searched.grep(path=path)) == first


def test_context_stands_beside_matches(searched: Searched) -> None:
    assert searched.grep("two", path="plain.txt", context=1).split("\n") == [
        "plain.txt-1- one needle",
        "plain.txt:2: two",
        "plain.txt-3- three needle",
    ]
    said = searched.grep("fake$|^one", context=1, glob="plain.txt", path=".")
    assert lines(said) == ["plain.txt:1: one needle", "plain.txt-2- two"]


@pytest.mark.parametrize("pattern", ["^needle", "needle$", "^a$", "^b", "^needle$|^$"])
def test_a_cr_that_stands_alone_has_an_edge_on_both_sides(searched: Searched, pattern: str) -> None:
    """As in ripgrep from 14 on."""
    shown = r"cr.txt:1: a\x0dneedle\x0db"
    for more in ({"path": "cr.txt"}, {"glob": "cr.txt"}, {"limit": 1000}):
        assert shown in lines(searched.grep(pattern, **more))


@pytest.mark.row("D8")
def test_gitignore_is_one_rule(searched: Searched) -> None:
    found = set(paths(searched.grep(limit=1000)))
    assert {"plain.txt", "keep.log", ".hidden", ".hidden.d/x", "src/build/in.txt", "sub/a.log"} <= found
    assert {"sub/deep/b.log", "vendor/repo/a.log"} <= found
    assert not {"a.log", "#odd", "build/out.txt", "sub/only.txt", "sub/x.tmp", "node_modules/m/index.js"} & found
    everything = set(paths(searched.grep(limit=1000, ignored=True)))
    assert {
        "a.log",
        "#odd",
        "build/out.txt",
        "sub/only.txt",
        "sub/x.tmp",
        "node_modules/m/index.js",
    } <= everything
    assert not any(path.startswith(".git/") or "/.git/" in path for path in found | everything)


@pytest.mark.parametrize("mark", [".git/HEAD", "x.txt"])
@pytest.mark.parametrize(
    "rules", [b"#" * 1_100_000 + b"\n*.log\n", b"#\n" * 20_000 + b"*.log\n", b"caf\xe9\n*.log\n", b"\xff\n*.log"]
)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.row("D8")
def test_gitignore_is_read_whole_whatever_its_size_and_its_encoding(
    tmp_path: Path, engine: Any, rules: bytes, mark: str
) -> None:
    project = Project(tmp_path)
    for path, data in {mark: b"", "sub/.gitignore": rules, "sub/a.log": b"needle\n", "sub/a": b"needle\n"}.items():
        project.file(path, data)
    assert lines(Searched(project, engine).grep()) == ["sub/a:1: needle"]


@pytest.mark.row("D8")
def test_a_folder_that_is_named_is_searched_though_it_is_ignored(searched: Searched) -> None:
    assert lines(searched.grep(path="build")) == ["build/out.txt:1: needle"]
    assert "sub/only.txt" not in searched.grep(path="sub")
    assert "sub/a.log" in searched.grep(path="sub")


@pytest.mark.row("D15")
def test_what_is_secret_is_in_no_answer(searched: Searched) -> None:
    for more in ({}, {"ignored": True}, {"glob": ".env*"}, {"path": "deploy"}, {"ignoreCase": True}):
        assert KEPT_APART not in searched.grep("needle of the", limit=1000, **more)
    assert "example" in searched.grep("needle of the", limit=1000)
    assert "secrets" in searched.refused(path=".env")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.row("D15")
def test_a_second_name_of_a_secret_is_in_no_answer(tmp_path: Path, engine: Any) -> None:
    project = Project(tmp_path, secret=(".env", "vault"))
    project.file(".env", "KEY=sentinel\n")
    os.link(project.root / ".env", project.root / "harmless.txt")
    project.file("vault/x", "KEY=sentinel\n")
    (project.root / "way").symlink_to("vault")
    searched = Searched(project, engine)
    assert searched.grep("sentinel", ignored=True).startswith("No matches found")
    said, _ = project.call("grep", pattern="sentinel", path="way")
    assert "KEY" not in said


@pytest.mark.row("A4", "A6", "D3", "D7")
def test_links_are_not_followed_and_lead_nowhere(searched: Searched) -> None:
    begin = spent()
    found = paths(searched.grep(limit=1000))
    assert len(found) == len({(path, line) for path, line in zip(found, lines(searched.grep(limit=1000)), strict=True)})
    assert not [path for path in found if path.startswith(("link", "loop", "sub/loop", "dangling"))]
    for path in ("link-out", "link-abs", "link-dir-out", "link-dir-out/needle.txt", "../outside"):
        assert "outside of" in (said := searched.refused(path=path)) or "leads out" in said
    assert "outside" not in searched.grep("needle outside", limit=1000)
    assert spent() - begin < 2


@pytest.mark.row("A6", "D7")
def test_loops_are_named_by_their_links_only(searched: Searched) -> None:
    assert "circle" in searched.refused(path="circle")
    assert "no such" in searched.refused(path="dangling")
    assert len(lines(searched.grep(path="loop-a", limit=1000))) == len(lines(searched.grep(limit=1000)))


@pytest.mark.parametrize("path", ["pipe", "loop-a/pipe"])
@pytest.mark.row("A19", "D3")
def test_what_is_no_file_is_refused_at_once(searched: Searched, path: str) -> None:
    begin = time.monotonic()
    assert "pipe" in searched.refused(path=path)
    assert time.monotonic() - begin < 20


@pytest.mark.row("D6")
def test_a_binary_file_says_so(searched: Searched) -> None:
    assert "binary" in searched.refused(path="early.bin")
    assert ".bin" not in searched.grep(limit=1000)


@pytest.mark.row("A20", "D3")
def test_a_huge_sparse_file_costs_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with (project.file("sparse")).open("wb") as file:
        file.truncate(10 * 1024**3)
    project.file("x", "needle\n")
    for engine in (RG, False) if RG else (False,):
        begin = spent()
        searched = Searched(project, engine)
        assert lines(searched.grep()) == ["x:1: needle"]
        assert "binary" in searched.refused(path="sparse")
        assert spent() - begin < 2


@pytest.mark.row("D6")
def test_a_long_line_is_clipped(searched: Searched) -> None:
    said = searched.grep(path="minified.js")
    assert len(said) < 800
    assert "var needle;aaa" in said
    assert " [cut]" in said
    assert "500 characters" in said
    assert "long-line-end.js:1: bbb" in searched.grep(limit=1000)


@pytest.mark.row("A20", "D6")
def test_a_file_of_one_line_is_searched_to_its_end(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.file("minified.js", b"a" * 10_000_000 + b"needle")
    for engine in (RG, False) if RG else (False,):
        begin = spent()
        searched = Searched(project, engine)
        assert len(searched.grep("a")) < 800
        assert len(searched.grep()) < 800
        assert searched.grep("nothing") == "No matches found"
        assert spent() - begin < 2


@pytest.mark.sampled
@pytest.mark.parametrize("limit", [1, 5, 100, 250])
@pytest.mark.row("D5")
def test_the_limit_counts_matches(searched: Searched, limit: int) -> None:
    said = searched.grep(path="many.txt", limit=limit)
    assert len(lines(said)) == limit
    assert f"[The first {limit} matches; there are more." in said
    assert "there are more" not in searched.grep(path="many.txt", limit=300)


@pytest.mark.row("D5")
def test_bytes_are_bounded(searched: Searched) -> None:
    project = searched.project
    project.file("wide.txt", ("needle " + "w" * 600 + "\n") * 900)
    try:
        said = searched.grep(path="wide.txt", limit=1000)
    finally:
        (project.root / "wide.txt").unlink()
    assert len(said.encode()) < 51 * 1024 + 500
    assert "[Cut at 50 KB; there are more matches." in said


@pytest.mark.row("A15", "A16")
def test_paths_come_in_order_and_names_on_one_line(searched: Searched) -> None:
    found = list(dict.fromkeys(paths(searched.grep(limit=1000))))
    assert [path for path in found if path in ("a-b/f", "a.b/f", "a/f")] == ["a-b/f", "a.b/f", "a/f"]
    assert {r"new\x0aline", r"\x1b[31m", "-e", "--help", " lead", "   ", r"odd\xff.txt"} <= set(found)
    assert r"\xe2\x80\xaegnp.exe" in found
    assert r"a\x5cx41b" in found
    assert lines(searched.grep(path=r"odd\xff.txt")) == [r"odd\xff.txt:1: needle"]


@pytest.mark.row("D10")
def test_a_name_cannot_forge_a_match(searched: Searched) -> None:
    said = lines(searched.grep(limit=1000, context=1))
    assert r"x\x3a1: fake:1: needle" in said
    assert r"y\x2d1- fake:1: needle" in said
    assert not [line for line in said if line.startswith(("x:1: fake", "y-1- fake"))]
    assert all(line == "--" or ": " in line or "- " in line or line[-1] in ":-" for line in said)
    assert lines(searched.grep(path=r"x\x3a1: fake")) == [r"x\x3a1: fake:1: needle"]


PATTERNS = [
    "--pre=./p.sh",
    "--help",
    "-needle",
    "-f/etc/passwd",
    "--files",
    "-z",
    "--hostname-bin=./p.sh",
    "-e",
]


@pytest.mark.sampled
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.row("D1")
def test_a_pattern_is_never_an_option(searched: Searched, pattern: str) -> None:
    project = searched.project
    marker = project.root / "marker"
    script = project.file("p.sh", "#!/bin/sh\ntouch marker\n", 0o755)
    target = project.file("options.txt", f"has {pattern} in it\n")
    try:
        assert f"has {pattern} in it" in searched.grep(pattern, literal=True)
        assert f"has {pattern} in it" in searched.grep(pattern)
        assert searched.grep("in it", glob=pattern).startswith("No matches")
        assert "options.txt" in searched.grep("in it", glob=f"!{pattern}")
        assert not marker.exists()
    finally:
        script.unlink()
        target.unlink()


HARD = [
    ("(a+)+$", None),
    ("(x+x+)+y", None),
    ("a{1,1000}{1,1000}", "large|limit"),
    ("(?:){999999999}", ""),
    ("((a{100}){100}){100}", "large|limit"),
    ("(unclosed", "regex|regular"),
    ("[z-a]", "regex|regular"),
    ("(?<=a)b", "look"),
    ("(?!a)b", "look"),
    (r"(a)\1", "back"),
    (r"a\nb", "one line"),
    ("a\nb", "one line"),
    (r"\x0a", "one line"),
    (r"needle\r$", "one line"),
    ("needle\r", "one line"),
    (r"a\u{0d}", "one line"),
    (r"\K", "regex|regular"),
    ("nul\0", "no text contains"),
    ("a" * 20_000, "at most"),
]


@pytest.mark.parametrize(("pattern", "why"), HARD, ids=[pattern[:20] for pattern, _ in HARD])
@pytest.mark.row("D4")
def test_a_hard_pattern_is_linear_or_refused(tmp_path: Path, pattern: str, why: str | None) -> None:
    project = Project(tmp_path)
    project.file("x", "a" * 5_000 + "!\n" + "x" * 20_000 + "\n")
    for engine in (RG, False) if RG else (False,):
        begin = spent()
        said, failed = Searched(project, engine).project.call("grep", pattern=pattern)
        assert spent() - begin < 2
        if why is None:
            assert not failed, said
        elif why:
            assert failed
            assert any(word in said.lower() for word in why.split("|")), said


@pytest.mark.row("A25", "D12")
def test_unreadable_places_are_counted_and_passed_over(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.file("a/x", "needle\n").parent.chmod(0o000)
    project.file("b", "needle\n", 0o000)
    project.file("c", "needle\n", 0o644)
    project.root.chmod(0o755)
    try:
        for engine in (RG, False) if RG else (False,):
            searched = Searched(project, engine)
            with as_nobody():
                said = searched.grep()
                assert lines(said) == ["c:1: needle"]
                assert "[Files or folders that could not be read: 2.]" in said
                assert "permission" in searched.refused(path="b")
                assert "permission" in searched.refused(path="a")
    finally:
        (project.root / "a").chmod(0o755)


def test_other_roots_are_shown_by_their_whole_path(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.options["roots"] = [project.outside]
    project.restart()
    project.file("in/x", "needle\n")
    (project.outside / "needle.txt").write_text("needle\n")
    for engine in (RG, False) if RG else (False,):
        searched = Searched(project, engine)
        assert lines(searched.grep(path=str(project.outside))) == [f"{project.outside}/needle.txt:1: needle"]
        assert lines(searched.grep(path=str(project.root / "in"))) == ["in/x:1: needle"]


@pytest.mark.parametrize("path", ["", "nothing", "../x", "plain.txt/x", "x" * 5000, "a\0b", "/etc"])
@pytest.mark.row("A1", "A2", "A11", "A13", "A14")
def test_a_path_that_cannot_be_searched_is_refused(searched: Searched, path: str) -> None:
    searched.refused(path=path)


@pytest.mark.parametrize("glob", ["/etc/*", "../**", "a/../../b", "{a,../b}"])
@pytest.mark.row("D9")
def test_a_glob_stays_inside(searched: Searched, glob: str) -> None:
    assert "stays inside" in searched.refused(glob=glob)


@pytest.mark.skipif(not HAS_RG, reason="there is no ripgrep on this machine")
@pytest.mark.parametrize(
    "pattern",
    [
        "(?:){999999999}",
        r"\w{100}",
        "a{9,1}",
        *(
            pytest.param(pattern, marks=pytest.mark.slow)
            for pattern in ("(){999999}", r"\b{999999}", "((?:){1000}){1000}", r"\w{300}", "a{4294967295}")
        ),
    ],
)
@pytest.mark.row("D11")
def test_one_pattern_has_one_answer(tmp_path: Path, pattern: str) -> None:
    project = Project(tmp_path)
    project.file("a.txt", "one needle\n")
    for path in (".", "a.txt"):
        answers = [CodeTools(project.root, ripgrep=engine).resolve(_grep(pattern, path)) for engine in (None, False)]
        assert answers[0].is_error == answers[1].is_error, answers
        assert answers[0].is_error or answers[0].content == answers[1].content


@pytest.mark.skipif(not HAS_RG, reason="there is no ripgrep on this machine")
@pytest.mark.parametrize(("name", "folders"), [("d", 400), ("n" * 200, 30)])
def test_what_lies_deep_is_found_by_both(tmp_path: Path, name: str, folders: int) -> None:
    before, fd = descriptors(), os.open(tmp_path, os.O_RDONLY)
    for number in range(folders):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
        if number in (0, 270, folders - 1):
            file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
            os.write(file, b"needle\n")
            os.close(file)
    os.close(fd)
    answers = [CodeTools(tmp_path, ripgrep=engine).resolve(_grep("needle", ".")).content for engine in (None, False)]
    assert answers[0] == answers[1]
    matches = folders * (len(name) + 1) < 4096
    assert str(answers[0]).count(":1: needle") == (3 if matches else 1)
    assert matches or "[Files or folders that could not be read: 1.]" in str(answers[0])
    assert descriptors() < before + 10


def _grep(pattern: str, path: str) -> ToolCall:
    return ToolCall("1", "grep", {"pattern": pattern, "path": path})
