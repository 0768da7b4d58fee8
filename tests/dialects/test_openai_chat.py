"""Requests of Chat Completions: what each body means, and that it comes back as it was."""

from typing import Any

import pytest
from msgspec.structs import replace

from toolwire import (
    Audio,
    Cache,
    Context,
    Document,
    Image,
    Message,
    Opaque,
    Output,
    Refusal,
    Request,
    ServerTool,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolwire.dialects import openai_chat
from toolwire.errors import InvalidBody
from toolwire.types.spelling.openai_chat import (
    ChatMediumSpelling,
    ChatRefusalSpelling,
    ChatRequestSpelling,
    ChatThinkingSpelling,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PNG = "iVBORw0KGgo="
PLAIN = Opaque("openai-chat", {})


def call(arguments: Any = '{"city": "Paris"}', **fields: Any) -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": function, **fields}


OWN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no messages": {"model": "m", "prompt": "Why?"},
    "messages of no kind": {"messages": "Hi"},
    "no messages at all": {"messages": []},
    "words": {
        "messages": [
            {"role": "developer", "content": "a"},
            {"role": "system", "content": "b", "name": "x"},
            {"role": "user", "content": "", "name": "Ann"},
            {"role": "assistant", "content": "d", "name": "Bob"},
        ]
    },
    "a role of nobody": {"messages": [{"role": "narrator", "content": "a"}, "x", None, 1, {"content": "b"}]},
    "content of no kind": {
        "messages": [
            {"role": "user", "content": None},
            {"role": "user"},
            {"role": "user", "content": []},
            {"role": "system", "content": {"a": 1}},
            {"role": "assistant", "content": 7},
        ]
    },
    "parts": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
                    {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
                    {"type": "image_url", "image_url": {"url": "https://x/i.png", "detail": "original"}},
                    {"type": "image_url", "image_url": "https://x/i.png"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "x": 1}},
                    {"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg"}},
                    {"type": "input_audio", "input_audio": {"data": "x", "format": "mp3"}},
                    {"type": "input_audio", "input_audio": {"data": "x", "format": "flac"}},
                    {"type": "file", "file": {"file_data": "data:application/pdf;base64,x", "filename": "d"}},
                    {"type": "file", "file": {"file_id": "file_1"}},
                    {"type": "file", "file": {"file_data": "bare"}},
                    {"type": "video_url", "video_url": {"url": "u"}},
                    {"type": "text"},
                    {"text": "x"},
                    "bare",
                    None,
                ],
            }
        ]
    },
    "an answer": {
        "messages": [
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
                "refusal": "c",
                "audio": {"id": "audio_1"},
                "tool_calls": [call()],
                "note": 1,
            },
            {"role": "assistant", "content": "a", "refusal": None, "annotations": [], "audio": None},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "assistant", "tool_calls": [call()]},
            {"role": "assistant", "content": "", "tool_calls": [call()]},
            {"role": "assistant", "content": "a", "prefix": True},
        ]
    },
    "results": {
        "messages": [
            {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
            {"role": "tool", "tool_call_id": "call_1", "content": "Error: boom"},
            {"role": "tool", "tool_call_id": "call_1", "content": " Error: boom"},
            {"role": "tool", "tool_call_id": "call_1", "name": "look", "content": "ok"},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Error: boom"}]},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "image_url", "image_url": "u"}]},
            {"role": "tool", "tool_call_id": "call_1", "content": None},
            {"role": "tool", "tool_call_id": None, "content": "ok"},
            {"role": "tool", "content": "ok"},
            {"role": "tool", "tool_call_id": "call_1"},
            {"role": "tool", "tool_call_id": "call_1", "content": [], "cache_control": {}},
        ]
    },
    "tools": {
        "tools": [
            {"type": "function", "function": {"name": "look", "description": "d", "parameters": SCHEMA}},
            {"type": "function", "function": {"name": "look"}},
            {
                "type": "function",
                "function": {"name": "look", "parameters": None, "strict": None, "x": 1},
                "cache_control": {"type": "ephemeral"},
            },
            {"type": "function", "function": {"name": "look", "strict": True, "description": ""}},
            {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}},
            {"type": "custom", "custom": {"name": "run", "description": "d", "x": 1}},
            {"type": "web_search", "web_search": {}},
            {"type": "function", "function": {}},
            {"name": "look"},
            1,
        ]
    },
    "no tools": {"tools": [], "functions": []},
    "legacy tools": {"functions": [{"name": "look", "parameters": SCHEMA, "x": 1}, {"name": "find"}]},
    "legacy tools of no kind": {"functions": [{"name": "look"}, {}]},
    "both kinds of tools": {
        "tools": [{"type": "function", "function": {"name": "look"}}],
        "functions": [{"name": "find", "description": "d"}],
    },
    "settings": {
        "model": "m",
        "max_completion_tokens": 5,
        "temperature": 0,
        "top_p": 0.5,
        "stop": "END",
        "seed": 1,
        "n": 2,
        "stream": True,
        "stream_options": {"include_usage": True},
        "logit_bias": {"1": -100},
        "logprobs": True,
        "top_logprobs": 2,
        "metadata": {"a": "b"},
        "store": False,
        "user": "u",
        "verbosity": "low",
        "modalities": ["text"],
        "service_tier": "ultrafast",
        "reasoning_effort": "xhigh",
        "prompt_cache_key": "k",
        "response_format": {"type": "json_object"},
        "parallel_tool_calls": False,
    },
    "settings of no kind": {
        "max_tokens": 5,
        "temperature": "hot",
        "top_p": True,
        "stop": [],
        "seed": 1.5,
        "n": None,
        "tool_choice": {"type": "function"},
        "response_format": {"type": "grammar"},
        "parallel_tool_calls": None,
    },
    "both limits": {"max_tokens": 5, "max_completion_tokens": 6},
    "no limit": {"max_tokens": None},
}


