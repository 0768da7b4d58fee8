"""Durable runs: conversations that continue after their process, or their machine, has died.

Rules of this file:
- DBOS is imported when `Run` or `Runs` is first used. Without it, the error names the extra to install.
"""

import importlib as _importlib
import typing as _typing

from toolwire.errors import MissingExtra as _MissingExtra

if _typing.TYPE_CHECKING:
    from toolwire.runs.run import Question, Run, Runs

__all__ = ["Question", "Run", "Runs"]

if not _typing.TYPE_CHECKING:  # a type checker would accept any attribute

    def __getattr__(name: str) -> _typing.Any:
        if name not in __all__:
            raise AttributeError(f"module 'toolwire.runs' has no attribute {name!r}")
        return getattr(_loaded("run"), name)

    def awaited() -> _typing.Any:
        """Return the module of the async API."""
        return _loaded("aio")

    def _loaded(module: str) -> _typing.Any:
        """Import a module of this package. Without DBOS, raise the error that names the extra to install."""
        try:
            return _importlib.import_module(f"toolwire.runs.{module}")
        except ModuleNotFoundError as problem:
            if (problem.name or "").partition(".")[0] not in ("dbos", "sqlalchemy"):
                raise
            raise _MissingExtra("DBOS", "runs", "for durable runs") from None
