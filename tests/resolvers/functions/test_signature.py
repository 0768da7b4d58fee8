"""What a function shows to a model: parameters of every kind, the context, and whatever can be called."""

import dataclasses
import datetime as dt
import functools
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict, Unpack

import pydantic
import pytest

from tests.resolvers.functions.annotation_shapes import Point, Unit
from toolwire.resolvers.functions.signature import Signature, read_signature
from toolwire.schema import TARGETS, fit
from toolwire.types import Tool

INTEGER = {"type": "integer"}


def properties(signature: Signature) -> dict[str, Any]:
    found: dict[str, Any] = signature.parameters["properties"]
    return found


def test_a_function_is_shown_in_the_order_of_its_parameters() -> None:
    def search(query: str, limit: int = 10, *, unit: Unit = Unit.C, raw: bool = False, other=None) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        """Search."""

    signature = read_signature(search)
    assert signature.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "unit": {"$ref": "#/$defs/Unit", "default": "c"},
            "raw": {"type": "boolean", "default": False},
            "other": {"default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
        "$defs": {"Unit": {"enum": ["c", "f"], "type": "string"}},
    }
    assert list(properties(signature)) == ["query", "limit", "unit", "raw", "other"]
    assert (signature.description, signature.context) == ("Search.", None)


def test_a_function_without_parameters() -> None:
    signature = read_signature(lambda: None)
    assert signature.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert signature.description is None
    assert signature.bind({}) == ((), {})


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_takes_what_is_shown(target: str) -> None:
    def plan(at: dt.datetime, where: pathlib.Path, points: list[Point], ids: set[uuid.UUID], *more: int) -> None: ...

    assert fit(read_signature(plan).parameters, target).schema["properties"].keys() == {
        *("at", "where", "points", "ids", "more")
    }


def plain(a: int, context: Any) -> Any: ...
def defaulted(a: int, context: Any = None) -> Any: ...
def keyword(a: int, *, context: Any) -> Any: ...
def first(context: Any, a: int) -> Any: ...
def by_place(context: Any, a: int, /) -> Any: ...
def other(a: int, state: Any) -> Any: ...
def unusable(a: int, context: Callable[[], int]) -> Any: ...


