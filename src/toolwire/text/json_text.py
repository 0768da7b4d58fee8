"""JSON inside of a text: where a value ends, as it comes, and what stands in it.

Rules of this file:
- What is no JSON is found where it stops being JSON, so that it does not take with it what comes after.
- A value's own spelling is kept: arguments are told as the model wrote them.
"""

import json
import re
from typing import Any, Literal

import msgspec

from toolwire.text.cursor import Cursor, PatternSearch, ReadSteps

_DEEPEST = 200
_TOKENS = PatternSearch(r"[^\s\w+\-.]")
_STRING = PatternSearch(r'"|\\.')
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_CLOSES = {"{": "}", "[": "]"}
_KEY, _FIRST_KEY, _COLON, _VALUE, _FIRST_VALUE, _NEXT, _WRONG = range(7)
_VALUES = (_VALUE, _FIRST_VALUE)
_ENDS = {"}": (_FIRST_KEY, _NEXT), "]": (_FIRST_VALUE, _NEXT)}
End = Literal["whole", "cut", "malformed", "deep"]
_decoder = json.JSONDecoder()


def skip_value(cursor: Cursor, opening: str, first_keys: frozenset[str] | None = None) -> ReadSteps:
    """Go to the end of the object or list that begins with `opening`, and say how it ended.

    What does not fit is not taken: it may begin something else. With `first_keys`, an object that begins with another
    key is given up at once.
    """
    stack, state, first = [_CLOSES[opening]], _FIRST_KEY if opening == "{" else _FIRST_VALUE, first_keys
    while stack:
        found = yield _TOKENS
        if found.end:
            return "cut"
        word, key = found.before.strip(), state in {_KEY, _FIRST_KEY}
        fits = not word or (state in _VALUES and _SCALAR.fullmatch(word) is not None)
        state = _step(_NEXT if word else state, found.mark, stack) if fits else _WRONG
        if state == _WRONG or len(stack) > _DEEPEST:
            cursor.rewind_to(cursor.length - 1)
            return "malformed" if state == _WRONG else "deep"
        if found.mark == '"':
            text = yield from _string()
            if text is None:
                return "cut"
            if key and first is not None:
                if text not in first:
                    return "malformed"
                first = None
    return "whole"


def _string() -> ReadSteps:
    parts = []
    while True:
        found = yield _STRING
        if found.end:
            return None
        parts.append(found.before)
        if found.mark == '"':
            return "".join(parts)
        parts.append(found.mark)


def _step(state: int, mark: str, stack: list[str]) -> int:
    """Say what may follow a mark, and keep what is open."""
    match mark:
        case "{" | "[" if state in _VALUES:
            stack.append(_CLOSES[mark])
            return _FIRST_KEY if mark == "{" else _FIRST_VALUE
        case "}" | "]" if stack[-1] == mark and state in _ENDS[mark]:
            stack.pop()
            return _NEXT
        case "," if state == _NEXT:
            return _KEY if stack[-1] == "}" else _VALUE
        case ":" if state == _COLON:
            return _VALUE
        case '"' if state in _VALUES:
            return _NEXT
        case '"' if state in {_KEY, _FIRST_KEY}:
            return _COLON
    return _WRONG


def skip_object(cursor: Cursor) -> ReadSteps:
    """Go to the end of an object whose brace was taken; give its text, and how it ended."""
    begin = cursor.length - 1
    end: End = yield from skip_value(cursor, "{")
    return cursor.block_text()[begin:], end


def raw_fields(text: str) -> dict[str, Any] | None:
    """Give the fields of an object, each in its own spelling; None where it is no object."""
    try:
        raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return {key: bytes(value).decode() for key, value in raw.items()}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def parse_json(text: str) -> Any:
    """Read a value; raises ValueError."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise ValueError(str(problem)) from None


def split_items(text: str, begins: re.Pattern[str]) -> list[tuple[str, bool]]:
    """Split the objects of a list, and say of each whether it is whole; a bad one does not take others with it."""
    items, place = [], text.find("{")
    while place >= 0:
        try:
            end, whole = _decoder.raw_decode(text, place)[1], True
        except (ValueError, RecursionError):
            after = begins.search(text, place + 1)
            end, whole = after.start() if after is not None else len(text), False
        items.append((text[place:end].rstrip("\n ,]") if not whole else text[place:end], whole))
        place = text.find("{", end)
    return items
