"""The ledger: keys, and what each key has spent in each window of its limits, in SQLite or PostgreSQL.

Rules of this file:
- A request is admitted in a transaction that adds its estimate to `toolwire_windows` and stores the estimate in rows of
  its own in `toolwire_started`. SQLite is locked when the transaction begins. PostgreSQL locks the rows of the windows.
- An estimate counts as spent until the request is settled. To settle a request deletes its rows and corrects the
  windows that they name. So a request is settled once, however late, and other processes do not matter.
- No clock and no lease decides anything here. Old windows are deleted in the order in which they were created, so a
  clock that jumps deletes none that are in use.
- These functions block. They are called in a thread of their own.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sql
from msgspec import Struct

from toolwire.databases.opening import open_database, share_locks
from toolwire.errors import InvalidField
from toolwire.gateway.keys import AdminRevoked, Key, KeyConflict, Limit

_KEPT_WINDOWS = 200  # of each limit
_ROWS = 300  # windows that one statement reads: SQLite has no more than 1000 terms of an OR
_MOST = 1 << 62  # the largest amount that is stored: a provider that reports more must not stop the ledger
_TABLES = sql.MetaData()
_keys = sql.Table(
    "toolwire_keys",
    _TABLES,
    sql.Column("id", sql.String(8), primary_key=True),
    sql.Column("name", sql.String(100), nullable=False),
    sql.Column("salt", sql.LargeBinary, nullable=False),
    sql.Column("hash", sql.LargeBinary, nullable=False),
    sql.Column("models", sql.Text, nullable=False),
    sql.Column("limits", sql.Text, nullable=False),
    sql.Column("created", sql.Float, nullable=False),
    sql.Column("expires", sql.Float),
    sql.Column("revoked", sql.Float),
    sql.Column("team", sql.String(100), nullable=False, server_default=""),
    sql.Column("user", sql.String(100), nullable=False, server_default=""),
    sql.Column("is_admin", sql.Boolean, nullable=False, server_default=sql.false()),
    sql.Column("alert", sql.Integer),
)
_ADDED_COLUMNS = ("team", "user", "is_admin", "alert")
_windows = sql.Table(
    "toolwire_windows",
    _TABLES,
    sql.Column("key", sql.String(8), primary_key=True),
    sql.Column("kind", sql.String(10), primary_key=True),
    sql.Column("window", sql.String(5), primary_key=True),
    sql.Column("start", sql.BigInteger, primary_key=True),
    sql.Column("number", sql.BigInteger, nullable=False),
    sql.Column("taken", sql.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
_started = sql.Table(
    "toolwire_started",
    _TABLES,
    sql.Column("process", sql.String(32), primary_key=True),
    sql.Column("number", sql.BigInteger, primary_key=True),
    sql.Column("key", sql.String(8), nullable=False),
    sql.Column("kind", sql.String(10), primary_key=True),
    sql.Column("window", sql.String(5), primary_key=True),
    sql.Column("start", sql.BigInteger, nullable=False),
    sql.Column("amount", sql.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
# An alert of a window, and the process that reports it. `threshold` is its amount: a changed budget has another alert.
_alerts = sql.Table(
    "toolwire_alerts",
    _TABLES,
    sql.Column("key", sql.String(8), primary_key=True),
    sql.Column("kind", sql.String(10), primary_key=True),
    sql.Column("window", sql.String(5), primary_key=True),
    sql.Column("start", sql.BigInteger, primary_key=True),
    sql.Column("threshold", sql.BigInteger, primary_key=True),
    sql.Column("process", sql.String(32), nullable=False),
    sqlite_with_rowid=False,
)
# The statements of a request are the driver's own. SQLAlchemy's cost three times as much CPU (measured 2026-11-27).
_ROW = '(key = ? AND kind = ? AND "window" = ? AND start = ?)'
_LIMIT = 'key = ? AND kind = ? AND "window" = ?'
_SETTLE = """DELETE FROM toolwire_started WHERE process = ? AND number IN (%s)
 RETURNING number, key, kind, "window", start, amount"""
_READ = 'SELECT key, kind, "window", start, taken FROM toolwire_windows WHERE %s ORDER BY key, kind, "window", start'
_NEWEST = f"SELECT coalesce(max(number), 0) FROM toolwire_windows WHERE {_LIMIT}"  # noqa: S608 - these are constants
_CREATE = """INSERT INTO toolwire_windows (key, kind, "window", start, number, taken)
 VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT DO NOTHING"""
_OLD = f"{_LIMIT} AND number <= ?"
_FORGET = f"""DELETE FROM toolwire_started WHERE {_LIMIT}
 AND start IN (SELECT start FROM toolwire_windows WHERE {_OLD})"""  # noqa: S608 - these are constants
_FORGET_ALERTS = f"""DELETE FROM toolwire_alerts WHERE {_LIMIT}
 AND start IN (SELECT start FROM toolwire_windows WHERE {_OLD})"""  # noqa: S608 - these are constants
_DELETE = f"DELETE FROM toolwire_windows WHERE {_OLD}"  # noqa: S608 - these are constants
_CHANGE = f"UPDATE toolwire_windows SET taken = ? WHERE {_ROW}"  # noqa: S608 - these are constants
# One statement, so that PostgreSQL shows a request that ends meanwhile either in flight or settled.
_SETTLED = f"""SELECT taken - (SELECT coalesce(sum(amount), 0) FROM toolwire_started WHERE {_ROW})
 FROM toolwire_windows WHERE {_ROW}"""  # noqa: S608 - these are constants
_RAISE = """INSERT INTO toolwire_alerts (key, kind, "window", start, threshold, process)
 VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_RAISED = f"SELECT process FROM toolwire_alerts WHERE {_ROW} AND threshold = ?"  # noqa: S608 - these are constants
