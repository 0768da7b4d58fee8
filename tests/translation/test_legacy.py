"""A client of the deprecated `functions` gets the calls of another wire's model as it knows them, one in an answer."""

import json
from typing import Any

import pytest

from toolwire import Message, Opaque, Response, Text, Thinking, ToolCall, dialect, translate
from toolwire.dialects import NAMES
from toolwire.streams.accumulation import accumulate, events_of
from toolwire.types import Choice

CHAT = dialect("openai-chat")
LOOK = {"name": "look", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "?"}], "functions": [LOOK]}
FOREIGN = [name for name in NAMES if name != "openai-chat"]
SHOWN = pytest.mark.parametrize("streamed", [False, True])


def told(made: Any, *parts: Any, streamed: bool) -> tuple[dict[str, Any], Any]:
    """Give the choice of an answer as the client reads it, and the losses."""
    answer = Response(choices=[Choice(Message("assistant", list(parts)), "tool_calls")])
    if not streamed:
        encoded = made.response(made.target.encode_response(answer).body)
        return encoded.body["choices"][0], encoded.losses
    writer, reading, way = made.target.encode_stream(), CHAT.decode_stream(), made.stream()
    data = b"".join([*map(writer.feed, events_of(answer)), writer.close()])
    shown = b"".join([*(way.feed(data[at : at + 9]) for at in range(0, len(data), 9)), way.close()])
    assert b"tool_calls" not in shown
    response = accumulate([*reading.feed(shown), *reading.close()])
    return CHAT.encode_response(response).body["choices"][0], way.losses


@SHOWN
@pytest.mark.parametrize("arguments", [{"a": 1}, {}])
@pytest.mark.parametrize("target", FOREIGN)
def test_a_call_comes_back_in_the_deprecated_form(target: str, arguments: dict[str, int], streamed: bool) -> None:
    made = translate.exchange(BODY, source="openai-chat", target=target)
    choice, _ = told(made, Text("Hi"), ToolCall("c1", "look", arguments), streamed=streamed)
    message = choice["message"]
    assert (message["content"], message["function_call"]["name"]) == ("Hi", "look")
    assert json.loads(message["function_call"]["arguments"]) == arguments
    assert "tool_calls" not in message
    assert choice["finish_reason"] == "function_call"


@SHOWN
@pytest.mark.parametrize("target", FOREIGN)
def test_a_second_call_is_lost_by_name(target: str, streamed: bool) -> None:
    made = translate.exchange(BODY, source="openai-chat", target=target)
    calls = [ToolCall("c1", "look", {"a": 1}), ToolCall("c2", "look", {"a": 2}, 1)]
    choice, lost = told(made, *calls, streamed=streamed)
    assert json.loads(choice["message"]["function_call"]["arguments"]) == {"a": 1}
    assert [(loss.path, loss.severity) for loss in lost if loss.concept == "tool_call"] == [
        ("choices[0].message.content[1]", "semantic")
    ]


@SHOWN
def test_half_a_call_stays_half_a_call(streamed: bool) -> None:
    made = translate.exchange(BODY, source="openai-chat", target="openai-responses")
    half = ToolCall.parse("c1", "look", '{"a": ')
    choice, _ = told(made, half, streamed=streamed)
    assert choice["message"]["function_call"]["arguments"].startswith('{"a": ')
    assert CHAT.decode_response({"choices": [choice]}).tool_calls == []


@SHOWN
def test_what_is_learned_of_a_call_is_found_again(streamed: bool) -> None:
    turns: dict[str, list[Any]] = {
        "anthropic": [Thinking("Hm.", "c2ln"), ToolCall("c1", "look", {"a": 1})],
        "gemini": [ToolCall("c1", "look", {"a": 1}, opaque=Opaque("gemini", {"thoughtSignature": "c2ln"}))],
    }
    for target, parts in turns.items():
        made = translate.exchange(BODY, source="openai-chat", target=target)
        choice, _ = told(made, *parts, streamed=streamed)
        result = {"role": "function", "name": "look", "content": "3"}
        body = {**BODY, "messages": [*BODY["messages"], choice["message"], result]}
        second = translate.exchange(body, source="openai-chat", target=target)
        assert second.memory_keys == [key for key, _ in made.memory_updates] != []
        second.use_memory(dict(made.memory_updates))
        assert "c2ln" in str(second.encoded.body)


# What is chosen among functions; what each wire is told of that.
CHOICES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "auto": ("auto", {"type": "auto", "disable_parallel_tool_use": True}, "auto"),
    "none": ("none", {"type": "none"}, "none"),
    "one": (
        {"name": "look"},
        {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        {"type": "function", "name": "look"},
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_deprecated_choice_is_understood(case: str) -> None:
    choice, claudes, responses = CHOICES[case]
    body = {**BODY, "function_call": choice}
    assert translate.request(body, "openai-chat", "anthropic").body["tool_choice"] == claudes
    assert translate.request(body, "openai-chat", "openai-responses").body["tool_choice"] == responses
    assert CHAT.encode_request(CHAT.decode_request(body)).body == body


def test_one_call_at_a_time_is_asked_for_where_that_can_be_said() -> None:
    assert translate.request(BODY, "openai-chat", "openai-responses").body["parallel_tool_calls"] is False
    lost = translate.request(BODY, "openai-chat", "gemini", strict=True).losses
    assert [(loss.path, loss.severity) for loss in lost] == [("parallel_tool_calls", "minor")]
    both = {**BODY, "tools": [{"type": "function", "function": {**LOOK, "name": "find"}}]}
    assert "parallel_tool_calls" not in translate.request(both, "openai-chat", "openai-responses").body
