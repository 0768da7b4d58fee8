"""Messages from elsewhere in the items of Responses."""

from typing import Any

import pytest
from msgspec.structs import replace

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
    ToolResult,
)
from toolwire.dialects import openai_responses

PNG = "iVBORw0KGgoAAAA"
ELSEWHERE = Opaque("gemini", {})
CALL = ToolCall("call_1", "look", {"at": "sky"})
LOOK = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at":"sky"}'}
SEEN = {"type": "function_call_output", "call_id": "call_1", "output": "blue"}


def said(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def given(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def seen(output: Any) -> list[Any]:
    return [LOOK, {**SEEN, "output": output}]


def answered(*content: Any, **fields: Any) -> list[Message]:
    content_or_words = content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)
    return [
        Message("assistant", [CALL]),
        Message("tool", [ToolResult("call_1", "look", content_or_words, **fields)]),
    ]


MESSAGES: dict[str, tuple[list[Message], list[Any], list[Said]]] = {
    "a user": ([Message("user", "Hi")], [said("user", "Hi")], []),
    "a developer": ([Message("developer", "JSON only.")], [said("developer", "JSON only.")], []),
    "a late system message": (
        [Message("user", "Hi"), Message("system", "Be brief.")],
        [said("user", "Hi"), said("system", "Be brief.")],
        [],
    ),
    "an assistant": ([Message("assistant", "Sure.")], [said("assistant", "Sure.")], []),
    "no words": ([Message("user", "")], [said("user", "")], []),
    "no parts": ([Message("user", [])], [said("user", "")], []),
    "one text": ([Message("user", [Text("Hi")])], [said("user", "Hi")], []),
    "texts": ([Message("user", [Text("a"), Text("b")])], [said("user", [given("a"), given("b")])], []),
    "texts of the assistant keep their boundary": (
        [Message("assistant", [Text("a"), Text("b")])],
        [said("assistant", "a"), said("assistant", "b")],
        [],
    ),
    "a name": (
        [Message("user", "Hi", "bob")],
        [said("user", "Hi")],
        [("messages[0].name", "dropped", "semantic")],
    ),
    "a call and its result": (
        [Message("assistant", [Text(""), CALL]), *answered("blue")[1:]],
        [LOOK, SEEN],
        [],
    ),
    "words before a call": (
        [Message("assistant", [Text("Wait."), CALL]), *answered("blue")[1:]],
        [said("assistant", "Wait."), LOOK, SEEN],
        [],
    ),
    "results and words in one message": (
        [Message("assistant", [CALL]), Message("user", [ToolResult("call_1", None, "blue"), Text("And?")])],
        [LOOK, SEEN, said("user", "And?")],
        [],
    ),
    "a result that is missing": (
        [Message("assistant", [CALL]), Message("user", "Go on.")],
        [*seen("Error: no result was provided for this call"), said("user", "Go on.")],
        [("messages[0]", "repaired", "semantic")],
    ),
    "a call that was cut off": (
        [Message("assistant", [replace(CALL, complete=False)]), *answered("blue")[1:]],
        [{**LOOK, "status": "incomplete"}, SEEN],
        [],
    ),
    "argument text as it came": (
        [Message("assistant", [ToolCall.parse("call_1", "look", '{ "at": "sky" }')]), *answered("blue")[1:]],
        [{**LOOK, "arguments": '{ "at": "sky" }'}, SEEN],
        [],
    ),
    "a custom call and its result": (
        [
            Message("assistant", [ToolCall("call_1", "run", raw="1 + 1", custom=True)]),
            Message("tool", "2", "run", "call_1"),
        ],
        [
            {"type": "custom_tool_call", "call_id": "call_1", "name": "run", "input": "1 + 1"},
            {"type": "custom_tool_call_output", "call_id": "call_1", "output": "2"},
        ],
        [],
    ),
    "an error": (answered("boom", is_error=True), seen("Error: boom"), []),
    "what looks like an error": (answered("Error: none"), seen(" Error: none"), []),
    "a list that is an error": (
        answered(Text("a"), Text("b"), is_error=True),
        seen([given("Error: "), given("a"), given("b")]),
        [],
    ),
    "a result of one text": (answered(Text("blue")), seen("blue"), []),
    "a result of nothing": (answered(), seen(""), []),
    "a result with media": (
        answered(Text("see"), Image(data=PNG, media_type="image/png"), Document(url="https://x.test/a.pdf")),
        seen(
            [
                given("see"),
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
                {"type": "input_file", "file_url": "https://x.test/a.pdf"},
            ]
        ),
        [],
    ),
    "a result with sound": (
        answered(Audio("AAAA")),
        seen(""),
        [("messages[1].content[0].content[0]", "dropped", "semantic")],
    ),
    "pictures": (
        [Message("user", [Image("https://x.test/a.png", detail="low"), Image(file_id="file_1")])],
        [
            said(
                "user",
                [
                    {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "low"},
                    {"type": "input_image", "file_id": "file_1", "detail": "auto"},
                ],
            )
        ],
        [],
    ),
    "files": (
        [Message("user", [Document(data="JVBE", name="a.pdf"), Document(data="JVBE"), Document(text="plain")])],
        [
            said(
                "user",
                [
                    {
                        "type": "input_file",
                        "file_data": "data:application/pdf;base64,JVBE",
                        "filename": "a.pdf",
                    },
                    {
                        "type": "input_file",
                        "file_data": "data:application/pdf;base64,JVBE",
                        "filename": "document.pdf",
                    },
                    given("plain"),
                ],
            )
        ],
        [
            ("messages[0].content[1].name", "defaulted", "minor"),
            ("messages[0].content[2].text", "approximated", "minor"),
        ],
    ),
    "sound": (
        [Message("user", [Audio("AAAA", "audio/wav"), Text("Listen.")])],
        [said("user", "Listen.")],
        [("messages[0].content[0]", "dropped", "semantic")],
    ),
    "a cache mark": (
        [Message("user", [Text("Hi", cache=Cache())])],
        [said("user", "Hi")],
        [("messages[0].content[0].cache", "dropped", "formal")],
    ),
    "thinking of another": (
        [Message("assistant", [Thinking("Hm.", "sig", opaque=ELSEWHERE), Text("Yes.")])],
        [said("assistant", "Yes.")],
        [("messages[0].content[0]", "dropped", "semantic")],
    ),
    "tools that another ran": (
        [
            Message(
                "assistant",
                [ServerToolCall("s", "search", {}, opaque=ELSEWHERE), ServerToolResult("s", "search")],
            )
        ],
        [],
        [
            ("messages[0].content[0]", "dropped", "semantic"),
            ("messages[0].content[1]", "dropped", "semantic"),
            ("messages[0]", "dropped", "semantic"),
        ],
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_from_elsewhere(case: str) -> None:
    messages, items, lost = MESSAGES[case]
    encoded = openai_responses.encode_request(asking(messages))
    assert (encoded.body, losses(encoded)) == ({"model": "m", "input": items}, lost)


def test_a_refusal_and_citations_need_an_item_with_an_id() -> None:
    note = Citation("https://x.test", "X", None, 0, 2)
    encoded = openai_responses.encode_request(asking([Message("assistant", [Refusal("No."), Text("Hm", [note])])]))
    refusal, cited = encoded.body["input"]
    assert refusal.pop("id").startswith("msg_")
    assert refusal == {**said("assistant", [{"type": "refusal", "refusal": "No."}]), "status": "completed"}
    assert cited["content"][0]["annotations"] == [
        {"type": "url_citation", "url": "https://x.test", "title": "X", "start_index": 0, "end_index": 2}
    ]
    assert cited["id"].startswith("msg_")
    assert encoded.losses == ()


def test_ids_that_are_too_long_are_shortened_alike() -> None:
    long = "call_" + "x" * 80
    messages = [
        Message("assistant", [ToolCall(long, "srv/look", {})]),
        Message("tool", "blue", "srv/look", long),
    ]
    call, result = openai_responses.encode_request(asking(messages)).body["input"]
    assert len(call["call_id"]) == 64
    assert call["call_id"] == result["call_id"]
    assert call["name"] == "srv_look__tw3-2f"
    assert openai_responses.decode_request({"input": [call]}).messages[0].tool_calls[0].name == "srv/look"


def test_marks_and_roles_that_a_server_asks_for() -> None:
    quirks = Quirks(cache_marks=True, developer_role=False)
    messages = [Message("developer", "JSON."), Message("user", [Text("Hi", cache=Cache("30m"))])]
    encoded = openai_responses.encode_request(asking(messages), quirks)
    mark = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}
    assert encoded.body["input"] == [said("system", "JSON."), said("user", [{**given("Hi"), **mark}])]
    assert losses(encoded) == [("messages[0].role", "approximated", "minor")]


@pytest.mark.parametrize(
    "body",
    [
        {"role": "developer", "content": "a"},
        {"type": "message", "role": "developer", "content": "a"},
        {"role": "developer", "content": [{"type": "input_text", "text": "a"}], "x": 1},
    ],
)
def test_words_of_the_developer_for_a_server_that_has_no_such_role(body: dict[str, Any]) -> None:
    own = openai_responses.decode_request({"model": "m", "input": [body]})
    assert openai_responses.encode_request(own).body["input"] == [body]
    encoded = openai_responses.encode_request(own, Quirks(developer_role=False))
    assert encoded.body["input"] == [{**body, "role": "system"}]
    assert losses(encoded) == [("messages[0].role", "approximated", "minor")]


@pytest.mark.parametrize(("messages", "items"), [(1, 1), (3, 4), (4, 5)])
def test_a_longer_history_keeps_the_earlier_items(messages: int, items: int) -> None:
    history = [
        Message("user", "Hi"),
        Message("assistant", [Refusal("No."), CALL]),
        *answered("blue")[1:],
        Message("user", "Go."),
    ]
    whole = openai_responses.encode_request(asking(history)).body["input"]
    assert len(whole) == 5
    assert openai_responses.encode_request(asking(history[:messages])).body["input"] == whole[:items]
