"""`toolwire chat`: prompts line by line, from a pipe and on a terminal."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import WROTE, at, project, say, terminal
from toolwire.client.saving import load
from toolwire.testing import Expect, Pace, simulate
from toolwire.types import Error, ToolCall


@pytest.fixture
def chat(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run_command(model: Any, given: str, *more: str) -> Any:
        return say(capfd, monkeypatch, tmp_path, "chat", *at(model, tmp_path), *more, given=given)

    return run_command


def test_each_line_of_a_pipe_is_a_prompt(chat: Any) -> None:
    turns = [
        [Expect(last="hello", messages=2), "Hello."],
        [Expect(last="and?", messages=4), ToolCall(None, "list_directory", {})],
        [Expect(messages=6), "Nothing."],
    ]
    with simulate(turns) as model:
        said = chat(model, "hello\n\nand?")
    assert said.code == 0
    assert said.out.splitlines() == ["Hello.", "Nothing."]
    lines = [line for line in said.told.splitlines() if line and "tokens" not in line]
    assert lines[:-1] == ["[openai m; /help lists the commands]", "> list_directory()", "  (empty folder)"]
    assert re.fullmatch(r"\[to continue: toolwire chat --continue [0-9a-f-]+\]", lines[-1])


def test_commands(chat: Any, tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    first = ["/help", "/tools", "/odd", "/model", "hello", f"/save {file}"]
    given = "\n".join([*first, "/model other", "again", "/model nobody/x", "/quit", "never"])
    with simulate(
        [
            ["Hello."],
            [Expect(model="other", messages=4), "Again."],
        ]
    ) as model:
        said = chat(model, given, "--tools", "bash,grep").text
    for words in (
        "/save FILE",
        "bash             Run a shell command",
        "there is no /odd",
        f"[written to {file}]",
    ):
        assert words in said
    assert "read_file" not in said
    assert [message.text for message in load(file.read_bytes()).context.messages] == ["hello", "Hello."]
    assert "[openai nobody/x]" in said, "what names no provider is a model of the present one"


def test_another_provider_goes_on(chat: Any) -> None:
    with simulate([["Hello."]]) as model:
        said = chat(model, "hello\n/model groq/llama\nand now?\n/model openai/m\n")
    assert "[groq llama]\ngroq: there is no key: set GROQ_API_KEY, or toolwire auth set groq\n[openai m]" in said.text


def test_an_error_is_said_and_the_chat_goes_on_without_it(chat: Any) -> None:
    turns = [[Error("invalid_request", "Too odd.", 400)], [Expect(last="plain", messages=2), "Fine."]]
    with simulate(turns) as model:
        said = chat(model, "odd\nplain\n/save nowhere/x\n")
    assert said.code == 0
    assert "Too odd." in said.text
    assert "Fine." in said.text
    assert "nowhere/x: No such file or directory\n" in said.text
    assert "Traceback" not in said.text


def test_a_chat_is_gone_on_with(chat: Any) -> None:
    with simulate([["Hello."], [Expect(messages=4), "Again."]]) as model:
        chat(model, "hello\n")
        assert "Again." in chat(model, "again\n", "--continue").text


@pytest.mark.slow
def test_ctrl_c_stops_an_answer_and_ctrl_d_ends_the_chat(tmp_path: Path) -> None:
    begun = ToolCall(None, "bash", {"command": "touch begun.txt; sleep 62.5"})
    turns: list[Any] = [
        [Pace(0.2), "word " * 400],
        [Expect(messages=4), begun],
        [Expect(results={"bash": "cancelled"}), WROTE],
        [Expect(results={"write_file": "Wrote 8 bytes"}), "Done."],
    ]
    with simulate(turns) as model, terminal(tmp_path, "chat", *at(model, tmp_path)) as shown:
        shown.until("you> ")
        time.sleep(0.3)
        shown.interrupt()
        shown.until("/quit or Ctrl-D ends the chat")
        shown.type("one\n")
        shown.until("word")
        shown.interrupt()
        shown.until("interrupted")
        shown.type("two\n")
        shown.until("or say why not: ")
        shown.type("y\n")
        shown.when((project(tmp_path) / "begun.txt").exists)
        shown.interrupt()
        shown.when(lambda: shown.plain.count("interrupted") == 2)
        shown.said = ""
        shown.type("three\n")
        shown.until("or say why not: ")
        shown.type("yes\n")
        shown.until("Done.")
        shown.said = ""
        shown.until("you> ")
        time.sleep(0.3)
        shown.type("\x04")
        assert shown.end() == 0
