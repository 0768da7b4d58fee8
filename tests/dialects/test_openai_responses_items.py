"""The items of Responses: what they mean, and that the same items are written again."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import asking
from tests.wires import differences
from toolwire import Message, Opaque, Text, ToolCall, ToolResult
from toolwire.dialects import anthropic, openai_chat, openai_responses

PNG = "iVBORw0KGgoAAAA"
CALL = ToolCall("call_1", "look", {"at": "sky"})
LOOK = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at":"sky"}'}
SEEN = {"type": "function_call_output", "call_id": "call_1", "output": "blue"}


def said(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def given(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


RS = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}
FC = {**LOOK, "id": "fc_1", "status": "completed"}
MSG = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
}
ITEMS: dict[str, list[Any]] = {
    "easy words": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
    "typed words": [
        said("user", "Hi"),
        said("system", [given("a")]),
        {**said("assistant", "x"), "phase": "final_answer"},
    ],
    "a turn": [said("user", "Hi"), RS, MSG, FC, SEEN, said("user", [])],
    "two texts and a refusal": [
        {
            **MSG,
            "content": [
                {"type": "output_text", "text": "a"},
                {"type": "refusal", "refusal": "b"},
                {"type": "new"},
            ],
        }
    ],
    "reasoning told in full": [
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm."}],
        },
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": ""}],
            "encrypted_content": None,
        },
    ],
    "tools of the server": [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "x"},
        },
        {
            "type": "code_interpreter_call",
            "id": "ci",
            "code": "1",
            "container_id": "c",
            "outputs": None,
            "status": "completed",
        },
        {"type": "mcp_list_tools", "id": "m", "server_label": "s", "tools": []},
        {
            "type": "mcp_call",
            "id": "mcp",
            "name": "ask",
            "arguments": '{ "q": 1}',
            "server_label": "s",
            "output": "o",
        },
        {
            "type": "shell_call",
            "id": "sh",
            "call_id": "c1",
            "action": {"commands": ["ls"]},
            "status": "completed",
        },
        {
            "type": "shell_call_output",
            "call_id": "c1",
            "output": [{"stdout": "a"}],
            "max_output_length": None,
        },
        {
            "type": "tool_search_output",
            "call_id": None,
            "execution": "server",
            "tools": [{"type": "function"}],
        },
        {"type": "program", "id": "cm", "call_id": "c2", "code": "x", "fingerprint": "f"},
        {"type": "program_output", "id": "cmo", "call_id": "c2", "result": "r", "status": "completed"},
        {"type": "image_generation_call", "id": "ig", "result": "AAAA", "status": "completed"},
        {"type": "compaction", "id": "cmp", "encrypted_content": "x"},
    ],
    "what the client sends beside": [
        {"type": "item_reference", "id": "msg_9"},
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": "u"},
        },
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "compaction_trigger"},
    ],
    "results": [
        {**LOOK, "namespace": "n", "caller": {"type": "direct"}},
        {**SEEN, "id": "fco_1", "status": "completed", "name": "look"},
        {**SEEN, "output": [given("Error: "), given("x")]},
        {**SEEN, "output": [given(" Error: ")]},
        {**SEEN, "output": "  Error: x"},
        {**SEEN, "output": []},
        {
            "type": "custom_tool_call_output",
            "call_id": "c",
            "output": [{"type": "input_image", "image_url": "u"}],
        },
    ],
    "odd arguments": [{**LOOK, "arguments": text} for text in ("", "[]", '{"a": 1, "a": 2}', {"a": 1}, None)],
    "odd calls": [
        {"type": "function_call"},
        {**LOOK, "call_id": ""},
        {"type": "custom_tool_call", "name": "x"},
    ],
    "media": [
        said(
            "user",
            [
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
                {"type": "input_file", "file_data": "JVBE", "filename": "a.pdf"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {**given("a"), "prompt_cache_breakpoint": {"mode": "explicit"}},
            ],
        )
    ],
    "nonsense": [
        None,
        "x",
        5,
        [],
        {},
        {"type": None},
        {"type": []},
        {"role": "critic", "content": "x"},
        {"type": "new", "x": 1},
    ],
    "words that are none": [
        {"role": "assistant"},
        {"role": "assistant", "content": [None]},
        {"role": "user", "content": [None]},
    ],
}


@pytest.mark.parametrize("case", ITEMS)
def test_items_come_back(case: str) -> None:
    body = {"model": "m", "input": ITEMS[case]}
    encoded = openai_responses.encode_request(openai_responses.decode_request(body))
    assert differences(body, encoded.body) == []
    assert encoded.losses == ()
    for other in (openai_chat, anthropic):
        other.encode_request(openai_responses.decode_request(body))


def read(items: Any) -> list[Message]:
    return list(openai_responses.decode_request({"input": items}).messages)


def test_what_the_model_says_in_a_row_is_one_message() -> None:
    user, turn, result, after = read([said("user", "Hi"), RS, MSG, FC, SEEN, said("assistant", "Blue.")])
    thinking, words, call = turn.parts
    assert (thinking.text, thinking.signature) == ("Hm.", "gAAA")  # type: ignore[union-attr]
    assert words == replace(Text("I look."), opaque=words.opaque)  # type: ignore[union-attr]
    assert call == CALL
    assert [message.role for message in (user, turn, result, after)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert result.parts == [ToolResult("call_1", None, "blue", opaque=result.parts[0].opaque)]  # type: ignore[union-attr]
    assert after.content == "Blue."


MEANINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a search": (
        ITEMS["tools of the server"][0],
        {"id": "ws_1", "name": "web_search", "arguments": {"type": "search", "query": "x"}},
    ),
    "code": (
        ITEMS["tools of the server"][1],
        {"id": "ci", "name": "code_interpreter", "arguments": {"code": "1"}},
    ),
    "a call of MCP": (ITEMS["tools of the server"][3], {"id": "mcp", "name": "ask", "arguments": {"q": 1}}),
    "a shell": (
        ITEMS["tools of the server"][4],
        {"id": "c1", "name": "shell", "arguments": {"commands": ["ls"]}},
    ),
    "what the shell said": (
        ITEMS["tools of the server"][5],
        {"tool_call_id": "c1", "name": "shell", "content": '{"output":[{"stdout":"a"}]}'},
    ),
    "an error": (
        ITEMS["results"][2],
        {"is_error": True, "content": [Text("x", opaque=Opaque("openai-responses", {}))]},
    ),
    "no error": (ITEMS["results"][4], {"is_error": False, "content": " Error: x"}),
    "arguments given twice": (
        ITEMS["odd arguments"][2],
        {"arguments": {}, "error": "the key 'a' is given twice"},
    ),
    "no arguments": (ITEMS["odd arguments"][0], {"arguments": {}, "error": None}),
    "a call cut off": ({**LOOK, "status": "incomplete"}, {"complete": False}),
    "a call on its way": ({**LOOK, "status": "in_progress"}, {"complete": True}),
    "reasoning of two summaries": (ITEMS["reasoning told in full"][1], {"text": "a\n\n", "signature": None}),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_what_an_item_means(case: str) -> None:
    item, fields = MEANINGS[case]
    [message] = read([item])
    [part] = message.parts
    assert {name: getattr(part, name) for name in fields} == fields


CHANGES: dict[str, tuple[str, int, int, dict[str, Any], str]] = {
    "a text": ("a turn", 1, 1, {"text": "New."}, "$.input[2].content[0].text: 'I look.' became 'New.'"),
    "thinking": ("a turn", 1, 0, {"text": "New."}, "$.input[1].summary[0].text: 'Hm.' became 'New.'"),
    "a name": ("a turn", 1, 2, {"name": "see"}, "$.input[3].name: 'look' became 'see'"),
    "arguments": (
        "a turn",
        1,
        2,
        {"arguments": {"b": 2}},
        """$.input[3].arguments: '{"at":"sky"}' became '{"b":2}'""",
    ),
    "a result": ("a turn", 2, 0, {"content": "red"}, "$.input[4].output: 'blue' became 'red'"),
    "a failure": ("a turn", 2, 0, {"is_error": True}, "$.input[4].output: 'blue' became 'Error: blue'"),
    "a search": ("tools of the server", 0, 0, {"arguments": {"q": 1}}, "$.input[0].action.q: absent before"),
    "an MCP call": (
        "tools of the server",
        0,
        3,
        {"arguments": {"q": 2}},
        """$.input[3].arguments: '{ "q": 1}' became '{"q":2}'""",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_part_is_the_only_difference(case: str) -> None:
    items, place, part, fields, difference = CHANGES[case]
    body = {"model": "m", "input": ITEMS[items]}
    request = openai_responses.decode_request(body)
    messages = list(request.messages)
    parts = list(messages[place].parts)
    parts[part] = replace(parts[part], **fields)
    messages[place] = replace(messages[place], content=parts)
    changed = replace(request, context=replace(request.context, messages=messages))
    found = differences(body, openai_responses.encode_request(changed).body)
    assert difference in found
    place_of_it = difference.split(": ")[0].rpartition(".")[0]
    assert [line for line in found if not line.startswith(place_of_it)] == []


def test_without_its_reasoning_an_item_has_no_id() -> None:
    [turn, result] = read([RS, MSG, FC, SEEN])
    without = replace(turn, content=turn.parts[1:])
    encoded = openai_responses.encode_request(asking([without, result]))
    assert encoded.body["input"] == [
        {**said("assistant", "I look."), "phase": "commentary"},
        {**LOOK, "status": "completed"},
        SEEN,
    ]
    assert openai_responses.encode_request(asking([turn, result])).body["input"] == [RS, MSG, FC, SEEN]


def test_a_turn_of_this_wire_elsewhere() -> None:
    encoded = openai_chat.encode_request(openai_responses.decode_request({"model": "m", "input": ITEMS["a turn"][:5]}))
    assert encoded.body["messages"] == [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"at":"sky"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "blue"},
    ]
    assert [loss.path for loss in encoded.losses] == [
        "messages[1].content[0].signature",
        "messages[1].content[0].text",
        "messages[1].content[1].opaque.item.phase",
    ]
