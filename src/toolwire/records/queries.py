"""Queries of a store of records: pages of lines, and whole records.

Rules of this file:
- Every value of a query is a parameter of the statement, never part of its text.
- A page is ordered by position, the newest first. `before` and `after` are positions.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, get_args

import sqlalchemy as sql
from msgspec import Struct
from sqlalchemy import ColumnElement

from toolwire.errors import InvalidField, listed, suggestion
from toolwire.records.database import Database
from toolwire.records.packing import unpack
from toolwire.records.record import Record, Summary
from toolwire.records.tables import LINES, WHOLE
from toolwire.types import Severity

LIMIT = 100
MAX_LIMIT = 1000
_LARGEST = (1 << 63) - 1
_SEVERITIES = get_args(Severity)
_NAMES = tuple(Summary.__struct_fields__)
_COLUMNS = tuple(LINES.c[name] for name in _NAMES)


class RecordFilters(TypedDict, total=False):
    """RecordFilters that select records. A filter that is None matches everything."""

    key: str | None
    key_name: str | None
    session: str | None
    conversation: str | None
    program: str | None
    model: str | None
    provider: str | None
    provider_model: str | None
    wire: str | None
    status: int | None
    ending: str | None
    lossy: bool | None
    loss: Literal["semantic", "minor", "formal"] | None
    since: float | datetime | None
    until: float | datetime | None


class RecordPage(Struct, frozen=True):
    """Some lines, the newest first. `next` is the `before` of the next page, or None on the last page."""

    rows: tuple[Summary, ...]
    next: int | None = None


def conditions(filters: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    """Return the conditions of filters. Raise `InvalidField` for an unknown one."""
    if unknown := filters.keys() - RecordFilters.__annotations__.keys():
        name, known = min(unknown), [*RecordFilters.__annotations__]
        raise InvalidField(name, f"is not a filter of records{listed(known, suggestion(name, known))}", path="record")
    columns, found = LINES.c, list[ColumnElement[bool]]()
    for name, value in filters.items():
        match name:
            case _ if value is None:
                continue
            case "since":
                found.append(columns.time >= _seconds(name, value))
            case "until":
                found.append(columns.time < _seconds(name, value))
            case "loss":
                if value not in _SEVERITIES:
                    raise InvalidField(name, f"must be one of {', '.join(_SEVERITIES)}", path="record")
                found.append(columns[value] > 0)
            case "program":  # its version changes often, so its name is enough
                text = _checked(name, value)
                found.append((columns.program == text) | columns.program.startswith(f"{text} ", autoescape=True))
            case "lossy":
                lossless = columns.semantic + columns.minor == 0
                found.append(~lossless if value else lossless)
            case _:
                found.append(columns[name] == _checked(name, value))
    return found


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return value.timestamp()
    if type(value) in (int, float):
        return float(value)
    raise InvalidField(name, "must be a Unix time, or a datetime with a time zone", path="record")


def _checked(name: str, value: Any) -> Any:
    """Return a value that the column can be compared with."""
    if name == "status" and type(value) is int:
        return max(-_LARGEST, min(value, _LARGEST))
    if name != "status" and type(value) is str:
        return value.replace("\0", "")
    raise InvalidField(name, f"must be {'a number' if name == 'status' else 'a text'}", path="record")


def read_page(
    database: Database,
    filters: Mapping[str, Any],
    *,
    before: int | None,
    after: int | None,
    limit: int,
    cutoff: float | None,
) -> RecordPage:
    """Return a page of lines, the newest first."""
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
        raise InvalidField("limit", f"must be a whole number, 1 to {MAX_LIMIT}", path="record")
    position = LINES.c.position
    query = sql.select(*_COLUMNS).where(*conditions(filters))
    for name, value, condition in (("before", before, position.__lt__), ("after", after, position.__gt__)):
        if value is not None:
            if type(value) is not int or not 0 <= value <= _LARGEST:
                raise InvalidField(name, "must be a position, 0 or more", path="record")
            query = query.where(condition(value))
    if cutoff is not None:
        query = query.where(LINES.c.time >= cutoff)
    # A reader that follows wants the rows next to its position, and not the newest ones.
    follows = after is not None and before is None
    query = query.order_by(position if follows else position.desc()).limit(limit + 1)
    with database.reading() as connection:
        rows = [Summary(**dict(zip(_NAMES, row, strict=True))) for row in connection.execute(query)]
    page = rows[:limit]
    following = page[-1].position if len(rows) > limit else None
    return RecordPage(tuple(reversed(page)) if follows else tuple(page), following)


def read_record(database: Database, identity: str, key: str | None, cutoff: float | None) -> Record | None:
    """Return the record with an id, if `key` made it. A `key` of None may read all records."""
    query = sql.select(WHOLE.c.content).join(LINES, LINES.c.position == WHOLE.c.position)
    query = query.where(LINES.c.id == _checked("id", identity))
    if key is not None:
        query = query.where(LINES.c.key == _checked("key", key))
    if cutoff is not None:
        query = query.where(LINES.c.time >= cutoff)
    with database.reading() as connection:
        content = connection.execute(query).scalar()
    return None if content is None else unpack(bytes(content))


class RecordSum(Struct, frozen=True, kw_only=True):
    """The sums of the records that share some values, in the order of the columns that were asked for."""

    values: tuple[str, ...]
    exchanges: int
    first: float
    last: float
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: float
    semantic: int
    minor: int
    errors: int


_FIRST_ERROR = 400
_GROUPS: dict[str, Any] = {
    name: LINES.c[name]
    for name in ("key_name", "conversation", "model", "provider", "provider_model", "wire", "session")
} | {"day": sql.cast(sql.func.floor(LINES.c.time / 86_400), sql.BigInteger)}
_SUMS: dict[str, ColumnElement[Any]] = {
    "exchanges": sql.func.count(),
    "first": sql.func.min(LINES.c.time),
    "last": sql.func.max(LINES.c.time),
    **{
        name: sql.func.coalesce(sql.func.sum(LINES.c[name]), 0)
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    },
    **{name: sql.func.coalesce(sql.func.sum(LINES.c[name]), 0) for name in ("cost", "semantic", "minor")},
    "errors": sql.func.coalesce(sql.func.sum(sql.case((LINES.c.status >= _FIRST_ERROR, 1), else_=0)), 0),
}


def read_sums(
    database: Database, by: Sequence[str], filters: Mapping[str, Any], *, limit: int, cutoff: float | None
) -> tuple[RecordSum, ...]:
    """Return the sums of records by some columns, the latest first. A `day` is the number of days since 1970."""
    if unknown := set(by) - _GROUPS.keys():
        known = [*_GROUPS]
        words = f"is not a column to sum by{listed(known, suggestion(min(unknown), known))}"
        raise InvalidField(min(unknown), words, path="record")
    columns = [_GROUPS[name] for name in by]
    query = sql.select(*columns, *_SUMS.values()).where(*conditions(filters)).limit(limit)
    if cutoff is not None:
        query = query.where(LINES.c.time >= cutoff)
    if columns:
        query = query.group_by(*columns).order_by(sql.func.max(LINES.c.time).desc())
    with database.reading() as connection:
        rows = connection.execute(query).all()
    found = [(row[: len(by)], dict(zip(_SUMS, row[len(by) :], strict=True))) for row in rows]
    numbers = dict.fromkeys(_SUMS, int) | {"first": float, "last": float, "cost": float}
    return tuple(
        RecordSum(
            values=tuple(str(value) for value in values),
            **{name: numbers[name](value or 0) for name, value in sums.items()},  # type: ignore[arg-type]
        )
        for values, sums in found
        if sums["exchanges"]
    )
