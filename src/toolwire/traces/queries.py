"""Queries of a store: stable pages of traces, one trace, statistics.

Rules of this file:
- Every value of a query is a parameter of the statement, never part of its text.
- A missing filter matches everything. The rows of a page are traces, in order of position.
- A page ends at a position, and the next page starts after it. Traces recorded meanwhile come later.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypedDict

from msgspec import Struct
from sqlalchemy import ColumnElement, func, select

from toolwire.errors import InvalidField, StoreFailed, listed, suggestion
from toolwire.traces.chain import ChainCheck, Verification, write_anchor
from toolwire.traces.databases import StoreLocation, read_transaction
from toolwire.traces.forms import decode_row, encode_key, encode_time
from toolwire.traces.tables import lacking_guards
from toolwire.traces.trace import ENDINGS, LARGEST, RESULT_TYPES, Trace, id_text

_FETCH_SIZE = 1000
CHOICES = {"result_type": RESULT_TYPES, "ending": ENDINGS}
LIMIT = 100
_MAX_LIMIT = 10_000


class Filters(TypedDict, total=False):
    """Filters that select traces."""

    tenant: Any
    conversation: Any
    tool: str | None
    result_type: str | None
    ending: str | None
    since: datetime | None
    until: datetime | None


class Page(Struct, frozen=True):
    """Some traces, and the start of the next page: pass `next` as `after`. It is None on the last page."""

    rows: tuple[Trace, ...]
    next: int | None = None


class Stats(Struct, frozen=True):
    """Statistics of one tool's calls with one ending."""

    tool_name: str
    result_type: str
    ending: str
    calls: int
    mean_ms: float
    longest_ms: float


def _conditions(location: StoreLocation, filters: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    columns = location.table.c
    if unknown := filters.keys() - Filters.__annotations__.keys():
        name, known = min(unknown), [*Filters.__annotations__]
        known_names = listed(known, suggestion(name, known))
        raise InvalidField(name, f"is not a filter of traces{known_names}", path="traces")
    return [
        compare(columns[column], parse(name, filters[name]))
        for name, (column, compare, parse) in _CONDITIONS.items()
        if filters.get(name) is not None
    ]


def _parse_text(name: str, value: Any) -> str:
    text = id_text(value)
    if not isinstance(text, str):
        raise InvalidField(name, "must be a string", path="traces")
    return encode_key(text)


def _parse_choice(name: str, value: Any) -> str:
    if value not in CHOICES[name]:
        raise InvalidField(name, f"must be one of {', '.join(CHOICES[name])}", path="traces")
    return str(value)


def _parse_time(name: str, value: Any) -> int:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidField(name, "must be a datetime with a time zone", path="traces")
    return encode_time(value)


_CONDITIONS: dict[str, tuple[str, Callable[[Any, Any], ColumnElement[bool]], Callable[[str, Any], Any]]] = {
    "tenant": ("tenant_id", operator.eq, _parse_text),
    "conversation": ("conversation_id", operator.eq, _parse_text),
    "tool": ("tool_name", operator.eq, _parse_text),
    "result_type": ("result_type", operator.eq, _parse_choice),
    "ending": ("ending", operator.eq, _parse_choice),
    "since": ("started_at", operator.ge, _parse_time),
    "until": ("started_at", operator.lt, _parse_time),
}


def _check_integer(name: str, value: Any, minimum: int, maximum: int) -> int:
    if type(value) is not int or not minimum <= value <= maximum:
        raise InvalidField(name, f"must be a whole number, {minimum} to {maximum}", path="traces")
    return value


def read_page(location: StoreLocation, filters: Filters, *, after: int | None, limit: int, newest: bool) -> Page:
    """Return a page of traces, oldest or newest first."""
    limit = _check_integer("limit", limit, 1, _MAX_LIMIT)
    position = location.table.c.position
    query = select(location.table).where(*_conditions(location, filters))
    if after is not None:
        after = _check_integer("after", after, 0, LARGEST)
        query = query.where(position < after if newest else position > after)
    query = query.order_by(position.desc() if newest else position).limit(limit + 1)
    with read_transaction(location) as connection:
        rows = connection.execute(query).mappings().all()
    next_position = rows[limit - 1]["position"] if len(rows) > limit else None
    return Page(tuple(decode_row(dict(row)) for row in rows[:limit]), next_position)


def find_trace(location: StoreLocation, trace_id: str) -> Trace | None:
    """Return the trace with an id, or None."""
    with read_transaction(location) as connection:
        query = select(location.table).where(location.table.c.id == _parse_text("id", trace_id))
        row = connection.execute(query).mappings().first()
    return decode_row(dict(row)) if row else None


def read_stats(location: StoreLocation, filters: Filters) -> tuple[Stats, ...]:
    """Return the number and durations of calls, by tool and ending."""
    columns = location.table.c
    groups = (columns.tool_name, columns.result_type, columns.ending)
    sums = (func.count(), func.avg(columns.duration_ms), func.max(columns.duration_ms))
    query = (
        select(*groups, *sums)
        .where(columns.kind.is_(None), *_conditions(location, filters))
        .group_by(*groups)
        .order_by(*groups)
    )
    with read_transaction(location) as connection:
        return tuple(Stats(*row) for row in connection.execute(query))


def count_calls(location: StoreLocation, filters: Filters) -> int:
    """Return the number of calls. With the filter `ending="begun"`, count the rows that record only a call's start."""
    calls = [] if filters.get("ending") == "begun" else [location.table.c.kind.is_(None)]
    query = select(func.count()).select_from(location.table).where(*calls, *_conditions(location, filters))
    with read_transaction(location) as connection:
        return int(connection.execute(query).scalar_one())


def read_anchor(location: StoreLocation) -> str | None:
    """Return the anchor of all rows, or None for an empty store."""
    columns = location.table.c
    query = select(columns.position, columns.ledger).order_by(columns.position.desc()).limit(1)
    with read_transaction(location) as connection:
        row = connection.execute(query).first()
    return write_anchor(*row) if row else None


def iterate_rows(
    location: StoreLocation, filters: Filters | None = None, *, any_bytes: bool = False
) -> Iterator[Mapping[str, Any]]:
    """Yield rows as they are stored, in order of position."""
    query = select(location.table).where(*_conditions(location, filters or {})).order_by(location.table.c.position)
    with read_transaction(location) as connection:
        raw: Any = connection.connection.driver_connection
        bytes_too = any_bytes and location.database == "sqlite"
        if bytes_too:
            # A changed text may not be valid UTF-8.
            raw.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        try:
            result = connection.execution_options(stream_results=True, yield_per=_FETCH_SIZE).execute(query)
            for row in result.mappings():
                yield dict(row)
        finally:
            if bytes_too:
                raw.text_factory = str


def verify_store(location: StoreLocation, *, key: bytes | str | None, anchor: str | None) -> Verification:
    """Verify the guards and the chain of all rows. Rows that the database cannot read are a problem too."""
    check = ChainCheck(key, anchor)
    try:
        with read_transaction(location) as connection:
            if missing_guards := lacking_guards(connection, location.table):
                check.add_problem(
                    None, "guards", f"guards against changes are missing or disabled: {', '.join(missing_guards)}"
                )
        for row in iterate_rows(location, any_bytes=True):
            check.add_row(row)
    except StoreFailed as problem:
        check.add_problem(None, "unreadable", str(problem))
    return check.finish()
