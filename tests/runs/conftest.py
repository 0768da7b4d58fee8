"""The databases that runs are tested on: a file of SQLite, and a real server of PostgreSQL."""

from pathlib import Path

import pytest

from tests.traces.postgres import Database, Postgres, database, postgres

__all__ = ["database", "postgres", "runs_url"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the server to the slow tests."""
    for item in items:
        if item.path.parent == Path(__file__).parent and "postgresql" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["sqlite", "postgresql"])
def runs_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    made: Database = request.getfixturevalue("database")
    return made.url
