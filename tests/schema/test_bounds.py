"""Numbers at their edges: the bounds of an integer in each target, and how large, deep and heavy a schema may be."""

from typing import Any

import pytest

from tests.schemas import of_p
from toolwire.errors import InvalidSchema
from toolwire.schema import TARGETS
from toolwire.schema.admission import admit
from toolwire.schema.document import measure
from toolwire.schema.patterns import pattern_weight

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


def nested(count: int, innermost: Any = "x") -> Any:
    """Return a value within so many lists."""
    value = innermost
    for _ in range(count):
        value = [value]
    return value


# A value, and the number of its JSON values; None if it is refused.
SIZES: list[tuple[str, Any, int | None]] = [
    ("no value in a list", [], 1),
    ("two values in a list", [1, "x"], 3),
    ("a text below the unit of text", "x" * 63, 1),
    ("a text of one unit", "x" * 64, 2),
    ("a text below two units", "x" * 127, 2),
    ("a text of two units", "x" * 128, 3),
    ("just below the size", [0] * 99_998, 99_999),
    ("the size", [0] * 99_999, 100_000),
    ("just above the size", [0] * 100_000, None),
    ("just below the size in one text", "x" * (64 * 99_999 - 1), 99_999),
    ("the size in one text", "x" * (64 * 100_000 - 1), 100_000),
    ("just above the size in one text", "x" * (64 * 100_000), None),
    ("just below the depth", nested(254), 255),
    ("the depth", nested(255), 256),
    ("just above the depth", nested(256), None),
    ("the bits", (1 << 4096) - 1, 1),
    ("just above the bits", 1 << 4096, None),
]


@pytest.mark.parametrize(("value", "size"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
def test_a_schema_has_so_many_values_in_so_many_levels(value: Any, size: int | None) -> None:
    if size is None:
        with pytest.raises(InvalidSchema, match=r"too large|nested too deeply|more than 4,096 bits"):
            measure(value)
    else:
        assert measure(value) == size


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("levels", "fits"), [(98, True), (99, True), (100, False), (101, False)])
def test_a_schema_has_so_many_levels_of_subschemas(target: str, levels: int, fits: bool) -> None:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    if fits:
        assert of_p(target, schema)[1] == []
    else:
        with pytest.raises(InvalidSchema, match="nested too deeply: at most 100 levels"):
            of_p(target, schema)


# A pattern, the characters that it looks for, and whether it is admitted.
PATTERNS = [
    ("a", 1, True),
    ("abc", 3, True),
    ("a{3}", 3, True),
    ("(ab){3}c", 7, True),
    ("a{2,5}", 5, True),
    ("a{99999}", 99_999, True),
    ("a{100000}", 100_000, True),
    ("a{100001}", 100_001, False),
    ("(a{1000}){100}", 100_000, True),
    ("(a{1000}){101}", 101_000, False),
    ("(a{50000}){2}b", 100_001, False),
]


@pytest.mark.parametrize(("pattern", "count", "admitted"), PATTERNS)
def test_a_pattern_looks_for_so_many_characters(pattern: str, count: int, admitted: bool) -> None:
    assert pattern_weight(pattern) == count
    schema = {"type": "object", "properties": {"p": {"type": "string", "pattern": pattern}}}
    if admitted:
        admit(schema)
    else:
        with pytest.raises(InvalidSchema, match="repeats too much: more than 100,000 characters"):
            admit(schema)
