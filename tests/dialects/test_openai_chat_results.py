"""Results from elsewhere in the words of Chat Completions: text, one message each, media below the last."""

from typing import Any

import pytest

from tests.dialects.asking import Said, asking, losses
from toolwire import Cache, Image, Message, Text, ToolCall, ToolResult
from toolwire.dialects import openai_chat

PNG = "iVBORw0KGgo="
PNG_URL = f"data:image/png;base64,{PNG}"
CALL = ToolCall("call_1", "look", {"city": "Paris"})
ASKED = Message("assistant", [CALL])


def messages_of(*messages: Any) -> tuple[list[Any], list[Said]]:
    encoded = openai_chat.encode_request(asking(list(messages)))
    return encoded.body["messages"], losses(encoded)


def results_of(*contents: Any) -> tuple[list[Any], list[Said]]:
    calls: list[Any] = [ToolCall(f"call_{n}", "look", {}, n) for n in range(len(contents))]
    results = [
        Message("tool", [ToolResult(call.id, "look", content)]) for call, content in zip(calls, contents, strict=True)
    ]
    bodies, lost = messages_of(Message("assistant", calls), *results, Message("Go on."))
    return bodies[1:], lost


def test_a_picture_in_a_result_goes_below_the_last_result() -> None:
    seen = Image(data=PNG, media_type="image/png")
    bodies, lost = results_of([Text("a"), seen], "b", [seen])
    assert bodies == [
        {
            "role": "tool",
            "tool_call_id": "call_0",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "[image 1 attached below]"},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "b"},
        {"role": "tool", "tool_call_id": "call_2", "content": "[image 2 attached below]"},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": PNG_URL}},
                {"type": "image_url", "image_url": {"url": PNG_URL}},
            ],
        },
        {"role": "user", "content": "Go on."},
    ]
    assert lost == [
        ("messages[1].content[0].content[1]", "moved", "minor"),
        ("messages[3].content[0].content[0]", "moved", "minor"),
    ]


def test_a_picture_in_the_last_result_is_not_forgotten() -> None:
    calls = [Message("assistant", [CALL]), Message("tool", [ToolResult("call_1", "look", [Image("u")])])]
    bodies, _ = messages_of(*calls)
    assert bodies[1:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": "[image 1 attached below]"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
    ]


CONTENTS: dict[str, tuple[ToolResult, Any, list[Said]]] = {
    "nothing": (ToolResult("call_1", "look", ""), "", []),
    "no parts": (ToolResult("call_1", "look", []), "", []),
    "one part": (ToolResult("call_1", "look", [Text("a")]), "a", []),
    "parts": (
        ToolResult("call_1", "look", [Text("a"), Text("b")]),
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        [],
    ),
    "an error": (ToolResult("call_1", "look", "boom", is_error=True), "Error: boom", []),
    "an error without words": (ToolResult("call_1", "look", "", is_error=True), "Error: ", []),
    "words like an error": (ToolResult("call_1", "look", "Error: boom"), " Error: boom", []),
    "an error in parts": (
        ToolResult("call_1", "look", [Text("a"), Text("b")], is_error=True),
        [{"type": "text", "text": "Error: a"}, {"type": "text", "text": "b"}],
        [],
    ),
    "an error without text": (
        ToolResult("call_1", "look", [Image("u")], is_error=True),
        [{"type": "text", "text": "Error: "}, {"type": "text", "text": "[image 1 attached below]"}],
        [("messages[1].content[0].content[0]", "moved", "minor")],
    ),
    "a mark": (
        ToolResult("call_1", "look", "a", cache=Cache()),
        "a",
        [("messages[1].content[0].cache", "dropped", "formal")],
    ),
}


@pytest.mark.parametrize(("result", "content", "lost"), CONTENTS.values(), ids=CONTENTS)
def test_the_content_of_a_result(result: ToolResult, content: Any, lost: list[Said]) -> None:
    bodies, found = messages_of(ASKED, Message("tool", [result]))
    assert bodies[1] == {"role": "tool", "tool_call_id": "call_1", "content": content}
    assert found == lost


def test_results_in_a_users_message_become_messages() -> None:
    turn = Message("user", [ToolResult("call_1", None, "a"), Text("Go on."), Image("u")])
    bodies, lost = messages_of(ASKED, turn)
    assert bodies[1:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": "a"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Go on."}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
    ]
    assert lost == []


def test_a_broken_history_is_repaired() -> None:
    bodies, lost = messages_of(ASKED, Message("Hi"), Message("tool", "x", tool_call_id="call_9"))
    assert bodies[1:] == [
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": "Error: no result was provided for this call",
        },
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "[result of a tool] x"},
    ]
    assert sorted(lost) == [("messages[0]", "repaired", "semantic"), ("messages[2]", "repaired", "semantic")]
