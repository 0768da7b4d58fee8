"""The forms of a call in a text: how each form begins and ends, line by line.

Rules of this file:
- `fence` is the protocol. The other forms are what models write instead. Each is read only if the caller asks for it.
- A form begins at the start of a line and ends at the end of a line. Anything else is text.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from toolwire.errors import InvalidField
from toolwire.text.tagged.zones import BLANK

FENCE = "~~~tool_call"
END = "~~~"
TAG = "<tool_call>"
TAG_END = "</tool_call>"
FUNCTION = "<function="
FUNCTION_END = "</function>"
MAX_PADDING = 64
_FUNCTION = re.compile(r"<function=[^<>\n]{1,256}>")
_FUNCTION_START = re.compile(r"<function=[^<>\n]{0,256}")


class Form(NamedTuple):
    """One form. `opens` returns whether a line's beginning opens it, or None if more of the line is needed."""

    name: str
    opens: Callable[[str, bool], bool | None]
    closes: Callable[[str], bool]
    needs_whole_text: bool = False


def _opens_fence(line: str, ended: bool) -> bool | None:
    """Return True if `line` is the opening fence with at most some white space after it."""
    after = line[len(FENCE) :]
    if not (line.startswith(FENCE) if after else FENCE.startswith(line)):
        return False
    if after.rstrip("\r").strip(" \t") or len(after) > MAX_PADDING:
        return False
    return len(line) >= len(FENCE) if ended else None


def _closes_fence(line: str) -> bool:
    return line.startswith(END) and not line[len(END) :].strip(BLANK)


def _opens_tag(line: str, ended: bool) -> bool | None:
    if line.startswith(TAG):
        return True
    return None if TAG.startswith(line) and not ended else False


def _opens_function(line: str, ended: bool) -> bool | None:
    if _FUNCTION.match(line):
        return True
    starts = FUNCTION.startswith(line) or _FUNCTION_START.fullmatch(line)
    return None if starts and not ended else False


def _opens_json(line: str, ended: bool) -> bool | None:
    bare = line.lstrip(BLANK)
    if bare:
        return bare[0] == "{"
    return False if ended or len(line) > MAX_PADDING else None


def _closes_tag(line: str) -> bool:
    return line.rstrip(BLANK).endswith(TAG_END)


def _closes_function(line: str) -> bool:
    return line.rstrip(BLANK).endswith(FUNCTION_END)


def _never(_line: str) -> bool:
    return False


_FORMS = {
    form.name: form
    for form in (
        Form("fence", _opens_fence, _closes_fence),
        Form("tool_call_tag", _opens_tag, _closes_tag),
        Form("function_tag", _opens_function, _closes_function),
        Form("bare_json", _opens_json, _never, needs_whole_text=True),
    )
}
READERS = tuple(name for name in _FORMS if name != "fence")
"""The names of the forms that can be read besides the protocol."""
PROTOCOL = (_FORMS["fence"],)


def forms_of(readers: Iterable[str]) -> tuple[Form, ...]:
    """Return the protocol's form and those of `readers`. Raises `InvalidField` for an unknown name."""
    if isinstance(readers, str):
        raise InvalidField("readers", f"must be a list of names, not {readers!r}")
    requested = list(readers)
    unknown = [name for name in requested if name not in READERS]
    if unknown:
        raise InvalidField("readers", f"must be of {', '.join(READERS)}, not {', '.join(map(repr, unknown))}")
    return (*PROTOCOL, *(_FORMS[name] for name in READERS if name in requested))
