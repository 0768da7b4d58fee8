"""The tables of the usage ledger, in SQLite or PostgreSQL: one row for each request, and sums by day.

Rules of this file:
- A batch of rows and its sums are one transaction. A process has sums of its own, so it never waits for another one,
  not even for one that is paused within a transaction. The sums of past days are joined later.
- A row has an id of its own. If the outcome of a batch is unknown, the batch is written again, without the rows
  that are stored. A row that another transaction of this process still writes makes the batch fail, and be retried.
- Old rows are deleted in pieces. Sums are never deleted.
- These functions block. They are called in a thread of their own.
"""

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sql
from msgspec.structs import astuple, fields

from toolwire.databases.opening import open_database, share_locks
from toolwire.errors import StoreFailed
from toolwire.gateway.keys import NANO
from toolwire.gateway.usage_queries import Period, UsageQuery, parts_of
from toolwire.gateway.usage_rows import UsageRow, day_of, row_id

_AT_ONCE = 500  # parameters of one statement
_CHUNK = 64  # rows that one statement inserts in SQLite: between two statements another thread can run
_PIECE = 1000  # rows that one transaction deletes
_JOIN_LOCK = "SELECT pg_try_advisory_xact_lock(7566047373982436)"
_SETUP_LOCK = "SELECT pg_advisory_xact_lock(7566047373982435)"
_TABLES = sql.MetaData()
_POSTGRES_TYPES = {str: "text", int: "bigint", float: "double precision", bool: "boolean"}
_TYPES: dict[Any, Any] = {str: sql.Text, int: sql.BigInteger, float: sql.Float, bool: sql.Boolean}
_GROUPS = ("day", "key", "key_name", "team", "user_name", "provider", "model", "wire")
_ADDED = ("requests", "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "cost_nano")
_NAMES = {"key": "key_name", "user": "user_name"}  # the columns whose names differ from those of a question


_Sums = tuple[tuple[str, ...], list[int]]
"""A group, and what is added to each of its sums."""
_FIELDS = [(field.name, float if field.type == float | None else field.type) for field in fields(UsageRow)]

_rows = sql.Table(
    "toolwire_usage",
    _TABLES,
    *(
        sql.Column(name, _TYPES[value_type], primary_key=name == "id", nullable=name == "first_byte")
        for name, value_type in _FIELDS
    ),
    sqlite_with_rowid=False,
)
_days = sql.Table(
    "toolwire_usage_days",
    _TABLES,
    sql.Column("id", sql.String(32), primary_key=True),
    sql.Column("process", sql.String(16), nullable=False),  # empty once the sums of all processes were joined
    *(sql.Column(name, sql.Text, nullable=False) for name in _GROUPS),
    *(sql.Column(name, sql.BigInteger, nullable=False) for name in _ADDED),
    sql.Index("toolwire_usage_days_day", "day"),
)
_DAY_NAMES = [column.name for column in _days.columns]
# The statements of a batch are the driver's own: SQLAlchemy's, and one statement for each row, cost several times as
# much CPU (measured 2026-11-27). PostgreSQL reads all rows from one parameter.
_INSERT = f"INSERT INTO {_rows.name} ({', '.join(name for name, _ in _FIELDS)}) "
_MARKS = f"({', '.join('?' * len(_FIELDS))})"
_FROM_JSON = (
    f"{_INSERT} SELECT * FROM json_to_recordset(%s::json)"  # noqa: S608 - these are constants
    f" AS rows({', '.join(f'{name} {_POSTGRES_TYPES[value_type]}' for name, value_type in _FIELDS)})"
    " ON CONFLICT DO NOTHING"
)
_ADD_SUMS = (
    f"INSERT INTO {_days.name} ({', '.join(_DAY_NAMES)}) VALUES ({', '.join('?' * len(_DAY_NAMES))})"  # noqa: S608 - these are constants
    f" ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = {_days.name}.{name} + excluded.{name}' for name in _ADDED)}"
)


class UsageTables:
    """The database of usage. With `sums=False`, questions are answered by rows alone."""

    def __init__(self, url: str, *, sums: bool = True) -> None:
        self._engine, _ = open_database(url)
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._sums = sums
        self._process = secrets.token_hex(8)
        if not self._is_sqlite:
            sql.event.listen(self._engine, "connect", share_locks)
        with self._engine.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self._is_sqlite else _SETUP_LOCK)
            _TABLES.create_all(connection)

    def write(self, rows: Sequence[UsageRow], *, again: bool = False) -> None:
        """Store rows and add them to the sums. With `again`, some of the rows may be stored already."""
        with self._engine.begin() as connection:
            new = self._missing(connection, rows) if again else rows
            if not new:
                return
            if self._insert(connection, new) != len(new):
                raise StoreFailed("an earlier transaction with the same rows of usage has not ended yet")
            self._add(connection, self._process, _sums_of(new))

    def _add(self, connection: sql.Connection, process: str, sums: Iterable[_Sums]) -> None:
        """Add to the sums of a process."""
        statement = _ADD_SUMS if self._is_sqlite else _ADD_SUMS.replace("?", "%s")
        connection.exec_driver_sql(
            statement, sorted((_id_of(process, group), process, *group, *added) for group, added in sums)
        )

    def _insert(self, connection: sql.Connection, rows: Sequence[UsageRow]) -> int:
        """Insert the rows that are not stored. Return how many they were."""
        if not self._is_sqlite:
            return connection.exec_driver_sql(_FROM_JSON, (msgspec.json.encode(rows).decode(),)).rowcount
        inserted = 0
        for first in range(0, len(rows), _CHUNK):
            some = rows[first : first + _CHUNK]
            values = tuple([value for row in some for value in astuple(row)])
            statement = f"{_INSERT} VALUES {', '.join([_MARKS] * len(some))} ON CONFLICT DO NOTHING"
            inserted += connection.exec_driver_sql(statement, values).rowcount
        return inserted

    def _missing(self, connection: sql.Connection, rows: Sequence[UsageRow]) -> list[UsageRow]:
        """Return the rows that are not stored."""
        stored: set[str] = set()
        for first in range(0, len(rows), _AT_ONCE):
            some = [row.id for row in rows[first : first + _AT_ONCE]]
            stored.update(connection.execute(sql.select(_rows.c.id).where(_rows.c.id.in_(some))).scalars())
        return [row for row in rows if row.id not in stored]

    def prune(self, before: float) -> bool:
        """Delete a piece of the rows from before a time. Return True if there may be more."""
        oldest = sql.select(_rows.c.id).where(_rows.c.id < row_id(before)).order_by(_rows.c.id).limit(_PIECE)
        if not self._is_sqlite:
            oldest = oldest.with_for_update(skip_locked=True)
        with self._engine.begin() as connection:
            return connection.execute(_rows.delete().where(_rows.c.id.in_(oldest))).rowcount == _PIECE

    def join_sums(self, before: str) -> bool:
        """Join a piece of the sums that processes have of the days before a day. Return True if there may be more."""
        old_sums = sql.select(_days.c.id).where(_days.c.day < before, _days.c.process != "").limit(_PIECE)
        if not self._is_sqlite:
            old_sums = old_sums.with_for_update(skip_locked=True)
        with self._engine.begin() as connection:
            if not self._is_sqlite and not connection.exec_driver_sql(_JOIN_LOCK).scalar():
                return False  # another process joins them
            ids = connection.execute(old_sums).scalars().all()
            gone = connection.execute(_days.delete().where(_days.c.id.in_(ids)).returning(_days)).all()
            if gone:
                first = 2  # the columns before it are the id and the process
                added = first + len(_GROUPS)
                self._add(connection, "", _joined((tuple(row[first:added]), row[added:]) for row in gone))
        return len(ids) == _PIECE

    def prune_to(self, most: int) -> None:
        """Delete the oldest rows until there are at most `most`."""
        others = sql.select(_rows.c.id).order_by(_rows.c.id.desc()).offset(most)
        with self._engine.begin() as connection:
            connection.execute(_rows.delete().where(_rows.c.id.in_(others)))

    def sums(self, query: UsageQuery) -> list[dict[str, Any]]:
        """Answer a question: a row for each group, in the order of its days, then the largest cost first."""
        parts = parts_of(query.period)
        if self._sums:
            sources = [_selected(_rows, query, _within(edge)) for edge in parts.edges]
            if parts.has_days:
                sources.append(_selected(_days, query, _of_days(parts.first, parts.last)))
        else:
            sources = [_selected(_rows, query, _within(query.period))]
        if not sources:
            return []
        used = sql.union_all(*sources).subquery().c
        groups = [used[name] for name in query.by]
        summed = {name: sql.func.sum(used[name]) for name in _ADDED}
        order = [used.day] if "day" in query.by else []
        statement = sql.select(*groups, *(column.label(name) for name, column in summed.items())).group_by(*groups)
        statement = statement.order_by(*order, summed["cost_nano"].desc(), summed["requests"].desc(), *groups)
        with self._engine.connect() as connection:
            return [_answer_row(query.by, row._mapping) for row in connection.execute(statement)]  # noqa: SLF001 - it is public there

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()


