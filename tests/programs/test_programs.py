"""Ten programs of users, as they would write them: each runs against a simulated model, and is short.

Rule: a program is at most as long as the shortest that a peer needs for the same task, in lines that are not
blank, and without its docstring. `make lengths` prints both.
"""

import ast
import io
import json
import os
import runpy
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.test_examples import test_the_gateway_answers_in_its_clients_wire as the_gateway_answers
from toolwire import ToolCall, ToolResult, Trace, Usage, traces
from toolwire.testing import Expect, simulate

HERE = Path(__file__).resolve().parent
KEY = "sk-any"
ADDRESSES = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_HOST")
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_KEY")
OSLO = ToolCall(None, "get_weather", {"city": "Oslo"})
COUNTED = Usage(100, 20)


class Program(NamedTuple):
    """A program of a user: what it does, where it stands, and the shortest that a peer needs for it."""

    task: str
    path: Path
    peer: str
    longest: int


# The lines of peers are those of their own documents, on 2026-11-22; pydantic-ai's were run.
PROGRAMS = [
    Program("one tool, three providers", HERE / "three_providers.py", "pydantic-ai", 7),
    Program("a chat that streams", HERE / "streaming_chat.py", "ruby_llm", 12),
    Program("answers as a dataclass and a pydantic model", HERE / "structured_output.py", "pydantic-ai", 12),
    Program("a log translated, with its losses", HERE / "log_with_losses.py", "none", 19),
    Program("a gateway", HERE.parent.parent / "examples" / "gateway.py", "litellm", 15),
    Program("MCP both ways", HERE / "mcp_both_ways.py", "pydantic-ai", 16),
    Program("a person approves", HERE / "approval.py", "ruby_llm", 12),
    Program("the failed calls of yesterday, from a database", HERE / "failures_of_yesterday.py", "none", 18),
    Program("calls that a model writes into its text", HERE / "text_calls.py", "none", 12),
    Program("an agent in an agent, a budget, Ctrl-C", HERE / "sub_agent.py", "pydantic-ai", 13),
]


def lines_of(path: Path) -> int:
    """Count the lines that are not blank, but for those of the docstring."""
    text = path.read_text("utf-8")
    words = ast.get_docstring(ast.parse(text), clean=False) or ""
    return len([line for line in text.replace(f'"""{words}"""', "", 1).splitlines() if line.strip()])


def table() -> str:
    """Write how long each program is, and how long the shortest of a peer."""
    rows = [(task, str(lines_of(path)), f"{longest} ({peer})") for task, path, peer, longest in PROGRAMS]
    return "\n".join(f"{task:48}{lines:>9}  {peer}" for task, lines, peer in [("task", "toolwire", "peer"), *rows])


@pytest.fixture(autouse=True)
def _kept() -> Iterator[None]:
    """Take back what a program does with the signals of its process."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a program as it stands: servers and keys are those of the environment."""

    def program(name: str, turns: Any, *arguments: str, typed: str = "", **scenario: Any) -> tuple[str, str]:
        with simulate(turns, **scenario) as model:
            for variable in ADDRESSES:
                monkeypatch.setenv(variable, model.url)
            for variable in KEYS:
                monkeypatch.setenv(variable, KEY)
            path = str(HERE / f"{name}.py")
            monkeypatch.setattr(sys, "argv", [path, *arguments])
            monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
            runpy.run_path(path, run_name="__main__")
        captured = capsys.readouterr()
        return captured.out, captured.err

    return program


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.path.stem)
def test_no_program_is_longer_than_that_of_a_peer(program: Program) -> None:
    assert lines_of(program.path) <= program.longest, table()


def test_a_docstring_and_blank_lines_are_not_counted(tmp_path: Path) -> None:
    """A control."""
    (tmp_path / "a.py").write_text('"""Says\nhello."""\n\nname = "you"\n\nprint(name)\n')
    assert lines_of(tmp_path / "a.py") == 2


def test_three_providers_run_one_tool(run: Any) -> None:
    turn = [Expect(results={"get_weather": "25 degrees in Oslo"}), "Warm."]
    shown, _ = run("three_providers", [OSLO, turn] * 3)
    assert shown == "Warm.\n" * 3


