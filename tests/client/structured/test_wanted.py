"""What an answer shall be: the schema of a type, and the value that is made of JSON."""

import asyncio
import datetime as dt
from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any, Literal

import pydantic
import pytest

from tests.client.structured.wanting import Colour, Film, Person, Point, Size, Tree
from toolwire import AgentResolver, Tool, aio, generate, tool
from toolwire.client.structured import OutputForm
from toolwire.errors import InvalidField, InvalidSchema


class Pet(pydantic.BaseModel):
    name: str
    legs: Annotated[int, pydantic.Field(ge=0)] = 4


VALUES: list[tuple[Any, bool, Any, Any]] = [
    (Person, False, {"name": "Ada"}, Person("Ada")),
    (Person, False, {"name": "Ada", "age": 36, "tags": ["x"]}, Person("Ada", 36, ["x"])),
    (Point, False, {"x": 1, "y": 2.0}, Point(1, 2)),
    (Film, False, {"title": "Alien"}, {"title": "Alien"}),
    (Pet, False, {"name": "Rex"}, Pet(name="Rex")),
    (Tree, True, {"value": {"name": "a", "under": [{"name": "b", "under": []}]}}, Tree("a", [Tree("b", [])])),
    (list[int], True, {"value": [1, 2]}, [1, 2]),
    (list[Person], True, {"value": [{"name": "Ada"}]}, [Person("Ada")]),
    (set[int], True, {"value": [1, 2]}, {1, 2}),
    (Size, True, {"value": "small"}, "small"),
    (int | None, True, {"value": None}, None),
    (Colour, True, {"value": "red"}, Colour.RED),
    (dt.date, True, {"value": "2026-11-21"}, dt.date(2026, 11, 21)),
    (dict[str, int], True, {"value": {"a": 1}}, {"a": 1}),
    (Point | Person, True, {"value": {"x": 1, "y": 2}}, Point(1, 2)),
    (str, True, {"value": "hello"}, "hello"),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, False, {"a": "b"}, {"a": "b"}),
    ({"type": "array", "items": {"type": "integer"}}, True, {"value": [1]}, [1]),
    ({"enum": [1, "two"]}, True, {"value": "two"}, "two"),
    ({}, True, {"value": {"any": []}}, {"any": []}),
]


@pytest.mark.parametrize(("given", "wrapped", "answer", "value"), VALUES, ids=[str(row[0]) for row in VALUES])
def test_an_answer_is_read_to_its_type(given: Any, wrapped: bool, answer: Any, value: Any) -> None:
    wanted = OutputForm.of(given)
    assert wanted.wrapped == wrapped
    assert wanted.schema["type"] == "object"
    assert wanted.problems(answer) == []
    found = wanted.value(answer)
    assert (found, type(found)) == (value, type(value))


WRONG: list[tuple[Any, Any, list[str]]] = [
    (Point, {"x": 1}, ["missing required field: y"]),
    (Point, {"x": 1, "y": "2"}, ['field y: expected type integer, got "2"']),
    (list[int], {"value": [1, True]}, ["field value[1]: expected type integer, got true"]),
    (list[int], {}, ["missing required field: value"]),
    ({"type": "object", "properties": {"a": {"if": {"type": "string"}, "then": {"minLength": 2}}}},
     {"a": "b"}, ["field a: expected at least 2 characters, got 1"]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "answer", "problems"), WRONG)
def test_what_is_wrong_is_named_with_its_place(given: Any, answer: Any, problems: list[str]) -> None:
    assert OutputForm.of(given).problems(answer) == problems


def test_what_fits_the_schema_and_no_value_is_named_too() -> None:
    wanted = OutputForm.of(list[dt.date])
    assert wanted.problems({"value": ["2026-02-30"]}) == []
    with pytest.raises(InvalidField) as raised:
        wanted.value({"value": ["2026-02-30"]})
    assert raised.value.field == "value[0]"


