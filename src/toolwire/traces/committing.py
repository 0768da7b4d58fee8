"""Rows of traces put into the table: the next ones of the chain, or a whole chain where there is none.

Rules of this file:
- The position, the sequence and the hashes are computed inside the transaction, from the rows before.
- A batch that is tried again skips what is there already, by its id: an unknown outcome gives one row.
- A store that was written with another key is not written to, nor one whose rows, acknowledged before, are gone.
- What the database says it took is looked at before it is acknowledged.
- A whole chain is put into an empty store as it was: verified on the way, and committed where nothing is wrong.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, func, select

from toolwire.errors import InvalidField, StoreFailed, UserError
from toolwire.traces.chain import ZEROS, Check, Verification, next_ledger, row_hash
from toolwire.traces.databases import StoreLocation, reading, saying, writing
from toolwire.traces.forms import CONTENT

_REMEMBERED = 10_000
_ASKED = 500
_FEW = 8
_LOADED_AT_ONCE = 1000
_PROBLEMS_SHOWN = 5
_VERSION = "toolwire data_version"

_Chain = tuple[str, str]


class _Head(Struct, frozen=True):
    position: int = 0
    ledger: str = ZEROS


class Committer:
    """Commits batches to a store; it remembers the ends of conversations as long as nobody else writes."""

    def __init__(self, place: StoreLocation, digest: Callable[[bytes], str]) -> None:
        self._place = place
        self._digest = digest
        self._head: _Head | None = None
        self._acknowledged = _Head()
        self._ends: dict[_Chain, tuple[int, str]] = {}

    def commit(self, rows: Sequence[dict[str, Any]], *, again: bool = False) -> dict[int, UserError]:
        """Put rows into the table in one transaction; what is refused of them comes back by its index."""
        with writing(self._place) as connection:
            before = self._found(connection)
            refused, there = self._there(connection, rows) if again else ({}, set[int]())
            left = [row for index, row in enumerate(rows) if index not in there]
            made, head, ends = self._chained(connection, left, before)
            if made:
                self._insert(connection, made, before)
        self._head = self._acknowledged = head
        self._ends |= ends
        return refused

    def _insert(self, connection: Connection, made: Sequence[dict[str, Any]], before: _Head) -> None:
        """Insert rows, and see that they are there: a trigger or a rule of somebody else may leave some out."""
        table = self._place.table
        connection.execute(table.insert(), made)
        query = select(func.count()).where(table.c.position > before.position)
        if connection.execute(query).scalar() != len(made):
            words = "the database leaves rows out that it is given: look for triggers or rules of its table"
            raise StoreFailed(words, path="traces")

    def begin(self) -> None:
        """Take what is in the store at its opening for acknowledged; what cannot be read is left to who writes."""
        files = self._place.files
        if files is not None:
            files.begin()
            files.note()
        columns = self._place.table.c
        query = select(columns.position, columns.ledger).order_by(columns.position.desc()).limit(1)
        with contextlib.suppress(StoreFailed), reading(self._place) as connection:
            if row := connection.execute(query).first():
                self._acknowledged = _Head(row[0], row[1])

    def check(self, *, idle: bool = True) -> None:
        """Raise what became of the store's files since the last commit; none is written just now if it is idle."""
        files = self._place.files
        if files is None:
            return
        files.check()
        if idle and files.is_touched():
            with reading(self._place) as connection:
                self._examine(connection)
            files.note()

    def _examine(self, connection: Connection) -> None:
        """Look into files that were touched; where SQLite knows of no other writer, into every page."""
        files, raw = self._place.files, connection.connection.driver_connection
        touched, known = files is not None and files.is_touched(), connection.info.get(_VERSION)
        if files is None or raw is None or not (touched or known is None):
            return
        version = connection.info[_VERSION] = raw.execute("PRAGMA data_version").fetchone()[0]
        if touched:
            last = self._acknowledged
            files.examine(self._place.table.name, last.position, last.ledger, pages=version == known)

    def _found(self, connection: Connection) -> _Head:
        """Read the last row of the store; forget the conversations where somebody else wrote it."""
        self._examine(connection)
        columns = self._place.table.c
        query = select(columns.position, columns.ledger) if self._head else select(self._place.table)
        row = connection.execute(query.order_by(columns.position.desc()).limit(1)).mappings().first()
        head = _Head(row["position"], row["ledger"]) if row else _Head()
        if self._head is None and row and row_hash(dict(row), row["previous"], self._digest) != row["hash"]:
            words = "the last row was written with another key, or was changed: verify the store"
            raise StoreFailed(words, path="traces")
        if head != self._head or len(self._ends) > _REMEMBERED:
            self._ends = {}
        last = self._acknowledged
        if last not in (head, _Head()):
            query = select(columns.ledger).where(columns.position == last.position)
            if connection.execute(query).scalar() != last.ledger:
                words = "rows that were acknowledged are not in the store any more: verify it"
                raise StoreFailed(words, path="traces")
        return head

    def _chained(
        self, connection: Connection, rows: Sequence[dict[str, Any]], head: _Head
    ) -> tuple[list[dict[str, Any]], _Head, dict[_Chain, tuple[int, str]]]:
        ends = self._looked_up(connection, rows)
        position, ledger, now = head.position, head.ledger, time.time_ns() // 1000
        made = []
        for row in rows:
            chain = (row["tenant_id"], row["conversation_id"])
            end = ends.get(chain) or self._ends[chain]
            position += 1
            new = {**row, "position": position, "sequence": end[0] + 1, "inserted_at": now, "previous": end[1]}
            new["hash"] = row_hash(new, end[1], self._digest)
            new["ledger"] = ledger = next_ledger(ledger, new["hash"], self._digest)
            ends[chain] = (end[0] + 1, new["hash"])
            made.append(new)
        return made, _Head(position, ledger), ends

    def _looked_up(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> dict[_Chain, tuple[int, str]]:
        """Give the ends of the conversations that are not remembered; many are looked up at once."""
        unknown = {(row["tenant_id"], row["conversation_id"]) for row in rows} - self._ends.keys()
        columns = self._place.table.c
        last = select(func.max(columns.position))
        if len(unknown) > _FEW:
            groups = last.where(columns.conversation_id.in_([chain[1] for chain in unknown]))
            places = groups.group_by(columns.conversation_id, columns.tenant_id)
            found = list(connection.execute(places).scalars())
        else:
            ends = (
                last.where(columns.conversation_id == conversation, columns.tenant_id == tenant)
                for tenant, conversation in unknown
            )
            found = [connection.execute(end).scalar() for end in ends]
        ended = select(columns.tenant_id, columns.conversation_id, columns.sequence, columns.hash).where(
            columns.position.in_([position for position in found if position is not None])
        )
        known = {(row[0], row[1]): (row[2], row[3]) for row in connection.execute(ended)} if any(found) else {}
        return {chain: known.get(chain, (0, ZEROS)) for chain in unknown}

    def _there(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> tuple[dict[int, UserError], set[int]]:
        """Find what is there already, or twice in the batch; another trace with the same id is refused."""
        table, ids = self._place.table, [row["id"] for row in rows]
        known: dict[str, Mapping[Any, Any]] = {}
        for start in range(0, len(ids), _ASKED):
            query = select(table).where(table.c.id.in_(ids[start : start + _ASKED]))
            known |= {row["id"]: row for row in connection.execute(query).mappings()}
        refused: dict[int, UserError] = {}
        there = set()
        for index, row in enumerate(rows):
            other = known.setdefault(row["id"], row)
            if other is row:
                continue
            there.add(index)
            if any(other[name] != row[name] for name in CONTENT):
                refused[index] = InvalidField("id", "is the id of another trace", path="Trace")
        return refused, there


def load(
    place: StoreLocation, rows: Iterable[Mapping[str, Any]], *, key: bytes | str | None, anchor: str | None
) -> Verification:
    """Put rows into an empty store, or say why they are not taken."""
    check = Check(key, anchor)
    with saying("the traces cannot be put into the store", place.engine), writing(place) as connection:
        if connection.execute(select(place.table.c.position).limit(1)).first():
            raise StoreFailed("traces are put into an empty store only", path="traces")
        given, names = iter(rows), place.table.columns.keys()
        while batch := list(islice(given, _LOADED_AT_ONCE)):
            for row in batch:
                check.row(row)
            if check.count:
                break
            connection.execute(place.table.insert(), [{name: row.get(name) for name in names} for row in batch])
        found = check.end()
        if not found.ok:
            shown = "; ".join(map(str, found.problems[:_PROBLEMS_SHOWN]))
            raise StoreFailed(f"the traces are not a whole chain: {shown}", path="traces")
    return found