def test_a_chat_shows_words_and_calls_and_remembers(run: Any) -> None:
    last = [Expect(last="And tomorrow?", where=lambda request: len(request.messages) == 5), "Cold."]
    shown, _ = run("streaming_chat", [["I look. ", OSLO], "Warm.", last], typed="How is Oslo?\nAnd tomorrow?\n\n")
    assert shown == "\n> I look. [get_weather] Warm.\n> Cold.\n> "


def test_answers_come_as_values(run: Any) -> None:
    shown, _ = run("structured_output", ['{"city": "Oslo", "degrees": 25}', '{"name": "Ann", "age": 42}'])
    assert shown == "26\nANN\n"


def test_a_log_is_translated_and_its_losses_are_told(run: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9}
    log = "\n".join(map(json.dumps, [body, {**body, "temperature": 0.2, "seed": 7}]))
    shown, told = run("log_with_losses", [], typed=log)
    assert [json.loads(line)["max_tokens"] for line in shown.splitlines()] == [9, 9]
    assert [line.split(":")[:3] for line in told.splitlines()] == [
        ["2", " semantic", " temperature"],
        ["2", " semantic", " seed"],
    ]


def test_a_gateway_answers_in_its_clients_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    the_gateway_answers(monkeypatch)


@pytest.mark.slow
def test_tools_are_served_and_used(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    turns = [ToolCall(None, "add", {"a": 2, "b": 3}), [Expect(results={"add": "5"}), "It is 5."]]
    assert run("mcp_both_ways", turns) == ("It is 5.\n", "")


def test_a_person_says_yes_and_no(run: Any) -> None:
    calls = [ToolCall(None, "delete", {"path": path}, index) for index, path in enumerate(("a.txt", "b.txt"))]

    def refused(request: Any) -> bool:
        results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
        return [result.content for result in results] == [
            "a.txt is gone",
            "the call was not approved: the user said no",
        ]

    shown, _ = run("approval", [calls, [Expect(where=refused), "One is gone."]], typed="y\nn\n")
    assert shown == "delete {'path': 'a.txt'}? delete {'path': 'b.txt'}? One is gone.\n"


def test_failures_of_yesterday_are_shown_and_no_others(run: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/traces.db"
    call = {"tool_name": "pay", "result_type": "error", "ending": "error", "duration_ms": 1, "iteration": 0}
    now = datetime.now(UTC)
    with traces.open(url) as store:
        for days, kind in ((2, "error"), (1, "error"), (1, "ok")):
            said = {"arguments": {"order": days}, "result": f"{kind} {days}", "started_at": now - timedelta(days=days)}
            store.record(Trace.new({**call, **said}, result_type=kind, ending=kind))
    shown, _ = run("failures_of_yesterday", [ToolCall(None, "pay", {"order": 17}), "There is none."], url)
    assert shown == "pay {'order': 1} {'content': 'error 1'}\n"


def test_calls_in_text_are_run(run: Any) -> None:
    written = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    shown, _ = run("text_calls", [written, [Expect(last="25 degrees in Oslo"), "Warm."]])
    assert shown == "Warm.\n"


ASK = ToolCall(None, "research", {"question": "Why?"})


def test_an_agent_in_an_agent_is_counted(run: Any) -> None:
    shown, _ = run("sub_agent", [[ASK, COUNTED], ["Because.", COUNTED], ["It is so.", COUNTED]])
    assert shown == "answer It is so. 360\n"


def test_a_budget_is_kept_in_both(run: Any) -> None:
    shown, _ = run("sub_agent", [[ASK, COUNTED], ["Because.", Usage(30_000, 1)]])
    assert shown.split()[0] == "budget"


def test_an_interrupt_ends_both(run: Any) -> None:
    def interrupted(_request: Any, turn: Any) -> Any:
        if turn.number:
            os.kill(os.getpid(), signal.SIGINT)
        return [ASK, "Because."][turn.number]

    shown, _ = run("sub_agent", interrupted)
    assert shown.split()[0] == "cancelled"


if __name__ == "__main__":
    print(table())
