"""The argument text of a call: read to an object, or kept with the reason why it is none.

Rule: nothing is repaired. Text that two readers could understand differently (a key given twice) is an error,
because what is shown for approval must be what runs.
"""

import json
from typing import Any

import msgspec

BROKEN = " (cut off)"
"""What is added to the text of a call that is not to be run, where it would be read as a whole one."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_raw_decode = json.JSONDecoder().raw_decode


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """Read argument text; empty text and `null` are no arguments."""
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as problem:
        if not raw.strip():
            return {}, None
        return {}, f"not JSON: {problem}"
    if type(value) is not dict:
        if value is None:
            return {}, None
        return {}, f"an object was expected, not {kind_of(value)}"
    if raw.count(":") == len(value) or _is_compact(raw, value) or _has_each_key_once(raw, value):
        return value, None
    twice = _key_given_twice(raw)
    return (value, None) if twice is None else ({}, f"the key {twice!r} is given twice")


def _is_compact(raw: str, value: dict[str, Any]) -> bool:
    """Whether writing the value gives the very same text; then no key was lost in reading."""
    try:
        return bool(_encode(value) == raw.encode())
    except (UnicodeEncodeError, RecursionError):
        return False


def _has_each_key_once(raw: str, value: dict[str, Any]) -> bool:
    """Prove it for a flat object: every key is followed by a colon, and there are as many as were read."""
    spaced = " :" in raw or "\n:" in raw or "\t:" in raw or "\r:" in raw
    return not spaced and raw.count('":') == len(value)


def format_arguments(arguments: dict[str, Any]) -> str:
    """Write arguments as the shortest text that reads back to them."""
    try:
        return _encode(arguments).decode()
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
        return json.dumps(arguments, separators=(",", ":"))


def kind_of(value: object) -> str:
    """Name a JSON value's kind for an error message."""
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class _Twice(Exception):
    pass


def _key_given_twice(raw: str) -> str | None:
    try:
        json.loads(raw, object_pairs_hook=_distinct)
    except _Twice as signal:
        return str(signal.args[0])
    return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        raise _Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return made


def input_of(call: Any) -> dict[str, Any]:
    """Give what a call was made with; text that is no JSON object stays text."""
    read = call.plain_arguments or (call.runs and not call.custom)
    return call.plain_arguments if read else {"input": call.raw}


def _came(call: Any, wire: str) -> bool:
    """Whether a call was read from another wire than the one that it is written for."""
    return bool(wire) and call.opaque is not None and call.opaque.dialect != wire


def half_text(raw: str, *, marked: bool) -> str:
    """Write the text of a call that was cut off; `marked` says that no reader may take it for a whole one."""
    return f"{raw}{BROKEN}" if marked and begins_whole(raw) and not raw.endswith(BROKEN) else raw


def begins_whole(text: str) -> bool:
    """Return True if a reader may take a text, or the beginning of it, for all arguments of a call."""
    try:
        return parse_arguments(text)[1] is None or type(_raw_decode(text.lstrip())[0]) is dict
    except (ValueError, RecursionError):
        return False


def argument_text(call: Any, wire: str = "") -> str:
    """Write a call's arguments for a wire of text: as they came, for as long as that still means the same.

    A call that came from another wire has an object: not every client reads no text as no arguments. One that cannot
    run, and whose text does not say so, is none that a client could run.
    """
    raw: str | None = call.raw
    if not call.complete and not call.plain_arguments:
        return half_text(raw or "", marked=_came(call, wire))
    if call.error is not None and not call.plain_arguments and _came(call, wire) and begins_whole(raw or ""):
        return f"{(raw or '').strip() or '{}'}{BROKEN}"
    if raw is None:
        return format_arguments(call.plain_arguments)
    if call.error is None:
        try:
            same = _decode(raw) == call.plain_arguments
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            same = False
        if same:
            return raw
    arguments, error = parse_arguments(raw)
    same = call.plain_arguments == arguments and ((error is None) == (call.error is None) or not raw.strip())
    came = _came(call, wire)
    return raw if same and not (came and error is None) else format_arguments(call.plain_arguments)
