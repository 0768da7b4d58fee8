"""Histories from elsewhere in the words of Messages."""

from typing import Any

import msgspec
import pytest

from tests.dialects.asking import Said, asking, losses, unbegun
from toolwire import (
    Audio,
    Cache,
    Citation,
    Document,
    Image,
    Message,
    Opaque,
    Quirks,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolwire.dialects import anthropic

PNG = "iVBORw0KGgo="
CALL_1, CALL_2 = ToolCall("c1", "look", {"a": 1}), ToolCall("c2", "find", {}, 1)
USES = [
    {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}},
    {"type": "tool_use", "id": "c2", "name": "find", "input": {}},
]
DEFAULTED = ("max_tokens", "defaulted", "formal")


def encode(*messages: Any, quirks: Quirks | None = None, **fields: Any) -> tuple[dict[str, Any], list[Said]]:
    encoded = anthropic.encode_request(asking(list(messages), **fields), quirks or Quirks())
    lost = unbegun(encoded.body, losses(encoded))
    return encoded.body, [loss for loss in lost if loss != DEFAULTED]


def turns_of(*messages: Any, **fields: Any) -> tuple[list[Any], list[Said]]:
    body, lost = encode(*messages, **fields)
    return body["messages"], lost


def said(call_id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def answered(call_id: str, text: str) -> Message:
    return Message("tool", text, tool_call_id=call_id)


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


ROLES: dict[str, tuple[Message, dict[str, Any]]] = {
    "user": (Message("user", "a"), {"messages": [{"role": "user", "content": "a"}]}),
    "assistant": (Message("assistant", "a"), {"messages": [{"role": "assistant", "content": "a"}]}),
    "system": (Message("system", "a"), {"system": "a", "messages": []}),
    "developer": (Message("developer", "a"), {"system": "a", "messages": []}),
}


@pytest.mark.parametrize("role", ROLES)
def test_roles(role: str) -> None:
    message, body = ROLES[role]
    merged = [("messages[0].role", "merged", "minor")] if role == "developer" else []
    assert encode(message) == ({"model": "m", "max_tokens": 8192, **body}, merged)


def test_the_role_of_a_tool() -> None:
    turns, lost = turns_of(Message("assistant", [CALL_1]), answered("c1", "ok"))
    assert turns == [
        {"role": "assistant", "content": USES[:1]},
        {"role": "user", "content": [said("c1", "ok")]},
    ]
    assert lost == []


SYSTEMS: dict[str, tuple[Any, list[Message], Any]] = {
    "words": ("a", [], "a"),
    "nothing": ("", [], None),
    "one part": ([Text("a")], [], [words("a")]),
    "a message": (None, [Message("system", "a")], "a"),
    "an empty message": (None, [Message("system", "")], None),
    "both": ("a", [Message("system", "b")], [words("a"), words("b")]),
    "two messages": (None, [Message("system", "a"), Message("system", "b")], [words("a"), words("b")]),
    "a developer's": (
        None,
        [Message("developer", "Always respond in JSON format")],
        "Always respond in JSON format",
    ),
    "a mark": (
        [Text("a", cache=Cache("1h")), Text("b", cache=Cache())],
        [],
        [
            {**words("a"), "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            {**words("b"), "cache_control": {"type": "ephemeral"}},
        ],
    ),
}


@pytest.mark.parametrize(("system", "messages", "prompt"), SYSTEMS.values(), ids=SYSTEMS)
def test_a_system_prompt(system: Any, messages: list[Message], prompt: Any) -> None:
    body, _ = encode(*messages, Message("Hi"), system=system)
    assert body.get("system") == prompt
    assert body["messages"] == [{"role": "user", "content": "Hi"}]


def test_a_system_a_developer_and_a_user() -> None:
    body, lost = encode(Message("system", "a"), Message("developer", "b"), Message("user", "c"))
    assert body["system"] == [words("a"), words("b")]
    assert body["messages"] == [{"role": "user", "content": "c"}]
    assert lost == [("messages[1].role", "merged", "minor")]


CALLS = Message("assistant", [CALL_1, CALL_2])
RESULTS: dict[str, tuple[list[Message], list[Any], list[Said]]] = {
    "of one turn": (
        [answered("c1", "1"), answered("c2", "2")],
        [{"role": "user", "content": [said("c1", "1"), said("c2", "2")]}],
        [],
    ),
    "and words": (
        [answered("c1", "1"), answered("c2", "2"), Message("Go on.")],
        [{"role": "user", "content": [said("c1", "1"), said("c2", "2"), words("Go on.")]}],
        [],
    ),
    "in reverse": (
        [answered("c2", "2"), answered("c1", "1")],
        [{"role": "user", "content": [said("c1", "1"), said("c2", "2")]}],
        [("messages[1]", "moved", "minor")],
    ),
    "late": (
        [answered("c1", "1"), Message("Go on."), answered("c2", "2")],
        [{"role": "user", "content": [said("c1", "1"), said("c2", "2"), words("Go on.")]}],
        [("messages[3]", "moved", "minor")],
    ),
    "missing": (
        [answered("c1", "1"), Message("Go on.")],
        [
            {
                "role": "user",
                "content": [
                    said("c1", "1"),
                    {**said("c2", "no result was provided for this call"), "is_error": True},
                    words("Go on."),
                ],
            }
        ],
        [("messages[0]", "repaired", "semantic")],
    ),
    "of no call": (
        [answered("c1", "1"), answered("c2", "2"), answered("x", "3")],
        [{"role": "user", "content": [said("c1", "1"), said("c2", "2"), words("[result of a tool] 3")]}],
        [("messages[3]", "repaired", "semantic")],
    ),
    "before words in one message": (
        [Message("user", [ToolResult("c1", None, "1"), ToolResult("c2", None, "2"), Text("Go on.")])],
        [{"role": "user", "content": [said("c1", "1"), said("c2", "2"), words("Go on.")]}],
        [],
    ),
    "then words twice": (
        [answered("c1", "1"), answered("c2", "2"), Message("a"), Message("b")],
        [
            {"role": "user", "content": [said("c1", "1"), said("c2", "2"), words("a")]},
            {"role": "user", "content": "b"},
        ],
        [],
    ),
    "then an answer": (
        [answered("c1", "1"), answered("c2", "2"), Message("assistant", "Done."), Message("b")],
        [
            {"role": "user", "content": [said("c1", "1"), said("c2", "2")]},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "b"},
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", RESULTS)
def test_results(case: str) -> None:
    messages, turns, lost = RESULTS[case]
    assert turns_of(CALLS, *messages) == ([{"role": "assistant", "content": USES}, *turns], lost)


REPEATED = [
    *(Message("assistant", [ToolCall("same", "look")]), answered("same", "1")),
    *(Message("assistant", [ToolCall("same", "look")]), answered("same", "2")),
]


def test_an_id_that_is_given_twice_is_used_once() -> None:
    turns, lost = turns_of(*REPEATED)
    ids = [turn["content"][0].get("id") or turn["content"][0]["tool_use_id"] for turn in turns]
    assert ids[0] == ids[1] == "same"
    assert ids[2] == ids[3] != "same"
    assert lost == []


PARTS: dict[str, tuple[Message, Any, list[Said]]] = {
    "words in parts": (Message("user", [Text("a"), Text("b")]), [words("a"), words("b")], []),
    "one part": (Message("user", [Text("a")]), "a", []),
    "empty words beside others": (Message("user", [Text(""), Text("a")]), "a", []),
    "no words": (Message("user", ""), "(empty)", [("messages[0].content", "approximated", "minor")]),
    "nothing": (Message("user", []), "(empty)", [("messages[0].content", "approximated", "minor")]),
    "a mark": (
        Message("user", [Text("a", cache=Cache("30m"))]),
        [{**words("a"), "cache_control": {"type": "ephemeral"}}],
        [("messages[0].content[0].cache.ttl", "dropped", "formal")],
    ),
    "a name": (Message("user", "a", "Ann"), "a", [("messages[0].name", "dropped", "semantic")]),
    "a picture in place": (
        Message("user", [Image(data=PNG, media_type="image/gif", detail="low")]),
        [{"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": PNG}}],
        [("messages[0].content[0].detail", "dropped", "minor")],
    ),
    "a picture elsewhere": (
        Message("user", [Image("https://x/i.png")]),
        [{"type": "image", "source": {"type": "url", "url": "https://x/i.png"}}],
        [],
    ),
    "a picture whose URL is its data": (
        Message("user", [Image(f"data:image/png;base64,{PNG}")]),
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}],
        [],
    ),
    "a picture of a kind that others spell otherwise": (
        Message("user", [Image(data=PNG, media_type="image/jpg;name=a.jpg")]),
        [{"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG}}],
        [],
    ),
    "a picture of a kind that is not read here": (
        Message("user", [Text("a"), Image(data=PNG, media_type="image/heic")]),
        "a",
        [("messages[0].content[1]", "dropped", "semantic")],
    ),
    "a picture in a store": (
        Message("user", [Image(file_id="f")]),
        [{"type": "image", "source": {"type": "file", "file_id": "f"}}],
        [],
    ),
    "no picture": (
        Message("user", [Text("a"), Image()]),
        "a",
        [("messages[0].content[1]", "dropped", "semantic")],
    ),
    "documents": (
        Message("user", [Document(data="x", name="d"), Document("u"), Document(text="t"), Document(file_id="f")]),
        [
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "x"},
                "title": "d",
            },
            {"type": "document", "source": {"type": "url", "url": "u"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "t"}},
            {"type": "document", "source": {"type": "file", "file_id": "f"}},
        ],
        [],
    ),
    "a document of another kind": (
        Message("user", [Text("a"), Document(data="x", media_type="text/csv")]),
        "a",
        [("messages[0].content[1]", "dropped", "semantic")],
    ),
    "sound": (
        Message("user", [Text("a"), Audio("x", "audio/wav")]),
        "a",
        [("messages[0].content[1]", "dropped", "semantic")],
    ),
    "citations of a user": (
        Message("user", [Text("a", [Citation(quote="q", opaque=Opaque("anthropic", {"type": "char_location"}))])]),
        "a",
        [("messages[0].content[0].citations", "dropped", "semantic")],
    ),
    "what another wire knows": (
        Message("user", [Opaque("gemini", {"x": 1}), Text("a")], opaque=Opaque("gemini", {"y": 1})),
        "a",
        [("messages[0].opaque.y", "dropped", "semantic"), ("messages[0].content[0]", "dropped", "semantic")],
    ),
    "what this wire knows": (
        Message("user", [Opaque("anthropic", {"type": "container_upload"})]),
        [{"type": "container_upload"}],
        [],
    ),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_message_of_the_user(case: str) -> None:
    message, content, lost = PARTS[case]
    assert turns_of(message) == ([{"role": "user", "content": content}], lost)


SIGNED = {"type": "thinking", "thinking": "", "signature": "S"}
ANSWERS: dict[str, tuple[list[Any] | str, Any, list[Said]]] = {
    "words": ("a", "a", []),
    "nothing": ("", None, []),
    "no parts": ([], None, []),
    "empty words and a call": ([Text(""), CALL_1], USES[:1], []),
    "words and a call": ([Text("a"), CALL_1, Text("b")], [words("a"), USES[0], words("b")], []),
    "signed thinking": ([Thinking("", "S"), CALL_1], [SIGNED, USES[0]], []),
    "redacted thinking": (
        [Thinking("", "blob", redacted=True), Text("a")],
        [{"type": "redacted_thinking", "data": "blob"}, words("a")],
        [],
    ),
    "unsigned thinking": (
        [Thinking("Hm."), Text("a")],
        "a",
        [("messages[0].content[0]", "dropped", "semantic")],
    ),
    "thinking of another": (
        [Thinking("Hm.", "c2ln", opaque=Opaque("gemini", {})), CALL_1],
        USES[:1],
        [("messages[0].content[0]", "dropped", "semantic")],
    ),
    "a refusal": (
        [Refusal("No.")],
        "No.",
        [("messages[0].content[0]", "approximated", "minor")],
    ),
    "media": (
        [Text("a"), Image("u"), Document("u"), Audio("x")],
        "a",
        [(f"messages[0].content[{place}]", "dropped", "semantic") for place in (1, 2, 3)],
    ),
    "what another server ran": (
        [ServerToolCall("s", "search"), ServerToolResult("s", "search"), Text("a")],
        "a",
        [(f"messages[0].content[{place}]", "dropped", "semantic") for place in (0, 1)],
    ),
    "what this server ran": (
        [
            ServerToolCall("s", "web_search", {"query": "q"}, opaque=Opaque("anthropic", {})),
            ServerToolResult("s", "web_search_tool_result", [], opaque=Opaque("anthropic", {})),
        ],
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        ],
        [],
    ),
    "foreign citations": (
        [Text("a", [Citation("u", "t")])],
        "a",
        [("messages[0].content[0].citations", "dropped", "semantic")],
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer(case: str) -> None:
    content, written, lost = ANSWERS[case]
    message = Message("assistant", content)
    results = [answered(str(call.id), "x") for call in message.tool_calls]
    turns, found = turns_of(message, *results)
    assert turns[:1] == ([] if written is None else [{"role": "assistant", "content": written}])
    assert found == lost


def test_every_turn_is_bytes_that_stay() -> None:
    """What is sent again stands first in what is sent next: caches and signatures are bound to it."""
    history = [
        Message("system", "s"),
        Message("Hi"),
        Message("assistant", [Thinking("", "S"), Text("I look."), ToolCall("a.b", "srv/x"), ToolCall("a:b", "y")]),
        answered("a.b", "1"),
        answered("a:b", "2"),
        Message("developer", "Late."),
        Message("Go on."),
        *REPEATED,
        Message("assistant", "Done."),
    ]
    whole = encode(*history)[0]
    blocks = [block for turn in whole["messages"] for block in blocks_of(turn)]
    for count in (1, 2, 5, 6, 7, 9, 11, 12):
        body = encode(*history[:count])[0]
        assert body["system"] == whole["system"]
        written = [block for turn in body["messages"] for block in blocks_of(turn)]
        assert msgspec.json.encode(written) == msgspec.json.encode(blocks[: len(written)])
    assert msgspec.json.encode(encode(*history)[0]) == msgspec.json.encode(whole)


def blocks_of(turn: dict[str, Any]) -> list[Any]:
    content = turn["content"]
    return [(turn["role"], block) for block in ([words(content)] if isinstance(content, str) else content)]
