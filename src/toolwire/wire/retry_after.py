"""Read and write how long a client should wait before it repeats a request.

Rules of this file:
- There is no clock here. A date is converted to seconds only if the same response has a `date` header.
- A value that cannot be parsed is ignored. No time is below zero.
- The body takes precedence over the headers, so that an error that is only passed on as a body means the same.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_DURATION = re.compile(r"(?:\d+(?:\.\d*)?(?:d|h|ms|m|us|ns|s))+", re.ASCII)
_DURATION_STEP = re.compile(r"([\d.]+)([a-z]+)", re.ASCII)
_MAX_SECONDS = 315_576_000_000.0  # seconds, google.protobuf.Duration
_UNIT_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# google.rpc.RetryInfo, error_details.proto (2026-11-20).
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
# OpenAI, "Rate limits", headers (2026-11-20): the time until a limit is reset, and the rest of it.
_RESET, _REMAINING = "x-ratelimit-reset-", "x-ratelimit-remaining-"


def read_retry_after(headers: Mapping[str, str] | None, body: Any, *, limited: bool) -> float | None:
    """Return how many seconds to wait, or None if the response does not have it.

    With `limited`, the error is that of a rate limit. Then the headers with the resets of the limits are used as well.
    """
    info = retry_info(body)
    if info is not None and (seconds := _parse_duration(info.get("retryDelay"))) is not None:
        return seconds
    if not headers:
        return None
    values = {str(name).lower(): value.strip() for name, value in dict(headers).items() if isinstance(value, str)}
    if (milliseconds := _parse_number(values.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (retry_after := values.get("retry-after")) is not None:
        seconds = _parse_number(retry_after)
        seconds = _seconds_between(retry_after, values.get("date")) if seconds is None else seconds
        if seconds is not None:
            return seconds
    return _seconds_until_reset(values) if limited else None


def retry_info(body: Any) -> dict[str, Any] | None:
    """Return Google's `RetryInfo` in the body of an error, or None if there is none."""
    body = body[0] if type(body) is list and len(body) == 1 else body
    error = body.get("error") if type(body) is dict else None
    details = error.get("details") if type(error) is dict else None
    entries = (entry for entry in details if type(entry) is dict) if type(details) is list else ()
    return next((entry for entry in entries if entry.get("@type") == RETRY_INFO), None)


def write_retry_after(seconds: float | None) -> dict[str, str]:
    """Return the headers for a wait: seconds rounded up (RFC 9110), and milliseconds if there is a fraction."""
    if seconds is None or not math.isfinite(seconds):
        return {}
    seconds = max(0.0, seconds)
    headers = {"retry-after": str(math.ceil(seconds))}
    return headers if seconds == math.ceil(seconds) else {**headers, "retry-after-ms": f"{seconds * 1000:.15g}"}


def write_duration(seconds: float) -> str:
    """Return seconds as Google writes a duration: `1.5s`, up to the maximum of its type."""
    return f"{min(max(0.0, seconds), _MAX_SECONDS):.9f}".rstrip("0").rstrip(".") + "s"


def _parse_number(text: str | None) -> float | None:
    return _finite(float(text)) if text is not None and _NUMBER.fullmatch(text) else None


def _parse_duration(text: Any) -> float | None:
    """Parse a duration such as `34.07s`, `6m0s` or `20ms` to seconds."""
    if not isinstance(text, str) or not _DURATION.fullmatch(text):
        return None
    return _finite(sum(float(count) * _UNIT_SECONDS[unit] for count, unit in _DURATION_STEP.findall(text)))


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _seconds_between(end: str, start: str | None) -> float | None:
    """Return the seconds from the HTTP date `start` to the HTTP date `end`."""
    end_date, start_date = _parse_date(end), None if start is None else _parse_date(start)
    return None if end_date is None or start_date is None else max(0.0, (end_date - start_date).total_seconds())


def _parse_date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - it is heavy, and dates are rare

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _seconds_until_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until all exhausted limits are reset. If none is marked as exhausted, consider all limits."""
    resets: dict[str, float] = {}
    for name, value in headers.items():
        seconds = (
            (_parse_duration(value) if _DURATION.fullmatch(value) else _parse_number(value))
            if name.startswith(_RESET)
            else None
        )
        if seconds is not None:
            resets[name.removeprefix(_RESET)] = seconds
    used_up = [seconds for name, seconds in resets.items() if _parse_number(headers.get(_REMAINING + name)) == 0]
    return max(used_up or resets.values(), default=None)
