"""Three formats of tools, as a user of OpenAI's, Anthropic's and Ollama's compares them.

Rule: the bodies stand here as the vendors' pages show them, and not as anything here writes them.
"""

from typing import Any

import msgspec
import pytest

from tests.dialects.asking import asking
from toolwire import Context, Message, Request, ServerTool, Tool, ToolCall, ToolChoice, accumulate, codec, dialect
from toolwire.errors import MissingFields
from toolwire.providers import provider_of
from toolwire.schema.validator import Validator
from toolwire.types import Opaque, Response, Text, Thinking, ToolResult

LOCATION = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
UNIT = {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Temperature unit"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"location": LOCATION, "unit": UNIT},
    "required": ["location"],
    "additionalProperties": False,
}
SAID = {"name": "get_weather", "description": "Get the current weather in a given location"}
WEATHER: dict[str, Any] = {"type": "function", "function": {**SAID, "parameters": SCHEMA}}
STRICT: dict[str, Any] = {"type": "function", "function": {**SAID, "parameters": SCHEMA, "strict": True}}
SYSTEM, ASKED = "You are a helpful assistant.", "What's the weather in San Francisco?"
ARGUMENTS = {"location": "San Francisco, CA", "unit": "celsius"}
TEXT = '{"location": "San Francisco, CA", "unit": "celsius"}'
FOUND = '{"temperature": 22, "condition": "sunny"}'
OPENAI_CALL = {
    "id": "call_abc123",
    "type": "function",
    "function": {"name": "get_weather", "arguments": TEXT},
}
OPENAI_ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 82, "completion_tokens": 18, "total_tokens": 100},
}
CLAUDE_CALL = {"type": "tool_use", "id": "toolu_abc123", "name": "get_weather", "input": ARGUMENTS}
CLAUDE_ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [CLAUDE_CALL],
    "model": "claude-sonnet-4-20250514",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 82, "output_tokens": 18},
}
# Each way of calling: the server that answers, its answer, and the id in it.
ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "openai": (OPENAI_ANSWER, "call_abc123"),
    "anthropic": (CLAUDE_ANSWER, "toolu_abc123"),
    "ollama-v1": ({**OPENAI_ANSWER, "model": "llama3.1"}, "call_abc123"),
}


def written(name: str, messages: list[Any], **fields: Any) -> dict[str, Any]:
    """Give the body of a request to a provider."""
    body: dict[str, Any] = provider_of(name)[0].speaks().encode_request(asking(messages, **fields)).body
    return body


def answered(name: str) -> Response:
    """Read the answer of a provider."""
    response: Response = provider_of(name)[0].speaks().decode_response(ANSWERS[name][0])
    return response


@pytest.mark.row("R001-02", "R001-04", "R001-51")
def test_a_declaration_is_a_tool_in_the_known_spelling() -> None:
    tool = Tool.from_map(WEATHER)
    assert (tool.name, tool.parameters) == ("get_weather", SCHEMA)
    assert tool.to_openai_format() == WEATHER
    for lacking in ("name", "parameters"):
        inner = {key: value for key, value in WEATHER["function"].items() if key != lacking}
        with pytest.raises(MissingFields, match=lacking):
            Tool.from_map({"type": "function", "function": inner})


@pytest.mark.parametrize("name", ["openai", "ollama-v1"])
@pytest.mark.row("R001-03", "R001-04", "R001-38", "R001-45", "R001-56", "R001-58")
def test_a_request_in_the_format_of_openai(name: str) -> None:
    """The declaration goes out as it came in."""
    body = written(name, [ASKED], system=SYSTEM, tools=[WEATHER], tool_choice=ToolChoice("auto"))
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED}],
        "tools": [WEATHER],
        "tool_choice": "auto",
    }


@pytest.mark.row("R001-16", "R001-23", "R001-38", "R001-45", "R001-57")
def test_a_request_in_the_format_of_claude() -> None:
    body = written("anthropic", [ASKED], system=SYSTEM, tools=[WEATHER], max_tokens=1024)
    assert body == {
        "model": "m",
        "max_tokens": 1024,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": ASKED}],
        "tools": [{**SAID, "input_schema": SCHEMA}],
    }
    assert written("anthropic", [ASKED])["max_tokens"] >= 1024


@pytest.mark.row("R001-05")
def test_strict_is_said_where_it_is_known_and_held_everywhere() -> None:
    """OpenAI is told in its own form of it, Ollama gets no key that it does not know."""
    [openai] = written("openai", [ASKED], tools=[STRICT])["tools"]
    assert openai["function"]["strict"] is True
    assert openai["function"]["parameters"]["properties"]["location"] == LOCATION
    assert openai["function"]["parameters"]["required"] == ["location", "unit"]
    [ollama] = written("ollama", [ASKED], tools=[STRICT])["tools"]
    assert "strict" not in ollama["function"]
    assert Validator(SCHEMA).problems({"unit": "kelvin"}), "the arguments are checked here"


