"""On a terminal: questions before what writes or runs, Ctrl-C at any point, colours and none."""

import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROVIDERS, SOURCE, WROTE, Terminal, at, project, running, terminal
from toolwire import traces
from toolwire.cli.screen import count_columns
from toolwire.client.saving import Saved, load
from toolwire.testing import Expect, Fail, Pace, Wait, simulate
from toolwire.types import Error, Text, Thinking, ToolCall, ToolResult

pytestmark = pytest.mark.slow
ASKED = "or say why not: "
LONG = f"sleep 61.{os.getpid()}"
SHELL = ToolCall(None, "bash", {"command": f"echo begun > begun.txt; {LONG}"})


def kept(folder: Path) -> Saved:
    """Read the conversation that was kept."""
    [file] = (folder / "state" / "toolwire" / "conversations").iterdir()
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
            assert "  made.txt (a new file)\n  + 1 one\n  + 2 two\nWrite it? " in shown.plain
            shown.said = ""
            shown.type(f"{answer}\n")
        assert shown.end() == 0
        assert shown.plain.count(ASKED) == 0, "always is always"
    assert (project(tmp_path) / "more.txt").read_text() == "x\n"


def test_an_end_of_the_input_at_a_question_is_a_no(tmp_path: Path) -> None:
    turns: list[Any] = [
        [WROTE],
        [Expect(results={"write_file": "the call was not approved: the user said no"}), "Done."],
    ]
    with simulate(turns) as model, terminal(tmp_path, "run", "do it", *at(model, tmp_path)) as shown:
        shown.until(ASKED)
        shown.type("\x04")
        assert shown.end() == 0, shown.said


def test_ctrl_c_at_a_question_leaves_nothing_behind(tmp_path: Path) -> None:
    with simulate([[WROTE]]) as model, terminal(tmp_path, "run", "do it", *at(model, tmp_path)) as shown:
        shown.until(ASKED)
        shown.interrupt()
        assert (shown.end(), "abandoned" in shown.said) == (130, False)


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
def test_the_looks_are_on_a_terminal_that_has_them(tmp_path: Path, more: dict[str, Any], coloured: bool) -> None:
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


SLOWLY = "word " * 400
# Where Ctrl-C is pressed: what the model does there, and what is seen; nothing where the model has only been asked.
POINTS: dict[str, tuple[list[Any], str]] = {
    "before the answer": ([Wait(60), "Too late."], ""),
    "while that is said": ([Wait(60), "Too late."], "waiting for the model, 1 s"),
    "in its words": ([Pace(0.2), SLOWLY], "word"),
    "in its thoughts": ([Pace(0.2), Thinking(text=SLOWLY)], "word"),
    "in a call that it writes": (
        [Pace(0.2), ToolCall(None, "write_file", {"path": "made.txt", "content": SLOWLY})],
        "the model writes a call of write_file",
    ),
    "before a retry": ([Fail(Error("rate_limit", "Too many.", 429), 50)], "retry in 4"),
    "in a tool": ([SHELL], ""),
    "in a tool that writes": ([ToolCall(None, "bash", {"command": f"echo begun; {LONG}"})], "1 s begun"),
    "at the question": ([WROTE], ASKED),
    "at the second question": ([WROTE, ToolCall(None, "bash", {"command": LONG})], f"$ {LONG}"),
}
# Where an answer is on its way: the server sees that the client left.
ON_ITS_WAY = ("before the answer", "while that is said", "in its words", "in its thoughts", "in a call that it writes")


def has_second_turn(model: Any) -> bool:
    """Whether the model was asked for its second turn, and begins it."""
    return any(request.turn == 1 and request.status is not None for request in model.requests)


