"""The tables of the memory that several gateways share, in SQLite or PostgreSQL, and their transactions.

Rules of this file:
- Each change is one transaction. Its first statement locks the row of its owner in `toolwire_memory_usage`. So the
  changes of one owner follow each other, the sum of its bytes is exact, and two transactions never wait for each other.
- An addition is a row of its own with the next position. Nothing is read, changed in the process and written back.
- A change checks the limit of its owner before it commits, and the limit of all owners right after.
- A return without a commit undoes a transaction.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from toolwire.databases.opening import open_database
from toolwire.gateway.entries import Appended, Item, StoredEntry, bytes_of, bytes_of_item

_AT_ONCE = 500  # parameters of one statement
_PATIENCE = "10s"
_SWEEP_SECONDS = 300.0
_NEAR = 8  # the last eighth of the limit is near it
_SETUP_LOCK = "SELECT pg_advisory_xact_lock(7566047373982433)"
_FORMER_TABLE = "toolwire_memory"

_TABLES = sql.MetaData()
_usage = sql.Table(
    "toolwire_memory_usage",
    _TABLES,
    sql.Column("owner", sql.String(80), primary_key=True),
    sql.Column("bytes", sql.BigInteger, nullable=False),
)
_entries = sql.Table(
    "toolwire_memory_entries",
    _TABLES,
    sql.Column("owner", sql.String(80), primary_key=True),
    sql.Column("key", sql.String(160), primary_key=True),
    sql.Column("previous", sql.String(160), nullable=False),
    sql.Column("used_at", sql.Float, nullable=False, index=True),
    sql.Column("next_position", sql.BigInteger, nullable=False),
    sql.Column("bytes", sql.BigInteger, nullable=False),
    sql.Column("value", sql.LargeBinary, nullable=False),
    sql.Index("toolwire_memory_oldest", "owner", "used_at"),
)
_items = sql.Table(
    "toolwire_memory_items",
    _TABLES,
    sql.Column("owner", sql.String(80), primary_key=True),
    sql.Column("key", sql.String(160), primary_key=True),
    sql.Column("position", sql.BigInteger, primary_key=True),
    sql.Column("name", sql.String(160), nullable=False),
    sql.Column("value", sql.LargeBinary),
    sql.Index("toolwire_memory_names", "owner", "name", "key"),
)
_entry, _item = _entries.c, _items.c


def _at(*names: str) -> Any:
    """Compare columns of entries with the parameters of their names."""
    return sql.and_(*(_entry[name] == sql.bindparam(f"of_{name}") for name in names))


def _keys_in(table: Any) -> Any:
    return sql.and_(table.owner == sql.bindparam("of_owner"), table.key.in_(sql.bindparam("keys", expanding=True)))


def _chain() -> Any:
    """Return the statement that follows `previous` from an entry on."""
    links = sql.select(_entry.key, _entry.previous).where(_at("owner", "key")).cte("chain", recursive=True)
    earlier = _entries.alias().c
    more = sql.select(earlier.key, earlier.previous)
    links = links.union(more.where(earlier.owner == sql.bindparam("of_owner"), earlier.key == links.c.previous))
    entries = sql.select(_entry.key, _entry.previous, _entry.value, _entry.used_at)
    return entries.join(links, links.c.key == _entry.key).where(_at("owner"))


# Built once, because they are run often. None of them that has a list of keys compares `used_at` too: SQLite would
# choose its index, and read all entries of an owner.
_FIND = sql.select(_entry.key, _entry.previous, _entry.value, _entry.used_at).where(_keys_in(_entry))
_CHAIN = _chain()
_DELETE = _entries.delete().where(_keys_in(_entry)).returning(_entry.bytes)
_DELETE_ITEMS = _items.delete().where(_keys_in(_item))
_APPEND = (
    _entries.update()
    .where(_at("owner", "key"), _entry.used_at >= sql.bindparam("oldest"))
    .values(
        bytes=_entry.bytes + sql.bindparam("size"),
        next_position=_entry.next_position + sql.bindparam("count"),
        used_at=sql.bindparam("now"),
    )
    .returning(_entry.bytes, _entry.next_position)
)
_TAKEN = sql.select(_item.name).where(
    _item.owner == sql.bindparam("of_owner"),
    _item.key == sql.bindparam("of_key"),
    _item.name.in_(sql.bindparam("names", expanding=True)),
)
_OLDEST = sql.select(_entry.key, _entry.bytes).where(_at("owner")).order_by(_entry.used_at, _entry.key)
_TOTAL = sql.select(sql.func.coalesce(sql.func.sum(_usage.c.bytes), 0))
_LARGEST = sql.select(_usage.c.owner, _usage.c.bytes).order_by(_usage.c.bytes.desc(), _usage.c.owner).limit(2)


class MemoryTables:
    """The store of several gateways. `total` and `share` limit the bytes of all owners and of each."""

    def __init__(self, url: str, total: int, share: int, seconds: float, now: Callable[[], float]) -> None:
        self.share: int = min(share, total)
        self._total, self._seconds, self._now, self._swept = total, seconds, now, 0.0
        self._engine, _ = open_database(url)
        insert: Any = sqlite.insert
        if self._engine.dialect.name == "postgresql":
            insert = postgresql.insert
            sql.event.listen(self._engine, "connect", _limit_waiting)
        put = insert(_usage).values(owner=sql.bindparam("owner"), bytes=sql.bindparam("size"))
        put = put.on_conflict_do_update(index_elements=["owner"], set_={"bytes": _usage.c.bytes + put.excluded.bytes})
        self._lock = put.returning(_usage.c.bytes)
        self._reader = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._engine.begin() as connection:
            _create_tables(connection)

    def find(self, owner: str, keys: Sequence[str]) -> list[Any]:
        """Return the rows of the entries of these keys that have not expired."""
        rows: list[Any] = []
        with self._reader.connect() as connection:
            for some in _pieces(keys):
                rows += connection.execute(_FIND, {"of_owner": owner, "keys": some}).all()
        return [row for row in rows if row.used_at >= self._oldest]

    def items_of(self, owner: str, key: str) -> list[Item]:
        """Return the items of an entry in order."""
        query = sql.select(_item.name, _item.value).where(_item.owner == owner, _item.key == key)
        with self._reader.connect() as connection:
            return [Item(row.name, row.value) for row in connection.execute(query.order_by(_item.position))]

    def chain(self, owner: str, key: str) -> list[Any]:
        """Return the row of an entry, and those of the entries that it continues, in one statement."""
        with self._reader.connect() as connection:
            rows = connection.execute(_CHAIN, {"of_owner": owner, "of_key": key}).all()
        by_key, chain = {row.key: row for row in rows if row.used_at >= self._oldest}, []
        while (row := by_key.pop(key, None)) is not None:
            chain.append(row)
            key = row.previous
        return chain

    def pointers(self, owner: str, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the keys of the entries that have pointers of these names, each with its names."""
        names_by_key: dict[str, list[str]] = {}
        with self._reader.connect() as connection:
            for some in _pieces(names):
                query = sql.select(_item.key, _item.name).where(_item.owner == owner, _item.name.in_(some))
                for row in connection.execute(query.where(_item.value.is_(None))):
                    names_by_key.setdefault(row.key, []).append(row.name)
        return names_by_key

    def write(self, owner: str, entries: Mapping[str, StoredEntry]) -> None:
        """Store entries, in place of those that are there."""
        sizes = [bytes_of(owner, key, entry) for key, entry in entries.items()]
        with self._engine.connect() as connection:
            used = self._count(connection, owner, sum(sizes))
            freed = self._delete(connection, owner, list(entries))
            connection.execute(_entries.insert(), list(self._rows(owner, entries, sizes)))
            for key, entry in entries.items():
                _insert_items(connection, owner, key, entry.items, 0)
            total = self._commit(connection, owner, used, -freed, entries)
        self._limit_all(total)

    def replace(self, owner: str, key: str, entry: StoredEntry, *, items: bool) -> bool:
        """Replace an entry that is there, without `items` its value alone."""
        with self._engine.connect() as connection:
            used = self._count(connection, owner)
            query = sql.select(_entry.bytes, sql.func.length(_entry.value).label("length"))
            old = connection.execute(query.where(_is(owner, key), _entry.used_at >= self._oldest)).first()
            if old is None:
                return False
            changes: dict[str, Any] = {"value": entry.value, "used_at": self._now()}
            size = int(old.bytes) - int(old.length) + len(entry.value)
            if items:
                connection.execute(_DELETE_ITEMS, {"of_owner": owner, "keys": [key]})
                _insert_items(connection, owner, key, entry.items, 0)
                size = bytes_of(owner, key, entry)
                changes |= {"previous": entry.previous, "next_position": len(entry.items)}
            connection.execute(_entries.update().where(_is(owner, key)).values(**changes, bytes=size))
            total = self._commit(connection, owner, used, size - int(old.bytes), [key])
        self._limit_all(total)
        return True

    def append(self, owner: str, key: str, items: Sequence[Item], most: int) -> Appended:
        """Add all items to an entry that is there, or none."""
        size = sum(bytes_of_item(owner, key, item) for item in items)
        change = {"of_owner": owner, "of_key": key, "oldest": self._oldest, "now": self._now(), "size": size}
        with self._engine.connect() as connection:
            used = self._count(connection, owner, size)
            row = connection.execute(_APPEND, {**change, "count": len(items)}).first()
            if row is None or row.bytes > min(most, self.share):
                return Appended(found=row is not None, too_long=row is not None)
            if taken := _taken(connection, owner, key, [item.name for item in items]):
                return Appended(taken=taken)
            _insert_items(connection, owner, key, items, row.next_position - len(items))
            total = self._commit(connection, owner, used, 0, [key])
        self._limit_all(total)
        return Appended()

    def delete(self, owner: str, key: str) -> bool:
        """Delete an entry. Return False if there was none."""
        is_alive = sql.select(_entry.key).where(_is(owner, key), _entry.used_at >= self._oldest)
        with self._engine.connect() as connection:
            used = self._count(connection, owner)
            row = connection.execute(is_alive).first()
            freed = self._delete(connection, owner, [key])
            self._commit(connection, owner, used, -freed)
        return row is not None

    def delete_item(self, owner: str, key: str, name: str) -> bool:
        """Delete an item of an entry. Return False if there was none."""
        item = _items.delete().where(_item.owner == owner, _item.key == key, _item.name == name)
        with self._engine.connect() as connection:
            used = self._count(connection, owner)
            row = connection.execute(item.returning(_item.value)).first()
            if row is None:
                return False
            size = bytes_of_item(owner, key, Item(name, row.value))
            connection.execute(_entries.update().where(_is(owner, key)).values(bytes=_entry.bytes - size))
            self._commit(connection, owner, used, -size)
        return True

    def touch(self, owner: str, keys: Sequence[str]) -> None:
        """Note that entries are used."""
        with self._engine.connect() as connection:
            self._count(connection, owner)
            for some in _pieces(keys):
                change = _entries.update().where(_entry.owner == owner, _entry.key.in_(some))
                connection.execute(change.values(used_at=self._now()))
            connection.commit()

    def close(self) -> None:
        """Release the database."""
        self._engine.dispose()

    @property
    def _oldest(self) -> float:
        """The time before which an entry has expired that was not used since."""
        return self._now() - self._seconds

    def _count(self, connection: sql.Connection, owner: str, size: int = 0) -> int:
        """Lock the row of `owner`, and add `size` to the bytes that it has stored. Return the new sum."""
        return int(connection.execute(self._lock, {"owner": owner, "size": size}).scalar_one())

    def _commit(
        self, connection: sql.Connection, owner: str, used: int, change: int, written: Collection[str] = ()
    ) -> int:
        """Add `change` to the `used` bytes of `owner`, delete what exceeds its limit, and commit.

        The `written` keys are not deleted. Return the bytes of all owners, as far as this transaction sees them.
        """
        if used + change > self.share:
            change -= self._evict(connection, owner, used + change - self.share, written)
        if change:
            self._count(connection, owner, change)
        total = int(connection.execute(_TOTAL).scalar_one())
        connection.commit()
        return total

    def _rows(self, owner: str, entries: Mapping[str, StoredEntry], sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
        now = self._now()
        for (key, entry), size in zip(entries.items(), sizes, strict=True):
            row = {"owner": owner, "key": key, "previous": entry.previous, "used_at": now, "bytes": size}
            yield {**row, "next_position": len(entry.items), "value": entry.value}

    def _delete(self, connection: sql.Connection, owner: str, keys: Sequence[str]) -> int:
        """Delete entries. Return how many bytes they had."""
        freed = 0
        for some in _pieces(keys):
            if sizes := connection.execute(_DELETE, {"of_owner": owner, "keys": some}).scalars().all():
                connection.execute(_DELETE_ITEMS, {"of_owner": owner, "keys": some})
                freed += sum(sizes)
        return freed

    def _evict(self, connection: sql.Connection, owner: str, excess: int, spared: Collection[str] = ()) -> int:
        """Delete the least recently used entries of `owner`, but none in `spared`, until `excess` bytes are freed.

        Return the number of freed bytes.
        """
        freed = 0
        oldest = _OLDEST.where(_entry.key.not_in(list(spared))).limit(100)
        while freed < excess and (rows := connection.execute(oldest, {"of_owner": owner}).all()):
            doomed, size = list[str](), 0
            while rows and freed + size < excess:
                row, *rows = rows
                doomed.append(row.key)
                size += row.bytes
            freed += self._delete(connection, owner, doomed)
        return freed

    def _limit_all(self, total: int) -> None:
        """Delete entries if `total`, the bytes of all owners, is above the limit, and at times those that have expired.

        Transactions of other processes that end at the same moment do not see each other. So the sum is read again
        after the commit if it is near the limit.
        """
        while total > self._total - self._total // _NEAR:
            with self._reader.connect() as connection:
                total = int(connection.execute(_TOTAL).scalar_one())
                if total <= self._total:
                    break
                largest, *others = connection.execute(_LARGEST).all()
            self._shrink(largest.owner, others[0].bytes if others else 0)
        if self._now() - self._swept > _SWEEP_SECONDS:
            self._swept = self._now()
            self._expire()

    def _shrink(self, owner: str, next_largest: int) -> None:
        """Delete what the largest owner used longest ago, until another one is as large or all have room."""
        with self._engine.connect() as connection:
            used = self._count(connection, owner)
            excess = int(connection.execute(_TOTAL).scalar_one()) - self._total
            if excess > 0:
                freed = self._evict(connection, owner, min(excess, max(used - next_largest, 1)))
                self._commit(connection, owner, used, -(freed or used))

    def _expire(self) -> None:
        is_old = _entry.used_at < self._oldest
        with self._reader.connect() as connection:
            owners = connection.execute(sql.select(_entry.owner).where(is_old).distinct()).scalars().all()
        for owner in owners:
            with self._engine.connect() as connection:
                used = self._count(connection, owner)
                old = connection.execute(sql.select(_entry.key).where(_entry.owner == owner, is_old)).scalars().all()
                self._commit(connection, owner, used, -self._delete(connection, owner, old))


def _is(owner: str, key: str) -> Any:
    return sql.and_(_entry.owner == owner, _entry.key == key)


def _create_tables(connection: sql.Connection) -> None:
    """Create the tables; processes that start together wait for each other."""
    connection.exec_driver_sql(_SETUP_LOCK if connection.dialect.name == "postgresql" else "BEGIN IMMEDIATE")
    _TABLES.create_all(connection)
    if sql.inspect(connection).has_table(_FORMER_TABLE):  # nothing would delete its rows when they expire
        with contextlib.suppress(SQLAlchemyError), connection.begin_nested():
            connection.exec_driver_sql(f"DROP TABLE {_FORMER_TABLE}")


def _insert_items(connection: sql.Connection, owner: str, key: str, items: Sequence[Item], first: int) -> None:
    rows = [
        {"owner": owner, "key": key, "position": position, "name": item.name, "value": item.value}
        for position, item in enumerate(items, first)
    ]
    if rows:
        connection.execute(_items.insert(), rows)


def _taken(connection: sql.Connection, owner: str, key: str, names: Sequence[str]) -> frozenset[str]:
    """Return the names that an entry has already."""
    taken: set[str] = set()
    for some in _pieces(names):
        taken.update(connection.execute(_TAKEN, {"of_owner": owner, "of_key": key, "names": some}).scalars())
    return frozenset(taken)


def _pieces(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(keys), _AT_ONCE):
        yield keys[first : first + _AT_ONCE]


def _limit_waiting(connection: Any, _record: Any) -> None:
    """Limit the time that a statement waits for a lock, and that a process may pause within a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{_PATIENCE}'")
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{_PATIENCE}'")
    connection.commit()