_START = """INSERT INTO toolwire_started (process, number, key, kind, "window", start, amount)
 VALUES (?, ?, ?, ?, ?, ?, ?)"""


class Window(Struct, frozen=True, order=True):
    """One window of one limit of one key. `unit` is how long it is, `start` the second at which it begins."""

    key: str
    kind: str
    unit: str
    start: int


class Estimate(Struct, frozen=True):
    """How much a request may take of a window whose limit is `most`."""

    window: Window
    amount: int
    most: int


class Admission(Struct, frozen=True):
    """A request to admit. `number` identifies it within its process."""

    number: int
    estimates: tuple[Estimate, ...]


class BudgetWatch(Struct, frozen=True):
    """A window of a budget, and the amount that raises an alert when it is spent.

    With `refused`, the budget has refused a request, so that requests in flight count too.
    """

    window: Window
    threshold: int
    refused: bool = False


class LimitLedger:
    """The database of keys, their limits, and what each key has used of them."""

    def __init__(self, url: str) -> None:
        self._engine, self._files = open_database(url, one_writer=True)
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._lock = "" if self._is_sqlite else " FOR UPDATE"
        if not self._is_sqlite:
            sql.event.listen(self._engine, "connect", share_locks)
        with self._engine.begin() as connection:
            if not self._is_sqlite:  # two processes that start together create the tables once
                connection.execute(sql.text("SELECT pg_advisory_xact_lock(7566047373982433)"))
            _TABLES.create_all(connection)
            _add_columns(connection)

    def check(self) -> None:
        """Raise an error if the files of the database were removed, moved or replaced: writes would be lost."""
        if self._files is not None:
            self._files.check()

    def add(self, key: Key) -> None:
        """Store a key."""
        with self._engine.begin() as connection:
            connection.execute(_keys.insert(), _row_of(key))

    def add_named(self, key: Key, *, by: str = "") -> None:
        """Store a key under a name of its own. Raise `KeyConflict` if a key that is in force has this name.

        `by` is the id of the admin key that does so, or empty for the operator. Raise `AdminRevoked` if that key is no
        admin key in force.
        """
        with self._changing_keys(key.created, by) as connection:
            _check_name(connection, key, key.created)
            connection.execute(_keys.insert(), _row_of(key))

    @contextlib.contextmanager
    def _changing_keys(self, now: float, by: str) -> Iterator[sql.Connection]:
        """Yield a connection in a transaction. All changes of keys are made one after the other."""
        with self._engine.begin() as connection:
            if not self._is_sqlite:
                connection.execute(sql.text("SELECT pg_advisory_xact_lock(7566047373982434)"))
            if by:
                admin = _key_in(connection, by)
                if admin is None or not admin.is_admin or admin.state(now) != "active":
                    raise AdminRevoked(f"{by} is not an admin key that is in force")
            yield connection

    def listed(self) -> list[Key]:
        """Return the keys, the oldest first."""
        with self._engine.begin() as connection:
            return [_key_of(row) for row in connection.execute(sql.select(_keys).order_by(_keys.c.created))]

    def page(self, after: str, most: int) -> list[Key]:
        """Return up to `most` keys, the oldest first; those that follow the key with the id `after` if it is not empty.

        Raise `InvalidField` if there is no key `after`.
        """
        query = sql.select(_keys).order_by(_keys.c.created, _keys.c.id).limit(most)
        with self._engine.begin() as connection:
            if after:
                created = connection.execute(sql.select(_keys.c.created).where(_keys.c.id == after)).scalar()
                if created is None:
                    raise InvalidField("after", "must be the id of a key")
                later = sql.and_(_keys.c.created == created, _keys.c.id > after)
                query = query.where(sql.or_(_keys.c.created > created, later))
            return [_key_of(row) for row in connection.execute(query)]

    def find(self, identity: str) -> Key | None:
        """Return the key of an id."""
        with self._engine.begin() as connection:
            return _key_in(connection, identity)

    def change(self, identity: str, change: Callable[[Key], Key], now: float, *, by: str = "") -> Key | None:
        """Replace a key by what `change` makes of it, and return that. Return None if there is no such key.

        Raise `KeyConflict` if the key is revoked, or if another key that is in force has its name. With `by`, the id of
        an admin key, also if it is the last admin key and would be none.
        """
        with self._changing_keys(now, by) as connection:
            before = _key_in(connection, identity)
            if before is None:
                return None
            if before.revoked is not None:
                raise KeyConflict("key", f"{identity} is revoked, and cannot be changed; create another one")
            after = change(before)
            if (after.name, after.state(now)) != (before.name, before.state(now)):
                _check_name(connection, after, now)
            if by and before.is_admin and not after.is_admin:
                _check_admin_remains(connection, before, now)
            connection.execute(_keys.update().where(_keys.c.id == identity), _row_of(after))
            return after

    def revoke(self, identity: str, now: float, *, by: str = "") -> Key | None:
        """Revoke a key, and return it. Return None if there is no such key.

        With `by`, the id of an admin key, raise `KeyConflict` if it is the last admin key.
        """
        with self._changing_keys(now, by) as connection:
            key = _key_in(connection, identity)
            if key is None or key.revoked is not None:
                return key
            if by and key.is_admin:
                _check_admin_remains(connection, key, now)
            connection.execute(_keys.update().where(_keys.c.id == identity).values(revoked=now))
            return msgspec.structs.replace(key, revoked=now)

    def taken(self, key: Key, now: float) -> dict[str, int]:
        """Return what counts as spent of each limit of a key in the window of `now`."""
        taken = self.taken_of([key], now)[key.id]
        return {f"{limit.kind} {limit}": taken[limit.kind] for limit in key.limits}

    def taken_of(self, keys: Iterable[Key], now: float) -> dict[str, dict[str, int]]:
        """Return what counts as spent of each limit of `keys` in the window of `now`, by id and kind."""
        windows = {key.id: {limit.kind: window_of(key, limit, now) for limit in key.limits} for key in keys}
        with self._transaction() as cursor:
            taken = self._read(
                cursor, {window for of_key in windows.values() for window in of_key.values()}, lock=False
            )
        return {
            identity: {kind: taken.get(window, 0) for kind, window in of_key.items()}
            for identity, of_key in windows.items()
        }

    def raise_alerts(self, process: str, watches: Iterable[BudgetWatch]) -> dict[BudgetWatch, int | None]:
        """Raise the alerts of budgets whose threshold is spent, each one once, whatever other processes do.

        Return for each alert that was raised the spent amount if `process` is the one to report it, else None. If the
        outcome of the transaction is not known, calling this again has the same result.
        """
        raised: dict[BudgetWatch, int | None] = {}
        with self._transaction() as cursor:
            taken = self._read(cursor, {watch.window for watch in watches}, lock=False)
            for watch in watches:
                spent = taken.get(watch.window, 0)
                if spent >= watch.threshold and not watch.refused:
                    spent = int(self._scalar(cursor, _SETTLED, *msgspec.structs.astuple(watch.window) * 2))
                if spent >= watch.threshold:
                    alert = (*msgspec.structs.astuple(watch.window), watch.threshold)
                    cursor.execute(self._text(_RAISE), (*alert, process))
                    raised[watch] = spent if self._scalar(cursor, _RAISED, *alert) == process else None
        return raised

    def _scalar(self, cursor: Any, statement: str, *values: Any) -> Any:
        cursor.execute(self._text(statement), values)
        return cursor.fetchone()[0]

    def write(
        self, process: str, settled: Mapping[int, Mapping[str, int]], waiting: Sequence[Admission]
    ) -> list[Window | None]:
        """Settle requests and admit others, in one transaction.

        `settled` has what a request used of each kind, by the request's number. Return for each request that waits
        None if it is admitted, else a window that has too little left for it.
        """
        with self._transaction() as cursor:
            ended = self._settle(cursor, process, settled)
            wanted = {one.window for admission in waiting for one in admission.estimates}
            before = self._read(cursor, {window for _, window, _ in ended} | wanted)
            if missing := wanted - before.keys():
                before |= self._create(cursor, missing)
            taken = dict(before)
            for number, window, amount in ended:
                if window in taken:
                    taken[window] = _bounded(taken[window] - amount + settled[number].get(window.kind, 0))
            full = [_admit(one.estimates, taken) for one in waiting]
            self._store(cursor, {window: taken[window] for window in taken if taken[window] != before[window]})
            admitted = [one for one, window in zip(waiting, full, strict=True) if window is None]
            self._start(cursor, process, admitted)
        return full

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Yield a cursor of the driver in a transaction, which is rolled back if anything fails."""
        connection = self._engine.raw_connection()
        try:
            if self._files is not None:
                self._files.remember()
            cursor = connection.cursor()
            if self._is_sqlite:
                cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            connection.commit()
        except BaseException as problem:
            try:
                connection.rollback()
                if getattr(problem, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                    connection.cursor().execute("PRAGMA wal_checkpoint")  # the room of the log can be used again
            except Exception:  # noqa: BLE001 - the server has ended the connection
                connection.invalidate()
            raise
        finally:
            connection.close()

    def _text(self, statement: str) -> str:
        return statement if self._is_sqlite else statement.replace("?", "%s")

    def _settle(self, cursor: Any, process: str, numbers: Collection[int]) -> list[tuple[int, Window, int]]:
        """Delete the rows of requests, and return them. A request that was settled before has none."""
        if not numbers:
            return []
        marks = ", ".join("?" * len(numbers))
        cursor.execute(self._text(_SETTLE % marks), (process, *numbers))
        return [(row[0], Window(*row[1:5]), row[5]) for row in cursor.fetchall()]

    def _read(self, cursor: Any, windows: Iterable[Window], *, lock: bool = True) -> dict[Window, int]:
        """Read what is spent of windows. With `lock` they are locked, in one order, so no two processes deadlock."""
        taken, wanted = {}, sorted(windows)
        for first in range(0, len(wanted), _ROWS):
            rows = wanted[first : first + _ROWS]
            values = [value for window in rows for value in msgspec.structs.astuple(window)]
            cursor.execute(self._text(_READ % " OR ".join([_ROW] * len(rows))) + (self._lock if lock else ""), values)
            taken.update({Window(*row[:4]): row[4] for row in cursor.fetchall()})
        return taken

    def _create(self, cursor: Any, windows: Iterable[Window]) -> dict[Window, int]:
        """Create windows, delete those that are too old, and read the new ones."""
        for window in sorted(windows):
            limit = window.key, window.kind, window.unit
            cursor.execute(self._text(_NEWEST), limit)
            newest = cursor.fetchone()[0]
            cursor.execute(self._text(_CREATE), (*limit, window.start, newest + 1))
            if (old := newest + 1 - _KEPT_WINDOWS) > 0:
                cursor.execute(self._text(_FORGET), (*limit, *limit, old))
                cursor.execute(self._text(_FORGET_ALERTS), (*limit, *limit, old))
                cursor.execute(self._text(_DELETE), (*limit, old))
        return self._read(cursor, windows)

    def _store(self, cursor: Any, taken: Mapping[Window, int]) -> None:
        if taken:
            rows = [(amount, *msgspec.structs.astuple(window)) for window, amount in taken.items()]
            cursor.executemany(self._text(_CHANGE), rows)

    def _start(self, cursor: Any, process: str, admitted: Iterable[Admission]) -> None:
        rows = [
            (process, request.number, *msgspec.structs.astuple(one.window), one.amount)
            for request in admitted
            for one in request.estimates
        ]
        if rows:
            cursor.executemany(self._text(_START), rows)

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()


def window_of(key: Key, limit: Limit, now: float) -> Window:
    """Return the window of a limit that a time is in."""
    return Window(key.id, limit.kind, limit.window, limit.window_at(now)[0])


def _admit(estimates: Iterable[Estimate], taken: dict[Window, int]) -> Window | None:
    """Add estimates to what is taken, if each of them fits; else return the first window that has too little left."""
    for one in estimates:
        if one.amount > max(0, one.most - taken[one.window]):
            return one.window
    for one in estimates:
        taken[one.window] += one.amount
    return None


def _bounded(amount: int) -> int:
    """Return an amount that the database can hold. It is below zero only if somebody changed the row by hand."""
    return max(0, min(amount, _MOST))


def _add_columns(connection: sql.Connection) -> None:
    """Add the columns that the keys of an older version do not have. Processes of that version keep working."""
    present = {column["name"] for column in sql.inspect(connection).get_columns(_keys.name)}
    for name in _ADDED_COLUMNS:
        if name not in present:
            column = sql.schema.CreateColumn(_keys.c[name]).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {_keys.name} ADD COLUMN {column}")


def _key_in(connection: sql.Connection, identity: str) -> Key | None:
    row = connection.execute(sql.select(_keys).where(_keys.c.id == identity)).first()
    return None if row is None else _key_of(row)


def _others_in_force(key: Key, now: float) -> Any:
    """Return the query of the keys that are in force at `now`, without `key`."""
    not_expired = sql.or_(_keys.c.expires.is_(None), _keys.c.expires > now)
    return sql.select(_keys.c.id).where(_keys.c.revoked.is_(None), not_expired, _keys.c.id != key.id)


def _check_name(connection: sql.Connection, key: Key, now: float) -> None:
    """Raise `KeyConflict` if another key that is in force has the name of `key`."""
    other = connection.execute(_others_in_force(key, now).where(_keys.c.name == key.name)).scalar()
    if other is not None:
        detail = f"{key.name!r} is the name of the key {other}; revoke that key, or choose another name"
        raise KeyConflict("name", detail)


def _check_admin_remains(connection: sql.Connection, key: Key, now: float) -> None:
    """Raise `KeyConflict` if no other admin key is in force."""
    if connection.execute(_others_in_force(key, now).where(_keys.c.is_admin)).scalar() is None:
        detail = f"{key.id} is the last admin key; create another one first, or use `toolwire keys` on the command line"
        raise KeyConflict("key", detail)


def _row_of(key: Key) -> dict[str, Any]:
    return {**msgspec.structs.asdict(key), "models": _json(key.models), "limits": _json(key.limits)}


def _key_of(row: Any) -> Key:
    models = msgspec.json.decode(row.models, type=tuple[str, ...])
    limits = msgspec.json.decode(row.limits, type=tuple[Limit, ...])
    return Key(**{**row._mapping, "salt": bytes(row.salt), "hash": bytes(row.hash), "models": models, "limits": limits})  # noqa: SLF001 - it is public there


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