CHOICES: dict[str, tuple[Any, Any, Any, Any]] = {
    "auto": ("auto", {"type": "auto"}, "AUTO", None),
    "none": ("none", {"type": "none"}, "NONE", None),
    "required": ("required", {"type": "any"}, "ANY", None),
    "one": (
        {"type": "function", "function": {"name": "get_weather"}},
        {"type": "tool", "name": "get_weather"},
        "ANY",
        ["get_weather"],
    ),
}


@pytest.mark.parametrize("case", CHOICES)
@pytest.mark.row("R001-06", "R001-12")
def test_a_tool_choice_in_the_words_of_each(case: str) -> None:
    openai, claude, mode, names = CHOICES[case]
    given = ToolChoice("required", ["get_weather"]) if case == "one" else ToolChoice(case)  # type: ignore[arg-type]
    asked = {
        name: written(name, [ASKED], tools=[WEATHER], tool_choice=given) for name in ("openai", "anthropic", "gemini")
    }
    assert asked["openai"]["tool_choice"] == openai
    assert asked["anthropic"]["tool_choice"] == claude
    told = asked["gemini"]["toolConfig"]["functionCallingConfig"]
    assert (told["mode"], told.get("allowedFunctionNames")) == (mode, names)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.row(
    "R001-07",
    "R001-17",
    "R001-24",
    "R001-25",
    "R001-27",
    "R001-30",
    "R001-39",
    "R001-40",
    "R001-46",
    "R001-53",
    "R001-54",
)
def test_an_answer_is_the_same_whoever_gave_it(name: str) -> None:
    response, (body, call_id) = answered(name), ANSWERS[name]
    assert type(response) is Response
    assert response.content is None
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        (call_id, "get_weather", ARGUMENTS)
    ]
    assert (response.finish_reason, response.model) == ("tool_calls", body["model"])
    assert response.usage is not None
    assert dict(response.usage)["prompt_tokens"] == 82
    assert response.usage["output_tokens"] == 18
    assert not response.is_final_answer()


@pytest.mark.row("R001-40")
def test_both_spellings_of_arguments_are_read() -> None:
    """A server of the other Ollama format is read as well."""
    for arguments in (TEXT, ARGUMENTS):
        body = {"message": {"role": "assistant", "tool_calls": [{"function": {**SAID, "arguments": arguments}}]}}
        [call] = codec.decode_tool_calls(body, "ollama")
        assert (call.name, call.arguments) == ("get_weather", ARGUMENTS)


TOLD = {"role": "tool", "tool_call_id": "call_abc123", "name": "get_weather", "content": FOUND}


@pytest.mark.parametrize("name", ["openai", "ollama-v1"])
@pytest.mark.row("R001-08", "R001-09", "R001-26", "R001-41")
def test_a_conversation_goes_on_in_the_format_of_openai(name: str) -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}
    body = written(name, [{"role": "user", "content": ASKED}, called, TOLD], tools=[WEATHER])
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]
    assert body["messages"][1]["tool_calls"] == [OPENAI_CALL]
    assert (body["messages"][2]["tool_call_id"], body["messages"][2]["content"]) == ("call_abc123", FOUND)


@pytest.mark.row("R001-18", "R001-26", "R001-41")
def test_a_conversation_goes_on_in_the_format_of_claude() -> None:
    call = ToolCall("toolu_abc123", "get_weather", ARGUMENTS)
    result = Message("tool", FOUND, "get_weather", "toolu_abc123")
    body = written("anthropic", [ASKED, Message("assistant", [call]), result])
    assert body["messages"][1:] == [
        {"role": "assistant", "content": [CLAUDE_CALL]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_abc123", "content": FOUND}],
        },
    ]
    assert codec.encode_result(ToolResult("toolu_abc123", "get_weather", FOUND), "anthropic") == body["messages"][2]


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.row("R001-11", "R001-42")
def test_several_calls_come_in_their_order(name: str) -> None:
    if name == "anthropic":
        body = {**CLAUDE_ANSWER, "content": [CLAUDE_CALL | {"id": f"t{place}"} for place in range(3)]}
    else:
        calls = [OPENAI_CALL | {"id": f"t{place}"} for place in range(3)]
        body = {**OPENAI_ANSWER, "choices": [{"message": {"role": "assistant", "tool_calls": calls}}]}
    response = provider_of(name)[0].speaks().decode_response(body)
    assert [(call.id, call.index) for call in response.tool_calls] == [("t0", 0), ("t1", 1), ("t2", 2)]


