"""A record as the bytes that a database stores.

Rules of this file:
- A body that differs from an earlier one in a single place is stored as that place: a request that passes through the
  gateway differs in the model's name alone, and its answer not at all.
- The bytes are compressed. The first byte is the version of the form.
"""

import zlib

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import StoreFailed
from toolwire.records.record import Body, Record

_VERSION = b"\x01"
_LEVEL = 1
_SMALLEST = 64  # bytes that two bodies must share to be stored together
_STEP = 4096
_BASES = {"provider_request": "client_request", "client_answer": "provider_answer"}


class Splice(Struct, array_like=True, frozen=True):
    """A body as a change of another one: it begins with `start` bytes of the body `side`, and ends with `end` bytes."""

    side: str
    start: int
    end: int

    def applied(self, base: bytes, middle: bytes) -> bytes:
        """Return the body, given the other one and what is between the shared beginning and the shared end."""
        return base[: self.start] + middle + (base[len(base) - self.end :] if self.end else b"")


class PackedRecord(Struct, array_like=True, frozen=True):
    """A record some of whose bodies are only what differs from another one."""

    record: Record
    splices: dict[str, Splice] = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PackedRecord).decode


def shrink(record: Record) -> PackedRecord:
    """Return a record whose bodies share what they have in common."""
    splices, bodies = {}, {}
    for side, base_side in _BASES.items():
        body, base = getattr(record, side), getattr(record, base_side).data
        splice = _splice(base_side, base, body.data)
        if splice is not None:
            splices[side] = splice
            bodies[side] = replace(body, data=body.data[splice.start : len(body.data) - splice.end])
    return PackedRecord(replace(record, **bodies) if bodies else record, splices)


def expand(packed: PackedRecord) -> Record:
    """Return the record of `shrink`."""
    bodies: dict[str, Body] = {}
    for side, splice in packed.splices.items():
        body = getattr(packed.record, side)
        bodies[side] = replace(body, data=splice.applied(getattr(packed.record, splice.side).data, body.data))
    return replace(packed.record, **bodies) if bodies else packed.record


def pack(packed: PackedRecord) -> bytes:
    """Return the bytes of a record."""
    return _VERSION + zlib.compress(_encode(packed), _LEVEL)


def unpack(content: bytes) -> Record:
    """Return the record of `pack`. Raise `StoreFailed` for bytes that are damaged or of a newer version."""
    if content[:1] != _VERSION:
        raise StoreFailed("a record has a form that this version cannot read: install a newer toolwire", path="record")
    try:
        return expand(_decode(zlib.decompress(content[1:])))
    except (zlib.error, msgspec.DecodeError, UnicodeError) as problem:
        raise StoreFailed(f"a record is damaged: {problem}", path="record") from None


def _splice(side: str, base: bytes, data: bytes) -> Splice | None:
    """Return `data` as a change of `base`, or None if they share too little."""
    start = _shared_beginning(base, data)
    most = min(len(base), len(data)) - start
    end = min(_shared_end(base, data), most)
    return Splice(side, start, end) if start + end >= max(_SMALLEST, len(data) // 2) else None


def _shared_beginning(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their beginning."""
    if one == other:
        return len(one)
    most, start = min(len(one), len(other)), 0
    while start + _STEP <= most and one[start : start + _STEP] == other[start : start + _STEP]:
        start += _STEP
    return _bisect(one[start:most], other[start:most]) + start


def _bisect(one: bytes, other: bytes) -> int:
    """Return how many bytes two short texts have in common, by halves."""
    low, high = 0, min(len(one), len(other), _STEP)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shared_end(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their end."""
    most, count = min(len(one), len(other)), 0
    while count + _STEP <= most and _before(one, count, _STEP) == _before(other, count, _STEP):
        count += _STEP
    rest = min(_STEP, most - count)
    return count + _bisect(_before(one, count, rest)[::-1], _before(other, count, rest)[::-1])


def _before(data: bytes, count: int, size: int) -> bytes:
    """Return `size` bytes of `data`, before its last `count` bytes."""
    end = len(data) - count
    return data[end - size : end]
