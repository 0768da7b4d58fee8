"""One long session as a user has it: MCP, edits, a summary, undo, another provider, and the record of all of it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Said, at, project, say
from toolwire.cli.conversations import read
from toolwire.testing import Expect, simulate
from toolwire.types import ToolCall, Usage

pytestmark = pytest.mark.slow

SERVER = """
from toolwire import mcp

def find_bug(file: str) -> str:
    "Find the bug in a file."
    return f"{file}: the sign is wrong"

mcp.serve([find_bug])
"""
WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TEST = """import unittest
from calc import add

class T(unittest.TestCase):
    def test(self):
        assert add(1, 2) == 3
"""
TOOLS = ("tree", "bug_find_bug", "edit_file", "bash", "write_file", "read_file")


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(None, tool, arguments)


FIRST: list[Any] = [
    [call("tree"), call("read_file", path="calc.py"), Usage(300, 20)],
    [call("bug_find_bug", file="calc.py"), Usage(500, 20)],
    [
        Expect(results={"bug_find_bug": "the sign is wrong"}),
        call("edit_file", path="calc.py", oldText="a - b", newText="a + b"),
        Usage(700, 20),
    ],
    [call("bash", command="python3 -m unittest -q"), Usage(4000, 20)],
    ["The task: fix calc.py. The sign was wrong, and is right. The tests run."],
    [Expect(last="Go on."), "It is fixed.", Usage(200, 20)],
    [Expect(last="now break it"), call("write_file", path="calc.py", content="broken\n"), Usage(250, 20)],
    ["It is broken.", Usage(300, 20)],
]
SECOND: list[Any] = [
    [
        Expect(last="[The user took back your last edits of: calc.py]\n\nwhat is it now?"),
        call("read_file", path="calc.py"),
    ],
    [Expect(results={"read_file": "a + b"}), "It is as it was."],
]
PROMPTS = ["fix the bug", "/diff", "now break it", "/undo", "/cost"]
SHOWN = (
    "[mcp bug: 1 tool]",
    "[instructions: AGENTS.md (28 bytes); ",
    "OK",
    "were replaced by a summary; all of them are saved as ",
    "  - 2     return a - b\n  + 2     return a + b",
    "restored calc.py",
    "/m: 8 requests",
)


@pytest.fixture
def toolwire(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a command in a project with a bug, with settings that name an MCP server."""
    (tmp_path / "server.py").write_text(SERVER)
    settings = tmp_path / "config" / "toolwire" / "toolwire.toml"
    settings.parent.mkdir(parents=True)
    start = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(tmp_path / 'server.py')])}\n"
    allow = '["bug_*", "bash(python3 -m unittest *)"]'
    settings.write_text(f'[cli]\nmcp = ["bug"]\nmode = "edits"\nallow = {allow}\n[mcp.bug]\n{start}')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name, text in (("AGENTS.md", "Run the tests with unittest."), ("calc.py", WRONG), ("test_calc.py", TEST)):
        (project(tmp_path) / name).write_text(text)

    def run_command(*arguments: str, given: str = "") -> Said:
        return say(capfd, monkeypatch, tmp_path, *arguments, given=given)

    return run_command


@pytest.mark.parametrize(("first", "second"), [("anthropic", "gemini"), ("openai-responses", "ollama")])
def test_a_session_with_everything(toolwire: Any, tmp_path: Path, first: str, second: str) -> None:
    store = f"sqlite:///{tmp_path}/traces.db"
    with simulate(FIRST) as model:
        options = [*at(model, tmp_path, first), "--window", "5000", "--traces", store]
        said = toolwire("chat", *options, given="\n".join([*PROMPTS, ""]))
    assert (said.code, [words for words in SHOWN if words not in said.told]) == (0, []), said.text
    assert (project(tmp_path) / "calc.py").read_text() == RIGHT

    with simulate(SECOND) as model:
        arguments = ["run", "what is it now?", "--continue", *at(model, tmp_path, second)]
        said = toolwire(*arguments, "--traces", store)
    assert (said.code, said.out) == (0, "It is as it was.\n")
    sent = model.requests[0].request
    assert sent is not None
    assert any("The sign was wrong, and is right." in message.text for message in sent.messages)

    verified = toolwire("traces", "verify", "--url", store)
    assert verified.code == 0, verified.text
    listed = toolwire("traces", "list", "--url", store).out
    assert [name for name in TOOLS if name not in listed] == []
    saved = sorted((tmp_path / "state" / "toolwire" / "conversations").glob("*.json"))
    whole = [path for path in saved if read(path).prompts[:1] == ["fix the bug"]]
    assert (len(saved), len(whole)) == (2, 1)
