"""The chain that makes a change of any row show: functions over rows as they are stored.

Rules of this file:
- `canonical(row)` is the one byte form of a row: a JSON object in UTF-8 with sorted keys and without spaces,
  of all columns but `previous`, `hash` and `ledger`. A column that is NULL is left out, as a missing one is.
- `hash` = H(previous + canonical(row)). `previous` is the hash of the conversation's row before; 64 zeros at
  first. `ledger` = H(ledger of the store's row before + hash); `position:ledger` is an anchor: it proves all
  rows up to its own.
- H is SHA-256 in hexadecimal, or HMAC-SHA-256 with a key: then nobody without the key computes a new chain.
- Verifying streams: it holds an entry for each conversation, and after a problem goes on from what is stored.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from toolwire.errors import InvalidField

ZEROS = "0" * 64
_LINKS = ("previous", "hash", "ledger")
_SHOWN = 1000

Row = Mapping[str, Any]

_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=lambda value: f"$other:{value!r}"
).encode


def canonical(row: Row) -> bytes:
    """Write what is hashed of a row."""
    said = {name: value for name, value in row.items() if value is not None and name not in _LINKS}
    return _encode(said).encode("utf-8", "surrogatepass")


def digester(key: bytes | str | None = None) -> Callable[[bytes], str]:
    """Give H: SHA-256, with a key HMAC-SHA-256."""
    if key is None:
        return lambda data: hashlib.sha256(data).hexdigest()
    secret = key.encode() if isinstance(key, str) else bytes(key)
    if not secret:
        raise InvalidField("key", "must not be empty", path="traces")
    return lambda data: hmac.digest(secret, data, "sha256").hex()


def row_hash(row: Row, previous: str, digest: Callable[[bytes], str]) -> str:
    """Compute the hash of a row after the conversation's row before."""
    return digest(previous.encode("utf-8", "surrogatepass") + canonical(row))


def next_ledger(ledger: str, row: str, digest: Callable[[bytes], str]) -> str:
    """Compute the ledger after a row, from the ledger before it and the hash of the row."""
    return digest(f"{ledger}{row}".encode("utf-8", "surrogatepass"))


class Problem(Struct, frozen=True):
    """One thing that is wrong with a chain, at a position."""

    position: int | None
    kind: str
    words: str

    def __str__(self) -> str:
        return f"{'store' if self.position is None else self.position}: {self.words} ({self.kind})"


class Verification(Struct, frozen=True):
    """What verifying found: the first problems, the number of all, and the anchor of the rows."""

    problems: tuple[Problem, ...]
    count: int
    rows: int
    anchor: str | None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.count == 0


def _read_anchor(text: str) -> tuple[int, str]:
    position, _, ledger = text.strip().partition(":")
    if not (position.isascii() and position.isdigit() and len(ledger) == len(ZEROS)):
        words = "must be a position, a colon and 64 hexadecimal digits"
        raise InvalidField("anchor", words, path="traces")
    return int(position), ledger.lower()


def write_anchor(position: int, ledger: str) -> str:
    """Write `position:ledger`."""
    return f"{position}:{ledger}"


def verify(rows: Iterable[Row], anchor: str | None = None, key: bytes | str | None = None) -> Verification:
    """Find rows that were changed, removed, inserted or moved since they were written."""
    check = Check(key, anchor)
    for row in rows:
        check.row(row)
    return check.end()


class Check:
    """A chain while it is read, row by row in the order of positions; `count` is that of its problems by now."""

    def __init__(self, key: bytes | str | None = None, anchor: str | None = None) -> None:
        self._digest = digester(key)
        self._anchor = _read_anchor(anchor) if anchor else None
        self._problems: list[Problem] = []
        self.count = self._rows = self._position = 0
        self._ledger = ZEROS
        self._conversations: dict[Any, tuple[int, str]] = {}

    def row(self, row: Row) -> None:
        """Read the next row."""
        self._rows += 1
        position = row.get("position")
        if type(position) is not int or type(row.get("sequence")) is not int:
            self.say(None, "unreadable", f"a row has the position {position!r} or no sequence")
            return
        follows = self._place(position)
        self._link(position, row)
        self._check_ledger(position, row, follows=follows)

    def say(self, position: int | None, kind: str, words: str) -> None:
        """Note a problem."""
        self.count += 1
        if len(self._problems) < _SHOWN:
            self._problems.append(Problem(position, kind, words))

    def end(self) -> Verification:
        """Give what was found."""
        if self._anchor and self._anchor[0] > self._position:
            words = f"the anchor is of position {self._anchor[0]}, the last row has position {self._position}"
            self.say(self._anchor[0], "truncated", words)
        anchor = write_anchor(self._position, self._ledger) if self._position else None
        return Verification(tuple(self._problems), self.count, self._rows, anchor)

    def _place(self, position: int) -> bool:
        expected = self._position + 1
        if position == expected:
            self._position = position
            return True
        if position > expected:
            gap = f"{expected} to {position - 1}" if position - expected > 1 else f"{expected}"
            self.say(position, "missing", f"there is no row at {gap}")
            self._position = position
        else:
            self.say(position, "order", f"position {position} stands where {expected} belongs")
        return False

    def _link(self, position: int, row: Row) -> None:
        chain = (row.get("tenant_id"), row.get("conversation_id"))
        sequence, before = self._conversations.get(chain, (0, ZEROS))
        previous, stored = row.get("previous"), row.get("hash")
        if row["sequence"] != sequence + 1:
            words = f"it is number {row['sequence']} of its conversation, after number {sequence}"
            self.say(position, "sequence", words)
        elif previous != before:
            self.say(position, "link", "it does not follow the row of its conversation that is before it")
        if row_hash(row, str(previous), self._digest) != stored:
            self.say(position, "changed", "the row is not as it was written, or the key is another one")
        self._conversations[chain] = (row["sequence"], str(stored))

    def _check_ledger(self, position: int, row: Row, *, follows: bool) -> None:
        stored = row.get("ledger")
        if follows and next_ledger(self._ledger, str(row.get("hash")), self._digest) != stored:
            self.say(position, "ledger", "the rows before it are not those that it was written after")
        self._ledger = str(stored)
        if self._anchor and self._anchor[0] == position and self._anchor[1] != stored:
            self.say(position, "anchor", "the rows up to here are not those of the anchor")
