"""Questions about usage: the columns to group by, the period, and the values that rows must have.

Rules of this file:
- Days are days of UTC. `7d`, `2026-11` and `2026-11-27` are whole days, which the sums by day answer.
- An hour or a minute is answered by single rows. Rows that were deleted cannot answer it, so such a period is an error.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from urllib.parse import parse_qsl

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidField, did_you_mean

DAY = 86_400.0
COLUMNS = ("day", "key", "team", "user", "provider", "model", "wire")
"""The columns by which usage can be grouped."""
FILTERS = COLUMNS[1:]
"""The columns whose values can be chosen."""
_DEFAULT_BY = "key,model"
SUMS = ("requests", "input_tokens", "output_tokens", "cached_tokens", "cost")
"""The sums of a group."""
# The members of an address's query, and what each of them chooses.
_MEMBERS = {"by": "by", "since": "since", "until": "until", "key_name": "key", **{name: name for name in FILTERS[1:]}}
_FORMS = "a time such as 7d, 12h, 2026-11, 2026-11-27 or 2026-11-27T12:00"
_AGO = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_MONTH = re.compile(r"\d{4}-\d{2}", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Period(Struct, frozen=True):
    """A period in seconds since 1970. None is no limit. `end` does not belong to it."""

    start: float | None = None
    end: float | None = None


class UsageQuery(Struct, frozen=True):
    """A question: how to group, the period, and for columns the values that count."""

    by: tuple[str, ...]
    period: Period = Period()
    chosen: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def since(self, oldest: float) -> "UsageQuery":
        """Return the question for the part of its period that begins at `oldest`."""
        start = oldest if self.period.start is None else max(oldest, self.period.start)
        return replace(self, period=Period(start, self.period.end))


def query_of(by: str, since: str, until: str, chosen: Mapping[str, Sequence[str]], now: float) -> UsageQuery:
    """Return the question that texts ask. Raise `InvalidField` if one of them cannot be read."""
    start, end = (_moment("since", since, now) if since else None), (_end_of(until, now) if until else None)
    if start is not None and end is not None and start >= end:
        raise InvalidField("until", f"{until!r} is not after since, {since!r}")
    values = tuple((name, tuple(texts)) for name, texts in chosen.items() if texts)
    return UsageQuery(_columns(by), Period(start, end), values)


def usage_query_in(query: str, now: float) -> UsageQuery:
    """Return the question in the query of an address, such as `by=key,model&since=7d&team=core`.

    `key_name` chooses a key, because the gateway rejects an address with `key=`: a client's key must not be in it.
    Raise `InvalidField` if the question cannot be read.
    """
    members: dict[str, list[str]] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in _MEMBERS:
            detail = f"is not known here{did_you_mean(name, _MEMBERS)}; there are: {', '.join(_MEMBERS)}"
            raise InvalidField(name[:80], detail)
        members.setdefault(_MEMBERS[name], []).append(text)
    by = ",".join(members.get("by", [])) or _DEFAULT_BY
    since, until = (members.get(name, [""])[-1] for name in ("since", "until"))
    return query_of(by, since, until, {name: members[name] for name in FILTERS if name in members}, now)


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    for name in names:
        if name not in COLUMNS:
            hint = did_you_mean(name, COLUMNS)
            raise InvalidField("by", f"{name!r} is not a column of usage{hint}; there are: {', '.join(COLUMNS)}")
    if not names:
        raise InvalidField("by", f"must name columns, with commas between them: {', '.join(COLUMNS)}")
    return names


def _moment(field: str, text: str, now: float) -> float:
    """Return the time that a text names: for days and months their beginning."""
    days = _days(field, text, now)
    return _exact(field, text, now) if days is None else _start_of(days[0])


def _end_of(text: str, now: float) -> float:
    """Return the end of the days that a text names, or the time that it names."""
    days = _days("until", text, now)
    return _exact("until", text, now) if days is None else _start_of(days[1])


def _days(field: str, text: str, now: float) -> tuple[date, date] | None:
    """Return the first day that a text names and the day after the last one. Return None if it names no days."""
    try:
        if (match := _AGO.fullmatch(text)) and match[2] == "d":
            first = datetime.fromtimestamp(now, UTC).date() - timedelta(days=int(match[1]))
            return first, first + timedelta(days=1)
        if _MONTH.fullmatch(text):
            first = date.fromisoformat(f"{text}-01")
            return first, (first + timedelta(days=31)).replace(day=1)
        return (first := date.fromisoformat(text)), first + timedelta(days=1)
    except OverflowError:
        raise _unreadable(field, text) from None
    except ValueError:
        return None


def _exact(field: str, text: str, now: float) -> float:
    if (match := _AGO.fullmatch(text)) and match[2] in _SECONDS:
        return now - int(match[1]) * _SECONDS[match[2]]
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _unreadable(field, text) from None


def _unreadable(field: str, text: str) -> InvalidField:
    return InvalidField(field, f"must be {_FORMS}, not {text!r}")


def _start_of(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


class Parts(Struct, frozen=True):
    """A period in parts: the whole days `first` to `last`, which are None without a limit, and the times beside them.

    `has_days` is False if there is no whole day.
    """

    first: float | None
    last: float | None
    has_days: bool
    edges: tuple[Period, ...]


def parts_of(period: Period) -> Parts:
    """Divide a period into whole days and the times before and after them."""
    start, end = period.start, period.end
    first = None if start is None else -(-start // DAY) * DAY
    last = None if end is None else end // DAY * DAY
    if first is not None and last is not None and first > last:
        return Parts(None, None, False, (period,))
    edges = [Period(start, first)] if start != first else []
    edges += [Period(last, end)] if end != last else []
    return Parts(first, last, first is None or last is None or first < last, tuple(edges))


def check_rows_remain(query: UsageQuery, oldest: float, keep: str) -> None:
    """Raise `InvalidField` if a question needs rows from before `oldest`, which are deleted."""
    for edge in parts_of(query.period).edges:
        if edge.start is not None and edge.start < oldest:
            field = "since" if edge.start == query.period.start else "until"
            day = datetime.fromtimestamp(edge.start, UTC).date().isoformat()
            detail = f"rows are deleted after {keep}, and sums by day remain: name a whole day, such as {day}"
            raise InvalidField(field, detail)