def _sums_of(rows: Iterable[UsageRow]) -> Iterable[_Sums]:
    """Return what rows add to the sums of their groups."""
    return _joined(
        (
            (row.day, row.key, row.key_name, row.team, row.user_name, row.provider, row.model, row.wire),
            [getattr(row, name) for name in _ADDED],
        )
        for row in rows
    )


def _joined(sums: Iterable[tuple[tuple[str, ...], Sequence[int]]]) -> Iterable[_Sums]:
    """Add up the sums of each group."""
    joined: dict[tuple[str, ...], list[int]] = {}
    for group, added in sums:
        if (before := joined.get(group)) is None:
            joined[group] = list(added)
        else:
            joined[group] = [first + second for first, second in zip(before, added, strict=True)]
    return joined.items()


def _id_of(process: str, group: tuple[str, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode((process, *group))).hexdigest()[:32]


def _selected(table: Any, query: UsageQuery, conditions: list[Any]) -> Any:
    """Select the columns of a question from a table."""
    columns = [table.c[_NAMES.get(name, name)].label(name) for name in query.by]
    conditions = [*conditions, *(_chosen(table, name, texts) for name, texts in query.chosen)]
    return sql.select(*columns, *(table.c[name] for name in _ADDED)).where(*conditions)


def _chosen(table: Any, name: str, texts: tuple[str, ...]) -> Any:
    """Return the condition for the values of a column. A key is chosen by its name or by its id."""
    chosen = table.c[_NAMES.get(name, name)].in_(texts)
    return sql.or_(chosen, table.c.key.in_(texts)) if name == "key" else chosen


def _within(period: Period) -> list[Any]:
    """Return the conditions for rows within a period. Their ids are compared too, because the ids are in order."""
    row, conditions = _rows.c, []
    if period.start is not None:
        conditions += [row.id >= row_id(period.start), row.time >= period.start]
    if period.end is not None:
        conditions += [row.id < row_id(period.end + 0.001), row.time < period.end]
    return conditions


def _of_days(first: float | None, last: float | None) -> list[Any]:
    conditions = [] if first is None else [_days.c.day >= day_of(first)]
    return conditions if last is None else [*conditions, _days.c.day < day_of(last)]


def _answer_row(by: tuple[str, ...], sums: Any) -> dict[str, Any]:
    counts = {name: int(sums[name] or 0) for name in _ADDED}
    cost = counts["cost_nano"] / NANO
    tokens = {name: counts[name] for name in ("requests", "input_tokens", "output_tokens", "cached_tokens")}
    return {**{name: sums[name] for name in by}, **tokens, "cost": cost}
