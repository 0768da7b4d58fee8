"""The bounds of an integer: what a target without exclusive bounds is told, and that it means the same."""

from typing import Any

import pytest

from tests.schemas import of_p

INCLUSIVE = ("gemini", "gemini-openapi")
# The bounds of the schema, and the inclusive bounds that mean the same for an integer.
BOUNDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"exclusiveMaximum": 5}, {"maximum": 4}),
    ({"exclusiveMaximum": 5.0}, {"maximum": 4}),
    ({"exclusiveMaximum": 5.5}, {"maximum": 5}),
    ({"exclusiveMaximum": 4.999}, {"maximum": 4}),
    ({"exclusiveMaximum": 5.001}, {"maximum": 5}),
    ({"exclusiveMaximum": 0.5}, {"maximum": 0}),
    ({"exclusiveMaximum": 0}, {"maximum": -1}),
    ({"exclusiveMaximum": -0.5}, {"maximum": -1}),
    ({"exclusiveMaximum": -5}, {"maximum": -6}),
    ({"exclusiveMaximum": -5.5}, {"maximum": -6}),
    ({"exclusiveMinimum": 5}, {"minimum": 6}),
    ({"exclusiveMinimum": 5.0}, {"minimum": 6}),
    ({"exclusiveMinimum": 5.5}, {"minimum": 6}),
    ({"exclusiveMinimum": 4.999}, {"minimum": 5}),
    ({"exclusiveMinimum": 5.001}, {"minimum": 6}),
    ({"exclusiveMinimum": 0.5}, {"minimum": 1}),
    ({"exclusiveMinimum": 0}, {"minimum": 1}),
    ({"exclusiveMinimum": -0.5}, {"minimum": 0}),
    ({"exclusiveMinimum": -5}, {"minimum": -4}),
    ({"exclusiveMinimum": -5.5}, {"minimum": -5}),
    ({"exclusiveMinimum": 2.5, "exclusiveMaximum": 4.5}, {"minimum": 3, "maximum": 4}),
    ({"minimum": 4, "exclusiveMinimum": 5}, {"minimum": 6}),
    ({"minimum": 5, "exclusiveMinimum": 5}, {"minimum": 6}),
    ({"minimum": 6, "exclusiveMinimum": 5}, {"minimum": 6}),
    ({"minimum": 7, "exclusiveMinimum": 5}, {"minimum": 7}),
    ({"maximum": 6, "exclusiveMaximum": 5}, {"maximum": 4}),
    ({"maximum": 5, "exclusiveMaximum": 5}, {"maximum": 4}),
    ({"maximum": 4, "exclusiveMaximum": 5}, {"maximum": 4}),
    ({"maximum": 3, "exclusiveMaximum": 5}, {"maximum": 3}),
]


def accepts(schema: dict[str, Any], value: int) -> bool:
    """Return True if the bounds of a schema accept a value."""
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    above, below = schema.get("exclusiveMinimum", value - 1), schema.get("exclusiveMaximum", value + 1)
    return bool(least <= value <= most and above < value < below)


@pytest.mark.parametrize("target", INCLUSIVE)
@pytest.mark.parametrize("kinds", ["integer", ["integer", "null"]])
@pytest.mark.parametrize(("bounds", "fitted"), BOUNDS)
def test_an_exclusive_bound_of_an_integer_is_the_next_integer(
    target: str, kinds: Any, bounds: dict[str, Any], fitted: dict[str, Any]
) -> None:
    found, _ = of_p(target, {"type": kinds, **bounds})
    branch = next((one for one in found.get("anyOf", ()) if one.get("type") == "integer"), found)
    assert {key: value for key, value in branch.items() if key.endswith("imum")} == fitted
    assert [type(value) for value in fitted.values()] == [int] * len(fitted)
    assert [accepts(fitted, value) for value in range(-9, 10)] == [accepts(bounds, value) for value in range(-9, 10)]


@pytest.mark.parametrize("target", INCLUSIVE)
@pytest.mark.parametrize("kinds", ["number", ["integer", "number"]])
@pytest.mark.parametrize("bounds", [{"exclusiveMaximum": 5}, {"exclusiveMinimum": 5.5}])
def test_an_exclusive_bound_of_a_number_is_described(target: str, kinds: Any, bounds: dict[str, Any]) -> None:
    found, notes = of_p(target, {"type": kinds, **bounds})
    [(keyword, value)] = bounds.items()
    assert f"{keyword}: {value}" in str(found)
    assert not {"minimum", "maximum"} & found.keys()
    assert (keyword, "described") in notes
