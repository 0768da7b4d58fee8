"""Parse the argument text of a call to an object, and write arguments as text.

Rule: text is never repaired. Text that two parsers could read differently, such as a duplicate key, is an error. The
tool must get exactly the arguments that the user approved.
"""

import json
from typing import Any

import msgspec

CUT_OFF_SUFFIX = " (cut off)"
"""The suffix for the text of a call that must not run, if a reader could take the text for complete."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_raw_decode = json.JSONDecoder().raw_decode


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """Parse argument text. Return the arguments, and why the text is not usable or None.

    Empty text and `null` mean no arguments.
    """
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as problem:
        if not raw.strip():
            return {}, None
        return {}, f"not JSON: {problem}"
    if type(value) is not dict:
        if value is None:
            return {}, None
        return {}, f"an object was expected, not {type_name(value)}"
    if raw.count(":") == len(value) or _is_compact(raw, value) or _has_each_key_once(raw, value):
        return value, None
    duplicate = _find_duplicate_key(raw)
    return (value, None) if duplicate is None else ({}, f"the key {duplicate!r} is given twice")


def _is_compact(raw: str, value: dict[str, Any]) -> bool:
    """Return True if encoding `value` results in exactly `raw`, so that `raw` has no duplicate key."""
    try:
        return bool(_encode(value) == raw.encode())
    except (UnicodeEncodeError, RecursionError):
        return False


def _has_each_key_once(raw: str, value: dict[str, Any]) -> bool:
    """Return True if a flat object has as many colons after quotes as keys, so that no key is a duplicate."""
    spaced = " :" in raw or "\n:" in raw or "\t:" in raw or "\r:" in raw
    return not spaced and raw.count('":') == len(value)


def format_arguments(arguments: dict[str, Any]) -> str:
    """Return `arguments` as compact JSON text."""
    try:
        return _encode(arguments).decode()
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
        return json.dumps(arguments, separators=(",", ":"))


def type_name(value: object) -> str:
    """Return the name of the JSON type of `value`, for an error message."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


_TYPE_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class _DuplicateKey(Exception):
    pass


def _find_duplicate_key(raw: str) -> str | None:
    try:
        json.loads(raw, object_pairs_hook=_reject_duplicates)
    except _DuplicateKey as signal:
        return str(signal.args[0])
    return None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        raise _DuplicateKey(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return members


def input_of(call: Any) -> dict[str, Any]:
    """Return the arguments of `call`. Text that is no JSON object is returned under the key `input`."""
    has_object = call.plain_arguments or (call.runs and not call.custom)
    return call.plain_arguments if has_object else {"input": call.raw}


def _is_foreign(call: Any, wire: str) -> bool:
    """Return True if `call` was decoded from another wire than `wire`, which it is encoded for."""
    return bool(wire) and call.opaque is not None and call.opaque.dialect != wire


def cut_off_text(raw: str, *, marked: bool) -> str:
    """Return the argument text of a call that was cut off.

    With `marked`, text that a reader could take for complete gets the suffix `CUT_OFF_SUFFIX`.
    """
    return f"{raw}{CUT_OFF_SUFFIX}" if marked and may_be_complete(raw) and not raw.endswith(CUT_OFF_SUFFIX) else raw


def may_be_complete(text: str) -> bool:
    """Return True if a reader could take `text`, or the beginning of it, for the complete arguments of a call."""
    try:
        return parse_arguments(text)[1] is None or type(_raw_decode(text.lstrip())[0]) is dict
    except (ValueError, RecursionError):
        return False


def argument_text(call: Any, wire: str = "") -> str:
    """Return the arguments of `call` as text. The received text is kept if it still means the same.

    - A call from another wire always gets an object, because not every client accepts empty text as no arguments.
    - A call from another wire that must not run gets the suffix `CUT_OFF_SUFFIX` if a client could run its text.
    """
    raw: str | None = call.raw
    if not call.complete and not call.plain_arguments:
        return cut_off_text(raw or "", marked=_is_foreign(call, wire))
    if call.error is not None and not call.plain_arguments and _is_foreign(call, wire) and may_be_complete(raw or ""):
        return f"{(raw or '').strip() or '{}'}{CUT_OFF_SUFFIX}"
    if raw is None:
        return format_arguments(call.plain_arguments)
    if call.error is None:
        try:
            is_unchanged = _decode(raw) == call.plain_arguments
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            is_unchanged = False
        if is_unchanged:
            return raw
    arguments, error = parse_arguments(raw)
    is_unchanged = call.plain_arguments == arguments and ((error is None) == (call.error is None) or not raw.strip())
    is_foreign = _is_foreign(call, wire)
    return raw if is_unchanged and not (is_foreign and error is None) else format_arguments(call.plain_arguments)