@pytest.mark.parametrize("body", OWN.values(), ids=OWN)
def test_a_request_comes_back(body: dict[str, Any]) -> None:
    encoded = openai_chat.encode_request(openai_chat.decode_request(body))
    assert (encoded.body, encoded.losses, encoded.path) == (body, (), "/v1/chat/completions")


def test_another_path_comes_back() -> None:
    request = openai_chat.decode_request({"messages": []}, "/api/v1/chat/completions")
    assert openai_chat.encode_request(request).path == "/api/v1/chat/completions"


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_what_is_no_object_is_refused(body: Any) -> None:
    for decode in (openai_chat.decode_request, openai_chat.decode_response):
        with pytest.raises(InvalidBody, match="must be a JSON object"):
            decode(body)


def test_what_the_settings_mean() -> None:
    assert openai_chat.decode_request(OWN["settings"]) == Request(
        context=Context(),
        model="m",
        max_tokens=5,
        temperature=0,
        top_p=0.5,
        stop=["END"],
        seed=1,
        n=2,
        stream=True,
        logit_bias={"1": -100},
        logprobs=True,
        top_logprobs=2,
        metadata={"a": "b"},
        store=False,
        user="u",
        verbosity="low",
        service_tier="ultrafast",
        effort="xhigh",
        cache_key="k",
        output=Output("json"),
        parallel_tool_calls=False,
        opaque=Opaque(
            "openai-chat",
            {"stream_options": {"include_usage": True}, "modalities": ["text"]},
            spelling=ChatRequestSpelling(has_no_messages=True, settings={"stop": "END"}),
        ),
    )


def test_the_older_limit_is_a_spelling() -> None:
    request = openai_chat.decode_request({"max_tokens": 5})
    assert request.max_tokens == 5
    assert openai_chat.encode_request(replace(request, max_tokens=6)).body == {"max_tokens": 6}


def message_of(body: dict[str, Any]) -> Message:
    [message] = openai_chat.decode_request({"messages": [body]}).messages
    return message


def test_what_parts_mean() -> None:
    parts = message_of(OWN["parts"]["messages"][0]).parts
    assert parts[:11] == [
        Text("a", cache=Cache(), opaque=PLAIN),
        Text("b", opaque=Opaque("openai-chat", {"cache_control": {"type": "ephemeral"}})),
        Image("https://x/i.png", detail="original", opaque=PLAIN),
        Image("https://x/i.png", opaque=Opaque("openai-chat", {}, spelling=ChatMediumSpelling(is_flat=True))),
        Image(data=PNG, media_type="image/png", opaque=Opaque("openai-chat", {"image_url": {"x": 1}})),
        Image("data:image/svg+xml,%3Csvg", opaque=PLAIN),
        Audio("x", "audio/mpeg", opaque=PLAIN),
        Audio("x", opaque=Opaque("openai-chat", {"input_audio": {"format": "flac"}})),
        Document(data="x", media_type="application/pdf", name="d", opaque=PLAIN),
        Document(file_id="file_1", opaque=PLAIN),
        Document(data="bare", opaque=Opaque("openai-chat", {}, spelling=ChatMediumSpelling(is_bare=True))),
    ]
    assert [type(part) for part in parts[11:]] == [Opaque] * 5


