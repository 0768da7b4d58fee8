"""What an agent may do without a question: modes, rules that are kept for a folder, and rules that deny."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import WROTE, Said, at, project, say, terminal
from toolwire.cli.permissions import Permissions, Rule, parse_rule, permissions_file
from toolwire.errors import UserError
from toolwire.testing import Expect, simulate
from toolwire.types import ToolCall

ASKED = "or say why not: "
NO_TERMINAL = "the call was not approved: there is no terminal to ask for approval; --yes approves all calls"
PLANNING = "the call was not approved: only looking is allowed now (mode plan): say what you would do"


def bash(command: str) -> ToolCall:
    return ToolCall("1", "bash", {"command": command})


def write(path: str) -> ToolCall:
    return ToolCall("1", "write_file", {"path": path, "content": "x"})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return project(tmp_path)


@pytest.mark.parametrize(
    ("rule", "call", "allowed"),
    [
        ("bash(pytest *)", bash("pytest"), True),
        ("bash(pytest *)", bash("pytest -k one tests/a.py"), True),
        ("bash(pytest *)", bash("pytest-3 -k one"), False),
        ("bash(pytest *)", bash("python -m pytest"), False),
        ("bash(pytest)", bash("pytest -x"), False),
        ("bash", bash("ls"), True),
        ("bash(ls *)", write("ls x"), False),
        ("write_file(docs/*)", write("docs/a.md"), True),
        ("write_file(docs/*)", write("./docs/b/../a.md"), True),
        ("write_file(docs/*)", write("docs/../src/a.py"), False),
        ("write_file(docs/*)", write("/etc/docs/a"), False),
        ("write_*", write("a"), True),
        ("http_get(https://a.example/*)", ToolCall("1", "http_get", {"url": "https://a.example/x"}), True),
        ("http_get(https://a.example/*)", ToolCall("1", "http_get", {"url": "https://a.example.evil/x"}), False),
        ("get_weather", ToolCall("1", "get_weather", {"city": "Oslo"}), True),
    ],
)
def test_a_rule_allows_what_it_says(here: Path, rule: str, call: ToolCall, allowed: bool) -> None:
    assert Permissions(str(here), allow=[rule]).decide(call) is (True if allowed else None)
    assert str(parse_rule(rule)) == rule


@pytest.mark.parametrize(
    "more",
    [
        "; rm -rf x",
        " && rm x",
        " || rm x",
        " | sh",
        " & rm x",
        "\nrm x",
        " $(rm x)",
        " `rm x`",
        " > x",
        " < x",
        " {a,b}",
    ],
)
@pytest.mark.parametrize("rule", ["bash", "bash(*)", "bash(pytest *)"])
def test_more_than_one_command_is_always_asked_about(here: Path, rule: str, more: str) -> None:
    permissions = Permissions(str(here), allow=[rule])
    assert permissions.decide(bash(f"pytest{more}")) is None
    assert permissions.suggest(bash(f"pytest{more}")) is None


@pytest.mark.parametrize(
    ("rule", "call", "denied"),
    [
        ("bash(rm *)", bash("rm -rf x"), True),
        ("bash(rm *)", bash("rm"), True),
        ("bash(rm *)", bash("ls; rm x"), True),
        ("bash(rm *)", bash("ls && /bin/rm x"), True),
        ("bash(rm *)", bash("A=1 B=2 rm x"), True),
        ("bash(rm *)", bash("echo $(rm x)"), True),
        ("bash(rm *)", bash("(rm x)"), True),
        ("bash(rm *)", bash("rmdir x"), False),
        ("bash(git push *)", bash("cd x && git push origin"), True),
        ("bash(git push *)", bash("git pull"), False),
        ("write_file(.github/*)", write("x/../.github/workflows/a.yml"), True),
        ("read_file(secrets/*)", ToolCall("1", "read_file", {"path": "secrets/a"}), True),
        ("http_get", ToolCall("1", "http_get", {"url": "https://x.example"}), True),
    ],
)
@pytest.mark.parametrize("mode", ["ask", "all", "edits", "plan"])
def test_a_rule_that_denies_wins_over_every_mode(
    here: Path, mode: Any, rule: str, call: ToolCall, denied: bool
) -> None:
    permissions = Permissions(str(here), mode, allow=["*"], deny=[rule])
    for needs_approval in (True, False):
        decision = permissions.decide(call, needs_approval=needs_approval)
        assert (decision == f"the user's settings deny {rule}") is denied


@pytest.mark.parametrize(
    ("mode", "edit", "command"),
    [("plan", False, False), ("ask", None, None), ("edits", True, None), ("all", True, True)],
)
def test_a_mode_decides(here: Path, mode: Any, edit: Any, command: Any) -> None:
    permissions = Permissions(str(here), mode)
    for call, expected in ((write("a"), edit), (bash("ls"), command)):
        decision = permissions.decide(call)
        assert (False if isinstance(decision, str) else decision) is expected
        assert permissions.decide(call, needs_approval=False) is True


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (bash("pytest -x"), "bash(pytest *)"),
        (bash("  ls  "), "bash(ls *)"),
        (bash("python3 -c 'print(1)'"), None),
        (bash("python3 a.py [1]*"), "bash(python3 a.py [[]1][*])"),
        (bash("git status"), "bash(git status)"),
        (bash("/usr/bin/env x"), "bash(/usr/bin/env x)"),
        (bash(""), None),
        (write("a"), "write_file"),
        (ToolCall("1", "http_get", {"url": "https://a.example:1/b?c"}), "http_get(https://a.example:1/*)"),
    ],
)
def test_always_suggests_no_more_than_is_meant(here: Path, call: ToolCall, rule: str | None) -> None:
    permissions = Permissions(str(here))
    suggested = permissions.suggest(call)
    assert (None if suggested is None else str(suggested)) == rule
    if suggested is not None:
        permissions.allow(suggested)
        assert permissions.decide(call) is True


def test_rules_are_kept_for_their_folder_alone(here: Path, tmp_path: Path) -> None:
    Permissions(str(here)).allow(Rule("bash", "pytest *"))
    Permissions(str(here)).allow(Rule("bash", "pytest *"))
    assert Permissions(str(here)).decide(bash("pytest")) is True
    assert Permissions(str(tmp_path)).decide(bash("pytest")) is None
    assert json.loads(permissions_file().read_text()) == {str(here.resolve()): ["bash(pytest *)"]}
    assert stat.S_IMODE(permissions_file().stat().st_mode) == 0o600
    permissions_file().write_text("[")
    with pytest.raises(UserError, match="is not a file of rules"):
        Permissions(str(here))


@pytest.mark.parametrize("text", ["", "bash(", "two words", "bash)x("])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is no rule: write TOOL, or TOOL"):
        parse_rule(text)


# `toolwire run`.


@pytest.fixture
def run(capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> Said:
        return say(capfd, monkeypatch, tmp_path, *arguments)

    return command


LIST = ToolCall(None, "bash", {"command": "echo hi"})


@pytest.mark.parametrize(
    ("options", "wrote", "listed"),
    [
        ([], NO_TERMINAL, NO_TERMINAL),
        (["--mode", "plan"], PLANNING, PLANNING),
        (["--mode", "edits"], "Wrote 8 bytes", NO_TERMINAL),
        (["--mode", "all"], "Wrote 8 bytes", "hi"),
        (["--yes"], "Wrote 8 bytes", "hi"),
    ],
)
def test_a_run_has_a_mode(run: Any, tmp_path: Path, options: list[str], wrote: str, listed: str) -> None:
    turns: list[Any] = [
        [WROTE],
        [Expect(results={"write_file": wrote}), LIST],
        [Expect(results={"bash": listed}), "Done."],
    ]
    with simulate(turns) as model:
        assert run("run", "do it", *options, *at(model, tmp_path)).out == "Done.\n"
    assert (project(tmp_path) / "made.txt").exists() is wrote.startswith("Wrote")


def test_settings_set_the_mode_and_the_rules_and_a_project_can_only_deny(run: Any, tmp_path: Path) -> None:
    (tmp_path / "config" / "toolwire").mkdir(parents=True)
    (tmp_path / "config" / "toolwire" / "toolwire.toml").write_text(
        '[cli]\nmode = "edits"\nallow = ["bash(echo *)"]\ndeny = ["write_file(*.lock)"]\n'
    )
    (project(tmp_path) / "toolwire.toml").write_text(
        '[cli]\nmode = "all"\nallow = ["bash"]\ndeny = ["read_file(.env*)"]\n'
    )
    lock = ToolCall(None, "write_file", {"path": "uv.lock", "content": ""})
    secret = ToolCall(None, "read_file", {"path": ".env.example"})
    other = ToolCall(None, "bash", {"command": "ls"})
    turns: list[Any] = [
        [WROTE],
        [Expect(results={"write_file": "Wrote 8 bytes"}), LIST],
        [Expect(results={"bash": "hi"}), other],
        [Expect(results={"bash": NO_TERMINAL}), lock],
        [Expect(results={"write_file": "the user's settings deny write_file(*.lock)"}), secret],
        [Expect(results={"read_file": "the user's settings deny read_file(.env*)"}), "Done."],
    ]
    (project(tmp_path) / ".env.example").write_text("A=1")
    with simulate(turns) as model:
        said = run("run", "do it", *at(model, tmp_path))
    assert (said.code, said.out) == (0, "Done.\n"), said.told


def test_a_rule_that_denies_wins_over_yes(run: Any, tmp_path: Path) -> None:
    (project(tmp_path) / "toolwire.toml").write_text('[cli]\ndeny = ["bash(echo *)"]\n')
    turns: list[Any] = [[LIST], [Expect(results={"bash": "the user's settings deny bash(echo *)"}), "Done."]]
    with simulate(turns) as model:
        assert run("run", "do it", "--yes", *at(model, tmp_path)).code == 0


def test_a_wrong_mode_or_rule_is_named(run: Any, tmp_path: Path, capfd: Any) -> None:
    with simulate([]) as model:
        with pytest.raises(SystemExit, match="2"):
            run("run", "do it", "--mode", "edit", *at(model, tmp_path))
        assert "did you mean edits?" in capfd.readouterr().err
        (project(tmp_path) / "toolwire.toml").write_text('[cli]\ndeny = ["bash("]\n')
        assert "'bash(' is no rule" in run("run", "do it", *at(model, tmp_path)).told
        (project(tmp_path) / "toolwire.toml").write_text('[cli]\nmode = "edit"\n')
        assert (
            "toolwire.toml: cannot be used: Invalid enum value 'edit'" in run("run", "do it", *at(model, tmp_path)).told
        )


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
def test_always_holds_for_the_pattern_also_in_the_next_run(tmp_path: Path, columns: int) -> None:
    more = ToolCall(None, "bash", {"command": "echo more words"})
    both = ToolCall(None, "bash", {"command": "echo a; echo b"})
    turns: list[Any] = [
        [LIST],
        [Expect(results={"bash": "hi"}), more],
        [Expect(results={"bash": "more words"}), both],
        [Expect(results={"bash": "a\nb"}), "Done."],
    ]
    with simulate(turns) as model, terminal(tmp_path, "run", "do it", *at(model, tmp_path), columns=columns) as shown:
        shown.until("why not: ")
        assert "[a]lways bash(echo *)" in " ".join(shown.plain.split())
        shown.said = ""
        shown.type("a\n")
        shown.until("why not: ")
        assert "bash(echo *) is allowed in this folder from now on" in " ".join(shown.plain.split())
        assert "[a]lways" not in shown.plain.rpartition("Run it?")[2]
        shown.type("a\n")
        assert shown.end() == 0
        assert "only this once" in " ".join(shown.plain.split())
    turns = [[more], [Expect(results={"bash": "more words"}), "Done."]]
    with simulate(turns) as model, terminal(tmp_path, "run", "again", *at(model, tmp_path), columns=columns) as shown:
        assert shown.end() == 0
        assert "why not: " not in shown.plain


@pytest.mark.slow
def test_the_user_can_type_another_rule(tmp_path: Path) -> None:
    turns: list[Any] = [
        [LIST],
        [Expect(results={"bash": "the call was not approved: the user said no: a bash(ls *)"}), LIST],
        [Expect(results={"bash": "hi"}), "Done."],
    ]
    with simulate(turns) as model, terminal(tmp_path, "run", "do it", *at(model, tmp_path)) as shown:
        shown.until(ASKED)
        shown.type("a bash(ls *)\n")
        shown.until(ASKED, 2)
        shown.type("a bash(echo h*)\n")
        assert shown.end() == 0
        assert "[bash(echo h*) is allowed in this folder from now on: " in shown.plain
