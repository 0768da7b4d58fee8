"""On a terminal: questions before what writes or runs, Ctrl-C at any point, colours and none."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROVIDERS, WROTE, Terminal, at, project, running, terminal
from toolwire.client.saving import Saved, load
from toolwire.testing import Expect, Pace, Wait, simulate
from toolwire.types import Text, ToolCall, ToolResult

pytestmark = pytest.mark.slow
ASKED = "or say why not: "
LONG = "sleep 61.25"
SHELL = ToolCall(None, "bash", {"command": f"echo begun > begun.txt; {LONG}"})


def kept(folder: Path) -> Saved:
    """Read the conversation that was kept."""
    [file] = (folder / "state" / "toolwire").iterdir()
    return load(file.read_bytes())


def test_a_question_is_asked_with_the_change_and_its_answer_counts(tmp_path: Path) -> None:
    again = ToolCall(None, "write_file", {"path": "more.txt", "content": "x\n"})
    refused = {"write_file": "the call was not approved: the user said no: use another name"}
    turns: list[Any] = [
        [ToolCall(None, "list_directory", {}), WROTE],
        [Expect(results=refused), WROTE],
        [Expect(results={"write_file": "the call was not approved: the user said no"}), WROTE],
        [Expect(results={"write_file": "Wrote 8 bytes"}), again],
        [Expect(results={"write_file": "Wrote 2 bytes"}), "Done."],
    ]
    with simulate(turns) as model, terminal(tmp_path, "run", "do it", *at(model, tmp_path)) as shown:
        for answer in ("use another name", "n", "a"):
            assert not (project(tmp_path) / "made.txt").exists()
            shown.until(ASKED)
            assert "  made.txt (a new file)\n  + 1 one\n  + 2 two\nRun it? " in shown.plain
            shown.said = ""
            shown.type(f"{answer}\n")
        assert shown.end() == 0
        assert shown.plain.count(ASKED) == 0, "always is always"
    assert (project(tmp_path) / "more.txt").read_text() == "x\n"


def test_what_was_typed_before_a_question_is_no_answer_to_it(tmp_path: Path) -> None:
    turns = [
        ["Wait for it. ", Wait(1.0), WROTE],
        [Expect(results={"write_file": "the user said no"}), "Done."],
    ]
    with simulate(turns) as model, terminal(tmp_path, "run", "do it", *at(model, tmp_path)) as shown:
        shown.until("Wait for it.")
        shown.type("y\n")
        shown.until(ASKED)
        time.sleep(0.3)
        assert shown.process.poll() is None
        shown.type("n\n")
        assert shown.end() == 0
    assert not (project(tmp_path) / "made.txt").exists()


LOOKS = r"\x1b\[[0-9;]*m"


@pytest.mark.parametrize(
    ("more", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"HIDE": "1"}, False)],
)
def test_the_looks_are_on_a_terminal_that_has_them(tmp_path: Path, more: dict[str, str], coloured: bool) -> None:
    """With rich and without it (here hidden) the words are the same."""
    if "HIDE" in more:
        (tmp_path / "rich.py").write_text("raise ImportError('it is not here')")
        more = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).resolve().parents[2] / 'src'}"}
    turns = [[Text(text="\x1b[31mred"), WROTE], ["Done."]]
    with (
        simulate(turns) as model,
        terminal(tmp_path, "run", "do it", "--yes", *at(model, tmp_path), **more) as shown,
    ):
        assert shown.end() == 0
    assert "\\x1b[31mred\n> write_file(" in shown.plain
    assert "Done." in shown.plain
    assert bool(re.search("\x1b\\[[0-9;]*3[0-9]m", shown.said)) is coloured
    assert re.findall(r"\x1b(?!\[)|[\x07\x9b]", shown.said) == []


POINTS: dict[str, tuple[list[Any], str]] = {
    "before the answer": ([Wait(60), "Too late."], ""),
    "in its words": ([Pace(0.2), "word " * 400], "word"),
    "in a tool": ([SHELL], "begun"),
    "at the question": ([WROTE], ASKED),
}


def stop_at(shown: Terminal, point: str, model: Any, folder: Path) -> None:
    """Wait for a point of a run, and press Ctrl-C there."""
    if point == "before the answer":
        shown.when(lambda: model.requests)
    elif point == "in a tool":
        shown.when((project(folder) / "begun.txt").exists)
    else:
        shown.until(POINTS[point][1])
    time.sleep(0.1)
    shown.interrupt()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.row("J5", "J14")
def test_ctrl_c_ends_cleanly_and_continue_finishes_the_task(tmp_path: Path, point: str) -> None:
    """The upstream is closed, tools are stopped, the history is valid for any provider."""
    turns: list[Any] = [[ToolCall(None, "list_directory", {})], POINTS[point][0]]
    yes = [] if point == "at the question" else ["--yes"]
    with simulate(turns) as model:
        with terminal(tmp_path, "run", "do it", *yes, *at(model, tmp_path)) as shown:
            stop_at(shown, point, model, tmp_path)
            pressed = time.monotonic()
            assert (shown.end(), "interrupted" in shown.plain) == (130, True)
            assert time.monotonic() - pressed < 5
        assert "Traceback" not in shown.plain
        assert running(LONG) == []
        if point in ("before the answer", "in its words"):
            assert model.requests[-1].over.wait(5)
            assert model.requests[-1].gone, "the server sees that the client left"
        messages = kept(tmp_path).context.messages
        assert messages[0].text == "do it"
        calls = [call.id for one in messages for call in one.tool_calls]
        results = [part.tool_call_id for one in messages for part in one.parts if isinstance(part, ToolResult)]
        assert calls == results
        for provider in PROVIDERS:
            model.play([["Finished."]])
            with terminal(tmp_path, "run", "--continue", *at(model, tmp_path, provider)) as shown:
                assert shown.end() == 0, shown.said
            assert "Finished." in shown.plain
            assert model.requests[-1].refused is None


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    stubborn = ToolCall(None, "bash", {"command": "trap '' TERM INT; touch begun.txt; while :; do sleep 0.1; done"})
    with (
        simulate([[stubborn]]) as model,
        terminal(tmp_path, "run", "do it", "--yes", *at(model, tmp_path)) as shown,
    ):
        shown.when((project(tmp_path) / "begun.txt").exists)
        shown.interrupt()
        time.sleep(0.05)
        shown.interrupt()
        assert shown.end() in (-2, 130)
    end = time.monotonic() + 10
    while running("trap '' TERM INT; touch begun.txt") and time.monotonic() < end:
        time.sleep(0.05)
    assert running("trap '' TERM INT; touch begun.txt") == []


def test_each_turn_is_kept_before_the_next_begins(tmp_path: Path) -> None:
    """Killed in the second turn, the first one is there."""
    with simulate([[ToolCall(None, "list_directory", {})], [Wait(60), "Late."]]) as model:
        with terminal(tmp_path, "run", "do it", *at(model, tmp_path)) as shown:
            shown.when(lambda: len(model.requests) > 1)
            shown.process.kill()
            shown.end()
        assert [message.role for message in kept(tmp_path).context.messages] == ["user", "assistant", "tool"]
