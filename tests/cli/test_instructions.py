"""AGENTS.md and CLAUDE.md: which are read, how much of them, and which are not; `--system`, and own tools."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import SOURCE, Said, at, project, say, system_of, terminal
from tests.cli.test_ask import SERVER, TOOLS
from toolwire.cli.instructions import MAX_BYTES, SYSTEM, read_instructions, system_prompt
from toolwire.testing import Expect, simulate
from toolwire.types import ToolCall

LOOK = ToolCall(None, "get_weather", {"city": "Oslo"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / ".git").mkdir(parents=True)
    return made


def test_agents_md_wins_over_claude_md(folder: Path) -> None:
    (folder / "CLAUDE.md").write_text("claude")
    assert read_instructions(str(folder)).sources == ("CLAUDE.md (6 bytes)",)
    (folder / "AGENTS.md").write_text("agents")
    read = read_instructions(str(folder))
    assert (read.text, read.sources) == ("From AGENTS.md:\n\nagents", ("AGENTS.md (6 bytes)",))


def test_the_files_up_to_the_root_of_the_repository_are_read_and_the_nearest_is_last(folder: Path) -> None:
    (folder.parent / "AGENTS.md").write_text("outside")
    (folder / "AGENTS.md").write_text("whole")
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    (below / "CLAUDE.md").write_text("part")
    read = read_instructions(str(below))
    assert read.text == "From ../../AGENTS.md:\n\nwhole\n\nFrom CLAUDE.md:\n\npart"
    (folder / ".git").rmdir()
    assert read_instructions(str(below)).text == "From CLAUDE.md:\n\npart", "outside of a repository"


def test_the_text_is_limited_and_what_is_left_out_is_said(folder: Path) -> None:
    below = folder / "a"
    below.mkdir()
    (below / "AGENTS.md").write_text("x" * (MAX_BYTES - 10))
    (folder / "AGENTS.md").write_text("y" * 100)
    read = read_instructions(str(below))
    assert read.text.count("x") == MAX_BYTES - 10
    assert f"From ../AGENTS.md:\n\n{'y' * 10}\n[../AGENTS.md is longer; the rest is left out]" in read.text
    assert read.sources == ("../AGENTS.md (100 bytes, of which 10 bytes are used)", "AGENTS.md (32 KB)")
    (below / "AGENTS.md").write_text("é" * MAX_BYTES)
    assert "[AGENTS.md is longer; the rest is left out]" in read_instructions(str(below)).text


def test_what_is_no_file_of_the_repository_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "AGENTS.md").symlink_to(tmp_path / "secret")
    assert read_instructions(str(folder)).text == ""
    assert read_instructions(str(folder)).summary == "instructions: AGENTS.md is a link out of the project: not used"
    (folder / "AGENTS.md").unlink()
    os.mkfifo(folder / "AGENTS.md")
    assert read_instructions(str(folder)).text == ""
    (folder / "AGENTS.md").unlink()
    (folder / "AGENTS.md").mkdir()
    (folder / "CLAUDE.md").write_text(" \n")
    assert read_instructions(str(folder)).text == ""
    (folder / "AGENTS.md").rmdir()
    (folder / "AGENTS.md").symlink_to("AGENTS.md")
    assert read_instructions(str(folder)).text == ""
    (folder / "AGENTS.md").unlink()
    (folder / "doc.md").write_text("inside")
    (folder / "AGENTS.md").symlink_to("doc.md")
    assert read_instructions(str(folder)).text == "From AGENTS.md:\n\ninside", "a link inside of the repository"


def test_bytes_that_are_not_utf_8_and_marks_do_no_harm(folder: Path) -> None:
    (folder / "AGENTS.md").write_bytes(b"\xef\xbb\xbfone \xff two")
    assert read_instructions(str(folder)).text == "From AGENTS.md:\n\none \ufffd two"


def test_the_system_prompt_has_all_parts(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("Use tabs.")
    read = read_instructions(str(folder))
    assert system_prompt(None, read).startswith(f"{SYSTEM}\n\nThe instructions of this project")
    assert system_prompt("Be brief.", read, plan=True).startswith("Be brief.\n\nThe instructions")
    assert "plan mode" in system_prompt("", read, plan=True)
    assert system_prompt("", read).startswith("The instructions"), "an empty system prompt leaves out the built-in one"


def test_run_sends_and_shows_them_and_can_leave_them_out(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (project(tmp_path) / "AGENTS.md").write_text("Use tabs.")

    def run(model: Any, *more: str) -> Any:
        return say(capfd, monkeypatch, tmp_path, "run", "do it", *at(model, tmp_path), *more)

    with simulate(["One.", "Two.", "Three."]) as model:
        assert "[instructions: AGENTS.md (9 bytes); --no-instructions leaves them out]" in run(model).told
        assert "instructions" not in run(model, "--no-instructions").told
        assert "instructions" not in run(model, "--quiet").told
    with_them, without, _ = map(system_of, model.requests)
    assert (
        with_them == f"{without}\n\nThe instructions of this project, which you follow:\n\nFrom AGENTS.md:\n\nUse tabs."
    )


@pytest.fixture
def run(capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, given: str = "") -> Said:
        return say(capfd, monkeypatch, tmp_path, *arguments, given=given)

    return command


def test_a_system_prompt_replaces_the_own_one(run: Any, tmp_path: Path) -> None:
    (project(tmp_path) / "AGENTS.md").write_text("Use tabs.")
    with simulate(["Done."]) as model:
        run("run", "do it", "--system", "You are a poet.", *at(model, tmp_path))
    body = str(model.requests[0].body)
    assert ("You are a poet." in body, "You work on the project" in body, "Use tabs." in body) == (True, False, True)


def test_an_own_tool_is_asked_for_approval_like_the_others(run: Any, tmp_path: Path) -> None:
    (tmp_path / "own_weather.py").write_text(TOOLS)
    refused = "the call was not approved: there is no terminal to ask for approval; --yes approves all calls"
    turns: list[Any] = [
        [LOOK],
        [Expect(results={"get_weather": refused}), "No."],
        [LOOK],
        [Expect(results={"get_weather": "25 degrees in Oslo"}), "Warm."],
    ]
    options = ["--tool", "own_weather:get_weather"]
    with simulate(turns) as model:
        assert run("run", "How is Oslo?", *options, *at(model, tmp_path)).out == "No.\n"
        assert run("run", "How is Oslo?", "--yes", *options, *at(model, tmp_path)).out == "Warm.\n"
        assert all(name in str(model.requests[0].body) for name in ("get_weather", "read_file", "bash"))
    sys.modules.pop("own_weather", None)


def test_an_mcp_server_serves_a_run_and_ends_with_it(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{SERVER}"
    )
    (tmp_path / "config" / "toolwire").mkdir(parents=True)
    (tmp_path / "config" / "toolwire" / "toolwire.toml").write_text(
        f'[mcp.weather]\ncommand = "{sys.executable}"\nargs = ["{tmp_path / "server.py"}"]\n'
        f'env = {{ PYTHONPATH = "{SOURCE}" }}\n'
    )
    look = ToolCall(None, "weather_get_weather", {"city": "Oslo"})
    turns: list[Any] = [[look], [Expect(results={"weather_get_weather": "25 degrees in Oslo"}), "Warm."]]
    with simulate(turns) as model:
        said = run("run", "How is Oslo?", "--mcp", "weather", "--yes", *at(model, tmp_path))
    assert (said.code, said.out) == (0, "Warm.\n"), said.told
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.slow
def test_a_chat_shows_its_instructions_and_asks_about_an_own_tool(tmp_path: Path) -> None:
    (project(tmp_path) / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "own_weather.py").write_text(TOOLS)
    turns: list[Any] = [[LOOK], [Expect(results={"get_weather": "25 degrees in Oslo"}), "Warm."]]
    with (
        simulate(turns) as model,
        terminal(tmp_path, "chat", "--tool", "own_weather:get_weather", *at(model, tmp_path), columns=120) as shown,
    ):
        shown.until("[instructions: AGENTS.md (9 bytes); --no-instructions leaves them out]")
        shown.until("you> ")
        shown.type("How is Oslo?\n")
        shown.until("or say why not: ")
        shown.type("y\n")
        shown.until("Warm.")
        shown.type("/quit\n")
        assert shown.end() == 0
