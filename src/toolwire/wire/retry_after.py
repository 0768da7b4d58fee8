"""How long a server asks to be left alone: read from an answer's headers and body, written as headers.

Rules of this file:
- There is no clock here: a date is a time to wait only beside the `date` of the same answer.
- What cannot be read says nothing. No time is below zero.
- A body is believed before a header: who repeats an error by its body alone says the same.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_SPAN = re.compile(r"(?:\d+(?:\.\d*)?(?:d|h|ms|m|us|ns|s))+", re.ASCII)
_STEP = re.compile(r"([\d.]+)([a-z]+)", re.ASCII)
_LONGEST = 315_576_000_000.0  # seconds, google.protobuf.Duration
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# google.rpc.RetryInfo, error_details.proto (2026-11-20).
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
# OpenAI, "Rate limits", headers (2026-11-20): when a limit is full again, and what is left of it.
_RESET, _REMAINING = "x-ratelimit-reset-", "x-ratelimit-remaining-"


def read_retry_after(headers: Mapping[str, str] | None, body: Any, *, limited: bool) -> float | None:
    """Read how many seconds to wait; where too much was asked (`limited`), the resets of the limits say it too."""
    info = retry_info(body)
    if info is not None and (seconds := _span(info.get("retryDelay"))) is not None:
        return seconds
    if not headers:
        return None
    said = {str(name).lower(): value.strip() for name, value in dict(headers).items() if isinstance(value, str)}
    if (milliseconds := _number(said.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (wait := said.get("retry-after")) is not None:
        seconds = _number(wait)
        seconds = _until(wait, said.get("date")) if seconds is None else seconds
        if seconds is not None:
            return seconds
    return _until_reset(said) if limited else None


def retry_info(body: Any) -> dict[str, Any] | None:
    """Find Google's note of when to try again in an error's body."""
    body = body[0] if type(body) is list and len(body) == 1 else body
    error = body.get("error") if type(body) is dict else None
    details = error.get("details") if type(error) is dict else None
    notes = (one for one in details if type(one) is dict) if type(details) is list else ()
    return next((note for note in notes if note.get("@type") == RETRY_INFO), None)


def write_retry_after(seconds: float | None) -> dict[str, str]:
    """Write the headers: whole seconds (RFC 9110), never fewer, and beside them the milliseconds of a broken one."""
    if seconds is None or not math.isfinite(seconds):
        return {}
    seconds = max(0.0, seconds)
    whole = {"retry-after": str(math.ceil(seconds))}
    return whole if seconds == math.ceil(seconds) else {**whole, "retry-after-ms": f"{seconds * 1000:.15g}"}


def write_span(seconds: float) -> str:
    """Write seconds as Google does: `1.5s`, and never more than its type can say."""
    return f"{min(max(0.0, seconds), _LONGEST):.9f}".rstrip("0").rstrip(".") + "s"


def _number(text: str | None) -> float | None:
    return _finite(float(text)) if text is not None and _NUMBER.fullmatch(text) else None


def _span(text: Any) -> float | None:
    """Read `34.07s`, `6m0s` or `20ms`."""
    if not isinstance(text, str) or not _SPAN.fullmatch(text):
        return None
    return _finite(sum(float(count) * _SECONDS[unit] for count, unit in _STEP.findall(text)))


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _until(moment: str, now: str | None) -> float | None:
    """Give the seconds from one HTTP date to another."""
    there, here = _date(moment), None if now is None else _date(now)
    return None if there is None or here is None else max(0.0, (there - here).total_seconds())


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - it is heavy, and dates are rare

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _until_reset(said: Mapping[str, str]) -> float | None:
    """Give when the limits that are used up are full again; where none is said to be, the last of all."""
    resets: dict[str, float] = {}
    for name, value in said.items():
        seconds = (_span(value) if _SPAN.fullmatch(value) else _number(value)) if name.startswith(_RESET) else None
        if seconds is not None:
            resets[name.removeprefix(_RESET)] = seconds
    used_up = [seconds for name, seconds in resets.items() if _number(said.get(_REMAINING + name)) == 0]
    return max(used_up or resets.values(), default=None)
