"""Traces: a tamper-evident record of each tool call in SQLite or PostgreSQL.

Rules of this file:
- SQLAlchemy is imported when `open`, `Store` or a query is first used. Without it, the error names the extra to
  install.
"""

import importlib as _importlib
import typing as _typing

from toolwire.errors import InvalidTrace, StoreFailed
from toolwire.errors import MissingExtra as _MissingExtra
from toolwire.traces.chain import Problem, Verification, verify
from toolwire.traces.lines import export, import_, rows_of
from toolwire.traces.trace import ENDINGS, Scope, Trace

if _typing.TYPE_CHECKING:
    from toolwire.traces.queries import Page, Stats
    from toolwire.traces.store import Store, open  # noqa: A004 - the public name is `traces.open`
    from toolwire.traces.writer import Ticket

__all__ = [
    "ENDINGS",
    "InvalidTrace",
    "Page",
    "Problem",
    "Scope",
    "Stats",
    "Store",
    "StoreFailed",
    "Ticket",
    "Trace",
    "Verification",
    "export",
    "import_",
    "open",
    "rows_of",
    "verify",
]

_LAZY = {"Page": "queries", "Stats": "queries", "Store": "store", "Ticket": "writer", "open": "store"}


if not _typing.TYPE_CHECKING:  # a type checker would accept any attribute

    def __getattr__(name: str) -> _typing.Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'toolwire.traces' has no attribute {name!r}")
        try:
            return getattr(_importlib.import_module(f"toolwire.traces.{_LAZY[name]}"), name)
        except ModuleNotFoundError as problem:
            if (problem.name or "").partition(".")[0] != "sqlalchemy":
                raise
            raise _MissingExtra("SQLAlchemy", "traces", "to keep traces") from None