def stop_at(shown: Terminal, point: str, model: Any, folder: Path) -> None:
    """Wait for a point of a run, and press Ctrl-C there."""
    if point == "before the answer":
        shown.when(lambda: has_second_turn(model))
    elif point == "at the second question":
        shown.until(ASKED)
        shown.type("n\n")
        shown.until(POINTS[point][1])
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
    yes = [] if "question" in point else ["--yes"]
    more = ["--traces", f"sqlite:///{tmp_path / 'traces.db'}"]
    with simulate(turns) as model:
        with terminal(tmp_path, "run", "do it", *yes, *more, *at(model, tmp_path), columns=200) as shown:
            stop_at(shown, point, model, tmp_path)
            pressed = time.monotonic()
            assert (shown.end(), "interrupted" in shown.plain) == (130, True)
            assert time.monotonic() - pressed < 20
            assert shown.is_as_it_was()
        assert "Traceback" not in shown.plain
        [file] = (tmp_path / "state" / "toolwire" / "conversations").iterdir()
        assert f"[to continue: toolwire run --continue {file.stem}]" in shown.plain
        with traces.open(more[1], create=False) as store:
            assert (store.verify().count, store.count() > 0) == (0, True)
        assert running(LONG) == []
        if point in ON_ITS_WAY:
            assert model.requests[-1].over.wait(20)
            assert model.requests[-1].gone, "the server sees that the client left"
        messages = kept(tmp_path).context.messages
        assert messages[0].text == "do it"
        calls = [part.id for one in messages for part in one.parts if isinstance(part, ToolCall)]
        results = [part.tool_call_id for one in messages for part in one.parts if isinstance(part, ToolResult)]
        assert calls == results
        for provider in PROVIDERS:
            model.play([["Finished."]])
            with terminal(tmp_path, "run", "finish it", "--continue", *at(model, tmp_path, provider)) as shown:
                assert shown.end() == 0, shown.said
            assert "Finished." in shown.plain
            assert model.requests[-1].refused is None


def test_ctrl_c_while_the_command_is_loaded_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "difflib.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    place = f"{tmp_path}:{SOURCE}"
    with terminal(tmp_path, "run", "do it", "--model", "ollama/m", PYTHONPATH=place) as shown:
        shown.until("loading")
        shown.interrupt()
        assert (shown.end(), "Traceback" in shown.said) == (130, False)


def test_ctrl_c_at_the_question_what_to_do_next(tmp_path: Path) -> None:
    """What has its answer is not asked again unasked: nothing is sent before the user says what is to be done."""
    with simulate([["Done."], [Expect(last="more", messages=4), "More."]]) as model:
        with terminal(tmp_path, "run", "do it", *at(model, tmp_path)) as shown:
            assert shown.end() == 0
        with terminal(tmp_path, "run", "--continue", *at(model, tmp_path)) as shown:
            shown.until('1 turn: "do it"]')
            shown.until("What is the next task? ")
            shown.interrupt()
            assert (shown.end(), shown.is_as_it_was(), len(model.requests)) == (130, True, 1)
        with terminal(tmp_path, "run", "--continue", *at(model, tmp_path)) as shown:
            shown.until("What is the next task? ")
            shown.type("more\n")
            assert shown.end() == 0


def test_it_is_said_what_is_waited_for_and_taken_away_afterwards(tmp_path: Path) -> None:
    ticks = ToolCall(None, "bash", {"command": "echo tick; sleep 1.5"})
    turns: list[Any] = [
        [Wait(1.5), ticks],
        [Fail(Error("rate_limit", "Too many.", 429), 2)],
        [Wait(1.5), "Done."],
    ]
    with simulate(turns) as model, terminal(tmp_path, "run", "x", "--yes", *at(model, tmp_path), columns=60) as shown:
        for words in ("waiting for the model, 1 s", "bash running, 1 s tick", "retry in 1 s: Too many.", "Done."):
            shown.until(words)
        assert shown.end() == 0
    for words in ("waiting", "running", "retry"):
        assert words not in shown.plain, "it is taken away"


@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_terminal_without_means_gets_words_alone(tmp_path: Path, more: dict[str, Any]) -> None:
    turns: list[Any] = [[Fail(Error("rate_limit", "Too many.", 429), 1.2)], [Thinking(text="Hm."), "Done."]]
    with simulate(turns) as model, terminal(tmp_path, "run", "x", *at(model, tmp_path), columns=60, **more) as shown:
        assert shown.end() == 0
    assert "[thinking] Hm.\nDone.\n" in shown.plain
    if "TERM" in more:
        assert "\x1b" not in shown.said
        assert shown.said.startswith("[retry in 2 s: Too many.]\n")


