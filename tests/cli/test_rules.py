"""Rules about calls: what they allow, what they deny, and that nothing gets in beside an allowed command."""

from pathlib import Path

import pytest

from toolwire.cli.permissions import ASK, RUN, Permissions
from toolwire.cli.rules import denial, is_allowed, parse_rule, parse_rules, usual_rule
from toolwire.codetools.definitions import TOOLS
from toolwire.errors import UserError
from toolwire.types import Tool, ToolCall

HERE = "."


def bash(command: str) -> ToolCall:
    return ToolCall("1", "bash", {"command": command})


def allowed(call: ToolCall, *rules: str, folder: str = HERE) -> bool:
    return is_allowed(parse_rules(rules, "--allow"), call, folder)


def denied(call: ToolCall, *rules: str, folder: str = HERE) -> bool:
    return denial(parse_rules(rules, "--deny"), call, folder) != ""


ALLOWED = [
    "pytest",
    "pytest -q tests/a.py",
    "pytest 'a b' \"c d\"",
    'py"test" -q',
    "pytest -k 'a and not b; rm'",
    "pytest && pytest -q",
    "pytest a | pytest b",
    "pytest a;\npytest b",
    "  pytest  ",
]
NOT_ALLOWED = [
    "",
    "pytester",
    "./pytest",
    "pytest && rm -rf x",
    "pytest || rm x",
    "pytest; rm x",
    "pytest | tee x",
    "pytest |& tee x",
    "pytest & rm x",
    "pytest\nrm x",
    "pytest\r\nrm x",
    "pytest\r",
    "pytest\vx",
    "pytest $(rm x)",
    'pytest "$(rm x)"',
    "pytest `rm x`",
    'pytest "`rm x`"',
    "pytest <(rm x)",
    "pytest >(rm x)",
    "pytest > conftest.py",
    "pytest >> conftest.py",
    "pytest 2>&1",
    "pytest < x",
    "pytest << EOF\nrm x\nEOF",
    "pytest <<< $(rm x)",
    "pytest ${x:=$(rm x)}",
    "pytest $IFS",
    "PATH=. pytest",
    "LD_PRELOAD=./x.so pytest",
    "(pytest; rm x)",
    "{ pytest; rm x; }",
    "! pytest",
    "if pytest; then rm x; fi",
    "for x in a; do rm x; done",
    "eval pytest",
    "exec pytest",
    "command pytest",
    "function pytest { rm x; }",
    "pytest() { rm x; }; pytest",
    "pytest \\\n&& rm x",
    "pytest 'a\nb' ; rm x",
    "pytest '",
    'pytest "\\" && rm x',
    "pytest # x\nrm x",
    "pytest !!",
    "pytest {a,b}",
    "~/pytest",
    "pytest\0; rm x",
    "alias pytest=rm; pytest x",
    "trap 'rm x' EXIT; pytest",
]


@pytest.mark.parametrize("command", ALLOWED)
def test_an_allowed_command_runs(command: str) -> None:
    assert allowed(bash(command), "bash(pytest *)")


@pytest.mark.parametrize("command", NOT_ALLOWED)
def test_nothing_runs_beside_an_allowed_command(command: str) -> None:
    assert not allowed(bash(command), "bash(pytest *)", "bash(cd *)")


def test_all_words_of_a_pattern_count() -> None:
    assert allowed(bash("git status -s"), "bash(git status *)")
    assert not allowed(bash("git push"), "bash(git status *)")
    assert allowed(bash("git diff a --stat"), "bash(git * --stat)")
    assert not allowed(bash("git diff a"), "bash(git * --stat)")
    assert allowed(bash("npm run test:unit"), "bash(npm run test:*)")
    assert not allowed(bash("npm run build"), "bash(npm run test:*)")
    assert not allowed(bash("'git status' x"), "bash(git status *)"), "a program whose name has a space"
    assert not allowed(bash("pytest -q"), "bash(pytest)"), "without a star, exactly this command"
    assert allowed(bash("anything | at all > x"), "bash")
    assert allowed(bash("cd src && pytest -q"), "bash(pytest *)", "bash(cd *)")


