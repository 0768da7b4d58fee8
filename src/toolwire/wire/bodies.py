"""Parse bodies of bytes or text to JSON values, or reject them with the path and the reason.

Rule: a body with a duplicate key is rejected, because two parsers could read it differently. The check takes the
cheapest way that is sufficient:
- If the value encodes to the same bytes, apart from white space, there is no duplicate.
- Else the keys are counted.
- Else the keys are compared one by one.
"""

import json
import re
from codecs import BOM_UTF8
from typing import Any

import msgspec

from toolwire.errors import InvalidBody

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
TEXT = (bytes, str, bytearray, memoryview)
_SPACED = (b" :", b"\n:", b"\t:", b"\r:", b'\\\\"')


def read_body(body: Any) -> Any:
    """Return the JSON value of `body`. A body that is neither bytes nor text is returned unchanged."""
    if type(body) is dict or not isinstance(body, TEXT):
        return body
    try:
        data: bytes = (body.encode() if isinstance(body, str) else bytes(body)).removeprefix(BOM_UTF8)
        value = _decode(data)
        written = _encode(value)
        is_canonical = written == data or msgspec.json.format(data, indent=-1) == written
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        reason = problem if (body if isinstance(body, str) else bytes(body)).strip() else "it is empty"
        raise InvalidBody(f"is not JSON: {reason}", path="body") from problem
    if not is_canonical and not _has_each_key_once(value, data):
        _reject_duplicate_keys(data)
    return value


def read_error_body(body: Any) -> Any:
    """Return the JSON value of an error's body, or its text if it is not JSON. Other values are returned unchanged."""
    if not isinstance(body, bytes | bytearray | memoryview):
        return body
    try:
        return read_body(body)
    except InvalidBody:
        return bytes(body).decode(errors="replace")


def _has_each_key_once(value: Any, data: bytes) -> bool:
    """Return True if `data` has as many colons directly after quotes as `value` has keys, so that no key is double."""
    if any(mark in data for mark in _SPACED):
        return False
    return data.count(b'":') - data.count(b'\\":') == _count_keys(value)


def _count_keys(value: Any) -> int:
    """Return the number of keys in `value`, at every depth."""
    count, pending = 0, [value]
    while pending:
        node = pending.pop()
        if type(node) is dict:
            count += len(node)
            pending += [inner for inner in node.values() if type(inner) is dict or type(inner) is list]
        elif type(node) is list:
            pending += [inner for inner in node if type(inner) is dict or type(inner) is list]
    return count


def _reject_duplicate_keys(data: bytes) -> None:
    try:
        json.loads(data, object_pairs_hook=_require_distinct_keys)
    except RecursionError as problem:
        raise InvalidBody("is nested too deeply", path="body") from problem


def _require_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidBody(f"has the key {key!r} twice", path=f"body...{key}")
            seen.add(key)
    return members


_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_SPACE = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_read_text = msgspec.json.Decoder(str).decode


def members_of(body: bytes) -> dict[str, Any]:
    """Return the members of `body`, with their values as raw bytes. Raise `InvalidBody` if it is no JSON object."""
    try:
        if not body.isascii():
            body.decode()  # raises for invalid UTF-8: raw values are not decoded here
        return _decode_members(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidBody(f"is not a JSON object: {problem if body.strip() else 'it is empty'}", path="body") from None


def find_member(body: bytes, wanted: str, members: dict[str, Any] | None = None) -> tuple[int, int]:
    """Return the start and the end of the value of the member `wanted` in `body`. `members` are those of `body`."""
    members = members or members_of(body)
    return _find_in_compact_body(body, wanted, members) or _find_in_spaced_body(body, wanted, members)


def _find_in_compact_body(body: bytes, wanted: str, members: dict[str, Any]) -> tuple[int, int] | None:
    """Return the span of `wanted`, or None if `body` has a space, an escaped key or a duplicate key.

    Such a body is longer than its members, so that positions cannot be computed from the lengths of the members.
    """
    position, span = 1, (0, 0)
    for name, value in members.items():
        start = position + len(name) + 3
        position = start + len(memoryview(value)) + 1
        if name == wanted:
            span = start, position - 1
    return span if position == len(body) else None


def _find_in_spaced_body(body: bytes, wanted: str, members: dict[str, Any]) -> tuple[int, int]:
    position, span = body.index(b"{"), (0, 0)
    for name, value in members.items():
        position = _skip_space(body, position + 1)
        key = _KEY.match(body, position)
        if key is None or _parse_key(key[0]) != name:
            raise InvalidBody("has a key twice", path="body")
        start = _skip_space(body, _skip_space(body, key.end()) + 1)
        position = start + len(bytes(value))
        if name == wanted:
            span = start, position
        position = _skip_space(body, position)
    if body[position : position + 1] != b"}":
        raise InvalidBody("has a key twice", path="body")
    return span


def _parse_key(key: bytes) -> str:
    try:
        return _read_text(key)
    except (msgspec.DecodeError, UnicodeError):
        raise InvalidBody("has a key that is no text", path="body") from None


def _skip_space(body: bytes, position: int) -> int:
    space = _SPACE.match(body, position)
    return position if space is None else space.end()
