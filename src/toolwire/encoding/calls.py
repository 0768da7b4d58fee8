"""What dialects read and write alike of calls and of their results, and what stands in for what a wire cannot say.

Rule: a stand-in is constant text, and reading it back gives exactly what it stood for.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from toolwire.encoding.ledger import Ledger, kind_of_part
from toolwire.types import ToolCall
from toolwire.wire.arguments import format_arguments, parse_arguments, type_name

ERROR = "Error: "
_STARTS = frozenset({"E", " "})
_LIKE_ERROR = re.compile(r" *Error: ")
_PADDED_ERROR = re.compile(r" +Error: ")
SEE_BELOW = "[{kind} {number} attached below]"
# On the five wires, in the text of models, and in streams of Gemini.
_NAMES_OF_ARGUMENTS = ("arguments", "args", "input", "parameters", "partialArgs", "partial_args")


def mark_error(text: str, *, is_error: bool) -> str:
    """Say in text whether a result is an error, for a wire that has no flag."""
    if is_error:
        return ERROR + text
    if text[:1] not in _STARTS:
        return text
    return f" {text}" if _LIKE_ERROR.match(text) else text


def read_error(text: str) -> tuple[str, bool]:
    """Read back what `mark_error` wrote."""
    if text[:1] not in _STARTS:
        return text, False
    if text.startswith(ERROR):
        return text[len(ERROR) :], True
    return (text[1:], False) if _PADDED_ERROR.match(text) else (text, False)


def holds_value(content: Any) -> bool:
    """Return True if the content of a result is neither text nor parts. Some clients send the value of a function."""
    return content is not None and type(content) is not str and not _may_hold_parts(content)


def spell_value(text: str, value: Any) -> Any:
    """Return the value that a result was sent as, if `text` still means it, else `text`."""
    return value if value is not UNSET and format_arguments(value) == text else text


def take_value(unparsed: dict[str, Any], key: str) -> Any:
    """Take the content of a result out of the unparsed keys if it is a value, else return `UNSET`."""
    return unparsed.pop(key) if holds_value(unparsed.get(key)) else UNSET


def _may_hold_parts(value: Any) -> bool:
    return type(value) is list and (not value or any(type(part) is dict and "type" in part for part in value))


def put_below(block: Any, part: Any, below: list[Any], ledger: Ledger, why: str) -> str:
    """Put a medium of a result below it, and give the words that stand in its place."""
    below.append(block)
    kind = kind_of_part(part)
    ledger.lose("", f"tool_result_{kind}", f"{why} hold text only; moved below", "moved")
    return SEE_BELOW.format(kind=kind, number=len(below))


Arguments = tuple[dict[str, Any], str | None, str | None]
"""The arguments of a call, the text that they came as, and why that text is no object."""


def take_arguments(
    unparsed: dict[str, Any], around: Mapping[str, Any] = {}, *, objects: bool = True
) -> tuple[Arguments, bool]:
    """Take a call's arguments out of its unparsed keys, and tell whether there were any.

    Arguments are JSON text, or the object that some servers give. If there are none, they are looked for in `around`
    as well: a call must not run without them.
    """
    given = unparsed.get("arguments")
    if type(given) is str:
        del unparsed["arguments"]
        return read_arguments(given, unparsed, around), True
    if type(given) is dict and objects:
        del unparsed["arguments"]
        return (given, None, None), True
    error = misplaced(unparsed, around) if given is None else "arguments must be JSON text"
    return ({}, None, error), False


def take_free_text(unparsed: dict[str, Any]) -> tuple[Arguments, bool]:
    """Take the text of a custom tool's call out of its unparsed keys. It has no arguments to lack."""
    return ({}, unparsed.pop("input"), None), True


def read_arguments(given: Any, *around: Mapping[str, Any]) -> Arguments:
    """Read arguments that came as no object, where one was expected: the JSON text of one is as good."""
    if isinstance(given, str):
        arguments, error = parse_arguments(given)
        if not arguments and not given.strip():
            error = misplaced(*around)
        return arguments, given, error
    if given is None:
        return {}, None, misplaced(*around)
    return {}, format_arguments(given), f"an object was expected, not {type_name(given)}"


def misplaced(*places: Mapping[str, Any]) -> str | None:
    """Say that a call without arguments has some where another wire has them, and this one reads none."""
    for place in places:
        for name in _NAMES_OF_ARGUMENTS:
            if place.get(name) and type(place[name]) in (dict, list, str):
                return f"its arguments came as {name!r}, where none are read"
    return None


def say_object(call: ToolCall, ledger: Ledger) -> dict[str, Any]:
    """Give a call's arguments where only an object can be said; free text stands in one."""
    if call.custom:
        lose_free_text(ledger)
        return {"input": call.raw or ""}
    if call.error is not None and not call.plain_arguments:
        ledger.lose("raw", "bad_arguments", f"{call.error}; {ledger.dialect} takes only an object")
    return call.plain_arguments


def lose_free_text(ledger: Ledger) -> None:
    """Lose that a tool takes free text, on a wire where each takes an object."""
    ledger.lose("custom", "custom_tool", "free text stands in the argument `input`", "approximated")
