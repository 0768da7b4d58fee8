"""The view Spend: requests, tokens and dollars by key, team, model or day."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from toolwire.page.charts import columns
from toolwire.page.filters import PERIODS
from toolwire.page.shown import PageRequest, Shown
from toolwire.page.sources import Sources
from toolwire.page.traffic import saving

DAY = 86_400
_BY_LEDGER = ("key", "team", "user", "model", "provider", "day")
_BY_RECORDS = {"key": "key_name", "model": "provider_model", "provider": "provider", "day": "day"}
_DEFAULT = "30d"
_GROUPS = 1_000_000


class _SpendRow(Struct, frozen=True):
    """The requests, tokens and dollars of one group."""

    name: str
    requests: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: float
    saved: float | None = None


def show_spend(sources: Sources, request: PageRequest) -> Shown:
    """Return what was spent, by one column, and by day."""
    since = request.query.get("since", _DEFAULT)
    since = since if since in PERIODS else _DEFAULT
    start = time.time() - PERIODS[since]
    names = _BY_LEDGER if sources.usage is not None else tuple(_BY_RECORDS)
    by = request.query.get("by", "key")
    by = by if by in names else "key"
    rows, days = (
        _sorted(found, name) for found, name in zip(_read(sources, by, since, start), (by, "day"), strict=True)
    )
    each = _each_day(days, start)
    total = _SpendRow("total", *(sum(getattr(row, name) for row in rows) for name in _NUMBERS))
    data = {"by": by, "since": since, "rows": rows, "days": days, "total": total}
    extra = {
        "has_source": sources.usage is not None or sources.records is not None,
        "from_records": sources.usage is None,
        "names": names,
        "periods": list(PERIODS),
        "chart": columns([(row.name, row.cost) for row in each], f"dollars a day, the last {since}"),
        "first": each[0].name,
        "last": each[-1].name,
        "dearest": max(row.cost for row in each),
        "most": max((row.cost for row in rows), default=0.0),
    }
    return Shown("spend.html", "Spend", data, extra)


_NUMBERS = ("requests", "input_tokens", "output_tokens", "cached_tokens", "cost")


def _sorted(rows: list[_SpendRow], by: str) -> list[_SpendRow]:
    """Return rows with the largest cost first, days in their order."""
    return sorted(rows, key=lambda row: ("", row.name) if by == "day" else (f"{1e12 - row.cost:020.6f}", row.name))


def _read(sources: Sources, by: str, since: str, start: float) -> tuple[list[_SpendRow], list[_SpendRow]]:
    """Return the sums by one column, and those by day."""
    if sources.usage is not None:
        rows, days = sources.usage((by,), since), sources.usage(("day",), since)
        return [_from_ledger(row, by) for row in rows], [_from_ledger(row, "day") for row in days]
    if sources.records is None:
        return [], []
    column = _BY_RECORDS[by]
    sums = sources.records.sums("day", column, "provider", "provider_model", limit=_GROUPS, since=start)
    return _from_records(sums, 1, by), _from_records(sums, 0, "day")


def _from_ledger(row: dict[str, Any], by: str) -> _SpendRow:
    return _SpendRow(str(row.get(by) or "none"), *(row[name] or 0 for name in _NUMBERS))


def _from_records(found: Sequence[Any], column: int, by: str) -> list[_SpendRow]:
    groups: dict[str, list[Any]] = {}
    for one in found:
        groups.setdefault(_name_of(one.values[column], by), []).append(one)
    return [
        _SpendRow(
            name,
            sum(one.exchanges for one in sums),
            sum(one.input_tokens for one in sums),
            sum(one.output_tokens for one in sums),
            sum(one.cache_read_tokens for one in sums),
            sum(one.cost for one in sums),
            sum(saving(one.values[2], one.values[3], one) for one in sums),
        )
        for name, sums in groups.items()
    ]


def _name_of(value: str, by: str) -> str:
    if by == "day":
        return datetime.fromtimestamp(int(float(value)) * DAY, UTC).date().isoformat()
    return value or "none"


def _each_day(days: Sequence[_SpendRow], start: float) -> list[_SpendRow]:
    """Return a row for each day, also for those on which nothing was spent."""
    known = {row.name: row for row in days}
    first, last = int(start // DAY), int(time.time() // DAY)
    names = [datetime.fromtimestamp(day * DAY, UTC).date().isoformat() for day in range(first, last + 1)]
    return [known.get(name, _SpendRow(name, 0, 0, 0, 0, 0.0)) for name in names]
