"""JSON inside of a text: where a value ends, while the text arrives, and what it contains.

Rules of this file:
- Malformed JSON is detected at the first wrong character, so that it does not swallow the text after it.
- The spelling of a value is kept: arguments are reported as the model wrote them.
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
    """Skip the object or list that begins with `opening`. Return how it ended.

    A character that does not fit is not consumed, because it may begin something else. With `first_keys`, the object is
    given up at once if its first key is not one of them.
    """
    stack, state, expected_keys = [_CLOSES[opening]], _FIRST_KEY if opening == "{" else _FIRST_VALUE, first_keys
    while stack:
        hit = yield _TOKENS
        if hit.end:
            return "cut"
        word, is_key = hit.before.strip(), state in {_KEY, _FIRST_KEY}
        fits = not word or (state in _VALUES and _SCALAR.fullmatch(word) is not None)
        state = _next_state(_NEXT if word else state, hit.mark, stack) if fits else _WRONG
        if state == _WRONG or len(stack) > _DEEPEST:
            cursor.rewind_to(cursor.length - 1)
            return "malformed" if state == _WRONG else "deep"
        if hit.mark == '"':
            text = yield from _skip_string()
            if text is None:
                return "cut"
            if is_key and expected_keys is not None:
                if text not in expected_keys:
                    return "malformed"
                expected_keys = None
    return "whole"


def _skip_string() -> ReadSteps:
    """Skip a string. Return its content, or None if the text ended."""
    parts = []
    while True:
        hit = yield _STRING
        if hit.end:
            return None
        parts.append(hit.before)
        if hit.mark == '"':
            return "".join(parts)
        parts.append(hit.mark)


def _next_state(state: int, mark: str, stack: list[str]) -> int:
    """Return the state after `mark`, and update the stack of open brackets."""
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
    """Skip an object whose opening brace was consumed. Return its text, and how it ended."""
    begin = cursor.length - 1
    end: End = yield from skip_value(cursor, "{")
    return cursor.block_text()[begin:], end


def raw_fields(text: str) -> dict[str, Any] | None:
    """Return the fields of an object as raw JSON, or None if `text` is not an object."""
    try:
        raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return {key: bytes(value).decode() for key, value in raw.items()}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def parse_json(text: str) -> Any:
    """Parse a JSON value. Raises ValueError."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise ValueError(str(problem)) from None


def split_items(text: str, begins: re.Pattern[str]) -> list[tuple[str, bool]]:
    """Return the objects of a list, and whether each is complete. A malformed object leaves the others intact."""
    items, begin = [], text.find("{")
    while begin >= 0:
        try:
            end, is_complete = _decoder.raw_decode(text, begin)[1], True
        except (ValueError, RecursionError):
            after = begins.search(text, begin + 1)
            end, is_complete = after.start() if after is not None else len(text), False
        items.append((text[begin:end].rstrip("\n ,]") if not is_complete else text[begin:end], is_complete))
        begin = text.find("{", end)
    return items
