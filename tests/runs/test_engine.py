"""The engine of a process: what it needs of its database, and what it leaves when it cannot begin."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from dbos import DBOS

from tests.runs.jobs import serving
from tests.runs.scripted import given, turns
from toolwire import Runs
from toolwire.errors import StoreFailed, UserError
from toolwire.runs.run import _CORES


@pytest.fixture
def runs(tmp_path: Path, made_runs: Path) -> Iterator[Runs]:
    shutil.copy(made_runs, tmp_path / "runs.db")
    with Runs(f"sqlite:///{tmp_path / 'runs.db'}") as made:
        yield made


def test_a_launch_that_fails_leaves_the_process_to_the_next_one(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise sa.exc.OperationalError("INSERT", {}, sqlite3.OperationalError("disk is full"))

    with monkeypatch.context() as patched:
        patched.setattr(DBOS, "launch", broken)
        with pytest.raises(StoreFailed, match="Runs: the database cannot be opened: disk is full"):
            runs.start("Go.", **given(turns("done")))
    assert runs.start("Go.", **given(turns("done"))).result(30).content == "done"


def test_an_older_sqlite_tells_the_time_as_the_engine_asks_for_it(runs: Runs) -> None:
    with runs.core.engine.db.connect() as connection:
        told = connection.execute(sa.text("SELECT unixepoch('subsec')")).scalar_one()
    assert abs(told - time.time()) < 60


@pytest.mark.slow  # the engine looks for queues once a second
def test_a_queue_is_worked_at_whoever_led_runs_here_before(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    runs.start("Go.", **given(turns("done"))).result(30)
    with contextmanager(serving)() as model, Runs(f"sqlite:///{tmp_path / 'runs.db'}", queue="late"):
        run = runs.start("Go.", "openai", "m", queue="late", options={"base_url": model.url})
        assert run.result(30).content == "all parts are done"


def test_runs_that_cannot_be_led_here_leave_nothing_open(runs: Runs, tmp_path: Path) -> None:
    runs.start("Go.", **given(turns("done"))).result(30)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    with pytest.raises(UserError, match="this process executes runs of another database"):
        Runs(other, queue="jobs")
    assert os.path.realpath(tmp_path / "other.db") not in _CORES
