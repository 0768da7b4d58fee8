"""One long work: an agent over MCP, undo, a summary, another provider, and traces that are verified at the end."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import SOURCE, WROTE, Said, at, project, say
from tests.cli.test_ask import SERVER
from tests.cli.test_compaction import LONG, START, SUMMARISE, user_texts
from toolwire.testing import Expect, simulate
from toolwire.types import Thinking, ToolCall

pytestmark = pytest.mark.slow


@pytest.fixture
def command(capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run_command(*arguments: str, given: str = "") -> Said:
        return say(capfd, monkeypatch, tmp_path, *arguments, given=given)

    return run_command


def test_a_long_work_loses_nothing(command: Any, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "config" / "toolwire").mkdir(parents=True)
    (tmp_path / "config" / "toolwire" / "toolwire.toml").write_text(
        f'[mcp.weather]\ncommand = "{sys.executable}"\nargs = ["{tmp_path / "server.py"}"]\n'
        f'env = {{ PYTHONPATH = "{SOURCE}" }}\n'
    )
    (project(tmp_path) / "AGENTS.md").write_text("Write short files.")
    store = f"sqlite:///{tmp_path / 'traces.db'}"
    options = ["--mcp", "weather", "--yes", "--traces", store]
    weather = ToolCall(None, "get_weather", {"city": "Oslo"})
    again = ToolCall(None, "write_file", {"path": "made.txt", "content": "25\n"})

    def is_summarised(request: Any) -> bool:
        return user_texts(request)[0].startswith(START)

    turns: list[Any] = [
        [Thinking("I look.", signature="sig"), weather],
        [Expect(results={"get_weather": "25 degrees in Oslo"}), WROTE],
        [Expect(results={"write_file": "Wrote 8 bytes"}), "Written."],
        [Expect(where=lambda request: "took back your edits of made.txt" in str(request.messages[-1])), "I see."],
        LONG,
        SUMMARISE,
        [Expect(where=is_summarised), again],
        [Expect(results={"write_file": "Wrote 3 bytes"}), "Written again."],
    ]
    with simulate(turns) as model:
        given = "I am Ann.\n/undo\nWhat now?\nWrite it again.\n/quit\n"
        first = command("chat", *options, *at(model, tmp_path, "anthropic"), given=given)
        assert first.code == 0
        assert first.out.splitlines()[-1] == "Written again.", first.text
        assert "[taken back: made.txt]" in first.told
        assert "AGENTS.md (18 bytes) is part of the prompt" in first.told
    assert (project(tmp_path) / "made.txt").read_text() == "25\n"

    bash = ToolCall(None, "bash", {"command": "cat made.txt"})
    turns = [[Expect(where=is_summarised), bash], [Expect(results={"bash": "25"}), "It is 25."]]
    with simulate(turns) as model:
        second = command("run", "--continue", "Check it.", *options, *at(model, tmp_path, "gemini"))
        assert (second.code, second.out) == (0, "It is 25.\n"), second.told
        assert "Write short files." in str(model.requests[0].body)

    listed = command("traces", "list", "--url", store).out.splitlines()
    assert len(listed) >= 1
    verified = command("traces", "verify", "--url", store)
    assert verified.code == 0, verified.text
    shown = command("traces", "export", "--url", store).out
    assert [shown.count(f'"{name}"') >= 1 for name in ("get_weather", "write_file", "bash")] == [True] * 3
    assert "25 degrees in Oslo" in command("conversations", "search", "degrees", "Ann").out
