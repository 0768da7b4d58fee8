"""Preview the arguments of a call while they arrive. A preview is for display only, and must never be executed.

Rules of this file:
- A preview is neither a dict nor a call, so that it cannot be mistaken for arguments.
- It has only values that cannot change any more: complete values, and the beginning of the last text. A number or a
  literal that may continue is left out, and so is a key without a value.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

_decode = msgspec.json.Decoder().decode
_TEXT = r'(?:[^"\\]|\\[^u]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*'
_TOKENS = re.compile(rf'"{_TEXT}("?)|[{{}}\[\],:]|[^\s{{}}\[\],:"]+', re.DOTALL)
_CLOSERS = {"{": "}", "[": "]"}
_UNREADABLE = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)


class Preview(Struct, frozen=True):
    """The value of JSON text that may be incomplete. `complete` is True if it is complete.

    >>> from toolwire import partial_json
    >>> partial_json('{"city": "Oslo", "days": 3')
    Preview(value={'city': 'Oslo'}, complete=False)
    """

    value: Any
    complete: bool


def partial_json(fragments: str) -> Preview:
    """Return a preview of the argument text `fragments`, which may be incomplete.

    The `value` is None if nothing can be shown yet.

    >>> from toolwire import partial_json
    >>> partial_json('{"city": "Lon').value
    {'city': 'Lon'}
    """
    try:
        return Preview(_decode(fragments), complete=True)
    except _UNREADABLE:
        pass
    try:
        return Preview(_decode(_close(fragments)), complete=False)
    except _UNREADABLE:
        return Preview(None, complete=False)


def _close(text: str) -> str:
    """Return `text` up to the last value that cannot change, with its open objects and arrays closed."""
    closers: list[str] = []
    end = 0
    in_key = False
    for match in _TOKENS.finditer(text):
        lexeme = match.group()
        match lexeme[0]:
            case "{" | "[":
                closers.append(_CLOSERS[lexeme])
                in_key = lexeme == "{"
            case "}" | "]":
                if closers[-1:] != [lexeme]:
                    break
                closers.pop()
            case "," | ":":
                in_key = lexeme == "," and closers[-1:] == ["}"]
                continue
            case '"' if not match.group(1) and not in_key:
                return f'{text[: match.end()]}"{"".join(reversed(closers))}'
            case '"' if in_key or not match.group(1):
                continue
            case '"':
                pass
            case _ if match.end() == len(text):
                break
        end = match.end()
    return text[:end] + "".join(reversed(closers))
