"""The published cases, and what a parser makes of them: any parser, not only ours.

Rules of this file:
- A parser is a function of a case's text and tools that gives `content`, `thinking`, `calls` and `broken`, as the cases
  have them. White space is not compared in words; in arguments everything is.
- Cases are data: `cases/*.json`, one file for each format, with the tools beside them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.streams.accumulation import accumulate
from toolwire.text.format import format
from toolwire.text.values import dump_json
from toolwire.types import Response, Text, Thinking
from toolwire.types.readable import readable

_FOLDER = Path(__file__).parent / "cases"


class Expected(Struct, frozen=True):
    """What a text says: words, thoughts, calls with name and arguments, and the names of calls that are broken."""

    content: str = ""
    thinking: str = ""
    calls: list[dict[str, Any]] = []
    broken: list[str] = []


class Case(Struct, frozen=True):
    """One text, and what it says; `issue` is where engines were known to differ."""

    kind: str
    text: str
    expected: Expected
    issue: str = ""


@readable
class _Cases(Struct):
    format: str
    tools: str
    cases: list[Case]


class _Difference(Struct, frozen=True):
    """A case that a parser read otherwise: the field, and both values."""

    case: Case
    field: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.case.kind}: {self.field}: expected {self.expected!r}, got {self.got!r}"


_Parser = Callable[[str, list[dict[str, Any]]], Expected]


@cache
def tools_of_cases() -> list[dict[str, Any]]:
    """Give the tools that every case offers."""
    return msgspec.json.decode((_FOLDER / "tools.json").read_bytes(), type=list[dict[str, Any]])


def cases_of(name: Any) -> list[Case]:
    """Give the cases of a format; none where there are none."""
    file = _FOLDER / f"{format(name).name}.json"
    return msgspec.json.decode(file.read_bytes(), type=_Cases).cases if file.is_file() else []


def own_parser(name: Any, cut: Callable[[str], Sequence[str]] = lambda text: [text]) -> _Parser:
    """Give our own parser of a format; `cut` says in which pieces it gets the text."""
    known = format(name)

    def parse(text: str, tools: list[dict[str, Any]]) -> Expected:
        stream = known.decode_stream(tools)
        events = [event for piece in cut(text) for event in stream.feed(piece)]
        return _to_expected(accumulate([*events, *stream.close()]))

    return parse


def _to_expected(response: Response) -> Expected:
    """Give what a response says as the cases have it."""
    parts = response.message.parts
    return Expected(
        "".join(part.text for part in parts if isinstance(part, Text)),
        "".join(part.text for part in parts if isinstance(part, Thinking)),
        [{"name": call.name, "arguments": call.arguments} for call in response.tool_calls if call.runs],
        [call.name for call in response.broken_calls],
    )


def check(name: str, parser: _Parser | None = None) -> Iterator[_Difference]:
    """Judge a parser by the cases of a format, and give each difference."""
    parse = parser or own_parser(name)
    for case in cases_of(name):
        yield from compare(case, parse(case.text, tools_of_cases()))


def compare(case: Case, got: Expected) -> Iterator[_Difference]:
    """Compare what was read with what a case says."""
    for field in ("content", "thinking", "calls", "broken"):
        wanted, given = getattr(case.expected, field), getattr(got, field)
        if _squeezed(wanted) != _squeezed(given):
            yield _Difference(case, field, wanted, given)


def _squeezed(value: Any) -> Any:
    return "".join(value.split()) if isinstance(value, str) else dump_json(value)
