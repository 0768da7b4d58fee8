"""Records as HAR 1.2, which browsers and inspectors of traffic open.

Rules of this file:
- A record is one entry for the client's side and one for each exchange with a provider. `_side` says which it is, and
  `_record` has the id.
- A body that is no text is in base64. A request has no field for that in HAR, so its text says that it is no text.
- The events of a stream are in `_events`, each with its time in seconds.
- http://www.softwareishard.com/blog/har-12-spec/ (2026-11-27) is the specification.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from toolwire.records.record import Body, Record

_UNKNOWN = -1
_MILLISECONDS = 1000.0


def har_of(records: Iterator[Record], version: str) -> dict[str, Any]:
    """Return records as the value of a HAR file. `version` is that of this library."""
    entries = [entry for record in records for entry in _entries(record)]
    entries.sort(key=lambda entry: str(entry["startedDateTime"]))
    return {"log": {"version": "1.2", "creator": {"name": "toolwire", "version": version}, "entries": entries}}


def _entries(record: Record) -> Iterator[dict[str, Any]]:
    client_url = f"http://{record.client_request.headers.get('host', 'toolwire')}{record.path or '/'}"
    first = record.seconds if record.first_byte is None else record.first_byte
    about = {"_record": record.id, "_key": record.key_name, "_conversation": record.conversation}
    if record.path:
        bodies = record.client_request, record.client_answer
        times = record.time, first, record.seconds
        losses = [msgspec.to_builtins(loss) for loss in record.losses]
        yield {**_entry(client_url, *bodies, record.status, times), **about, "_side": "client", "_losses": losses}
    start = record.time
    for earlier in record.earlier:
        times = start, earlier.seconds, earlier.seconds
        entry = _entry(earlier.url, earlier.request, earlier.answer, earlier.status, times)
        yield {**entry, **about, "_side": "provider", "_error": earlier.error}
        start += earlier.seconds
    if record.url:
        times = start, max(0.0, first - (start - record.time)), max(0.0, record.seconds - (start - record.time))
        entry = _entry(record.url, record.provider_request, record.provider_answer, record.provider_status, times)
        yield {**entry, **about, "_side": "provider", "_error": record.error}


def _entry(url: str, request: Body, answer: Body, status: int, times: tuple[float, float, float]) -> dict[str, Any]:
    start, first, seconds = times
    wait, whole = round(min(first, seconds) * _MILLISECONDS, 3), round(seconds * _MILLISECONDS, 3)
    return {
        "startedDateTime": datetime.fromtimestamp(start, UTC).isoformat(timespec="milliseconds"),
        "time": whole,
        "request": _request(url, request),
        "response": _response(answer, status),
        "cache": {},
        "timings": {"send": 0, "wait": wait, "receive": round(whole - wait, 3)},
    }


def _request(url: str, body: Body) -> dict[str, Any]:
    query = [{"name": name, "value": value} for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True)]
    request: dict[str, Any] = {
        "method": "POST",
        "url": url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(body.headers),
        "queryString": query,
        "headersSize": _UNKNOWN,
        "bodySize": body.size,
    }
    if body.data:
        request["postData"] = {"mimeType": body.content_type, "text": body.text, **_comment(body)}
    return request


def _response(body: Body, status: int) -> dict[str, Any]:
    try:
        content: dict[str, Any] = {"text": body.data.decode()}
    except UnicodeDecodeError:
        content = {"text": msgspec.to_builtins(body.data), "encoding": "base64"}
    if body.frames:
        content["_events"] = [
            {"seconds": seconds, "data": data.decode(errors="replace")} for seconds, data in body.events()
        ]
    reason = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    return {
        "status": status,
        "statusText": reason,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(body.headers),
        "content": {"size": body.size, "mimeType": body.content_type, **content, **_comment(body)},
        "redirectURL": "",
        "headersSize": _UNKNOWN,
        "bodySize": body.size,
    }


def _headers(headers: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers.items()]


def _comment(body: Body) -> dict[str, str]:
    return {"comment": f"cut: the body had {body.size} bytes"} if body.cut else {}
