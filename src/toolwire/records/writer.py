"""The thread that writes a store's records, in batches.

Rules of this file:
- Writing never waits and never raises: a record that finds the queue full is counted as lost.
- The queue is limited by the number of records and by their bytes.
- A database that fails loses the batch, not the process: the failure is logged, and the next batch is tried.
- The thread works in small pieces, and rests between two batches, so that a gateway's event loop is not held up.
"""

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidBody, StoreFailed
from toolwire.records.database import Database
from toolwire.records.masking import Masker
from toolwire.records.packing import PackedRecord, pack, shrink
from toolwire.records.record import Record, Summary
from toolwire.wire.bodies import members_of
from toolwire.wire.conversation_ids import conversation_of

_LOG = logging.getLogger("toolwire.records")
_REST = 0.4  # seconds between two batches: records that arrive meanwhile are committed together
_IDLE = 30.0  # seconds after which an idle thread looks for expired records
_LOG_SECONDS = 60.0
_BATCH = 500
_EXIT_SECONDS = 30.0
_WAITING, _WAITING_BYTES = 1000, 33_554_432  # from which a caller that can wait waits
_RETRIES = 3
_RETRY_SECONDS = 0.5


class StoreLimits(Struct, frozen=True):
    """The limits of a store: the bytes and the age of its records, the bytes of a body, and those of its queue."""

    bytes: int | None = 1_073_741_824
    expires: float | None = 604_800.0
    body: int = 8_388_608
    queue: int = 10_000
    queue_bytes: int = 134_217_728


class _Item(Struct):
    record: Record | PackedRecord | Callable[[], Record]
    size: int
    secrets: Sequence[str]


class RecordWriter:
    """The queue of a store, and its thread. `lost` counts the records that were not stored."""

    def __init__(self, database: Database, limits: StoreLimits) -> None:
        self._database, self._limits = database, limits
        self.written: int = 0
        self.lost: int = 0
        self.failed: str = ""
        self.closed: bool = False
        self._masker = Masker()
        self._logged = -_LOG_SECONDS
        self._next_expiry = 0.0
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[_Item] = deque()
        self._bytes = 0
        self._pending = 0
        self._hurries = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def put(
        self,
        record: Record | PackedRecord | Callable[[], Record],
        size: int,
        secrets: Sequence[str],
        *,
        waits: bool = False,
    ) -> bool:
        """Put a record into the queue. Return False if it is lost, because the queue is full or closed.

        With `waits`, wait until the queue has room for it.
        """
        if self._process != os.getpid():  # the records of a parent are the parent's
            self._reset()
        with self._changed:
            if waits:
                self._changed.wait_for(lambda: self._pending < _WAITING and self._bytes < _WAITING_BYTES)
            is_full = self._pending >= self._limits.queue or self._bytes + size > self._limits.queue_bytes
            is_lost = is_full or self.closed
            if is_lost:
                self.lost += 1
            else:
                self._items.append(_Item(record, size, secrets))
                self._bytes += size
                self._pending += 1
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="toolwire-records", daemon=True)
                    self._thread.start()
                    atexit.register(self.close)
                if self._pending == 1:
                    self._changed.notify_all()
        if is_full:
            self._warn("%d records were lost: they arrive faster than they can be written", self.lost)
        return not is_lost

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all records are written or lost. Return False if `timeout` seconds have passed."""
        with self._changed:
            self._hurries = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._pending == 0 or self._thread is None, timeout)

    def close(self, timeout: float | None = _EXIT_SECONDS) -> None:
        """Write what waits, and end the thread."""
        atexit.unregister(self.close)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self.closed, _IDLE)
                if not self._items and self.closed:
                    return
            batch = self._take()
            if batch:
                self._write(batch)
                with self._changed:
                    self._pending -= len(batch)
                    self._bytes -= sum(item.size for item in batch)
                    self._hurries = self._hurries and bool(self._items)
                    self._changed.notify_all()
            self._expire()
            with self._changed:
                self._changed.wait_for(lambda: self._hurries or self.closed, _REST)

    def _take(self) -> list[_Item]:
        with self._changed:
            return [self._items.popleft() for _ in range(min(len(self._items), _BATCH))]

    def _write(self, batch: Sequence[_Item]) -> None:
        rows = [row for item in batch if (row := self._row(item)) is not None]
        for attempt in range(_RETRIES):
            try:
                if rows:
                    self._database.insert(rows, self._limits.bytes)
            except StoreFailed as problem:
                self.failed = str(problem)
                if attempt + 1 < _RETRIES and not self.closed:
                    time.sleep(_RETRY_SECONDS)
            else:
                self.failed = ""
                self.written += len(rows)
                return
        self.lost += len(rows)
        self._warn("%d records were lost: %s", self.lost, self.failed)

    def _row(self, item: _Item) -> tuple[Summary, bytes] | None:
        """Return the row of a record. A record that cannot be made is lost, and no other one."""
        try:
            made = item.record() if callable(item.record) else item.record
            packed = made if isinstance(made, PackedRecord) else shrink(made)
            clean = self._masker.clean(_with_conversation(packed), item.secrets, self._limits.body)
            return clean.record.summary(), pack(clean)
        except Exception as problem:  # noqa: BLE001 - whatever a request holds, the other records are written
            self.lost += 1
            self._warn("%d records were lost: %s", self.lost, type(problem).__name__)
            return None

    def _expire(self) -> None:
        """Delete expired records, now and then."""
        if self._limits.expires is None or time.monotonic() < self._next_expiry:
            return
        self._next_expiry = time.monotonic() + _IDLE
        try:
            self._database.delete_before(time.time() - self._limits.expires)
        except StoreFailed as problem:
            self._warn("expired records were not deleted, %d are lost: %s", self.lost, problem)

    def _warn(self, words: str, *values: object) -> None:
        """Log a problem, at most once a minute."""
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            _LOG.warning(words, *values)


def _with_conversation(packed: PackedRecord) -> PackedRecord:
    """Return a record with the id of its conversation, if one of its requests shows it."""
    record = packed.record
    if record.conversation:
        return packed
    identity = _conversation_in(record.client_request.data, record.key)
    if not identity and "provider_request" not in packed.splices:
        identity = _conversation_in(record.provider_request.data, record.key)
    return replace(packed, record=replace(record, conversation=identity)) if identity else packed


def _conversation_in(data: bytes, key: str) -> str:
    try:
        return conversation_of(key, members_of(data)).hex()[:32] if data else ""
    except InvalidBody:
        return ""
