"""The memory of earlier turns, for content that the client's wire cannot carry: in the process or in a database.

An *entry* is stored for an owner (a key of the gateway) under a name: a learned value, a stored answer, or a
conversation with its items.

Rules of this file:
- An owner finds its own entries alone.
- Every write checks two limits: the limit of its owner and the limit of all. At its owner's limit a write deletes the
  entries that this owner used longest ago. At the limit of all, the owner that stores most loses the entries that it
  used longest ago.
- An entry that was deleted stays deleted: adding to it changes nothing.
- Answers and conversations are read from the database each time. Learned values are cached for a second, and so is
  their absence. Only a value that its key determines is cached for longer.
- Two threads use the database, so that reading does not wait for a lock that a stopped process holds.
- If the database fails, learned values are missing and the request continues. A request that needs stored content
  gets 503.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from toolwire.errors import MissingExtra, StoreFailed
from toolwire.gateway.entries import Appended, Item, StoredEntry, bytes_of, bytes_of_item, column_key
from toolwire.gateway.errors import GatewayError

_log = logging.getLogger(__name__)
_SWEEP_SECONDS = 60.0
_FRESH_SECONDS = 1.0
_FIXED_SECONDS = 60.0
_FIXED = "made:"  # the key is the hash of a signature, the value its maker
_CACHE_BYTES = 8 * 1024 * 1024
_TOUCH_SECONDS = 60.0  # reading an entry notes its use no more often than that


class Memory(Protocol):
    """Stores entries by owner and key."""

    async def find(self, owner: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Return the learned values of these keys. A value may be a second old."""

    async def keep(self, owner: str, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Store learned values."""

    async def read(self, owner: str, key: str, *, items: bool = False) -> StoredEntry | None:
        """Return an entry as it is now, with its items if `items` is true."""

    async def read_chain(self, owner: str, key: str) -> list[bytes]:
        """Return the value of an entry, and those of the entries that it continues."""

    async def read_named(self, owner: str, names: Sequence[str]) -> list[tuple[bytes, list[str]]]:
        """Return the values of the entries that have pointers of these names, each with its names."""

    async def write(self, owner: str, key: str, entry: StoredEntry) -> bool:
        """Store an entry. Return False if it is larger than what one owner may hold."""

    async def replace(self, owner: str, key: str, entry: StoredEntry, *, items: bool = True) -> bool:
        """Replace an entry, without `items` its value alone. Return False if there is none, or it is too large."""

    async def append(self, owner: str, key: str, items: Sequence[Item], most: int) -> Appended:
        """Add all items to an entry, up to `most` bytes of it, or none of them."""

    async def delete(self, owner: str, key: str) -> bool:
        """Delete an entry. Return False if there was none."""

    async def delete_item(self, owner: str, key: str, name: str) -> bool:
        """Delete an item of an entry. Return False if there was none."""

    def close(self) -> None:
        """Release what is open."""


class MemoryPart(NamedTuple):
    """The part of a memory whose keys begin with `prefix`."""

    memory: Memory
    prefix: str = ""


class _Stored(Struct):
    """An entry as a process holds it."""

    value: bytes
    previous: str
    items: dict[str, bytes | None]
    used_at: float
    bytes: int


class _Owner(Struct):
    """The entries of one owner, the one that was used longest ago first."""

    entries: OrderedDict[str, _Stored] = field(default_factory=OrderedDict)
    pointers: dict[str, str] = field(default_factory=dict)
    bytes: int = 0


class ProcessMemory:
    """A memory in this process."""

    def __init__(
        self, size: int, seconds: float, now: Callable[[], float] = time.monotonic, *, share: int | None = None
    ) -> None:
        self.size: int = size
        self._seconds, self._now = seconds, now
        self.share: int = size if share is None else min(share, size)
        self._owners: dict[str, _Owner] = {}
        self.bytes: int = 0
        self._swept = now()

    async def find(self, owner: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Return the learned values of these keys."""
        if not self._owners:
            return {}
        entries = ((key, self._use(owner, key)) for key in keys)
        return {key: stored.value for key, stored in entries if stored is not None}

    async def keep(self, owner: str, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Store learned values."""
        for key, value in pairs:
            await self.write(owner, key, StoredEntry(value))

    async def read(self, owner: str, key: str, *, items: bool = False) -> StoredEntry | None:
        """Return an entry."""
        stored = self._use(owner, key)
        if stored is None:
            return None
        return StoredEntry(
            stored.value, stored.previous, [Item(*item) for item in stored.items.items()] if items else ()
        )

    async def read_chain(self, owner: str, key: str) -> list[bytes]:
        """Return the value of an entry, and those of the entries that it continues."""
        chain: dict[str, bytes] = {}
        while key and key not in chain and (stored := self._use(owner, key)) is not None:
            chain[key] = stored.value
            key = stored.previous
        return list(chain.values())

    async def read_named(self, owner: str, names: Sequence[str]) -> list[tuple[bytes, list[str]]]:
        """Return the values of the entries that have pointers of these names, each with its names."""
        pointers = self._owners[owner].pointers if owner in self._owners else {}
        names_by_key: dict[str, list[str]] = {}
        for name in names:
            if name in pointers:
                names_by_key.setdefault(pointers[name], []).append(name)
        used = ((self._use(owner, key), of_entry) for key, of_entry in names_by_key.items())
        return [(stored.value, of_entry) for stored, of_entry in used if stored is not None]

    async def write(self, owner: str, key: str, entry: StoredEntry) -> bool:
        """Store an entry. Return False if it is larger than the share of an owner."""
        size = bytes_of(owner, key, entry)
        if size > self.share:
            return False
        self._remove(owner, key)
        mine = self._owners.setdefault(owner, _Owner())
        mine.entries[key] = _Stored(entry.value, entry.previous, dict(entry.items), self._now(), size)
        mine.pointers.update((item.name, key) for item in entry.items if item.value is None)
        self._count(mine, size)
        self._shrink(owner, key)
        return True

    async def replace(self, owner: str, key: str, entry: StoredEntry, *, items: bool = True) -> bool:
        """Replace an entry that is there."""
        stored = self._use(owner, key)
        if stored is None:
            return False
        before = [Item(*item) for item in stored.items.items()]
        return await self.write(owner, key, entry if items else entry._replace(items=before))

    async def append(self, owner: str, key: str, items: Sequence[Item], most: int) -> Appended:
        """Add items to an entry."""
        stored = self._use(owner, key)
        if stored is None:
            return Appended(found=False)
        if taken := frozenset(item.name for item in items if item.name in stored.items):
            return Appended(taken=taken)
        size = sum(bytes_of_item(owner, key, item) for item in items)
        if stored.bytes + size > min(most, self.share):
            return Appended(too_long=True)
        stored.items.update(items)
        stored.bytes += size
        self._count(self._owners[owner], size)
        self._shrink(owner, key)
        return Appended()

    async def delete(self, owner: str, key: str) -> bool:
        """Delete an entry."""
        return self._use(owner, key) is not None and self._remove(owner, key)

    async def delete_item(self, owner: str, key: str, name: str) -> bool:
        """Delete an item of an entry."""
        stored = self._use(owner, key)
        if stored is None or name not in stored.items:
            return False
        size = bytes_of_item(owner, key, Item(name, stored.items.pop(name)))
        stored.bytes -= size
        self._count(self._owners[owner], -size)
        return True

    def discard(self, owner: str, keys: Iterable[str]) -> None:
        """Delete entries, at once."""
        for key in keys:
            self._remove(owner, key)

    def _use(self, owner: str, key: str) -> _Stored | None:
        """Return an entry that has not expired, and note that it was used."""
        mine = self._owners.get(owner)
        stored = None if mine is None else mine.entries.get(key)
        if mine is None or stored is None or stored.used_at < self._now() - self._seconds:
            return None
        stored.used_at = self._now()
        mine.entries.move_to_end(key)
        return stored

    def _remove(self, owner: str, key: str) -> bool:
        mine = self._owners.get(owner)
        stored = None if mine is None else mine.entries.pop(key, None)
        if mine is None or stored is None:
            return False
        for name in stored.items:
            if mine.pointers.get(name) == key:
                del mine.pointers[name]
        self._count(mine, -stored.bytes)
        if not mine.entries:
            del self._owners[owner]
        return True

    def _count(self, owner: _Owner, size: int) -> None:
        owner.bytes += size
        self.bytes += size

    def _shrink(self, owner: str, key: str) -> None:
        """Remove what is above the limits, and what has expired; the entry of `key` was written just now."""
        mine = self._owners[owner]
        while mine.bytes > self.share and (oldest := next(iter(mine.entries))) != key:
            self._remove(owner, oldest)
        while self.bytes > self.size:
            largest = max(self._owners, key=lambda name: self._owners[name].bytes)
            self._remove(largest, next(iter(self._owners[largest].entries)))
        if self._now() - self._swept > min(_SWEEP_SECONDS, self._seconds):
            self._swept = self._now()
            for name in list(self._owners):
                self._expire(name)

    def _expire(self, owner: str) -> None:
        oldest = self._now() - self._seconds
        while owner in self._owners:
            key, stored = next(iter(self._owners[owner].entries.items()))
            if stored.used_at >= oldest:
                break
            self._remove(owner, key)

    def close(self) -> None:
        """Forget all."""
        self._owners.clear()
        self.bytes = 0


class StoredMemory:
    """A memory in a database that several processes share: SQLite or PostgreSQL."""

    def __init__(
        self, url: str, size: int, seconds: float, now: Callable[[], float] = time.time, *, share: int | None = None
    ) -> None:
        try:
            from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - an extra

            from toolwire.gateway.memory_tables import MemoryTables  # noqa: PLC0415 - likewise
        except ImportError as problem:
            raise MissingExtra("SQLAlchemy", "serve", "to keep the memory in a database") from problem
        self._failures = SQLAlchemyError, StoreFailed
        self._tables = MemoryTables(url, size, size if share is None else share, seconds, now)
        self._now, self._touched_after = now, min(_TOUCH_SECONDS, seconds / 4)
        self._reading = ThreadPoolExecutor(1, "toolwire-memory-read")
        self._writing = ThreadPoolExecutor(1, "toolwire-memory-write")
        self._touching: set[tuple[str, str]] = set()
        self._cache = _Cache(now)

    async def find(self, owner: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Return the learned values of these keys."""
        known: dict[str, bytes] = {}
        unknown: dict[str, str] = {}
        for key in keys:
            if (value := self._cache.get(owner, key)) is None:
                unknown[column_key(key)] = key
            else:
                known[key] = value
        began = self._now()
        if unknown and (rows := await self._try(self._reading, self._find, owner, list(unknown))) is not None:
            read = dict.fromkeys(unknown.values(), b"") | {unknown[row.key]: row.value for row in rows}
            self._cache.put(owner, began, read)
            known |= read
        return {key: value for key, value in known.items() if value}

    async def keep(self, owner: str, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Store learned values."""
        learned = dict(pairs)
        entries = {column_key(key): StoredEntry(value) for key, value in learned.items()}
        size = sum(bytes_of(owner, key, entry) for key, entry in entries.items())
        if 0 < size <= self._tables.share:
            await self._try(self._writing, self._tables.write, owner, entries)
            self._cache.drop(owner, learned)

    async def read(self, owner: str, key: str, *, items: bool = False) -> StoredEntry | None:
        """Return an entry as it is now."""
        entry: StoredEntry | None = await self._need(self._reading, self._read, owner, column_key(key), items)
        return entry

    async def read_chain(self, owner: str, key: str) -> list[bytes]:
        """Return the value of an entry, and those of the entries that it continues."""
        rows = await self._need(self._reading, self._tables.chain, owner, column_key(key))
        return [row.value for row in self._used(owner, rows)]

    async def read_named(self, owner: str, names: Sequence[str]) -> list[tuple[bytes, list[str]]]:
        """Return the values of the entries that have pointers of these names, each with its names."""
        wanted = {column_key(name): name for name in names}
        values: list[tuple[bytes, list[str]]] = await self._need(self._reading, self._read_named, owner, wanted)
        return values

    async def write(self, owner: str, key: str, entry: StoredEntry) -> bool:
        """Store an entry. Return False if it is larger than what one owner may hold."""
        fits = bytes_of(owner, key, entry) <= self._tables.share
        if fits:
            await self._need(self._writing, self._tables.write, owner, {column_key(key): _in_columns(entry)})
        return fits

    async def replace(self, owner: str, key: str, entry: StoredEntry, *, items: bool = True) -> bool:
        """Replace an entry that is there, without `items` its value alone."""
        if bytes_of(owner, key, entry) > self._tables.share:
            return False
        work = self._tables.replace
        return bool(
            await self._need(self._writing, lambda: work(owner, column_key(key), _in_columns(entry), items=items))
        )

    async def append(self, owner: str, key: str, items: Sequence[Item], most: int) -> Appended:
        """Add all items to an entry, or none."""
        names = {column_key(item.name): item.name for item in items}
        added = _in_columns(StoredEntry(b"", items=items)).items
        done: Appended = await self._need(self._writing, self._tables.append, owner, column_key(key), added, most)
        return done._replace(taken=frozenset(names[name] for name in done.taken))

    async def delete(self, owner: str, key: str) -> bool:
        """Delete an entry."""
        return bool(await self._need(self._writing, self._tables.delete, owner, column_key(key)))

    async def delete_item(self, owner: str, key: str, name: str) -> bool:
        """Delete an item of an entry."""
        work = self._tables.delete_item
        return bool(await self._need(self._writing, work, owner, column_key(key), column_key(name)))

    def close(self) -> None:
        """Release the database."""
        self._reading.shutdown()
        self._writing.shutdown()
        self._tables.close()

    async def _need(self, thread: ThreadPoolExecutor, work: Callable[..., Any], *args: Any) -> Any:
        """Do work that a request needs. The request gets 503 if the database fails."""
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work, *args)
        except self._failures as problem:
            _log.error("the memory's database failed: %s", _first_line(problem))
            raise GatewayError(
                "overloaded", "stored turns cannot be read now: the database does not answer", retry_after=5
            ) from problem

    async def _try(self, thread: ThreadPoolExecutor, work: Callable[..., Any], *args: Any) -> Any:
        """Do work that a request can go without. Return None if the database fails."""
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work, *args)
        except self._failures as problem:
            _log.warning("a request continues without the memory: %s", _first_line(problem))

    def _find(self, owner: str, keys: Sequence[str]) -> Sequence[Any]:
        return self._used(owner, self._tables.find(owner, keys))

    def _read(self, owner: str, key: str, items: bool) -> StoredEntry | None:
        # The items are read first: if the entry is still there afterwards, it had these items.
        read = self._tables.items_of(owner, key) if items else ()
        rows = self._find(owner, [key])
        return StoredEntry(rows[0].value, rows[0].previous, read) if rows else None

    def _read_named(self, owner: str, wanted: Mapping[str, str]) -> list[tuple[bytes, list[str]]]:
        names = self._tables.pointers(owner, list(wanted))
        rows = sorted(self._find(owner, list(names)), key=lambda row: row.used_at)
        return [(row.value, [wanted[name] for name in names[row.key]]) for row in rows]

    def _used(self, owner: str, rows: Sequence[Any]) -> Sequence[Any]:
        """Return the rows. Note the use of those entries whose use was not noted for a while."""
        late = self._now() - self._touched_after
        stale = {(owner, row.key) for row in rows if row.used_at < late} - self._touching
        if stale:
            self._touching |= stale
            self._writing.submit(self._touch, owner, stale)
        return rows

    def _touch(self, owner: str, stale: set[tuple[str, str]]) -> None:
        try:
            self._tables.touch(owner, [key for _, key in stale])
        except self._failures as problem:
            _log.warning("the use of stored entries could not be noted: %s", _first_line(problem))
        finally:
            self._touching -= stale


class _Cache:
    """The learned values that were read a moment ago. An empty value means that there was none."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._read: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        self._bytes = 0

    def get(self, owner: str, key: str) -> bytes | None:
        """Return a value that may still be used."""
        read = self._read.get((owner, key))
        if read is None:
            return None
        seconds = _FIXED_SECONDS if read[1] and key.startswith(_FIXED) else _FRESH_SECONDS
        return read[1] if 0 <= self._now() - read[0] < seconds else None

    def put(self, owner: str, began: float, values: Mapping[str, bytes]) -> None:
        """Note values; their reading began at a time."""
        self.drop(owner, values)
        for key, value in values.items():
            self._read[owner, key] = began, value
            self._bytes += bytes_of(owner, key, StoredEntry(value))
        while self._bytes > _CACHE_BYTES:
            (oldest, key), (_, value) = self._read.popitem(last=False)
            self._bytes -= bytes_of(oldest, key, StoredEntry(value))

    def drop(self, owner: str, keys: Iterable[str]) -> None:
        """Forget values."""
        for key in keys:
            if (read := self._read.pop((owner, key), None)) is not None:
                self._bytes -= bytes_of(owner, key, StoredEntry(read[1]))


def _in_columns(entry: StoredEntry) -> StoredEntry:
    """Return an entry whose names a column can hold."""
    items = [item._replace(name=column_key(item.name)) for item in entry.items]
    return StoredEntry(entry.value, entry.previous and column_key(entry.previous), items)


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0]
