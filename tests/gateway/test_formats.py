"""`format` of a route: any client with tools, before a model that only writes text."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.gateway.standing import WIRES, ask, at, post, standing
from toolwire import Context, Message, Request, Tool, ToolCall, ToolResult
from toolwire.config import read_settings
from toolwire.dialects import dialect
from toolwire.errors import InvalidField
from toolwire.gateway.routes import Routes
from toolwire.testing import simulate
from toolwire.text import format as format_of

WEATHER = Tool(
    "get_weather",
    "Tell the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CITIES = ("Paris", 'Tokyo <b> & \n "x"')
CALLS = [ToolCall(None, "get_weather", {"city": city}, index) for index, city in enumerate(CITIES)]
FORMATS = ("hermes", "tagged", "qwen3-coder")


def said(name: str) -> str:
    return f"I look.\n{format_of(name).encode_calls(CALLS, [WEATHER]).text}"


def asked(wire: str, *more: Message, stream: bool) -> Request:
    messages = [Message("Weather in both?"), *more]
    most: Any = {"max_tokens": 100} if wire == "anthropic" else {}
    return Request(context=Context("Be brief.", messages, [WEATHER]), model="m", stream=stream, **most)


def words_of(body: Any) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


@pytest.mark.sampled
@pytest.mark.parametrize("upstream", ["openai", "ollama"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", FORMATS)
def test_a_client_with_tools_speaks_to_a_model_that_only_writes_text(
    name: str, wire: str, stream: bool, upstream: str
) -> None:
    settings = f'[routes.m]\nto = ["{upstream}/small"]\nformat = "{name}"'
    with simulate([[said(name)], ["Sunny in both."]]) as model, standing(model.url, settings) as stood:
        first, _ = ask(stood.url, wire, asked(wire, stream=stream))
        assert [(call.name, call.arguments) for call in first.tool_calls] == [
            ("get_weather", {"city": city}) for city in CITIES
        ]
        assert ((first.content or "").strip(), first.finish_reason) == ("I look.", "tool_calls")
        ids = [call.id for call in first.tool_calls]
        assert len(set(ids)) == 2
        results = [
            Message("tool", [ToolResult(call.id, call.name, f"{25 + place} degrees")], tool_call_id=call.id)
            for place, call in enumerate(first.tool_calls)
        ]
        last, _ = ask(stood.url, wire, asked(wire, first.message, *results, stream=stream))
    assert (last.content, last.tool_calls, last.finish_reason) == ("Sunny in both.", [], "stop")
    one, two = (request.body for request in model.requests)
    for body in (one, two):
        assert ("tools" in body, "tool_calls" in json.dumps(body)) == (False, False)
        assert {message["role"] for message in body["messages"]} <= {"system", "user", "assistant"}
        assert "get_weather" in words_of(body)
    told = words_of(two)
    assert format_of(name).decode(told[told.index("I look.") :], [WEATHER]).tool_calls[:2] != []
    assert told.index("Paris") < told.index("25 degrees") < told.index("26 degrees")
    assert one["messages"][0] == two["messages"][0], "the beginning of a conversation stays"
    assert model.problems == []


@pytest.mark.parametrize("upstream", ["openai-responses", "openai", "anthropic"])
@pytest.mark.parametrize("after", ["", "\nThat was it."])
def test_an_item_of_a_stream_ends_under_the_id_that_it_began_with(upstream: str, after: str) -> None:
    settings = f'[routes.m]\nto = ["{upstream}/small"]\nformat = "hermes"'
    with simulate([[said("hermes") + after]]) as model, standing(model.url, settings) as stood:
        body = dialect("openai-responses").encode_request(asked("openai-responses", stream=True)).json
        answered = post(stood.url, "/v1/responses", body)
    events = [json.loads(line[6:]) for line in answered.data.split(b"\n") if line.startswith(b"data: {")]
    begun, ended = (
        [event["item"]["id"] for event in events if event["type"] == f"response.output_item.{step}"]
        for step in ("added", "done")
    )
    assert [item["id"] for item in events[-1]["response"]["output"]] == begun == ended
    assert {event["item_id"] for event in events if "item_id" in event} == set(begun)
    assert len(begun) >= 3


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_a_quotation_calls_nothing_and_an_unknown_tool_is_words(wire: str, stream: bool) -> None:
    block = format_of("hermes").encode_call(CALLS[0], [WEATHER]).text
    other = format_of("hermes").encode_call(ToolCall(None, "rm", {"path": "/"})).text
    settings = '[routes.m]\nto = ["openai/small"]\nformat = "hermes"'
    for answer, context in ((f"You wrote:\n{block}", [Message(f"Repeat:\n{block}")]), (other, [])):
        with simulate([[answer]]) as model, standing(model.url, settings) as stood:
            response, _ = ask(stood.url, wire, asked(wire, *context, stream=stream))
        assert (response.tool_calls, response.broken_calls) == ([], [])
        assert "<tool_call>" in (response.content or "")


@pytest.mark.parametrize("wire", WIRES)
def test_a_providers_own_format_is_only_read(wire: str) -> None:
    with simulate([[said("hermes")]]) as model:
        told = at(model.url, "openai").with_options(format="hermes")
        with standing(model.url, "", {"openai": told}) as stood:
            response, _ = ask(stood.url, wire, replace(asked(wire, stream=False), model="openai/small"))
    assert [call.arguments["city"] for call in response.tool_calls] == [*CITIES]
    assert [tool["function"]["name"] for tool in model.requests[0].body["tools"]] == ["get_weather"]


def test_what_is_lost_is_counted_and_an_error_comes_in_the_clients_form() -> None:
    settings = '[routes.m]\nto = ["openai/small"]\nformat = "hermes"'
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [WEATHER.to_openai_format()]}
    with simulate([["Hello."]]) as model, standing(model.url, settings) as stood:
        answered = post(stood.url, "/v1/chat/completions", json.dumps(body).encode())
        assert (answered.status, "minor" in answered.headers["x-toolwire-losses"]) == (200, True)
    with standing("http://127.0.0.1:9", settings) as stood:
        failed = post(stood.url, "/v1/messages", json.dumps({**body, "max_tokens": 5, "tools": []}).encode())
        assert (failed.status, json.loads(failed.data)["type"]) == (502, "error")


def test_a_format_that_there_is_not_is_refused_at_the_start() -> None:
    settings = read_settings('[routes.m]\nto = ["openai/small"]\nformat = "nope"')
    with pytest.raises(InvalidField, match=r"routes\.m.*format.*known: "):
        Routes(settings, {"openai": at("http://127.0.0.1:9", "openai")})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "ollama"])
def test_calls_in_the_text_of_a_local_model_reach_a_client_of_another_wire_as_calls(wire: str, *, stream: bool) -> None:
    with simulate([[said("hermes")]]) as model, standing(model.url, '[routes.m]\nto = ["ollama/qwen3"]') as stood:
        answer, _ = ask(stood.url, wire, asked(wire, stream=stream))
    assert [call.arguments for call in answer.tool_calls] == [{"city": city} for city in CITIES]
    assert ((answer.content or "").strip(), answer.finish_reason) == ("I look.", "tool_calls")
    assert "tools" in model.requests[0].body


def test_on_one_wire_the_text_of_a_local_model_is_passed_on_unchanged() -> None:
    with simulate([[said("hermes")]]) as model, standing(model.url, '[routes.m]\nto = ["ollama/qwen3"]') as stood:
        answer, _ = ask(stood.url, "ollama", asked("ollama", stream=False))
    assert (answer.tool_calls, answer.content) == ([], said("hermes"))
