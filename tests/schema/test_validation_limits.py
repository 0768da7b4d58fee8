"""What a hostile schema or call may cost: nothing hangs, nothing raises, nothing slips through."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.schemas import INTEGER, STRING, Schema, around
from tests.timing import least, within
from toolwire.errors import InvalidSchema, SchemaRecursive
from toolwire.schema.validator import Validator

pytestmark = pytest.mark.slow  # what is given is large


def of_p(schema: Any, value: Any, **more: Any) -> list[str]:
    return Validator(around(schema, **more)).problems({"p": value})


LOOPS: list[Schema] = [
    {"$ref": "#"},
    {"allOf": [{"$ref": "#"}]},
    {"not": {"$ref": "#"}},
    {"if": {"$ref": "#"}},
    {"dependentSchemas": {"a": {"$ref": "#"}}},
    {"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]},
    {"$anchor": "x", "oneOf": [{"$ref": "#x"}]},
    {"$id": "https://e.org/s", "allOf": [{"$ref": "https://e.org/s"}]},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    around({"$ref": "#/properties/p"}),
]


@pytest.mark.parametrize("schema", LOOPS)
@pytest.mark.row("H2")
def test_a_loop_that_goes_into_nothing_is_refused(schema: Schema) -> None:
    with pytest.raises(SchemaRecursive, match="leads back to itself without going into the value"):
        Validator(schema)


CYCLES: list[Schema] = [
    {"properties": {"p": {"$ref": "#"}}},
    {"additionalProperties": {"$ref": "#"}},
    {"$dynamicAnchor": "x", "properties": {"p": {"$dynamicRef": "#x"}}},
    {"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"p": {"$recursiveRef": "#"}}},
    {
        "type": "object",
        "anyOf": [{"required": ["n"]}, {"properties": {"p": {"$ref": "#"}}, "required": ["p"]}],
    },
]


@pytest.mark.parametrize("schema", CYCLES)
@pytest.mark.row("H2")
def test_a_cycle_that_goes_into_the_value_is_followed(schema: Schema) -> None:
    value: Any = {"n": 1}
    for _ in range(100):
        value = {"p": value}
    with within(2):
        assert Validator(schema).problems(value) == []


def nested(levels: int, step: Callable[[Any], Any], innermost: Any) -> Any:
    value = innermost
    for _ in range(levels):
        value = step(value)
    return value


def of_defs(count: int, step: Callable[[Any], Any], last: Any = STRING) -> Schema:
    """Make definitions of which each refers to the next."""
    defs = {f"d{index}": step({"$ref": f"#/$defs/d{index + 1}"}) for index in range(count)}
    return around({"$ref": "#/$defs/d0"}, **{"$defs": {**defs, f"d{count}": last}})


BACK = {"properties": {"p": {"$ref": "#/$defs/d0"}}}
TOO_MUCH: dict[str, Callable[[], Schema]] = {
    "5,000 deep": lambda: around(nested(5000, lambda below: {"items": below}, STRING)),
    "100,000 deep": lambda: around(nested(100_000, lambda below: {"allOf": [below]}, STRING)),
    "10 MiB": lambda: {"properties": {f"p{index}": {**STRING, "default": "x" * 1000} for index in range(10_000)}},
    "allOf doubling": lambda: of_defs(20, lambda ref: {"allOf": [ref, ref]}),
    "anyOf doubling": lambda: of_defs(60, lambda ref: {"anyOf": [ref, ref]}),
    "properties doubling": lambda: of_defs(40, lambda ref: {"allOf": [{"properties": {"a": ref}}] * 2}),
    "recursive doubling": lambda: of_defs(14, lambda ref: {"allOf": [ref, ref]}, BACK),
    "a million members": lambda: around({"enum": list(range(1_000_000))}),
}


@pytest.mark.parametrize("name", TOO_MUCH)
@pytest.mark.row("H2")
def test_what_would_cost_too_much_is_refused(name: str) -> None:
    with within(5), pytest.raises(InvalidSchema, match=r"too large|too deep|multiplies"):
        Validator(TOO_MUCH[name]())


MUCH: dict[str, tuple[Schema, Any]] = {
    "long chain": (of_defs(1000, lambda ref: {"allOf": [ref]}), 1),
    "long chain of alternatives": (of_defs(500, lambda ref: {"anyOf": [ref, INTEGER]}), None),
    "doubling": (of_defs(14, lambda ref: {"allOf": [ref, ref]}), 1),
    "recursive doubling": (
        of_defs(7, lambda ref: {"allOf": [ref, ref]}, {**BACK, "required": ["q"]}),
        nested(100, lambda below: {"p": below, "q": 1}, {}),
    ),
    "recursive alternatives": (
        around(
            {"$ref": "#/$defs/d"},
            **{
                "$defs": {
                    "d": {
                        "anyOf": [
                            {
                                "properties": {"p": {"$ref": "#/$defs/d"}, f"q{index}": {"const": 1}},
                                "required": ["p"],
                            }
                            for index in range(10)
                        ]
                    }
                }
            },
        ),
        nested(100, lambda below: {"p": below}, {}),
    ),
    "many wrong items": (around({"anyOf": [{"items": STRING}, {"type": "null"}]}), [1] * 300_000),
    "many equal items": (
        around({"uniqueItems": True}),
        [{"a": [1, {"b": index % 9000}]} for index in range(10_000)],
    ),
    "many unknown fields": (
        around({"properties": {f"name{index}": {} for index in range(500)}, "additionalProperties": False}),
        {f"nam{index}": 1 for index in range(20_000)},
    ),
    "many literals": (
        around({"items": {"enum": [[index] for index in range(5000)]}}),
        [[index] for index in range(5000)] + [1],
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "recursive alternatives" else ()) for name in MUCH],
)
@pytest.mark.row("H2")
def test_what_costs_much_is_answered_in_time(name: str) -> None:
    schema, value = MUCH[name]
    with within(10):
        told = Validator(schema).problems({"p": value})
    assert told
    assert len(told) <= 21


PATTERNS: list[str] = ["(", "[a", "a{2,1}", "(?<n>", "*", "a{1000}{1000}"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
@pytest.mark.row("H3")
def test_a_bad_pattern_is_refused(pattern: str, keyword: str) -> None:
    limit: Any = pattern if keyword == "pattern" else {pattern: True}
    with pytest.raises(InvalidSchema) as caught:
        Validator(around({keyword: limit}))
    assert caught.value.path.startswith(f"properties.p.{keyword}")
    assert repr(pattern) in str(caught.value)


GOOD_PATTERNS: list[tuple[str, str, str]] = [
    (r"\p{L}+", "é", "1"),
    (r"^\d{4}-\d{2}$", "2024-01", "2024-1"),
    (r"^(?!\.)(?!.*\.\.)[a-z.]+@[a-z]+$", "a.b@c", "a..b@c"),
    (r"(?=.*\d)(?=.*[a-z])", "a1", "aa"),
    (r"^\w{1,255}$", "a" * 255, "a" * 256),
    (r"^[\w./-]{1,4096}$", "a/b", "a b"),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), GOOD_PATTERNS)
@pytest.mark.row("H3")
def test_patterns_of_the_draft_are_followed(pattern: str, good: str, bad: str) -> None:
    assert of_p({"pattern": pattern}, good) == []
    assert of_p({"pattern": pattern}, bad)[0].startswith("field p: value ")
    assert of_p({"not": {"pattern": pattern}}, bad) == []
    assert of_p({"not": {"pattern": pattern}}, good) != []


RANDOM_TEXT = "".join(random.Random(1).choices("ab", k=200_000))  # noqa: S311 - the same each time
SLOW_PATTERNS: dict[str, tuple[str, str]] = {
    "exponential": ("^(a+)+$", "a" * 200_000 + "b"),
    "alternatives": ("^(a|aa)+$", "a" * 200_000 + "b"),
    "with look-ahead": ("^(?=a)(a|aa)+$", "a" * 200_000 + "b"),
    "steps": ("^((?=a)a|(?=a)aa)+$", "a" * 2000 + "b"),
    "back-reference": (r"^(a*)*\1b$", "a" * 5000),
    "heavy": ("(?:[ab]{1,200}a){1,40}c", RANDOM_TEXT),
}


@pytest.mark.parametrize("name", SLOW_PATTERNS)
@pytest.mark.parametrize("keyword", ["pattern", "not"])
@pytest.mark.row("H3")
def test_a_slow_pattern_ends_and_lets_nothing_through(name: str, keyword: str) -> None:
    pattern, text = SLOW_PATTERNS[name]
    schema: Any = {"pattern": pattern} if keyword == "pattern" else {"not": {"pattern": pattern}}
    with within(5):
        told = of_p(schema, text)
        linear = name in ("exponential", "alternatives")
        assert (told == []) == (keyword == "not" and linear)
        assert of_p({"items": schema}, [text] * 50)[:1] == told[:1] or told != [] or linear


@pytest.mark.row("H3")
def test_many_texts_together_are_bounded() -> None:
    with within(10):
        told = of_p({"items": {"pattern": "^(?=a)(a|aa)+$"}}, ["a" * 5000] * 1000)
    assert told == ["arguments: too much text for the patterns of this schema (more than 30,000,000 steps); send less"]


UNMEETABLE: list[tuple[Schema, str]] = [
    ({"multipleOf": 0}, "properties.p.multipleOf: must be a number above 0, not 0"),
    ({"multipleOf": -1}, "properties.p.multipleOf: must be a number above 0, not -1"),
    ({"multipleOf": math.inf}, "properties.p.multipleOf: is inf, which is not a JSON number"),
    ({"minimum": math.nan}, "properties.p.minimum: is nan, which is not a JSON number"),
    ({"enum": []}, "properties.p.enum: must be a list of at least one value, not an empty list"),
    ({"minimum": 3, "maximum": 1}, "properties.p.minimum: minimum 3 is above maximum 1"),
    ({"minLength": 3, "maxLength": 1}, "properties.p.minLength: minLength 3 is above maxLength 1"),
    (
        {"exclusiveMinimum": 3, "maximum": 3},
        "properties.p.exclusiveMinimum: exclusiveMinimum 3 leaves nothing",
    ),
    ({"minimum": 3, "exclusiveMaximum": 3}, "properties.p.minimum: minimum 3 leaves nothing below"),
]


@pytest.mark.parametrize(("schema", "message"), UNMEETABLE)
@pytest.mark.row("H4")
def test_what_no_value_can_meet_is_refused(schema: Schema, message: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        Validator(around(schema))
    assert str(caught.value).startswith(message)


NUMBERS: list[tuple[Schema, Any, bool]] = [
    ({"multipleOf": 0.01}, 1e308, True),
    ({"multipleOf": 0.01}, 19.99, True),
    ({"multipleOf": 0.01}, 19.995, False),
    ({"multipleOf": 1e-300}, 1e308, True),
    ({"const": 1}, True, False),
    ({"const": True}, 1, False),
    ({"const": 1}, 1.0, True),
    ({"enum": [0]}, False, False),
    ({"enum": [[1]]}, [True], False),
    ({"uniqueItems": True}, [1, True, "1"], True),
    ({"const": 2**53 + 1}, 2**53, False),
    ({"maximum": 2**53}, 2**53 + 1, False),
    ({"const": 2**70}, 2**70, True),
    ({"type": "integer"}, 2**63, True),
    ({"type": "integer"}, 1.0, True),
    ({"type": "integer"}, 0.1, False),
    ({"const": 0.1}, 0.1, True),
    ({"minimum": 0}, -0.0, True),
    ({"type": "integer"}, 10**1000, True),
]


@pytest.mark.parametrize(("schema", "value", "valid"), NUMBERS)
@pytest.mark.row("G4", "H4")
def test_numbers_are_exact(schema: Schema, value: Any, valid: bool) -> None:
    assert (of_p(schema, value) == []) == valid


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def multiplied() -> Any:
    value: Any = ["x"] * 10
    for _ in range(50):
        value = [value] * 10
    return value


class Text(str):
    __slots__ = ()


NO_JSON: dict[str, tuple[Any, str]] = {
    "nan": ({"a": math.nan}, "field a: is nan, which is not a JSON number"),
    "inf": ({"a": [0, -math.inf]}, "field a[1]: is -inf, which is not a JSON number"),
    "huge": ({"a": 10**5000}, "field a: is an integer of more than 4,096 bits"),
    "surrogate": ({"a": {"b": "\ud800"}}, "field a.b: holds half of a surrogate pair, which is not a character"),
    "key of a surrogate": (
        {"\udfff": 1},
        "arguments: has a key that holds half of a surrogate pair, which is",
    ),
    "key of a number": ({"a": {1: 2}}, "field a: has a key that is not a string, but a Python int"),
    "key of null": ({None: 2}, "arguments: has a key that is not a string, but a Python NoneType"),
    "long key": ({"x" * 2**20: 1}, "arguments: has a key of more than 1,000 characters"),
    "tuple": ({"a": (1,)}, "field a: is not a JSON value, but a Python tuple"),
    "bytes": ({"a": b"x"}, "field a: is not a JSON value, but a Python bytes"),
    "object": ({"a": object()}, "field a: is not a JSON value, but a Python object"),
    "kind of text": ({"a": Text("x")}, "field a: is not a JSON value, but a Python Text"),
    "deep": ({"a": nested(200, lambda below: [below], 1)}, "arguments: is nested more than 128 levels deep"),
    "100,000 deep": (
        {"a": nested(100_000, lambda below: {"a": below}, 1)},
        "arguments: is nested more than 128 levels deep",
    ),
    "cyclic": ({"a": cyclic()}, "arguments: is nested more than 128 levels deep"),
    "multiplied": ({"a": multiplied()}, "arguments: has more than 1,000,000 values"),
}


@pytest.mark.parametrize("name", NO_JSON)
@pytest.mark.row("G3", "G4", "G5", "G7")
def test_what_is_no_json_is_a_problem(name: str) -> None:
    refused(*NO_JSON[name])


@pytest.mark.slow
@pytest.mark.row("G7")
def test_a_million_keys_are_too_many() -> None:
    many = {f"k{index}": 1 for index in range(1_000_001)}
    refused(many, "arguments: has more than 1,000,000 values")


def refused(value: Any, message: str) -> None:
    for schema in ({}, around(STRING), {"additionalProperties": {"$ref": "#"}}):
        with within(10):
            told = Validator(schema, sensitive={"token"}).problems(value)
        assert len(told) == 1
        assert told[0].startswith(message)


@pytest.mark.row("G3", "G5", "G7")
def test_what_json_can_say_is_validated() -> None:
    """Control: depth, text and size below the limits are no problem."""
    anything = Validator({})
    deep = nested(126, lambda below: [below], 1)
    for value in (deep, "\x00", "\uffff", "\ufeff", "😀", "x" * 20_000_000, list(range(100_000)), 2**4095):
        with within(2):
            assert anything.problems({"a": value}) == []


def test_what_a_small_call_costs() -> None:
    """A bound that only a mistake of order would pass; the figures stand in the benchmarks."""
    schema = {
        "type": "object",
        "properties": {"city": STRING, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": INTEGER},
        "required": ["city"],
        "additionalProperties": False,
    }
    validator, arguments = Validator(schema), {"city": "Tokyo", "unit": "celsius", "days": 3}
    assert least(lambda: validator.problems(arguments), 200) < 20e-6
    assert least(lambda: Validator(schema), 200) < 1000e-6
