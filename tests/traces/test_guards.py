"""What the database refuses itself, of the application's role and of its owner."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import MetaData, create_engine, text

from tests.traces.making import asked, change, made, record
from tests.traces.mutations import (
    AGAINST_GUARDS,
    BY_ROLE,
    CHANGED,
    COLUMNS,
    FORGED,
    POSTGRESQL,
    SQLITE,
    ZEROS,
    copied,
)
from tests.traces.postgres import APP, Database
from toolwire import traces
from toolwire.cli import main
from toolwire.errors import InvalidField, StoreFailed
from toolwire.traces import Trace
from toolwire.traces.tables import table

ALL = "SELECT * FROM tool_traces ORDER BY position"
Attempt = Callable[[str], bool]


def succeeded(attempt: Attempt, statements: Mapping[str, str]) -> list[str]:
    """Name the statements that the database does not refuse."""
    return [name for name, statement in statements.items() if attempt(statement)]


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    """Give a store with some traces."""
    path = tmp_path / "traces.db"
    with traces.open(f"sqlite:///{path}") as store:
        record(store, 6)
    return path


def of_sqlite(path: Path) -> Attempt:
    """Try statements in transactions of their own, as any program with the file can."""

    def attempt(statement: str) -> bool:
        import sqlite3

        with closing(sqlite3.connect(path)) as connection:
            try:
                connection.execute(statement).fetchall()
            except sqlite3.IntegrityError:
                return False
            connection.commit()
        return True

    return attempt


@pytest.mark.row("T1")
def test_sqlite_refuses_every_change(sqlite_file: Path, tally: Counter[str]) -> None:
    url = f"sqlite:///{sqlite_file}"
    before = asked(url, ALL)
    assert succeeded(of_sqlite(sqlite_file), SQLITE) == []
    assert asked(url, ALL) == before
    assert len(SQLITE) >= 25
    tally["statements that would change traces, refused by SQLite"] += len(SQLITE)


@pytest.mark.row("T1")
def test_without_guards_sqlite_takes_them(sqlite_file: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(sqlite_file, isolation_level=None)) as connection:
        for statement in SQLITE.values():
            connection.execute("BEGIN")
            for guard in ("no_update", "no_delete", "next"):
                connection.execute(f"DROP TRIGGER tool_traces_{guard}")
            connection.execute(statement).fetchall()
            connection.execute("ROLLBACK")


@pytest.fixture
def database(kept: Database) -> Database:
    """Give a database with some traces, in which the application's role may record."""
    from tests.traces.conftest import EMPTY

    with psycopg.connect(kept.url, autocommit=True) as connection:
        connection.execute(EMPTY)
    with traces.open(kept.url) as store:
        record(store, 6)
        statements = store.grants(APP)
    with psycopg.connect(kept.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
    return kept


def of_postgresql(connection: "psycopg.Connection[Any]", *, keep: bool = True) -> Attempt:
    """Try statements in transactions of their own."""

    def attempt(statement: str) -> bool:
        try:
            connection.execute(statement)
            if keep:
                connection.commit()
        except psycopg.Error:
            return False
        finally:
            connection.rollback()
        return True

    return attempt


@pytest.mark.row("T2")
def test_postgresql_refuses_every_change_of_the_application(database: Database, tally: Counter[str]) -> None:
    before = asked(database.url, ALL)
    statements = {**POSTGRESQL, **AGAINST_GUARDS, **BY_ROLE}
    with psycopg.connect(database.app_url) as connection:
        found = succeeded(of_postgresql(connection), statements)
        # A grant of what one has no right to grant is a warning, and grants nothing.
        assert set(found) <= {"a grant"}
        assert succeeded(of_postgresql(connection), statements) == found
        with pytest.raises(psycopg.errors.UniqueViolation, match="next row"):
            copy_in(connection, before[0])
    assert asked(database.url, ALL) == before
    assert len(statements) >= 25
    tally["statements that would change traces, refused by PostgreSQL of the application's role"] += len(statements)


def copy_in(connection: "psycopg.Connection[Any]", row: Any) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY tool_traces FROM STDIN") as copy:
        copy.write_row([*row])


@pytest.mark.slow
@pytest.mark.row("T2")
def test_guards_hold_for_the_owner_in_every_role_of_replication(database: Database) -> None:
    before = asked(database.url, ALL)
    refused = {**FORGED, **CHANGED, "TRUNCATE": "TRUNCATE tool_traces"}
    for role in ("origin", "replica", "local"):
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(f"SET session_replication_role = {role}".encode())
            connection.autocommit = False
            assert succeeded(of_postgresql(connection), refused) == []
    assert asked(database.url, ALL) == before


@pytest.mark.slow
@pytest.mark.row("T2")
def test_a_table_of_the_same_name_does_not_mislead_the_guards(database: Database) -> None:
    """A temporary table comes first in every search of a name, and every role may make one."""
    before = asked(database.url, ALL)
    forged = copied(position=100, id="'new'", conversation_id="'new'", sequence=1, previous=ZEROS)
    with psycopg.connect(database.app_url) as connection:
        connection.execute("CREATE TEMP TABLE tool_traces (LIKE public.tool_traces)")
        connection.execute("INSERT INTO tool_traces SELECT * FROM public.tool_traces")
        connection.execute("UPDATE tool_traces SET position = 99 WHERE position = 6")
        connection.commit()
        attempt = of_postgresql(connection)
        assert not attempt(forged.replace("INTO tool_traces", "INTO public.tool_traces"))
        assert attempt(forged)
    assert asked(database.url, ALL) == before


@pytest.mark.row("T2")
def test_without_guards_postgresql_takes_them(database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        attempt = of_postgresql(connection, keep=False)
        assert succeeded(attempt, AGAINST_GUARDS) == list(AGAINST_GUARDS)
        connection.execute("DROP FUNCTION tool_traces_refuse() CASCADE")
        connection.execute("DROP FUNCTION tool_traces_next() CASCADE")
        connection.commit()
        statements = {**POSTGRESQL, **BY_ROLE}
        assert succeeded(attempt, statements) == list(statements)


@pytest.mark.slow
@pytest.mark.row("T2")
def test_the_application_records_and_reads(database: Database) -> None:
    with traces.open(database.app_url) as store:
        record(store, 3)
        assert store.count() == 9
        assert store.verify().ok


@pytest.mark.parametrize("role", ['a"; DROP TABLE tool_traces; --', "", "a b", 5])
def test_a_role_is_a_plain_name(store: Any, role: Any) -> None:
    with pytest.raises(InvalidField, match="role"):
        store.grants(role)


def test_the_hosts_tables_have_guards_too(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'host.db'}")
    metadata: MetaData = Trace.metadata
    metadata.create_all(engine)
    with traces.open(engine=engine) as store:
        record(store, 3)
    assert succeeded(of_sqlite(tmp_path / "host.db"), SQLITE) == []
    engine.dispose()


@pytest.mark.row("T1")
def test_our_own_connection_is_refused_too(store: Any) -> None:
    record(store, 2)
    with store._open_location.engine.connect() as connection:
        for statement in CHANGED.values():
            with pytest.raises(Exception, match="traces are never changed"):
                connection.execute(text(statement))
            connection.rollback()
    assert [row.name for row in table().columns] == COLUMNS
    store.record(made())
    store.flush()
    assert store.verify().ok


GONE = {
    "sqlite": {
        "one dropped": ("DROP TRIGGER tool_traces_no_delete",),
        "all dropped": tuple(f"DROP TRIGGER tool_traces_{name}" for name in ("no_update", "no_delete", "next")),
        "another one in its place": (
            "DROP TRIGGER tool_traces_no_update",
            "CREATE TRIGGER tool_traces_no_update BEFORE UPDATE ON tool_traces WHEN 0 BEGIN SELECT 1; END",
        ),
    },
    "postgresql": {
        **{name: (statement,) for name, statement in AGAINST_GUARDS.items()},
        "USER disabled": ("ALTER TABLE tool_traces DISABLE TRIGGER USER",),
        "not for replicas": ("ALTER TABLE tool_traces ENABLE TRIGGER tool_traces_no_change",),
        "for replicas only": ("ALTER TABLE tool_traces ENABLE REPLICA TRIGGER tool_traces_next",),
        "another one in its place": (
            "DROP TRIGGER tool_traces_no_change ON tool_traces",
            (
                "CREATE TRIGGER tool_traces_no_change BEFORE UPDATE OR DELETE ON tool_traces FOR EACH ROW"
                " WHEN (false) EXECUTE FUNCTION tool_traces_refuse()"
            ),
            "ALTER TABLE tool_traces ENABLE ALWAYS TRIGGER tool_traces_no_change",
        ),
    },
}


@pytest.mark.row("T1")
def test_guards_that_are_gone_are_found_and_put_back(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with traces.open(store_url) as store:
        record(store, 3)
        assert store.verify().ok
    for name, statements in GONE[store_url.partition(":")[0]].items():
        change(store_url, *statements)
        caplog.clear()
        with traces.open(store_url, create=False) as store:
            assert "were gone or disabled" in caplog.text, name
            assert [problem.kind for problem in store.verify().problems] == ["guards"], name
        assert main(["traces", "verify", "--url", store_url]) == 1
        traces.open(store_url).close()
        caplog.clear()
        with traces.open(store_url) as store:
            assert (caplog.text, store.verify().problems) == ("", ()), name
        assert main(["traces", "verify", "--url", store_url]) == 0
        with pytest.raises(Exception, match="never changed"):
            change(store_url, "UPDATE tool_traces SET model = NULL")


LEFT_OUT: dict[str, dict[str, tuple[str, ...]]] = {
    "sqlite": {
        "all": ("CREATE TRIGGER other BEFORE INSERT ON tool_traces BEGIN SELECT RAISE(IGNORE); END",),
        "the last one": (
            "CREATE TRIGGER other BEFORE INSERT ON tool_traces WHEN NEW.position > 5 BEGIN SELECT RAISE(IGNORE); END",
        ),
    },
    "postgresql": {
        "all": ("CREATE RULE other AS ON INSERT TO tool_traces DO INSTEAD NOTHING",),
        "the last one": (
            (
                "CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN IF NEW.position > 5 THEN RETURN NULL; END IF; RETURN NEW; END $$"
            ),
            "CREATE TRIGGER a_other BEFORE INSERT ON tool_traces FOR EACH ROW EXECUTE FUNCTION other()",
        ),
    },
}


@pytest.mark.parametrize("which", ["all", "the last one"])
@pytest.mark.parametrize("moment", ["before it is opened", "while it is open"])
@pytest.mark.row("T1")
def test_a_row_that_the_database_leaves_out_is_not_acknowledged(store_url: str, moment: str, which: str) -> None:
    with traces.open(store_url) as store:
        record(store, 3)
        if moment == "before it is opened":
            store.close()
        change(store_url, *LEFT_OUT[store_url.partition(":")[0]][which])
        again = traces.open(store_url) if moment == "before it is opened" else store
        with pytest.raises(StoreFailed, match="drops inserted rows"):
            [again.record(made()) for _ in range(3)][-1].wait()
        again.resume()


@pytest.mark.slow
@pytest.mark.row("T2")
def test_a_role_that_only_records_tells_of_guards_and_goes_on(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    change(database.url, AGAINST_GUARDS["DISABLE TRIGGER ALL"])
    with traces.open(database.app_url) as store:
        assert "cannot be restored" in caplog.text
        record(store, 2)
        assert [problem.kind for problem in store.verify().problems] == ["guards"]
