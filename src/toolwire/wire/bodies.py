"""Bodies as bytes or text: read to JSON values, or refused with the place and the reason.

Rule: a key given twice is refused, because two readers would understand two things. That none is, is proved
in the cheapest way that will do: the value written again is the same bytes; else the keys are counted; else
they are read one by one.
"""

import json
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
        data: bytes = body.encode() if isinstance(body, str) else bytes(body)
        value = _decode(data)
        compact = _encode(value) == data
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidBody(f"is not JSON: {problem}", path="body") from problem
    if not compact and not _has_each_key_once(value, data):
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