DENIED = [
    "git push",
    "git push --force origin",
    "cd x && git push",
    "true;git push",
    "(git push)",
    "x=$(git push)",
    "`git push`",
    'bash -c "git push"',
    "bash -c 'cd x; git push'",
    "env A=b git push",
    "A=b git push",
    "sudo git push",
    "/usr/bin/git push",
    "g''it push",
    'g"i"t p"us"h',
    "g\\it push",
    "git \\\npush",
    "git   push",
    "git\tpush",
    "xargs git push < x",
    "if true; then git push; fi",
    "echo a | git push",
    "eval x",
    "$GIT push",
    "x=git; $x push",
    "true && `echo git` push",
]


@pytest.mark.parametrize("command", DENIED)
def test_a_denied_command_does_not_run_wherever_it_stands(command: str) -> None:
    assert denied(bash(command), "bash(git push)")
    assert denied(bash(command), "bash(git push *)")
    assert denied(bash(command), "bash(/usr/bin/git push)")


@pytest.mark.parametrize("command", ["git pull", "git status; echo pushed", "for f in *.py; do echo $f; done", "ls"])
def test_other_commands_are_not_denied(command: str) -> None:
    assert not denied(bash(command), "bash(git push *)")


def test_paths_are_compared_as_they_lead(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "docs" / "link").symlink_to(tmp_path / "secret")
    folder = str(tmp_path)

    def write(path: str) -> ToolCall:
        return ToolCall("1", "write_file", {"path": path, "content": ""})

    for path, is_inside in (
        ("docs/a.md", True),
        ("./docs/b/c.md", True),
        (f"{folder}/docs/a.md", True),
        ("src/a.py", False),
        ("docs/../src/a.py", False),
        ("docs/link/a", False),
        ("../docs/a", False),
    ):
        assert allowed(write(path), "write_file(docs/*)", folder=folder) is is_inside, path
    assert denied(write("docs/link/a"), "write_file(secret/*)", folder=folder)
    assert denied(write("docs/../secret/a"), "*_file(secret/*)", folder=folder)
    assert not denied(write("docs/a"), "write_file(secret/*)", folder=folder)
    edits = [{"path": "docs/a", "oldText": "a", "newText": "b"}, {"oldText": "a", "newText": "b"}]
    both = ToolCall("1", "multi_edit", {"path": "src/a", "edits": edits})
    assert not allowed(both, "multi_edit(docs/*)", folder=folder)
    assert denied(both, "multi_edit(src/*)", folder=folder)
    assert allowed(both, "multi_edit(docs/*)", "multi_edit(src/*)", folder=folder)


def test_addresses_and_the_arguments_of_other_tools() -> None:
    fetch = ToolCall("1", "http_get", {"url": "https://docs.python.org/3/"})
    assert allowed(fetch, "http_get(https://docs.python.org/*)")
    assert not allowed(fetch, "http_get(https://example.org/*)")
    other = ToolCall("1", "github_close", {"number": 5})
    assert allowed(other, "github_*")
    assert allowed(other, 'github_close(*"number": 5*)')
    assert not allowed(other, "git_*")


@pytest.mark.parametrize("text", ["", "bash(", "bash()", "bash( )", "two words", "bash(x) y", "(x)"])
def test_what_is_no_rule_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match=r"--allow: .*(as in bash\(pytest \*\)|leave the brackets out)"):
        parse_rule(text, "--allow")


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("pytest -q a", "bash(pytest *)"),
        ("git status -s", "bash(git status *)"),
        ("git -C x push", "bash(git -C x push)"),
        ("python -m pytest -q", "bash(python -m pytest *)"),
        ("python x.py", "bash(python x.py)"),
        ("npm run test -- -x", "bash(npm run test *)"),
        ("uv run pytest", "bash(uv run pytest)"),
        ("cargo test a", "bash(cargo test *)"),
        ("rm -rf build", "bash(rm -rf build)"),
        ("cd src && pytest -q", "bash(pytest *)"),
        ("pytest && ruff check", None),
        ("pytest > x", None),
        ("echo $(x)", None),
    ],
)
def test_always_means_no_more_than_it_has_to(command: str, rule: str | None) -> None:
    usual = usual_rule(bash(command))
    assert (None if usual is None else str(usual)) == rule
    if usual is not None and "cd" not in command:
        assert is_allowed([usual], bash(command), HERE)


