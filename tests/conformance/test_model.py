"""The simulated model of the suites does what a prompt asks for."""

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.model import answer
from toolwire.testing import Cut, Fail, Turn
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

WEATHER = Tool(
    "get_weather",
    "Get the weather",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
SUM = Tool("add", "Add", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


def ask(text: str, *history: Message, tools: Sequence[Tool] = (), system: str = "", **settings: Any) -> list[Any]:
    context = Context(system=system or None, messages=[Message("user", text), *history], tools=tools)
    request = Request(context=context, model="m", **settings)
    return answer(request, Turn(0, 0, "openai-chat", {}, {}))


def test_it_repeats_the_prompt() -> None:
    assert ask("Say hello.") == [Text(text="You said: Say hello..")]


def test_it_calls_a_tool_that_fits_once_for_each_city() -> None:
    calls = ask("The weather in Paris and Tokyo?", tools=[SUM, WEATHER])
    assert [(call.name, call.arguments) for call in calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {"city": "Tokyo"}),
    ]


def test_it_takes_numbers_and_quoted_words_of_the_prompt() -> None:
    [call] = ask("Use add for 42.", tools=[SUM])
    assert call.arguments == {"n": 42}
    [call] = ask("The weather in '北京'?", tools=[WEATHER])
    assert call.arguments == {"city": "北京"}


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (None, []),
        (ToolChoice("required"), ["add"]),
        (ToolChoice("required", ["get_weather"]), ["get_weather"]),
        (ToolChoice("none"), []),
    ],
)
def test_it_calls_what_it_must(choice: ToolChoice | None, names: list[str]) -> None:
    steps = ask("Go.", tools=[SUM, WEATHER], tool_choice=choice)
    assert [step.name for step in steps if isinstance(step, ToolCall)] == names


def test_it_answers_results_and_calls_another_tool_only_if_it_must() -> None:
    history = [
        Message("assistant", [ToolCall("1", "get_weather", {"city": "Oslo"})]),
        Message("tool", [ToolResult("1", "get_weather", "25 degrees")]),
    ]
    assert ask("The weather?", *history, tools=[SUM, WEATHER]) == [Text(text="The result is 25 degrees.")]
    [call] = ask("The weather?", *history, tools=[WEATHER, SUM], tool_choice=ToolChoice("required"))
    assert call.name == "add"


def test_it_writes_what_a_schema_or_a_prompt_wants() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert ask("Go.", output=Output("schema", schema=schema)) == [Text(text='{"a": 1}')]
    assert ask("JSON with 'setup'.", output=Output("json")) == [Text(text='{"setup": "example"}')]
    assert ask("Go.", system="Answer in JSON.") == [Text(text='{"answer": "example"}')]


def test_it_thinks_fails_and_breaks_off_if_it_is_asked_to() -> None:
    assert isinstance(ask("Go.", effort="low")[0], Thinking)
    assert isinstance(ask("Go.", thinking="enabled")[0], Thinking)
    assert not isinstance(ask("Go.", effort="none")[0], Thinking)
    [failure] = ask("Please fail with 429.")
    assert isinstance(failure, Fail)
    assert failure.error.status == 429
    assert isinstance(ask("Please break off.")[-1], Cut)
