"""What stands in for things that a wire cannot say, each with the way back.

Rule: a stand-in is constant text, and reading it back gives exactly what it stood for.
"""

import re

ERROR = "Error: "
STARTS = frozenset({"E", " "})
_LIKE_ERROR = re.compile(r" *Error: ")
_PADDED_ERROR = re.compile(r" +Error: ")
REMINDER = "<system-reminder>", "</system-reminder>"
NO_RESULT = "no result was provided for this call"
BEGINNING = "(the conversation begins)"
JSON = "Answer in JSON."
SEE_BELOW = "[{kind} {number} attached below]"


def mark_error(text: str, *, is_error: bool) -> str:
    """Say in text whether a result is an error, for a wire that has no flag."""
    if is_error:
        return ERROR + text
    if text[:1] not in STARTS:
        return text
    return f" {text}" if _LIKE_ERROR.match(text) else text


def read_error(text: str) -> tuple[str, bool]:
    """Read back what `mark_error` wrote."""
    if text.startswith(ERROR):
        return text[len(ERROR) :], True
    return (text[1:], False) if _PADDED_ERROR.match(text) else (text, False)


def remind(text: str) -> str:
    """Wrap a system message that has to stand in a user's turn."""
    return f"{REMINDER[0]}\n{text}\n{REMINDER[1]}"