@pytest.mark.parametrize(
    ("function", "name", "bound"),
    [
        (plain, "context", ((), {"a": 1, "context": "C"})),
        (defaulted, "context", ((), {"a": 1, "context": "C"})),
        (keyword, "context", ((), {"a": 1, "context": "C"})),
        (first, "context", ((), {"a": 1, "context": "C"})),
        (by_place, "context", (("C", 1), {})),
        (other, "state", ((), {"a": 1, "state": "C"})),
        (unusable, "context", ((), {"a": 1, "context": "C"})),
    ],
)
def test_the_context_is_given_and_not_shown(function: Any, name: str, bound: Any) -> None:
    signature = read_signature(function, context=name)
    assert signature.parameters == {
        "type": "object",
        "properties": {"a": INTEGER},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert signature.context == name
    assert signature.bind({"a": 1}, "C") == bound
    function(*bound[0], **bound[1])


def test_a_context_is_the_very_object() -> None:
    context = {"user": ["a"]}
    assert read_signature(plain).bind({"a": 1}, context)[1]["context"] is context


def test_without_a_context_its_name_is_a_parameter() -> None:
    signature = read_signature(plain, context=None)
    assert list(properties(signature)) == ["a", "context"]
    assert signature.context is None


class Service:
    """A service."""

    def method(self, a: int) -> tuple[Any, int]:
        """Do it."""
        return self, a

    @classmethod
    def made(cls, a: int) -> tuple[Any, int]:
        """Do it."""
        return cls, a

    @staticmethod
    def static(a: int) -> int:
        """Do it."""
        return a

    def __call__(self, a: int) -> int:
        """Do it."""
        return a


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def waiting(a: int) -> int:
    """Do it."""
    return a


def fixed(a: int, b: int, c: int = 5) -> tuple[int, int, int]:
    """Do it."""
    return a, b, c


@dataclasses.dataclass
class Called:
    """Do it."""

    a: int


CALLABLE: list[tuple[str, Any, int]] = [
    ("method", Service().method, 0),
    ("method of a class", Service.method, 1),
    ("classmethod", Service.made, 0),
    ("classmethod object", Service.__dict__["made"], 0),
    ("staticmethod", Service.static, 0),
    ("staticmethod object", Service.__dict__["static"], 0),
    ("object", Service(), 0),
    ("decorated", logged(logged(Service.static)), 0),
    ("decorated method", functools.partial(logged(Service.method), Service()), 0),
    ("async", waiting, 0),
    ("partial", functools.partial(fixed, b=2, c=3), 0),
    ("partial of a partial", functools.partial(functools.partial(fixed, c=2), b=3), 0),
    ("partial by place", functools.partial(lambda _x, a: a, 1), 0),
    ("class", Called, 0),
]


@pytest.mark.parametrize(("function", "skip"), [row[1:] for row in CALLABLE], ids=[row[0] for row in CALLABLE])
def test_whatever_can_be_called_is_read(function: Any, skip: int) -> None:
    signature = read_signature(function, skip=skip)
    assert list(properties(signature)) == ["a"]
    assert signature.parameters["required"] == ["a"]
    if "lambda" not in repr(function):
        assert properties(signature) == {"a": INTEGER}
        assert signature.description == "Do it."
    given, keywords = signature.bind({"a": 7})
    assert (given, keywords) == ((), {"a": 7})


def test_what_a_partial_fixes_is_neither_shown_nor_taken() -> None:
    def delete(path: str, user: str, **more: str) -> tuple[str, str]:
        return path, user + more.get("suffix", "")

    fixed_user = functools.partial(delete, user="me")
    signature = read_signature(fixed_user)
    assert list(properties(signature)) == ["path"]
    with pytest.raises(ValueError, match="user is not a parameter"):
        signature.bind({"path": "a", "user": "you"})
    assert fixed_user(path="a", user="you") == ("a", "you")  # the control: Python itself would take it


def test_rest_and_extra_parameters() -> None:
    def join(first: str, *rest: int, sep: str = ",", **extra: float) -> None: ...

    assert read_signature(join).parameters == {
        "type": "object",
        "properties": {
            "first": {"type": "string"},
            "rest": {"type": "array", "items": INTEGER},
            "sep": {"type": "string", "default": ","},
        },
        "required": ["first"],
        "additionalProperties": {"type": "number"},
    }
    assert read_signature(lambda **_extra: None).parameters["additionalProperties"] is True


class Extra(TypedDict, total=False):
    limit: int
    unit: Unit


def test_keywords_of_a_typed_dict_are_parameters() -> None:
    def search(query: str, **extra: Unpack[Extra]) -> None: ...

    signature = read_signature(search)
    assert list(properties(signature)) == ["query", "limit", "unit"]
    assert signature.parameters["required"] == ["query"]
    assert signature.parameters["additionalProperties"] is False
    assert list(signature.parameters["$defs"]) == ["Unit"]
    assert signature.bind({"query": "q", "limit": 5.0, "unit": "f"}) == (
        (),
        {"query": "q", "limit": 5, "unit": Unit.F},
    )
    for arguments, message in [
        ({"query": "q", "limits": 1}, "limits is not a parameter"),
        ({"query": "q", "limit": "1"}, "limit must be an integer, not a string"),
    ]:
        with pytest.raises(ValueError, match=message):
            signature.bind(arguments)  # type: ignore[arg-type]


# A default is told, and Python gives it.
@pytest.mark.parametrize(
    ("default", "told"),
    [
        (5, {"default": 5}),
        (None, {"default": None}),
        ([1, {"a": None}], {"default": [1, {"a": None}]}),
        ({"b", "a"}, {"default": ["a", "b"]}),
        ((1, 2), {"default": [1, 2]}),
        (Unit.F, {"default": "f"}),
        (pathlib.PurePosixPath("a/b"), {"default": "a/b"}),
        (dt.date(2030, 1, 31), {"default": "2030-01-31"}),
        (Point(1), {"default": {"x": 1, "y": 0.5, "labels": []}}),
        (b"a", {"default": "YQ=="}),
        (float("nan"), {}),
        (float("inf"), {}),
        (object(), {}),
        (len, {}),
        ({1: object()}, {}),
    ],
)
@pytest.mark.row("H9")
def test_a_default_is_told_where_json_can_say_it(default: Any, told: dict[str, Any]) -> None:
    def function(value=default) -> Any:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return value

    signature = read_signature(function)
    assert properties(signature) == {"value": told}
    assert "required" not in signature.parameters
    assert signature.bind({}) == ((), {})  # it is not put into the call
    assert function(**signature.bind({})[1]) is default


def test_a_parameter_whose_default_is_none_takes_null() -> None:
    def function(a: int = None, b: Annotated[str, "Words."] = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert properties(read_signature(function)) == {
        "a": {"anyOf": [INTEGER, {"type": "null"}], "default": None},
        "b": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Words.", "default": None},
    }


def test_fields_of_pydantic_describe_parameters() -> None:
    def function(
        a: int = pydantic.Field(5, ge=1, description="A."),
        b: Annotated[int, pydantic.Field(default=6)] = 7,
        c: list[int] = pydantic.Field(default_factory=list),  # noqa: B008 - it is how pydantic is used
        d: str = pydantic.Field(description="D."),
        e: Annotated[int, pydantic.Field(default=8, description="E.")] = ...,  # type: ignore[assignment]
    ) -> tuple[Any, ...]:
        return a, b, c, d, e

    function.__defaults__ = (*function.__defaults__[:4], 9)  # type: ignore[index]
    signature = read_signature(function)
    assert properties(signature) == {
        "a": {"type": "integer", "minimum": 1, "description": "A.", "default": 5},
        "b": {"type": "integer", "default": 7},
        "c": {"type": "array", "items": INTEGER, "default": []},
        "d": {"type": "string", "description": "D."},
        "e": {"type": "integer", "description": "E.", "default": 9},
    }
    assert signature.parameters["required"] == ["d"]
    given, keywords = signature.bind({"d": "x"})
    assert function(*given, **keywords) == (5, 7, [], "x", 9)
    assert signature.bind({"d": "x"})[1]["c"] is not keywords["c"]


def test_a_field_alone_gives_the_default_that_the_function_has_not() -> None:
    def function(a: Annotated[int, pydantic.Field(default=6)], b: Literal["x"] = "x") -> tuple[int, str]:
        return a, b

    signature = read_signature(function)
    assert "required" not in signature.parameters
    assert function(**signature.bind({})[1]) == (6, "x")


def test_a_signature_makes_a_tool() -> None:
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    signature = read_signature(add)
    tool = Tool("add", signature.description, signature.parameters)
    assert Tool.from_map(tool.to_openai_format()) == tool


def test_docstrings_are_found_where_functions_inherit_them() -> None:
    class Loud(Service):
        def method(self, a: int) -> tuple[Any, int]:
            return self, a

    assert read_signature(Loud().method).description == "Do it."


def test_nothing_heavy_is_imported_for_plain_functions() -> None:
    code = """
import sys, dataclasses, datetime
from toolwire.resolvers.functions.signature import read_signature
@dataclasses.dataclass
class At:
    when: datetime.datetime | None = None
def plan(at: At | dict[str, int], *more: int) -> None: "Plan."
read_signature(plan).bind({"at": {"when": None}})
heavy = {"pydantic", "griffe", "annotated_types", "asyncio"} & sys.modules.keys()
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
