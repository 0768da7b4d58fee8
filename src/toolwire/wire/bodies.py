"""Bodies as bytes or text: read to JSON values, or refused with the place and the reason.

Rule: a key given twice is refused, because two readers would understand two things. That none is, is proved
in the cheapest way that will do: the value written again is the same bytes, or the same but for space between them;
else the keys are counted; else they are read one by one.
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
    """Give the JSON value of a body; a value that is one already is given back as it is."""
    if type(body) is dict or not isinstance(body, TEXT):
        return body
    try:
        data: bytes = (body.encode() if isinstance(body, str) else bytes(body)).removeprefix(BOM_UTF8)
        value = _decode(data)
        written = _encode(value)
        same = written == data or msgspec.json.format(data, indent=-1) == written
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        words = problem if (body if isinstance(body, str) else bytes(body)).strip() else "it is empty"
        raise InvalidBody(f"is not JSON: {words}", path="body") from problem
    if not same and not _has_each_key_once(value, data):
        _refuse_twice(data)
    return value


def _has_each_key_once(value: Any, data: bytes) -> bool:
    """Prove it by counting: every key is followed by a colon at once, and there are as many as were read."""
    if any(mark in data for mark in _SPACED):
        return False
    return data.count(b'":') - data.count(b'\\":') == _count_keys(value)


def _count_keys(value: Any) -> int:
    """Count the keys of a value, at every depth."""
    keys, left = 0, [value]
    while left:
        here = left.pop()
        if type(here) is dict:
            keys += len(here)
            left += [inner for inner in here.values() if type(inner) is dict or type(inner) is list]
        elif type(here) is list:
            left += [inner for inner in here if type(inner) is dict or type(inner) is list]
    return keys


def _refuse_twice(data: bytes) -> None:
    try:
        json.loads(data, object_pairs_hook=_distinct)
    except RecursionError as problem:
        raise InvalidBody("is nested too deeply", path="body") from problem


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidBody(f"gives the key {key!r} twice", path=f"body...{key}")
            seen.add(key)
    return made


_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_SPACE = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_read_text = msgspec.json.Decoder(str).decode


def members_of(body: bytes) -> dict[str, Any]:
    """Give the members of a body, each as it is written; a body that is no JSON object is refused."""
    try:
        if not body.isascii():
            body.decode()  # what is left as it is written is read by nobody here
        return _members(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidBody(f"is not a JSON object: {problem if body.strip() else 'it is empty'}", path="body") from None


def place_of(body: bytes, wanted: str, members: dict[str, Any] | None = None) -> tuple[int, int]:
    """Say where the value of a member stands: members stand in order, and the length of each value is known."""
    members = members or members_of(body)
    return _place_in_compact(body, wanted, members) or _place_in_spaced(body, wanted, members)


def _place_in_compact(body: bytes, wanted: str, members: dict[str, Any]) -> tuple[int, int] | None:
    """Reckon the place; a space, an escape or a key given twice makes a body longer than its members."""
    at, place = 1, (0, 0)
    for name, value in members.items():
        start = at + len(name) + 3
        at = start + len(memoryview(value)) + 1
        if name == wanted:
            place = start, at - 1
    return place if at == len(body) else None


def _place_in_spaced(body: bytes, wanted: str, members: dict[str, Any]) -> tuple[int, int]:
    at, place = body.index(b"{"), (0, 0)
    for name, value in members.items():
        at = _skip(body, at + 1)
        key = _KEY.match(body, at)
        if key is None or _name(key[0]) != name:
            raise InvalidBody("gives a key twice", path="body")
        start = _skip(body, _skip(body, key.end()) + 1)
        at = start + len(bytes(value))
        if name == wanted:
            place = start, at
        at = _skip(body, at)
    if body[at : at + 1] != b"}":
        raise InvalidBody("gives a key twice", path="body")
    return place


def _name(key: bytes) -> str:
    try:
        return _read_text(key)
    except (msgspec.DecodeError, UnicodeError):
        raise InvalidBody("has a key that is no text", path="body") from None


def _skip(body: bytes, at: int) -> int:
    space = _SPACE.match(body, at)
    return at if space is None else space.end()
