"""Parts as others spell them: OpenAI's maps, Claude's blocks, tuples with a tag; and what is none of them."""

from typing import Any

import pytest

from toolwire import (
    Audio,
    Cache,
    Context,
    Document,
    Image,
    Message,
    Opaque,
    Request,
    ServerTool,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    dialect,
)
from toolwire.errors import InvalidField, MissingFields
from toolwire.types import PARTS
from toolwire.types.spelling.openai_chat import ChatMediumSpelling
from toolwire.types.spelling.openai_responses import ResponsesMediumSpelling

WIRES = ("openai", "openai-responses", "anthropic", "gemini", "ollama")
CALL = ToolCall("call_1", "search", {"q": "x"})
USED = {"type": "tool_use", "id": "call_1", "name": "search", "input": {"q": "x"}}
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}

SPELLINGS: dict[str, tuple[Any, Any]] = {
    "R003-21": (("text", "a"), Text("a")),
    "R003-22": (("tool_use", "call_1", "search", {"q": "x"}), CALL),
    "R003-22 without an id": (("tool_use", None, "search", {}), ToolCall(None, "search")),
    "R003-23": (("tool_result", "call_1", "search", "x"), ToolResult("call_1", "search", "x")),
    "R003-23 of parts": (("tool_result", "call_1", None, [("text", "x")]), ToolResult("call_1", None, [Text("x")])),
    "R003-23 of a map": (("tool_result", "call_1", None, {"a": 1}), ToolResult("call_1", None, '{"a":1}')),
    "R003-24": (("thinking", "Hm."), Thinking("Hm.")),
    "R003-25": (("thinking", {"text": "Hm.", "signature": "s"}), Thinking("Hm.", "s")),
    "R003-25 without a signature": (("thinking", {"text": "Hm."}), Thinking("Hm.")),
    "words": ("a", Text("a")),
    "a part": (CALL, CALL),
    "R001-18 a call": (USED, CALL),
    "R001-18 a result": (
        {"type": "tool_result", "tool_use_id": "call_1", "content": "x", "is_error": True},
        ToolResult("call_1", None, "x", is_error=True),
    ),
    "R001-18 a result of nothing": ({"type": "tool_result", "tool_use_id": "call_1"}, ToolResult("call_1", None, "")),
    "R001-18 a result of blocks": (
        {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "x"},
                                                                    {"type": "image", "source": PNG}]},
        ToolResult("call_1", None, [Text("x"), Image(data="iVBORw0KGgo=", media_type="image/png")]),
    ),
    "R001-22": (
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        Thinking("Hm.", "s", opaque=Opaque("anthropic", {})),
    ),
    "R001-22 redacted": (
        {"type": "redacted_thinking", "data": "x"},
        Thinking("", "x", redacted=True, opaque=Opaque("anthropic", {})),
    ),
    "a picture": ({"type": "image", "source": {"type": "url", "url": "u"}}, Image("u")),
    "a file": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "T"},
        Document(text="x", media_type="text/plain", name="T"),
    ),
    "a file of Chat Completions": (
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg==", "filename": "a.pdf"}},
        Document(data="JVBERg==", media_type="application/pdf", name="a.pdf", opaque=Opaque("openai-chat", {})),
    ),
    "a file that is bare data": (
        {"type": "file", "file": {"file_data": "JVBERg=="}},
        Document(data="JVBERg==", opaque=Opaque("openai-chat", {}, spelling=ChatMediumSpelling(is_bare=True))),
    ),
    "a file of two URLs": (
        {"type": "input_file", "file_data": "https://e.example/a.pdf", "file_url": "https://e.example/b.pdf"},
        Document(
            "https://e.example/b.pdf",
            opaque=Opaque("openai-responses", {}, spelling=ResponsesMediumSpelling(data="https://e.example/a.pdf")),
        ),
    ),
    "a file of Responses": (
        {"type": "input_file", "file_id": "file-1"}, Document(file_id="file-1", opaque=Opaque("openai-responses", {})),
    ),
    "a file of a name alone": (
        {"type": "input_file", "filename": "a.pdf"},
        Opaque("openai-responses", {"type": "input_file", "filename": "a.pdf"}),
    ),
    "a picture of Responses": (
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"},
        Image(data="aGk=", media_type="image/png", detail="low", opaque=Opaque("openai-responses", {})),
    ),
    "sound": (
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        Audio("aGk=", "audio/mpeg", opaque=Opaque("openai-chat", {})),
    ),
    "a mark": ({**USED, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
               ToolCall("call_1", "search", {"q": "x"}, cache=Cache("1h"))),
    "more of a call": ({**USED, "caller": {}},
                       ToolCall("call_1", "search", {"q": "x"}, opaque=Opaque("anthropic", {"caller": {}}))),
    "a call of the provider's": (
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        Opaque("anthropic", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
    ),
}  # fmt: skip


@pytest.mark.row("R003-21")
@pytest.mark.row("R003-22")
@pytest.mark.row("R003-23")
@pytest.mark.row("R003-24")
@pytest.mark.row("R003-25")
@pytest.mark.row("R001-18")
@pytest.mark.row("R001-22")
@pytest.mark.parametrize(("spelling", "part"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_part_by_another_spelling(spelling: Any, part: Any) -> None:
    expected = Message("assistant", [Text("before"), part])
    if isinstance(spelling, dict | str):
        assert Message.from_map({"role": "assistant", "content": ["before", spelling]}) == expected
    made = Message("assistant", ["before", spelling])
    assert made == expected
    assert [type(one) in PARTS for one in made.parts] == [True, True]
    assert made.parts[1] == part
    assert getattr(made.parts[1], "opaque", None) == getattr(part, "opaque", None)


def test_calls_are_numbered() -> None:
    made = Message("assistant", [("tool_use", "a", "f", {}), ("text", "x"), ("tool_use", "b", "f", {})])
    assert [call.index for call in made.tool_calls] == [0, 1]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (5, "content must be"),
        (None, "content must be"),
        ({"type": "text"}, "content must be"),
        (("text", "a"), "content must be"),
        ([5], r"content\[0\]"),
        ([None], r"content\[0\]"),
        ([Text("a"), ("x", "y")], r"content\[1\]"),
        ([("text",)], r'content\[0\] must be \("text", text\)'),
        ([("text", 5)], r"content\[0\]"),
        ([("tool_use", "search", {"q": "x"})], r'must be \("tool_use", id, name, arguments\)'),
        ([("tool_use", "call_1", "search", '{"q": "x"}')], r'must be \("tool_use"'),
        ([("thinking", {"signature": "s"})], r'must be \("thinking"'),
        ([("tool_result", "c", "n", 5)], r'must be \("tool_result"'),
        ([ToolResult("1", "n", 5)], r"content\[0\].*must be a string or a list of parts"),  # type: ignore[arg-type]
        ([{"type": "tool_use", "name": "f"}], r"content\[0\] is no tool_use block: it needs an id"),
        ([{"type": "tool_result", "content": "x"}], r"content\[0\] is no tool_result block"),
        ([{"type": "image", "source": {"type": "odd"}}], r"content\[0\] is no image block"),
    ],
)
def test_what_is_no_part_is_refused_where_it_is_given(content: Any, place: str) -> None:
    for give in (lambda: Message("user", content), lambda: Context(None, [Message("user", content)])):
        with pytest.raises((InvalidField, MissingFields), match=place):
            give()


ELSEWHERE = (
    {"type": "function_call_output", "call_id": "c", "output": "x"},
    {"role": "user", "parts": [{"text": "Hi"}]},
    {"role": "model", "content": "Hi"},
)


@pytest.mark.parametrize("attrs", ELSEWHERE)
def test_a_message_of_another_wire_is_refused_and_not_emptied(attrs: Any) -> None:
    with pytest.raises(InvalidField):
        Message.from_map(attrs)


HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "What's the weather?"},
    {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USED]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": '{"temperature": 22}'}]},
]


