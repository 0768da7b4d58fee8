"""A JSON object that arrives in pieces (Gemini): each piece is a value and the JSON path where it belongs.

Rules of this file:
- Missing objects and arrays on a path are created. An array grows only at its end.
- A text may arrive in several pieces. Any other value may arrive only once.
- Paths have the form `$.a.b[0]['any key']`. Other forms of JSONPath are not understood.
"""

import re
from itertools import pairwise
from typing import Any

from toolwire.errors import FrameTooLarge
from toolwire.wire.framing import LIMIT

DEPTH = 100
Key = str | int
_ABSENT: Any = object()
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPE = re.compile(r"\\(.)")


class PartialObject:
    """An object as it arrives. `root` is the object; `open` has the pieces of texts that will be continued, by path."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.open: dict[str, list[str]] = {}
        self.size: int = 0

    def add(self, path: str, value: Any, *, more: bool = False) -> bool:
        """Set a value at its path. Return False if it does not fit there.

        `more` is true if the text will be continued. Raise FrameTooLarge if all texts together are too long.
        """
        texts = self.open.pop(path, None)
        replace = texts is not None
        if type(value) is str:
            self.size += len(value)
            if self.size > LIMIT:
                raise FrameTooLarge(LIMIT)
            texts = texts or []
            texts.append(value)
            value = "" if more else "".join(texts)
            if more:
                self.open[path] = texts
        elif replace:
            return False
        return _set(self.root, parse_json_path(path), value, replace=replace)

    def value(self) -> dict[str, Any]:
        """Return the object so far, with the beginnings of unfinished texts."""
        for path, texts in self.open.items():
            _set(self.root, parse_json_path(path), "".join(texts), replace=True)
        return self.root


def parse_json_path(path: str) -> list[Key]:
    """Return the steps of a JSON path, or [] if it is not understood or deeper than `DEPTH`."""
    steps: list[Key] = []
    position = 1
    while position < len(path) and len(steps) < DEPTH:
        match = _STEP.match(path, position)
        if match is None:
            return []
        name, index, single, double = match.groups()
        text = name or single or double or ""
        steps.append(_ESCAPE.sub(r"\1", text) if index is None else int(index))
        position = match.end()
    return steps if path[:1] == "$" and position >= len(path) else []


def _set(container: Any, steps: list[Key], value: Any, *, replace: bool) -> bool:
    """Set a value in nested containers. It must be there before if `replace` is true, and must not be otherwise."""
    if not steps:
        return False
    for step, next_step in pairwise(steps):
        inner = _get(container, step)
        if inner is _ABSENT:
            inner = [] if type(next_step) is int else {}
            if not _assign(container, step, inner):
                return False
        container = inner
    return (_get(container, steps[-1]) is not _ABSENT) is replace and _assign(container, steps[-1], value)


def _get(container: Any, step: Key) -> Any:
    if type(container) is dict:
        return container.get(step, _ABSENT)
    return container[step] if type(container) is list and type(step) is int and step < len(container) else _ABSENT


def _assign(container: Any, step: Key, value: Any) -> bool:
    """Store a value in an object, or in an array at an index or at its end. Return False if it does not fit there."""
    if type(container) is dict and type(step) is str:
        container[step] = value
        return True
    if type(container) is list and type(step) is int and step <= len(container):
        container[step : step + 1] = [value]
        return True
    return False
