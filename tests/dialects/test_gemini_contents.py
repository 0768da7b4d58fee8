"""Contents of generateContent: what each part means, and how results find their calls."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolwire import (
    Audio,
    Context,
    Document,
    Image,
    Message,
    Opaque,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    translate,
)
from toolwire.dialects import gemini
from toolwire.dialects.gemini.calls import read_response, write_response
from toolwire.wire.arguments import format_arguments

PNG = "iVBORw0KGgo="
LOOK = {"functionCall": {"name": "look", "args": {"city": "Paris"}}}
SEEN = {"functionResponse": {"name": "look", "response": {"output": "sunny"}}}


def contents(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"contents": [{"role": role, "parts": list(parts)}]}


def parts_of(*parts: Any, role: str = "user") -> list[Any]:
    return gemini.decode_request(contents(*parts, role=role)).messages[0].parts


MEANINGS: list[tuple[Any, type, dict[str, Any]]] = [
    ({"text": "a"}, Text, {"text": "a"}),
    ({"text": "a", "thoughtSignature": "s"}, Text, {"text": "a"}),
    ({"text": "a", "thought": True, "thoughtSignature": "s"}, Thinking, {"text": "a", "signature": "s"}),
    ({"inlineData": {"mimeType": "image/png", "data": PNG}}, Image, {"data": PNG, "media_type": "image/png"}),
    (
        {"inline_data": {"mime_type": "audio/wav", "data": "YQ"}},
        Audio,
        {"data": "YQ", "media_type": "audio/wav"},
    ),
    (
        {"inlineData": {"mimeType": "application/pdf", "data": "YQ", "displayName": "d"}},
        Document,
        {"name": "d"},
    ),
    ({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://v"}}, Document, {"url": "gs://v"}),
    ({"fileData": {"mimeType": "image/png", "fileUri": "gs://i"}}, Image, {"url": "gs://i", "data": None}),
    ({"executableCode": {"code": "1", "id": "x"}}, ServerToolCall, {"id": "x", "arguments": {"code": "1"}}),
    ({"codeExecutionResult": {"output": "2"}}, ServerToolResult, {"content": {"output": "2"}}),
    ({"toolCall": {"toolType": "URL_CONTEXT", "args": {}}}, ServerToolCall, {"name": "URL_CONTEXT"}),
    ({"toolResponse": {"toolType": "A", "response": {"a": 1}}}, ServerToolResult, {"content": {"a": 1}}),
    ({"text": "a", "thought": True, "functionCall": {"name": "f"}}, Opaque, {}),
    ({"unheard": 1}, Opaque, {"value": {"unheard": 1}}),
]


@pytest.mark.parametrize(("body", "kind", "fields"), MEANINGS)
def test_what_a_part_means(body: Any, kind: type, fields: dict[str, Any]) -> None:
    [part] = parts_of(body, {"text": "."})[:1]
    assert type(part) is kind
    assert {field: getattr(part, field) for field in fields} == fields


def test_a_signature_stays_on_its_part() -> None:
    call, text = parts_of({**LOOK, "thought_signature": "a+/="}, {"text": "", "thoughtSignature": "b"}, role="model")
    assert call.opaque.value == {"thoughtSignature": "a+/="}
    assert text == Text("", opaque=Opaque("gemini", {"thoughtSignature": "b"}))


ROLES = [
    ([{"text": "a"}], "model", "assistant", "a"),
    ([{"text": "a"}], "user", "user", "a"),
    ([{"text": "a"}], "function", "user", "a"),
    ([SEEN, SEEN], "user", "tool", None),
    ([SEEN], "function", "tool", None),
    ([SEEN, {"text": "a"}], "user", "user", None),
]


@pytest.mark.parametrize(("parts", "role", "speaker", "content"), ROLES)
def test_who_speaks(parts: list[Any], role: str, speaker: str, content: str | None) -> None:
    [message] = gemini.decode_request(contents(*parts, role=role)).messages
    assert message.role == speaker
    assert content is None or message.content == content


def test_calls_without_ids_are_numbered_through_the_conversation() -> None:
    call, result = {"functionCall": {"name": "look"}}, {"functionResponse": {"name": "look", "response": {}}}
    turns = [
        {"role": "model", "parts": [call, {"functionCall": {"name": "other", "id": "gemini_2"}}, call]},
        {"role": "user", "parts": [result, {"functionResponse": {"name": "other"}}, result]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "renamed", "id": "own"}}]},
    ]
    messages = gemini.decode_request({"contents": turns}).messages
    assert [call.id for message in messages for call in message.tool_calls] == [
        *("gemini_1", "gemini_2", "gemini_3", "gemini_4")
    ]
    answered = [part.tool_call_id for message in messages for part in message.parts if isinstance(part, ToolResult)]
    assert answered == ["gemini_1", "gemini_2", "gemini_3", "own"]
    assert gemini.encode_request(gemini.decode_request({"contents": turns})).body == {"contents": turns}


def linked(calls: list[tuple[str, str | None]], results: list[tuple[str | None, str | None]]) -> list[str | None]:
    said = [{"functionCall": {"name": name, "id": given}} for name, given in calls]
    answers: list[Any] = [{"functionResponse": {"name": name, "id": given, "response": {}}} for name, given in results]
    body = {"contents": [{"role": "model", "parts": said}, {"role": "user", "parts": answers}]}
    request = gemini.decode_request(body)
    assert gemini.encode_request(request).body == body
    return [part.tool_call_id for part in request.messages[1].parts if isinstance(part, ToolResult)]


LINKS: list[tuple[list[Any], list[Any], list[str | None]]] = [
    ([("a", "x"), ("b", "y")], [("b", "y"), ("a", "x")], ["y", "x"]),
    ([("a", None), ("b", None)], [("b", None), ("a", None)], ["gemini_2", "gemini_1"]),
    ([("a", "x"), ("a", "y")], [("a", None), ("a", None)], ["x", "y"]),
    ([("a", None)], [("other", None)], ["gemini_1"]),
    ([("a", None)], [(None, None), (None, None)], ["gemini_1", None]),
    ([("a", None)], [("a", "z")], ["gemini_1"]),
    ([("a", "x")], [("a", "z")], ["z"]),
]


@pytest.mark.parametrize(("calls", "results", "ids"), LINKS)
def test_a_result_finds_its_call(calls: Any, results: Any, ids: list[str | None]) -> None:
    assert linked(calls, results) == ids


RESPONSES: list[tuple[dict[str, Any], str, bool]] = [
    ({"output": "x"}, "x", False),
    ({"output": ""}, "", False),
    ({"error": "boom"}, "boom", True),
    ({}, "{}", False),
    ({"a": 1, "b": [None, 1.0]}, '{"a":1,"b":[null,1.0]}', False),
    ({"output": 1}, '{"output":1}', False),
    ({"error": {"code": 1}}, '{"error":{"code":1}}', False),
    ({"output": "x", "error": "y"}, '{"output":"x","error":"y"}', False),
    ({"output": '{"output":"x"}'}, '{"output":"x"}', False),
    ({"output": '{"a": 1}'}, '{"a": 1}', False),
    ({"output": '{"a":1,"a":1}'}, '{"a":1,"a":1}', False),
    ({"output": "{"}, "{", False),
    ({"output": "[1]"}, "[1]", False),
    ({"error": '{"a":1}'}, '{"a":1}', True),
]


@pytest.mark.parametrize(("response", "text", "is_error"), RESPONSES)
def test_an_object_and_the_text_of_a_result_are_one_to_one(response: dict[str, Any], text: str, is_error: bool) -> None:
    [result] = parts_of({"functionResponse": {"name": "look", "response": response}})
    assert (result.content, result.is_error) == (text, is_error)
    history = [
        Message("Hi"),
        Message("assistant", [ToolCall("c", "look")]),
        Message("tool", [ToolResult("c", None, text, is_error)]),
    ]
    body = gemini.encode_request(Request(context=Context(None, history))).body
    assert body["contents"][2]["parts"][0]["functionResponse"]["response"] == response


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["output", "error", "result", "a"]) | st.text(max_size=4), VALUES, max_size=3)


@given(OBJECTS)
def test_every_object_of_a_result_comes_back(response: dict[str, Any]) -> None:
    body = {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "look", "response": response}}]}]}
    assert gemini.encode_request(gemini.decode_request(body)).body == body


ARGUMENTS_AS_TEXT: dict[str, tuple[str, dict[str, Any], bool]] = {
    "an object": ('{"city": "Paris"}', {"city": "Paris"}, True),
    "no text": ("", {}, True),
    "null": ("null", {}, True),
    "a list": ("[1]", {}, False),
    "half an object": ('{"city": "Pa', {}, False),
    "a key twice": ('{"a": 1, "a": 2}', {}, False),
}


@pytest.mark.parametrize(("text", "arguments", "runs"), ARGUMENTS_AS_TEXT.values(), ids=ARGUMENTS_AS_TEXT)
def test_arguments_that_came_as_text(text: str, arguments: dict[str, Any], runs: bool) -> None:
    answer = {"content": {"role": "model", "parts": [{"functionCall": {"name": "look", "args": text}}]}}
    body = {"candidates": [{**answer, "finishReason": "STOP"}]}
    response = gemini.decode_response(body)
    call: Any = response.choices[0].message.parts[0]
    assert (call.arguments, call.runs, call.raw) == (arguments, runs, text)
    assert gemini.encode_response(response).body == body
    told = translate.response(body, "gemini", "anthropic").body["content"]
    assert [block.get("input") for block in told] == ([arguments] if runs else [])
    changed = replace(response.choices[0].message, content=[replace(call, arguments={"city": "Rome"})])
    choices = [replace(response.choices[0], message=changed)]
    [written] = gemini.encode_response(replace(response, choices=choices)).body["candidates"][0]["content"]["parts"]
    assert written == {"functionCall": {"name": "look", "args": {"city": "Rome"}}}


RESULTS_OF_CLIENTS: list[tuple[Any, str]] = [
    *(({"result": value}, text) for value, text in [("found", "found"), ({"a": [1]}, '{"a":[1]}'), (22, "22")]),
    *(({"result": value}, text) for value, text in [(None, "null"), ("", "")]),
    *(({"return_value": value}, text) for value, text in [("25C", "25C"), ({"a": 1}, '{"a":1}'), ([], "[]")]),
    *(({"content": value}, text) for value, text in [("25C", "25C"), (None, "null"), ([1], "[1]")]),
    *(({key: [{"text": "a"}, {"text": "b"}]}, "a\nb") for key in ("output", "content", "result", "return_value")),
    ({"content": [{"type": "text", "text": "a", "annotations": None}]}, "a"),
    ({"name": "look", "content": "25C"}, "25C"),
    ({"name": "look", "content": {"a": 1}}, '{"a":1}'),
    ({"output": '{"a":1}'}, '{"a":1}'),
    *[("found", "found"), ([1, {"a": 2}], '[1,{"a":2}]'), (22, "22"), (False, "false"), ("", "")],
]


@pytest.mark.parametrize(("response", "text"), RESULTS_OF_CLIENTS)
def test_a_result_that_a_client_wraps_or_leaves_bare_is_its_value(response: Any, text: str) -> None:
    called = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
    answer = {"functionResponse": {"name": "look", "response": response}}
    body = {"contents": [{"role": "user", "parts": [{"text": "a"}]}, called, {"role": "user", "parts": [answer]}]}
    request = gemini.decode_request(body)
    assert request.messages[-1].parts[0].content == text  # type: ignore[union-attr]
    assert gemini.encode_request(request).body == body
    assert translate.request(body, "gemini", "openai").body["messages"][-1]["content"] == text
    changed = replace(request.messages[-1].parts[0], content="new")
    messages = [*request.messages[:-1], replace(request.messages[-1], content=[changed])]
    written = gemini.encode_request(replace(request, context=replace(request.context, messages=messages))).body
    assert written["contents"][2]["parts"][0]["functionResponse"]["response"] == {"output": "new"}


RESULTS_THEMSELVES: list[dict[str, Any]] = [
    {"name": "seek", "content": "25C"},
    {"name": "look", "content": "25C", "unit": "C"},
    {"content": "25C", "title": "Rome"},
    {"content": [{"type": "text", "text": "a"}], "isError": False},
    {"return_value": 1, "a": 2},
    {"result": 1, "a": 2},
    {"output": {"a": 1}},
    {"output": [{"text": "a"}, {"image": "b"}]},
    {"output": [{"text": "a", "score": 1}]},
    {"output": []},
    {"value": "25C"},
    {"error": {"code": 5}},
    {},
]


@pytest.mark.parametrize("response", RESULTS_THEMSELVES)
def test_an_object_with_another_key_is_the_result_itself(response: dict[str, Any]) -> None:
    [result] = parts_of({"functionResponse": {"name": "look", "response": response}})
    assert (result.content, result.is_error) == (format_arguments(response), False)


WRAPPED = [
    {"return_value": "25C"},
    {"content": "25C"},
    {"name": "look", "content": "25C"},
    {"output": [{"text": "25C"}]},
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", ["openai-chat", "openai-responses", "anthropic", "ollama"])
@pytest.mark.parametrize("response", WRAPPED)
def test_other_models_read_the_value_alone(response: dict[str, Any], target: str, stream: bool) -> None:
    called = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": response}}]}
    body = {"contents": [{"role": "user", "parts": [{"text": "a"}]}, called, answer]}
    path = f"/v1beta/models/m:{'streamGenerateContent' if stream else 'generateContent'}"
    sent = translate.exchange(body, source="gemini", target=target, path=path).encoded.json
    assert b'"25C"' in sent
    assert not any(key in sent for key in (b"return_value", b'\\"content', b'\\"output', b'\\"text'))
    assert translate.request(body, "gemini", "gemini", path).body == body


@given(st.text() | OBJECTS.map(format_arguments) | OBJECTS.map(json.dumps), st.booleans())
def test_every_text_of_a_result_comes_back(text: str, is_error: bool) -> None:
    for name in (None, "look"):
        written = write_response(text, is_error=is_error, name=name)
        assert read_response(written, name) == (text, is_error)


@pytest.mark.parametrize("response", [*WRAPPED, {"result": 1}])
def test_a_text_that_looks_wrapped_comes_back_as_this_text(response: dict[str, Any]) -> None:
    text = format_arguments(response)
    written = write_response(text, is_error=False, name="look")
    assert written == {"output": text}
    assert read_response(written, "look") == (text, False)
