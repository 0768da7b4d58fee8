"""The commands of a chat: modes, undo, diff, summaries, clear and cost."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import WROTE, at, project, say, system_of, terminal
from toolwire.cli.conversations import read
from toolwire.testing import Expect, simulate
from toolwire.types import Error, ToolCall, Usage

EDITED = ToolCall(None, "edit_file", {"path": "a.txt", "oldText": "one", "newText": "two"})


@pytest.fixture
def chat(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run_command(model: Any, prompts: list[str], *more: str, provider: str = "openai", command: str = "chat") -> Any:
        arguments = [command, *at(model, tmp_path, provider), *more]
        return say(capfd, monkeypatch, tmp_path, *arguments, given="\n".join([*prompts, ""]))

    return run_command


def conversations(folder: Path) -> list[Path]:
    return sorted((folder / "state" / "toolwire" / "conversations").glob("*.json"))


def test_undo_and_diff(chat: Any, tmp_path: Path) -> None:
    (project(tmp_path) / "a.txt").write_text("one\n")
    note = "[The user took back your last edits of: a.txt, made.txt]\n\nagain"
    turns: list[Any] = [[EDITED, WROTE], ["Done."], [Expect(last=note), "I see."]]
    with simulate(turns) as model:
        said = chat(model, ["/undo", "go", "/diff", "/undo", "/diff", "/undo", "again"], "--mode", "edits")
    assert said.code == 0
    lines = said.told.splitlines()
    assert lines.count("there are no edits to take back") == 2
    assert "  - 1 one\n  + 1 two\n  made.txt (a new file)\n  + 1 one\n  + 2 two\n" in said.told
    assert "restored a.txt\nremoved made.txt\n[no file differs from what it was before the edits]" in said.told
    assert (project(tmp_path) / "a.txt").read_text() == "one\n"
    assert not (project(tmp_path) / "made.txt").exists()


def test_a_note_for_the_model_waits_until_it_has_answered(chat: Any) -> None:
    note = "[The user took back your last edits of: made.txt]"
    turns: list[Any] = [
        [WROTE],
        ["Done."],
        [Expect(last=f"{note}\n\nfirst"), Error("invalid_request", "Not now.", 400)],
        [Expect(last=f"{note}\n\nsecond"), "I see."],
        [Expect(last="third"), "Yes."],
    ]
    with simulate(turns) as model:
        said = chat(model, ["go", "/undo", "first", "second", "third"], "--mode", "edits")
    assert "Not now." in said.told
    assert said.out == "Done.\nI see.\nYes.\n"


def test_an_edit_of_run_is_taken_back_in_a_chat_that_continues_it(chat: Any, tmp_path: Path) -> None:
    (project(tmp_path) / "a.txt").write_text("one\n")
    command = ToolCall(None, "bash", {"command": "touch b.txt"})
    with simulate([[EDITED, command], ["Done."]]) as model:
        assert chat(model, ["go"], "--yes", command="run").code == 0
        said = chat(model, ["/undo"], "--continue")
    assert "restored a.txt\n[what commands of bash changed is not taken back]" in said.told
    assert (project(tmp_path) / "a.txt").read_text() == "one\n"
    assert (project(tmp_path) / "b.txt").exists()


def test_a_file_goes_with_the_next_prompt_alone(chat: Any, tmp_path: Path) -> None:
    (tmp_path / "sketch").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    lines = ["/attach", "/attach nothing.png", f"/attach {tmp_path}/sketch", "what is it?", "and now?"]
    with simulate(["A cat.", "Still a cat."]) as model:
        said = chat(model, lines)
    assert "name a file: /attach FILE" in said.text
    assert "nothing.png: No such file or directory" in said.text
    assert f"[{tmp_path}/sketch goes with the next prompt]" in said.text
    requests: Any = [sent.request for sent in model.requests]
    first, second = (request.messages[-1] for request in requests)
    assert [type(part).__name__ for part in first.parts] == ["Image", "Text"]
    assert second.text == "and now?"
    assert [type(part).__name__ for part in second.parts] == ["Text"]


def test_modes_change_what_is_asked_and_the_system_prompt(chat: Any, tmp_path: Path) -> None:
    turns: list[Any] = [
        [WROTE],
        [Expect(results={"write_file": "plan mode"}), "A plan."],
        [WROTE],
        [Expect(results={"write_file": "Wrote 8 bytes"}), "Done."],
    ]
    prompts = ["/mode", "one", "/mode edits", "two", "/mode fast", "/mode edit", "/mode forget"]
    with simulate(turns) as model:
        said = chat(model, prompts, "--mode", "plan", "--deny", "bash(git push *)", "--allow", "bash(ls *)")
    assert "[openai m; mode plan; /help lists the commands]" in said.told
    assert "plan: look only" in said.told
    assert "allowed: bash(ls *)\ndenied: bash(git push *)" in said.told
    assert "[edits: change files of the project without asking" in said.told
    assert "there is no mode 'edit'; did you mean edits?; there are: plan, ask, edits, all" in said.told
    assert "[0 kept rules are removed]" in said.told
    assert ["plan mode" in system_of(sent) for sent in model.requests] == [True, True, False, False]
    assert (project(tmp_path) / "made.txt").exists()


def test_a_denied_call_is_shown_with_the_reason_and_not_run(chat: Any, tmp_path: Path) -> None:
    call = ToolCall(None, "bash", {"command": "echo a && touch made"})
    with simulate([[call], [Expect(results={"bash": "the rule bash(touch *) denies it"}), "I see."]]) as model:
        said = chat(model, ["go"], "--yes", "--deny", "bash(touch *)", command="run")
    assert "the call was not approved: the rule bash(touch *) denies it" in said.told
    assert not (project(tmp_path) / "made").exists()


def test_a_summary_replaces_the_conversation_and_the_whole_one_is_saved(chat: Any, tmp_path: Path) -> None:
    turns: list[Any] = [
        [ToolCall(None, "list_directory", {})],
        ["It is empty."],
        ["The task: look."],
        [Expect(last="and now?", messages=4), "Nothing."],
    ]
    with simulate(turns) as model:
        said = chat(model, ["/compact", "look", "/compact the files", "and now?", "/cost"])
    assert said.code == 0, said.text
    assert "there is nothing to summarize yet" in said.told
    whole, compacted = (read(path) for path in conversations(tmp_path))
    if len(whole.context.messages) == 4 and whole.prompts[0] != "look":
        whole, compacted = compacted, whole
    assert [message.role for message in whole.context.messages] == ["user", "assistant", "tool", "assistant"]
    assert [message.text for message in compacted.context.messages] == [
        "Summarize our conversation, so that you can go on with the summary alone.",
        "The task: look.",
        "and now?",
        "Nothing.",
    ]
    summary = model.requests[2].request
    assert summary is not None
    text = summary.messages[-1].text
    assert "Say most about this: the files" in text
    assert "user: look\n\ncall: list_directory()\n\nresult of list_directory: (empty folder)" in text
    assert not summary.context.tools
    assert "[4 messages were replaced by a summary; all of them are saved as " in said.told
    assert "openai/m: 4 requests, " in said.told
    assert "the price is not known" in said.told


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama", "openai-responses"])
def test_what_is_too_long_is_summarized_and_tried_once(chat: Any, provider: str) -> None:
    too_long = Error("context_length", "The prompt is too long.", 400)
    turns: list[Any] = [["One."], [too_long], ["They said one."], [Expect(last="two"), "Two."]]
    with simulate(turns) as model:
        said = chat(model, ["one", "two"], provider=provider)
    assert said.out == "One.\nTwo.\n", said.told
    assert "[2 messages were replaced by a summary" in said.told
    turns = [["One."], [too_long], ["They said one."], [too_long]]
    with simulate(turns) as model:
        said = chat(model, ["one", "two"], provider=provider)
    assert said.out == "One.\n"
    assert "too long" in said.told
    assert said.told.count("replaced by a summary") == 1


def test_what_becomes_too_long_while_the_agent_works_is_summarized_and_goes_on(chat: Any) -> None:
    turns: list[Any] = [
        [ToolCall(None, "list_directory", {})],
        [Error("context_length", "The prompt is too long.", 400)],
        ["The task is to look."],
        [Expect(last="Go on."), "Done."],
    ]
    with simulate(turns) as model:
        said = chat(model, ["look"], command="run")
    assert (said.code, said.out) == (0, "Done.\n"), said.told
    assert "[3 messages were replaced by a summary" in said.told


def test_a_first_prompt_that_is_too_long_is_an_error(chat: Any) -> None:
    with simulate([[Error("context_length", "The prompt is too long.", 400)]]) as model:
        said = chat(model, ["one"], command="run")
    assert said.code == 1
    assert "too long" in said.told
    assert "Traceback" not in said.told


def test_a_context_that_fills_while_the_agent_works_is_summarized_and_the_work_goes_on(chat: Any) -> None:
    look = ToolCall(None, "list_directory", {})
    turns: list[Any] = [
        [look, Usage(500, 10)],
        [look, Usage(900, 10)],
        ["The task is to work."],
        [Expect(last="Go on."), "Done."],
    ]
    with simulate(turns) as model:
        said = chat(model, ["work"], "--window", "1000", "--json", command="run")
    assert said.code == 0, said.text
    assert '"type":"compacted","messages":5' in said.out
    assert '"ending":"answer","answer":"Done."' in said.out
    assert '"turns":3' in said.out


def test_a_context_that_is_nearly_full_is_summarized_before_the_next_prompt(chat: Any) -> None:
    turns: list[Any] = [["One.", Usage(900, 10)], ["They said one."], [Expect(last="two", messages=4), "Two."]]
    with simulate(turns) as model:
        said = chat(model, ["one", "two"], "--window", "1000")
    assert said.out == "One.\nTwo.\n"
    turns = [["One.", Usage(900, 10)], [Error("invalid_request", "Not now.", 400)], [Expect(messages=4), "Two."]]
    with simulate(turns) as model:
        said = chat(model, ["one", "two"], "--window", "1000")
    assert "[the context is nearly full, and there is no summary: " in said.told
    assert said.out == "One.\nTwo.\n"


def test_a_summary_that_fails_leaves_the_conversation_as_it_was(chat: Any) -> None:
    turns: list[Any] = [["One."], [Error("invalid_request", "Not now.", 400)], [Expect(messages=4), "Two."]]
    with simulate(turns) as model:
        said = chat(model, ["one", "/compact", "two"])
    assert "Not now." in said.told
    assert said.out == "One.\nTwo.\n"


def test_clear_begins_anew_and_keeps_the_last_one(chat: Any, tmp_path: Path) -> None:
    turns: list[Any] = [[WROTE], ["One."], [Expect(messages=2, last="two"), "Two."]]
    with simulate(turns) as model:
        said = chat(model, ["/clear", "one", "/clear", "/undo", "two"], "--mode", "edits")
    first, second = conversations(tmp_path)
    assert "[a new conversation]\n" in said.told
    assert f"[a new conversation; the last one is saved as {first.stem}]" in said.told or second.stem in said.told
    assert "there are no edits to take back" in said.told
    assert sorted(read(path).prompts[0] for path in (first, second)) == ["one", "two"]


def test_a_misspelt_command_is_named(chat: Any) -> None:
    with simulate([]) as model:
        said = chat(model, ["/udno", "/cost", "/help"])
    assert "there is no /udno; did you mean /undo?; /help lists the commands" in said.told
    assert "nothing was sent yet" in said.told
    for word in ("/model MODEL", "/mode MODE", "/undo", "/diff", "/compact WORDS", "/clear", "/cost", "/save FILE"):
        assert word in said.told


@pytest.mark.slow
@pytest.mark.parametrize("columns", [120, 40])
def test_always_adds_a_rule_that_the_next_run_has_too(tmp_path: Path, columns: int) -> None:
    first = ToolCall(None, "bash", {"command": "echo one"})
    second = ToolCall(None, "bash", {"command": "echo two"})
    third = ToolCall(None, "bash", {"command": "echo three; touch made"})
    turns: list[Any] = [[first], [second], [third], [Expect(results={"bash": "the user said no"}), "Done."]]
    place = ["--sandbox", "none"]
    with (
        simulate(turns) as model,
        terminal(tmp_path, "run", "go", *at(model, tmp_path), *place, columns=columns) as one,
    ):
        one.when(lambda: "[a]lways bash(echo *), or say why not: " in " ".join(one.plain.split()) + " ")
        one.type("a\n")
        one.when(lambda: "or say why not: " in " ".join(one.plain.partition("touch made")[2].split()) + " ")
        assert "[a]lways bash(touch *)" in " ".join(one.plain.split())
        one.type("n\n")
        assert one.end() == 0
    with (
        simulate([[first], ["Done."]]) as model,
        terminal(tmp_path, "run", "go", *at(model, tmp_path), *place, columns=columns) as one,
    ):
        assert one.end() == 0
        assert "say why not" not in one.plain
