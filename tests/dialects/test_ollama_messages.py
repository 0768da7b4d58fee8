"""Histories from elsewhere in the words of Ollama."""

from base64 import b64encode
from typing import Any

import pytest

from tests.dialects.asking import Said, asking, losses
from toolwire import (
    Audio,
    Cache,
    Citation,
    Document,
    Image,
    Message,
    Opaque,
    Refusal,
    ServerToolCall,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolwire.dialects import ollama

PNG = "iVBORw0KGgoAAAA"


def messages_of(*messages: Any, **fields: Any) -> tuple[list[Any], list[Said]]:
    encoded = ollama.encode_request(asking(list(messages), **fields))
    return encoded.body["messages"], losses(encoded)


# Each role of the table of roles in a request from elsewhere.
ROLES: dict[str, tuple[Message, dict[str, str]]] = {
    "user": (Message("user", "a"), {"role": "user", "content": "a"}),
    "assistant": (Message("assistant", "a"), {"role": "assistant", "content": "a"}),
    "system": (Message("system", "a"), {"role": "system", "content": "a"}),
    "developer": (Message("developer", "a"), {"role": "system", "content": "a"}),
}


@pytest.mark.parametrize("role", ROLES)
def test_roles(role: str) -> None:
    message, body = ROLES[role]
    lost = [("messages[0].role", "approximated", "minor")] if role == "developer" else []
    assert messages_of(message) == ([body], lost)


CALL = ToolCall("call_1", "look", {"city": "Paris"})
CALL_BODY = {"id": "call_1", "function": {"name": "look", "arguments": {"city": "Paris"}}}


def test_the_role_of_a_tool() -> None:
    bodies, lost = messages_of(Message("assistant", [CALL]), Message("tool", [ToolResult("call_1", None, "sunny")]))
    assert bodies == [
        {"role": "assistant", "content": "", "tool_calls": [CALL_BODY]},
        {"role": "tool", "tool_name": "look", "tool_call_id": "call_1", "content": "sunny"},
    ]
    assert lost == []


ENCODED: dict[str, tuple[Message, dict[str, Any], list[Said]]] = {
    "words in parts": (
        Message("user", [Text("a"), Text(""), Text("b")]),
        {"role": "user", "content": "a\nb"},
        [("messages[0].content", "merged", "minor")],
    ),
    "an answer in parts": (
        Message("assistant", [Text("a"), Text("b")]),
        {"role": "assistant", "content": "ab"},
        [("messages[0].content", "merged", "minor")],
    ),
    "nothing": (Message("user", []), {"role": "user", "content": ""}, []),
    "an empty answer": (Message("assistant", []), {"role": "assistant", "content": ""}, []),
    "a picture": (
        Message("user", [Text("a"), Image(data=PNG, media_type="image/png")]),
        {"role": "user", "content": "a", "images": [PNG]},
        [],
    ),
    "a picture first": (
        Message("user", [Image(data=PNG, media_type="image/gif", detail="high"), Text("a")]),
        {"role": "user", "content": "a", "images": [PNG]},
        [
            ("messages[0].content[0].detail", "dropped", "minor"),
            ("messages[0].content[0].media_type", "dropped", "minor"),
            ("messages[0].content[1]", "moved", "minor"),
        ],
    ),
    "a picture elsewhere": (
        Message("user", [Text("a"), Image(url="https://x.example/i.png"), Image(file_id="f")]),
        {"role": "user", "content": "a"},
        [
            ("messages[0].content[1].url", "dropped", "minor"),
            ("messages[0].content[1]", "dropped", "semantic"),
            ("messages[0].content[2].file_id", "dropped", "minor"),
            ("messages[0].content[2]", "dropped", "semantic"),
        ],
    ),
    "other media": (
        Message("user", [Text("a"), Document(data="x", media_type="application/pdf"), Audio("x", "audio/wav")]),
        {"role": "user", "content": "a"},
        [
            ("messages[0].content[1]", "dropped", "semantic"),
            ("messages[0].content[2]", "dropped", "semantic"),
        ],
    ),
    "a text file": (
        Message("user", [Document(text="long", name="a.txt")]),
        {"role": "user", "content": "long"},
        [
            ("messages[0].content[0].text", "approximated", "minor"),
            ("messages[0].content[0].name", "dropped", "semantic"),
        ],
    ),
    "marks and notes": (
        Message("user", [Text("a", [Citation("u")], cache=Cache())], name="Ann"),
        {"role": "user", "content": "a"},
        [
            ("messages[0].content[0].citations", "dropped", "semantic"),
            ("messages[0].content[0].cache", "dropped", "formal"),
            ("messages[0].name", "dropped", "semantic"),
        ],
    ),
    "thinking": (
        Message("assistant", [Thinking("Hm."), Thinking("So."), Text("Yes.")]),
        {"role": "assistant", "thinking": "Hm.\nSo.", "content": "Yes."},
        [("messages[0].content", "merged", "minor")],
    ),
    "signed thinking": (
        Message("assistant", [Thinking("Hm.", "sig"), Thinking("", "blob", redacted=True), Text("Yes.")]),
        {"role": "assistant", "thinking": "Hm.", "content": "Yes."},
        [
            ("messages[0].content[0].signature", "dropped", "minor"),
            ("messages[0].content[1].signature", "dropped", "semantic"),
            ("messages[0].content[1].redacted", "dropped", "semantic"),
        ],
    ),
    "parts of others": (
        Message("assistant", [Refusal("No."), ServerToolCall("s", "search"), Opaque("gemini", {"x": 1})]),
        {"role": "assistant", "content": "No."},
        [
            ("messages[0].content[0]", "approximated", "minor"),
            ("messages[0].content[1]", "dropped", "semantic"),
            ("messages[0].content[2].opaque.x", "dropped", "formal"),
            ("messages[0].content[2]", "dropped", "semantic"),
        ],
    ),
}


@pytest.mark.parametrize("case", ENCODED)
def test_a_message_from_elsewhere(case: str) -> None:
    message, body, lost = ENCODED[case]
    assert messages_of(message) == ([body], lost)


def test_a_message_that_cannot_be_said_is_not_there() -> None:
    bodies, lost = messages_of(Message("user", [Audio("x")]), Message("user", "Hello"))
    assert bodies == [{"role": "user", "content": "Hello"}]
    assert lost == [("messages[0].content[0]", "dropped", "semantic")]


def test_the_system_prompt_is_the_first_message() -> None:
    assert messages_of(Message("user", "Hi"), system="Be brief.") == (
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        [],
    )
    bodies, lost = messages_of(Message("user", "Hi"), system=[Text("a", cache=Cache()), Text("b")])
    assert bodies[0] == {"role": "system", "content": "a\nb"}
    assert lost == [("system.content[0].cache", "dropped", "formal"), ("system.content", "merged", "minor")]


def test_calls_from_elsewhere() -> None:
    calls: list[Any] = [
        ToolCall("functions.look:0", "srv/look", {"a": 1}, raw='{"a": 1}'),
        ToolCall("toolwire_3_1", "look"),
        ToolCall("gemini_2", "look", index=2),
        ToolCall("c", "look", raw="{", error="not JSON"),
        ToolCall("d", "run", raw="ls", custom=True),
        ToolCall("e", "look", complete=False),
    ]
    results = [Message("tool", [ToolResult(call.id, None, f"{place}")]) for place, call in enumerate(calls)]
    bodies, lost = messages_of(Message("assistant", calls), *results)
    assert bodies[0]["tool_calls"] == [
        {"id": "functions.look:0", "function": {"name": "srv/look", "arguments": {"a": 1}}},
        {"function": {"name": "look", "arguments": {}}},
        {"function": {"name": "look", "arguments": {}}},
        {"id": "c", "function": {"name": "look", "arguments": {}}},
        {"id": "d", "function": {"name": "run", "arguments": {"input": "ls"}}},
        {"id": "e", "function": {"name": "look", "arguments": {}}},
    ]
    assert [body.get("tool_call_id") for body in bodies[1:]] == [
        "functions.look:0",
        None,
        None,
        "c",
        "d",
        "e",
    ]
    assert [body["tool_name"] for body in bodies[1:]] == ["srv/look", "look", "look", "look", "run", "look"]
    assert lost == [
        ("messages[0].content[3].raw", "dropped", "semantic"),
        ("messages[0].content[4].custom", "approximated", "minor"),
        ("messages[0].content[5].complete", "dropped", "semantic"),
    ]


RESULTS: dict[str, tuple[ToolResult, dict[str, Any], list[Said]]] = {
    "an error": (ToolResult("call_1", "look", "boom", is_error=True), {"content": "Error: boom"}, []),
    "like an error": (ToolResult("call_1", "look", "Error: boom"), {"content": " Error: boom"}, []),
    "another name": (ToolResult("call_1", "other", "x"), {"content": "x", "tool_name": "other"}, []),
    "nothing": (ToolResult("call_1", "look", []), {"content": ""}, []),
    "parts": (
        ToolResult("call_1", "look", [Text("a"), Image(data=PNG), Text("b")], is_error=True),
        {"content": "Error: a\nb", "images": [PNG]},
        [
            ("messages[1].content[0].content[2]", "moved", "minor"),
            ("messages[1].content[0].content", "merged", "minor"),
        ],
    ),
    "media": (
        ToolResult("call_1", "look", [Image(url="https://x.example"), Document(data="x")], cache=Cache()),
        {"content": ""},
        [
            ("messages[1].content[0].content[0].url", "dropped", "minor"),
            ("messages[1].content[0].content[0]", "dropped", "semantic"),
            ("messages[1].content[0].content[1]", "dropped", "semantic"),
            ("messages[1].content[0].cache", "dropped", "formal"),
        ],
    ),
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_from_elsewhere(case: str) -> None:
    result, said, lost = RESULTS[case]
    bodies, found = messages_of(Message("assistant", [CALL]), Message("tool", [result]))
    assert bodies[1] == {"role": "tool", "tool_name": "look", "tool_call_id": "call_1", **said}
    assert found == lost


def test_results_within_the_words_of_a_user_come_first() -> None:
    turn = Message("user", [ToolResult("call_1", None, "sunny"), Text("And?")])
    bodies, lost = messages_of(Message("assistant", [CALL]), turn)
    assert bodies[1:] == [
        {"role": "tool", "tool_name": "look", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "user", "content": "And?"},
    ]
    assert lost == []


def test_a_history_is_made_legal() -> None:
    orphan = Message("tool", [ToolResult("call_9", "look", "late")])
    bodies, lost = messages_of(Message("assistant", [CALL]), Message("user", "Hm?"), orphan)
    assert [body["role"] for body in bodies] == ["assistant", "tool", "user", "user"]
    assert bodies[1]["content"] == "Error: no result was provided for this call"
    assert [action for _, action, _ in lost] == ["repaired", "repaired"]


@pytest.mark.parametrize(("name", "media_type"), [(b"WEBP", "image/webp"), (b"WAVE", None), (b"WEB", None)])
@pytest.mark.parametrize("count", [b"\0\0\0\0", b"\xff\xff\xff\xff"])
def test_only_webp_is_webp_of_what_is_riff(name: bytes, media_type: str | None, count: bytes) -> None:
    data = b64encode(b"RIFF" + count + name).decode()
    body = {"model": "m", "messages": [{"role": "user", "content": "", "images": [data]}]}
    [part] = ollama.decode_request(body).messages[0].parts
    assert isinstance(part, Image)
    assert part.media_type == media_type
