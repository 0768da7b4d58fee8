"""A store is made, brought to the newest version, or refused; its file is its owner's alone."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import NullPool

from tests.traces.making import asked, change, engine_of, made, record
from tests.traces.test_writers import run_all
from toolwire import traces
from toolwire.errors import InvalidField, StoreFailed
from toolwire.traces import Trace, migration
from toolwire.traces.migration import NEWEST, VERSIONS
from toolwire.traces.tables import table

pytestmark = pytest.mark.slow  # databases are made and migrated


def shape(url: str, namespace: str | None = None) -> Any:
    """Describe a table as the database has it."""
    engine = engine_of(url)
    schemas = engine.dialect.name == "postgresql"
    found = table(namespace, schemas=schemas)
    look = inspect(engine)
    columns = [
        (column["name"], str(column["type"]), column["nullable"])
        for column in look.get_columns(found.name, schema=found.schema)
    ]
    indexes = sorted(
        (str(index["name"]), tuple(map(str, index["column_names"])), bool(index["unique"]))
        for index in look.get_indexes(found.name, schema=found.schema)
    )
    key = look.get_pk_constraint(found.name, schema=found.schema)["constrained_columns"]
    engine.dispose()
    return columns, indexes, key


@pytest.mark.row("T10")
def test_the_migrations_make_the_table_of_the_metadata(store_url: str) -> None:
    traces.open(store_url).close()
    migrated = shape(store_url)
    change(store_url, "DROP TABLE tool_traces", "DROP TABLE tool_traces_version")
    with engine_of(store_url).begin() as connection:
        found: Any = Trace.metadata
        found.create_all(connection)
    assert shape(store_url) == migrated


@pytest.mark.row("T10")
def test_the_newest_version_is_the_last_that_is_known(store_url: str) -> None:
    traces.open(store_url).close()
    assert asked(store_url, "SELECT version_num FROM tool_traces_version") == [(NEWEST,)]
    files = sorted(path.stem for path in (migration.SCRIPTS / "versions").glob("v*.py"))
    assert files == [f"v{version}" for version in VERSIONS]


NOTHING = """
import sys
from toolwire import traces
traces.open(sys.argv[1]).close()
print("alembic" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.row("T10")
def test_a_store_of_the_newest_version_is_opened_without_alembic(store_url: str) -> None:
    said = [subprocess.check_output([sys.executable, "-c", NOTHING, store_url], text=True) for _ in range(2)]
    assert said == ["True\n", "False\n"]


@pytest.mark.row("T10")
def test_an_old_store_is_brought_to_the_newest_version(store_url: str) -> None:
    """Rows from before have no time of waiting; they and their hashes stay as they were."""
    with traces.open(store_url) as store:
        record(store, 4)
        anchor, rows = store.anchor(), [*store.rows()]
    newest = shape(store_url)
    change(
        store_url,
        "ALTER TABLE tool_traces DROP COLUMN waited_ms",
        "ALTER TABLE tool_traces DROP COLUMN kind",
        "UPDATE tool_traces_version SET version_num = '0001'",
    )
    with pytest.raises(StoreFailed, match="has an older version"):
        traces.open(store_url, create=False)
    with traces.open(store_url) as store:
        assert store.verify(anchor).problems == ()
        assert [*store.rows()] == rows
        store.record(made(id="waited", approval="granted", waited_ms=1500))
        store.flush()
        found = store.get("waited")
        assert found is not None
        assert found.waited_ms == 1500.0
        assert store.verify(anchor).problems == ()
    assert shape(store_url) == newest
    if store_url.startswith("sqlite"):
        change(store_url, "DROP TRIGGER tool_traces_no_update")
    else:
        change(store_url, "ALTER TABLE tool_traces DISABLE TRIGGER USER")
    change(store_url, "UPDATE tool_traces SET waited_ms = 0 WHERE position = 5")
    with traces.open(store_url) as store:
        assert [(one.position, one.kind) for one in store.verify().problems] == [(5, "changed")]


@pytest.mark.row("T10")
def test_a_newer_store_is_refused(store_url: str) -> None:
    traces.open(store_url).close()
    change(store_url, "UPDATE tool_traces_version SET version_num = '9999'")
    for create in (True, False):
        with pytest.raises(StoreFailed, match=f"version 9999, this toolwire knows {NEWEST}"):
            traces.open(store_url, create=create)


@pytest.mark.row("T10")
def test_an_interrupted_migration_leaves_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(migration, "create_guards", fails)
        with pytest.raises(RuntimeError, match="interrupted"):
            traces.open(store_url)
    assert inspect(engine_of(store_url)).get_table_names() == []
    with traces.open(store_url) as store:
        record(store, 2)
        assert store.verify().ok


@pytest.mark.row("T10")
def test_guards_are_made_again(store_url: str) -> None:
    """A migration ends with the guards as they are now; the old chain still verifies."""
    with traces.open(store_url) as store:
        record(store, 3)
    in_server = store_url.startswith("postgresql")
    guard = "FUNCTION tool_traces_refuse() CASCADE" if in_server else "TRIGGER tool_traces_no_delete"
    change(store_url, "DROP TABLE tool_traces_version", f"DROP {guard}")
    with traces.open(store_url) as store:
        assert store.verify().ok
        with pytest.raises(Exception, match="never changed"):
            change(store_url, "DELETE FROM tool_traces")


@pytest.mark.row("T10")
def test_many_open_a_new_store_at_once(store_url: str) -> None:
    problems: list[Exception] = []
    started = threading.Barrier(8)

    def work() -> None:
        started.wait()
        try:
            with traces.open(store_url) as store:
                store.record(made())
        except Exception as problem:  # noqa: BLE001 - it is what is asserted on
            problems.append(problem)

    run_all([threading.Thread(target=work) for _ in range(8)])
    assert problems == []
    with traces.open(store_url, create=False) as store:
        assert (store.count(), store.verify().ok) == (8, True)


@pytest.mark.slow
@pytest.mark.row("T10")
def test_many_processes_open_a_new_store_at_once(store_url: str) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", NOTHING, store_url], stdout=subprocess.DEVNULL) for _ in range(6)
    ]
    assert [process.wait(60) for process in running] == [0] * 6


