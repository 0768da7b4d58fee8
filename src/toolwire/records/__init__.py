"""Records: both sides of each exchange, in SQLite or PostgreSQL.

Rules of this file:
- SQLAlchemy is imported when `open` or `RecordStore` is first used. Without it, the error names the extra to install.
"""

import importlib as _importlib
import typing as _typing

from toolwire.errors import MissingExtra as _MissingExtra
from toolwire.errors import StoreFailed
from toolwire.records.record import SIDES, Body, EarlierExchange, Frame, Record, Summary

if _typing.TYPE_CHECKING:
    from toolwire.records.queries import RecordPage
    from toolwire.records.store import RecordStore, open  # noqa: A004 - the public name is `records.open`

__all__ = [
    "SIDES",
    "Body",
    "EarlierExchange",
    "Frame",
    "Record",
    "RecordPage",
    "RecordStore",
    "StoreFailed",
    "Summary",
    "open",
]

_LAZY = {"RecordPage": "queries", "RecordStore": "store", "open": "store"}


if not _typing.TYPE_CHECKING:  # a type checker would accept any attribute

    def __getattr__(name: str) -> _typing.Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'toolwire.records' has no attribute {name!r}")
        try:
            return getattr(_importlib.import_module(f"toolwire.records.{_LAZY[name]}"), name)
        except ModuleNotFoundError as problem:
            if (problem.name or "").partition(".")[0] != "sqlalchemy":
                raise
            raise _MissingExtra("SQLAlchemy", "serve", "to store records") from None
