"""A bad answer is sent back with what is wrong, in histories that vendors take; its tool stays hidden."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.client.structured.wanting import (
    INSTRUCTION,
    MODELS,
    NATIVE,
    TOOL,
    WEATHER,
    Point,
    answer_to,
    answering,
    asking,
    by_tool,
    next_messages,
    sent,
)
from toolwire.client.structured import (
    AnswerProblems,
    OutputForm,
    OutputMethod,
    ParsedValue,
    answer_as_text,
    correction_text,
    history_without_answer_tool,
    parse_answer,
    prepare,
)
from toolwire.errors import NoStructuredOutput
from toolwire.loop.steps import ANSWER
from toolwire.types import Context, Message, Request, Response, Text, Thinking, ToolCall, ToolResult

GOOD, BAD = '{"x": 1, "y": 2}', '{"x": "1"}'
WANTED = OutputForm.of(Point)
OTHER = ToolCall("c9", "get_weather", {})
LEFT = Message("tool", [ToolResult("c9", "get_weather", "sunny")])


def problems_of(response: Response, way: OutputMethod = TOOL) -> AnswerProblems:
    found = parse_answer(response, WANTED, way)
    assert isinstance(found, AnswerProblems)
    return found


def added(request: Request, *messages: Message) -> Request:
    context: Context = replace(request.context, messages=[*request.messages, *messages])
    return replace(request, context=context)


def test_the_model_reads_each_problem_with_its_place() -> None:
    assert correction_text(problems_of(answering(BAD))) == (
        "The answer cannot be used:\n"
        '- field x: expected type integer, got "1"\n'
        "- missing required field: y\n\n"
        "Give the whole answer again, in the form that was asked for."
    )


@pytest.mark.parametrize(
    ("parts", "roles"),
    [
        ([BAD], ["user"]),
        ([by_tool(BAD)], ["tool"]),
        ([by_tool(GOOD), by_tool(GOOD, 2)], ["tool", "tool"]),
        ([], ["user"]),
    ],
)
def test_a_bad_answer_is_answered(parts: list[Any], roles: list[str]) -> None:
    response = answering(*parts)
    messages = next_messages(response, problems_of(response))
    assert [message.role for message in messages] == roles
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    assert [result.tool_call_id for result in results] == [call.id for call in response.message.tool_calls]
    assert all(result.is_error for result in results)


@pytest.mark.parametrize("way", [NATIVE, TOOL, INSTRUCTION], ids=lambda way: way.kind)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.row("R001-10")
def test_the_history_of_a_mended_answer_is_taken_by_every_vendor(name: str, way: OutputMethod) -> None:
    """A bad answer, what is wrong with it, and again; each request passes the strict server."""
    request = asking(MODELS[name])
    given = by_tool if way == TOOL else str
    for text in (BAD, "{", GOOD):
        sent(name, prepare(request, WANTED, way))
        response = answering(given(text))
        found = parse_answer(response, WANTED, way)
        if isinstance(found, AnswerProblems):
            request = added(request, response.message, *next_messages(response, found))
    assert found == ParsedValue(Point(1, 2))
    assert len(request.messages) == 5


@pytest.mark.parametrize("name", MODELS)
def test_tools_of_the_caller_run_first(name: str) -> None:
    """An answer beside other calls is not taken: they run, and it is asked for again."""
    request = asking(MODELS[name], [WEATHER])
    early = answering(OTHER, by_tool(GOOD), finish="tool_calls")
    refused = Message("tool", [answer_to(by_tool(GOOD), problems_of(early))])
    assert "alone" in str(refused.parts[0])
    late = answering(by_tool(GOOD), finish="tool_calls")
    request = added(request, early.message, LEFT, refused)
    sent(name, prepare(request, WANTED, TOOL))
    assert parse_answer(late, WANTED, TOOL) == ParsedValue(Point(1, 2))
    history = history_without_answer_tool([*request.messages, answer_as_text(late).message])
    assert ANSWER not in repr(history)
    sent(name, replace(added(asking(MODELS[name], [WEATHER]), *history[1:], Message("Thanks."))))


@pytest.mark.row("I-34")
def test_the_answers_tool_is_never_seen() -> None:
    response = answering(Thinking("Hm."), "Here:", by_tool(GOOD), finish="tool_calls")
    seen = answer_as_text(response)
    assert (seen.tool_calls, seen.content, seen.finish_reason) == ([], GOOD, "stop")
    assert seen.parts == [Thinking("Hm."), Text(GOOD)]
    assert answer_as_text(seen) is seen
    assert answer_as_text(Response()) == Response()
    bad = answering(by_tool(BAD), finish="tool_calls")
    problems = problems_of(bad)
    history = [Message("Hi"), bad.message, *next_messages(bad, problems), response.message]
    assert [(message.role, message.text) for message in history_without_answer_tool(history)] == [
        ("user", "Hi"),
        ("assistant", BAD),
        ("user", correction_text(problems)),
        ("assistant", GOOD),
    ]


def test_an_answer_beside_other_calls_leaves_no_trace() -> None:
    early = answering("So:", by_tool(GOOD), OTHER, finish="tool_calls")
    refused = Message("tool", [answer_to(by_tool(GOOD), problems_of(early))])
    history = history_without_answer_tool([Message("Hi"), early.message, refused, LEFT])
    assert [message.parts for message in history] == [[Text("Hi")], [Text("So:"), OTHER], LEFT.parts]


def test_what_has_nothing_to_hide_stays_the_same() -> None:
    history = [Message("Hi"), answering("So:", OTHER).message, LEFT, answering("Sunny.").message]
    assert history_without_answer_tool(history) == history


def test_the_error_carries_what_came() -> None:
    response = answering(BAD)
    problems = problems_of(response)
    error = NoStructuredOutput(problems.kind, problems.problems, problems.text, response)
    assert (error.problems, error.text, error.response) == (problems.problems, BAD, response)
    assert str(error).startswith("output: no answer in the required form (invalid): field x: expected type integer")
