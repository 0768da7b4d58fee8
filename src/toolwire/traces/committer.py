"""Writes traces to the table: appends rows to the chain, or loads a whole chain into an empty store.

Rules of this file:
- Position, sequence and hashes are computed within the transaction, from the previous rows.
- A batch that is retried skips rows whose id is stored already. So each row is written once, even if the outcome of the
  first commit is unknown.
- A store is not written to if it was written with another key, or if acknowledged rows are missing.
- The number of inserted rows is checked before they are acknowledged.
- A whole chain is loaded unchanged into an empty store. It is verified meanwhile, and committed only without a problem.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, func, select

from toolwire.errors import InvalidField, StoreFailed, UserError
from toolwire.traces.chain import ZEROS, ChainCheck, Verification, next_ledger, row_hash
from toolwire.traces.databases import StoreLocation, read_transaction, store_errors, write_transaction
from toolwire.traces.forms import CONTENT

_REMEMBERED = 10_000
_IDS_PER_QUERY = 500
_MAX_SINGLE_LOOKUPS = 8
_LOADED_AT_ONCE = 1000
_MAX_PROBLEMS = 5
_VERSION = "toolwire data_version"

_Chain = tuple[str, str]


class _Head(Struct, frozen=True):
    position: int = 0
    ledger: str = ZEROS


class Committer:
    """Commits batches to a store. It caches the ends of conversations until another process writes."""

    def __init__(self, location: StoreLocation, digest: Callable[[bytes], str]) -> None:
        self._location = location
        self._digest = digest
        self._head: _Head | None = None
        self._acknowledged = _Head()
        self._ends: dict[_Chain, tuple[int, str]] = {}

    def commit(self, rows: Sequence[dict[str, Any]], *, again: bool = False) -> dict[int, UserError]:
        """Insert rows in one transaction. Return the rejected ones, by index. `again` marks a retry."""
        with write_transaction(self._location) as connection:
            head_before = self._read_head(connection)
            refused, stored = self._find_stored(connection, rows) if again else ({}, set[int]())
            new_rows = [row for index, row in enumerate(rows) if index not in stored]
            chained, head, ends = self._chain_rows(connection, new_rows, head_before)
            if chained:
                self._insert(connection, chained, head_before)
        self._head = self._acknowledged = head
        self._ends |= ends
        return refused

    def _insert(self, connection: Connection, rows: Sequence[dict[str, Any]], head: _Head) -> None:
        """Insert rows, and check their number, because a trigger or rule of somebody else may drop some."""
        table = self._location.table
        connection.execute(table.insert(), rows)
        query = select(func.count()).where(table.c.position > head.position)
        if connection.execute(query).scalar() != len(rows):
            words = "the database drops inserted rows: remove foreign triggers or rules from the table"
            raise StoreFailed(words, path="traces")

    def open(self) -> None:
        """Note the rows that exist at the opening as acknowledged.

        A failure to read them is left to the first commit.
        """
        files = self._location.files
        if files is not None:
            files.start()
            files.remember()
        columns = self._location.table.c
        query = select(columns.position, columns.ledger).order_by(columns.position.desc()).limit(1)
        with contextlib.suppress(StoreFailed), read_transaction(self._location) as connection:
            if row := connection.execute(query).first():
                self._acknowledged = _Head(row[0], row[1])

    def check(self, *, idle: bool = True) -> None:
        """Raise `StoreFailed` if the store's files were damaged since the last commit.

        `idle` means that no commit is running.
        """
        files = self._location.files
        if files is None:
            return
        files.check()
        files.check_index()
        if idle and files.is_touched():
            with read_transaction(self._location) as connection:
                self._examine(connection)
            files.remember()

    def resume(self) -> None:
        """Accept files that were damaged and restored."""
        if self._location.files is not None:
            self._location.files.accept_index()

    def _examine(self, connection: Connection) -> None:
        """Examine changed files: the last row, and every page if no other SQLite program wrote."""
        files, raw = self._location.files, connection.connection.driver_connection
        touched, known_version = files is not None and files.is_touched(), connection.info.get(_VERSION)
        if files is None or raw is None or not (touched or known_version is None):
            return
        version = connection.info[_VERSION] = raw.execute("PRAGMA data_version").fetchone()[0]
        if touched:
            acknowledged = self._acknowledged
            files.examine(
                self._location.table.name, acknowledged.position, acknowledged.ledger, pages=version == known_version
            )

    def _read_head(self, connection: Connection) -> _Head:
        """Return the store's last row. Drop the cached conversations if another process wrote it."""
        self._examine(connection)
        columns = self._location.table.c
        query = select(columns.position, columns.ledger) if self._head else select(self._location.table)
        row = connection.execute(query.order_by(columns.position.desc()).limit(1)).mappings().first()
        head = _Head(row["position"], row["ledger"]) if row else _Head()
        if self._head is None and row and row_hash(dict(row), row["previous"], self._digest) != row["hash"]:
            words = "the last row was written with another key, or was changed: verify the store"
            raise StoreFailed(words, path="traces")
        if head != self._head or len(self._ends) > _REMEMBERED:
            self._ends = {}
        acknowledged = self._acknowledged
        if acknowledged not in (head, _Head()):
            query = select(columns.ledger).where(columns.position == acknowledged.position)
            if connection.execute(query).scalar() != acknowledged.ledger:
                words = "acknowledged rows are missing from the store: verify it"
                raise StoreFailed(words, path="traces")
        return head

    def _chain_rows(
        self, connection: Connection, rows: Sequence[dict[str, Any]], head: _Head
    ) -> tuple[list[dict[str, Any]], _Head, dict[_Chain, tuple[int, str]]]:
        ends = self._look_up_ends(connection, rows)
        position, ledger, now = head.position, head.ledger, time.time_ns() // 1000
        chained = []
        for row in rows:
            chain = (row["tenant_id"], row["conversation_id"])
            end = ends.get(chain) or self._ends[chain]
            position += 1
            new_row = {**row, "position": position, "sequence": end[0] + 1, "inserted_at": now, "previous": end[1]}
            new_row["hash"] = row_hash(new_row, end[1], self._digest)
            new_row["ledger"] = ledger = next_ledger(ledger, new_row["hash"], self._digest)
            ends[chain] = (end[0] + 1, new_row["hash"])
            chained.append(new_row)
        return chained, _Head(position, ledger), ends

    def _look_up_ends(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> dict[_Chain, tuple[int, str]]:
        """Return the last rows of the conversations that are not cached. Many are looked up in one query."""
        unknown = {(row["tenant_id"], row["conversation_id"]) for row in rows} - self._ends.keys()
        columns = self._location.table.c
        last_position = select(func.max(columns.position))
        if len(unknown) > _MAX_SINGLE_LOOKUPS:
            of_conversations = last_position.where(columns.conversation_id.in_([chain[1] for chain in unknown]))
            positions_query = of_conversations.group_by(columns.conversation_id, columns.tenant_id)
            positions = list(connection.execute(positions_query).scalars())
        else:
            ends = (
                last_position.where(columns.conversation_id == conversation, columns.tenant_id == tenant)
                for tenant, conversation in unknown
            )
            positions = [connection.execute(end).scalar() for end in ends]
        ends_query = select(columns.tenant_id, columns.conversation_id, columns.sequence, columns.hash).where(
            columns.position.in_([position for position in positions if position is not None])
        )
        known = {(row[0], row[1]): (row[2], row[3]) for row in connection.execute(ends_query)} if any(positions) else {}
        return {chain: known.get(chain, (0, ZEROS)) for chain in unknown}

    def _find_stored(
        self, connection: Connection, rows: Sequence[dict[str, Any]]
    ) -> tuple[dict[int, UserError], set[int]]:
        """Return the rows that are stored already, or occur twice. Reject other traces with an existing id."""
        table, ids = self._location.table, [row["id"] for row in rows]
        by_id: dict[str, Mapping[Any, Any]] = {}
        for start in range(0, len(ids), _IDS_PER_QUERY):
            query = select(table).where(table.c.id.in_(ids[start : start + _IDS_PER_QUERY]))
            by_id |= {row["id"]: row for row in connection.execute(query).mappings()}
        refused: dict[int, UserError] = {}
        stored = set()
        for index, row in enumerate(rows):
            existing = by_id.setdefault(row["id"], row)
            if existing is row:
                continue
            stored.add(index)
            if any(existing[name] != row[name] for name in CONTENT):
                refused[index] = InvalidField("id", "is the id of another trace", path="Trace")
        return refused, stored


def load(
    location: StoreLocation, rows: Iterable[Mapping[str, Any]], *, key: bytes | str | None, anchor: str | None
) -> Verification:
    """Load a whole chain into an empty store.

    Raise `StoreFailed` if the store is not empty or the chain has problems.
    """
    check = ChainCheck(key, anchor)
    with (
        store_errors("the traces cannot be loaded into the store", location.engine),
        write_transaction(location) as connection,
    ):
        if connection.execute(select(location.table.c.position).limit(1)).first():
            raise StoreFailed("traces can be loaded only into an empty store", path="traces")
        remaining, names = iter(rows), location.table.columns.keys()
        while batch := list(islice(remaining, _LOADED_AT_ONCE)):
            for row in batch:
                check.add_row(row)
            if check.count:
                break
            connection.execute(location.table.insert(), [{name: row.get(name) for name in names} for row in batch])
        verification = check.finish()
        if not verification.ok:
            problems = "; ".join(map(str, verification.problems[:_MAX_PROBLEMS]))
            raise StoreFailed(f"the traces are not a whole chain: {problems}", path="traces")
    return verification
