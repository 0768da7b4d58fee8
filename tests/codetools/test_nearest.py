"""What is said of a text that is not there: where it nearly is, and what differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.timing import within
from toolwire.codetools.matching import hint

FILE = """\
import os

def first(a, b):
\treturn a + b

def second(name):
    print("caf\u00e9", name)
    return \u201cdone\u201d

def third(x):
    for item in x:
        yield item * 2
"""

# What was asked for, what is said of it
HINTS = [
    ("    return a + b", "line 4", "white space", r"'\treturn a + b', oldText has '    return a + b'"),
    ("def first(a,b):", "line 3", "white space", "'def first(a, b):'"),
    ("def third(x):\n  for item in x:\n    yield", "lines 10-12", "white space", "'    for item in x:'"),
    ('    return "done"', "line 8", "look alike", r"\u201cdone\u201d"),
    ("cafe\u0301", "line 7", "NFC or NFD", r"'cafe\u0301'"),
    ("DEF First(a, b):", "line 3", "capital", "'DEF First(a, b):'"),
    ("def third(x):\\n    for item in x:", "lines 10-11", "escapes", ""),
    ("10: def third(x):\n11:     for item in x:\n", "lines 10-11", "line numbers", ""),
    ("import os\n\n\n", "line 1", "line breaks at its ends", ""),
    ('PRINT( "cafe\u0301", name )', "line 7", "more than one way", ""),
    ("def fourth(x):\n    for item in x:\n        yield item * 3", "lines 10-12", "", "'def third(x):'"),
    ("        yield item * 20 + 1", "line 12", "", "'        yield item * 2'"),
]


@pytest.mark.parametrize(("old", "where", "what", "difference"), HINTS)
@pytest.mark.row("B8")
def test_the_nearest_place_is_shown_and_what_differs(old: str, where: str, what: str, difference: str) -> None:
    said = hint(FILE, old)
    assert f"{where}." in said or f"{where}," in said
    assert what in said
    assert difference in said
    number = int(where.removeprefix("lines ").removeprefix("line ").partition("-")[0])
    assert f"\n{number}: {FILE.splitlines()[number - 1]}" in said


@pytest.mark.parametrize("old", ["zzz qqq www", " ", "\n\n\n\n", "\u0416" * 50])
def test_nothing_is_said_where_nothing_is_near(old: str) -> None:
    assert hint(FILE, old) == ""


def test_what_is_shown_is_bounded() -> None:
    said = hint("\n".join(f"  line {number} " + "x" * 1000 for number in range(100)), "line 7 xxx")
    assert len(said) < 1000
    lines = "\n".join(f"    value_{number} = {number}" for number in range(100))
    said = hint(lines, lines.replace("    ", "\t"))
    assert "[88 more lines]" in said
    assert len(said.splitlines()) < 20


@given(
    st.text("ab \t\n\u00e9\u0301\u201c", max_size=60),
    st.text("ab \t\n\u00e9\u0301\u201c", min_size=1, max_size=30),
)
def test_any_text_gets_a_hint_or_none(text: str, old: str) -> None:
    assert isinstance(hint(text, old), str)


@pytest.mark.slow
def test_a_hint_for_a_large_file_takes_bounded_time() -> None:
    text = "".join(f"  call_{number * 7919 % 1_000_003}(item, {number})\n" for number in range(250_000))
    with within(8):
        hint(text, "  call_x(item, 5)\n" * 1000)
        hint("x" * 10_000_000, "y" * 5_000_000)
