"""The databases that every test of a store runs on: a file of SQLite, and a real server of PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.traces.postgres import Database, Postgres, database, postgres
from toolwire import traces
from toolwire.traces.store import Store

__all__ = ["database", "kept", "postgres", "store", "store_url"]

EMPTY = """DO $$ DECLARE name text; BEGIN
FOR name IN SELECT nspname FROM pg_namespace
  WHERE nspname NOT LIKE 'pg_%' AND nspname <> 'information_schema'
LOOP EXECUTE format('DROP SCHEMA %I CASCADE', name); END LOOP; END $$;
CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC"""


@pytest.fixture(scope="session")
def kept(postgres: Postgres) -> Database:
    """Give a database that is used again and again."""
    return postgres.create()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the address of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'traces.db'}"
        return
    import psycopg

    found: Database = request.getfixturevalue("kept")
    with psycopg.connect(found.url, autocommit=True) as connection:
        connection.execute(EMPTY)
    yield found.url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """Give an open store."""
    with traces.open(store_url) as opened:
        yield opened
