"""Bodies as bytes or text: read to JSON values, or refused with the place and the reason.

Rule: a key given twice is refused, because two readers would understand two things.
"""

import json
from typing import Any

import msgspec

from toolwire.errors import InvalidBody

_decode = msgspec.json.Decoder().decode


def read_body(body: Any) -> Any:
    """Give the JSON value of a body; a value that is one already is given back as it is."""
    if not isinstance(body, bytes | bytearray | memoryview | str):
        return body
    data = body if isinstance(body, str | bytes) else bytes(body)
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidBody(f"is not JSON: {problem}", path="body") from problem
    marks = ('":', " :", "\n:", "\t:", "\r:", '\\\\"', '\\":') if isinstance(data, str) else BYTE_MARKS
    keys, *spaced, backslash, escaped = (data.count(mark) for mark in marks)  # type: ignore[arg-type]
    if any(spaced) or backslash or keys - escaped != count_keys(value):
        _refuse_twice(data)
    return value


BYTE_MARKS = (b'":', b" :", b"\n:", b"\t:", b"\r:", b'\\\\"', b'\\":')


def count_keys(value: Any) -> int:
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


def _refuse_twice(data: str | bytes) -> None:
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
