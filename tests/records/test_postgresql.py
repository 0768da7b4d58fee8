"""A store of records in PostgreSQL: the same as in SQLite, and several writers at once."""

import pytest

from tests.records.test_store import full, written
from tests.traces.postgres import Database, Postgres, database, postgres
from toolwire import records

__all__ = ["database", "postgres"]


@pytest.fixture
def url(database: Database) -> str:
    return database.url


def test_records_are_written_listed_and_read(url: str) -> None:
    with records.open(url) as store:
        made = [full(f"r{index}") for index in range(25)]
        written(store, *made)
        assert store.read("r7") == made[7]
        page = store.list(limit=10, model="fast", lossy=True)
        assert [line.id for line in page.rows] == [f"r{index}" for index in range(24, 14, -1)]
        assert [line.id for line in store.list(before=page.next, limit=1).rows] == ["r14"]
        assert store.read("r7", key="other") is None


def test_limits_hold(url: str) -> None:
    with records.open(url, bytes=20_000, expires=3600) as store:
        written(store, full("old", time=1.0))
        for index in range(50):
            store.write(full(f"r{index}"))
        assert store.flush(20)
        lines = store.list(limit=100).rows
        assert sum(line.bytes for line in lines) <= 20_000
        assert lines[0].id == "r49"
        assert store.read("old") is None


def test_writers_take_turns(url: str) -> None:
    with records.open(url) as one, records.open(url, process=True) as other:
        for index in range(50):
            one.write(full(f"a{index}"))
            other.write(full(f"b{index}"))
        assert one.flush(20)
        assert other.flush(20)
        lines = one.list(limit=1000).rows
        assert (len(lines), len({line.position for line in lines})) == (100, 100)
        assert (one.lost, other.lost) == (0, 0)


def test_the_server_goes_and_comes_back(postgres: Postgres, url: str) -> None:
    del postgres
    with records.open(url) as store:
        written(store, full("before"))
        with store._database.engine.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND datname = current_database()"
            )
        written(store, full("after"))
        assert [line.id for line in store.list().rows] == ["after", "before"]
