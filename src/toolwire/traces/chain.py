"""The hash chain that makes every change of a row detectable: functions over rows as they are stored.

Rules of this file:
- `canonical(row)` is the byte form that is hashed: a JSON object in UTF-8 with sorted keys and no spaces. It has all
  columns except `previous`, `hash` and `ledger`. NULL and missing columns are omitted alike.
- `hash` = H(previous + canonical(row)). `previous` is the hash of the conversation's previous row, or 64 zeros.
- `ledger` = H(ledger of the store's previous row + hash). `position:ledger` is an anchor: it proves all rows up to it.
- H is SHA-256 in hexadecimal, or HMAC-SHA-256 with a key. Without the key nobody can compute a new chain.
- Verification reads a stream. It keeps one entry per conversation. After a problem it continues from the stored values.
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
_MAX_PROBLEMS = 1000

Row = Mapping[str, Any]

_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=lambda value: f"$other:{value!r}"
).encode


def canonical(row: Row) -> bytes:
    """Return the bytes of `row` that are hashed."""
    columns = {name: value for name, value in row.items() if value is not None and name not in _LINKS}
    return _encode(columns).encode("utf-8", "surrogatepass")


def digester(key: bytes | str | None = None) -> Callable[[bytes], str]:
    """Return H: SHA-256, or HMAC-SHA-256 with `key`. Raise `InvalidField` for an empty key."""
    if key is None:
        return lambda data: hashlib.sha256(data).hexdigest()
    secret = key.encode() if isinstance(key, str) else bytes(key)
    if not secret:
        raise InvalidField("key", "must not be empty", path="traces")
    return lambda data: hmac.digest(secret, data, "sha256").hex()


def row_hash(row: Row, previous: str, digest: Callable[[bytes], str]) -> str:
    """Return the hash of `row`, after the hash `previous` of its conversation's previous row."""
    return digest(previous.encode("utf-8", "surrogatepass") + canonical(row))


def next_ledger(ledger: str, hash_of_row: str, digest: Callable[[bytes], str]) -> str:
    """Return the ledger after a row, from the ledger before it and the row's hash."""
    return digest(f"{ledger}{hash_of_row}".encode("utf-8", "surrogatepass"))


class Problem(Struct, frozen=True):
    """A problem in a chain, at a position. None as the position means the whole store."""

    position: int | None
    kind: str
    words: str

    def __str__(self) -> str:
        return f"{'store' if self.position is None else self.position}: {self.words} ({self.kind})"


class Verification(Struct, frozen=True):
    """The result of a verification: the first problems, the number of all problems and rows, and the rows' anchor.

    >>> from toolwire import traces
    >>> verification = traces.verify([])
    >>> (verification.count, verification.problems)
    (0, ())
    """

    problems: tuple[Problem, ...]
    count: int
    rows: int
    anchor: str | None

    @property
    def ok(self) -> bool:
        """True if there is no problem."""
        return self.count == 0


def _read_anchor(text: str) -> tuple[int, str]:
    position, _, ledger = text.strip().partition(":")
    if not (position.isascii() and position.isdigit() and len(ledger) == len(ZEROS)):
        words = "must be a position, a colon and 64 hexadecimal digits"
        raise InvalidField("anchor", words, path="traces")
    return int(position), ledger.lower()


def write_anchor(position: int, ledger: str) -> str:
    """Return the anchor `position:ledger`."""
    return f"{position}:{ledger}"


def verify(rows: Iterable[Row], anchor: str | None = None, key: bytes | str | None = None) -> Verification:
    """Verify the chain of `rows`: find rows that were changed, removed, inserted or moved since they were written.

    With an `anchor`, also find rows that were cut off at the end. `key` is the key that the store was opened with.

    >>> from toolwire import traces
    >>> traces.verify([]).count
    0
    """
    check = ChainCheck(key, anchor)
    for row in rows:
        check.add_row(row)
    return check.finish()


class ChainCheck:
    """The verification of a chain that is read row by row, in order of position.

    `count` is its number of problems so far.
    """

    def __init__(self, key: bytes | str | None = None, anchor: str | None = None) -> None:
        self._digest = digester(key)
        self._anchor = _read_anchor(anchor) if anchor else None
        self._problems: list[Problem] = []
        self.count: int = 0
        self._rows = self._position = 0
        self._ledger = ZEROS
        self._conversations: dict[Any, tuple[int, str]] = {}

    def add_row(self, row: Row) -> None:
        """Check the next row."""
        self._rows += 1
        position = row.get("position")
        if type(position) is not int or type(row.get("sequence")) is not int:
            self.add_problem(None, "unreadable", f"a row has the position {position!r} or no sequence")
            return
        follows = self._check_position(position)
        self._check_link(position, row)
        self._check_ledger(position, row, follows=follows)

    def add_problem(self, position: int | None, kind: str, words: str) -> None:
        """Add a problem to the result."""
        self.count += 1
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(Problem(position, kind, words))

    def finish(self) -> Verification:
        """Return the result, after the last row."""
        if self._anchor and self._anchor[0] > self._position:
            words = f"the anchor is of position {self._anchor[0]}, the last row has position {self._position}"
            self.add_problem(self._anchor[0], "truncated", words)
        anchor = write_anchor(self._position, self._ledger) if self._position else None
        return Verification(tuple(self._problems), self.count, self._rows, anchor)

    def _check_position(self, position: int) -> bool:
        expected = self._position + 1
        if position == expected:
            self._position = position
            return True
        if position > expected:
            gap = f"{expected} to {position - 1}" if position - expected > 1 else f"{expected}"
            self.add_problem(position, "missing", f"there is no row at {gap}")
            self._position = position
        else:
            self.add_problem(position, "order", f"position {position} is in the place of {expected}")
        return False

    def _check_link(self, position: int, row: Row) -> None:
        chain = (row.get("tenant_id"), row.get("conversation_id"))
        sequence, last_hash = self._conversations.get(chain, (0, ZEROS))
        previous, stored = row.get("previous"), row.get("hash")
        if row["sequence"] != sequence + 1:
            words = f"it is number {row['sequence']} of its conversation, after number {sequence}"
            self.add_problem(position, "sequence", words)
        elif previous != last_hash:
            self.add_problem(position, "link", "its `previous` is not the hash of its conversation's previous row")
        if row_hash(row, str(previous), self._digest) != stored:
            self.add_problem(
                position, "changed", "the row was changed after it was written, or the key is a different one"
            )
        self._conversations[chain] = (row["sequence"], str(stored))

    def _check_ledger(self, position: int, row: Row, *, follows: bool) -> None:
        stored = row.get("ledger")
        if follows and next_ledger(self._ledger, str(row.get("hash")), self._digest) != stored:
            self.add_problem(position, "ledger", "the rows before it are not the ones after which it was written")
        self._ledger = str(stored)
        if self._anchor and self._anchor[0] == position and self._anchor[1] != stored:
            self.add_problem(position, "anchor", "the rows up to here are not those of the anchor")
