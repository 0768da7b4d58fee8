"""Rows as lines of JSON: exporting a store, and importing the lines into another one.

Rules of this file:
- A line is one row with every column, in ASCII, so no character can be mistaken for the end of a line. Exported lines
  verify like the store itself.
- Imported lines are a whole chain from its first row, and the store is empty.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Unpack

from toolwire.errors import InvalidBody
from toolwire.traces.chain import Verification

if TYPE_CHECKING:  # they need SQLAlchemy
    from toolwire.traces.queries import Filters
    from toolwire.traces.store import Store

_encode = json.JSONEncoder(separators=(",", ":"), default=repr).encode


def export(store: "Store", file: IO[str], **filters: "Unpack[Filters]") -> int:
    """Write the rows of `store` that match `filters` to the text file `file`. Return how many rows were written.

    >>> import io, tempfile
    >>> from toolwire import Trace, traces
    >>> call = {
    ...     "tool_name": "look",
    ...     "arguments": {},
    ...     "result": "ok",
    ...     "result_type": "ok",
    ...     "duration_ms": 1,
    ...     "iteration": 0,
    ... }
    >>> with traces.open(f"sqlite:///{tempfile.mkdtemp()}/traces.db") as store:
    ...     ticket = store.record(Trace.new(call))
    ...     print(store.flush(), traces.export(store, io.StringIO()))
    True 1
    """
    number = 0
    for row in store.rows(**filters):
        file.write(_encode({name: value for name, value in row.items() if value is not None}) + "\n")
        number += 1
    return number


def rows_of(lines: Iterable[str | bytes]) -> Iterator[Mapping[str, Any]]:
    """Parse exported `lines` and yield their rows. Raise InvalidBody for a line that is not a JSON object.

    >>> from toolwire import traces
    >>> list(traces.rows_of(['{"id": "t-1"}']))
    [{'id': 't-1'}]
    """
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise InvalidBody(f"is not JSON: {problem}", path=f"line {number}") from None
        if not isinstance(row, dict):
            raise InvalidBody("is not a JSON object", path=f"line {number}")
        yield row


def import_(store: "Store", file: Iterable[str | bytes], anchor: str | None = None) -> Verification:
    """Write the exported chain of `file` into the empty `store`. A chain that does not verify is rejected as a whole.

    With an `anchor`, the end of the chain is verified too.

    >>> import io, tempfile
    >>> from toolwire import traces
    >>> with traces.open(f"sqlite:///{tempfile.mkdtemp()}/traces.db") as store:
    ...     traces.import_(store, io.StringIO("")).count
    0
    """
    return store.load(rows_of(file), anchor)
