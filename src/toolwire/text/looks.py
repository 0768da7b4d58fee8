"""Recognise text that looks like a tool call, whether or not it is read as one.

Rule: this is a hint for a person who asks why no tool ran. Nothing runs because of it.
"""

import re

_LOOKS = re.compile(
    r"^[ \t>]*(~~~tool_call|<tool_call>|<function=[^<>\n]+>|<function_calls>|<invoke |\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<\|tool_calls?_begin\|>|```tool_call\b|<\|channel\|>commentary to=)",
    re.MULTILINE,
)
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
