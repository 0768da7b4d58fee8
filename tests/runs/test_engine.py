"""The engine of a process: what it needs of its database, and what it leaves when it cannot begin."""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from dbos import DBOS

from tests.runs.scripted import given, turns
from toolwire import Runs
from toolwire.errors import StoreFailed


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
