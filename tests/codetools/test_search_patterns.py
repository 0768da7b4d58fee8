"""Glob patterns, the rules of `.gitignore`, and regular expressions for lines."""

import random
import re
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.codetools.folders import sized
from tests.codetools.searching import HAS_GIT, HAS_RG, RG, git, spent
from toolwire.codetools import fallback, ignoring, patterns, regexes, ripgrep
from toolwire.codetools.paths import Workspace
from toolwire.codetools.walking import FolderWalk
from toolwire.errors import ToolError

FITS = {
    "*": "a .a a.b a\nb", "*.py": "a.py .py \n.py", "**": "a a/b .a/b a\nb a\n/b a\u2028b",
    "**/*.py": "a.py a/b.py a/b/c.py a\nb/c.py",
    "a/**": "a/b a/b/c", "a/**/b": "a/b a/x/b a/x/y/b", "**/a": "a b/a", "?": "a é", "a?c": "abc a-c",
    "[abc]": "a", "[a-c]x": "bx", "[!a-c]": "d é", "[^a]": "b", "[]a]": "] a", "[[:digit:]]": "7",
    "{a,b}": "a b", "{a,b}.{c,d}": "a.c b.d", "{a,{b,c}}": "a b c", "{a/**,b}": "a/x b", "{**/,}x": "x a/x",
    "a{,b}": "a ab", "{": "{", "}": "}", "{a": "{a", "a,b": "a,b", "[": "[", "[a": "[a", "[!": "[!",
    r"\*": "*", r"\{a\}": "{a}", "a**b": "ab axb", "***": "a", "./a": "a", "a.b+c(d)|e^$": "a.b+c(d)|e^$",
    "-x": "-x", "!a": "!a", "~": "~", "$HOME": "$HOME", r"\xff": "\udcff", r"\xe2\x80\xa8": "\u2028",
    "x\ny": "x\ny", "**/**/**/**/x": "x a/x a/b/c/d/e/x", "[\udc80-\udcff]": "\udcff", "?.x": "\udcff.x",
}  # fmt: skip
NOT = {
    "*": "a/b", "*.py": "a.pyc a/b.py", "**/*.py": "a.pyx py", "a/**": "a", "a/**/b": "ab a/b/c", "?": "ab /",
    "[abc]": "d ab", "[!a-c]": "a /", "[^a]": "a /", "[+-9]": "/", "{a,b}": "c ab", "a**b": "a/b a/x/b",
    "a.b": "axb", "[z-a]": "z a m", "[/]": "/", "**/a": "ba", "A": "a", "\\": "a",
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(("pattern", "path"), [(one, path) for one in FITS for path in FITS[one].split(" ") if path])
def test_a_pattern_fits(pattern: str, path: str) -> None:
    assert patterns.glob_test(pattern)(path)


@pytest.mark.parametrize(("pattern", "path"), [(one, path) for one in NOT for path in NOT[one].split(" ")])
def test_a_pattern_does_not_fit(pattern: str, path: str) -> None:
    assert not patterns.glob_test(pattern)(path)


@pytest.mark.parametrize("pattern", ["../**", "/etc/*", "**/../../x", "..", "a/..", "{..,a}/x", "a/{b,..}", "//x"])
@pytest.mark.row("D9")
def test_a_pattern_that_leads_out_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="stays inside"):
        patterns.glob_test(pattern)


# Up to jsonschema-rs 0.60 a `.` matches the end of a line after `(?s:`, from 0.61 on it never does.
@pytest.mark.parametrize("pattern", ["**", "**/*.py", "a/**", "?.x", "[!a].{b,c}", "..."])
def test_the_regular_expression_of_a_path_has_no_dot(pattern: str) -> None:
    assert "." not in re.sub(r"\\x\{2e\}", "", patterns.to_regex(pattern))


def test_a_rule_of_gitignore_reaches_into_a_folder_with_the_end_of_a_line_in_its_name() -> None:
    levels = [ignoring.Level(0, ignoring.parse_gitignore(b"*.log"), is_repository=False)]
    assert ignoring.is_ignored(levels, "new\nline/a.log", is_folder=False)


def test_a_dot_of_a_line_is_written_out() -> None:
    assert regexes.to_linear_syntax(r"a.\.[.]") == r"a[^\n\r]\.[.]"


