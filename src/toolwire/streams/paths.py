"""A JSON object that is told in pieces: each is a value, with the JSON path of its place.

Rules of this file:
- Objects and arrays grow on the way to a place; an array grows at its end only.
- A text may come in several pieces. Nothing else is told twice.
- A path is `$.a.b[0]['any key']`, and no other kind of it.
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


class ObjectSoFar:
    """One object as it arrives; `open` holds the texts in it that are to be continued."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self.open: dict[str, list[str]] = {}
        self.size: int = 0

    def add(self, path: str, value: Any, *, more: bool = False) -> bool:
        """Put a value where its path says; whether it fits there. `more` says that a text goes on."""
        texts = self.open.pop(path, None)
        again = texts is not None
        if type(value) is str:
            self.size += len(value)
            if self.size > LIMIT:
                raise FrameTooLarge(LIMIT)
            texts = texts or []
            texts.append(value)
            value = "" if more else "".join(texts)
            if more:
                self.open[path] = texts
        elif again:
            return False
        return _put(self.told, read_path(path), value, again=again)

    def value(self) -> dict[str, Any]:
        """Give the object so far, with the beginnings of texts."""
        for path, texts in self.open.items():
            _put(self.told, read_path(path), "".join(texts), again=True)
        return self.told


def read_path(path: str) -> list[Key]:
    """Read the steps of a path; none where it is not understood, or deeper than anyone would go."""
    steps: list[Key] = []
    place = 1
    while place < len(path) and len(steps) < DEPTH:
        match = _STEP.match(path, place)
        if match is None:
            return []
        name, index, single, double = match.groups()
        text = name or single or double or ""
        steps.append(_ESCAPE.sub(r"\1", text) if index is None else int(index))
        place = match.end()
    return steps if path[:1] == "$" and place >= len(path) else []


def _put(here: Any, steps: list[Key], value: Any, *, again: bool) -> bool:
    if not steps:
        return False
    for step, after in pairwise(steps):
        inner = _find(here, step)
        if inner is _ABSENT:
            inner = [] if type(after) is int else {}
            if not _store(here, step, inner):
                return False
        here = inner
    return (_find(here, steps[-1]) is not _ABSENT) is again and _store(here, steps[-1], value)


def _find(here: Any, step: Key) -> Any:
    if type(here) is dict:
        return here.get(step, _ABSENT)
    return here[step] if type(here) is list and type(step) is int and step < len(here) else _ABSENT


def _store(here: Any, step: Key, value: Any) -> bool:
    """Store a value in an object, or in an array in its place or at its end; whether that can be done."""
    if type(here) is dict and type(step) is str:
        here[step] = value
        return True
    if type(here) is list and type(step) is int and step <= len(here):
        here[step : step + 1] = [value]
        return True
    return False
