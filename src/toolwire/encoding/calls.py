"""Encode and decode the parts of calls and results that are the same in several dialects.

Rule: if a wire cannot express a value, a constant text takes its place, and the decoder reads the same value from it.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from toolwire.encoding.ledger import Ledger, kind_of_part
from toolwire.types import ToolCall
from toolwire.wire.arguments import format_arguments, parse_arguments, type_name

ERROR = "Error: "
_FIRST_CHARACTERS = frozenset({"E", " "})
_LIKE_ERROR = re.compile(r" *Error: ")
_PADDED_ERROR = re.compile(r" +Error: ")
SEE_BELOW = "[{kind} {number} attached below]"
# The keys of the five wires, of models that write calls as text, and of Gemini's streams (`partialArgs`).
_KEYS_OF_ARGUMENTS = ("arguments", "args", "input", "parameters", "partialArgs", "partial_args")


def mark_error(text: str, *, is_error: bool) -> str:
    """Return the text of a result with a mark for errors, for a wire that has no flag for them.

    Other text that begins like the mark gets a space before it, so that `read_error` does not mistake it for the mark.
    """
    if is_error:
        return ERROR + text
    if text[:1] not in _FIRST_CHARACTERS:
        return text
    return f" {text}" if _LIKE_ERROR.match(text) else text


def read_error(text: str) -> tuple[str, bool]:
    """Return the text without the mark of `mark_error`, and whether it is an error."""
    if text[:1] not in _FIRST_CHARACTERS:
        return text, False
    if text.startswith(ERROR):
        return text[len(ERROR) :], True
    return (text[1:], False) if _PADDED_ERROR.match(text) else (text, False)


def holds_value(content: Any) -> bool:
    """Return True if the content of a result is neither text nor parts. Some clients send the value of a function."""
    return content is not None and type(content) is not str and not _may_hold_parts(content)


def spell_value(text: str, value: Any) -> Any:
    """Return the value that a result was sent as, if `text` is still its text, else `text`."""
    return value if value is not UNSET and format_arguments(value) == text else text


def take_value(unparsed: dict[str, Any], key: str) -> Any:
    """Remove the content of a result from the unparsed keys, and return it, if it is a value. Else return `UNSET`."""
    return unparsed.pop(key) if holds_value(unparsed.get(key)) else UNSET


def _may_hold_parts(value: Any) -> bool:
    return type(value) is list and (not value or any(type(part) is dict and "type" in part for part in value))


def put_below(block: Any, part: Any, below: list[Any], ledger: Ledger, holder: str) -> str:
    """Append a medium of a result to `below`, and return the text that refers to it. `holder` cannot contain media."""
    below.append(block)
    medium = kind_of_part(part)
    ledger.lose("", f"tool_result_{medium}", f"{holder} contain only text: the {medium} is sent after them", "moved")
    return SEE_BELOW.format(kind=medium, number=len(below))


Arguments = tuple[dict[str, Any], str | None, str | None]
"""The arguments of a call, their text on the wire, and the reason why this text is not an object."""


def take_arguments(
    unparsed: dict[str, Any], around: Mapping[str, Any] = {}, *, objects: bool = True
) -> tuple[Arguments, bool]:
    """Remove a call's arguments from its unparsed keys. Return them, and whether there were any.

    Arguments are JSON text. With `objects`, they may be the object that some servers send. If there are none, but the
    keys in `unparsed` or `around` hold some, the call gets an error: it must not run without its arguments.
    """
    raw = unparsed.get("arguments")
    if type(raw) is str:
        del unparsed["arguments"]
        return read_arguments(raw, unparsed, around), True
    if type(raw) is dict and objects:
        del unparsed["arguments"]
        return (raw, None, None), True
    error = find_misplaced_arguments(unparsed, around) if raw is None else "arguments must be JSON text"
    return ({}, None, error), False


def take_free_text(unparsed: dict[str, Any]) -> tuple[Arguments, bool]:
    """Remove the text of a custom tool's call from its unparsed keys, and return it as `take_arguments` does."""
    return ({}, unparsed.pop("input"), None), True


def read_arguments(raw: Any, *around: Mapping[str, Any]) -> Arguments:
    """Parse arguments that are not an object. The JSON text of an object is accepted too.

    If there are no arguments, but one of the objects `around` holds some, the result has an error.
    """
    if isinstance(raw, str):
        arguments, error = parse_arguments(raw)
        if not arguments and not raw.strip():
            error = find_misplaced_arguments(*around)
        return arguments, raw, error
    if raw is None:
        return {}, None, find_misplaced_arguments(*around)
    return {}, format_arguments(raw), f"an object was expected, not {type_name(raw)}"


def find_misplaced_arguments(*objects: Mapping[str, Any]) -> str | None:
    """Return an error if one of the objects has arguments under a key of another wire, which this wire ignores."""
    for body in objects:
        for key in _KEYS_OF_ARGUMENTS:
            if body.get(key) and type(body[key]) in (dict, list, str):
                return f"its arguments came as {key!r}, where none are read"
    return None


def arguments_as_object(call: ToolCall, ledger: Ledger) -> dict[str, Any]:
    """Return a call's arguments for a wire that takes only an object. Free text is in the key `input` of one."""
    if call.custom:
        lose_free_text(ledger)
        return {"input": call.raw or ""}
    if call.error is not None and not call.plain_arguments:
        ledger.lose("raw", "bad_arguments", f"{call.error}; {ledger.dialect} accepts only an object")
    return call.plain_arguments


def lose_free_text(ledger: Ledger) -> None:
    """Report that free text is sent as an argument, on a wire where each tool takes an object."""
    detail = f"{ledger.dialect} accepts only an object: the free text is sent as the argument `input`"
    ledger.lose("custom", "custom_tool", detail, "approximated")
