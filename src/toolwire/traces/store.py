"""A store of traces: recording and queries.

Rules of this file:
- Recording takes microseconds, because the store's own thread writes to the database.
- If a store fails, recording, flushing and closing raise. With `failing="continue"` the failure is logged and counted
  instead. A ticket reports it in both cases.
- This file is imported, with SQLAlchemy, only when a store is opened.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, Unpack

from sqlalchemy import URL, Engine, QueuePool

from toolwire.databases.file_watch import files_of
from toolwire.errors import InvalidField, StoreFailed
from toolwire.traces import queries
from toolwire.traces.chain import Verification, digester
from toolwire.traces.committer import Committer, load
from toolwire.traces.databases import StoreLocation, locate_store
from toolwire.traces.forms import encode_row
from toolwire.traces.migration import prepare
from toolwire.traces.queries import LIMIT, Filters, Page, Stats
from toolwire.traces.tables import grants
from toolwire.traces.trace import AnyId, Scope, Trace
from toolwire.traces.writer import Row, Ticket, Writer

_Recorded = Trace | Mapping[str, Any] | Callable[[], Trace]
_POLICIES = ("stop", "continue")
_FORKED: list[Any] = []


class Store:
    """A store of traces in one table of a database. `traces.open` returns it.

    >>> import tempfile
    >>> from toolwire import Trace, traces
    >>> with traces.open(f"sqlite:///{tempfile.mkdtemp()}/traces.db") as store:
    ...     ticket = store.record(
    ...         Trace.new(tool_name="look", arguments={}, result="ok", result_type="ok", duration_ms=1, iteration=0)
    ...     )
    ...     print(store.flush(), store.verify().count)
    True 0
    """

    def __init__(self, location: StoreLocation, writer: Writer, key: bytes | str | None) -> None:
        self._location = location
        self._writer = writer
        self._key = key
        self._end = weakref.finalize(self, writer.finish)
        self._end.atexit = False

    def of(self, tenant_id: AnyId = None, conversation_id: AnyId = None, session: str | None = None) -> Scope:
        """Return a scope for one tenant's conversation. Pass it to a client as `traces=`."""
        return Scope.of(self, tenant_id, conversation_id, session)

    def record(self, trace: _Recorded) -> Ticket:
        """Record a trace, or a mapping with a trace's fields. It waits only if the queue is full."""
        return self._writer.put(_encode(trace))

    async def arecord(self, trace: _Recorded) -> Ticket:
        """Record a trace in async code. Waiting does not block the event loop."""
        return await self._writer.aput(_encode(trace))

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all recorded traces are committed. Return False if `timeout` seconds have passed.

        Raise `StoreFailed` if the store failed.
        """
        return self._writer.flush(timeout)

    async def aflush(self) -> None:
        """Wait in async code until all recorded traces are committed. Raise `StoreFailed` if the store failed."""
        await self._writer.aflush()

    def close(self, timeout: float | None = None) -> None:
        """Commit all recorded traces, end the store's thread and close its connections."""
        self._writer.close(timeout)

    async def aclose(self) -> None:
        """Close the store in async code. Waiting does not block the event loop."""
        try:
            await self._writer.aflush()
        finally:
            self._writer.close()

    @property
    def _open_location(self) -> StoreLocation:
        if self._writer.closed:
            raise StoreFailed("the store is closed", path="traces")
        return self._location

    @property
    def failed(self) -> StoreFailed | None:
        """The failure because of which the store accepts no more traces, with `failing="stop"`, or None.

        The store's files are checked first. `resume` makes the store accept traces again.
        """
        if not self._writer.closed:
            self._writer.check()
        return self._writer.failed

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the store, the database first. PostgreSQL has none."""
        watch = self._location.files
        return () if watch is None else files_of(watch.path)

    @property
    def lost(self) -> int:
        """The number of traces that will never be committed. None of them was acknowledged."""
        return self._writer.lost

    def resume(self) -> None:
        """Accept traces again after a failure."""
        self._writer.resume()

    def traces(
        self, *, after: int | None = None, limit: int = LIMIT, newest: bool = False, **filters: Unpack[Filters]
    ) -> Page:
        """Return a page of traces, filtered by tenant, conversation, tool, result_type, ending, since and until."""
        return queries.read_page(self._open_location, filters, after=after, limit=limit, newest=newest)

    def get(self, id: str) -> Trace | None:  # noqa: A002 - the name of the trace's field
        """Return the trace with an id, or None."""
        return queries.find_trace(self._open_location, id)

    def stats(self, **filters: Unpack[Filters]) -> tuple[Stats, ...]:
        """Return the number and durations of calls, by tool and ending."""
        return queries.read_stats(self._open_location, filters)

    def count(self, **filters: Unpack[Filters]) -> int:
        """Return the number of calls. With `ending="begun"`, count the rows that record only a call's start."""
        return queries.count_calls(self._open_location, filters)

    def rows(self, **filters: Unpack[Filters]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows as they are stored, with their hashes, in order of position."""
        return queries.iterate_rows(self._open_location, filters)

    def load(self, rows: Iterable[Mapping[str, Any]], anchor: str | None = None) -> Verification:
        """Load a whole chain of rows into this store, which must be empty. Raise `StoreFailed` if it has problems."""
        return load(self._open_location, rows, key=self._key, anchor=anchor)

    def verify(self, anchor: str | None = None) -> Verification:
        """Find rows that were changed, removed, inserted or moved since they were recorded."""
        return queries.verify_store(self._open_location, key=self._key, anchor=anchor)

    def anchor(self) -> str | None:
        """Return a line that proves all rows so far, to be kept elsewhere. It is None for an empty store."""
        return queries.read_anchor(self._open_location)

    def grants(self, role: str) -> list[str]:
        """Return the SQL statements that give a PostgreSQL role the rights to record and read, and no others."""
        return grants(self._open_location.table, role)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def open(  # noqa: A001, PLR0913 - the public name is `traces.open`; its options
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

    - `url`: sqlite:///traces.db or postgresql://user@host/database. `engine`: your own SQLAlchemy engine instead.
    - `namespace`: a schema on PostgreSQL, and a prefix of the table's name on SQLite.
    - `key`: nobody without it can compute a chain.
    - `failing`: "stop" makes recording raise when the store has failed, "continue" logs and counts the lost traces.
    - `create`: create the table or migrate it.
    - `batch`: the most traces of a commit. `queue`: the most traces that wait for their commit.
    - `patience`: the seconds for which transient errors are retried.

    Raise InvalidField for a wrong option, and StoreFailed if the database cannot be opened.

    >>> import tempfile
    >>> from toolwire import Trace, traces
    >>> call = {
    ...     "tool_name": "look",
    ...     "arguments": {},
    ...     "result": "ok",
    ...     "result_type": "ok",
    ...     "duration_ms": 1,
    ...     "iteration": 0,
    ... }
    >>> with traces.open(f"sqlite:///{tempfile.mkdtemp()}/traces.db") as store:
    ...     ticket = store.record(Trace.new(call))
    ...     print(store.flush(), [trace.tool_name for trace in store.traces().rows])
    True ['look']
    """
    digest = digester(key)
    if failing not in _POLICIES:
        raise InvalidField("failing", f"must be one of {', '.join(_POLICIES)}", path="traces")
    for name, value in (("batch", batch), ("queue", queue)):
        if type(value) is not int or value < 1:
            raise InvalidField(name, "must be a whole number, 1 or more", path="traces")
    location = locate_store(url, engine, namespace, create=create, patience=patience)
    try:
        prepare(location, create=create)
    except BaseException:
        location.close()
        raise
    committer, stops = Committer(location, digest), failing == "stop"
    committer.open()
    forked = partial(_after_fork, location)
    writer = Writer(
        committer, close=location.close, forked=forked, stops=stops, batch=batch, queue=queue, patience=patience
    )
    return Store(location, writer, key)


def _encode(trace: _Recorded) -> Row:
    """Return the row of a trace. A function that returns a trace is called in the store's thread."""
    if callable(trace):
        return lambda: encode_row(trace())
    return encode_row(trace if isinstance(trace, Trace) else Trace.new(trace))


def _after_fork(location: StoreLocation) -> StoreFailed | None:
    """Drop the parent's connections without closing them. Return the failure if an SQLite connection is in use."""
    pool = location.engine.pool
    has_connections = not location.is_owned or (isinstance(pool, QueuePool) and pool.checkedout() > 0)
    if location.is_owned:
        _FORKED.append(pool)
        location.engine.dispose(close=False)
        if location.files is not None:
            location.files.forget()
    if has_connections and location.database == "sqlite":
        words = (
            "SQLite was open when the process forked: dispose of engines before the fork, and open the store after it"
        )
        return StoreFailed(words, path="traces")
    return None
