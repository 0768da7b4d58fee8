"""An in-memory cache that is bounded in bytes and evicts the least recently used entries.

Rules of this file:
- A cached value is never changed, so any number of threads may use it at the same time.
"""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

_ENTRY = 300
"""The approximate overhead of an entry in bytes, in addition to its value and key."""


class SizedCache:
    """An LRU cache: values by key, up to `limit` bytes in total. A limit of 0 caches nothing."""

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.size: int = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """Return the value cached under `key`, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Cache `value` under `key`; `size` is the number of bytes of both."""
        size += _ENTRY
        with self._lock:
            self.size -= self._entries.pop(key, (None, 0))[1]
            if size <= self.limit:
                self._entries[key] = value, size
                self.size += size
            while self.size > self.limit:
                self.size -= self._entries.popitem(last=False)[1][1]

    def for_owner(self, owner: str) -> "CacheShare":
        """Return a view of this cache in which `owner` sees only its own entries."""
        return CacheShare(self, owner)


class CacheShare:
    """One owner's entries in a `SizedCache`. All owners share the cache's limit."""

    def __init__(self, cache: SizedCache, owner: str) -> None:
        self.limit: int = cache.limit
        self._cache, self._owner = cache, owner

    @property
    def size(self) -> int:
        """The number of bytes that the entries of all owners take."""
        return self._cache.size

    def get(self, key: Hashable) -> Any:
        """Return the value that this owner cached under `key`, or None."""
        return self._cache.get((self._owner, key))

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Cache `value` under this owner's `key`; `size` is the number of bytes of both."""
        self._cache.put((self._owner, key), value, size)
