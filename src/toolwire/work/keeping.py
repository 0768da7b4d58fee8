"""What was made once and may be needed again: kept within a number of bytes, the longest unused let go first.

Rule: what is kept is never changed, so that any number of threads may have it at once.
"""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

_ENTRY = 300
"""What an entry costs beside its bytes, about."""


class Holding:
    """Values by key, up to a number of bytes; 0 keeps none."""

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.size: int = 0
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """Give what is kept under a key; None where there is nothing."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
            return held[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of so many bytes, its key among them."""
        size += _ENTRY
        with self._lock:
            self.size -= self._held.pop(key, (None, 0))[1]
            if size <= self.limit:
                self._held[key] = value, size
                self.size += size
            while self.size > self.limit:
                self.size -= self._held.popitem(last=False)[1][1]

    def of(self, owner: str) -> "Share":
        """Give what one owner finds here, and no other."""
        return Share(self, owner)


class Share:
    """What one of several owners keeps within the bytes of all."""

    def __init__(self, holding: Holding, owner: str) -> None:
        self.limit: int = holding.limit
        self._holding, self._owner = holding, owner

    @property
    def size(self) -> int:
        """How many bytes all owners hold."""
        return self._holding.size

    def get(self, key: Hashable) -> Any:
        """Give what this owner keeps under a key; None where there is nothing."""
        return self._holding.get((self._owner, key))

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of so many bytes, its key among them."""
        self._holding.put((self._owner, key), value, size)
