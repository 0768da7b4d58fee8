"""Whatever the history from elsewhere: what is written for a target is what its servers are known to take."""

import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.dialects.asking import asking
from toolwire import (
    Audio,
    Citation,
    Document,
    Image,
    Message,
    Opaque,
    Quirks,
    Refusal,
    ServerToolCall,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from toolwire.dialects import anthropic, openai_chat
from toolwire.wire.names import Grammar

IDS = st.sampled_from(["a", "b", "a.b", "a:b", "functions.f:0", "x" * 60, "", None, "é ", "a_b__tw1-2e"])
NAMES = st.sampled_from(["look", "srv/list", "srv:list", "x" * 130, "", "1", "a b", "look__tw"])
WORDS = st.sampled_from(["", "Hi", " ", "Error: boom", " Error: x"])
MEDIA: Any = st.sampled_from(
    [
        Image(data="x", media_type="image/png"),
        Image("https://x/i.png"),
        Image("data:image/png;base64,eA=="),
        Image(file_id="f"),
        Image(),
        Document(data="x", media_type="text/csv"),
        Document("u", name="d"),
        Document(text="t"),
        Audio("x", "audio/wav"),
        Audio(url="u"),
    ]
)
SPEECH: Any = st.sampled_from(
    [
        Thinking("Hm."),
        Thinking("", "S"),
        Thinking("Hm.", "S", opaque=Opaque("gemini", {})),
        Refusal(""),
        Refusal("No."),
        Text("a", [Citation("u")]),
        ServerToolCall("s", "search"),
        Opaque("gemini", {"x": 1}),
    ]
)
TEXTS: Any = st.builds(Text, WORDS)
ARGUMENTS = st.sampled_from([None, "", "{}", '{"a": 1}', "[1]", "{"])


def make_call(call_id: str | None, name: str, raw: str | None, custom: bool) -> ToolCall:
    if custom:
        return ToolCall(call_id, name, raw=raw or "", custom=True)
    return ToolCall(call_id, name) if raw is None else ToolCall.parse(call_id, name, raw)


CALLS: Any = st.builds(make_call, IDS, NAMES, ARGUMENTS, st.booleans())
CONTENTS: Any = WORDS | st.lists(TEXTS | MEDIA, max_size=3)
RESULTS: Any = st.builds(ToolResult, IDS, NAMES, CONTENTS, st.booleans())
HISTORY: Any = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from(["user", "assistant", "system", "developer"]), WORDS),
        st.builds(Message, st.just("user"), st.lists(TEXTS | MEDIA | RESULTS | SPEECH, max_size=3)),
        st.builds(Message, st.just("assistant"), st.lists(TEXTS | MEDIA | CALLS | SPEECH, max_size=4)),
        st.builds(Message, st.just("tool"), st.lists(RESULTS, max_size=2)),
        st.builds(Message, st.just("developer"), st.lists(TEXTS | MEDIA, max_size=2)),
    ),
    max_size=8,
)
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}", re.ASCII)
ID = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)


def check_messages(body: dict[str, Any]) -> None:
    """Hold a body against the rules of Messages."""
    assert isinstance(body["max_tokens"], int)
    assert body.get("system") not in ("", [])
    ids: set[str] = set()
    open_calls: list[str] = []
    for turn in body["messages"]:
        blocks = [{"type": "text", "text": turn["content"]}] if isinstance(turn["content"], str) else turn["content"]
        assert blocks
        assert turn["role"] in ("user", "assistant")
        assert all(block["text"] for block in blocks if block["type"] == "text")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert [block["type"] for block in blocks[: len(results)]] == ["tool_result"] * len(results)
        assert results == open_calls
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not open_calls or turn["role"] == "assistant"
        for block in blocks:
            if block["type"] == "tool_use":
                assert ID.fullmatch(block["id"])
                assert block["id"] not in ids
                assert NAME.fullmatch(block["name"])
                assert isinstance(block["input"], dict)
                ids.add(block["id"])
    assert open_calls == []


@given(messages=HISTORY, name=NAMES)
@example(messages=[Message("assistant", [ToolCall("a", "f")]), Message("developer", [Image()])], name="f")
@example(messages=[Message("assistant", [ToolCall("", "f")])], name="f")
def test_messages(messages: list[Message], name: str) -> None:
    encoded = anthropic.encode_request(asking(messages, tools=[Tool(name)]))
    check_messages(encoded.body)
    assert NAME.fullmatch(encoded.body["tools"][0]["name"])
    assert encoded.json == anthropic.encode_request(asking(messages, tools=[Tool(name)])).json
    read = anthropic.encode_request(anthropic.decode_request(encoded.body))
    assert (read.body, read.losses) == (encoded.body, ())


def check_chat(body: dict[str, Any], limit: int) -> None:
    """Hold a body against the rules of Chat Completions."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            check_text(message["content"])
            continue
        assert waiting == []
        assert message["content"] is not None or message["role"] == "assistant"
        assert message["content"] != []
        for call in message.get("tool_calls", []):
            inner = call[call["type"]]
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", inner["name"])
            assert isinstance(inner["input" if call["type"] == "custom" else "arguments"], str)
            assert 0 < len(call["id"]) <= limit
            waiting.append(call["id"])
    assert waiting == []


def check_text(content: Any) -> None:
    assert isinstance(content, str) or (content and all(block["type"] == "text" for block in content))


@given(messages=HISTORY)
@example(messages=[Message("assistant", [ToolCall("a", "f")]), Message("tool", [ToolResult("a", "f", [Image()])])])
def test_chat_completions(messages: list[Message]) -> None:
    encoded = openai_chat.encode_request(asking(messages))
    check_chat(encoded.body, 40)
    assert encoded.json == openai_chat.encode_request(asking(messages)).json
    read = openai_chat.encode_request(openai_chat.decode_request(encoded.body))
    assert (read.body, read.losses) == (encoded.body, ())


@given(messages=HISTORY)
def test_chat_completions_of_mistral(messages: list[Message]) -> None:
    quirks = Quirks(id_grammar=Grammar("A-Za-z0-9", 9, least=9), developer_role=False)
    body = openai_chat.encode_request(asking(messages), quirks).body
    check_chat(body, 9)
    ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls", [])]
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", call_id) for call_id in ids)
    assert {message["role"] for message in body["messages"]} <= {"system", "user", "assistant", "tool"}


@given(messages=HISTORY)
def test_between_the_two(messages: list[Message]) -> None:
    there = anthropic.encode_request(asking(messages))
    back = openai_chat.encode_request(anthropic.decode_request(there.body))
    check_chat(back.body, 40)
    again = anthropic.encode_request(openai_chat.decode_request(back.body))
    check_messages(again.body)