@pytest.mark.row("R001-18")
@pytest.mark.parametrize("name", WIRES)
def test_a_history_in_claudes_words_is_whole_on_every_wire(name: str) -> None:
    encoded = dialect(name).encode_request(Request(context=Context(None, HISTORY), model="m"))
    assert [loss for loss in encoded.losses if loss.severity == "semantic"] == []
    read = dialect(name).decode_request(encoded.body, encoded.path)
    [call] = [call for message in read.messages for call in message.tool_calls]
    [result] = [part for message in read.messages for part in message.parts if isinstance(part, ToolResult)]
    assert (call.name, call.arguments) == ("search", {"q": "x"})
    assert (result.content, result.tool_call_id) == ('{"temperature": 22}', call.id)
    if name == "anthropic":
        assert encoded.body["messages"] == HISTORY


@pytest.mark.row("R001-19")
@pytest.mark.row("R001-21")
def test_tools_in_claudes_words() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    own = {"name": "f", "input_schema": {"type": "object"}, "eager_input_streaming": True,
           "cache_control": {"type": "ephemeral"}}  # fmt: skip
    context = Context(None, ["Hi"], [search, own, {"type": "web_search"}])
    assert context.tools[0] == ServerTool("web_search_20250305", "anthropic", search)
    assert context.tools[2] == ServerTool("web_search", "openai-responses", {"type": "web_search"})
    encoded = dialect("anthropic").encode_request(Request(context=context, model="m", max_tokens=9))
    assert encoded.body["tools"] == [search, own]
    assert [loss.concept for loss in encoded.losses] == ["server_tool"]


@pytest.mark.row("R002-24")
@pytest.mark.row("R002-46")
def test_calls_by_the_names_of_others() -> None:
    assert (Tool.Call, Tool.Result) == (ToolCall, ToolResult)
    assert ToolCall(name="f", arguments={}) == ToolCall(None, "f")
    wrong: list[dict[str, Any]] = [{"arguments": {}}, {"name": 5}, {"id": "f", "name": {"a": 1}}]
    for fields in wrong:
        with pytest.raises(InvalidField, match="name must be a string"):
            ToolCall(**fields)
    with pytest.raises(InvalidField, match="name must be a string"):
        Tool(5, "x", {})  # type: ignore[arg-type]
    with pytest.raises(InvalidField, match="parameters must be a map"):
        Tool("f", "x", "y")  # type: ignore[arg-type]
