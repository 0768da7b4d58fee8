"""A cache of translated conversations: a longer request is translated from where the shorter one ended.

Rules of this file:
- The cache only saves time: without it, an exchange sends the same bytes and reports the same losses. Only
  the blocks that differ from the conversation's last request are not known without it.
- It stores bytes and values that no caller gets, so no caller can change what the next request is sent as.
- An owner (a key of the gateway) finds only its own conversations.
- A conversation is stored when its beginning is seen for the second time. While lookups of such requests find nothing,
  the next ones are stored less and less often.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import Dialect, is_resumable
from toolwire.encoding.quirks import Quirks
from toolwire.errors import ToolwireError
from toolwire.gateway.cached_prefix import (
    CachedPrefix,
    Extension,
    Translation,
    Wires,
    latest_prefix,
    opening_prefix,
    read_extension,
    write_extension,
)
from toolwire.gateway.volatile_blocks import find_changed_blocks
from toolwire.providers.prompt_cache import ConversationStart
from toolwire.translation.caching import ExchangeHooks
from toolwire.types import Context, Encoded, Message, Request, ToolCall
from toolwire.waiting.sized_cache import CacheShare, SizedCache

_LEAST = 800
"""Bytes below which a request costs less to translate than to find."""
_HEAD = 256
_WINDOW = 64
_MOST_WINDOWS = 8
_EDGE = 32
_MOST_OPENINGS = 8
_NO_OPENINGS: tuple[tuple[bytes, ...], tuple[CachedPrefix, ...]] = (), ()
_COUNTERS = 1021
_Key = tuple[Hashable, ...]


class PrefixCache:
    """The translated conversations of all owners, in up to `limit` bytes. With 0 it stores nothing."""

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self._entries = SizedCache(limit)
        self._heads, self._edges = _Counters(), _Counters()

    @property
    def size(self) -> int:
        """The estimated number of bytes that are stored."""
        return self._entries.size

    def of(self, owner: str) -> "OwnerCache":
        """Return the cache as one owner uses it."""
        return OwnerCache(owner, self._entries.for_owner(owner), self._heads, self._edges)


class _Counters:
    """How often keys were seen, in a table of fixed size. Of two keys in one place the earlier is forgotten."""

    def __init__(self) -> None:
        self._counts: list[tuple[int, int]] = [(0, 0)] * _COUNTERS

    def count(self, key: Hashable) -> int:
        """Count a key, and return how often it was seen before."""
        mark, times = hash(key), 0
        known, before = self._counts[mark % _COUNTERS]
        if known == mark:
            times = before + 1
        self._counts[mark % _COUNTERS] = mark, times
        return times

    def restart(self, key: Hashable) -> None:
        """Count a key from the beginning again, if it was seen."""
        mark = hash(key)
        if self._counts[mark % _COUNTERS][0] == mark:
            self._counts[mark % _COUNTERS] = mark, 0


def _is_due(seen: int) -> bool:
    """Return True the second time, and then after twice as many times each."""
    return seen > 0 and seen & (seen + 1) == 0


class OwnerCache:
    """The translated conversations of one owner."""

    def __init__(self, owner: str, entries: CacheShare, heads: _Counters, edges: _Counters) -> None:
        self.entries: CacheShare = entries
        self._owner, self._heads, self._edges = owner, heads, edges

    def look_up(
        self, data: bytes, source: Dialect, target: Dialect, settings: bytes, hooks: ExchangeHooks
    ) -> "_Lookup | None":
        """Begin to look up a request, or return None if it is short, or if its wires cannot be resumed."""
        if not self.entries.limit or len(data) < _LEAST or source is target:
            return None
        if not is_resumable(source) or not is_resumable(target):
            return None
        return _Lookup(self, data, (source.DIALECT, target.DIALECT, settings), Wires(source, target, hooks))

    def find(self, key: _Key, data: bytes) -> tuple[bool, CachedPrefix | None]:
        """Return whether a conversation is due to be stored, and the prefix of a request if there is one."""
        head = key, data[:_HEAD]
        seen = self._heads.count((self._owner, head))
        if not seen:
            return False, None
        offsets = self.entries.get(head)
        prefix: CachedPrefix | None = self.entries.get((head, _windows(data, offsets) if offsets else ()))
        return _is_due(seen), prefix if prefix is not None and prefix.matches(data) else None

    def find_opening(self, key: _Key, data: bytes) -> tuple[bool, CachedPrefix | None]:
        """Return whether an opening is due to be stored, and the opening prefix of a request if there is one."""
        edges = _edges(key, data)
        seen = self._edges.count((self._owner, edges))
        if not seen:
            return False, None
        begins, prefixes = (self.entries.get(edges) if seen > 1 else None) or _NO_OPENINGS
        if data.startswith(begins):
            for prefix in prefixes:
                if prefix.matches(data):
                    return False, prefix
        return _is_due(seen), None

    def note_found(self, key: _Key, data: bytes) -> None:
        """Note that a prefix was found: the next similar request for which none is found is stored."""
        self._heads.restart((self._owner, (key, data[:_HEAD])))
        self._edges.restart((self._owner, _edges(key, data)))

    def store_opening(self, key: _Key, data: bytes, prefix: CachedPrefix) -> None:
        """Store an opening prefix beside others with the same edges."""
        edges = _edges(key, data)
        prefixes = (prefix, *(self.entries.get(edges) or _NO_OPENINGS)[1][: _MOST_OPENINGS - 1])
        begins = tuple([one.begins[0] for one in prefixes])
        self.entries.put(edges, (begins, prefixes), 2 * _EDGE + sum(one.size for one in prefixes))

    def store(self, key: _Key, data: bytes, prefix: CachedPrefix, before: CachedPrefix | None = None) -> None:
        """Store a prefix beside others that begin alike. `before` is the prefix that it extends.

        Two conversations with one head are distinguished by a window of bytes where they first differ.
        """
        head = key, data[:_HEAD]
        offsets = self.entries.get(head) or ()
        other = self.entries.get((head, _windows(data, offsets) if offsets else ()))
        is_other = other is not None and other is not before and not data.startswith(other.begins[0])
        if is_other and len(offsets) < _MOST_WINDOWS:
            begins = b"".join(other.begins)
            offset = _common_length(data, begins)
            if offset + _WINDOW <= min(other.length, prefix.length) and offset not in offsets:
                offsets = (*offsets, offset)
                self.entries.put(head, offsets, _HEAD)
                self.entries.put((head, _windows(begins, offsets)), other, other.size)
        self.entries.put((head, _windows(data, offsets)), prefix, prefix.size)


class _Lookup(Struct):
    """One request that is looked up in an owner's cache."""

    _cache: OwnerCache
    _data: bytes
    _key: _Key
    _wires: Wires
    _stores_latest: bool = False
    _stores_opening: bool = False

    def find(self) -> "_FoundRequest | None":
        """Return the request if it extends a cached prefix."""
        self._stores_latest, prefix = self._cache.find(self._key, self._data)
        if prefix is None:
            self._stores_opening, prefix = self._cache.find_opening(self._key, self._data)
        if prefix is None:
            return None
        with suppress(ToolwireError):  # it is raised again where the whole request is decoded
            extension = read_extension(prefix, self._data, self._wires)
            return None if extension is None else _FoundRequest(self, extension)
        return None

    def extend(self, extension: Extension) -> Encoded | None:
        """Encode a request that extends a prefix, and store the longer prefix."""
        try:
            extended = write_extension(extension, self._data, self._wires.target)
        except ToolwireError:
            return None
        if extended is None:
            return None
        encoded, prefix = extended
        self._cache.note_found(self._key, self._data)
        if prefix is not extension.prefix:
            self._cache.store(self._key, self._data, prefix, extension.prefix)
        return encoded

    def store(
        self, body: dict[str, Any], request: Request, encoded: Encoded, quirks: Quirks, start: ConversationStart
    ) -> None:
        """Store the prefixes of a translated request that are due."""
        if not self._stores_latest and not self._stores_opening:
            return
        translation = Translation(self._data, body, request, encoded, self._wires, quirks, start)
        if self._stores_latest and (prefix := _prefix_of(translation, latest_prefix)) is not None:
            self._cache.store(self._key, self._data, prefix)
        if self._stores_opening and (prefix := _prefix_of(translation, opening_prefix)) is not None:
            self._cache.store_opening(self._key, self._data, prefix)

    def find_changed_blocks(self, request: Request) -> tuple[str, ...]:
        """Return the paths of the blocks at the beginning of a request that differ from its conversation's last one."""
        return find_changed_blocks(self._cache.entries, self._wires.source.DIALECT, request)


