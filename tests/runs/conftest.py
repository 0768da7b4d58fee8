"""The databases that runs are tested on: a file of SQLite, and a real server of PostgreSQL."""

from pathlib import Path

import pytest

from tests.runs.impatient import impatient
from tests.traces.postgres import Database, database, postgres
from toolwire import Runs

__all__ = ["database", "impatient", "made_runs", "postgres", "runs_url"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the server to the slow tests."""
    for item in items:
        if "postgresql" in item.name and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file that has the tables."""
    path = tmp_path_factory.mktemp("made") / "runs.db"
    Runs(f"sqlite:///{path}").close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def runs_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    made: Database = request.getfixturevalue("database")
    return made.url
