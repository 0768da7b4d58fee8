"""The database of runs in a project folder: no tool reaches it, and where one does all the same, the run says so."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.commands import needs
from tests.runs.scripted import given, turns
from tests.runs.test_workers import worker
from toolwire import Runs, tool
from toolwire.codetools import CodeTools
from toolwire.databases import file_watch
from toolwire.errors import StoreFailed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands run on Linux only")
COMMANDS = (
    "rm -f runs.db*",
    ": > runs.db",
    "mv runs.db moved",
    "echo other > other; mv -f other runs.db",
    "rm -f runs.db-wal",
)
TAKEN = (COMMANDS[0], COMMANDS[2], COMMANDS[3])
# The engine looks for runs in a thread of its own, and may meet what stands there now.
MAY_MEET = pytest.mark.filterwarnings(
    "ignore:Exception in thread queue-worker:pytest.PytestUnhandledThreadExceptionWarning"
)


def one_fast(commands: Sequence[str]) -> list[Any]:
    """Leave all but the first to the slow tests."""
    return [commands[0], *(pytest.param(one, marks=pytest.mark.slow) for one in commands[1:])]


def led(folder: Path, made: Path, name: str, arguments: dict[str, Any], level: str) -> tuple[list[int], Any]:
    """Lead a run whose model takes the database away; give what ran after that, and the end."""
    shutil.copy(made, folder / "runs.db")
    ran: list[int] = []

    @tool
    def count() -> str:
        """Count."""
        ran.append(1)
        return "counted"

    say = turns([(name, arguments)], [("count", {})], "Done.")
    with Runs(f"sqlite:///{folder}/runs.db") as runs:
        tools: list[Any] = [count, CodeTools(folder, sandbox=level)]
        try:
            return ran, runs.start("Go", tools=tools, id="one", **given(say)).result(timeout=60)
        except StoreFailed as problem:
            return ran, problem


@pytest.mark.parametrize("command", one_fast(COMMANDS))
def test_no_command_of_a_run_reaches_its_database(tmp_path: Path, made_runs: Path, command: str) -> None:
    needs("bubblewrap")
    ran, done = led(tmp_path, made_runs, "bash", {"command": command}, "auto")
    assert (done.ending, ran) == ("answer", [1])
    with Runs(f"sqlite:///{tmp_path}/runs.db") as runs:
        assert [(run.id, run.reason) for run in runs.list()] == [("one", "answer")]


def test_no_other_tool_of_a_run_reaches_it_either(tmp_path: Path, made_runs: Path) -> None:
    _, done = led(tmp_path, made_runs, "write_file", {"path": "runs.db", "content": "other"}, "none")
    assert "the tools neither read nor write it" in str(done.messages[1].parts[0].content)


@MAY_MEET
@pytest.mark.parametrize("command", one_fast(COMMANDS))
@pytest.mark.slow
def test_where_it_is_taken_away_no_further_tool_runs(tmp_path: Path, made_runs: Path, command: str) -> None:
    ran, problem = led(tmp_path, made_runs, "bash", {"command": command}, "none")
    assert isinstance(problem, StoreFailed)
    assert "runs.db" in str(problem)
    assert ran == []


def test_a_journal_that_would_overwrite_it_is_refused(
    tmp_path: Path, made_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watch, "_TRANSACTION_SECONDS", 0.1)
    path = Path(shutil.copy(made_runs, tmp_path / "runs.db"))
    size = path.stat().st_size
    Path(f"{path}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    with pytest.raises(StoreFailed, match="would overwrite the store"):
        Runs(f"sqlite:///{path}")
    assert path.stat().st_size == size


def take_away(path: Path, command: str) -> None:
    """Take a database away, as a command does."""
    subprocess.run(["/bin/sh", "-c", command], cwd=path.parent, check=True)


@pytest.mark.parametrize("command", one_fast(TAKEN))
@MAY_MEET
def test_nothing_is_acknowledged_that_would_be_lost(tmp_path: Path, made_runs: Path, command: str) -> None:
    path = Path(shutil.copy(made_runs, tmp_path / "runs.db"))
    say: dict[str, Any] = {"provider": "openai", "model": "m"}
    with Runs(f"sqlite:///{path}") as runs:
        queued = runs.start("Go", queue="jobs", id="one", **say)
        assert queued.state == "queued"
        take_away(path, command)
        asked = (
            lambda: runs.start("Go", queue="jobs", id="two", **say),
            lambda: runs.limit("openai", at_once=2),
            lambda: runs.prune(0),
            queued.cancel,
            queued.resume,
            queued.result,
        )
        for one in asked:
            with pytest.raises(StoreFailed, match=r"runs\.db was removed, moved or replaced|runs\.db was cut"):
                one()


@pytest.mark.parametrize("command", TAKEN)
@pytest.mark.slow
def test_a_worker_whose_database_was_taken_away_says_so_and_ends(tmp_path: Path, made_runs: Path, command: str) -> None:
    path = Path(shutil.copy(made_runs, tmp_path / "runs.db"))
    begun = worker(f"sqlite:///{path}", tmp_path)
    try:
        assert begun.stdout is not None
        assert begun.stdout.readline().startswith("toolwire executes runs of queue jobs")
        take_away(path, command)
        _, complained = begun.communicate(timeout=60)
    finally:
        begun.kill()
        begun.communicate()
    assert begun.returncode == 1
    assert complained.count(f"toolwire: Runs: {path} was removed, moved or replaced") == 1
