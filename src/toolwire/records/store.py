"""A store of records: writing in the background, lists, and whole records.

Rules of this file:
- This file is imported, with SQLAlchemy, only when a store is opened.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, Unpack

from toolwire.errors import InvalidField
from toolwire.records.database import Database, open_records
from toolwire.records.process import ProcessWriter
from toolwire.records.queries import (
    LIMIT,
    MAX_LIMIT,
    RecordFilters,
    RecordPage,
    RecordSum,
    read_page,
    read_record,
    read_sums,
)
from toolwire.records.record import Record
from toolwire.records.writer import RecordWriter, StoreLimits


class RecordStore:
    """A store of records in a database. `records.open` returns it.

    >>> import tempfile
    >>> from toolwire import records
    >>> with records.open(f"sqlite:///{tempfile.mkdtemp()}/records.db") as store:
    ...     store.write(records.Record(id="one", model="m", client_request=records.Body(data=b"{}")))
    ...     store.flush()
    ...     print([line.id for line in store.list().rows], store.read("one").client_request.text)
    True
    True
    ['one'] {}
    """

    def __init__(self, database: Database, writer: RecordWriter | ProcessWriter, limits: StoreLimits) -> None:
        self._database = database
        self._writer = writer
        self.limits: StoreLimits = limits

    def write(self, record: Record | Callable[[], Record], secrets: Sequence[str] = (), *, size: int = 0) -> bool:
        """Write a record in the background. Return False if it was lost, because too many wait.

        A function that returns a record is called in the store's thread; `size` is then how many bytes it holds.
        `secrets` are masked wherever they occur.
        """
        if not isinstance(record, Record) and not isinstance(self._writer, ProcessWriter):
            return self._writer.put(record, size, secrets)
        made = record if isinstance(record, Record) else record()
        return self._writer.put(made, sum(len(body.data) for body in made.bodies.values()), secrets)

    def list(
        self,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = LIMIT,
        **filters: Unpack[RecordFilters],
    ) -> RecordPage:
        """Return a page of lines, the newest first.

        `before` is the `next` of the page before. `after` is the position of the newest line that is known: the page
        then has the lines that came next, and its `next` is None once there are no more.
        """
        return read_page(self._database, filters, before=before, after=after, limit=limit, cutoff=self._cutoff)

    def sums(self, *by: str, limit: int = MAX_LIMIT, **filters: Unpack[RecordFilters]) -> tuple[RecordSum, ...]:
        """Return the sums of records by `key_name`, `conversation`, `model`, `provider`, `day` and so on.

        Without a column there is one sum, or none if no record fits.
        """
        return read_sums(self._database, by, filters, limit=limit, cutoff=self._cutoff)

    def iterate(self, **filters: Unpack[RecordFilters]) -> Iterator[Record]:
        """Yield whole records, the newest first."""
        before: int | None = None
        while True:
            page = self.list(before=before, limit=MAX_LIMIT, **filters)
            for line in page.rows:
                record = self.read(line.id)
                if record is not None:  # it has expired meanwhile
                    yield record
            if page.next is None:
                return
            before = page.next

    def read(self, id: str, *, key: str | None = None) -> Record | None:  # noqa: A002 - the name of the record's field
        """Return the record with an id, or None. With `key`, only a record that this key has made."""
        return read_record(self._database, id, key, self._cutoff)

    @property
    def _cutoff(self) -> float | None:
        return None if self.limits.expires is None else time.time() - self.limits.expires

    @property
    def lost(self) -> int:
        """How many records were not stored: the queue was full, or the database failed."""
        return self._writer.lost

    @property
    def written(self) -> int:
        """How many records this process has stored."""
        return self._writer.written

    @property
    def failed(self) -> str:
        """Why the last batch was not written. Empty if it was."""
        return self._writer.failed

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all records are written or lost. Return False if `timeout` seconds have passed."""
        return self._writer.flush(timeout)

    def close(self, timeout: float | None = 30.0) -> None:
        """Write what waits, and close the database."""
        self._writer.close(timeout)
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(  # noqa: A001 - the public name is `records.open`
    url: str,
    *,
    bytes: int | None = 1_073_741_824,  # noqa: A002 - the name of the setting
    expires: float | None = 604_800.0,
    body: int = 8_388_608,
    create: bool = True,
    process: bool = False,
) -> RecordStore:
    """Open a store of records.

    - `url`: sqlite:///records.db or postgresql://user@host/database.
    - `bytes`: how many bytes all records may take. The oldest ones are deleted. None: no limit.
    - `expires`: the seconds after which a record is deleted. None: never.
    - `body`: how many bytes of a body are recorded. A longer body is cut, and its `cut` is True.
    - `process`: write in a process of its own, so that this one only sends the records.
    - `create`: create the database. Otherwise the store raises `StoreFailed` if there is none.

    Raise InvalidField for a wrong option, and StoreFailed if the database cannot be opened.

    >>> import tempfile
    >>> from toolwire import records
    >>> with records.open(f"sqlite:///{tempfile.mkdtemp()}/records.db", expires=3600) as store:
    ...     store.write(records.Record(id="one", provider_answer=records.Body(data=b'{"id": 7}')))
    ...     store.flush()
    ...     [(record.id, record.provider_answer.json) for record in store.iterate()]
    True
    True
    [('one', {'id': 7})]
    """
    numbers: tuple[tuple[str, Any, bool], ...] = (
        ("bytes", bytes, bytes is None),
        ("expires", expires, expires is None),
        ("body", body, False),
    )
    for name, number, may_be_none in numbers:
        if not may_be_none and (type(number) not in (int, float) or number <= 0):
            raise InvalidField(name, "must be a number above 0", path="record")
    limits = StoreLimits(bytes=bytes, expires=expires, body=int(body))
    database = open_records(url, create=create)
    return RecordStore(database, ProcessWriter(url, limits) if process else RecordWriter(database, limits), limits)
