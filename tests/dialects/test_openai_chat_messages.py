"""Histories from elsewhere in the words of Chat Completions."""

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
    Quirks,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
)
from toolwire.dialects import openai_chat

PNG = "iVBORw0KGgo="
PNG_URL = f"data:image/png;base64,{PNG}"
CALL = ToolCall("call_1", "look", {"city": "Paris"})
CALL_BODY = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"city":"Paris"}'},
}
USED = [Message("assistant", [CALL]), Message("tool", "sunny", tool_call_id="call_1")]


def messages_of(*messages: Any, **fields: Any) -> tuple[list[Any], list[Said]]:
    encoded = openai_chat.encode_request(asking(list(messages), **fields))
    return encoded.body["messages"], losses(encoded)


ROLES: dict[str, tuple[Message, dict[str, Any]]] = {
    "user": (Message("user", "a"), {"role": "user", "content": "a"}),
    "assistant": (Message("assistant", "a"), {"role": "assistant", "content": "a"}),
    "system": (Message("system", "a"), {"role": "system", "content": "a"}),
    "developer": (Message("developer", "a"), {"role": "developer", "content": "a"}),
}


@pytest.mark.parametrize("role", ROLES)
def test_roles(role: str) -> None:
    message, body = ROLES[role]
    assert messages_of(message) == ([body], [])


