"""The database in which the gateways of one team keep keys and turns: SQLite or PostgreSQL.

Rule: what is said in turns is for those who run the gateway: nobody else can read a file that is made here.
"""

import contextlib
import os
from typing import Any

from sqlalchemy import Engine, create_engine, event

_PRAGMAS = ("busy_timeout=10000", "journal_mode=WAL", "synchronous=NORMAL")


def open_database(url: str, *, one_writer: bool = False) -> Engine:
    """Open a database whose errors show no values; with `one_writer`, what begins in SQLite waits for who writes.

    A server may have cut a connection, or have been started anew: one that waits is tried before it is used.
    """
    engine = create_engine(url, hide_parameters=True, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name == "sqlite":
        _own(engine.url.database)
        event.listen(engine, "connect", _begin_with_us if one_writer else _journal)
        if one_writer:
            event.listen(engine, "begin", _lock)
    return engine


def _own(path: str | None) -> None:
    """Make a file that nobody else can read; one that is there stays as it is."""
    if path and not path.startswith((":memory:", "file:")):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _journal(connection: Any, _record: Any) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_with_us(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # `_lock` begins transactions, and nobody else
    _journal(connection, record)


def _lock(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
