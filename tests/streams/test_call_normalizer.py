"""Calls as their conversation takes them: ids that tell them apart, and no nulls that only strictness asked for."""

from itertools import pairwise
from typing import Any, Literal

import msgspec
import pytest

from tests.client.faces import COMPATIBLE, DIALECTS, FACES, chat, lead, legal
from toolwire import (
    AgentResolver,
    Context,
    Message,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    accumulate,
    dialect,
    execute,
    tool,
)
from toolwire.streams.accumulation import events_of
from toolwire.streams.call_normalizer import CallNormalizer, without_nulls
from toolwire.testing import simulate
from toolwire.types import CallEnd, Choice, Response

WIRES = (*DIALECTS, "ollama-v1")
FAHRENHEIT = {"location": "SF", "unit": "fahrenheit"}
BLOCK = '~~~tool_call\n{"name": "get_weather", "arguments": {"location": "SF"}}\n~~~'


@tool(strict=True)
def get_weather(location: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Get the current weather in a given location."""
    return f"{location} in {unit}"


class Own:
    """A resolver of somebody's own, which is given what the model said."""

    def available_tools(self) -> list[Tool]:
        return [get_weather.tool]

    def resolve(self, call: ToolCall) -> str:
        return f"given {sorted(call.arguments)}"


def said(unit: Any) -> ToolCall:
    return ToolCall(None, "get_weather", {"location": "SF", "unit": unit})


@pytest.mark.sampled
@pytest.mark.row("R001-05")
@pytest.mark.row("R001-10")
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", WIRES)
def test_the_null_that_strictness_asks_for_is_taken_out(name: str, face: str, shown: bool) -> None:
    with simulate([[said(None), said("fahrenheit")], "Done."]) as model:
        led = lead(face, name, model.url, "?", shown=shown, tools=[get_weather])
    results = [part for message in led.done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert [one.content for one in results] == ["SF in celsius", "SF in fahrenheit"]
    assert [call.arguments for call in led.done.messages[0].tool_calls] == [{"location": "SF"}, FAHRENHEIT]
    told = [event.call.arguments for event in led.told if isinstance(event, CallEnd)]
    assert told == ([{"location": "SF"}, FAHRENHEIT] if shown else [])


@pytest.mark.sampled
@pytest.mark.row("R001-05")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", WIRES)
def test_a_resolver_of_ones_own_and_chat_are_given_no_such_null(name: str, face: str) -> None:
    with simulate([[said(None)], "Done.", [said(None)]]) as model:
        done = lead(face, name, model.url, "?", resolver=Own()).done
        response = chat(face, name, model.url, "?", tools=[get_weather.to_openai_format()])
    assert done.messages[1].parts[0].content == "given ['location']"
    assert [call.arguments for call in response.tool_calls] == [{"location": "SF"}]


NULLABLE = {"type": "object", "properties": {"unit": {"type": ["string", "null"]}}, "required": []}
REQUIRED = {"type": "object", "properties": {"unit": {"type": "string"}}, "required": ["unit"]}
OPTIONAL = {"type": "object", "properties": {"unit": {"type": "string"}}}
NESTED = {"type": "object", "properties": {"inner": OPTIONAL, "many": {"type": "array", "items": OPTIONAL}}}


@pytest.mark.parametrize(
    ("schema", "strict", "given", "left"),
    [
        (OPTIONAL, True, {"unit": None}, {}),
        (OPTIONAL, False, {"unit": None}, {"unit": None}),
        (OPTIONAL, None, {"unit": None}, {"unit": None}),
        (NULLABLE, True, {"unit": None}, {"unit": None}),
        (REQUIRED, True, {"unit": None}, {"unit": None}),
        (OPTIONAL, True, {"other": None}, {"other": None}),
        (NESTED, True, {"inner": {"unit": None}, "many": [{"unit": None}, {"unit": "c"}]},
         {"inner": {}, "many": [{}, {"unit": "c"}]}),
        ({"$ref": "#/nowhere"}, True, {"unit": None}, {"unit": None}),
    ],
)  # fmt: skip
def test_only_what_the_tool_takes_no_null_for(schema: Any, strict: Any, given: Any, left: Any) -> None:
    declared = Tool("f", "F", schema, strict=strict)
    call = ToolCall("c", "f", given, raw=msgspec.json.encode(given).decode())
    settled = without_nulls(call, declared)
    assert (settled.arguments, settled.raw) == (left, call.raw)
    assert (settled is call) is (left == given)


def test_what_a_codec_read_is_run_without_it() -> None:
    call = ToolCall("c", "get_weather", {"location": "SF", "unit": None})
    for resolver in (AgentResolver([get_weather]), Own()):
        assert not execute([call], resolver)[0].is_error
    assert AgentResolver([get_weather]).resolve(call).content == "SF in celsius"


@pytest.mark.sampled
@pytest.mark.row("R004-11")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", [*DIALECTS, *COMPATIBLE[:2]])
def test_ids_that_were_made_are_unique_in_a_conversation(name: str, face: str) -> None:
    with simulate([BLOCK, BLOCK, "Done."], clock=lambda: 5) as model:
        done = lead(face, name, model.url, "?", tools=[get_weather]).done
    ids = [call.id for message in done.messages for call in message.tool_calls]
    assert len(set(ids)) == len(ids) == 2
    assert legal(done.messages)
    with simulate([BLOCK, BLOCK, "Done."], clock=lambda: 5) as model:
        again = lead(face, name, model.url, "?", tools=[get_weather]).done
    assert [call.id for message in again.messages for call in message.tool_calls] == ids, "derived, not drawn"


ANSWERS: dict[str, dict[str, Any]] = {
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [
        {"functionCall": {"name": "f", "args": {}}}] * 2}}]},
    "openai-chat": {"choices": [{"message": {"role": "assistant", "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": "{}"}}] * 2}}]},
    "openai-responses": {"output": [{"type": "function_call", "name": "f", "arguments": "{}"}] * 2},
    "anthropic": {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {}}] * 2},
    "ollama": {"message": {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}] * 2}},
}  # fmt: skip


