"""Traces as lines of JSON: every column of a row as it is stored, so that the lines verify as the store does.

Rules of this file:
- A line is one row, in ASCII: no letter of it can be taken for the end of a line. `arguments`, `result` and
  `losses` are JSON in text, as they are hashed.
- Lines that are put into a store are a whole chain, from its first row on, and the store is empty.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Unpack

from toolwire.errors import InvalidBody
from toolwire.traces.chain import Verification

if TYPE_CHECKING:
    from toolwire.traces.reading import Filters
    from toolwire.traces.store import Store

_encode = json.JSONEncoder(separators=(",", ":"), default=repr).encode


def export(store: "Store", file: IO[str], **filters: "Unpack[Filters]") -> int:
    """Write rows to a text file, all or those that are meant; give their number."""
    number = 0
    for row in store.rows(**filters):
        file.write(_encode({name: value for name, value in row.items() if value is not None}) + "\n")
        number += 1
    return number


def rows_of(lines: Iterable[str | bytes]) -> Iterator[Mapping[str, Any]]:
    """Read lines back as rows."""
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise InvalidBody(f"is no JSON: {problem}", path=f"line {number}") from None
        if not isinstance(row, dict):
            raise InvalidBody("is no JSON object", path=f"line {number}")
        yield row


def import_(store: "Store", file: Iterable[str | bytes], anchor: str | None = None) -> Verification:
    """Put an exported chain into an empty store; nothing is put in where it does not verify."""
    return store.load(rows_of(file), anchor)
