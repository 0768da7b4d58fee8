"""A whole chain of rows put into an empty store, as it was.

Rules of this file:
- All of it or nothing: the chain is verified while it is put in, and committed only where nothing is wrong.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from sqlalchemy import Connection, select

from toolwire.errors import StoreFailed
from toolwire.traces.chain import Check, Verification
from toolwire.traces.databases import StoreLocation, saying, writing

AT_ONCE = 1000
SHOWN = 5


def load(
    place: StoreLocation, rows: Iterable[Mapping[str, Any]], *, key: bytes | str | None, anchor: str | None
) -> Verification:
    """Put rows into an empty store, or say why they are not taken."""
    check = Check(key, anchor)
    with saying("the traces cannot be put into the store"), writing(place) as connection:
        if connection.execute(select(place.table.c.position).limit(1)).first():
            raise StoreFailed("traces are put into an empty store only", path="traces")
        given = iter(rows)
        while batch := list(islice(given, AT_ONCE)):
            for row in batch:
                check.row(row)
            if check.found:
                break
            _insert(connection, place, batch)
        found = check.end()
        if not found.ok:
            shown = "; ".join(map(str, found.problems[:SHOWN]))
            raise StoreFailed(f"the traces are no whole chain: {shown}", path="traces")
    return found


def _insert(connection: Connection, place: StoreLocation, rows: list[Mapping[str, Any]]) -> None:
    names = place.table.columns.keys()
    connection.execute(place.table.insert(), [{name: row.get(name) for name in names} for row in rows])
