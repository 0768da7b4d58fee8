"""A store in a project folder: no tool reaches it, and where one does all the same, no further tool runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client.faces import FACES, lead
from tests.traces.making import record
from toolwire import ToolCall, tool, traces
from toolwire.codetools import CodeTools
from toolwire.errors import StoreFailed
from toolwire.resolvers import Composition, approved, filtered, prefixed
from toolwire.resolvers.execution import execute
from toolwire.testing import simulate
from toolwire.traces.store import Store

MARK = "weather"
CONTENT = {"content": "other"}
EDIT = {"old_text": MARK, "new_text": "other"}
BASH = (
    "cat {name}",
    "rm -f {name}",
    "mv {name} moved",
    ": > {name}",
    "echo other >> {name}",
    "truncate -s 10 {name}",
    "ln {name} linked && cat linked",
    "cp -al . $TMPDIR/all && cat $TMPDIR/all/{name}",
    "echo other > other && mv -f other {name}",
    "grep -r {mark} .",
    "chmod 000 {name}",
)
FILES = ("traces.db", "traces.db-wal", "traces.db-shm")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """Give a store in a project folder."""
    with traces.open(f"sqlite:///{tmp_path / 'traces.db'}") as made:
        record(made, 6)
        yield made


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "traces.db-shm"}


def calls(name: str) -> list[ToolCall]:
    """Make a call of each tool that takes the path of a file, and many of bash."""
    path = {"path": name}
    found: dict[str, dict[str, Any]] = {
        "read_file": path,
        "write_file": {**path, **CONTENT},
        "append_to_file": {**path, **CONTENT},
        "edit_file": {**path, **EDIT},
        "multi_edit": {**path, "edits": [EDIT]},
        "file_info": path,
        "grep": {**path, "pattern": MARK},
    }
    bash = [{"command": command.format(name=name, mark=MARK)} for command in BASH]
    plain = [ToolCall("c", tool_name, arguments) for tool_name, arguments in found.items()]
    return [*plain, *(ToolCall("c", "bash", arguments) for arguments in bash)]


@pytest.mark.parametrize("name", FILES)
def test_no_tool_reaches_what_is_covered(tmp_path: Path, store: Store, name: str) -> None:
    kit = CodeTools(tmp_path, covered=store.files)
    before = contents(tmp_path)
    for call in calls(name):
        [result] = execute([call], kit)
        assert MARK not in str(result.content), call
        assert result.is_error or call.name in ("bash", "grep"), call
        for made in ("other", "linked", "moved"):
            (tmp_path / made).unlink(missing_ok=True)
        assert contents(tmp_path) == before, call
        assert store.failed is None, call
    record(store, 2)
    assert store.verify().ok


@pytest.mark.parametrize("command", ["mv sub old", "mv sub/deep old", "mv sub old && ln -s old sub", "rm -rf sub"])
@pytest.mark.slow
def test_the_folder_of_a_store_stays_where_it_is(tmp_path: Path, command: str) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    with traces.open(f"sqlite:///{tmp_path}/sub/deep/traces.db") as store:
        record(store, 6)
        [result] = execute([ToolCall("c", "bash", {"command": command})], CodeTools(tmp_path, covered=store.files))
        assert result.is_error
        record(store, 2)
        assert (store.count(), store.verify().ok) == (8, True)


@pytest.mark.parametrize("name", ["traces.db-journal", "TRACES.DB", "sub/../traces.db", "./traces.db"])
def test_what_is_not_there_yet_and_other_spellings_are_covered_too(tmp_path: Path, store: Store, name: str) -> None:
    kit = CodeTools(tmp_path, covered=store.files)
    [result] = execute([ToolCall("c", "write_file", {"path": name, **CONTENT})], kit)
    assert result.is_error
    assert "the tools neither read nor write it" in str(result.content)
    assert store.failed is None


def test_another_folder_of_the_same_tools_is_covered_too(tmp_path: Path, store: Store) -> None:
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    kit = CodeTools(elsewhere)
    [result] = execute([ToolCall("c", "read_file", {"path": "traces.db"})], kit.at(tmp_path))
    assert "secret" not in str(result.content)
    kit.cover_files(store.files)
    for one in (kit.at(tmp_path), Composition([(kit, str(tmp_path))])):
        [result] = execute([ToolCall("c", "write_file", {"path": "traces.db", **CONTENT})], one)
        assert "the tools neither read nor write it" in str(result.content)


def test_what_lies_elsewhere_covers_nothing(tmp_path: Path) -> None:
    kit = CodeTools(tmp_path, covered=["/elsewhere/notes.txt"])
    [result] = execute([ToolCall("c", "write_file", {"path": "notes.txt", **CONTENT})], kit)
    assert not result.is_error


WRAPPED: dict[str, Any] = {
    "alone": lambda kit: kit,
    "approved": lambda kit: approved(kit, lambda *_: True),
    "filtered and composed": lambda kit: Composition([filtered(kit, ["bash", "write_file"])]),
    "in a list": lambda kit: [kit],
}


@pytest.mark.sampled
@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.parametrize("face", FACES)
def test_a_run_covers_its_store(tmp_path: Path, store: Store, face: str, how: str) -> None:
    attacks = [
        ToolCall(None, "write_file", {"path": "traces.db", **CONTENT}),
        ToolCall(None, "bash", {"command": "rm -f traces.db*; : > traces.db"}),
    ]
    with simulate([attacks, ["Done."]]) as model:
        done = lead(face, "openai", model.url, "Go", tools=WRAPPED[how](CodeTools(tmp_path)), traces=store).done
    assert done.ending == "answer"
    assert store.count() == 8
    assert store.verify().ok


def test_names_that_a_wrapper_changes_are_covered_as_well(tmp_path: Path, store: Store) -> None:
    tools = prefixed(CodeTools(tmp_path), "p_")
    call = ToolCall(None, "p_write_file", {"path": "traces.db", **CONTENT})
    with simulate([[call], ["Done."]]) as model:
        lead("sync", "openai", model.url, "Go", tools=tools, traces=store)
    assert [one.result_type for one in store.traces(newest=True, limit=1).rows] == ["error"]


COMMANDS = (
    "rm -f traces.db*",
    "mv traces.db moved",
    ": > traces.db",
    "echo other > o; mv o traces.db",
    "rm traces.db-wal",
)


@pytest.mark.sampled
@pytest.mark.parametrize("place", ["the first call", "a later turn", "beside another call"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("face", FACES)
def test_where_a_command_takes_the_store_no_further_tool_runs(
    tmp_path: Path, face: str, command: str, place: str
) -> None:
    """Without a sandbox a command does what it likes: no call after its turn runs, and the run says so."""
    store = traces.open(f"sqlite:///{tmp_path / 'traces.db'}")
    ran: list[int] = []

    @tool
    def count() -> str:
        """Count."""
        ran.append(1)
        return "counted"

    attack, harmless = ToolCall(None, "bash", {"command": command}), ToolCall(None, "count", {})
    script: list[Any] = {
        "the first call": [[attack]],
        "a later turn": [[harmless], [harmless], [attack]],
        "beside another call": [[harmless, attack]],
    }[place]
    before = sum(turn.count(harmless) for turn in script)
    tools = [count, CodeTools(tmp_path, sandbox="none")]
    with pytest.raises(StoreFailed), simulate([*script, [harmless], ["Done."]]) as model:
        lead(face, "openai", model.url, "Go", tools=tools, traces=store)
    assert len(ran) == before
    for end in (store.flush, store.close, lambda: asyncio.run(store.aflush())):
        with pytest.raises(StoreFailed):
            end()
