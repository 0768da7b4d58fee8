"""A store that fails says so, goes on when it can, and loses nothing that it acknowledged."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from tests.traces.making import Between, asked, change, made, record
from tests.traces.test_writers import whole
from toolwire import traces
from toolwire.errors import StoreFailed
from toolwire.traces.store import Store

pytestmark = pytest.mark.slow  # it waits for locks, timeouts and lost connections

SECRET = "sentinel-4711"  # noqa: S105 - it is what must not be found


class Failing(Between):
    """A database that fails, for a while or for good; `after` commits first and fails then."""

    def __init__(self, store: Store, problem: Exception, times: int = 10**9, *, after: bool = False) -> None:
        super().__init__(store)
        self._problem, self._after, self.left = problem, after, times

    def commit(self, rows: Any, *, again: bool = False) -> Any:
        if self.left == 0:
            return self.committer.commit(rows, again=again)
        self.left -= 1
        if self._after:
            self.committer.commit(rows, again=again)
        raise self._problem


def lost() -> OperationalError:
    return OperationalError("INSERT", {"result": SECRET}, Exception("gone"), connection_invalidated=True)


def full() -> OperationalError:
    return OperationalError("INSERT", {"result": SECRET}, Exception(f"no space\nDETAIL: {SECRET}"))


@pytest.mark.parametrize("times", [2])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.row("T16")
def test_a_lost_connection_gives_one_row(store_url: str, times: int, after: bool) -> None:
    with traces.open(store_url) as store:
        record(store, 3)
        Failing(store, lost(), times, after=after)
        tickets = [store.record(made(iteration=n)) for n in range(5)]
        store.flush()
        assert all(ticket.done for ticket in tickets)
    whole(store_url, 8)


@pytest.mark.row("T8")
def test_a_store_that_fails_stops(store_url: str) -> None:
    store = traces.open(store_url)
    record(store, 3)
    failing = Failing(store, full())
    ticket = store.record(made())
    with pytest.raises(StoreFailed, match="traces cannot be written: no space"):
        store.flush()
    for raising in (
        ticket.wait,
        store.flush,
        lambda: store.record(made()),
        lambda: asyncio.run(store.aflush()),
    ):
        with pytest.raises(StoreFailed, match="no space") as raised:
            raising()
        assert SECRET not in str(raised.value)
    assert not ticket.done
    assert (store.lost, str(store.failed)) == (1, "traces: traces cannot be written: no space")
    failing.left = 0
    store.resume()
    store.record(made()).wait()
    store.close()
    whole(store_url, 4)


@pytest.mark.row("T8")
def test_a_store_that_fails_may_go_on(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    store = traces.open(store_url, failing="continue")
    failing = Failing(store, full())
    tickets = [store.record(made(arguments={"a": SECRET})) for _ in range(3)]
    assert store.flush()
    assert store.failed is None
    assert (store.lost, [ticket.done for ticket in tickets]) == (3, [False] * 3)
    failing.left = 0
    assert store.record(made()).wait()
    with caplog.at_level(logging.ERROR):
        store.close()
    assert "3 traces were lost" in caplog.text
    assert "no space" in caplog.text
    assert SECRET not in caplog.text
    whole(store_url, 1)


def test_a_full_queue_of_a_store_that_fails_is_let_go(store_url: str) -> None:
    store = traces.open(store_url, queue=3, batch=1)
    Failing(store, full())
    with pytest.raises(StoreFailed, match="no space"):
        record(store, 100)
    with pytest.raises(StoreFailed, match="no space"):
        store.close()
    whole(store_url, 0)


def pragma(store: Store, words: str) -> None:
    """Set something for every connection of a store of SQLite from now on."""
    engine = store._open_location.engine
    engine.dispose()

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.execute(words)


def opened(tmp_path: Path, **options: Any) -> Store:
    return traces.open(f"sqlite:///{tmp_path / 'traces.db'}", **options)


def fill(store: Store, done: list[Any]) -> None:
    for _ in range(1000):
        ticket = store.record(made(result=SECRET * 100))
        ticket.wait()
        done.append(ticket)


@pytest.mark.row("T8")
def test_a_full_disk(tmp_path: Path) -> None:
    store = opened(tmp_path)
    record(store, 10)
    pages = asked(f"sqlite:///{tmp_path / 'traces.db'}", "PRAGMA page_count")[0][0]
    pragma(store, f"PRAGMA max_page_count={pages + 20}")
    done: list[Any] = []
    with pytest.raises(StoreFailed, match="database or disk is full"):
        fill(store, done)
    assert 5 < len(done) < 1000
    store.resume()
    with pytest.raises(StoreFailed, match="full"):
        store.record(made(result=SECRET * 100_000)).wait()
    pragma(store, "PRAGMA max_page_count=1000000")
    store.resume()
    store.record(made(result=SECRET * 100_000)).wait()
    store.close()
    whole(f"sqlite:///{tmp_path / 'traces.db'}", 10 + len(done) + 1)


@pytest.mark.row("T8")
def test_a_database_that_cannot_be_written_to(tmp_path: Path) -> None:
    opened(tmp_path).close()
    store = opened(tmp_path)
    pragma(store, "PRAGMA query_only=ON")
    with pytest.raises(StoreFailed, match="readonly"):
        store.record(made()).wait()
    assert store.traces().rows == ()
    with pytest.raises(StoreFailed, match="readonly"):
        store.close()


def held(tmp_path: Path, seconds: float) -> "subprocess.Popen[bytes]":
    code = f"""
import sqlite3, sys, time
connection = sqlite3.connect({str(tmp_path / "traces.db")!r}, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep({seconds})
connection.execute("ROLLBACK")
connection.close()
"""
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stdout.readline() == b"held\n"
    running.stdout.close()
    return running


@pytest.mark.row("T8")
def test_another_writer_is_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        other = held(tmp_path, 0.3)
        assert store.record(made()).wait()
        assert other.wait(10) == 0


@pytest.mark.row("T8")
def test_another_writer_that_does_not_end_is_said(tmp_path: Path) -> None:
    store = opened(tmp_path, patience=0.1)
    other = held(tmp_path, 30)
    try:
        with pytest.raises(StoreFailed, match="database is locked"):
            store.record(made()).wait()
    finally:
        other.kill()
        other.wait()
    store.resume()
    record(store, 2)
    store.close()
    whole(f"sqlite:///{tmp_path / 'traces.db'}", 2)


KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


@pytest.mark.row("T16")
def test_a_server_that_ends_its_connections(request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue("kept").url
    with traces.open(url, namespace="ended") as store:
        for index in range(30):
            tickets = [store.record(made(conversation_id=f"{index}", iteration=n)) for n in range(5)]
            if index % 10 == 0:
                asked(url, KILL)
            store.flush()
            assert all(ticket.done for ticket in tickets)
        found = store.verify()
        assert (found.problems, found.rows) == ((), 150)


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="the store cannot be read: "):
        traces.open(f"postgresql://user:{SECRET}@/x?host={tmp_path}")


def test_a_table_that_vanished_is_said(store_url: str) -> None:
    store = traces.open(store_url)
    change(store_url, "DROP TABLE tool_traces")
    with pytest.raises(StoreFailed, match="tool_traces"):
        store.record(made()).wait()
    with pytest.raises(StoreFailed, match="tool_traces"):
        store.traces()
    with pytest.raises(StoreFailed):
        store.close()


def test_an_exception_goes_through_a_with_block(store_url: str) -> None:
    def work() -> None:
        with traces.open(store_url) as store:
            store.record(made())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    whole(store_url, 1)