def test_words_are_not_cut_at_the_edge(tmp_path: Path) -> None:
    words = (
        "A text of many words, some of which, like Donaudampfschiffahrt, would be cut at the edge, 東京は日本の首都。"
    )
    pieces = [words[at : at + 5] for at in range(0, len(words), 5)]
    with simulate([[Thinking(text=words), *pieces]]) as model:
        with terminal(tmp_path, "run", "do it", *at(model, tmp_path), columns=40) as shown:
            assert shown.end() == 0
        lines = shown.plain.splitlines()
        assert max(map(count_columns, lines)) <= 40
        for word in words.split()[:-1]:
            assert any(word in line for line in lines), word


def test_the_answer_in_a_pipe_leaves_the_terminal_to_the_steps(tmp_path: Path) -> None:
    """The person sees the steps and what is waited for, in their own width; the file gets the answer."""
    turns: list[Any] = [[Wait(1.5), ToolCall(None, "list_directory", {})], ["Done."]]
    with simulate(turns) as model:
        place = at(model, tmp_path)
        with terminal(tmp_path, "run", "do it", *place, columns=20, out=tmp_path / "out.txt") as shown:
            shown.until("waiting for the mod\x1b[0m\r\x1b[K")
            assert shown.end() == 0
    assert (tmp_path / "out.txt").read_text() == "Done.\n"
    assert "> list_directory()" in shown.plain
    assert "Done." not in shown.said


PASTED = {
    "marked": ["\x1b[200~one\ntwo\n  three\x1b[201~", "\r"],
    "unmarked": ["one\ntwo\n  three\n"],
    "unmarked, with returns": ["one\rtwo\r  three\r"],
    "unmarked, without an end": ["one\ntwo\n  three", "\r"],
    "typed, with backslashes": ["one\\\r", "two\\\r", "  three\r"],
    "typed, with Alt-Enter": ["one\x1b\r", "two\x1b\r", "  three\r"],
}


@pytest.mark.parametrize("how", PASTED)
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_lines_that_come_together_are_one_prompt(tmp_path: Path, how: str, term: str) -> None:
    if (how, term) == ("marked", "dumb"):
        pytest.skip("a terminal that cannot mark what is pasted")
    turns = [[Expect(last="one\ntwo\n  three", messages=2), "First."], [Expect(last="four", messages=4), "Second."]]
    with simulate(turns) as model, terminal(tmp_path, "chat", *at(model, tmp_path), columns=80, TERM=term) as shown:
        for keys, answer in ((PASTED[how], "First."), (["four\r"], "Second."), (["\x04"], "")):
            shown.prompted()
            for number, key in enumerate(keys, 1):
                shown.type(key)
                if key.endswith("\\\r"):  # what is typed before the next line is asked for comes together with it
                    shown.until("...>", number)
                time.sleep(0.3)
            shown.until(answer)
        assert (shown.end(), shown.is_as_it_was()) == (0, True)


def test_what_was_typed_in_one_chat_is_at_hand_in_the_next(tmp_path: Path) -> None:
    with simulate([["One."], [Expect(last="hello there", messages=2), "Two."]]) as model:
        for keys, answer in (("hello there\r", "One."), ("\x1b[A\r", "Two.")):
            with terminal(tmp_path, "chat", *at(model, tmp_path), columns=80) as shown:
                for typed, shows in ((keys, answer), ("\x04", "")):
                    shown.prompted()
                    shown.type(typed)
                    shown.until(shows)
                assert shown.end() == 0
    assert stat.S_IMODE((tmp_path / "state" / "toolwire" / "history").stat().st_mode) == 0o600


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
            shown.when(lambda: has_second_turn(model))
            shown.process.kill()
            shown.end()
        assert [message.role for message in kept(tmp_path).context.messages] == ["user", "assistant", "tool"]
