"""The arguments of a call, as what a function gets: read, copied, and never more than the schema shows."""

import copy
import datetime as dt
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.resolvers.functions.annotation_shapes import Json, Movie, Point
from tests.timing import least
from toolwire.errors import InvalidField
from toolwire.resolvers.functions.signature import Signature, read_signature


def call(function: Callable[..., Any], arguments: dict[str, Any], context: Any = None) -> Any:
    given, keywords = read_signature(function).bind(arguments, context)
    return function(*given, **keywords)


def places(a: int, b: int = 2, /, c: int = 3, *rest: int, d: int = 4, **extra: int) -> Any:
    return a, b, c, rest, d, extra


def only_places(a: int = 1, b: int = 2, c: int = 3, /) -> Any:
    return a, b, c


def with_rest(a: int, b: int = 2, *rest: int) -> Any:
    return a, b, rest


def middle(a: int, context: Any, b: int = 2, /, *rest: int) -> Any:
    return a, context, b, rest


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (places, {"a": 1}, (1, 2, 3, (), 4, {})),
        (places, {"d": 9, "c": 8, "b": 7, "a": 6}, (6, 7, 8, (), 9, {})),
        (places, {"a": 1, "c": 5}, (1, 2, 5, (), 4, {})),
        (places, {"a": 1, "rest": [7, 8]}, (1, 2, 3, (7, 8), 4, {})),
        (places, {"a": 1, "rest": [], "x": 1}, (1, 2, 3, (), 4, {"x": 1})),
        (places, {"a": 1, "rest": [7], "d": 0, "x": 1}, (1, 2, 3, (7,), 0, {"x": 1})),
        (only_places, {}, (1, 2, 3)),
        (only_places, {"b": 5}, (1, 5, 3)),
        (only_places, {"c": 5}, (1, 2, 5)),
        (with_rest, {"a": 1, "rest": [9]}, (1, 2, (9,))),
        (with_rest, {"rest": [9], "b": 5, "a": 1}, (1, 5, (9,))),
        (middle, {"a": 1}, (1, "C", 2, ())),
        (middle, {"a": 1, "rest": [9]}, (1, "C", 2, (9,))),
    ],
)
def test_every_kind_of_parameter_gets_its_argument(function: Any, arguments: dict[str, Any], result: Any) -> None:
    assert call(function, arguments, "C") == result


# Strict, no coercion. 5.0 is an integer, as JSON Schema has it.
@pytest.mark.parametrize(
    ("annotation", "value", "valid"),
    [
        (int, "5", False),
        (int, True, False),
        (int, 5.0, True),
        (int, 5.5, False),
        (int, None, False),
        (bool, 1, False),
        (bool, 0, False),
        (bool, "true", False),
        (float, "5", False),
        (float, True, False),
        (float, 5, True),
        (str, 5, False),
        (str, True, False),
        (list[int], "a", False),
        (list[str], "a", False),
        (dict[str, int], [], False),
        (list[int], [True], False),
        (Point, {"x": "1"}, False),
        (Point, {"x": True}, False),
    ],
)
@pytest.mark.row("G10")
def test_nothing_is_coerced(annotation: Any, value: Any, valid: bool) -> None:
    def function(it: int) -> None: ...

    function.__annotations__["it"] = annotation
    signature = read_signature(function)
    assert jsonschema_rs.is_valid(signature.parameters, {"it": value}) is valid
    if valid:
        assert signature.bind({"it": value})[1]["it"] == value
        return
    with pytest.raises(InvalidField, match=r"^it"):
        signature.bind({"it": value})


@pytest.mark.row("G10")
def test_a_number_that_is_whole_is_an_int() -> None:
    assert [type(one) for one in call(lambda *rest: rest, {"rest": [5.0]})] == [float]

    def typed(a: int, b: float, *rest: int) -> Any:
        return a, b, rest

    made = call(typed, {"a": 5.0, "b": 2, "rest": [1.0]})
    assert repr(made) == "(5, 2.0, (1,))"