class _FoundRequest(Struct, frozen=True):
    """A request that extends a cached prefix."""

    _lookup: _Lookup
    _extension: Extension

    @property
    def stream_settings(self) -> dict[str, Any]:
        """The settings of the body that are about its stream."""
        return self._extension.prefix.answer.stream_settings

    @property
    def model(self) -> str | None:
        """The model that the request asks for."""
        return self._extension.prefix.model

    @property
    def start(self) -> ConversationStart:
        """The start of the conversation, from which the key of its session is derived."""
        return self._extension.start

    @property
    def memory_keys(self) -> list[str]:
        """The memory keys of all turns of the model."""
        decoded = self._extension.decoded
        return [*self._extension.prefix.memory_keys, *(key for one in decoded for key in one.memory_keys)]

    @property
    def end(self) -> tuple[int, bytes]:
        """The number of messages, and the key material of the last one."""
        end = self._extension.decoded[-1].end
        return end.message_count, end.key_material

    @property
    def answer_request(self) -> Request:
        """The parts of the request by which its answer is read: declared tools, the output, generated ids."""
        prefix, decoded = self._extension.prefix, self._extension.decoded
        ids = prefix.generated_ids.union(*(one.generated_ids for one in decoded))
        messages = [Message("assistant", [ToolCall(one, "generated") for one in ids])] if ids else []
        if (repeated := prefix.answer.repeated) is not None:
            return replace(repeated, context=replace(repeated.context, messages=messages))
        context = Context(messages=messages, tools=prefix.answer.tools)
        return Request(context=context, output=prefix.answer.output, opaque=prefix.answer.opaque)

    def encode(self) -> Encoded | None:
        """Return the encoded request, or None if it must be translated as a whole."""
        return self._lookup.extend(self._extension)


def _prefix_of(translation: Translation, find: Callable[[Translation], CachedPrefix | None]) -> CachedPrefix | None:
    """Return a prefix of a translation, or None if its parts cannot be translated separately."""
    try:
        return find(translation)
    except ToolwireError:
        return None


def _edges(key: _Key, data: bytes) -> _Key:
    return key, data[:_EDGE], data[-_EDGE:]


def _windows(data: bytes, offsets: tuple[int, ...]) -> tuple[bytes, ...]:
    return tuple([data[offset : offset + _WINDOW] for offset in offsets])


def _common_length(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their beginning."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return least
