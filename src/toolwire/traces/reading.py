"""What a store is asked: pages of traces that stay put while others come in, one trace, sums.

Rules of this file:
- Every value that is asked for is a parameter of the statement, never a part of it.
- A filter that is not given means any; the rows of a page are traces, in the order of their positions.
- A page ends at a position and the next one begins after it: what is recorded meanwhile comes later.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypedDict

from msgspec import Struct
from sqlalchemy import ColumnElement, func, select

from toolwire.errors import InvalidField, StoreFailed, did_you_mean
from toolwire.traces.chain import Check, Verification, write_anchor
from toolwire.traces.databases import StoreLocation, reading
from toolwire.traces.forms import key_form, microseconds, trace_of
from toolwire.traces.tables import lacking_guards
from toolwire.traces.trace import ENDINGS, LARGEST, RESULT_TYPES, Trace, opaque

_AT_ONCE = 1000
WORDS = {"result_type": RESULT_TYPES, "ending": ENDINGS}
LIMIT = 100
_MOST = 10_000


class Filters(TypedDict, total=False):
    """Which traces are meant."""

    tenant: Any
    conversation: Any
    tool: str | None
    result_type: str | None
    ending: str | None
    since: datetime | None
    until: datetime | None


class Page(Struct, frozen=True):
    """Some traces, and where the next page begins: `after=page.next`, None at the end."""

    rows: tuple[Trace, ...]
    next: int | None = None


class Stats(Struct, frozen=True):
    """Sums over the calls of one tool with one ending."""

    tool_name: str
    result_type: str
    ending: str
    calls: int
    mean_ms: float
    longest_ms: float


def _conditions(place: StoreLocation, filters: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    columns = place.table.c
    if unknown := filters.keys() - Filters.__annotations__.keys():
        name, known = min(unknown), [*Filters.__annotations__]
        raise InvalidField(
            name, f"is not a filter of traces; there are: {', '.join(known)}{did_you_mean(name, known)}", path="traces"
        )
    return [
        compare(columns[column], read(name, filters[name]))
        for name, (column, compare, read) in _CONDITIONS.items()
        if filters.get(name) is not None
    ]


def _text(name: str, value: Any) -> str:
    text = opaque(value)
    if not isinstance(text, str):
        raise InvalidField(name, "must be a string", path="traces")
    return key_form(text)


def _word(name: str, value: Any) -> str:
    if value not in WORDS[name]:
        raise InvalidField(name, f"must be one of {', '.join(WORDS[name])}", path="traces")
    return str(value)


def _instant(name: str, value: Any) -> int:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidField(name, "must be a datetime with a time zone", path="traces")
    return microseconds(value)


_CONDITIONS: dict[str, tuple[str, Callable[[Any, Any], ColumnElement[bool]], Callable[[str, Any], Any]]] = {
    "tenant": ("tenant_id", operator.eq, _text),
    "conversation": ("conversation_id", operator.eq, _text),
    "tool": ("tool_name", operator.eq, _text),
    "result_type": ("result_type", operator.eq, _word),
    "ending": ("ending", operator.eq, _word),
    "since": ("started_at", operator.ge, _instant),
    "until": ("started_at", operator.lt, _instant),
}


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidField(name, f"must be a whole number, {least} to {most}", path="traces")
    return value


def page(place: StoreLocation, filters: Filters, *, after: int | None, limit: int, newest: bool) -> Page:
    """Read a page of traces, the oldest or the newest first."""
    limit = _whole("limit", limit, 1, _MOST)
    position = place.table.c.position
    query = select(place.table).where(*_conditions(place, filters))
    if after is not None:
        after = _whole("after", after, 0, LARGEST)
        query = query.where(position < after if newest else position > after)
    query = query.order_by(position.desc() if newest else position).limit(limit + 1)
    with reading(place) as connection:
        found = connection.execute(query).mappings().all()
    more = found[limit - 1]["position"] if len(found) > limit else None
    return Page(tuple(trace_of(dict(row)) for row in found[:limit]), more)


def one(place: StoreLocation, given: str) -> Trace | None:
    """Read the trace of an id."""
    with reading(place) as connection:
        query = select(place.table).where(place.table.c.id == _text("id", given))
        row = connection.execute(query).mappings().first()
    return trace_of(dict(row)) if row else None


def stats(place: StoreLocation, filters: Filters) -> tuple[Stats, ...]:
    """Count calls and their time, by tool and ending."""
    columns = place.table.c
    kinds = (columns.tool_name, columns.result_type, columns.ending)
    sums = (func.count(), func.avg(columns.duration_ms), func.max(columns.duration_ms))
    query = (
        select(*kinds, *sums)
        .where(columns.kind.is_(None), *_conditions(place, filters))
        .group_by(*kinds)
        .order_by(*kinds)
    )
    with reading(place) as connection:
        return tuple(Stats(*row) for row in connection.execute(query))


def count(place: StoreLocation, filters: Filters) -> int:
    """Count calls; what only says that one has begun is counted where that ending is asked for."""
    calls = [] if filters.get("ending") == "begun" else [place.table.c.kind.is_(None)]
    query = select(func.count()).select_from(place.table).where(*calls, *_conditions(place, filters))
    with reading(place) as connection:
        return int(connection.execute(query).scalar_one())


def anchor(place: StoreLocation) -> str | None:
    """Read the anchor of all rows that are there; None where there is none."""
    columns = place.table.c
    query = select(columns.position, columns.ledger).order_by(columns.position.desc()).limit(1)
    with reading(place) as connection:
        row = connection.execute(query).first()
    return write_anchor(*row) if row else None


def stored(
    place: StoreLocation, filters: Filters | None = None, *, any_bytes: bool = False
) -> Iterator[Mapping[str, Any]]:
    """Read rows as they are stored, in the order of positions, some at a time."""
    query = select(place.table).where(*_conditions(place, filters or {})).order_by(place.table.c.position)
    with reading(place) as connection:
        raw: Any = connection.connection.driver_connection
        bytes_too = any_bytes and place.database == "sqlite"
        if bytes_too:
            # Somebody may have changed the text: it need not be UTF-8.
            raw.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        try:
            found = connection.execution_options(stream_results=True, yield_per=_AT_ONCE).execute(query)
            for row in found.mappings():
                yield dict(row)
        finally:
            if bytes_too:
                raw.text_factory = str


def verify(place: StoreLocation, *, key: bytes | str | None, anchor: str | None) -> Verification:
    """Verify the guards, and the chain of all rows; what the database cannot even read is a problem too."""
    check = Check(key, anchor)
    try:
        with reading(place) as connection:
            if lacking := lacking_guards(connection, place.table):
                check.say(None, "guards", f"what keeps rows from changes is gone or disabled: {', '.join(lacking)}")
        for row in stored(place, any_bytes=True):
            check.row(row)
    except StoreFailed as problem:
        check.say(None, "unreadable", str(problem))
    return check.end()