STRANGE = [
    "__proto__",
    "__class__",
    "self",
    "cls",
    "*args",
    "**kwargs",
    "args",
    "kwargs",
    "return",
    "",
    "a b",
    "é",
]
STRANGE += ["__init__", "__dict__", "context", "function", "name", "value", "\u0000", "None", "made", "0"]


# Keys are data or refused; they never reach what the schema does not show.
@pytest.mark.parametrize("key", STRANGE)
@pytest.mark.row("G8")
def test_a_key_that_is_no_parameter_is_refused(key: str) -> None:
    def function(a: int, context: Any = None) -> Any:
        return a, context

    signature = read_signature(function)
    arguments = {"a": 1, key: "x"}
    assert not jsonschema_rs.is_valid(signature.parameters, arguments)
    with pytest.raises(InvalidField, match=r"is not a parameter; there are: a$"):
        signature.bind(arguments, "C")


class Thing:
    def method(self, a: int, /, b: int = 0, *rest: int, context: Any = None, **extra: Any) -> Any:
        return self, a, b, rest, context, extra


@pytest.mark.parametrize("key", [*STRANGE, "a", "b", "rest"])
@pytest.mark.row("G8")
def test_a_key_of_a_function_that_takes_any_is_data(key: str) -> None:
    thing = Thing()
    signature = read_signature(thing.method)
    arguments = {"a": 1, key: [7] if key == "rest" else 5}
    if key in ("self", "context"):
        with pytest.raises(InvalidField, match=rf"^{key} is not a parameter"):
            signature.bind(arguments, "C")
        return
    given, keywords = signature.bind(arguments, "C")
    itself, a, b, rest, context, extra = thing.method(*given, **keywords)
    assert (itself, context) == (thing, "C")
    named = {"a": a, "b": b, "rest": list(rest)}
    assert {**named, **extra}[key] == arguments[key]
    assert extra.keys() == {key} - named.keys()


class Open:
    def method(self, **extra: Any) -> Any:
        return self, extra


def test_the_control_python_itself_lets_keys_reach_the_object() -> None:
    with pytest.raises(InvalidField, match=r"^self is not a parameter"):
        read_signature(Open().method).bind({"self": 5})
    arguments: dict[str, Any] = {"self": 5}
    assert Open.method(**arguments) == (5, {})
    with pytest.raises(TypeError, match="multiple values for argument 'self'"):
        Open().method(**arguments)


def test_skipped_parameters_cannot_be_given() -> None:
    def execute(self: Any, a: int, **extra: Any) -> Any: ...

    signature = read_signature(execute, skip=1)
    assert list(signature.parameters["properties"]) == ["a"]
    with pytest.raises(InvalidField, match=r"^self is not a parameter"):
        signature.bind({"a": 1, "self": 2})


def changing(anything: Any, a_dict: dict, a_list: list[Any], movie: Movie, untyped, **extra: Any) -> None:  # type: ignore[type-arg, no-untyped-def]  # noqa: ANN001
    for one in (anything, a_dict, a_list[0], untyped["deep"], extra["more"]):
        one["changed"] = True
    movie["name"] = "changed"
    a_list.clear()


def test_a_tool_cannot_change_the_arguments_of_its_call() -> None:
    arguments = {
        "anything": {"a": [1]},
        "a_dict": {},
        "a_list": [{}],
        "movie": {"name": "n", "year": 1},
        "untyped": {"deep": {}},
        "more": {},
    }
    before = copy.deepcopy(arguments)
    call(changing, arguments)
    assert arguments == before
    changing(**arguments)  # type: ignore[arg-type]
    assert arguments != before, "the control: the tool does change what it gets"


def typed(
    when: dt.datetime, where: Path, price: Decimal, data: bytes, points: tuple[Point, ...], days: set[dt.date]
) -> Any:
    return when, where, price, data, points, days