def test_dots_that_lead_nowhere_are_names() -> None:
    assert patterns.glob_test("..a/...")("..a/...")
    assert patterns.glob_test("a..b")("a..b")


@pytest.mark.parametrize(
    "pattern",
    [
        "{a,b}" * 30,
        "{a,b" * 30 + "}" * 30,
        "{" * 400 + "a" + "}" * 400,
        "*a" * 400 + "b",
        "**/" * 300 + "x",
        "?" * 999,
        "[" * 999,
        "[!" * 400,
        "[[:a" * 200,
        "\\" * 999,
        "{,}" * 300,
    ],
)
@pytest.mark.row("D9", "D4")
def test_a_large_pattern_costs_no_more_than_its_letters(pattern: str) -> None:
    begin = spent()
    try:
        test = patterns.glob_test(pattern)
    except ToolError:
        pass
    else:
        for path in ("a" * 4000, "a/" * 2000 + "b", "x"):
            test(path)
    assert spent() - begin < 0.5


@pytest.mark.parametrize("pattern", ["", "a" * 1001, "a\0b"])
def test_a_pattern_that_cannot_be_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="from 1 to 1000 characters"):
        patterns.glob_test(pattern)


RULES = [
    ("*.log", "a.log d/a.log", "a.logs"),
    ("/a", "a", "d/a"),
    ("a/b", "a/b", "d/a/b"),
    ("d/", "d/", "d"),
    ("!a", "", "a"),
    ("*\n!a", "b", "a"),
    ("a\n!a\na", "a", ""),
    ("# a\n\n \n\\#b", "#b", "# a"),
    ("\\!a", "!a", "a"),
    ("a  ", "a", "a  "),
    ("a\\ b", "", "a"),
    ("a\r\nb\r", "a b", ""),
    ("\xef\xbb\xbfa", "a", ""),
    ("**/x", "x d/x", ""),
    ("x/**", "x/a", "x"),
    ("a/**/b", "a/b a/x/b", ""),
    ("[a", "", "[a a"),
    ("a\\", "", "a a\\"),
    ("{a,b}", "{a,b}", "a b"),
    ("?", "a", "\u00e9"),
    ("a/*", "a/b a/b/", "a/"),
    ("a?", "ab/", "a/"),
    ("?a", "ba/", "a/"),
    ("b/\n!b\nb/", "b/", "b"),
    (f"{'#' * 2_000_000}\na", "a", ""),
    ("#\n" * 20_000 + "a", "a", ""),
    ("".join(f"n{number}\n" for number in range(15_000)) + "!n9999", "n0 n14999", "n9999"),
]


@pytest.mark.parametrize(("text", "named", "kept"), RULES, ids=[text[:20] for text, _, _ in RULES])
@pytest.mark.row("D8")
def test_a_rule_of_gitignore_names_what_git_says(text: str, named: str, kept: str) -> None:
    rules = ignoring.parse_gitignore(text.encode("latin-1"))
    levels = [ignoring.Level(0, rules, is_repository=False)]

    def is_ignored(path: str) -> bool:
        return ignoring.is_ignored(levels, path.removesuffix("/"), is_folder=path.endswith("/"))

    assert [path for path in named.split() if not is_ignored(path)] == []
    assert [path for path in (kept,) if path and is_ignored(path)] == []


