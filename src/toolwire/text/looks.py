"""What in a text looks like a call, whether or not it is read as one.

Rule: it is a hint for a person who wonders why nothing was run; nothing is run because of it.
"""

import re

_LOOKS = re.compile(
    r"^[ \t>]*(~~~tool_call|<tool_call>|<function=[^<>\n]+>|<function_calls>|<invoke |\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<\|tool_calls?_begin\|>|```tool_call\b|<\|channel\|>commentary to=)",
    re.MULTILINE,
)
_OBJECT = re.compile(r'^\s*\{\s*"(?:name|function)"\s*:\s*"[^"]+"\s*,\s*"(?:arguments|parameters)"\s*:')


def look_of_call(text: str) -> str | None:
    """Give what a text has that looks like the beginning of a call, if it has something."""
    found = _LOOKS.search(text)
    if found is not None:
        return found[1].strip()
    return "a JSON object with a name and arguments" if _OBJECT.search(text) else None