def test_a_store_that_is_not_there_is_not_made_for_a_reader(store_url: str) -> None:
    with pytest.raises(StoreFailed, match="there is no store"):
        traces.open(store_url, create=False)


def test_another_table_of_that_name_is_refused(store_url: str) -> None:
    change(store_url, "CREATE TABLE tool_traces (id TEXT, position INTEGER)")
    with pytest.raises(StoreFailed, match="a table tool_traces already, without tenant_id"):
        traces.open(store_url)


@pytest.mark.row("R002-101")
def test_the_hosts_engine_and_tables(store_url: str) -> None:
    engine = create_engine(store_url.replace("postgresql://", "postgresql+psycopg://"))
    found: Any = Trace.metadata
    found.create_all(engine)
    with traces.open(engine=engine, create=False) as store:
        record(store, 4)
        assert store.verify().ok
    with engine.connect() as connection:
        assert len(connection.execute(found.tables["tool_traces"].select()).all()) == 4
    engine.dispose()


@pytest.mark.row("R002-101")
def test_a_host_that_begins_its_transactions_itself(tmp_path: Path) -> None:
    from sqlalchemy import event

    engine = create_engine(f"sqlite:///{tmp_path / 'host.db'}")

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    with traces.open(engine=engine, namespace="audit") as store:
        record(store, 6)
        assert store.verify().ok
    assert "audit_tool_traces" in inspect(engine).get_table_names()
    engine.dispose()


@pytest.mark.row("R002-102")
def test_a_namespace_is_a_schema_or_a_prefix(store_url: str) -> None:
    with traces.open(store_url, namespace="tenant_1") as store:
        record(store, 3)
        assert store.verify().ok
        grants = store.grants("app")
    where = "tenant_1.tool_traces" if store_url.startswith("postgresql") else "tenant_1_tool_traces"
    assert asked(store_url, f"SELECT count(*) FROM {where}") == [(3,)]
    assert grants[0].startswith("REVOKE ALL ON ")


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links of POSIX")
@pytest.mark.row("T18")
def test_the_file_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    old = os.umask(0)
    try:
        with traces.open(f"sqlite:///{path}") as store:
            record(store, 3)
            modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()}
    finally:
        os.umask(old)
    assert set(modes) == {"traces.db", "traces.db-wal", "traces.db-shm"}
    assert set(modes.values()) == {0o600}


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("dangling", [True, False])
@pytest.mark.row("T18")
def test_a_link_is_refused(tmp_path: Path, suffix: str, dangling: bool) -> None:
    target, path = tmp_path / "elsewhere", tmp_path / "traces.db"
    if not dangling:
        target.write_bytes(b"")
    Path(f"{path}{suffix}").symlink_to(target)
    for create in (True, False):
        with pytest.raises(StoreFailed, match="symbolic link"):
            traces.open(f"sqlite:///{path}", create=create)
    assert target.exists() is not dangling


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "must name a file"),
        ("sqlite:///:memory:", "must name a file"),
        ("sqlite:///file:x?mode=memory&uri=true", "must name a file"),
        ("sqlite:////nowhere/is?it.db", "must name a file"),
        ("mysql://a@b/c", "must be of sqlite or postgresql, not mysql"),
        ("traces.db", "must be like sqlite:///traces.db"),
        (5, "must be like"),
        (None, "or engine must be given"),
    ],
)
def test_an_address_that_is_none_is_said(url: Any, words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        traces.open(url)


def test_an_engine_that_is_none_is_said() -> None:
    with pytest.raises(InvalidField, match="must be a sync SQLAlchemy Engine"):
        traces.open(engine="sqlite://")  # type: ignore[arg-type]
    with pytest.raises(InvalidField, match="or engine must be given"):
        traces.open("sqlite:///x.db", engine=create_engine("sqlite://", poolclass=NullPool))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"failing": "x"}, "failing must be"),
        ({"batch": 0}, "batch must be"),
        ({"queue": 0}, "queue must be"),
        ({"key": ""}, "key must"),
    ],
)
def test_an_option_that_is_wrong_is_said(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        traces.open(f"sqlite:///{tmp_path / 'x.db'}", **options)
    assert not (tmp_path / "x.db").exists()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="cannot be created: No such file"):
        traces.open(f"sqlite:///{tmp_path / 'no' / 'x.db'}")
