"""Messages and contexts: the ways to make one, the known spelling, and the way through JSON and back."""

from typing import Any, get_args

import msgspec
import pytest

from toolwire import (
    Audio,
    Cache,
    Choice,
    Citation,
    Context,
    Document,
    Image,
    Message,
    Opaque,
    Output,
    Refusal,
    Request,
    Response,
    ServerTool,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from toolwire.errors import InvalidField, MissingFields
from toolwire.types import PARTS, Error
from toolwire.types.spelling import RequestSpelling, Spelling
from toolwire.types.spelling.openai_chat import ChatRefusalSpelling

PNG = "iVBORw0KGgo="
CALL = ToolCall("call_1", "search", {"q": "x"})

FORMS: dict[str, tuple[Message, str, Any, str | None, str | None]] = {
    "words alone": (Message("Hello"), "user", "Hello", None, None),
    "no words": (Message(""), "user", "", None, None),
    "a role as words": (Message("system"), "user", "system", None, None),
    "a role and words": (Message("assistant", "Hi"), "assistant", "Hi", None, None),
    "new with words": (Message.new("Hello"), "user", "Hello", None, None),
    "new with a role": (Message.new("developer", "Be brief."), "developer", "Be brief.", None, None),
    "parts": (Message("user", [Text("a"), Image("u")]), "user", [Text("a"), Image("u")], None, None),
    "a name": (Message("user", "a", name="Ann"), "user", "a", "Ann", None),
    "a result in words": (
        Message("tool", "25 degrees", tool_call_id="call_1", name="weather"),
        "tool",
        [ToolResult("call_1", "weather", "25 degrees")],
        "weather",
        "call_1",
    ),
    "a result in parts": (
        Message("tool", [Text("a"), Image("u")], tool_call_id="call_1"),
        "tool",
        [ToolResult("call_1", None, [Text("a"), Image("u")])],
        None,
        "call_1",
    ),
    "a result": (
        Message("tool", [ToolResult("call_1", "weather", "x", is_error=True)]),
        "tool",
        [ToolResult("call_1", "weather", "x", is_error=True)],
        "weather",
        "call_1",
    ),
    "results": (
        Message("tool", [ToolResult("call_1", "a", "x"), ToolResult("call_2", "b", "y")]),
        "tool",
        [ToolResult("call_1", "a", "x"), ToolResult("call_2", "b", "y")],
        None,
        None,
    ),
    "no results": (Message("tool", []), "tool", [], None, None),
}


@pytest.mark.parametrize(("message", "role", "content", "name", "call_id"), FORMS.values(), ids=FORMS)
def test_a_message(message: Message, role: str, content: Any, name: str | None, call_id: str | None) -> None:
    assert (message.role, message.content) == (role, content)
    assert (message.name, message.tool_call_id) == (name, call_id)


def test_what_a_message_holds() -> None:
    message = Message("assistant", [Thinking("Hm."), Text("I "), CALL, Text("look.")])
    assert (message.text, message.tool_calls) == ("I look.", [CALL])
    assert (Message("a").parts, Message("a").text, Message("a").tool_calls) == ([Text("a")], "a", [])


@pytest.mark.parametrize("content", ["25 degrees", "", [Text("a")]])
def test_a_result_needs_the_id_of_its_call(content: Any) -> None:
    with pytest.raises(MissingFields) as caught:
        Message("tool", content)
    assert caught.value.fields == ["tool_call_id"]


def test_a_role_of_nobody_is_refused() -> None:
    with pytest.raises(InvalidField, match="role must be one of assistant, developer, system, tool, user, not 'bot'"):
        Message("bot", "Hi")  # type: ignore[call-overload]


def call_map(arguments: Any = '{"q": "x"}', **fields: Any) -> dict[str, Any]:
    function = {"name": "search", "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": function, **fields}


def rest(**value: Any) -> Opaque:
    return Opaque("openai-chat", value)


OPENAI: dict[str, tuple[dict[str, Any], Message]] = {
    "words": ({"role": "user", "content": "Hi"}, Message("user", "Hi")),
    "no role": ({"content": "Hi"}, Message("user", "Hi")),
    "a name": ({"role": "user", "content": "Hi", "name": "Ann"}, Message("user", "Hi", "Ann")),
    "nothing": ({"role": "assistant", "content": None}, Message("assistant", [])),
    "parts": (
        {"role": "user", "content": [{"type": "text", "text": "a"}, "b"]},
        Message("user", [Text("a"), Text("b")]),
    ),
    "a picture": (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/i.png"}}]},
        Message("user", [Image("https://x/i.png")]),
    ),
    "a picture in place": (
        {
            "role": "user",
            "content": [
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "high"},
                }
            ],
        },
        Message("user", [Image(data=PNG, media_type="image/png", detail="high")]),
    ),
    "parts with more": (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "u", "format": "png"}, "note": 1},
            ],
        },
        Message(
            "user",
            [
                Text("a", cache=Cache(), opaque=rest()),
                Image("u", opaque=rest(image_url={"format": "png"}, note=1)),
            ],
        ),
    ),
    "a part of its own": (
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x", "format": "flac"}}]},
        Message(
            "user",
            [Opaque("openai-chat", {"type": "input_audio", "input_audio": {"data": "x", "format": "flac"}})],
        ),
    ),
    "calls": (
        {"role": "assistant", "content": None, "tool_calls": [call_map(), call_map({"q": "y"}, id=None)]},
        Message(
            "assistant",
            [
                ToolCall("call_1", "search", {"q": "x"}, raw='{"q": "x"}'),
                ToolCall(None, "search", {"q": "y"}, 1),
            ],
        ),
    ),
    "words and a call": (
        {"role": "assistant", "content": "I look.", "tool_calls": [call_map()]},
        Message("assistant", [Text("I look."), ToolCall("call_1", "search", {"q": "x"}, raw='{"q": "x"}')]),
    ),
    "a call that is wrong": (
        {"role": "assistant", "tool_calls": [call_map("[1]")]},
        Message(
            "assistant",
            [ToolCall("call_1", "search", raw="[1]", error="an object was expected, not an array", complete=True)],
        ),
    ),
    "a call of free text": (
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "run", "input": "print(1)"}}],
        },
        Message("assistant", [ToolCall("call_1", "run", raw="print(1)", custom=True)]),
    ),
    "a result": (
        {"role": "tool", "tool_call_id": "call_1", "name": "search", "content": "found"},
        Message("tool", [ToolResult("call_1", "search", "found")]),
    ),
    "a result in parts": (
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "found"}]},
        Message("tool", [ToolResult("call_1", None, [Text("found")])]),
    ),
    "more": (
        {"role": "assistant", "content": "a", "refusal": "No."},
        Message("assistant", "a", opaque=rest(refusal="No.")),
    ),
}


