"""`toolwire runs` and `toolwire run --durable`: what a person sees of runs, and what is asked of them."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.conftest import made_runs
from tests.runs.scripted import given, turns
from toolwire import Runs, ToolCall, tool
from toolwire.cli import main
from toolwire.testing import simulate

__all__ = ["made_runs"]


@tool
def pay(order: str) -> str:
    """Pay an order."""
    return f"order {order} is paid"


@pytest.fixture
def url(tmp_path: Path, made_runs: Path) -> str:
    shutil.copy(made_runs, tmp_path / "runs.db")
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def waiting(url: str) -> Iterator[Runs]:
    """Give runs of which one waits for a person."""
    with Runs(url) as runs:
        say = turns([("pay", {"order": "17\x1b[2J"})], "paid")
        run = runs.start("Pay.", id="order-17", tools=[pay], approve=["pay"], **given(say))
        late = time.monotonic() + 20
        while run.state != "waiting":
            assert time.monotonic() < late
            time.sleep(0.02)
        yield runs


def test_a_run_that_waits_is_listed_shown_and_answered(
    waiting: Runs, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "list", "--database", url]) == 0
    assert capsys.readouterr().out.startswith("order-17  waiting  -  20")
    assert main(["runs", "list", "--json", "--state", "waiting", "--database", url]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "order-17"
    assert main(["runs", "show", "order-17", "--database", url]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "order-17  waiting"
    assert shown[1].startswith("waits: call_0_0  pay ")
    assert "\x1b" not in "".join(shown)
    assert main(["runs", "answer", "order-17", "call_9", "--database", url]) == 2
    assert "is no call that waits" in capsys.readouterr().err
    assert main(["runs", "answer", "order-17", "call_0_0", "--no", "--reason", "too dear", "--database", url]) == 0
    assert waiting.run("order-17").result(20).messages[1].parts[0].content == "too dear"  # type: ignore[union-attr]
    assert main(["runs", "show", "order-17", "--after", "2", "--database", url]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("4  Done: paid")


def test_a_run_is_cancelled_and_removed(waiting: Runs, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "cancel", "order-17", "--database", url]) == 0
    assert waiting.run("order-17").state == "cancelled"
    assert main(["runs", "prune", "--older", "1d", "--database", url]) == 0
    assert capsys.readouterr().out == "0 runs are removed\n"
    time.sleep(0.05)
    assert main(["runs", "prune", "--older", "0s", "--database", url]) == 0
    assert capsys.readouterr().out == "1 runs are removed\n"
    assert main(["runs", "show", "order-17", "--database", url]) == 2


def test_tools_of_a_worker_that_are_not_there_are_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in (("nothing", "must be MODULE:TOOLS"), ("no.module:TOOLS", "cannot be loaded")):
        assert main(["worker", name, "--database", url]) == 2
        assert words in capsys.readouterr().err


def test_a_durable_task_is_done_and_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.chdir(tmp_path)
    with simulate([ToolCall(None, "list_directory", {}), "It is there."]) as model:
        said = ["--model", "openai/m", "--base-url", f"{model.url}/v1", "--durable", "task-1"]
        assert main(["run", "What is here?", *said]) == 0
        first = capsys.readouterr()
        assert first.out == "It is there.\n"
        assert "toolwire run --durable task-1 goes on with it" in first.err
        assert main(["run", *said]) == 0
        assert capsys.readouterr().out == "It is there.\n"
    assert main(["runs", "list"]) == 0
    assert capsys.readouterr().out.startswith("task-1  ")
