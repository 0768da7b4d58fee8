"""What the beginning of a call's arguments says so far: to be shown while it arrives, never to be run.

Rules of this file:
- A preview is no dict and no call, so that nothing takes it for arguments.
- Only what cannot change any more is shown: whole values, and of the last text what has arrived. A number
  or a word that may go on is left out, and so is a key without its value.
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
    """The value of a beginning of JSON text; `complete` says whether the text is whole."""

    value: Any
    complete: bool


def partial_json(fragments: str) -> Preview:
    """Read the beginning of a call's arguments.

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
    """Cut a beginning of JSON after the last thing that cannot change, and close what is open there."""
    open_: list[str] = []
    cut = 0
    in_key = False
    for token in _TOKENS.finditer(text):
        word = token.group()
        match word[0]:
            case "{" | "[":
                open_.append(_CLOSERS[word])
                in_key = word == "{"
            case "}" | "]":
                if open_[-1:] != [word]:
                    break
                open_.pop()
            case "," | ":":
                in_key = word == "," and open_[-1:] == ["}"]
                continue
            case '"' if not token.group(1) and not in_key:
                return f'{text[: token.end()]}"{"".join(reversed(open_))}'
            case '"' if in_key or not token.group(1):
                continue
            case '"':
                pass
            case _ if token.end() == len(text):
                break
        cut = token.end()
    return text[:cut] + "".join(reversed(open_))