REFERRING: list[tuple[Any, Any, Any]] = [
    ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]], [1]),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 1, "1"),
    ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/anyOf/0"}}]}, [1], ["1"]),
    ({"$id": "https://e.org/s", "type": "array", "items": {"$ref": "https://e.org/s#"}}, [[]], [1]),
    ({"type": "array", "items": {"$ref": "#n"}, "$defs": {"n": {"$anchor": "n", "const": 1}}}, [1], [2]),
    (
        {
            "type": "array",
            "items": {
                "$id": "https://e.org/t",
                "properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a"}},
            },
        },
        [{"b": None}],
        [{"b": 1}],
    ),
    ({"enum": [{"$ref": "#"}]}, {"$ref": "#"}, {"$ref": "#/properties/value"}),
]


@pytest.mark.parametrize(("schema", "good", "bad"), REFERRING)
def test_references_mean_what_they_meant(schema: Any, good: Any, bad: Any) -> None:
    before = repr(schema)
    wanted = OutputForm.of(schema)
    assert wanted.problems({"value": good}) == []
    assert wanted.problems({"value": bad}) != []
    assert repr(schema) == before


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (object(), "output"),
        (type, "output"),
        ({"type": "nothing"}, "output"),
        ({"type": "object", "properties": {"a": {"type": "nothing"}}}, "output.properties.a"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "output"),
        ({1: 2}, "output"),
    ],
)
def test_what_cannot_be_wanted_is_refused_at_once(given: Any, path: str) -> None:
    with pytest.raises(InvalidSchema) as raised:
        OutputForm.of(given)
    assert raised.value.path.startswith(path)


def test_a_value_shares_nothing_with_its_json() -> None:
    wanted, answer = OutputForm.of({"type": "array"}), {"value": [[1]]}
    value = wanted.value(answer)
    value[0].append(2)
    assert answer == {"value": [[1]]}


def test_the_kinds_of_a_union_are_told_apart() -> None:
    wanted = OutputForm.of(Literal[1, "1"])
    assert [wanted.value({"value": value}) for value in (1, "1")] == [1, "1"]
    assert wanted.problems({"value": True}) != []


def nested(around: Callable[[Any], Any], levels: int = 5000) -> Any:
    """Give a schema of as many levels."""
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = around(schema)
    return schema


def endless() -> dict[str, Any]:
    """Give a schema that holds itself."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["again"] = schema
    return schema


DEEP: dict[str, Any] = {
    "properties": nested(lambda inner: {"type": "object", "properties": {"a": inner}}),
    "alternatives": nested(lambda inner: {"anyOf": [inner]}),
    "items": nested(lambda inner: {"type": "array", "items": inner}),
    "definitions": nested(lambda inner: {"type": "object", "$defs": {"a": inner}}),
    "a constant": {"type": "object", "properties": {"a": {"const": nested(lambda inner: [inner])}}},
    "a keyword of nobody": {"type": "object", "x": nested(lambda inner: {"a": inner})},
    "just too deep": nested(lambda inner: {"anyOf": [inner]}, 130),
    "endless": endless(),
}


@pytest.mark.parametrize("case", DEEP)
def test_a_schema_that_is_too_deep_is_refused(case: str) -> None:
    deep = DEEP[case]
    ways: dict[str, Callable[[], object]] = {
        "form": lambda: OutputForm.of(deep),
        "view": lambda: OutputForm.of(MappingProxyType(deep)),
        "sync": lambda: generate("Hi", "ollama", "m", output=deep),
        "async": lambda: asyncio.run(aio.generate("Hi", "ollama", "m", output=deep)),
    }
    for asked in ways.values():
        with pytest.raises(InvalidSchema, match=r"^output: the schema is nested too deeply"):
            asked()


@pytest.mark.parametrize("case", DEEP)
def test_so_are_the_parameters_of_a_tool(case: str) -> None:
    deep = DEEP[case]
    declared = {"type": "function", "function": {"name": "look", "parameters": deep}}
    for definition in (declared, Tool.from_map(declared), Tool("look", None, deep)):
        with pytest.raises(InvalidSchema, match="the schema is nested too deeply"):
            AgentResolver([SimpleNamespace(definition=definition, execute=print)])
    with pytest.raises(InvalidSchema, match="the schema is nested too deeply"):
        AgentResolver([tool(name="look", parameters=deep)(lambda: None)])
