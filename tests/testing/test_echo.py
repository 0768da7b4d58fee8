"""The scenario of those who wrote none: it says what it heard, and calls what it is asked to call."""

from typing import Any

import jsonschema_rs
import pytest

from toolwire.testing import Fail, Turn
from toolwire.testing.echo import echo, example
from toolwire.types import (
    Context,
    Message,
    Output,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)

WEATHER = Tool("get_weather", "Weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
TIME = Tool("get_time", "Time.", {"type": "object", "properties": {}})
SHELL = Tool("shell", "Anything.", custom=True)


def said(*messages: Any, tools: Any = (), **settings: Any) -> list[Any]:
    request = Request(context=Context(messages=list(messages), tools=list(tools)), **settings)
    return echo(request, Turn(0, 0, "ollama", {}, {}))


CITY = {"city": "Tokyo"}
CASES: list[tuple[str, Any, dict[str, Any], list[Any]]] = [
    ("Hello", [WEATHER], {}, [Text(text="You said: Hello")]),
    ("Please call a tool", [WEATHER, TIME], {}, [ToolCall(None, "get_weather", {"city": "example"})]),
    ("get_time now", [WEATHER, TIME], {}, [ToolCall(None, "get_time", {})]),
    ('get_weather {"city": "Tokyo"}', [WEATHER], {}, [ToolCall(None, "get_weather", CITY)]),
    (
        "get_time, get_weather",
        [WEATHER, TIME],
        {},
        [ToolCall(None, "get_weather", {"city": "example"}), ToolCall(None, "get_time", {})],
    ),
    ("call it", [SHELL], {}, [ToolCall(None, "shell", raw="call it", custom=True)]),
    ("call a tool", [], {}, [Text(text="You said: call a tool")]),
    (
        "Hello",
        [WEATHER, TIME],
        {"tool_choice": ToolChoice("required", ["get_time"])},
        [ToolCall(None, "get_time", {})],
    ),
    ("get_time", [TIME], {"tool_choice": ToolChoice("none")}, [Text(text="You said: get_time")]),
    ("Hello", [], {"effort": "low"}, [Thinking(text="The user says: Hello"), Text(text="You said: Hello")]),
    ("Hello", [], {"output": Output("schema", WEATHER.parameters)}, [Text(text='{"city":"example"}')]),
]


@pytest.mark.parametrize(("text", "tools", "settings", "steps"), CASES)
def test_the_echo(text: str, tools: Any, settings: dict[str, Any], steps: list[Any]) -> None:
    assert said(text, tools=tools, **settings) == steps


def test_the_echo_tells_results_and_fails_when_asked() -> None:
    call = Message("assistant", [ToolCall("c1", "get_time", {})])
    result = Message("tool", [ToolResult("c1", None, "noon")])
    assert said("call it", call, result, tools=[TIME]) == [Text(text="get_time returned: noon")]
    [failed] = said("Please fail with 429.")
    assert isinstance(failed, Fail)
    assert (failed.error.kind, failed.error.status) == ("rate_limit", 429)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
    {"type": "string", "enum": ["x", "y"]},
    {"const": 7},
    {"type": "string", "minLength": 12, "maxLength": 13},
    {"type": "string", "maxLength": 3},
    {"type": "string", "format": "date"},
    {"type": "integer", "minimum": 5},
    {"type": "integer", "maximum": -5},
    {"type": "number", "exclusiveMinimum": 2},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
    {"type": ["null", "boolean"]},
    {"anyOf": [{"type": "null"}, {"type": "string"}]},
    {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": []}},
    },
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_an_example_fits_its_schema(schema: dict[str, Any]) -> None:
    assert jsonschema_rs.is_valid(schema, example(schema))


@pytest.mark.parametrize("schema", [None, [], 5, {"type": 5}, {"$ref": "#"}, {"anyOf": [None]}, {"required": 3}])
def test_an_example_of_what_is_no_schema_is_something(schema: Any) -> None:
    example(schema)