WRITE = ToolCall("1", "write_file", {"path": "a", "content": ""})
READ = ToolCall("1", "read_file", {"path": "a"})
FETCH = ToolCall("1", "http_get", {"url": "https://a.example/"})
FOREIGN = ToolCall("1", "server_do", {})


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [
        ("plan", (RUN, "refused", "refused", ASK, "refused")),
        ("ask", (RUN, ASK, ASK, ASK, ASK)),
        ("edits", (RUN, RUN, ASK, ASK, ASK)),
        ("all", (RUN, RUN, RUN, RUN, RUN)),
    ],
)
def test_the_modes(tmp_path: Path, mode: str, verdicts: tuple[str, ...]) -> None:
    permissions = Permissions(str(tmp_path), mode=mode)  # type: ignore[arg-type]
    permissions.tools_to_check([*TOOLS, Tool("server_do")])
    for call, expected in zip((READ, WRITE, bash("ls"), FETCH, FOREIGN), verdicts, strict=True):
        verdict = permissions.verdict(call)
        assert (verdict if verdict in (RUN, ASK) else "refused") == expected, call.name


def test_a_denial_wins_over_everything(tmp_path: Path) -> None:
    permissions = Permissions(str(tmp_path), mode="all", allow=["bash", "read_file"], deny=["bash(ls *)", "read_file"])
    assert "read_file" in permissions.tools_to_check(TOOLS)
    permissions.keep(parse_rule("bash(ls *)", ""))
    assert permissions.verdict(bash("ls -l")) == "the rule bash(ls *) denies it"
    assert permissions.verdict(READ) == "the rule read_file denies it"
    assert permissions.verdict(bash("pwd")) == RUN


def test_plan_mode_wins_over_what_is_allowed(tmp_path: Path) -> None:
    permissions = Permissions(str(tmp_path), mode="plan", allow=["bash", "write_file"])
    permissions.tools_to_check(TOOLS)
    assert "plan mode" in permissions.verdict(bash("ls"))
    assert "plan mode" in permissions.verdict(WRITE)
    assert permissions.usual_rule(FETCH) is None


def test_always_is_kept_for_the_folder_alone(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(one)
    assert Permissions(str(one)).keep(parse_rule("bash(pytest *)", "")) == ""
    assert [str(rule) for rule in Permissions(str(tmp_path / "link")).kept] == ["bash(pytest *)"]
    assert Permissions(str(other)).kept == []
    [file] = (tmp_path / "state" / "toolwire" / "permissions").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert Permissions(str(one)).forget() == 1
    assert Permissions(str(one)).kept == []


def test_a_rule_that_cannot_be_kept_holds_for_now_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in place of the folder")
    permissions = Permissions(str(tmp_path))
    assert "is not kept" in permissions.keep(parse_rule("bash(pytest *)", ""))
    permissions.tools_to_check(TOOLS)
    assert permissions.verdict(bash("pytest")) == RUN


def test_a_broken_file_of_rules_is_named(tmp_path: Path) -> None:
    Permissions(str(tmp_path)).keep(parse_rule("bash", ""))
    [file] = (tmp_path / "state" / "toolwire" / "permissions").iterdir()
    file.write_text("{")
    with pytest.raises(UserError, match=f"{file.name}: is not a file of kept rules"):
        Permissions(str(tmp_path))
