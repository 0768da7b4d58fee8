"""`toolwire demo` and the examples: they run, offline, and do what they say."""

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import environment, terminal
from toolwire.cli import demo_agent, main
from toolwire.cli.demo_wires import _REQUEST, _ROWS, show_wires
from toolwire.cli.parsing import parse
from toolwire.cli.screen import Screen
from toolwire.dialects import NAMES, dialect

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def shown(folder: Path, *arguments: str) -> str:
    """Run an example, without a key and as if no network were there."""
    unreachable = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    variables = {**environment(folder), **unreachable, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def demo(folder: Path, *arguments: str) -> str:
    """Run `toolwire demo` in a pipe."""
    return shown(folder, "-m", "toolwire", "demo", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", NAMES)
def test_the_demo_fixes_the_bug_over_each_wire(tmp_path: Path, dialect: str) -> None:
    text = demo(tmp_path, "--dialect", dialect)
    for words in (
        "you> A test of this project fails.",
        "> tree()",
        "< tree()\n  ./",
        "FAIL: test_several_units_are_read",
        "  durations/reading.py:10: def seconds_of(text: str) -> int:",
        "  - 16         total = int(amount) * UNITS[unit]",
        "  + 16         total += int(amount) * UNITS[unit]",
        "All tests pass.",
        f"The tests failed before, and pass now: yes (5 turns over {dialect}, ",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) < 140
    commands = [line.strip() for line in text.splitlines() if line.startswith("  toolwire ")]
    assert len(commands) == 3
    for command in commands:
        _, name, *others = shlex.split(command)
        assert parse([name, *others]).parser.prog == f"toolwire {name}", "it is a command that can be run"
    assert list(tmp_path.iterdir()) == [], "nothing is kept of a demo"


def test_the_losses_are_those_of_the_dialects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    screen = Screen(io.StringIO())
    show_wires(screen)
    assert isinstance(screen.stream, io.StringIO)
    table = screen.stream.getvalue().splitlines()
    cells = {line[:18].strip(): line[18:].split() for line in table if line[18:].strip() and line[:1].isalpha()}
    assert table[2].split() == list(NAMES)
    assert cells["system prompt"] == ["sent"] * 5
    assert cells["temperature"] == ["sent", "sent", "dropped", "sent", "sent"]
    assert cells["top_k"] == ["dropped", "dropped", "dropped", "sent", "sent"]
    assert cells["image by URL"] == ["sent", "sent", "sent", "approximated", "dropped"]
    assert "  temperature: anthropic 2026-10-21 rejects it (dropped)" in table
    rows = {path for _, paths in _ROWS for path in paths}
    others = {
        loss.path
        for name in NAMES
        for loss in dialect(name).encode_request(_REQUEST).losses
        if loss.severity == "semantic"
    }
    assert others <= rows, "each semantic loss has a row"


@pytest.mark.slow
def test_the_demo_shows_the_wire_whole(tmp_path: Path) -> None:
    text = demo(tmp_path, "--wire", "--dialect", "anthropic")
    assert text.count("answered with 200") == 5
    assert text.count("event: message_stop") == 5
    assert text.count("/v1/messages") >= 5


@pytest.mark.slow
def test_the_demo_says_when_the_bug_is_not_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A control: of a project with another bug nothing is claimed."""
    changed = demo_agent._PROJECT.read_text().replace('"h": 3600', '"h": 360')
    (tmp_path / "other.toml").write_text(changed)
    monkeypatch.setattr(demo_agent, "_PROJECT", tmp_path / "other.toml")
    assert main(["demo"]) == 1
    assert "The tests failed before, and pass now: NO" in capsys.readouterr().out


def test_the_project_of_the_demo_is_that_of_the_examples(tmp_path: Path) -> None:
    demo_agent._write_project(tmp_path)
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    project = EXAMPLES / "project"
    files = [path for path in project.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert written == {path.relative_to(project): path.read_text() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}])
def test_the_demo_on_a_terminal(tmp_path: Path, columns: int, more: dict[str, str]) -> None:
    with terminal(tmp_path, "demo", columns=columns, **more) as screen:
        assert screen.end() == 0
    assert bool(re.search("\x1b\\[[0-9;]*3[0-9]m", screen.said)) is (not more)
    assert "All tests pass." in " ".join(screen.plain.split())
    lines = screen.plain[screen.plain.index("One request") :].splitlines()
    assert max(map(len, lines)) <= 120
    if columns == 40:
        assert "  image by URL: dropped" in lines
        assert "anthropic" in lines
    else:
        assert any(line.split() == list(NAMES) for line in lines)


@pytest.mark.slow
def test_ctrl_c_ends_the_demo(tmp_path: Path) -> None:
    with terminal(tmp_path, "demo") as screen:
        screen.until("> tree()")
        screen.interrupt()
        assert screen.end() == 130
        assert "interrupted" in screen.plain
        assert screen.is_as_it_was()


def test_one_conversation_in_five_wire_formats(tmp_path: Path) -> None:
    said = shown(tmp_path, str(EXAMPLES / "translation.py"))
    for name in NAMES:
        assert f"=== {name}: POST " in said
