"""Recognise text that looks like a tool call, whether or not it is read as one.

Rule: this is a hint for a person who asks why no tool ran. Nothing runs because of it.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

_LOOKS = re.compile(
    r"^[ \t>]*(~~~tool_call|<tool_call>|<function=[^<>\n]+>|<function_calls>|<invoke |\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<\|tool_calls?_begin\|>|```tool_call\b|<\|channel\|>commentary to=)",
    re.MULTILINE,
)
_FENCED = re.compile(r"\A```\w*[ \t]*\n(.*?)\n?```\Z", re.DOTALL)
_EXPRESSION = re.compile(r"\[?\s*([\w.-]+?)(?:\.call)?\s*\(.*\)\s*[\];]?", re.DOTALL)
_DEEP = 3
_OBJECT = re.compile(r'^\s*\{\s*"(?:name|function)"\s*:\s*"[^"]+"\s*,\s*"(?:arguments|parameters)"\s*:')


def look_of_call(text: str) -> str | None:
    """Return the part of `text` that looks like the beginning of a call, or None.

    >>> from toolwire import text_tagged
    >>> text_tagged.look_of_call("It is sunny.") is None
    True
    """
    match = _LOOKS.search(text)
    if match is not None:
        return match[1].strip()
    return "a JSON object with a name and arguments" if _OBJECT.search(text) else None


def is_sole_call(text: str, offered: Collection[str]) -> bool:
    """Return True if the whole text is one call of an offered tool, in a form that no format may have.

    It is a call expression (`f(x=1)`), or JSON in which an object names the tool beside another object.
    """
    text = text.strip()
    fenced = _FENCED.match(text)
    text = (fenced[1] if fenced is not None else text).removeprefix("<|python_tag|>").strip()
    expression = _EXPRESSION.fullmatch(text)
    if expression is not None:
        return expression[1] in offered
    if text[:1] not in {"{", "["}:
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return any(_names_tool(one, offered) for one in _objects_in(value, _DEEP))


def _objects_in(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner if depth else ():
        yield from _objects_in(one, depth - 1)


def _names_tool(value: dict[str, Any], offered: Collection[str]) -> bool:
    names = [one for one in value.values() if isinstance(one, str) and one in offered]
    return bool(names) and any(isinstance(one, dict) for one in value.values())