DRAFT: dict[str, Any] = {
    "$defs": {"place": {"type": "object", "properties": {"at": {"const": "home"}}, "additionalProperties": False}},
    "type": "object",
    "properties": {
        "place": {"$ref": "#/$defs/place"},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
        "one": {"anyOf": [{"type": "integer"}, {"enum": ["a", "b"]}]},
    },
}
VALUES: list[tuple[dict[str, Any], bool]] = [
    ({"place": {"at": "home"}, "pair": [1, "x"], "one": "a"}, True),
    ({"place": {"at": "work"}}, False),
    ({"place": {"more": 1}}, False),
    ({"pair": ["x", 1]}, False),
    ({"pair": [1, "x", 2]}, False),
    ({"one": "c"}, False),
]


@pytest.mark.parametrize(("value", "good"), VALUES)
@pytest.mark.row("R001-13")
def test_arguments_are_checked_by_draft_2020_12(value: dict[str, Any], good: bool) -> None:
    """The draft's own suite is held in test_validation_suite.py."""
    assert (not Validator(DRAFT).problems(value)) is good


@pytest.mark.row("R001-19")
def test_arguments_may_stream_without_being_kept_back() -> None:
    """Fragments are put together, and the server may be told to send them at once."""
    tool = Tool.from_map(WEATHER)
    eager = Tool(
        tool.name,
        tool.description,
        tool.parameters,
        opaque=Opaque("anthropic", {"eager_input_streaming": True}),
    )
    [told] = written("anthropic", [ASKED], tools=[eager])["tools"]
    assert told == {**SAID, "input_schema": SCHEMA, "eager_input_streaming": True}
    assert "eager_input_streaming" not in str(written("openai", [ASKED], tools=[eager]))


@pytest.mark.row("R001-21")
def test_a_tool_of_the_server_goes_through_as_it_is() -> None:
    """Declared to Anthropic word for word, said as a loss elsewhere, and never run here."""
    value = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    request = asking([ASKED], tools=[ServerTool("web_search_20250305", "anthropic", value)])
    assert dialect("anthropic").encode_request(request).body["tools"] == [value]
    elsewhere = dialect("openai-chat").encode_request(request)
    assert "tools" not in elsewhere.body
    assert [(loss.path, loss.action) for loss in elsewhere.losses] == [("tools[0]", "dropped")]
    ran = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    assert dialect("anthropic").decode_response({**CLAUDE_ANSWER, "content": [ran]}).tool_calls == []


@pytest.mark.row("R001-22")
def test_thinking_is_kept_and_said_again() -> None:
    thought = {"type": "thinking", "thinking": "Where is that?", "signature": "c2ln"}
    response = dialect("anthropic").decode_response({**CLAUDE_ANSWER, "content": [thought, CLAUDE_CALL]})
    assert isinstance(response.parts[0], Thinking)
    result = Message("tool", FOUND, "get_weather", "toolu_abc123")
    body = written("anthropic", [ASKED, response.message, result])
    assert body["messages"][1]["content"] == [thought, CLAUDE_CALL]


@pytest.mark.row("R001-61")
def test_one_conversion_for_each_format_is_enough() -> None:
    """A body of one format is another's by way of one model of it, in both directions."""
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": ASKED}]}
    names = ("openai-chat", "anthropic", "gemini", "openai-responses", "ollama")
    for name in names:
        there = dialect(name).encode_request(dialect("anthropic").decode_request(asked))
        back = dialect(name).decode_request(there.body, there.path)
        assert [part.text for part in back.messages[0].parts if isinstance(part, Text)] == [ASKED]
    made = Request(context=Context(None, [Message(ASKED)]), model="m")
    assert len({str(dialect(name).encode_request(made).body) for name in names}) == len(names)


@pytest.mark.row("R001-19")
def test_fragments_of_arguments_are_put_together() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**CLAUDE_ANSWER, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**CLAUDE_CALL, "input": {}}},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": TEXT[at : at + 5]},
            }
            for at in range(0, len(TEXT), 5)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 18}},
        {"type": "message_stop"},
    ]
    decoder = dialect("anthropic").decode_stream()
    frames = [f"event: {event['type']}\ndata: {msgspec.json.encode(event).decode()}\n\n" for event in events]
    told = [decoder.feed(frame.encode()) for frame in frames]
    assert [type(event).__name__ for event in told[2]] == ["CallDelta"]
    response = accumulate([event for part in told for event in part] + decoder.close())
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("toolu_abc123", "get_weather", ARGUMENTS)
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["openai", "anthropic", "ollama-v1", "gemini", "openai-responses"])
@pytest.mark.parametrize("call_id", ["call_abc123", "toolu_abc123", "17", "of-another_server"])
@pytest.mark.row("R001-24")
def test_an_id_of_any_spelling_links_a_result_to_its_call(name: str, call_id: str) -> None:
    call, result = ToolCall(call_id, "get_weather", ARGUMENTS), Message("tool", FOUND, "get_weather", call_id)
    body = written(name, [ASKED, Message("assistant", [call]), result])
    assert str(body).count(repr(call_id)) == 2
