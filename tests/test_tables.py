"""A table of values is walked as one test: all of it, and what goes wrong is told of the case."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Table, _can_be_walked


def half(number: int) -> None:
    if number > 8:
        pytest.skip("too large")
    assert number % 2 == 0, f"{number} is odd"


def table(request: pytest.FixtureRequest, *numbers: int) -> Table:
    """Make a table as pytest would hold it."""
    cases: list[Any] = []
    for number in numbers:
        name = f"test_half[{number}]"
        case: Any = pytest.Function.from_parent(request.node.parent, name=name, originalname=name, callobj=half)
        case.callspec = SimpleNamespace(params={"number": number})
        cases.append(case)
    return Table.from_parent(request.node.parent, name="test_half", cases=cases)


def test_all_cases_are_walked_and_each_that_went_wrong_is_told_by_its_name(request: pytest.FixtureRequest) -> None:
    walked = table(request, 1, 2, 3, 9)
    walked.runtest()
    told = [(report.nodeid.partition("::")[2], report.outcome) for report in walked.wrong]
    assert told == [("test_half[1]", "failed"), ("test_half[3]", "failed"), ("test_half[9]", "skipped")]
    assert "1 is odd" in str(walked.wrong[0].longrepr)


def test_a_table_without_fault_tells_nothing(request: pytest.FixtureRequest) -> None:
    walked = table(request, 2, 4)
    walked.runtest()
    assert (walked.wrong, walked.nodeid.partition("::")[2]) == ([], "test_half")


@pytest.mark.parametrize("number", [1, 2])
def test_a_case_that_is_given_more_than_its_values_is_a_test_of_its_own(
    request: pytest.FixtureRequest, number: int
) -> None:
    assert number
    assert not _can_be_walked(request.node)
