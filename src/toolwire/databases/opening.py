"""The opening of a database: SQLite or PostgreSQL.

Rules of this file:
- What is stored is private: nobody but the user who created a file here can read it.
- The files of SQLite are watched: nothing is read or written after they are removed, moved, replaced or emptied.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from toolwire.databases.file_watch import FileWatch

_STUCK_MS = 5000  # PostgreSQL ends a transaction that is idle for so long: its process is paused, and holds locks
_LOCKED_MS = 10_000
_PRAGMAS = ("busy_timeout=10000", "journal_mode=WAL", "synchronous=NORMAL")
_TRANSIENT = ("08", "40", "53", "55P03", "57P")
_MAX_MESSAGE = 300


def open_database(
    url: str, *, one_writer: bool = False, owner: str = "server.database"
) -> tuple[Engine, FileWatch | None]:
    """Return a database whose errors show no values, and the watch of its files if it has any.

    With `one_writer`, a transaction in SQLite waits for the current writer. A server may have closed an idle connection
    or restarted, so a connection is tested before it is used. `owner` is the path that errors name.
    """
    engine = create_engine(url, hide_parameters=True, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name != "sqlite":
        return engine, None
    event.listen(engine, "connect", _begin_with_us if one_writer else _journal)
    path = engine.url.database
    files = _watched(engine, path, owner) if path and not path.startswith((":memory:", "file:")) else None
    if one_writer:
        event.listen(engine, "begin", _lock)
    return engine, files


def _watched(engine: Engine, path: str, owner: str) -> FileWatch:
    """Create the file with access for its user only, if it is missing, and check it whenever it is used."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    files = FileWatch(Path(path).resolve(), owner)
    files.start()
    files.follow(engine)
    event.listen(engine, "begin", lambda _connection: files.remember())
    return files


def share_locks(connection: Any, _record: Any) -> None:
    """Make PostgreSQL end the transaction of a paused process, and limit the wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = {_STUCK_MS}")
        cursor.execute(f"SET lock_timeout = {_LOCKED_MS}")
    connection.commit()


def _journal(connection: Any, _record: Any) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_with_us(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # `_lock` begins transactions, and nobody else
    _journal(connection, record)


def _lock(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def with_driver(url: str | URL) -> URL:
    """Return the URL with the installed driver: psycopg 3 for PostgreSQL."""
    parsed = make_url(url)
    postgresql = parsed.drivername.partition("+")[0] in ("postgresql", "postgres")
    return parsed.set(drivername="postgresql+psycopg") if postgresql else parsed


def first_line(problem: BaseException) -> str:
    """Return the first line of the message of a database or system error."""
    error = getattr(problem, "orig", None) or problem
    lines = str(error).strip().splitlines()
    return lines[0][:_MAX_MESSAGE] if lines else type(error).__name__


def is_transient(problem: BaseException) -> bool:
    """Return True if a retry may succeed, because the database was locked or the connection was lost."""
    if not isinstance(problem, DBAPIError):
        return False
    if problem.connection_invalidated:
        return True
    state = getattr(problem.orig, "sqlstate", None)
    if state is not None:
        return bool(state.startswith(_TRANSIENT))
    message = str(problem.orig)
    return "locked" in message or "connection" in message