@pytest.mark.slow
def test_the_work_of_reading_rules_is_bounded() -> None:
    begin = spent()
    for line in ("?" * 900, "*a" * 400, "n", "!n"):
        ignoring.parse_gitignore(f"{line}\n".encode() * (8_000_000 // len(line)))
    assert spent() - begin < 20


NAMES = ["a", "b", "ab", "a.b", "x.log", "foo", "bar", "foo.txt", "!a", "#b", "a b", "[x]", "é", "build", "*"]
PIECES = [
    *(
        "a",
        "b",
        "*",
        "?",
        "**",
        "*.log",
        "foo*",
        "[ab]",
        "[!a]",
        "a?",
        "*b*",
        "foo",
        "build",
        "x.log",
        "\\!a",
    ),
    *(
        "\\#b",
        "[a-c]*",
        "*.t?t",
        "é",
        "[[:alpha:]]",
        "a b",
        "**b",
        "[^f]*",
        "\\*",
        "\\[x\\]",
        "[]x]",
        "[a",
        "***",
    ),
]


def _line(dice: random.Random) -> str:
    text = "/".join(dice.choice(PIECES) for _ in range(dice.choice([1, 1, 1, 2, 2, 3])))
    text = dice.choice(["", "", "", "/"]) + text + dice.choice(["", "", "/"])
    return dice.choice(["", "", "!", "#"]) + text + dice.choice(["", "", "", " ", "\r"])


def _planted(root: Path, dice: random.Random) -> None:
    folders = [root]
    for _ in range(dice.randrange(2, 7)):
        made = dice.choice(folders) / dice.choice(NAMES)
        if not made.exists():
            made.mkdir()
            folders.append(made)
    for folder in folders:
        for _ in range(dice.randrange(1, 5)):
            if not (path := folder / dice.choice(NAMES)).is_dir():
                path.write_text("x\n")
    for folder in dice.sample(folders, min(len(folders), 2)):
        (folder / ".gitignore").write_bytes("\n".join(_line(dice) for _ in range(dice.randrange(1, 5))).encode())


@HAS_GIT
@pytest.mark.slow
@pytest.mark.row("D8")
def test_the_rules_are_those_of_git(tmp_path: Path, tally: Counter[str]) -> None:
    for seed in range(sized(3000, 200)):
        root = tmp_path / str(seed)
        root.mkdir()
        _planted(root, random.Random(seed))  # noqa: S311 - trees, not secrets
        workspace = Workspace(root)
        with workspace.open_folder(workspace.resolve(".")) as fd:
            walk = FolderWalk(fd, above=[])
            with closing(walk.entries()) as entries:
                ours = {entry.path for entry in entries if entry.file_type == "file"}
        git("init", "-q", cwd=root)
        theirs = {path for path in git("ls-files", "-zo", "--exclude-standard", cwd=root).split("\0") if path}
        assert ours == theirs, seed
        tally["trees with .gitignore files, read as git reads them"] += 1


LINES = [
    *(
        "a",
        "b",
        "ab foo",
        "x.y 12",
        "٣ x",
        "É é",
        "",
        "  lead",
        "tail  ",
        "foo_bar-baz",
        "A.B",
        "~&&#",
        "tab\there",
    ),
    *(
        '/path/"q"',
        "Ünï cafe\u0301",
        "]x[",
        "xx xxx",
        "a\u2003b",
        "{a}",
        "a\\b",
        "0",
        "日本 語",
        "ß \u017f \u212a",
        "x\u2028y",
        "\u2029",
    ),
]
ATOMS = [
    *(
        "a",
        "b",
        "foo",
        ".",
        r"\d",
        r"\w",
        r"\s",
        r"\W",
        r"\D",
        r"\S",
        "[a-c]",
        "[^a]",
        r"[\d.]",
        r"[\w-]",
        r"[^\w]",
    ),
    *(
        r"[^\s]",
        "[[:alpha:]]",
        "[[:digit:]_]",
        "[]a]",
        "[^]a]",
        "é",
        "É",
        r"\b",
        r"\B",
        r"\.",
        r"\/",
        r"\"",
        r"\-",
    ),
    *(
        r"\x41",
        r"\x{e9}",
        r"\u00e9",
        r"\p{L}",
        r"\pN",
        r"\P{L}",
        "(a|b)",
        "(?:a|)",
        "(?i:É)",
        "(?P<n>a)",
        r"[^\n]",
    ),
    *(
        r"[\]x]",
        r"\t",
        "x{2,3}",
        "#",
        " ",
        "_",
        "-",
        "~",
        "&&",
        r"\&",
        r"[a\-z]",
        r"[\s\d]",
        "(?s:.)",
        "}",
        "]",
    ),
]
WRONG = ["{", "a{", r"\n", "(?=a)", r"\1", "(", ")", "*", "[z-a]", r"\K", r"\Q", "(?-m:a)", "[", "a**", r"\8"]


def _fitting(pattern: str, *, ignore_case: bool) -> list[int] | None:
    try:
        lines = regexes.LinePattern(
            regexes.check_pattern(pattern, literal=False), literal=False, ignore_case=ignore_case
        )
    except ToolError:
        return None
    found = [number for number, line in enumerate(LINES, 1) if lines.matches(line)]
    assert not found or lines.may_match("\n".join(LINES) + "\n")
    return found


def _of_ripgrep(pattern: str, *, ignore_case: bool) -> list[int] | None:
    try:
        pattern = regexes.check_pattern(pattern, literal=False)
    except ToolError:
        return None
    flag = "--ignore-case" if ignore_case else "--case-sensitive"
    command = [str(RG), *ripgrep.OPTIONS, "--no-heading", "--no-filename", flag, "-e", pattern, "--", "-"]
    done = subprocess.run(command, input="\n".join(LINES).encode() + b"\n", capture_output=True, check=False)
    return None if done.returncode == 2 else [int(line.split(b":")[0]) for line in done.stdout.split(b"\n") if line]


@HAS_RG
@pytest.mark.parametrize("pattern", [*ATOMS, *WRONG, "^$", "^", "$", "^a", "b$", r"\Aa", r"b\z", "^foo|é$"])
@pytest.mark.row("D4")
def test_a_pattern_means_what_it_means_to_ripgrep(pattern: str) -> None:
    assert _fitting(pattern, ignore_case=False) == _of_ripgrep(pattern, ignore_case=False)


@HAS_RG
@pytest.mark.slow
@pytest.mark.row("D4")
def test_any_pattern_means_what_it_means_to_ripgrep(tally: Counter[str]) -> None:
    dice = random.Random(5)  # noqa: S311 - patterns, not secrets
    for _ in range(sized(20_000, 1_000)):
        pieces = [
            dice.choice(ATOMS) + dice.choice(["", "", "", "*", "+", "?", "{0,2}"]) for _ in range(dice.randrange(1, 5))
        ]
        pattern = dice.choice(["", "", "^"]) + dice.choice(["", "", "|"]).join(pieces) + dice.choice(["", "", "$"])
        ignore_case = dice.random() < 0.3
        assert _fitting(pattern, ignore_case=ignore_case) == _of_ripgrep(pattern, ignore_case=ignore_case), pattern
        tally["regular expressions that mean the same with and without ripgrep"] += 1


@pytest.mark.parametrize("pattern", ["(?x)a b", "(?-u:a)", "[a&&b]", "[a--b]", "[[a]b]", r"[\W]", "[[:^alpha:]]"])
def test_what_cannot_be_said_without_ripgrep_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="without ripgrep"):
        regexes.LinePattern(pattern, literal=False, ignore_case=False)


def test_backslashes_that_mean_nothing_are_left_out() -> None:
    assert regexes.check_pattern(r"\/\"\'\@ \. \\/ [\/]", literal=False) == r"""/"'@ \. \\/ [\/]"""
    assert regexes.check_pattern(r"\/", literal=True) == r"\/"


@pytest.mark.row("D4")
def test_a_heavy_pattern_gets_its_text_in_small_pieces() -> None:
    light = regexes.LinePattern("a", literal=False, ignore_case=False)
    heavy = regexes.LinePattern("[ab]*a[ab]{900}c", literal=False, ignore_case=False)
    assert light.piece == regexes.PIECE
    assert heavy.piece < 10_000
    text = "".join(random.Random(1).choices("ab", k=heavy.piece))  # noqa: S311 - letters, not secrets
    begin = spent()
    assert not heavy.matches(text)
    assert spent() - begin < 0.5


@pytest.mark.sampled
@pytest.mark.parametrize("size", [1, 5, 64, 1000])
@pytest.mark.parametrize("longest", [3, 20, 10_000])
def test_a_file_is_read_in_whole_lines(
    tmp_path: Path, size: int, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "BLOCK", size)
    for text in ("", "a", "a\n", "\n\n", "a\nbb\r\nccccccccc\n\né\n" * 9, "é" * 50 + "\nx", "x\n" + "y" * 40):
        (tmp_path / "f").write_bytes(text.encode())
        with (tmp_path / "f").open("rb") as file:
            reading = fallback.FileReading(min(16, longest), longest)
            blocks = list(reading.blocks(file.fileno()))
        lines = [line for block in blocks for line in fallback.split_lines(block)]
        expected = text.removesuffix("\n").split("\n") if text else []
        assert lines == [line[:longest] for line in expected]
        assert reading.long_lines == sum(len(line) > longest for line in expected)