def test_arguments_become_what_the_annotations_ask_for() -> None:
    arguments = {
        "when": "2030-01-31T12:00:00+01:00",
        "where": "a/b",
        "price": "12.50",
        "data": "AP8=",
        "points": [{"x": 1}, {"x": 2.0, "y": 1}],
        "days": ["2030-01-31"],
    }
    assert call(typed, arguments) == (
        dt.datetime(2030, 1, 31, 12, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        Path("a/b"),
        Decimal("12.50"),
        b"\x00\xff",
        (Point(1), Point(2, 1.0)),
        {dt.date(2030, 1, 31)},
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"when": "2030-02-30T00:00:00Z"}, "when must be a date-time such as 2030-01-31T12:00:00Z"),
        ({"when": 5}, "when must be a string, not a number"),
        ({"where": None}, "where must be a string, not null"),
        ({"price": "NaN"}, "price must be a decimal number such as 12.50"),
        ({"price": float("inf")}, "price must be a finite number, not a number"),
        ({"data": "?"}, "data must be base64"),
        ({"days": ["2030-02-30"]}, r"days\[0\] must be a date such as 2030-01-31"),
        ({"points": [{"x": 1, "y": "secret"}]}, r"points\[0\]\.y must be a number, not a string$"),
    ],
)
@pytest.mark.row("H7")
def test_what_is_valid_and_cannot_be_read_is_an_error_with_its_place(change: dict[str, Any], message: str) -> None:
    arguments = {
        "when": "2030-01-31T12:00:00Z",
        "where": "a",
        "price": 1,
        "data": "",
        "points": [],
        "days": [],
    }
    with pytest.raises(InvalidField, match=message) as caught:
        call(typed, {**arguments, **change})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("arguments", [[], None, "a", 5])
def test_arguments_that_are_no_object(arguments: Any) -> None:
    with pytest.raises(InvalidField, match="arguments must be an object, not"):
        read_signature(only_places).bind(arguments)


def test_an_argument_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidField, match=r"^a must be given$"):
        read_signature(places).bind({"d": 1})


def test_what_is_nested_without_end_is_an_error() -> None:
    def function(it: Json, anything: Any = None) -> None: ...

    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    signature = read_signature(function)
    for name in ("it", "anything"):
        with pytest.raises(InvalidField, match=rf"^{name} is nested too deeply"):
            signature.bind({"it": 1, name: deep})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
SIGNATURES = [read_signature(function) for function in (places, only_places, middle, typed, changing, Thing().method)]


@given(
    st.sampled_from(SIGNATURES),
    st.dictionaries(st.sampled_from(["a", "when", "points", "x", "rest"]) | st.text(), JSON),
)
def test_any_arguments_are_bound_or_refused(signature: Signature, arguments: dict[str, Any]) -> None:
    before = copy.deepcopy(arguments)
    try:
        signature.bind(arguments, "C")
    except InvalidField as problem:
        refused = str(problem)
        assert refused
    assert arguments == before


@given(JSON)
def test_any_json_comes_through_untyped(value: Any) -> None:
    assert call(lambda it: it, {"it": value}) == value


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_value(value: float) -> None:
    def function(a: float, b: int | float, c: Decimal) -> Any:  # noqa: PYI041 - the two are told apart
        return a, b, c

    a, b, c = call(function, {"a": value, "b": value, "c": value})
    assert (a, b) == (value, value)
    assert type(b) is type(value)
    assert json.loads(str(c)) == value


def test_simple_arguments_are_bound_in_a_microsecond_or_so() -> None:
    def function(query: str, limit: int, ratio: float = 0.5, deep: bool = False) -> None: ...

    bind, arguments = read_signature(function).bind, {"query": "q", "limit": 5, "deep": True}
    spent = 1000 * least(lambda: [bind(arguments, None) for _ in range(1000)], 20)
    assert spent < (20 if sys.gettrace() else 5), "microseconds; about 0.6 where nothing else runs"
