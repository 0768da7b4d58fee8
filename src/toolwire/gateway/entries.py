"""The entries of the memory, their items, and how many bytes they count."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

_OVERHEAD = 200  # bytes that a row, or an entry of a dictionary, costs beside its key and value
_LONGEST_KEY = 150


class Item(NamedTuple):
    """A part of an entry that has a name: with a value, or as a pointer to the entry."""

    name: str
    value: bytes | None = None


class StoredEntry(NamedTuple):
    """A value, the key of the entry that it continues, and its items in order."""

    value: bytes
    previous: str = ""
    items: Sequence[Item] = ()


class Appended(NamedTuple):
    """The outcome of an addition: if there is such an entry (`found`), and which names it has already (`taken`)."""

    found: bool = True
    too_long: bool = False
    taken: frozenset[str] = frozenset()

    @property
    def is_added(self) -> bool:
        """True if the items were added."""
        return self.found and not self.too_long and not self.taken


def bytes_of(owner: str, key: str, entry: StoredEntry) -> int:
    """Count the bytes that an entry costs."""
    items = sum(bytes_of_item(owner, key, item) for item in entry.items)
    return len(owner) + len(key) + len(entry.previous) + len(entry.value) + _OVERHEAD + items


def bytes_of_item(owner: str, key: str, item: Item) -> int:
    """Count the bytes that an item of an entry costs."""
    return len(owner) + len(key) + len(item.name) + len(item.value or b"") + _OVERHEAD


def column_key(key: str) -> str:
    """Return a key as a column can hold it: a long one, or one that PostgreSQL refuses (NUL), by its hash."""
    if len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable():
        return key
    return f"sha256:{hashlib.sha256(key.encode(errors='surrogatepass')).hexdigest()}"
