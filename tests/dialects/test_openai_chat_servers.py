"""The spellings of the many servers that speak Chat Completions: each is understood, and comes back."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses, unbegun
from toolwire import Cache, Context, Message, Opaque, Quirks, Text, Thinking, ToolCall, ToolResult, translate
from toolwire.dialects import openai_chat
from toolwire.types.spelling.openai_chat import ChatCallSpelling, ChatThinkingSpelling


def call(call_id: Any = "call_1", arguments: Any = '{"a": 1}', **fields: Any) -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function, **fields}


def read(*bodies: dict[str, Any]) -> list[Message]:
    """Read messages, and make sure that they come back."""
    request = openai_chat.decode_request({"messages": list(bodies)})
    encoded = openai_chat.encode_request(request)
    assert (encoded.body, encoded.losses) == ({"messages": list(bodies)}, ())
    return list(request.messages)


def answer(*calls: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


CALLS: dict[str, tuple[Any, ToolCall]] = {
    "arguments as an object": (call(arguments={"a": 1}), ToolCall("call_1", "look", {"a": 1})),
    "arguments with spaces": (call(arguments=' {"a" : 1} '), ToolCall("call_1", "look", {"a": 1})),
    "no arguments": (
        {"id": "call_1", "type": "function", "function": {"name": "look"}},
        ToolCall("call_1", "look"),
    ),
    "arguments that are null": (call(arguments=None), ToolCall("call_1", "look")),
    "arguments that are empty": (call(arguments=""), ToolCall("call_1", "look")),
    "arguments that are null in text": (call(arguments="null"), ToolCall("call_1", "look")),
    "arguments of another kind": (
        call(arguments=[1]),
        ToolCall("call_1", "look", error="arguments must be JSON text"),
    ),
    "arguments that are no object": (
        call(arguments="[1]"),
        ToolCall("call_1", "look", raw="[1]", error="an object was expected, not an array"),
    ),
    "the id null in words": (call("null"), ToolCall("toolwire_0_0", "look", {"a": 1})),
    "the id null": (call(None), ToolCall("toolwire_0_0", "look", {"a": 1})),
    "an empty id": (call(""), ToolCall("toolwire_0_0", "look", {"a": 1})),
    "no id": (
        {"type": "function", "function": {"name": "look", "arguments": "{}"}},
        ToolCall("toolwire_0_0", "look"),
    ),
    "an id of another kind": (call(7), ToolCall("toolwire_0_0", "look", {"a": 1})),
    "no type": (
        {"id": "call_1", "function": {"name": "look", "arguments": "{}"}},
        ToolCall("call_1", "look"),
    ),
    "an index": (call(index=0), ToolCall("call_1", "look", {"a": 1})),
    "a signature": (
        call(extra_content={"google": {"thought_signature": "c2ln"}}),
        ToolCall("call_1", "look", {"a": 1}),
    ),
    "an id of Kimi": (call("functions.look:0"), ToolCall("functions.look:0", "look", {"a": 1})),
}


@pytest.mark.parametrize(("body", "expected"), CALLS.values(), ids=CALLS)
def test_a_call(body: Any, expected: ToolCall) -> None:
    [message] = read(answer(body))
    assert [*message.tool_calls, *message.broken_calls] == [expected]


@pytest.mark.parametrize("body", [{}, {"id": "x"}, "look", None, {"function": {"arguments": "{}"}}, {"function": 1}])
def test_what_is_no_call_stands_where_it_stood(body: Any) -> None:
    [message] = read(answer(call("a"), body, call("b")))
    assert [made.id for made in message.tool_calls] == ["a", "b"]
    assert message.parts[1] == Opaque("openai-chat", body, spelling=ChatCallSpelling())


def test_a_signature_in_a_call_is_echoed_and_lost_elsewhere() -> None:
    body = {"messages": [answer(call(extra_content={"google": {"thought_signature": "s"}}))]}
    assert translate.request(body, "openai", "openai").body == body
    elsewhere = translate.request(body, "openai", "anthropic")
    assert ("messages[0].content[0].opaque.extra_content", "dropped", "semantic") in losses(elsewhere)


def test_ids_that_were_made_are_not_sent_back() -> None:
    [message] = read(answer(call(None), call("null"), {"function": {"name": "look", "arguments": "{}"}}))
    assert [made.id for made in message.tool_calls] == ["toolwire_0_0", "toolwire_0_1", "toolwire_0_2"]


DETAILS = [
    {"type": "reasoning.text", "text": "Hm. ", "signature": "s1", "index": 0},
    {"type": "reasoning.encrypted", "data": "x"},
    {"type": "reasoning.text", "text": "So."},
]
THINKING: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "of DeepSeek": ({"reasoning_content": "Hm."}, ["Hm."]),
    "of vLLM": ({"reasoning": "Hm."}, ["Hm."]),
    "nothing": ({"reasoning_content": ""}, []),
    "null": ({"reasoning_content": None}, []),
    "another kind": ({"reasoning": {"effort": "low"}}, []),
    "both": ({"reasoning": "Hm.", "reasoning_content": "Hm."}, ["Hm."]),
    "details": ({"reasoning": "Hm. So.", "reasoning_details": DETAILS}, ["Hm. So."]),
    "details alone": ({"reasoning_details": DETAILS}, ["Hm. So."]),
    "details and nothing": ({"reasoning": "", "reasoning_details": DETAILS}, [""]),
    "no details": ({"reasoning_details": []}, []),
}


@pytest.mark.parametrize(("said", "texts"), THINKING.values(), ids=THINKING)
def test_thinking(said: dict[str, Any], texts: list[str]) -> None:
    [message] = read({"role": "assistant", "content": "a", **said})
    assert [part.text for part in message.parts if isinstance(part, Thinking)] == texts
    assert message.text == "a"


def test_thinking_in_the_content() -> None:
    chunks = [{"type": "text", "text": "Hm. "}, {"type": "text", "text": "So."}]
    content = [{"type": "thinking", "thinking": chunks}, {"type": "text", "text": "a"}]
    body = {"role": "assistant", "content": content}
    [message] = read(body)
    assert [type(part) for part in message.parts] == [Thinking, Text]
    assert isinstance(message.parts[0], Thinking)
    assert message.parts[0].text == "Hm. So."
    other = replace(message, content=[replace(message.parts[0], text="Hm."), message.parts[1]])
    encoded = openai_chat.encode_request(asking([other]))
    assert encoded.body["messages"][0]["content"][0] == {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "Hm."}],
    }


def test_thinking_that_was_changed() -> None:
    for said in ({"reasoning": "Hm."}, {"reasoning_details": DETAILS}):
        [message] = read({"role": "assistant", "content": "a", **said})
        other = replace(message, content=[replace(message.parts[0], text="No."), *message.parts[1:]])
        encoded = openai_chat.encode_request(asking([other]))
        assert encoded.body["messages"][0]["reasoning"] == "No."


KEYS: dict[str, tuple[str, dict[str, Any]]] = {
    "reasoning_content": ("reasoning_content", {"content": "a", "reasoning_content": "Hm."}),
    "reasoning": ("reasoning", {"content": "a", "reasoning": "Hm."}),
    "content": (
        "content",
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "a"},
            ]
        },
    ),
}


UNDER_REASONING = Opaque("openai-chat", {}, spelling=ChatThinkingSpelling(key="reasoning"))


@pytest.mark.parametrize(("key", "said"), KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("opaque", [None, UNDER_REASONING, Opaque("gemini", {})])
def test_thinking_under_the_key_of_a_server(key: str, said: dict[str, Any], opaque: Opaque | None) -> None:
    request = asking([Message("assistant", [Thinking("Hm.", opaque=opaque), Text("a")])])
    encoded = openai_chat.encode_request(request, Quirks(reasoning_key=key))
    assert (encoded.body["messages"], encoded.losses) == ([{"role": "assistant", **said}], ())


def test_empty_thinking_is_said_to_a_server_that_wants_it() -> None:
    request = asking(
        [Message("assistant", [Thinking(""), ToolCall("c", "look")]), Message("tool", "x", tool_call_id="c")]
    )
    encoded = openai_chat.encode_request(request, Quirks(reasoning_key="reasoning_content"))
    assert encoded.body["messages"][0]["reasoning_content"] == ""


LEGACY: list[dict[str, Any]] = [
    {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": '{"a": 1}'}},
    {"role": "function", "name": "look", "content": "Error: boom"},
    {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": ""}},
    {"role": "function", "name": "find", "content": None},
    {"role": "function", "name": "what", "content": "x"},
]


def test_calls_and_results_of_the_deprecated_form() -> None:
    messages = read(*LEGACY)
    assert [made for message in messages for made in message.tool_calls] == [
        ToolCall("toolwire_0_0", "look", {"a": 1}),
        ToolCall("toolwire_2_0", "find"),
    ]
    results = [message.parts for message in messages if message.role == "tool"]
    assert results == [
        [ToolResult("toolwire_0_0", "look", "boom", is_error=True)],
        [ToolResult("toolwire_2_0", "find", [])],
        [ToolResult(None, "what", "x")],
    ]


def test_the_deprecated_form_elsewhere() -> None:
    body = {"messages": LEGACY[:2], "functions": [{"name": "look", "description": "d", "parameters": {}}]}
    encoded = translate.request(body, "openai", "anthropic")
    lost = unbegun(encoded.body, losses(encoded))
    assert encoded.body["messages"] == [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolwire_0_0", "name": "look", "input": {"a": 1}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolwire_0_0", "content": "boom", "is_error": True}],
        },
    ]
    assert [tool["name"] for tool in encoded.body["tools"]] == ["look"]
    assert lost == [("max_tokens", "defaulted", "formal")]


@pytest.mark.parametrize(
    "legacy", [{"name": "", "arguments": ""}, {}, {"name": "look"}, {"name": None, "arguments": "{}"}]
)
def test_what_is_no_call_of_the_deprecated_form(legacy: dict[str, Any]) -> None:
    [message] = read({"role": "assistant", "content": "a", "function_call": legacy})
    assert message.tool_calls == []
    assert message.opaque == Opaque("openai-chat", {"function_call": legacy})


NAMES: list[tuple[list[dict[str, Any]], list[Said]]] = [
    ([answer(call("c")), {"role": "tool", "tool_call_id": "c", "name": "look", "content": "x"}], []),
    (
        [answer(call("c")), {"role": "tool", "tool_call_id": "c", "name": "other", "content": "x"}],
        [("messages[1].opaque.name", "dropped", "semantic")],
    ),
    (
        [
            answer(call("c"), call("d")),
            {"role": "tool", "tool_call_id": "c", "name": "look", "content": [{"type": "text", "text": "x"}]},
            {"role": "tool", "tool_call_id": "d", "name": "look", "content": "y"},
        ],
        [],
    ),
]


@pytest.mark.parametrize(("bodies", "lost"), NAMES)
def test_a_name_in_a_result_repeats_its_calls(bodies: list[dict[str, Any]], lost: list[Said]) -> None:
    messages = read(*bodies)
    assert [message.name for message in messages if message.role == "tool"] == [body["name"] for body in bodies[1:]]
    encoded = translate.request({"messages": bodies}, "openai", "anthropic")
    assert unbegun(encoded.body, losses(encoded)) == [("max_tokens", "defaulted", "formal"), *lost]


def test_marks_of_a_prompt_cache() -> None:
    marked = [Message("user", [Text("a", cache=Cache()), Text("b", cache=Cache("30m")), Text("c", cache=Cache("1h"))])]
    encoded = openai_chat.encode_request(asking(marked), Quirks(cache_marks=True))
    assert [block.get("prompt_cache_breakpoint") for block in encoded.body["messages"][0]["content"]] == [
        {"mode": "explicit"},
        {"mode": "explicit", "ttl": "30m"},
        {"mode": "explicit"},
    ]
    assert losses(encoded) == [("messages[0].content[2].cache.ttl", "dropped", "formal")]


def test_unknown_things_are_named_elsewhere() -> None:
    body = {
        "messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "u"}}], "x": 1}],
        "guardrails": [{"a": 1}],
        "safe_prompt": None,
    }
    encoded = translate.request(body, "openai", "anthropic")
    assert losses(encoded) == [
        ("max_tokens", "defaulted", "formal"),
        ("messages[0].opaque.x", "dropped", "semantic"),
        ("messages[0].content[0]", "dropped", "semantic"),
        ("messages[0].content", "approximated", "minor"),
        ("opaque.guardrails", "dropped", "semantic"),
    ]
    assert encoded.body["messages"] == [{"role": "user", "content": "(empty)"}]


def test_a_context_of_maps() -> None:
    context = Context(messages=[answer(call()), {"role": "tool", "tool_call_id": "call_1", "content": "x"}])
    encoded = openai_chat.encode_request(replace(asking([]), context=context))
    assert encoded.body["messages"] == [
        answer(call()),
        {"role": "tool", "tool_call_id": "call_1", "content": "x"},
    ]
