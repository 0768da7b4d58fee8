"""The databases of traces: opening, writing and reading.

Rules of this file:
- SQLite: a WAL file that only its owner can read, with `synchronous=FULL`. Every write starts with `BEGIN IMMEDIATE`. A
  symbolic link is rejected, and so is a journal that SQLite would roll back over the rows.
- PostgreSQL: psycopg 3. Each store has one advisory lock, held from a write's first statement to its commit.
- No error message contains a value of a row: the database's message is cut to its first line.
"""

import contextlib
import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from toolwire.databases.file_watch import FileWatch, damage_of, files_of, refuse_journal
from toolwire.databases.opening import first_line, is_transient, with_driver
from toolwire.errors import InvalidField, MissingExtra, StoreFailed
from toolwire.traces.tables import check_namespace, table

_PRAGMAS = ("PRAGMA synchronous=FULL", "PRAGMA recursive_triggers=ON")
_OWN_PRAGMAS = (*_PRAGMAS, "PRAGMA foreign_keys=ON", "PRAGMA trusted_schema=OFF")
_DURABLE = (
    "SELECT pg_advisory_xact_lock({lock}),"
    " CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
    " THEN set_config('synchronous_commit', 'on', true) END"
)


class StoreLocation(Struct, frozen=True):
    """The location of a store: its engine (opened here or the host's), and its table."""

    engine: Engine
    table: Table
    is_owned: bool
    namespace: str | None
    files: FileWatch | None = None

    @property
    def database(self) -> str:
        """The database's name: `sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def close(self) -> None:
        """Close the connections, unless the engine is the host's."""
        if self.is_owned:
            self.engine.dispose()


def locate_store(url: Any, engine: Any, namespace: str | None, *, create: bool, patience: float) -> StoreLocation:
    """Open the store's database by `url`, or use the host's `engine`. Return its location."""
    if (url is None) == (engine is None):
        raise InvalidField("url", "or engine must be given, and not both", path="traces")
    if engine is not None and not isinstance(engine, Engine):
        raise InvalidField("engine", "must be a sync SQLAlchemy Engine", path="traces")
    check_namespace(namespace)
    store_engine, files = (
        (engine, _watch_of(engine)) if engine is not None else _open_engine(url, create=create, patience=patience)
    )
    if store_engine.dialect.name not in ("sqlite", "postgresql"):
        raise InvalidField("engine", "must be of SQLite or PostgreSQL", path="traces")
    schemas = store_engine.dialect.name == "postgresql"
    return StoreLocation(store_engine, table(namespace, schemas=schemas), engine is None, namespace, files)


def _watch_of(engine: Engine) -> FileWatch | None:
    """Return a watch of the host's SQLite file, if it has a plain path."""
    name = engine.url.database
    if engine.dialect.name != "sqlite" or not name or name.startswith((":memory:", "file:")):
        return None
    return FileWatch(Path(name).absolute())


def _open_engine(url: Any, *, create: bool, patience: float) -> tuple[Engine, FileWatch | None]:
    try:
        parsed = with_driver(url)
    except (ArgumentError, TypeError, ValueError):
        words = "must be like sqlite:///traces.db or postgresql://user@host/database"
        raise InvalidField("url", words, path="traces") from None
    match parsed.drivername.partition("+")[0]:
        case "sqlite":
            return _open_sqlite(parsed, str(url), create=create, patience=patience)
        case "postgresql":
            return _open_postgresql(parsed), None
        case name:
            raise InvalidField("url", f"must be of sqlite or postgresql, not {name}", path="traces")


def _open_postgresql(url: URL) -> Engine:
    try:
        return create_engine(url, hide_parameters=True)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise MissingExtra("psycopg", "traces", "to keep traces in PostgreSQL") from None