def test_the_role_of_a_tool() -> None:
    bodies, lost = messages_of(*USED)
    assert bodies == [
        {"role": "assistant", "content": None, "tool_calls": [CALL_BODY]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    assert lost == []


SYSTEMS: dict[str, tuple[Any, list[Any], list[Said]]] = {
    "words": ("Be brief.", [{"role": "system", "content": "Be brief."}], []),
    "nothing": ("", [], []),
    "one part": ([Text("Be brief.")], [{"role": "system", "content": "Be brief."}], []),
    "parts": (
        [Text("a"), Text("b", cache=Cache("1h"))],
        [{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        [("system.content[1].cache", "dropped", "formal")],
    ),
    "a picture": (
        [Text("a"), Image("u")],
        [{"role": "system", "content": "a"}],
        [("system.content[1]", "dropped", "semantic")],
    ),
}


@pytest.mark.parametrize(("system", "bodies", "lost"), SYSTEMS.values(), ids=SYSTEMS)
def test_a_system_prompt(system: Any, bodies: list[Any], lost: list[Said]) -> None:
    user = {"role": "user", "content": "Hi"}
    assert messages_of(Message("Hi"), system=system) == ([*bodies, user], lost)


def test_system_messages_stay_where_they_are() -> None:
    history = [Message("system", "a"), Message("developer", "b"), Message("Hi"), Message("system", "c")]
    assert [body["role"] for body in messages_of(*history, system="0")[0]] == [
        "system",
        "system",
        "developer",
        "user",
        "system",
    ]


ENCODED: dict[str, tuple[Message, dict[str, Any], list[Said]]] = {
    "words in parts": (
        Message("user", [Text("a"), Text("b")]),
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        [],
    ),
    "one part": (Message("user", [Text("a")]), {"role": "user", "content": "a"}, []),
    "nothing": (Message("user", []), {"role": "user", "content": ""}, []),
    "no words": (Message("user", ""), {"role": "user", "content": ""}, []),
    "a name": (Message("user", "a", "Ann"), {"role": "user", "content": "a", "name": "Ann"}, []),
    "a name in an answer": (
        Message("assistant", [Text("a")], "Bob"),
        {"role": "assistant", "content": "a", "name": "Bob"},
        [],
    ),
    "an answer in parts": (
        Message("assistant", [Text("a"), Text("b")]),
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        [],
    ),
    "an empty answer": (Message("assistant", []), {"role": "assistant", "content": ""}, []),
    "a picture in place": (
        Message("user", [Text("a"), Image(data=PNG, media_type="image/png", detail="low")]),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}},
            ],
        },
        [],
    ),
    "a picture elsewhere": (
        Message("user", [Image("https://x/i.png")]),
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/i.png"}}]},
        [],
    ),
    "a picture of no known kind": (
        Message("user", [Image(data=PNG)]),
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG_URL}}]},
        [],
    ),
    "a picture in a store": (
        Message("user", [Text("a"), Image(file_id="f")]),
        {"role": "user", "content": "a"},
        [("messages[0].content[1].file_id", "dropped", "semantic")],
    ),
    "sound": (
        Message("user", [Audio("x", "audio/mpeg"), Audio("y", "audio/wav"), Audio("z", "audio/flac")]),
        {
            "role": "user",
            "content": [
                {"type": "input_audio", "input_audio": {"data": "x", "format": "mp3"}},
                {"type": "input_audio", "input_audio": {"data": "y", "format": "wav"}},
                {"type": "input_audio", "input_audio": {"data": "z", "format": "flac"}},
            ],
        },
        [],
    ),
    "sound elsewhere": (
        Message("user", [Text("a"), Audio(url="u")]),
        {"role": "user", "content": "a"},
        [("messages[0].content[1]", "dropped", "semantic")],
    ),
    "a file": (
        Message("user", [Document(data="x", media_type="application/pdf", name="d.pdf"), Document(file_id="f")]),
        {
            "role": "user",
            "content": [
                {
                    "type": "file",
                    "file": {"file_data": "data:application/pdf;base64,x", "filename": "d.pdf"},
                },
                {"type": "file", "file": {"file_id": "f"}},
            ],
        },
        [],
    ),
    "a file without a name": (
        Message("user", [Document(data="x")]),
        {
            "role": "user",
            "content": [
                {
                    "type": "file",
                    "file": {"file_data": "data:application/pdf;base64,x", "filename": "document.pdf"},
                }
            ],
        },
        [("messages[0].content[0].name", "defaulted", "minor")],
    ),
    "a file that is no PDF": (
        Message("user", [Text("a"), Document(data="x", media_type="image/tiff", opaque=Opaque("anthropic", {}))]),
        {"role": "user", "content": "a"},
        [("messages[0].content[1]", "dropped", "semantic")],
    ),
    "a file of text": (
        Message("user", [Document(data="SGk=", media_type="text/markdown", name="a.md")]),
        {"role": "user", "content": "Hi"},
        [
            ("messages[0].content[0].text", "approximated", "minor"),
            ("messages[0].content[0].name", "dropped", "semantic"),
            ("messages[0].content[0].media_type", "dropped", "minor"),
        ],
    ),
    "a file elsewhere": (
        Message("user", [Text("a"), Document("https://x/d.pdf")]),
        {"role": "user", "content": "a"},
        [("messages[0].content[1]", "dropped", "semantic")],
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
        Message("user", [Text("a", [Citation("u")], cache=Cache())]),
        {"role": "user", "content": "a"},
        [
            ("messages[0].content[0].citations", "dropped", "semantic"),
            ("messages[0].content[0].cache", "dropped", "formal"),
        ],
    ),
    "citations in an answer": (
        Message("assistant", [Text("a", [Citation("u", "t", None, 1, 2), Citation(quote="q")])]),
        {
            "role": "assistant",
            "content": "a",
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {"url": "u", "title": "t", "start_index": 1, "end_index": 2},
                }
            ],
        },
        [("messages[0].content[0].citations", "dropped", "semantic")],
    ),
    "a refusal": (
        Message("assistant", [Refusal("No.")]),
        {"role": "assistant", "content": None, "refusal": "No."},
        [],
    ),
    "thinking": (
        Message("assistant", [Thinking("Hm."), Text("a")]),
        {"role": "assistant", "content": "a"},
        [("messages[0].content[0].text", "dropped", "semantic")],
    ),
    "thinking that is signed": (
        Message("assistant", [Thinking("", "sig"), Thinking("Hm.", "sig"), Text("a")]),
        {"role": "assistant", "content": "a"},
        [
            ("messages[0].content[0].signature", "dropped", "semantic"),
            ("messages[0].content[1].signature", "dropped", "minor"),
            ("messages[0].content[1].text", "dropped", "semantic"),
        ],
    ),
    "words and calls": (
        Message("assistant", [Text("I look."), CALL]),
        {"role": "assistant", "content": "I look.", "tool_calls": [CALL_BODY]},
        [],
    ),
    "calls before words": (
        Message("assistant", [CALL, Text("So.")]),
        {"role": "assistant", "content": "So.", "tool_calls": [CALL_BODY]},
        [("messages[0].content[1]", "moved", "minor")],
    ),
    "no words and calls": (
        Message("assistant", [Text(""), CALL]),
        {"role": "assistant", "content": "", "tool_calls": [CALL_BODY]},
        [],
    ),
    "what another server ran": (
        Message("assistant", [ServerToolCall("s", "search"), ServerToolResult("s", "search"), Text("a")]),
        {"role": "assistant", "content": "a"},
        [
            ("messages[0].content[0]", "dropped", "semantic"),
            ("messages[0].content[1]", "dropped", "semantic"),
        ],
    ),
    "what only another wire knows": (
        Message("user", [Opaque("anthropic", {"type": "x"}), Text("a")], opaque=Opaque("anthropic", {"n": 1})),
        {"role": "user", "content": "a"},
        [
            ("messages[0].content[0].opaque.type", "dropped", "formal"),
            ("messages[0].content[0]", "dropped", "semantic"),
            ("messages[0].opaque.n", "dropped", "semantic"),
        ],
    ),
    "what only this wire knows": (
        Message("user", [Opaque("openai-chat", {"type": "video_url"}), Text("a")]),
        {"role": "user", "content": [{"type": "video_url"}, {"type": "text", "text": "a"}]},
        [],
    ),
    "an id where no result is": (
        Message("user", "a", tool_call_id="call_1"),
        {"role": "user", "content": "a"},
        [("messages[0].tool_call_id", "dropped", "semantic")],
    ),
}


@pytest.mark.parametrize("case", ENCODED)
def test_a_message_from_elsewhere(case: str) -> None:
    message, body, lost = ENCODED[case]
    answers = [Message("tool", "x", tool_call_id=call.id) for call in message.tool_calls]
    bodies, found = messages_of(message, *answers)
    assert (bodies[0], found) == (body, lost)


def test_words_of_the_developer_for_a_server_that_has_no_such_role() -> None:
    request = asking([Message("developer", "a"), Message("developer", [Text("b")])])
    encoded = openai_chat.encode_request(request, Quirks(developer_role=False))
    assert losses(encoded) == [
        ("messages[0].role", "approximated", "minor"),
        ("messages[1].role", "approximated", "minor"),
    ]
    assert encoded.body["messages"] == [
        {"role": "system", "content": "a"},
        {"role": "system", "content": "b"},
    ]
    own = openai_chat.decode_request({"messages": [{"role": "developer", "content": "a"}]})
    assert openai_chat.encode_request(own, Quirks(developer_role=False)).body["messages"] == [
        {"role": "system", "content": "a"}
    ]
