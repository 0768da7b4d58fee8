"""What `toolwire run` is told besides its task: AGENTS.md, `--system`, and the user's own tools."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROVIDERS, SOURCE, Said, at, project, say, terminal
from tests.cli.test_ask import SERVER, TOOLS
from toolwire.cli.instructions import _LONGEST, read_instructions
from toolwire.testing import Expect, simulate
from toolwire.types import ToolCall

LOOK = ToolCall(None, "get_weather", {"city": "Oslo"})


@pytest.fixture
def run(capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, given: str = "") -> Said:
        return say(capfd, monkeypatch, tmp_path, *arguments, given=given)

    return command


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
def test_the_instructions_of_a_project_are_part_of_the_prompt(
    run: Any, tmp_path: Path, name: str, provider: str
) -> None:
    (project(tmp_path) / name).write_text("Use tabs.\n")
    with simulate(["Done.", "Done."]) as model:
        said = run("run", "do it", *at(model, tmp_path, provider))
        without = run("run", "do it", "--no-instructions", *at(model, tmp_path, provider))
    assert f"[{name} (10 bytes) is part of the prompt; --no-instructions leaves it out]\n" in said.told
    assert "part of the prompt" not in without.text
    bodies = [str(request.body) for request in model.requests]
    assert [f"in {name}:" in body and "Use tabs." in body for body in bodies] == [True, False]
    assert ["You work on the project" in body for body in bodies] == [True, True]


def test_agents_comes_before_claude_and_an_empty_file_is_none(tmp_path: Path) -> None:
    assert read_instructions(str(tmp_path)).text == ""
    (tmp_path / "CLAUDE.md").write_text("Claude's.")
    (tmp_path / "AGENTS.md").write_text(" \n")
    assert "Claude's." in read_instructions(str(tmp_path)).text
    (tmp_path / "AGENTS.md").write_bytes(b"\xef\xbb\xbfcaf\xe9")
    assert read_instructions(str(tmp_path)).text.endswith("in AGENTS.md:\n\ncaf\ufffd")


def test_a_long_file_is_cut_and_both_are_told(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x" * (_LONGEST + 7))
    found = read_instructions(str(tmp_path))
    assert found.text.endswith("x\n[the rest of the file was left out]")
    assert found.text.count("x") == _LONGEST
    assert found.note.startswith("the first 32,768 of 32,775 bytes of AGENTS.md are part of the prompt")


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    folder = project(tmp_path)
    (folder / "AGENTS.md").symlink_to(secret)
    found = read_instructions(str(folder))
    assert found.text == ""
    assert f"AGENTS.md is not used: it is a link to {secret}, outside of the project" == found.note
    (folder / "AGENTS.md").unlink()
    (folder / "docs.md").write_text("Inside.")
    (folder / "AGENTS.md").symlink_to("docs.md")
    assert "Inside." in read_instructions(str(folder)).text


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
    turns: list[Any] = [[LOOK], [Expect(results={"get_weather": "25 degrees in Oslo"}), "Warm."]]
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
        shown.until("[AGENTS.md (9 bytes) is part of the prompt; --no-instructions leaves it out]")
        shown.until("you> ")
        shown.type("How is Oslo?\n")
        shown.until("or say why not: ")
        shown.type("y\n")
        shown.until("Warm.")
        shown.type("/quit\n")
        assert shown.end() == 0
