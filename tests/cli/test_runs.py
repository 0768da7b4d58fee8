"""`toolwire runs` and `toolwire run --durable`: what a person sees of runs, and what is asked of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.conftest import impatient, made_runs
from tests.runs.forking import ROOT
from tests.runs.scripted import given, turns
from toolwire import Runs, ToolCall, tool
from toolwire.cli import main
from toolwire.errors import InvalidField
from toolwire.testing import simulate

__all__ = ["impatient", "made_runs"]


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


def test_a_list_says_how_each_run_ended_and_lists_those_alone(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Runs(url) as runs:
        runs.start("Hi.", id="said", **given(turns("hello"))).result(20)
        assert [(one.id, one.state) for one in runs.list()] == [("said", "done")]  # at once
        runs.start("Hi.", id="over", queue="nobody", provider="openai", model="m").cancel()
    for state, found in (("done", ["said"]), ("cancelled", ["over"]), ("failed", []), ("ended", ["over", "said"])):
        assert main(["runs", "list", "--state", state, "--database", url]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == found
        assert all(line.split()[1] == state for line in lines) or state == "ended"
    with pytest.raises(SystemExit):
        main(["runs", "list", "--state", "over", "--database", url])
    assert "choose from" in capsys.readouterr().err
    with Runs(url) as runs, pytest.raises(InvalidField, match="must be one of queued, running"):
        runs.list("over")


def test_what_cannot_be_done_with_a_run_is_said(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Runs(url) as runs:
        runs.start("Hi.", id="said", **given(turns("hello"))).result(20)
    assert main(["runs", "cancel", "said", "--database", url]) == 0
    assert capsys.readouterr().err == "said had already ended: done\n"
    assert main(["runs", "resume", "said", "--database", url]) == 2
    assert "said: is done: only a parked run can be resumed" in capsys.readouterr().err
    absent = tmp_path / "typo.db"
    for what in (["list"], ["show", "said"], ["prune"]):
        assert main(["runs", *what, "--database", f"sqlite:///{absent}"]) == 2
        assert f"there is no such file: {absent}" in capsys.readouterr().err
    assert not absent.exists()


WRONG_TOOLS = [
    ("nothing", "must be MODULE:TOOLS"),
    ("no.module:TOOLS", "cannot be loaded"),
    ("os:path", "must be tools in a list, or one tool"),
    ("sys:path", "must be functions"),
    ("sys:warnoptions", "has no tools that can be run"),
]


@pytest.mark.parametrize(("name", "words"), WRONG_TOOLS)
def test_what_is_no_tools_of_a_worker_is_said(
    name: str, words: str, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.warnoptions", [])
    assert main(["worker", name, "--database", url]) == 2
    assert words in capsys.readouterr().err


def test_a_durable_task_is_done_and_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sketch").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    more = ["-a", "sketch", "-o", "temperature=0.5"]
    with simulate([ToolCall(None, "list_directory", {}), "It is there."]) as model:
        said = ["--model", "openai/m", "--base-url", f"{model.url}/v1", "--durable", "task-1"]
        assert main(["run", "What is here?", *more, *said]) == 0
        sent: Any = [one.request for one in model.requests]
        assert [(one.temperature, len(one.messages[1].parts)) for one in sent] == [(0.5, 2), (0.5, 2)]
        first = capsys.readouterr()
        assert first.out == "It is there.\n"
        assert "toolwire run --durable task-1 resumes it" in first.err
        assert main(["run", *said]) == 0
        assert capsys.readouterr().out == "It is there.\n"
        assert main(["run", "--durable", "task-1"]) == 0  # of whom it asks, the run knows
        assert capsys.readouterr().out == "It is there.\n"
        assert main(["run", "What else?", *said]) == 2
        assert "run 'task-1' has another task" in capsys.readouterr().err
        assert main(["run", *said[:-1], "task-2"]) == 2
        assert "there is no run 'task-2': pass a task" in capsys.readouterr().err
    assert main(["runs", "list"]) == 0
    assert capsys.readouterr().out.startswith("task-1  done  ")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a terminal of POSIX")
def test_ctrl_c_leaves_a_durable_task_that_goes_on(tmp_path: Path) -> None:
    calls = [ToolCall(None, "bash", {"command": f"sleep 1; echo {number} >> did"}) for number in range(3)]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "OPENAI_API_KEY": "any"}
    env["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "toolwire", "run", "--yes", "--sandbox", "none", "--durable", "task"]
    with simulate([*calls, "It is done."]) as model:
        begins = [*command, "--model", "openai/m", "--base-url", f"{model.url}/v1", "Do it."]
        first = subprocess.Popen(begins, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        late = time.monotonic() + 60
        while not (tmp_path / "did").exists():
            assert time.monotonic() < late
            time.sleep(0.01)
        first.send_signal(signal.SIGINT)
        told = first.communicate(timeout=60)[1].decode()
        assert (first.returncode, "detaching when the current step ends" in told) == (130, True), told
        second = subprocess.run(  # noqa: PLW1510 - its status is looked at
            command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    assert (second.returncode, second.stdout) == (0, "It is done.\n"), second.stderr
    assert (tmp_path / "did").read_text().split() == ["0", "1", "2"]
