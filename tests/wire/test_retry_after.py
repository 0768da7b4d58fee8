"""How long a server asks to be left alone, in each way in which one says it."""

from email.utils import formatdate
from typing import Any

import pytest

from toolwire.wire.retry_after import RETRY_INFO, read_retry_after, write_retry_after

NOW = formatdate(1000, usegmt=True)
HEADERS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"retry-after": "0"}, 0.0),
    ({"retry-after": "3"}, 3.0),
    ({"Retry-After": " 3 "}, 3.0),
    ({"RETRY-AFTER": "0.5"}, 0.5),
    ({"retry-after": "999999999"}, 999_999_999.0),
    ({"retry-after": "9" * 400}, None),
    ({"retry-after": "-1"}, None),
    ({"retry-after": "1e9"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": ""}, None),
    ({"retry-after": "²"}, None),
    ({"retry-after": formatdate(1010, usegmt=True), "date": NOW}, 10.0),
    ({"Retry-After": formatdate(1010, usegmt=True), "Date": NOW}, 10.0),
    ({"retry-after": formatdate(990, usegmt=True), "date": NOW}, 0.0),
    ({"retry-after": "Thursday, 01-Jan-70 00:16:50 GMT", "date": "Thu Jan  1 00:16:40 1970"}, 10.0),
    ({"retry-after": formatdate(1010, usegmt=True)}, None),
    ({"retry-after": formatdate(1010, usegmt=True), "date": "today"}, None),
    ({"retry-after": "Fri, 99 Foo 99999 99:99:99 GMT", "date": NOW}, None),
    ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
    ({"retry-after-ms": "-5"}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), HEADERS)
def test_what_the_headers_say(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers, None, limited=False) == seconds


RESETS: list[tuple[dict[str, str], float | None]] = [
    ({"x-ratelimit-reset-requests": "1s"}, 1.0),
    ({"x-ratelimit-reset-tokens": "6m0s"}, 360.0),
    ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
    ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
    ({"x-ratelimit-reset-requests": "10"}, 10.0),
    ({"x-ratelimit-reset-requests": "soon"}, None),
    ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
    (
        {
            "X-RateLimit-Reset-Requests": "2s",
            "X-RateLimit-Remaining-Requests": "0",
            "X-RateLimit-Reset-Tokens": "6m0s",
            "X-RateLimit-Remaining-Tokens": "90000",
        },
        2.0,
    ),
    ({"x-ratelimit-reset-requests": "1s", "retry-after": "7"}, 7.0),
    ({"x-ratelimit-reset-requests": "1s", "retry-after": "soon"}, 1.0),
]


@pytest.mark.parametrize(("headers", "seconds"), RESETS)
def test_a_limit_says_when_it_is_full_again(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers, None, limited=True) == seconds
    assert read_retry_after(headers, None, limited=False) == (7.0 if seconds == 7.0 else None)


BODIES: list[tuple[Any, float | None]] = [
    ({"error": {"details": [{"@type": "x"}, {"@type": RETRY_INFO, "retryDelay": "34.074824224s"}]}}, 34.074824224),
    ([{"error": {"details": [{"@type": RETRY_INFO, "retryDelay": "0s"}]}}], 0.0),
    ({"error": {"details": [{"@type": RETRY_INFO, "retryDelay": "soon"}]}}, None),
    ({"error": {"details": [{"@type": RETRY_INFO, "retryDelay": 3}]}}, None),
    ({"error": {"details": [{"@type": RETRY_INFO}]}}, None),
    ({"error": {"details": {"@type": RETRY_INFO}}}, None),
    ({"error": {"details": [None, 1]}}, None),
    ({"error": "no"}, None),
    ("no", None),
    ([], None),
]


@pytest.mark.parametrize(("body", "seconds"), BODIES)
def test_what_a_body_says(body: Any, seconds: float | None) -> None:
    assert read_retry_after(None, body, limited=False) == seconds
    assert read_retry_after({"retry-after": "5"}, body, limited=False) == (5.0 if seconds is None else seconds)


@pytest.mark.parametrize(
    ("seconds", "headers"),
    [
        (None, {}),
        (0.0, {"retry-after": "0"}),
        (30, {"retry-after": "30"}),
        (0.25, {"retry-after": "1", "retry-after-ms": "250"}),
        (34.074824224, {"retry-after": "35", "retry-after-ms": "34074.824224"}),
        (-3.0, {"retry-after": "0"}),
        (float("inf"), {}),
        (float("nan"), {}),
    ],
)
def test_what_is_written_is_read_again(seconds: float | None, headers: dict[str, str]) -> None:
    assert write_retry_after(seconds) == headers
    assert read_retry_after(headers, None, limited=False) == (
        pytest.approx(max(0.0, seconds or 0.0)) if headers else None
    )
