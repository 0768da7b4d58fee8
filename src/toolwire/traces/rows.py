"""A trace as a row of the table, and a row as a trace.

Rules of this file:
- A row is a snapshot: what is changed in a map after it was recorded does not reach the store.
- An instant is a whole number of microseconds since 1970, in UTC.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from toolwire.errors import StoreFailed
from toolwire.traces.forms import json_form, json_of, key_form, text_form, text_of
from toolwire.traces.trace import Trace

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

KEYS = ("id", "tenant_id", "conversation_id", "tool_name")
TEXTS = (
    *("call_id", "model", "provider", "dialect", "session", "sandbox", "approval", "repair"),
    *("request_digest", "response_digest"),
)
JSON = ("arguments", "result")
CONTENT = (
    *(*KEYS, *TEXTS, *JSON, "losses"),
    *("result_type", "ending", "duration_ms", "iteration", "started_at"),
)


def microseconds(instant: datetime) -> int:
    """Write an instant."""
    return (instant - EPOCH) // MICROSECOND


def instant(value: int) -> datetime:
    """Read an instant."""
    return EPOCH + value * MICROSECOND


def row_of(trace: Trace) -> dict[str, Any]:
    """Write a trace as the columns that it fills itself."""
    row: dict[str, Any] = dict.fromkeys(TEXTS)
    for name in KEYS:
        row[name] = key_form(getattr(trace, name))
    for name in TEXTS:
        if (value := getattr(trace, name)) is not None:
            row[name] = text_form(value)
    row["arguments"] = json_form(trace.arguments)
    row["result"] = json_form(trace.result)
    row["losses"] = json_form(trace.losses)
    row["result_type"] = trace.result_type
    row["ending"] = trace.ending
    row["duration_ms"] = trace.duration_ms + 0.0  # a database does not keep the sign of -0.0
    row["iteration"] = trace.iteration
    row["started_at"] = microseconds(trace.started_at)
    return row


READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys((*KEYS, *TEXTS), text_of),
    **dict.fromkeys(JSON, json_of),
    "losses": lambda form: tuple(json_of(form)),
    "started_at": instant,
    "inserted_at": instant,
}


def trace_of(row: Mapping[str, Any]) -> Trace:
    """Read a row as a trace."""
    try:
        return Trace(
            **{name: READ[name](value) if name in READ else value for name, value in row.items() if value is not None}
        )
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as problem:
        words = f"the row at {row.get('position')} is not as it was written ({type(problem).__name__}): verify it"
        raise StoreFailed(words, path="traces") from None
