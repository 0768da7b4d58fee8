"""Structured output over real sockets: each dialect, each way, with a bad answer first, and with tools."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.client.structured.wanting import MODELS, WEATHER, Point, answer_to, next_messages
from toolwire.client import sync
from toolwire.client.structured import (
    AnswerProblems,
    OutputForm,
    ParsedValue,
    choose_method,
    history_without_answer_tool,
    parse_answer,
    prepare,
)
from toolwire.loop.steps import ANSWER
from toolwire.providers import PROVIDERS
from toolwire.testing import simulate
from toolwire.types import Context, Message, Request, Response, Text, Thinking, ToolCall, ToolResult
from toolwire.wire.arguments import format_arguments

GOOD: dict[str, Any] = {"x": 1, "y": 2}
BAD: dict[str, Any] = {"x": "1", "y": 2}
WANTED = OutputForm.of(Point)


def lead(client: Any, request: Request, kind: Any) -> tuple[Any, Request]:
    """Lead a conversation as a loop does: tools first, then the answer, with bounded repair."""
    way = choose_method(PROVIDERS[client.provider.name], WANTED, request, kind)
    attempts = 0
    while True:
        asked = prepare(request, WANTED, way)
        settings = {name: getattr(asked, name) for name in ("tool_choice", "output", "thinking")}
        response: Response = client.chat(asked.context, model=asked.model, **settings)
        found = parse_answer(response, WANTED, way)
        added = [response.message]
        if isinstance(found, ParsedValue):
            return found.value, _longer(request, added)
        assert found.correctable or found.kind == "unfinished", found
        attempts += found.correctable
        assert attempts <= 2
        added += _results(response, found) if found.kind == "unfinished" else next_messages(response, found)
        request = _longer(request, added)


def _longer(request: Request, messages: list[Message]) -> Request:
    return replace(request, context=replace(request.context, messages=[*request.messages, *messages]))


def _results(response: Response, problems: AnswerProblems) -> list[Message]:
    results = [
        answer_to(call, problems) if call.name == ANSWER else ToolResult(call.id, call.name, "sunny")
        for call in response.tool_calls
    ]
    return [Message("tool", [result]) for result in results]


def answers(kind: str, *given: dict[str, Any]) -> list[Any]:
    """Script what a model says on a way."""
    if kind == "tool":
        return [[Thinking("Hm."), ToolCall(None, ANSWER, arguments)] for arguments in given]
    return [[Thinking("Hm."), Text(format_arguments(arguments))] for arguments in given]


@pytest.mark.sampled
@pytest.mark.parametrize("tools", [[], [WEATHER]], ids=["alone", "beside tools"])
@pytest.mark.parametrize("kind", ["native", "tool", "instruction"])
@pytest.mark.parametrize("name", MODELS)
def test_an_answer_has_the_wanted_form_on_every_provider(name: str, kind: str, tools: list[Any]) -> None:
    """Structured output on all four, whatever is there to ask for it."""
    first: list[Any] = [[ToolCall(None, "get_weather", {})]] if tools else []
    early: list[Any] = [[ToolCall(None, "get_weather", {}), *answers("tool", GOOD)[0][1:]]] if tools else []
    script = [*first, *(early if kind == "tool" else []), *answers(kind, BAD, GOOD), "You are welcome."]
    with simulate(script) as model, sync.Client(name, base_url=model.url, api_key="k") as client:
        request = Request(model=MODELS[name], context=Context("Be brief.", [Message("Hi")], tools))
        value, request = lead(client, request, kind)
        assert value == Point(1, 2)
        history = history_without_answer_tool(request.messages)
        assert ANSWER not in repr(history)
        thanked = replace(request.context, messages=[*history, Message("Thanks.")])
        assert client.chat(thanked, model=MODELS[name]).content == "You are welcome."


@pytest.mark.parametrize("name", ["openai", "anthropic"])
@pytest.mark.parametrize("answer", [GOOD, BAD, None])
def test_who_runs_the_tools_gets_their_calls_where_a_form_is_wanted(name: str, answer: Any) -> None:
    """Where the model answers beside its calls, by our tool, the calls are still those that did not run."""
    calls = [ToolCall("call_1", "get_weather", {}), *([] if answer is None else [ToolCall("call_2", ANSWER, answer)])]
    with simulate([calls]) as model, sync.Client(name, "m", base_url=model.url, api_key="k") as client:
        done = client.run("?", tools=[WEATHER], output=Point, auto_tools=False)
    assert [call.name for call in done.calls] == ["get_weather"]
    assert done.ending == ("answer" if answer is GOOD and done.output is not None else "calls")


def test_a_call_beside_the_answers_is_sent_again_where_a_signature_was_the_answers() -> None:
    turns = [[ToolCall(None, ANSWER, {"value": 1}), ToolCall(None, "get_weather", {})], "Cold."]
    given: dict[str, Any] = {"output": int, "capabilities": {"structured_output": False}, "limits": {"turns": 1}}
    with simulate(turns) as model, sync.Client("gemini", "gemini-3-pro", base_url=model.url, api_key="any") as client:
        done = client.run("Hi", tools=[WEATHER], **given)
        assert client.run(["Hi", *done.messages, "And?"], tools=[WEATHER]).content == "Cold."
    [called] = [part for part in model.requests[1].body["contents"][1]["parts"] if "functionCall" in part]
    assert called["thoughtSignature"] == "skip_thought_signature_validator"
