"""Each thing that was asked for is named by a test: the rows of the requirements, and those of reliability.

Rules of this file:
- A row is named in the docstring of a test or in a comment beside it: `R003-01`, `rows R001-55 to R001-59`.
  Lines of the checklists are `4.1.3`: the third line of the first list.
- A row that nobody shows stands below, with the reason. One that stands there and is shown is an error too.
"""

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ASKED = {
    "R001-": (1, 62),  # three formats of tools, a table of models, a factory of clients
    "R003-": (1, 57),  # messages, roles, parts, streams
    "R004-": (1, 27),  # calls of a wire's own and calls in text
    "I-": (18, 40),  # what the sources of the others imply
    "I": (1, 15),  # text that looks like a call
    "J": (1, 18),  # faults of the loop
    "4.1.": (1, 7),
    "4.2.": (1, 8),
    "4.4.": (1, 10),
    "4.5.": (1, 6),
}
UNSHOWN: dict[str, str] = {}
NAME = re.compile(r"\b(R00\d-|I-|[IJ]|4\.\d\.)(\d{1,2})\b")
RANGE = re.compile(r"\b(R00\d-|I-|[IJ]|4\.\d\.)(\d{1,2}) to (?:R00\d-|I-|[IJ]|4\.\d\.)?(\d{1,2})\b")


def row(prefix: str, number: int) -> str:
    """Spell a row."""
    return f"{prefix}{number:02d}" if prefix.endswith("-") else f"{prefix}{number}"


def named_in(text: str) -> set[str]:
    """Find the rows that a text names."""
    found = {row(prefix, int(number)) for prefix, number in NAME.findall(text)}
    for prefix, first, last in RANGE.findall(text):
        found |= {row(prefix, number) for number in range(int(first), int(last) + 1)}
    return found


@cache
def shown() -> dict[str, list[str]]:
    """Say which files name which rows."""
    where: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        if path != Path(__file__).resolve():
            for name in named_in(path.read_text()):
                where.setdefault(name, []).append(str(path.relative_to(TESTS)))
    return where


@pytest.mark.parametrize("prefix", ASKED)
def test_each_row_is_named_by_a_test_or_told_why_not(prefix: str) -> None:
    first, last = ASKED[prefix]
    rows = [row(prefix, number) for number in range(first, last + 1)]
    assert [name for name in rows if name not in shown() and name not in UNSHOWN] == []
    assert [name for name in rows if name in shown() and name in UNSHOWN] == []


def test_rows_are_found_as_they_are_written() -> None:
    """A control."""
    text = "Rows A1, Z-01 to Z-03, and conflict 9; rows R009-1 to R009-3, I9"
    assert named_in(text) == {"R009-01", "R009-02", "R009-03", "I9"}
    assert "R009-04" not in shown()