def test_what_an_answer_means() -> None:
    message = message_of(OWN["an answer"]["messages"][0])
    assert message.parts == [
        Text("a", opaque=PLAIN),
        Refusal("b", opaque=Opaque("openai-chat", {}, spelling=ChatRefusalSpelling(is_block=True))),
        Refusal("c", opaque=PLAIN),
        Audio(None, file_id="audio_1", opaque=PLAIN),
        ToolCall("call_1", "look", {"city": "Paris"}, raw='{"city": "Paris"}', opaque=PLAIN),
    ]
    assert message.opaque == Opaque("openai-chat", {"note": 1})
    assert message_of({"role": "assistant", "content": "a", "name": "Bob"}) == Message(
        "assistant", "a", "Bob", opaque=PLAIN
    )


RESULTS: list[tuple[dict[str, Any], ToolResult]] = [
    ({"content": "ok"}, ToolResult("call_1", None, "ok")),
    ({"content": "Error: boom"}, ToolResult("call_1", None, "boom", is_error=True)),
    ({"content": " Error: boom"}, ToolResult("call_1", None, "Error: boom")),
    ({"content": "ok", "name": "look"}, ToolResult("call_1", "look", "ok")),
    ({"content": None}, ToolResult("call_1", None, [])),
    (
        {"content": [{"type": "text", "text": "Error: boom"}, {"type": "text", "text": "Error: x"}]},
        ToolResult("call_1", None, [Text("boom", opaque=PLAIN), Text("Error: x", opaque=PLAIN)], is_error=True),
    ),
]


@pytest.mark.parametrize(("said", "result"), RESULTS)
def test_what_a_result_means(said: dict[str, Any], result: ToolResult) -> None:
    message = message_of({"role": "tool", "tool_call_id": "call_1", **said})
    assert (message.role, message.tool_call_id, message.parts) == ("tool", "call_1", [result])


def test_what_tools_mean() -> None:
    tools = openai_chat.decode_request(OWN["tools"]).tools
    bodies = OWN["tools"]["tools"]
    assert tools == [
        Tool("look", "d", SCHEMA, opaque=PLAIN),
        Tool("look", opaque=PLAIN),
        Tool(
            "look",
            opaque=Opaque(
                "openai-chat",
                {
                    "cache_control": {"type": "ephemeral"},
                    "function": {"parameters": None, "strict": None, "x": 1},
                },
            ),
        ),
        Tool("look", "", strict=True, opaque=PLAIN),
        Tool("run", custom=True, format={"type": "text"}, opaque=PLAIN),
        Tool("run", "d", custom=True, opaque=Opaque("openai-chat", {"custom": {"x": 1}})),
        ServerTool("web_search", "openai-chat", bodies[6]),
        ServerTool("function", "openai-chat", bodies[7]),
        ServerTool("", "openai-chat", bodies[8]),
        ServerTool("", "openai-chat", bodies[9]),
    ]


def test_one_value_changes_one_place() -> None:
    body = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a", "x": 1}], "name": "Ann"},
            {"role": "assistant", "content": None, "tool_calls": [call('{"city":  "Paris"}', index=0)]},
            {"role": "tool", "tool_call_id": "call_1", "name": "look", "content": "ok"},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "x": 1}}],
        "tool_choice": "any",
        "max_tokens": 5,
        "x": 1,
    }
    request = openai_chat.decode_request(body)
    user, answer, result = request.messages
    changed = [
        replace(user, content=[replace(user.parts[0], text="b")]),
        replace(answer, content=[replace(answer.tool_calls[0], arguments={"city": "Rome"})]),
        replace(result, content=[replace(result.parts[0], content="no", is_error=True)]),
    ]
    context = Context(None, changed, [replace(request.tools[0], description="Look.")])
    other = replace(request, context=context, tool_choice=ToolChoice("none"), max_tokens=6)
    encoded = openai_chat.encode_request(other)
    assert encoded.losses == ()
    assert encoded.body == {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "b", "x": 1}], "name": "Ann"},
            {"role": "assistant", "content": None, "tool_calls": [call('{"city":"Rome"}', index=0)]},
            {"role": "tool", "tool_call_id": "call_1", "name": "look", "content": "Error: no"},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "description": "Look.", "x": 1}}],
        "tool_choice": "none",
        "max_tokens": 6,
        "x": 1,
    }


def test_thinking_that_stands_beside_the_words() -> None:
    message = message_of({"role": "assistant", "content": "a", "reasoning_content": "Hm."})
    spelling = ChatThinkingSpelling(key="reasoning_content")
    assert message.parts[0] == Thinking("Hm.", opaque=Opaque("openai-chat", {}, spelling=spelling))
