"""What is wrong with a file of declarations, each thing with its place; all of them are told at once.

Rule: a problem reads `tools.yaml:7:5: tools[0].parameters: must be a map, not 5`: file, line, column, field,
and what would be right.
"""

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from toolwire.errors import DeclarationError

MOST = 100
LONGEST = 80
LONGEST_FIELD = 200
LONGEST_REASON = 1000
_PLAIN = re.compile(r"[^\s.\[\]\"':]+")


class TextPosition(Struct, frozen=True, gc=False):
    """Where something stands in a text; lines and columns are counted from 1."""

    line: int
    column: int


START = TextPosition(1, 1)


class Problem(Struct, frozen=True):
    """One thing that is wrong: in which file, at which place, in which field, why; and what raised it."""

    name: str
    line: int
    column: int
    field: str
    reason: str
    cause: BaseException | None = None

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.name}:{self.line}:{self.column}: {field}{self.reason}"


class Problems:
    """The problems of one file, in the order in which they were found."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: list[Problem] = []

    def add(self, place: Any, field: str, reason: str, cause: BaseException | None = None) -> None:
        """Note a problem; `place` has a line and a column. One too many ends it: nobody would read more."""
        is_last = len(self.found) + 1 == MOST
        reason = brief(reason, LONGEST_REASON) + " (no more problems are looked for)" * is_last
        field = brief(field, LONGEST_FIELD)
        self.found.append(Problem(self.name, place.line, place.column, field, reason, cause))
        if is_last:
            self.refuse()

    def refuse(self) -> None:
        """Raise what was found, if anything was."""
        if self.found:
            told = sorted(self.found, key=lambda problem: (problem.line, problem.column))
            cause = next((problem.cause for problem in told if problem.cause is not None), None)
            raise DeclarationError(told) from cause


def below(field: str, step: str | int) -> str:
    """Write the name of a field one step further down."""
    if isinstance(step, int):
        return f"{field}[{step}]"
    if not _PLAIN.fullmatch(step):
        return f"{field}[{shown(step)}]"
    return f"{field}.{step}" if field else step


def shown(value: Any) -> str:
    """Write a value as the file would, briefly."""
    match value:
        case dict():
            return "a map"
        case list():
            return "a list"
    return brief(json.dumps(value, ensure_ascii=False), LONGEST)


def brief(text: str, limit: int) -> str:
    """Cut a text where nobody would read on."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def suggestion(given: str, known: Iterable[str]) -> str:
    """Say which known word was probably meant, or which there are."""
    words = sorted(known)
    near = difflib.get_close_matches(given[:LONGEST], words, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known: {', '.join(words[:20])}{', ...' if len(words) > 20 else ''}" if words else "there are none"