def ids_of(response: Response) -> list[str | None]:
    return [call.id for call in response.tool_calls]


@pytest.mark.row("R003-42")
@pytest.mark.parametrize("name", ANSWERS)
def test_equal_answers_without_ids_get_other_ids(name: str) -> None:
    """Three equal bodies, as a server without ids gives them: no call has the id of an earlier one."""
    wire, history, found = dialect(name), [Message("?")], list[str | None]()
    for _ in range(3):
        request = Request(context=Context(None, history))
        response = CallNormalizer(request).normalize_response(wire.decode_response(ANSWERS[name]))
        found += ids_of(response)
        results = [Message("tool", [ToolResult(call.id, "f", "x")]) for call in response.tool_calls]
        history = [*history, response.message, *results]
    assert len(set(found)) == 6
    assert legal(history[1:])
    bodies = [wire.encode_request(Request(context=Context(None, history[:end]), model="m")).body for end in (4, 7, 10)]
    key = next(key for key in ("messages", "input", "contents") if key in bodies[0])
    for before, after in pairwise(bodies):
        assert after[key][: len(before[key])] == before[key]


def test_an_id_that_a_wire_gave_stays() -> None:
    body = {"choices": [{"message": {"role": "assistant", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}]}  # fmt: skip
    response = dialect("openai").decode_response(body)
    request = Request(context=Context(None, [Message("?"), response.message, Message("tool", "x", "f", "call_1")]))
    assert CallNormalizer(request).normalize_response(response) is response


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", ["a" * 80, "srv:list/" + "b" * 125])
def test_a_tool_runs_whose_name_its_models_wire_does_not_take(name: str, wire: str, face: str, shown: bool) -> None:
    ran = tool(lambda: "ran", name=name)

    def turn(request: Any, _place: int) -> Any:
        answered = any(message.role == "tool" for message in request.messages)
        return "Done." if answered else ToolCall(None, request.tools[0].name)

    with simulate(turn) as model:
        led = lead(face, wire, model.url, "?", shown=shown, tools=[ran])
    results = [part for message in led.done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert [(one.name, one.content) for one in results] == [(name, "ran")]


def test_a_tools_own_name_is_never_another_ones() -> None:
    long, wire = Tool("a" * 80), dialect("openai-chat")
    written = wire.encode_request(Request(context=Context(None, [], [long]))).body["tools"][0]["function"]["name"]
    call: Any = ToolCall("c", written)
    answer = Response(choices=[Choice(Message("assistant", [call]), "tool_calls")])
    for tools, name in (([long], long.name), ([long, Tool(written)], written)):
        settled = CallNormalizer(Request(context=Context(None, [], tools))).normalize_response(answer)
        assert [call.name for call in settled.tool_calls] == [name]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_call_of_no_name_is_one_of_no_tool_plain_and_streamed_and_can_be_repeated(name: str) -> None:
    wire, call = dialect(name), ToolCall("c", "NONE", {"a": 1})
    told = Response(model="m", choices=[Choice(Message("assistant", [Text("Hi"), call]), "tool_calls")])
    plain = wire.decode_response(msgspec.json.decode(wire.encode_response(told).json.replace(b'"NONE"', b'""')))
    writer, reader = wire.encode_stream(), wire.decode_stream()
    data = b"".join([*map(writer.feed, events_of(told)), writer.close()]).replace(b'"NONE"', b'""')
    for response in (plain, accumulate([*reader.feed(data), *reader.close()])):
        assert [(one.name, one.arguments, one.runs) for one in response.tool_calls] == [("", {"a": 1}, True)]
        answer = CallNormalizer(Request(context=Context(None, []))).normalize_response(response).message
        [result] = execute(answer.tool_calls, AgentResolver([get_weather]))
        assert result.content == "unknown tool ''. Available: get_weather"
        history = [Message("?"), answer, Message("tool", [result])]
        body = wire.encode_request(Request(context=Context(None, history), model="m", max_tokens=9)).json
        assert (b'"name":""' in body) == (name == "ollama")  # which takes it