def _open_sqlite(url: URL, original_url: str, *, create: bool, patience: float) -> tuple[Engine, FileWatch]:
    if not url.database or url.database.startswith((":memory:", "file:")) or url.query or "?" in original_url:
        words = "must name a file by its plain path, as sqlite:///traces.db does: traces are kept in a file"
        raise InvalidField("url", words, path="traces")
    path = Path(url.database).absolute()
    _create_file(path, create=create)
    files = FileWatch(path)
    files.start()
    engine = create_engine(
        url.set(drivername="sqlite", database=str(path)),
        connect_args={"timeout": patience},
        hide_parameters=True,
        pool_use_lifo=True,  # the writer reuses its own connection
    )

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        del record
        _check_regular(path)
        connection.isolation_level = None
        for pragma in _OWN_PRAGMAS:
            connection.execute(pragma)

    files.follow(engine)
    if create:
        try:
            _switch_to_wal(engine, patience)
        except BaseException:
            engine.dispose()
            raise
    return engine, files


def _create_file(path: Path, *, create: bool) -> None:
    """Create the file with permissions for its owner only. An existing file is left as it is."""
    _check_regular(path)
    try:
        if create:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        return
    except OSError as problem:
        raise StoreFailed(f"{path} cannot be created: {problem.strerror}", path="traces") from None
    if not path.exists():
        raise StoreFailed(f"there is no store at {path}", path="traces")


def _check_regular(path: Path) -> None:
    for file in files_of(path):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(file.lstat().st_mode):
                words = f"{file} is a symbolic link or no regular file: name the file itself"
                raise StoreFailed(words, path="traces")
    refuse_journal(path)


def _switch_to_wal(engine: Engine, patience: float) -> None:
    """Switch the file to WAL. SQLite does not wait for other connections here, so this retries."""
    until = time.monotonic() + patience
    with store_errors("the store cannot be opened", engine):
        while True:
            try:
                with engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                    return
            except DBAPIError as problem:
                if not is_transient(problem) or time.monotonic() > until:
                    raise
                time.sleep(0.02)


@contextlib.contextmanager
def write_transaction(location: StoreLocation, *, lock: bool = True) -> Iterator[Connection]:
    """Return a transaction that excludes other writers, and commit it at the end."""
    if location.files is not None:
        location.files.check()
    with location.engine.connect() as connection:
        if location.database == "sqlite":
            _begin_sqlite(connection, location, lock=lock)
        else:
            connection.exec_driver_sql(_DURABLE.format(lock=_lock_key(location)))
        if location.files is not None:
            location.files.check()
        yield connection
        connection.commit()
    if location.files is not None:
        location.files.remember()


def _begin_sqlite(connection: Connection, location: StoreLocation, *, lock: bool) -> None:
    raw: Any = connection.connection.driver_connection
    if not location.is_owned and not raw.in_transaction:
        for pragma in _PRAGMAS:
            raw.execute(pragma)
    connection.begin()
    if not raw.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif lock:
        # The host's engine began the transaction itself: deleting no row waits for the write lock.
        connection.exec_driver_sql(f'DELETE FROM "{location.table.name}" WHERE 0')  # noqa: S608 - the name was checked


def _lock_key(location: StoreLocation) -> int:
    name = f"toolwire {location.table.schema or ''} {location.table.name}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


@contextlib.contextmanager
def read_transaction(location: StoreLocation) -> Iterator[Connection]:
    """Connect to the store for reading during the `with` block. Errors do not contain values of rows."""
    if location.files is not None:
        location.files.check()
    with store_errors("the store cannot be read", location.engine), location.engine.connect() as connection:
        yield connection


@contextlib.contextmanager
def store_errors(action: str, engine: Engine) -> Iterator[None]:
    """Raise `StoreFailed` for database errors. If an SQLite file is damaged, the message names it."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeError, OverflowError) as problem:
        damage = damage_of(problem, engine.url.database or "") if engine.dialect.name == "sqlite" else ""
        raise StoreFailed(f"{action}: {damage or first_line(problem)}", path="traces") from None
