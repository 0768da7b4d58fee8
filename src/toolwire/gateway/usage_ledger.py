"""The usage ledger of a process: it writes the rows of answered requests in the background, and answers questions.

Rules of this file:
- A row is written within a second of its answer. A process that is killed loses the rows of its last second, and no
  others. A process that stops writes all of its rows first.
- Nobody knows whether a batch that failed was committed. It is written again, and counts once.
- If the database is unavailable, requests are answered, and their rows wait. `WaitingRows` bounds their number.
- Without a database, the rows of the last 24 hours are in the process, and their number is bounded.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from toolwire.config import UsageSettings, seconds_of
from toolwire.errors import StoreFailed
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.usage_queries import UsageQuery, check_rows_remain
from toolwire.gateway.usage_rows import UsageRow, WaitingRows, day_of
from toolwire.gateway.usage_tables import UsageTables

_log = logging.getLogger(__name__)
_DELAY = 0.4  # seconds for which a row waits for others, so that they share a transaction
_RETRY = 0.5
_BATCH = 2000
_PRUNE_EVERY = 60.0
_JOIN_SECONDS = 86_400.0  # after which processes have most probably written the rows of a day
_PRUNE_SOON = 0.05  # seconds between two pieces of old rows, in which others can write
_STOP_SECONDS = 10.0  # for which a process that stops tries to write its rows
IN_PROCESS = "sqlite://"
"""The address of a database in the process."""
_IN_PROCESS_SECONDS = 86_400.0
IN_PROCESS_ROWS = 100_000


class UsageLedger:
    """The usage ledger of a process. `open_tables` is called in the thread that writes.

    `keep` is how long rows are stored. With `in_process`, the tables are in this process.
    """

    def __init__(
        self,
        open_tables: Callable[[], UsageTables],
        keep: str = UsageSettings().keep,
        *,
        in_process: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._open_tables, self._keep, self._in_process, self._now = open_tables, keep, in_process, now
        self._seconds = min(seconds_of(keep), _IN_PROCESS_SECONDS) if in_process else seconds_of(keep)
        self._tables: UsageTables | None = None
        self._writer = ThreadPoolExecutor(1, "toolwire-usage")
        # A question about many rows must not delay the rows of others. A database in the process has one thread.
        self._reader = self._writer if in_process else ThreadPoolExecutor(1, "toolwire-usage-reader")
        self._waiting = WaitingRows()
        self._batch: list[UsageRow] = []  # it is written now, or the outcome of its last transaction is unknown
        self._again = False
        self._timer: asyncio.TimerHandle | None = None
        self._prune_timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._failing: str | None = None
        self._closed = False

    def start(self) -> None:
        """Begin to delete old rows. Call it in the event loop of the gateway."""
        self._prune_within(_PRUNE_SOON)

    def add(self, row: UsageRow) -> None:
        """Store a row. It is written soon, with others."""
        if self._closed:
            _log.error("a request that ended after the usage ledger is not counted")
            return
        lost = self._waiting.lost
        self._waiting.add(row)
        if self._waiting.lost > lost == 0:
            _log.error("the usage ledger is full: requests are not counted until its database works again")
        if self._timer is None and self._writing is None:
            self._write_within(_DELAY)

    @property
    def size(self) -> int:
        """The number of rows that are not written yet."""
        return len(self._waiting) + len(self._batch)

    def _write_within(self, seconds: float) -> None:
        if not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._write)

    def _write(self) -> None:
        """Begin to write the next batch, or the same one again if it failed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is not None:
            return
        if not self._batch:
            self._batch, self._again = self._waiting.take(_BATCH), False
        if not self._batch:
            return
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(self._writer, self._write_batch, self._batch, self._again)
        self._writing.add_done_callback(self._written)

    def _write_batch(self, rows: list[UsageRow], again: bool) -> None:
        self._opened().write(rows, again=again)

    def _opened(self) -> UsageTables:
        if self._tables is None:
            self._tables = self._open_tables()
        return self._tables

    def _written(self, writing: "asyncio.Future[None]") -> None:
        """Go on with the rows that arrived meanwhile, or retry."""
        self._writing = None
        problem = writing.exception()
        if problem is not None:
            self._again = True
            self._note_failure(problem)
            self._write_within(_RETRY)
            return
        self._note_success()
        self._batch = []
        if len(self._waiting):
            self._write_within(0 if len(self._waiting) >= _BATCH else _DELAY)

    def _note_failure(self, problem: BaseException) -> None:
        if type(problem).__name__ != self._failing:  # the log needs one line, not one for each retry
            details = None if isinstance(problem, StoreFailed) else problem
            _log.error("the usage ledger failed, %d rows wait: %s", self.size, problem, exc_info=details)
        self._failing = type(problem).__name__

    def _note_success(self) -> None:
        if self._failing is not None:
            self._failing = None
            counts = self._waiting.merged, self._waiting.lost
            _log.warning("the usage ledger works again; requests without a row of their own: %d, lost: %d", *counts)

    def _prune_within(self, seconds: float) -> None:
        if not self._closed:
            self._prune_timer = asyncio.get_running_loop().call_later(seconds, self._prune)

    def _prune(self) -> None:
        pruning = asyncio.get_running_loop().run_in_executor(self._writer, self._prune_piece)
        pruning.add_done_callback(self._pruned)

    def _prune_piece(self) -> bool:
        """Delete a piece of the old rows, and join a piece of old sums. Return True if there may be more."""
        tables, now = self._opened(), self._now()
        if self._in_process:
            tables.prune_to(IN_PROCESS_ROWS)
        joined = tables.join_sums(day_of(now - _JOIN_SECONDS))
        return tables.prune(now - self._seconds) or joined

    def _pruned(self, pruning: "asyncio.Future[bool]") -> None:
        problem = pruning.exception()
        if problem is not None:
            self._note_failure(problem)
        self._prune_within(_PRUNE_SOON if problem is None and pruning.result() else _PRUNE_EVERY)

    async def sums(self, query: UsageQuery) -> list[dict[str, Any]]:
        """Answer a question about the usage. The requests that this process has answered are in it."""
        oldest = self._now() - self._seconds
        if self._in_process:
            query = query.since(oldest)
        else:
            check_rows_remain(query, oldest, self._keep)
        await self._flush()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, self._read, query)
        except Exception as problem:
            _log.error("usage cannot be read: %s", problem, exc_info=problem)
            detail = "usage cannot be read now: the database does not answer"
            raise GatewayError("overloaded", detail, retry_after=5) from problem

    def _read(self, query: UsageQuery) -> list[dict[str, Any]]:
        return self._opened().sums(query)

    async def _flush(self) -> None:
        """Write the rows that wait, unless the database fails."""
        while self.size:
            self._write()
            if self._writing is None or self._failing is not None:
                return
            await asyncio.wait([self._writing])

    async def close(self) -> None:
        """Write the rows that wait, and close the tables. If the database fails, try for a limited time."""
        deadline = time.monotonic() + _STOP_SECONDS
        while self.size and time.monotonic() < deadline:
            await self._flush()
            if self.size:
                await asyncio.sleep(_RETRY / 5)
        self._closed = True
        for timer in (self._timer, self._prune_timer):
            if timer is not None:
                timer.cancel()
        if self.size:
            _log.error("%d rows of usage are lost: the database does not answer", self.size)
        self._writer.submit(self._close_tables)
        self._writer.shutdown()
        self._reader.shutdown()

    def _close_tables(self) -> None:
        if self._tables is not None:
            self._tables.close()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the ledger itself."""
        waiting = GaugeMetricFamily("toolwire_usage_rows_waiting", "Rows of usage that are not written yet.", self.size)
        merged = CounterMetricFamily(
            "toolwire_usage_rows_merged", "Requests that share a row of usage, because too many rows waited."
        )
        merged.add_metric((), self._waiting.merged)
        lost = CounterMetricFamily("toolwire_usage_rows_lost", "Requests that usage does not count.")
        lost.add_metric((), self._waiting.lost)
        yield from (waiting, merged, lost)
