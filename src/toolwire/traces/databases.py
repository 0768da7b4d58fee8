"""Databases that hold traces: how they are opened, written to and read from.

Rules of this file:
- SQLite: a WAL file that only its owner reads, synchronous FULL, every write begins with BEGIN IMMEDIATE; a
  path that is a symbolic link is refused, and so is a journal that SQLite would play back over the rows.
- PostgreSQL: psycopg 3; one advisory lock for each store, held from a write's first statement to its commit.
- No message of this package holds a value of a row: a database's words are cut to their first line.
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
from sqlalchemy import Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from toolwire.errors import InvalidField, MissingExtra, StoreFailed
from toolwire.traces.tables import check_namespace, table
from toolwire.traces.watching import FileWatch, damage_of, files_of, refuse_journal

_PRAGMAS = ("PRAGMA synchronous=FULL", "PRAGMA recursive_triggers=ON")
_OWN_PRAGMAS = (*_PRAGMAS, "PRAGMA foreign_keys=ON", "PRAGMA trusted_schema=OFF")
_DURABLE = (
    "SELECT pg_advisory_xact_lock({lock}),"
    " CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
    " THEN set_config('synchronous_commit', 'on', true) END"
)
_PASSING = ("08", "40", "53", "55P03", "57P")
WORDS = 300


class StoreLocation(Struct, frozen=True):
    """Where a store is: an engine, its own or the host's, and the table."""

    engine: Engine
    table: Table
    own: bool
    namespace: str | None
    files: FileWatch | None = None

    @property
    def database(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def close(self) -> None:
        """Close the connections, unless they are the host's."""
        if self.own:
            self.engine.dispose()


def place(url: Any, engine: Any, namespace: str | None, *, create: bool, patience: float) -> StoreLocation:
    """Find where a store is, by a URL or by the host's engine."""
    if (url is None) == (engine is None):
        raise InvalidField("url", "or engine must be given, one of them", path="traces")
    if engine is not None and not isinstance(engine, Engine):
        raise InvalidField("engine", "must be an Engine of SQLAlchemy, not an async one", path="traces")
    check_namespace(namespace)
    found, files = (engine, _files(engine)) if engine is not None else _engine(url, create=create, patience=patience)
    if found.dialect.name not in ("sqlite", "postgresql"):
        raise InvalidField("engine", "must be of SQLite or PostgreSQL", path="traces")
    schemas = found.dialect.name == "postgresql"
    return StoreLocation(found, table(namespace, schemas=schemas), engine is None, namespace, files)


def _files(engine: Engine) -> FileWatch | None:
    """Watch the file of the host's engine, if it is one that has a plain path."""
    name = engine.url.database
    if engine.dialect.name != "sqlite" or not name or name.startswith((":memory:", "file:")):
        return None
    return FileWatch(Path(name).absolute())


def _engine(url: Any, *, create: bool, patience: float) -> tuple[Engine, FileWatch | None]:
    try:
        parsed = driven(url)
    except (ArgumentError, TypeError, ValueError):
        words = "must be like sqlite:///traces.db or postgresql://user@host/database"
        raise InvalidField("url", words, path="traces") from None
    match parsed.drivername.partition("+")[0]:
        case "sqlite":
            return _sqlite(parsed, str(url), create=create, patience=patience)
        case "postgresql":
            return _postgresql(parsed), None
        case kind:
            raise InvalidField("url", f"must be of sqlite or postgresql, not {kind}", path="traces")


def driven(url: str | URL) -> URL:
    """Give the address of a database with the driver that is installed: PostgreSQL is asked through psycopg 3."""
    parsed = make_url(url)
    postgresql = parsed.drivername.partition("+")[0] in ("postgresql", "postgres")
    return parsed.set(drivername="postgresql+psycopg") if postgresql else parsed


def _postgresql(url: URL) -> Engine:
    try:
        return create_engine(url, hide_parameters=True)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise MissingExtra("psycopg", "traces", "to keep traces in PostgreSQL") from None


def _sqlite(url: URL, asked: str, *, create: bool, patience: float) -> tuple[Engine, FileWatch]:
    if not url.database or url.database.startswith((":memory:", "file:")) or url.query or "?" in asked:
        words = "must name a file by its plain path, as sqlite:///traces.db does: traces are kept in a file"
        raise InvalidField("url", words, path="traces")
    path = Path(url.database).absolute()
    _own_file(path, create=create)
    files = FileWatch(path)
    files.begin()
    engine = create_engine(
        url.set(drivername="sqlite", database=str(path)),
        connect_args={"timeout": patience},
        hide_parameters=True,
        pool_use_lifo=True,  # what writes goes on with the connection that wrote
    )

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        del record
        _plain(path)
        connection.isolation_level = None
        for pragma in _OWN_PRAGMAS:
            connection.execute(pragma)

    files.follow(engine)
    if create:
        try:
            _write_ahead(engine, patience)
        except BaseException:
            engine.dispose()
            raise
    return engine, files


def _own_file(path: Path, *, create: bool) -> None:
    """Make the file with a mode that lets nobody else read it; one that is there stays as it is."""
    _plain(path)
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


def _plain(path: Path) -> None:
    for found in files_of(path):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(found.lstat().st_mode):
                words = f"{found} is a symbolic link or no regular file: name the file itself"
                raise StoreFailed(words, path="traces")
    refuse_journal(path)


def _write_ahead(engine: Engine, patience: float) -> None:
    """Switch the file to WAL; SQLite does not wait for others where it does that."""
    late = time.monotonic() + patience
    with saying("the store cannot be opened", engine):
        while True:
            try:
                with engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                    return
            except DBAPIError as problem:
                if not passes(problem) or time.monotonic() > late:
                    raise
                time.sleep(0.02)


@contextlib.contextmanager
def writing(place: StoreLocation, *, lock: bool = True) -> Iterator[Connection]:
    """Write in one transaction that no other writer is in, and commit it at the end."""
    if place.files is not None:
        place.files.check()
    with place.engine.connect() as connection:
        if place.database == "sqlite":
            _begin_sqlite(connection, place, lock=lock)
        else:
            connection.exec_driver_sql(_DURABLE.format(lock=_lock(place)))
        if place.files is not None:
            place.files.check()
        yield connection
        connection.commit()
    if place.files is not None:
        place.files.note()


def _begin_sqlite(connection: Connection, place: StoreLocation, *, lock: bool) -> None:
    raw: Any = connection.connection.driver_connection
    if not place.own and not raw.in_transaction:
        for pragma in _PRAGMAS:
            raw.execute(pragma)
    connection.begin()
    if not raw.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif lock:
        # The host's engine begins its transactions itself: a write of nothing waits for the lock.
        connection.exec_driver_sql(f'DELETE FROM "{place.table.name}" WHERE 0')  # noqa: S608 - a checked name


def _lock(place: StoreLocation) -> int:
    name = f"toolwire {place.table.schema or ''} {place.table.name}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


@contextlib.contextmanager
def reading(place: StoreLocation) -> Iterator[Connection]:
    """Read; what fails is said without the values of rows."""
    if place.files is not None:
        place.files.check()
    with saying("the store cannot be read", place.engine), place.engine.connect() as connection:
        yield connection


@contextlib.contextmanager
def saying(what: str, engine: Engine) -> Iterator[None]:
    """Turn what a database says into a StoreFailed; of a damaged file of SQLite it says which one it is."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeError, OverflowError) as problem:
        damage = damage_of(problem, engine.url.database or "") if engine.dialect.name == "sqlite" else ""
        raise StoreFailed(f"{what}: {damage or words_of(problem)}", path="traces") from None


def words_of(problem: BaseException) -> str:
    """Give the first line of what a database or the system says."""
    said = getattr(problem, "orig", None) or problem
    lines = str(said).strip().splitlines()
    return lines[0][:WORDS] if lines else type(said).__name__


def passes(problem: BaseException) -> bool:
    """Whether what failed may succeed later: the database is locked, or the connection was lost."""
    if not isinstance(problem, DBAPIError):
        return False
    if problem.connection_invalidated:
        return True
    state = getattr(problem.orig, "sqlstate", None)
    if state is not None:
        return bool(state.startswith(_PASSING))
    words = str(problem.orig)
    return "locked" in words or "connection" in words
