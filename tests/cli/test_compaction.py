"""A conversation that is too long for the model is summarised, and goes on; the whole one is kept."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Said, at, project, say, terminal
from toolwire.cli.compaction import is_full, summarised, summary_request
from toolwire.client.saving import load
from toolwire.testing import Expect, Fail, Wait, simulate
from toolwire.types import Error, Message, Response, Text, ToolCall, ToolResult, Usage

LONG = [Fail(Error("context_length", "This model's maximum context length is 10 tokens.", 400))]
SUMMARY = "Ann wants a file."
START = "This is a summary of the conversation so far, because it was too long:\n\nAnn wants a file."


@pytest.fixture
def command(capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run_command(model: Any, *arguments: str, given: str = "") -> Said:
        return say(capfd, monkeypatch, tmp_path, *arguments, *at(model, tmp_path), given=given)

    return run_command


def user_texts(request: Any) -> list[str]:
    return [message.text for message in request.messages if message.role == "user"]


def asks_for_a_summary(request: Any) -> bool:
    [text] = user_texts(request)
    return text.startswith("Summarise this conversation") and not request.tools and "user: I am Ann." in text


def goes_on(*prompts: str) -> Expect:
    """Expect the summary, and these prompts after it."""

    def is_so(request: Any) -> bool:
        first, *others = user_texts(request)
        return first.startswith(START) and others == list(prompts) and bool(request.tools)

    return Expect(where=is_so)


SUMMARISE: list[Any] = [Expect(where=asks_for_a_summary), SUMMARY]


def kept(folder: Path) -> list[list[str]]:
    files = (folder / "state" / "toolwire" / "conversations").glob("*.json")
    return sorted([message.text for message in load(file.read_bytes()).context.messages] for file in files)


def test_a_chat_is_summarised_when_the_user_says_so(command: Any, tmp_path: Path) -> None:
    turns: list[Any] = [["Hello, Ann."], SUMMARISE, [goes_on("Who am I?"), "Ann."]]
    with simulate(turns) as model:
        said = command(model, "chat", given="/compact\nI am Ann.\n/compact\nWho am I?\n").text
    assert "[there is nothing to summarise]" in said
    assert "[2 messages are summarised; the whole conversation is kept as " in said
    whole, short = kept(tmp_path)
    assert whole == ["I am Ann.", "Hello, Ann."]
    assert short[0].startswith(START)
    assert short[0].endswith("The user's last message was:\n\nI am Ann.")
    assert short[1:] == ["I continue from there.", "Who am I?", "Ann."]


def test_a_prompt_that_is_too_much_is_sent_again_after_a_summary(command: Any) -> None:
    turns: list[Any] = [["Hello, Ann."], LONG, SUMMARISE, [goes_on("Who am I?"), "Ann."]]
    with simulate(turns) as model:
        said = command(model, "chat", given="I am Ann.\nWho am I?\n")
    assert said.out.splitlines()[-1] == "Ann."
    assert "2 messages are summarised" in said.told


def test_a_run_that_becomes_too_long_goes_on_after_a_summary(command: Any, tmp_path: Path) -> None:
    (project(tmp_path) / "a.txt").write_text("x" * 5000)
    read = ToolCall(None, "read_file", {"path": "a.txt"})
    turns: list[Any] = [[read], LONG, SUMMARISE, [goes_on("Go on."), "Done."]]
    with simulate(turns) as model:
        said = command(model, "run", "I am Ann.")
    assert (said.code, said.out) == (0, "Done.\n")
    [text] = user_texts(model.requests[2].request)
    assert 'call: read_file(path="a.txt")' in text
    assert len(text) < 3000, "long results are cut"


@pytest.mark.parametrize("turn", [[Fail(Error("invalid_request", "No.", 400))], ["   "], LONG])
def test_without_a_summary_the_error_is_that_of_the_prompt(command: Any, turn: list[Any]) -> None:
    turns: list[Any] = [["Hello, Ann."], LONG, *([turn] * (3 if turn == ["   "] else 1))]
    with simulate(turns) as model:
        said = command(model, "chat", given="I am Ann.\nWho am I?\n").text
    assert "[the conversation was not summarised: " in said
    assert "maximum context length" in said


def test_a_first_prompt_that_is_too_long_is_an_error(command: Any) -> None:
    with simulate([LONG]) as model:
        said = command(model, "run", "I am Ann.")
    assert (said.code, said.out) == (1, "")
    assert "maximum context length" in said.told


def test_it_is_tried_once(command: Any) -> None:
    with simulate([["Hello, Ann."], LONG, SUMMARISE, LONG]) as model:
        said = command(model, "chat", given="I am Ann.\nWho am I?\n").text
    assert "maximum context length" in said


def test_a_window_that_is_nearly_full_is_seen(capfd: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    turns: list[Any] = [
        ["Hello, Ann.", Usage(input_tokens=110_000, output_tokens=10)],
        SUMMARISE,
        [goes_on("Who am I?"), "Ann."],
    ]
    with simulate(turns) as model:
        options = ["-m", "openai/gpt-4o", "--base-url", model.url, "--cwd", str(project(tmp_path))]
        said = say(capfd, monkeypatch, tmp_path, "chat", *options, given="I am Ann.\nWho am I?\n")
    assert said.out.splitlines()[-1] == "Ann."


@pytest.mark.parametrize(
    ("model", "usage", "full"),
    [
        ("gpt-4o", Usage(input_tokens=102_000, output_tokens=300), False),
        ("gpt-4o", Usage(input_tokens=102_000, output_tokens=500), True),
        ("gpt-4o", None, False),
        ("gpt-4o", Usage(), False),
        ("nobody-knows-it", Usage(input_tokens=10**9), False),
    ],
)
def test_a_window_is_full_at_four_fifths(model: str, usage: Usage | None, full: bool) -> None:
    assert is_full(model, Response.of(Message("assistant", "x"), "stop", usage=usage)) is full
    assert is_full(model, None) is False


def test_the_request_for_a_summary_fits_in_any_case() -> None:
    call = ToolCall("1", "read_file", {"path": "a"})
    result = ToolResult("1", "read_file", "y" * 9000)
    messages = [
        Message("user", "first " + "x" * 100_000),
        *[Message("assistant", [Text("I look."), call]), Message("tool", [result])] * 200,
        Message("user", "last"),
    ]
    text = summary_request(messages, "nobody-knows-it")
    assert len(text) < 61_000
    assert ("user: first" in text, text.endswith("user: last")) == (True, True)
    [summary, answer] = summarised(messages, " S. ")
    assert summary.text.endswith("too long:\n\nS.\n\nThe user's last message was:\n\nlast")
    assert answer.role == "assistant"


@pytest.mark.slow
def test_ctrl_c_during_a_summary_sends_no_prompt(tmp_path: Path) -> None:
    turns: list[Any] = [["Hello, Ann."], LONG, [Expect(where=asks_for_a_summary), Wait(60), "Too late."]]
    with simulate(turns) as model, terminal(tmp_path, "chat", *at(model, tmp_path)) as shown:
        shown.prompted()
        shown.type("I am Ann.\n")
        shown.prompted()
        shown.type("Who am I?\n")
        shown.until("the model summarises the conversation, 1 s")
        shown.interrupt()
        shown.until("you> ")
        shown.type("/quit\n")
        assert shown.end() == 0
        assert "the conversation was not summarised" in shown.plain
    assert len(model.requests) == 3
