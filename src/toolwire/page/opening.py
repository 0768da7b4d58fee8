"""Opening what is to be looked at: a database of records, traces or runs, or a recorded body or stream.

Rules of this file:
- Nothing is created and nothing is deleted. A viewer is no owner of a store.
- A database may have several stores. Each one that is there is shown.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolwire.errors import MissingExtra, UserError
from toolwire.page.sources import Sources

_SQLITE = b"SQLite format 3\0"
_URLS = ("sqlite:///", "postgresql://", "postgres://", "postgresql+psycopg://")
_TEXT_BYTES = 48 * 1024 * 1024
_TABLES = {"records": "toolwire_records", "traces": "tool_traces", "runs": "toolwire_runs"}


def open_source(name: str, stack: contextlib.ExitStack) -> Sources:
    """Return the sources that `name` is: a database's address, or a file. The stack closes what was opened.

    Raise `UserError` if there is no such file, or nothing in it that can be shown.
    """
    if name.startswith(_URLS):
        return open_database(name, stack)
    path = Path(name)
    if not path.is_file():
        raise UserError("is no file, and no address such as sqlite:///records.db", path=name)
    with path.open("rb") as file:
        data = file.read(_TEXT_BYTES + 1)
    if data.startswith(_SQLITE):
        return open_database(f"sqlite:///{path.resolve()}", stack, path.name)
    if len(data) > _TEXT_BYTES:
        raise UserError(f"is longer than {_TEXT_BYTES // 1024**2} MB", path=name)
    return Sources(pasted=data.decode("utf-8-sig", "replace") or " ", pasted_name=path.name, where=path.name)


def open_database(url: str, stack: contextlib.ExitStack, where: str = "") -> Sources:
    """Return the stores of a database."""
    try:
        tables = _tables_of(url)
        sources = Sources(where=where or url.rpartition("/")[2].partition("?")[0])
        for store, table in _TABLES.items():
            if table in tables:
                setattr(sources, store, stack.enter_context(contextlib.closing(_OPENERS[store](url))))
    except ImportError as problem:
        raise MissingExtra(str(problem.name), "all", "to open a database") from problem
    if not tables & set(_TABLES.values()):
        raise UserError("has no records, traces or runs", path=where or "database")
    return sources


def _tables_of(url: str) -> set[str]:
    from sqlalchemy import create_engine, inspect  # noqa: PLC0415 - an extra
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - likewise

    from toolwire.databases.opening import with_driver  # noqa: PLC0415 - likewise

    file = url.removeprefix("sqlite:///")
    if file != url and not Path(file).is_file():
        raise UserError("is no file", path=file)
    try:
        engine = create_engine(with_driver(url), hide_parameters=True)
        try:
            return set(inspect(engine).get_table_names())
        finally:
            engine.dispose()
    except SQLAlchemyError as problem:
        reason = str(getattr(problem, "orig", None) or type(problem).__name__).partition("\n")[0]
        raise UserError(f"cannot be opened: {reason}", path="database") from None


def _open_records(url: str) -> Any:
    from toolwire import records  # noqa: PLC0415 - an extra

    return records.open(url, bytes=None, expires=None, create=False)


def open_traces(url: str) -> Any:
    """Return a store of traces to read. `TOOLWIRE_TRACES_KEY` is the key of its chain."""
    from toolwire import traces  # noqa: PLC0415 - an extra

    return traces.open(url, key=os.environ.get("TOOLWIRE_TRACES_KEY"), create=False)


def open_runs(url: str) -> Any:
    """Return the runs of a database, without executing any."""
    from toolwire.runs import Runs  # noqa: PLC0415 - an extra

    return Runs(url)


_OPENERS: dict[str, Callable[[str], Any]] = {"records": _open_records, "traces": open_traces, "runs": open_runs}
