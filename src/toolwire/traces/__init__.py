"""Traces: every tool call recorded so that nobody changes it in silence, in SQLite or PostgreSQL."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from toolwire.errors import InvalidTrace, StoreFailed
from toolwire.traces.chain import Problem, Verification, verify
from toolwire.traces.jsonl import export, import_, rows_of
from toolwire.traces.opening import open  # noqa: A004 - `traces.open` is the name that is meant
from toolwire.traces.pages import Page, Stats
from toolwire.traces.trace import ENDINGS, Trace

if _TYPE_CHECKING:
    from toolwire.traces.store import Store
    from toolwire.traces.writer import Ticket

__all__ = [
    "ENDINGS",
    "InvalidTrace",
    "Page",
    "Problem",
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

_LAZY = {"Store": "toolwire.traces.store", "Ticket": "toolwire.traces.writer"}


def __getattr__(name: str) -> _Any:
    if home := _LAZY.get(name):
        return getattr(_importlib.import_module(home), name)
    raise AttributeError(f"module 'toolwire.traces' has no attribute {name!r}")
