"""What is kept of a run: one file each, found again, gone on with, and never written over."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import at, project, say
from toolwire.cli.conversations import ConversationFile, SavedConversation, is_id, read
from toolwire.client.saving import save
from toolwire.testing import Expect, simulate
from toolwire.types import Context, Message, ToolCall

LISTED = ToolCall(None, "list_directory", {})


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def run_command(model: Any, *arguments: str, command: str = "run", given: str = "") -> Any:
        return say(capfd, monkeypatch, tmp_path, command, *at(model, tmp_path), *arguments, given=given)

    return run_command


@pytest.fixture
def listed(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def list_command(*arguments: str) -> list[Any]:
        said = say(capfd, monkeypatch, tmp_path, "conversations", "--json", *arguments)
        return [json.loads(line) for line in said.out.splitlines()]

    return list_command


def files(folder: Path) -> list[Path]:
    return sorted((folder / "state" / "toolwire" / "conversations").iterdir())


def prompts(path: Path) -> list[str]:
    return read(path).prompts


def test_each_run_and_chat_has_a_file_that_no_other_one_writes(run: Any, tmp_path: Path) -> None:
    with simulate([["One."], ["Two."], ["Three."]]) as model:
        run(model, "First")
        [first] = files(tmp_path)
        before = first.read_bytes()
        run(model, "Second")
        run(model, command="chat", given="Third\n")
    assert sorted(words for path in files(tmp_path) for words in prompts(path)) == ["First", "Second", "Third"]
    assert first.read_bytes() == before


def test_they_are_listed_the_newest_first(run: Any, listed: Any, tmp_path: Path) -> None:
    with simulate([["One."], [LISTED], ["Two."]]) as model:
        run(model, "First\nof all")
        [path] = files(tmp_path)
        os.utime(path, (1, 1))
        run(model, "Second")
    second, first = listed()
    assert (first["words"], first["model"], first["turns"]) == ("First of all", "openai/m", 1)
    assert (first["id"], first["ending"]) == (path.stem, "answer")
    assert (second["words"], second["turns"]) == ("Second", 2)
    assert second["folder"] == os.path.realpath(project(tmp_path))
    assert {row["id"] for row in (first, second)} == {path.stem for path in files(tmp_path)}
    assert len(listed("--cwd", str(project(tmp_path)))) == 2
    assert listed("--cwd", str(tmp_path)) == []


def test_a_line_for_a_person_tells_one_from_another(
    run: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with simulate([["One."]]) as model:
        run(model, "First \x1b[2J words")
    (tmp_path / "state" / "toolwire" / "conversations" / "bad.json").write_text("{")
    said = say(capfd, monkeypatch, tmp_path, "conversations")
    path = next(path for path in files(tmp_path) if path.stem != "bad")
    folder = os.path.realpath(project(tmp_path))
    assert re.fullmatch(rf"{path.stem}  [-0-9]+ [0-9:]+  {folder}  openai/m  1 turn  First \\x1b\[2J words\n", said.out)
    assert "bad.json: load: " in said.told


def test_an_id_or_a_part_of_one_says_which_is_gone_on_with(run: Any, tmp_path: Path) -> None:
    turns = [["One."], ["Two."], [Expect(last="more", messages=4), "Three."], [Expect(last="and", messages=6), "Four."]]
    with simulate(turns) as model:
        run(model, "First")
        [first] = files(tmp_path)
        run(model, "Second")
        assert run(model, "more", "--continue", first.stem).code == 0
        said = run(model, "and", "--continue", first.stem[-4:])
    assert said.code == 0
    assert f"[continuing {first.stem} in " in said.told
    assert ', 2 turns: "First"]\n[the last prompt was: "more"]' in said.told
    assert (len(files(tmp_path)), prompts(first)) == (2, ["First", "more", "and"])


def test_without_an_id_it_is_the_last_one_of_this_folder(run: Any, tmp_path: Path) -> None:
    turns = [["One."], ["Two."], [Expect(last="more", messages=4), "Three."]]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with simulate(turns) as model:
        run(model, "First")
        run(model, "Second", "--cwd", str(elsewhere))
        assert run(model, "--continue", "more").code == 0, "what is no id is the task"
    assert ["First", "more"] in [prompts(path) for path in files(tmp_path)]


WRONG = {
    "nothing here": (["more", "--continue"], "there is no conversation to continue in this folder, /"),
    "no such id": (
        ["more", "--continue", "2099"],
        "there is no conversation 2099; `toolwire conversations`",
    ),
    "no such file": (["more", "--continue", "--session", "none.json"], "none.json does not exist"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_gone_on_with_is_said(run: Any, case: str) -> None:
    arguments, words = WRONG[case]
    with simulate([]) as model:
        said = run(model, *arguments)
    assert (said.code, words in said.told) == (2, True), said.told


def test_two_that_an_id_may_mean_are_not_guessed_between(run: Any, tmp_path: Path) -> None:
    with simulate([["One."], ["Two."]]) as model:
        run(model, "First")
        run(model, "Second")
        said = run(model, "more", "--continue", files(tmp_path)[0].stem[:4])
    assert (said.code, "2 conversations begin or end with" in said.told) == (2, True)


def test_an_answered_task_is_not_asked_again_unasked(run: Any, tmp_path: Path) -> None:
    with simulate([["One."]]) as model:
        run(model, "First")
        said = run(model, "--continue")
    assert (said.code, "the conversation already has its answer: pass a new task" in said.told) == (2, True)
    assert prompts(files(tmp_path)[0]) == ["First"]


def test_one_without_its_answer_goes_on_by_itself(run: Any) -> None:
    with simulate([[LISTED], [LISTED], [Expect(messages=6), "Done."]]) as model:
        said = run(model, "First", "--max-steps", "2")
        assert said.code == 3
        assert "[to continue: toolwire run --continue " in said.told
        assert said.told.count(" --max-steps N]") == 1
        assert run(model, "--continue").out == "Done.\n"


def test_a_file_that_is_named_is_never_written_over(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "here.json"
    with simulate([["One."], [Expect(last="Third", messages=4), "Three."]]) as model:
        assert run(model, "First", "--session", str(file)).code == 0
        said = run(model, "Second", "--session", str(file))
        assert (said.code, "already exists: pass --continue to continue it" in said.told) == (2, True)
        assert prompts(file) == ["First"]
        assert run(model, "Third", "--session", str(file), "--continue").code == 0
    assert prompts(file) == ["First", "Third"]


def test_a_file_that_is_empty_or_of_the_library_can_be_named(run: Any, tmp_path: Path) -> None:
    empty, saved = tmp_path / "empty.json", tmp_path / "saved.json"
    empty.touch()
    saved.write_text(save(Context(messages=[Message("Hello"), Message("assistant", "Hi.")]), "openai", "m"))
    with simulate([["One."], [Expect(last="more", messages=4), "Two."]]) as model:
        assert run(model, "First", "--session", str(empty)).code == 0
        assert run(model, "more", "--session", str(saved), "--continue").code == 0
    assert (prompts(empty), prompts(saved)) == (["First"], ["Hello", "more"])


def test_a_chat_saves_over_nothing(run: Any, tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("mine")
    with simulate([["One."]]) as model:
        said = run(
            model, command="chat", given=f"First\n/save {tmp_path / 'there.txt'}\n/save {tmp_path / 'new.json'}\n"
        )
    assert "there.txt already exists: name another file" in said.told
    assert ((tmp_path / "there.txt").read_text(), prompts(tmp_path / "new.json")) == ("mine", ["First"])


def test_two_that_go_on_with_the_same_keep_both(tmp_path: Path) -> None:
    path = tmp_path / "one.json"

    def kept(*words: str) -> SavedConversation:
        return SavedConversation(context=Context(messages=[Message(one) for one in words]))

    assert ConversationFile(path).save(kept("first"))
    one, other = ConversationFile(path), ConversationFile(path)
    assert one.save(kept("first", "one"))
    assert one.save(kept("first", "one", "again"))
    assert not other.save(kept("first", "other"))
    assert other.save(kept("first", "other", "again"))
    assert (prompts(path), prompts(other.path)) == (["first", "one", "again"], ["first", "other", "again"])


def test_the_folder_of_a_conversation_comes_back_with_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (project(tmp_path) / "notes.txt").write_text("tea\n")
    turns = [["One."], [LISTED], [Expect(results={"list_directory": "notes.txt"}), "Two."]]
    with simulate(turns) as model:
        say(capfd, monkeypatch, tmp_path, "run", "First", *at(model, tmp_path))
        monkeypatch.chdir("/")
        [path] = files(tmp_path)
        said = say(capfd, monkeypatch, tmp_path, "run", "more", "--continue", path.stem, "--base-url", model.url)
    assert (said.code, said.out) == (0, "Two.\n"), said.told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20261122-173059-7f3a", True),
        ("7f3a", True),
        ("2026", True),
        ("add", False),
        ("fix it", False),
        ("Fix7", False),
        ("", False),
    ],
)
def test_a_task_is_told_from_an_id(text: str, expected: bool) -> None:
    assert is_id(text) is expected
