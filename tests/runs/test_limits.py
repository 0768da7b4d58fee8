"""Limits of a provider: kept by all that lead runs of a database, together."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS

from tests.runs import jobs
from tests.runs.scripted import Busy, given, turns
from tests.runs.test_workers import POSIX, worker
from toolwire import Runs
from toolwire.cli import main
from toolwire.errors import InvalidField
from toolwire.runs import limits
from toolwire.runs.register import RUNS


@pytest.fixture
def url(tmp_path: Path, made_runs: Path) -> str:
    shutil.copy(made_runs, tmp_path / "runs.db")
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def runs(url: str) -> Iterator[Runs]:
    with Runs(url) as made:
        yield made


@pytest.mark.parametrize(("at_once", "most"), [(2, 2), (None, 6)])
@pytest.mark.slow
def test_no_more_questions_are_open_than_the_limit_says(runs: Runs, at_once: int | None, most: int) -> None:
    model = Busy(0.1, until=most)
    runs.limit("openai", at_once=at_once)
    ends = [run.result(60) for run in [runs.start("Go.", **given(model.say)) for _ in range(6)]]
    assert [end.content for end in ends] == ["done"] * 6
    assert model.most == most


@pytest.mark.slow
def test_a_minute_has_no_more_questions_than_the_limit_says(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MINUTE", 0.8)
    model = Busy(0.0)
    with Runs(url) as runs:
        runs.limit("openai", per_minute=2)
        for run in [runs.start("Go.", **given(model.say)) for _ in range(5)]:
            run.result(60)
    begun = sorted(model.begun)
    assert [late - early > 0.3 for early, late in zip(begun, begun[2:], strict=False)] == [True] * 3


@pytest.mark.slow
def test_a_run_that_waits_for_its_turn_is_cancelled(runs: Runs) -> None:
    runs.limit("openai", per_minute=1)
    runs.start("Go.", **given(turns("done"))).result(30)
    waits = runs.start("Go.", **given(turns("done")))
    with pytest.raises(TimeoutError):
        waits.result(0.3)
    waits.cancel()
    assert waits.result(30).ending == "cancelled"


def test_a_limit_of_another_provider_holds_nobody(runs: Runs) -> None:
    runs.limit("anthropic", at_once=1, per_minute=1)
    for _ in range(3):
        assert runs.start("Go.", **given(turns("done"))).result(30).content == "done"


def test_who_dies_frees_its_place(runs: Runs) -> None:
    core = runs.core
    for name in ("one", "other"):
        row = {"id": name, "spec": "", "state": "running", "owner": "me", "created": 0, "token": 1}
        with core.register.db.begin() as connection:
            connection.execute(core.register.insert(RUNS, {**row, "expires": core.register.now + 60}))
    runs.limit("openai", at_once=1)
    assert core.limits.acquire("one", 1, "openai")
    assert core.limits.acquire("other", 1, "openai") is None
    core.register.change("one", token=2)
    number = core.limits.acquire("other", 1, "openai")
    assert number
    assert core.limits.acquire("one", 2, "openai") is None
    core.limits.release(number)
    assert core.limits.acquire("one", 2, "openai")


def test_a_limit_is_said_shown_and_taken_away(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = ["--database", url]
    assert main(["runs", "limit", "openai", "--at-once", "8", "--per-minute", "500", *said]) == 0
    assert main(["runs", "limit", "anthropic", "--at-once", "2", *said]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["anthropic: 2 at once", "openai: 8 at once, 500 per minute"]
    assert main(["runs", "limit", "openai", *said]) == 0
    assert capsys.readouterr().out == "anthropic: 2 at once\n"
    assert main(["runs", "limit", *said]) == 0
    assert capsys.readouterr().out == "anthropic: 2 at once\n"


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "8"])
def test_a_figure_that_limits_nothing_is_refused(runs: Runs, value: Any) -> None:
    for name in ("at_once", "per_minute"):
        with pytest.raises(InvalidField, match=f"{name} must be a whole number above 0"):
            runs.limit("openai", **{name: value})
    assert runs.limit() == {}


@POSIX
@pytest.mark.slow
def test_two_workers_keep_one_limit(runs_url: str, tmp_path: Path) -> None:
    workers = []
    with contextmanager(jobs.serving)(seconds=0.3, until=2) as model, Runs(runs_url) as runs:
        runs.limit("openai", at_once=2)
        started = [jobs.started(runs, number, model.url) for number in range(8)]
        try:
            workers += [worker(runs_url, tmp_path, lease=10.0) for _ in range(2)]
            ends = [run.result(120) for run in started]
        finally:
            for one in workers:
                one.kill()
                one.communicate()
    assert [end.ending for end in ends] == ["answer"] * 8
    assert max(model.asked) == 2


@pytest.mark.slow
def test_a_worker_leads_as_many_at_once_as_it_was_told_whatever_others_are_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with (
        contextmanager(jobs.serving)(seconds=0.2, until=3) as model,
        Runs(url, tools=jobs.TOOLS, queue="jobs", concurrency=3) as runs,
    ):
        # as another worker of the queue does
        DBOS.register_queue("jobs", worker_concurrency=1, polling_interval_sec=0.02, on_conflict="always_update")
        time.sleep(0.2)
        started = [jobs.started(runs, number, model.url, 0) for number in range(4)]
        assert [job.result(60).content for job in started] == ["all parts are done"] * 4
    assert max(model.asked) == 3
