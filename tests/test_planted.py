"""The table of planted bugs is true of the code: each text stands once, and the code with the bug can be read."""

import ast

import pytest

from scripts.planted import PACKAGE, REPOSITORY, Bug, bugs

BUGS = bugs()


def test_there_are_at_least_sixty() -> None:
    assert len(BUGS) >= 60
    assert len({(bug.file, bug.text, bug.bug) for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_the_text_of_a_bug_stands_once_in_its_file(bug: Bug) -> None:
    source = (REPOSITORY / PACKAGE / bug.file).read_text()
    assert source.count(bug.text) == 1, f"{bug.file} has changed: the row in scripts/planted.toml has to follow it"
    ast.parse(bug.planted_in(source))
    assert bug.tests
    assert [name for name in bug.tests if not (REPOSITORY / name).exists()] == []


def test_control_a_text_that_is_not_there_is_an_error() -> None:
    bug = Bug("a bug", "loop/run.py", "one", "two", ())
    with pytest.raises(ValueError, match="stands 2 times in"):
        bug.planted_in("one, one")
    with pytest.raises(ValueError, match="stands 0 times in"):
        bug.planted_in("two")
