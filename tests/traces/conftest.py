"""The databases that every test of a store runs on: a file of SQLite, and a real server of PostgreSQL."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.traces.postgres import Database, Postgres, database, postgres
from toolwire import traces
from toolwire.traces.store import Store

__all__ = ["database", "kept", "made_file", "made_ready", "postgres", "store", "store_url"]

HERE = Path(__file__).parent
FAST = frozenset({"test_store.py"})
EMPTY = """DO $$ DECLARE name text; BEGIN
FOR name IN SELECT nspname FROM pg_namespace
  WHERE nspname NOT LIKE 'pg_%' AND nspname <> 'information_schema'
LOOP EXECUTE format('DROP SCHEMA %I CASCADE', name); END LOOP; END $$;
CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC"""
FRESH = """ALTER TABLE tool_traces DISABLE TRIGGER USER; DELETE FROM tool_traces;
ALTER TABLE tool_traces ENABLE ALWAYS TRIGGER tool_traces_no_change;
ALTER TABLE tool_traces ENABLE ALWAYS TRIGGER tool_traces_no_statement;
ALTER TABLE tool_traces ENABLE ALWAYS TRIGGER tool_traces_next"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the server to the slow tests, but for what each store does."""
    for item in items:
        if "postgresql" in item.name and item.path.parent == HERE and item.path.name not in FAST:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def kept(postgres: Postgres) -> Database:
    """Give a database that is used again and again."""
    return postgres.create()


@pytest.fixture(scope="session")
def made_ready(postgres: Postgres) -> Database:
    """Give a database that has the table."""
    made = postgres.create()
    traces.open(made.url).close()
    return made


@pytest.fixture(scope="session")
def made_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file that has the table."""
    path = tmp_path_factory.mktemp("made") / "traces.db"
    traces.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the address of an empty database; where the test uses `store`, the table is there already."""
    ready = "store" in request.fixturenames
    if request.param == "sqlite":
        path = tmp_path / "traces.db"
        if ready:
            shutil.copy(request.getfixturevalue("made_file"), path)
        return f"sqlite:///{path}"
    import psycopg

    found: Database = request.getfixturevalue("made_ready" if ready else "kept")
    with psycopg.connect(found.url, autocommit=True) as connection:
        connection.execute(FRESH if ready else EMPTY)
    return found.url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """Give an open store."""
    with traces.open(store_url) as opened:
        yield opened
