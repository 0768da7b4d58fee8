"""Traces for tests, and what looks at a database behind the store's back."""

from typing import Any

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from toolwire.traces import Trace
from toolwire.traces.store import Store

ATTRS: dict[str, Any] = {
    "tenant_id": "acme",
    "conversation_id": "talk",
    "tool_name": "weather",
    "arguments": {"city": "Tokyo"},
    "result": "18 degrees",
    "result_type": "ok",
    "duration_ms": 12.5,
    "iteration": 0,
}


def made(**fields: Any) -> Trace:
    """Make a trace."""
    return Trace.new(ATTRS, **fields)


def record(store: Store, number: int, **fields: Any) -> None:
    """Record some traces, of three conversations in turn."""
    for index in range(number):
        store.record(made(conversation_id=f"talk {index % 3}", iteration=index, **fields))
    store.flush()


class Between:
    """Stands between a store and its database; `committer` is what stood there before."""

    def __init__(self, store: Store) -> None:
        self.committer: Any = store._writer._committer
        store._writer._committer = self  # type: ignore[assignment]

    def check(self, *, idle: bool = True) -> None:
        """Look at the files, as what stood there does."""
        self.committer.check(idle=idle)

    def resume(self) -> None:
        """Accept restored files, as what stood there does."""
        self.committer.resume()


def kept_by(store: Store, trace: Trace) -> Trace:
    """Record a trace, and give it as the store has it."""
    store.record(trace)
    store.flush()
    found = store.get(trace.id)
    assert found is not None
    return found


def engine_of(url: str) -> Engine:
    """Give an engine of one's own that keeps no connection."""
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)


def change(url: str, *statements: str) -> None:
    """Change a database behind the store's back."""
    with engine_of(url).begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def asked(url: str, question: str) -> list[Any]:
    """Ask a database something."""
    with engine_of(url).connect() as connection:
        return list(connection.execute(text(question)))
