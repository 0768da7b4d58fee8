"""Runs that survive: conversations that go on when their process, or their machine, is gone.

Rules of this file:
- The engine is loaded when it is first used; where it is not installed, the message says how to get it.
"""

import importlib as _importlib
import typing as _typing

from toolwire.errors import MissingExtra as _MissingExtra

if _typing.TYPE_CHECKING:
    from toolwire.runs.run import Question, Run, Runs

__all__ = ["Question", "Run", "Runs"]

if not _typing.TYPE_CHECKING:  # a checker would take any name for known

    def __getattr__(name: str) -> _typing.Any:
        if name not in __all__:
            raise AttributeError(f"module 'toolwire.runs' has no attribute {name!r}")
        return getattr(_loaded("run"), name)

    def awaited() -> _typing.Any:
        """Give the module of the awaited face."""
        return _loaded("aio")

    def _loaded(module: str) -> _typing.Any:
        try:
            return _importlib.import_module(f"toolwire.runs.{module}")
        except ModuleNotFoundError as problem:
            if (problem.name or "").partition(".")[0] not in ("dbos", "sqlalchemy"):
                raise
            raise _MissingExtra("DBOS", "runs", "for runs that survive") from None
