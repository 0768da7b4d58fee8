"""Of a sampled table the fast suite takes as few cases as show each value of each parameter."""

from itertools import product
from types import SimpleNamespace
from typing import Any

from tests.conftest import left_out

WIRES = ("openai", "anthropic", "gemini")


def table(**parameters: Any) -> list[Any]:
    """Make the cases of a table, as pytest holds them."""
    rows = [dict(zip(parameters, values, strict=True)) for values in product(*parameters.values())]
    return [Case(row) for row in rows]


class Case:
    """A case, which is itself and no other."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.callspec = SimpleNamespace(params=parameters)
        self.nodeid = f"test_it[{parameters}]"


def taken(cases: list[Any]) -> list[dict[str, Any]]:
    """Give the parameters of the cases that the fast suite takes."""
    left = {id(case) for case in left_out(cases)}
    return [case.callspec.params for case in cases if id(case) not in left]


def test_each_value_is_shown_by_few() -> None:
    found = taken(table(source=WIRES, target=WIRES, stream=(False, True)))
    assert len(found) < 6
    assert {one["source"] for one in found} == {one["target"] for one in found} == set(WIRES)
    assert {one["stream"] for one in found} == {False, True}


def test_who_takes_them_again_takes_the_same() -> None:
    cases = table(source=WIRES, target=WIRES)
    assert taken(cases) == taken(cases[::-1])[::-1]


def test_a_table_of_one_parameter_is_taken_whole() -> None:
    assert len(taken(table(source=WIRES))) == 3
