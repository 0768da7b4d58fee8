"""What a gateway keeps of earlier turns, because the client's wire cannot carry it: in the process, or in a database.

Rules of this file:
- What one key's turns left is found by that key alone.
- It is bounded and expires: what was used longest ago goes first.
- A database is spoken to in a thread of its own; one that fails makes a turn poorer, and no request fail.
- What it said is believed for a while, also that it has nothing: a conversation asks for the same keys turn by turn.
  That is right beside other processes, because an answer ends only when what was learned of it is kept.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from toolwire.errors import MissingExtra, StoreFailed

_log = logging.getLogger(__name__)
_AROUND = 200  # bytes that an entry costs beside its key and value
_SWEEP = 300.0
_BELIEVED = 60.0  # seconds for which the database is not asked again
_FRONT = 8 * 1024 * 1024
_NOTHING = b""


class Memory(Protocol):
    """Keeps values by owner and key."""

    async def find(self, owner: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Give what is kept under these keys."""

    async def keep(self, owner: str, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Keep values."""

    def close(self) -> None:
        """Let go of what is open."""


class ProcessMemory:
    """Kept in this process."""

    def __init__(self, size: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.size, self._seconds, self._now = size, seconds, now
        self._kept: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        self.bytes: int = 0

    async def find(self, owner: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Give what is kept under these keys."""
        if not self._kept:
            return {}
        found: dict[str, bytes] = {}
        oldest = self._now() - self._seconds
        for key in keys:
            entry = self._kept.get((owner, key))
            if entry is not None and entry[0] >= oldest:
                self._kept.move_to_end((owner, key))
                found[key] = entry[1]
        return found

    async def keep(self, owner: str, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Keep values."""
        for key, value in pairs:
            self._forget((owner, key))
            self._kept[owner, key] = self._now(), value
            self.bytes += _cost(owner, key, value)
        oldest = self._now() - self._seconds
        while self._kept and (self.bytes > self.size or next(iter(self._kept.values()))[0] < oldest):
            self._forget(next(iter(self._kept)))

    def forget(self, owner: str, keys: Iterable[str]) -> None:
        """Keep nothing under these keys."""
        for key in keys:
            self._forget((owner, key))

    def _forget(self, place: tuple[str, str]) -> None:
        entry = self._kept.pop(place, None)
        if entry is not None:
            self.bytes -= _cost(*place, entry[1])

    def close(self) -> None:
        """Forget all."""
        self._kept.clear()
        self.bytes = 0


def _cost(owner: str, key: str, value: bytes) -> int:
    return len(owner) + len(key) + len(value) + _AROUND


class StoredMemory:
    """Kept in a database that several processes share: SQLite or PostgreSQL."""

    def __init__(self, url: str, size: int, seconds: float, now: Callable[[], float] = time.time) -> None:
        try:
            import sqlalchemy  # noqa: PLC0415 - an extra

            from toolwire.gateway.database import open_database  # noqa: PLC0415 - likewise
        except ImportError as problem:
            raise MissingExtra("SQLAlchemy", "serve", "to keep the memory in a database") from problem
        self._sql = sqlalchemy
        self._size, self._seconds, self._now, self._swept = size, seconds, now, 0.0
        self._engine, _ = open_database(url)
        kinds: tuple[Any, ...] = (
            sqlalchemy.Column("owner", sqlalchemy.String(80), primary_key=True),
            sqlalchemy.Column("key", sqlalchemy.String(160), primary_key=True),
            sqlalchemy.Column("value", sqlalchemy.LargeBinary, nullable=False),
            sqlalchemy.Column("at", sqlalchemy.Float, nullable=False, index=True),
        )
        self._table = sqlalchemy.Table("toolwire_memory", sqlalchemy.MetaData(), *kinds)
        try:
            self._table.create(self._engine, checkfirst=True)
        except sqlalchemy.exc.DBAPIError:  # another process has made it meanwhile
            self._table.create(self._engine, checkfirst=True)
        self._thread = ThreadPoolExecutor(1, "toolwire-memory")
        self._said = ProcessMemory(min(size, _FRONT), min(seconds, _BELIEVED), now)

    async def find(self, owner: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Give what is kept under these keys."""
        wanted = dict.fromkeys(keys)
        said = await self._said.find(owner, wanted)
        unknown = [key for key in wanted if key not in said]
        if unknown and (found := await self._do(self._find, owner, unknown)) is not None:
            said = {**said, **found}
            await self._said.keep(owner, [(key, found.get(key, _NOTHING)) for key in unknown])
        return {key: value for key, value in said.items() if value != _NOTHING}

    async def keep(self, owner: str, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Keep values."""
        if given := dict(pairs):
            await self._do(self._keep, owner, given)
            self._said.forget(owner, given)

    async def _do(self, work: Callable[..., Any], *args: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)
        except StoreFailed as problem:
            _log.warning("this turn goes without the memory: %s", problem)
        except self._sql.exc.SQLAlchemyError:
            _log.warning("the memory's database failed; this turn goes without it", exc_info=True)

    def _find(self, owner: str, keys: list[str]) -> dict[str, bytes]:
        table, found = self._table.c, dict[str, bytes]()
        with self._engine.connect() as connection:
            for first in range(0, len(keys), 500):
                asked = self._sql.select(table.key, table.value).where(
                    table.owner == owner,
                    table.key.in_(keys[first : first + 500]),
                    table.at >= self._now() - self._seconds,
                )
                found |= {row.key: row.value for row in connection.execute(asked)}
        return found

    def _keep(self, owner: str, given: dict[str, bytes]) -> None:
        table, now = self._table, self._now()
        with self._engine.begin() as connection:
            connection.execute(table.delete().where(table.c.owner == owner, table.c.key.in_(list(given))))
            rows = [{"owner": owner, "key": key, "value": value, "at": now} for key, value in given.items()]
            connection.execute(table.insert(), rows)
            if now - self._swept > _SWEEP:
                self._swept = now
                connection.execute(table.delete().where(table.c.at < now - self._seconds))
                self._shrink(connection)

    def _shrink(self, connection: Any) -> None:
        """Take out the oldest half for as long as there is more than may be."""
        table, sql = self._table, self._sql
        while (
            connection.execute(sql.select(sql.func.coalesce(sql.func.sum(sql.func.length(table.c.value)), 0))).scalar()
            > self._size
        ):
            count = connection.execute(sql.select(sql.func.count()).select_from(table)).scalar()
            middle = connection.execute(
                sql.select(table.c.at).order_by(table.c.at).offset(count // 2).limit(1)
            ).scalar()
            connection.execute(table.delete().where(table.c.at <= middle))

    def close(self) -> None:
        """Let go of the database."""
        self._thread.shutdown()
        self._engine.dispose()
