"""`traces.open`: a store by its URL, or in the database of the host.

Rules of this file:
- SQLAlchemy is loaded when a store is opened; where it is not installed, the message says how to get it.
"""

from typing import TYPE_CHECKING, Any, Literal

from toolwire.errors import MissingExtra

if TYPE_CHECKING:
    from toolwire.traces.store import Store

BATCH = 500
QUEUE = 10_000
PATIENCE = 10.0


def open(  # noqa: A001, PLR0913 - `traces.open` is the name that is meant; what a store can be told
    url: Any = None,
    *,
    engine: Any = None,
    namespace: str | None = None,
    key: bytes | str | None = None,
    failing: Literal["stop", "continue"] = "stop",
    create: bool = True,
    batch: int = BATCH,
    queue: int = QUEUE,
    patience: float = PATIENCE,
) -> "Store":
    """Open a store of traces.

    `url` is sqlite:///traces.db or postgresql://user@host/database; `engine` is the host's own of SQLAlchemy.
    `namespace` is a schema on PostgreSQL, the beginning of the table's name on SQLite. With a `key`, nobody
    without it can compute a chain. `failing` says whether a store that fails stops what is recorded, or is
    logged and counted. `create` makes the table or brings it to the newest version. A commit has `batch`
    traces at most; `queue` may wait for theirs; what may pass is tried again for `patience` seconds.
    """
    try:
        from toolwire.traces.store import opened  # noqa: PLC0415 - SQLAlchemy is loaded when it is used
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "sqlalchemy":
            raise
        raise MissingExtra("SQLAlchemy", "traces", "to keep traces") from None
    return opened(
        url,
        engine=engine,
        namespace=namespace,
        key=key,
        failing=failing,
        create=create,
        batch=batch,
        queue=queue,
        patience=patience,
    )