@pytest.mark.parametrize(("body", "message"), OPENAI.values(), ids=OPENAI)
def test_the_known_spelling(body: dict[str, Any], message: Message) -> None:
    before = msgspec.json.encode(body)
    assert Message.from_map(body) == message
    assert Message.of(body) == message
    assert msgspec.json.encode(body) == before


def test_a_call_keeps_what_has_no_field() -> None:
    body = {
        "role": "assistant",
        "tool_calls": [call_map(extra_content={"google": {"thought_signature": "s"}})],
    }
    body["tool_calls"][0]["function"]["note"] = 1  # type: ignore[index]
    [call] = Message.from_map(body).tool_calls
    assert call.opaque == rest(function={"note": 1}, extra_content={"google": {"thought_signature": "s"}})


REFUSED: dict[str, tuple[Any, str]] = {
    "content": ({"content": 1}, "content must be a string, a list of parts or null"),
    "calls": ({"role": "assistant", "tool_calls": {"id": "x"}}, "tool_calls must be a list"),
    "a call": (
        {"role": "assistant", "tool_calls": [call_map(), {"id": "x"}]},
        r"tool_calls\[1\] must have a function with a name and arguments",
    ),
    "a call's id": (
        {"role": "assistant", "tool_calls": [call_map(id=1)]},
        r"tool_calls\[0\].id must be a string or null",
    ),
    "a role": ({"role": "bot", "content": "Hi"}, "role must be one of"),
    "a message": (1, "message must be a Message, a string or a map, not int"),
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_message_is_refused(body: Any, reason: str) -> None:
    with pytest.raises(InvalidField, match=reason):
        Message.of(body)


SEARCH = Tool("search", "Search.", {"type": "object"})


def test_a_context_takes_whatever_may_stand_for_a_message_or_a_tool() -> None:
    class Search:
        def definition(self) -> Tool:
            return SEARCH

    answer = Message("assistant", "Hi")
    hosted = ServerTool("web_search", "anthropic", {})
    context = Context.new(
        system="Be brief.",
        messages=["Hello", answer, {"role": "user", "content": "Bye"}],
        tools=[SEARCH, Search(), SEARCH.to_openai_format(), hosted],
        provider_state={"previous_response_id": "resp_1"},
    )
    assert context.messages == [Message("user", "Hello"), answer, Message("user", "Bye")]
    assert context.messages[1] is answer
    assert context.tools == [SEARCH, SEARCH, SEARCH, hosted]
    assert (context.system, context.provider_state) == ("Be brief.", {"previous_response_id": "resp_1"})
    assert context == Context("Be brief.", context.messages, context.tools, {"previous_response_id": "resp_1"})
    assert Context.new() == Context()


def test_a_context_leaves_what_it_was_given_alone() -> None:
    given = ["Hello"]
    assert Context(messages=given).messages == [Message("Hello")]
    assert given == ["Hello"]


def test_a_request_and_a_response_speak_of_their_insides() -> None:
    context = Context("Be brief.", [Message("Hi")], [SEARCH], {"a": 1})
    request = Request(context=context)
    assert (request.system, request.messages, request.tools, request.provider_state) == (
        "Be brief.",
        [Message("Hi")],
        [SEARCH],
        {"a": 1},
    )
    response = Response.of(Message("assistant", [Text("a"), CALL, Text("b")]), "tool_calls", model="m")
    assert (response.content, response.tool_calls, response.finish_reason) == ("ab", [CALL], "tool_calls")
    assert (response.message.role, response.raw_finish_reason, response.model) == ("assistant", None, "m")
    nothing = Response()
    assert (nothing.content, nothing.tool_calls, nothing.finish_reason) == (None, [], None)
    assert (nothing.message, nothing.parts) == (Message("assistant", []), [])
    assert (Usage(3, None).total_tokens, Usage(3, 4, 2).total_tokens) == (3, 7)


ALL_PARTS: list[Any] = [
    Text("a", [Citation("u", "t", "q", 1, 2, Opaque("x", {"a": 1}))], cache=Cache("1h")),
    Refusal("No."),
    Image(data=PNG, media_type="image/png", detail="high"),
    Document(text="a", name="d"),
    Audio("x", "audio/wav", transcript="t"),
    Thinking("Hm.", "sig"),
    Thinking("", "blob", redacted=True),
    ToolCall("c", "f", {"a": [1, {"b": None}]}, 1, complete=False, raw="{", error="not JSON", custom=True),
    ToolResult("c", "f", [Text("a"), Image("u")], is_error=True),
    ServerToolCall("s", "search", {"q": 1}),
    ServerToolResult("s", "search", [{"a": 1}]),
    Opaque("openai-chat", {"type": "x", "a": [1]}, spelling=ChatRefusalSpelling(is_block=True)),
    *(Text("a", opaque=Opaque("x", {}, spelling=spelling())) for spelling in get_args(Spelling)),
]
WHOLE: list[Any] = [
    *(Message("assistant", [part]) for part in ALL_PARTS),
    Message("tool", "x", tool_call_id="c"),
    Message("user", "Hi", "Ann", opaque=Opaque("openai-chat", {"a": 1})),
    Request(
        context=Context(
            [Text("Be brief.")],
            [Message("Hi"), Message("assistant", ALL_PARTS)],
            [
                Tool("a", "b", {"type": "object"}, {"m": 1}, strict=True, cache=Cache()),
                ServerTool("web_search_20250305", "anthropic", {"type": "web_search_20250305"}),
            ],
            {"previous_response_id": "r"},
        ),
        model="m",
        tool_choice=ToolChoice("required", ["a"]),
        output=Output("schema", {"type": "object"}, "n", "d", strict=True),
        temperature=0.5,
        stop=["END"],
        opaque=Opaque("gemini", {"a": 1}, RequestSpelling(path="/b")),
    ),
    Response(
        id="r",
        model="m",
        created=1.5,
        choices=[Choice(Message("assistant", ALL_PARTS), "tool_calls", "tool_use", "END")],
        usage=Usage(1, 2, 3, 4, 5, Opaque("anthropic", {"x": 1})),
        provider_state={"a": 1},
    ),
    Error("overloaded", "m", 529, "overloaded_error", "c", "p", "r"),
]


@pytest.mark.parametrize("value", WHOLE, ids=[f"{type(value).__name__}-{n}" for n, value in enumerate(WHOLE)])
def test_json_and_back(value: Any) -> None:
    written = msgspec.json.encode(value)
    back = msgspec.json.decode(written, type=type(value))
    assert back == value
    assert msgspec.json.encode(back) == written


def test_every_kind_of_part_is_put_through_json() -> None:
    assert {type(part) for part in ALL_PARTS} == set(PARTS)


def test_json_refuses_what_is_no_value() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"role": "assistant", "content": [{"type": "hologram"}]}', type=Message)
