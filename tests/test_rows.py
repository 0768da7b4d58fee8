"""Each thing that was asked for is held by a test that names its row, or stands in `rows.toml` with its reason."""

import re

import pytest

from scripts.rows import TESTS, held, lists, marked, rows_in, rows_of, spelt, tree_of
from tests.corpus import found

KNOWN = {*rows_of("rows"), *rows_of("cases")}
OPEN: dict[str, str] = lists()["less"] | lists()["none"]
REFERENCES = {
    "rows": ("requirements.md", r"^\| ((?:R\d{3}|I)-\d+) \|"),
    "cases": ("reliability.md", r"^\| ([A-LNOT]\d+)\u2605? \|"),
}


@pytest.mark.parametrize(("kind", "prefix"), [(kind, prefix) for kind in REFERENCES for prefix in lists()[kind]])
def test_each_row_is_held_or_told_why_not(kind: str, prefix: str) -> None:
    rows = spelt(prefix, lists()[kind][prefix])
    assert [row for row in rows if row not in held() and row not in lists()["none"]] == []


def test_what_is_said_to_be_open_is_so() -> None:
    assert {row for row in lists()["none"] if row in held()} == set()
    assert {row for row in lists()["less"] if row not in held()} == set()
    assert {row for row in OPEN if row not in KNOWN} == set()


def test_a_row_that_is_partly_held_has_a_test_that_fails_and_no_other_has() -> None:
    typed = [(row, test) for row, test in marked((TESTS / "test_as_asked.py").read_text())]
    fails = set(lists()["fails"]["tests"])
    assert fails - {test for _, test in typed} == set()
    partly = {row for row, why in lists()["less"].items() if why.startswith("PARTIAL")}
    assert {row for row, test in typed if test in fails} == partly


def test_every_mark_stands_on_a_test_and_names_a_row_that_there_is() -> None:
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text()
        if "mark.row(" in text:
            marks = set(rows_in(tree_of(text)))
            assert (path, marks - {row for row, _ in marked(text)}) == (path, set())
            assert (path, marks - KNOWN) == (path, set())


@pytest.mark.parametrize("kind", REFERENCES)
def test_the_rows_are_those_of_the_documents_where_they_are_at_hand(kind: str) -> None:
    name, pattern = REFERENCES[kind]
    document = found("TOOLWIRE_REFERENCE", "reference") / name
    there = set(re.findall(pattern, document.read_text(), re.MULTILINE))
    assert there == {row for row in rows_of(kind) if not row.startswith("4.")}


CODED = re.compile(r"def (test_(?:r00\d_|i_|[a-t])\d+_\w*|test_\w*_rows?_[a-t]\d\w*)\(")


def test_a_test_is_named_for_what_it_shows() -> None:
    assert [name for path in sorted(TESTS.rglob("*.py")) for name in CODED.findall(path.read_text())] == []
    names = ("test_e13_a_body", "test_r002_18_a_pair", "test_i_05_calls", "test_nothing_is_fetched_row_h1")
    assert [CODED.findall(f"def {name}(") for name in names] == [[name] for name in names], "a control"


EXAMPLE = """
TABLE = [pytest.param(1, marks=pytest.mark.row("Z2")), 2]
OTHER = [pytest.param(1, marks=pytest.mark.row("Z5"))]

@pytest.mark.parametrize("n", TABLE)
@pytest.mark.row("Z1")
def test_one(n): ...

@pytest.mark.row("Z3")
class TestMore:
    @pytest.mark.row("Z4", "Z1")
    def test_two(self): ...

@pytest.mark.row("Z6")
def no_test(): ...
"""


def test_marks_are_found_where_they_may_stand() -> None:
    """A control: what is on no test is not found."""
    assert sorted(marked(EXAMPLE)) == [
        ("Z1", "TestMore::test_two"),
        ("Z1", "test_one"),
        ("Z2", "test_one"),
        ("Z3", "TestMore::test_two"),
        ("Z4", "TestMore::test_two"),
    ]
