"""A store of traces: where they are recorded, and where they are read.

Rules of this file:
- Recording takes microseconds: the database is written to by the store's own thread.
- A store that fails says so to whoever records, flushes or closes; with `failing="continue"` it is logged and
  counted instead, and a ticket says it in both.
- This file and all that it needs of SQLAlchemy is loaded when a store is opened.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, Unpack

from sqlalchemy import URL, Engine, QueuePool

from toolwire.errors import InvalidField, StoreFailed
from toolwire.traces import reading
from toolwire.traces.chain import Verification, digester
from toolwire.traces.committing import Committer, load
from toolwire.traces.databases import StoreLocation, place
from toolwire.traces.forms import row_of
from toolwire.traces.migrating import prepare
from toolwire.traces.reading import LIMIT, Filters, Page, Stats
from toolwire.traces.tables import grants
from toolwire.traces.trace import AnyId, Scope, Trace
from toolwire.traces.watching import files_of
from toolwire.traces.writer import Row, Ticket, Writer

_Recorded = Trace | Mapping[str, Any] | Callable[[], Trace]
_POLICIES = ("stop", "continue")
_FORKED: list[Any] = []


class Store:
    """Traces in one table of a database; `traces.open` makes it."""

    def __init__(self, place: StoreLocation, writer: Writer, key: bytes | str | None) -> None:
        self._found = place
        self._writer = writer
        self._key = key
        self._end = weakref.finalize(self, writer.leave)
        self._end.atexit = False

    def of(self, tenant_id: AnyId = None, conversation_id: AnyId = None, session: str | None = None) -> Scope:
        """Give a scope for the calls of one tenant and conversation; clients take it as `traces`."""
        return Scope.of(self, tenant_id, conversation_id, session)

    def record(self, trace: _Recorded) -> Ticket:
        """Record a trace, or a map that makes one; wait only if the database is slower than the calls."""
        return self._writer.put(_row(trace))

    async def arecord(self, trace: _Recorded) -> Ticket:
        """Record a trace in async code; waiting does not block the loop."""
        return await self._writer.aput(_row(trace))

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything recorded so far is committed."""
        return self._writer.flush(timeout)

    async def aflush(self) -> None:
        """Wait in async code until everything recorded so far is committed."""
        await self._writer.aflush()

    def close(self, timeout: float | None = None) -> None:
        """Commit everything recorded, end the store's thread and close its connections."""
        self._writer.close(timeout)

    async def aclose(self) -> None:
        """Close in async code; waiting does not block the loop."""
        try:
            await self._writer.aflush()
        finally:
            self._writer.close()

    @property
    def _place(self) -> StoreLocation:
        if self._writer.closed:
            raise StoreFailed("the store is closed", path="traces")
        return self._found

    @property
    def failed(self) -> StoreFailed | None:
        """Why the store takes no more traces, with `failing="stop"`; `resume` takes traces again.

        What became of a store's files is looked at first.
        """
        if not self._writer.closed:
            self._writer.check()
        return self._writer.failed

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the store, the named one first; PostgreSQL has none."""
        watch = self._found.files
        return () if watch is None else files_of(watch.path)

    @property
    def lost(self) -> int:
        """How many traces will never be committed; none of them was acknowledged."""
        return self._writer.lost

    def resume(self) -> None:
        """Take traces again after a failure."""
        self._writer.resume()

    def traces(
        self, *, after: int | None = None, limit: int = LIMIT, newest: bool = False, **filters: Unpack[Filters]
    ) -> Page:
        """Read a page of traces: by tenant, conversation, tool, result_type, ending, since and until."""
        return reading.page(self._place, filters, after=after, limit=limit, newest=newest)

    def get(self, id: str) -> Trace | None:  # noqa: A002 - it is the field's name
        """Read the trace of an id."""
        return reading.one(self._place, id)

    def stats(self, **filters: Unpack[Filters]) -> tuple[Stats, ...]:
        """Count calls and their time, by tool and ending."""
        return reading.stats(self._place, filters)

    def count(self, **filters: Unpack[Filters]) -> int:
        """Count calls; with `ending="begun"`, the rows which only say that one has begun."""
        return reading.count(self._place, filters)

    def rows(self, **filters: Unpack[Filters]) -> Iterator[Mapping[str, Any]]:
        """Read rows as they are stored, hashes and all, in the order of positions."""
        return reading.stored(self._place, filters)

    def load(self, rows: Iterable[Mapping[str, Any]], anchor: str | None = None) -> Verification:
        """Put a whole chain of rows into this store, which must be empty."""
        return load(self._place, rows, key=self._key, anchor=anchor)

    def verify(self, anchor: str | None = None) -> Verification:
        """Find rows that were changed, removed, inserted or moved since they were recorded."""
        return reading.verify(self._place, key=self._key, anchor=anchor)

    def anchor(self) -> str | None:
        """Give a line that proves all rows up to now, to keep elsewhere; None for an empty store."""
        return reading.anchor(self._place)

    def grants(self, role: str) -> list[str]:
        """List the statements that let a role of PostgreSQL record and read, and nothing else."""
        return grants(self._place.table, role)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def open(  # noqa: A001, PLR0913 - `traces.open` is the name that is meant; what a store can be told
    url: str | URL | None = None,
    *,
    engine: Engine | None = None,
    namespace: str | None = None,
    key: bytes | str | None = None,
    failing: Literal["stop", "continue"] = "stop",
    create: bool = True,
    batch: int = 500,
    queue: int = 10_000,
    patience: float = 10.0,
) -> Store:
    """Open a store of traces.

    `url` is sqlite:///traces.db or postgresql://user@host/database; `engine` is the host's own of SQLAlchemy.
    `namespace` is a schema on PostgreSQL, the beginning of the table's name on SQLite. With a `key`, nobody
    without it can compute a chain. `failing` says whether a store that fails stops what is recorded, or is
    logged and counted. `create` makes the table or brings it to the newest version. A commit has `batch`
    traces at most; `queue` may wait for theirs; what may pass is tried again for `patience` seconds.
    """
    digest = digester(key)
    if failing not in _POLICIES:
        raise InvalidField("failing", f"must be one of {', '.join(_POLICIES)}", path="traces")
    for name, number in (("batch", batch), ("queue", queue)):
        if type(number) is not int or number < 1:
            raise InvalidField(name, "must be a whole number, 1 or more", path="traces")
    location = place(url, engine, namespace, create=create, patience=patience)
    try:
        prepare(location, create=create)
    except BaseException:
        location.close()
        raise
    committer, stops = Committer(location, digest), failing == "stop"
    committer.begin()
    forked = partial(_forked, location)
    writer = Writer(
        committer, close=location.close, forked=forked, stops=stops, batch=batch, queue=queue, patience=patience
    )
    return Store(location, writer, key)


def _row(trace: _Recorded) -> Row:
    """Give the row of a trace; one that is still to be made is made by the store's thread."""
    if callable(trace):
        return lambda: row_of(trace())
    return row_of(trace if isinstance(trace, Trace) else Trace.new(trace))


def _forked(place: StoreLocation) -> StoreFailed | None:
    """Leave the parent's connections as they are; a file that one of them has open cannot be used here."""
    pool = place.engine.pool
    left = not place.own or (isinstance(pool, QueuePool) and pool.checkedout() > 0)
    if place.own:
        _FORKED.append(pool)
        place.engine.dispose(close=False)
        if place.files is not None:
            place.files.forget()
    if left and place.database == "sqlite":
        words = "SQLite was open when the process forked: dispose of engines before, and open the store after"
        return StoreFailed(words, path="traces")
    return None
