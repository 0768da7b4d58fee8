"""The published test cases of text formats, and how to judge any parser by them.

Rules of this file:
- A parser is a function of a text and tools that returns `Expected`. In text, white space is not compared. Arguments
  are compared exactly.
- The cases are data: one file of `cases/*.json` for each format, and `cases/tools.json` for the tools.
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
    """The expected result of a parser: the text, the thinking, the calls, and the names of calls that cannot run."""

    content: str = ""
    thinking: str = ""
    calls: list[dict[str, Any]] = []
    broken: list[str] = []


class Case(Struct, frozen=True):
    """One test case: a text and what it should decode to. `issue` names a report where parsers differed."""

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
    """A field of a case that a parser decoded to another value than expected."""

    case: Case
    field: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.case.kind}: {self.field}: expected {self.expected!r}, got {self.got!r}"


_Parser = Callable[[str, list[dict[str, Any]]], Expected]


@cache
def tools_of_cases() -> list[dict[str, Any]]:
    """Return the tools that every case offers."""
    return msgspec.json.decode((_FOLDER / "tools.json").read_bytes(), type=list[dict[str, Any]])


def cases_of(name: Any) -> list[Case]:
    """Return the cases of a format, or an empty list if it has none."""
    file = _FOLDER / f"{format(name).name}.json"
    return msgspec.json.decode(file.read_bytes(), type=_Cases).cases if file.is_file() else []


def own_parser(name: Any, cut: Callable[[str], Sequence[str]] = lambda text: [text]) -> _Parser:
    """Return this library's parser of a format. `cut` splits each text into the pieces that are fed to it."""
    known = format(name)

    def parse(text: str, tools: list[dict[str, Any]]) -> Expected:
        stream = known.decode_stream(tools)
        events = [event for piece in cut(text) for event in stream.feed(piece)]
        return _to_expected(accumulate([*events, *stream.close()]))

    return parse


def _to_expected(response: Response) -> Expected:
    """Return the content of `response` in the form of the cases."""
    parts = response.message.parts
    return Expected(
        "".join(part.text for part in parts if isinstance(part, Text)),
        "".join(part.text for part in parts if isinstance(part, Thinking)),
        [{"name": call.name, "arguments": call.arguments} for call in response.tool_calls if call.runs],
        [call.name for call in response.broken_calls],
    )


def check(name: str, parser: _Parser | None = None) -> Iterator[_Difference]:
    """Run a parser on the cases of a format, and yield each difference. The default parser is our own."""
    parse = parser or own_parser(name)
    for case in cases_of(name):
        yield from compare(case, parse(case.text, tools_of_cases()))


def compare(case: Case, got: Expected) -> Iterator[_Difference]:
    """Yield the fields of `case` in which `got` differs from what is expected."""
    for field in ("content", "thinking", "calls", "broken"):
        expected, actual = getattr(case.expected, field), getattr(got, field)
        if _squeezed(expected) != _squeezed(actual):
            yield _Difference(case, field, expected, actual)


def _squeezed(value: Any) -> Any:
    return "".join(value.split()) if isinstance(value, str) else dump_json(value)
