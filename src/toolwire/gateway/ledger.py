"""The ledger: keys, what they have spent, and what each process holds of their limits, in SQLite or PostgreSQL.

Rules of this file:
- What is borrowed is taken from the limit in one transaction, before anything is asked of a provider: SQLite is locked
  for writing at its beginning, of PostgreSQL the row of the window. So nothing is ever admitted twice.
- A process holds what it borrowed for as long as it says that it lives. What a dead one held comes back.
- Nothing here waits on an event loop: it is called in a thread of its own.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sql
from msgspec import Struct

from toolwire.gateway.database import open_database
from toolwire.gateway.keys import Key, Limit

LEASE = 15.0  # seconds for which a process is believed to live after it last said so
_KEPT_WINDOWS = 40 * 86_400
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
)
_PLACE = ("key", "kind", "window", "start")
_spent = sql.Table(
    "toolwire_spent",
    _TABLES,
    sql.Column("key", sql.String(8), primary_key=True),
    sql.Column("kind", sql.String(10), primary_key=True),
    sql.Column("window", sql.String(5), primary_key=True),
    sql.Column("start", sql.BigInteger, primary_key=True),
    sql.Column("taken", sql.BigInteger, nullable=False),
)
_held = sql.Table(
    "toolwire_held",
    _TABLES,
    sql.Column("process", sql.String(32), primary_key=True),
    sql.Column("key", sql.String(8), primary_key=True),
    sql.Column("kind", sql.String(10), primary_key=True),
    sql.Column("window", sql.String(5), primary_key=True),
    sql.Column("start", sql.BigInteger, primary_key=True),
    sql.Column("held", sql.BigInteger, nullable=False),
    sql.Column("spare", sql.BigInteger, nullable=False),
)
_processes = sql.Table(
    "toolwire_processes",
    _TABLES,
    sql.Column("process", sql.String(32), primary_key=True),
    sql.Column("until", sql.Float, nullable=False),
)


def _where(table: sql.Table, names: Iterable[str], beginning: str = "") -> Any:
    return sql.and_(*(table.c[name] == sql.bindparam(beginning + name) for name in names))


# Made once, for they are run often.
_TAKEN = sql.select(_spent.c.taken).where(_where(_spent, _PLACE)).with_for_update()
_TAKE = _spent.update().where(_where(_spent, _PLACE, "of_")).values(taken=sql.bindparam("taken"))
_HELD = sql.select(_held.c.held).where(_where(_held, ("process", *_PLACE)))
_HOLD = (
    _held.update()
    .where(_where(_held, ("process", *_PLACE), "of_"))
    .values(held=sql.bindparam("held"), spare=sql.bindparam("spare"))
)
_LET_GO = _held.delete().where(_where(_held, ("process", *_PLACE), "of_"))


class Place(Struct, frozen=True, order=True):
    """One window of one limit of one key."""

    key: str
    kind: str
    window: str
    start: int


class Move(Struct):
    """What a process wants to change of a window.

    `needs` are what requests wait for, in order, and `want` would be good besides; `used` is spent, `back` is given
    back, and `spare` stays unused.
    """

    place: Place
    most: int = 0
    needs: list[int] = []
    want: int = 0
    used: int = 0
    back: int = 0
    spare: int = 0


class Moved(Struct):
    """What came of a move: what was borrowed, whether it is too little, whether others hold what they do not use."""

    granted: int = 0
    short: bool = False
    others_spare: bool = False


class LimitLedger:
    """A database of keys."""

    def __init__(self, url: str) -> None:
        self._engine, self._files = open_database(url, one_writer=True)
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":  # two processes that begin together make them once
                connection.execute(sql.text("SELECT pg_advisory_xact_lock(7566047373982433)"))
            _TABLES.create_all(connection)

    def check(self) -> None:
        """Raise where the files of the database were taken away: what is written would be lost."""
        if self._files is not None:
            self._files.check()

    def add(self, key: Key) -> None:
        """Keep a key."""
        row = {**msgspec.structs.asdict(key), "models": _json(key.models), "limits": _json(key.limits)}
        with self._engine.begin() as connection:
            connection.execute(_keys.insert(), row)

    def listed(self) -> list[Key]:
        """List the keys, the oldest first."""
        with self._engine.begin() as connection:
            return [_key_of(row) for row in connection.execute(sql.select(_keys).order_by(_keys.c.created))]

    def find(self, identity: str) -> Key | None:
        """Give the key of an id."""
        with self._engine.begin() as connection:
            row = connection.execute(sql.select(_keys).where(_keys.c.id == identity)).first()
        return None if row is None else _key_of(row)

    def revoke(self, identity: str, now: float) -> None:
        """Let a key be used no longer."""
        with self._engine.begin() as connection:
            connection.execute(_keys.update().where(_keys.c.id == identity).values(revoked=now))

    def taken(self, key: Key, now: float) -> dict[str, int]:
        """Say what is spent and reserved of each limit of a key in its present window."""
        taken = {}
        with self._engine.begin() as connection:
            for limit in key.limits:
                row = connection.execute(sql.select(_spent.c.taken).where(_at(_spent, place_of(key, limit, now))))
                taken[f"{limit.kind} {limit}"] = row.scalar() or 0
        return taken

    def live(self, process: str, now: float) -> None:
        """Say that a process lives; what the dead have held comes back."""
        with self._engine.begin() as connection:
            _put(connection, _processes, ("process",), {"process": process, "until": now + LEASE}, ("until",))
            self._sweep(connection, now)

    def _sweep(self, connection: sql.Connection, now: float) -> None:
        """Give back what the dead have held."""
        dead = sql.select(_processes.c.process).where(_processes.c.until < now)
        gone = connection.execute(_held.delete().where(_held.c.process.in_(dead)).returning(_held)).all()
        for row in sorted(gone, key=_place_in):
            taken = _spent.c.taken - row.held
            connection.execute(_spent.update().where(_at(_spent, _place_in(row))).values(taken=taken))
        connection.execute(_processes.delete().where(_processes.c.until < now))
        connection.execute(_spent.delete().where(_spent.c.start < now - _KEPT_WINDOWS))

    def leave(self, process: str, now: float) -> None:
        """Say that a process ends; what it held comes back."""
        with self._engine.begin() as connection:
            connection.execute(_processes.update().where(_processes.c.process == process).values(until=now - 1))
            self._sweep(connection, now)

    def move(self, process: str, moves: Iterable[Move]) -> Mapping[Place, Moved]:
        """Borrow, spend and give back, all in one transaction."""
        moved: dict[Place, Moved] = {}
        with self._engine.begin() as connection:
            for move in sorted(moves, key=lambda move: move.place):
                moved[move.place] = self._move(connection, process, move)
        return moved

    def _move(self, connection: sql.Connection, process: str, move: Move) -> Moved:
        place = {name: getattr(move.place, name) for name in _PLACE}
        mine = {"process": process, **place}
        found = connection.execute(_TAKEN, place).scalar()
        if found is None:
            _put(connection, _spent, _PLACE, {**place, "taken": 0}, ())
            found = connection.execute(_TAKEN, place).scalar_one()
        taken, row = int(found), connection.execute(_HELD, mine).first()
        settled = move.used + move.back
        if settled and row is None:  # the lease was over: what was held has come back, what was used is taken anew
            taken, held = taken + move.used, 0
        else:
            taken, held = taken - move.back, max(0, (row.held if row is not None else 0) - settled)
        rest = max(0, move.most - taken)
        needed = _fitting(rest, move.needs)
        granted = needed + min(move.want, (rest - needed) // 8)  # an eighth, so that the last ones go to who asks
        values = {"held": held + granted, "spare": move.spare + granted - needed}
        if row is not None:
            connection.execute(_HOLD if values["held"] else _LET_GO, {f"of_{key}": mine[key] for key in mine} | values)
        elif values["held"]:
            connection.execute(_held.insert(), mine | values)
        if taken + granted != found:
            connection.execute(_TAKE, {f"of_{key}": place[key] for key in place} | {"taken": taken + granted})
        short = needed < sum(move.needs)
        return Moved(granted, short, short and self._others_spare(connection, process, move.place))

    def _others_spare(self, connection: sql.Connection, process: str, place: Place) -> bool:
        found = sql.select(_held.c.spare).where(_at(_held, place), _held.c.process != process, _held.c.spare > 0)
        return connection.execute(found.limit(1)).first() is not None

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()


def place_of(key: Key, limit: Limit, now: float) -> Place:
    """Name the window of a limit that a time is in."""
    return Place(key.id, limit.kind, limit.window, int(now // limit.seconds) * limit.seconds)


def _fitting(rest: int, needs: Iterable[int]) -> int:
    """Say how much is lent of what requests wait for: each gets all that it needs, or nothing."""
    lent = 0
    for need in needs:
        if lent + need <= rest:
            lent += need
    return lent


def _key_of(row: Any) -> Key:
    models = msgspec.json.decode(row.models, type=tuple[str, ...])
    limits = msgspec.json.decode(row.limits, type=tuple[Limit, ...])
    return Key(**{**row._mapping, "salt": bytes(row.salt), "hash": bytes(row.hash), "models": models, "limits": limits})  # noqa: SLF001 - it is public there


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _place_in(row: Any) -> Place:
    return Place(row.key, row.kind, row.window, row.start)


def _at(table: sql.Table, place: Place) -> Any:
    return sql.and_(*(table.c[name] == getattr(place, name) for name in _PLACE))


def _put(
    connection: sql.Connection, table: sql.Table, unique: Iterable[str], row: dict[str, Any], changed: Iterable[str]
) -> None:
    """Insert a row; where there is one, change it, or leave it as it is."""
    made: Any
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as made  # noqa: PLC0415 - one of two
    else:
        from sqlalchemy.dialects.sqlite import insert as made  # noqa: PLC0415 - one of two
    put = made(table).values(row)
    values = {name: row[name] for name in changed}
    connection.execute(
        put.on_conflict_do_update(index_elements=list(unique), set_=values)
        if values
        else put.on_conflict_do_nothing(index_elements=list(unique))
    )
