"""Settings, the system prompt and the state of requests in the words of Responses, both ways."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses
from tests.wires import differences
from toolwire import (
    Cache,
    Citation,
    Context,
    Image,
    Message,
    Opaque,
    Output,
    Quirks,
    Request,
    Text,
    ToolCall,
    ToolResult,
)
from toolwire.dialects import openai_responses

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
NOTHING = {"type": "object", "properties": {}}
STRICT = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], list[Said]]] = {
    "the same on both sides": (
        {
            "stream": True,
            "temperature": 0.2,
            "top_p": 0.5,
            "top_logprobs": 2,
            "metadata": {"a": "b"},
            "user": "u",
            "safety_identifier": "s",
            "service_tier": "flex",
            "store": True,
        },
        {
            "stream": True,
            "temperature": 0.2,
            "top_p": 0.5,
            "top_logprobs": 2,
            "metadata": {"a": "b"},
            "user": "u",
            "safety_identifier": "s",
            "service_tier": "flex",
            "store": True,
        },
        [],
    ),
    "by other names": (
        {"max_tokens": 99, "cache_key": "k"},
        {"max_output_tokens": 99, "prompt_cache_key": "k"},
        [],
    ),
    "too few tokens": (
        {"max_tokens": 5},
        {"max_output_tokens": 16},
        [("max_tokens", "approximated", "minor")],
    ),
    "effort and summary": (
        {"effort": "low", "thinking_display": "auto"},
        {"reasoning": {"effort": "low", "summary": "auto"}},
        [],
    ),
    "a display of another": (
        {"thinking_display": "summarized"},
        {"reasoning": {"summary": "auto"}},
        [],
    ),
    "a display of none": (
        {"thinking_display": "omitted"},
        {},
        [("thinking_display", "dropped", "minor")],
    ),
    "nothing stored": ({"store": False}, {"store": False, "include": ["reasoning.encrypted_content"]}, []),
    "log probabilities": (
        {"logprobs": True, "store": False},
        {"store": False, "include": ["message.output_text.logprobs", "reasoning.encrypted_content"]},
        [],
    ),
    "verbosity and text": (
        {"verbosity": "low", "output": Output("text")},
        {"text": {"verbosity": "low", "format": {"type": "text"}}},
        [],
    ),
    "any JSON": (
        {"output": Output("json")},
        {
            "text": {"format": {"type": "json_object"}},
            "input": [{"role": "system", "content": "Answer in JSON."}],
        },
        [("output", "approximated", "minor")],
    ),
    "a schema": (
        {"output": Output("schema", NOTHING, "answer", "d", strict=True)},
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "answer",
                    "schema": STRICT,
                    "description": "d",
                    "strict": True,
                }
            }
        },
        [("output.schema", "approximated", "formal")],
    ),
    "a schema with a name of its own": (
        {"output": Output("schema", NOTHING, "my answer")},
        {"text": {"format": {"type": "json_schema", "name": "my_answer__tw2-20", "schema": NOTHING}}},
        [("output.name", "renamed", "minor")],
    ),
    "what this wire has not": (
        {"stop": ["END"], "seed": 1, "n": 2, "top_k": 4, "logit_bias": {"1": 2}, "frequency_penalty": 0.1},
        {},
        [(name, "dropped", "semantic") for name in ("top_k", "stop", "seed", "n", "frequency_penalty", "logit_bias")],
    ),
    "values that this wire refuses": (
        {"service_tier": "standard_only", "verbosity": "loud", "metadata": {"a": 1}, "effort": "huge"},
        {"metadata": {}},
        [
            ("effort", "dropped", "semantic"),
            ("verbosity", "dropped", "semantic"),
            ("metadata.a", "dropped", "formal"),
            ("service_tier", "dropped", "minor"),
        ],
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_from_elsewhere(case: str) -> None:
    settings, body, lost = SETTINGS[case]
    encoded = openai_responses.encode_request(asking([], **settings))
    assert (encoded.body, losses(encoded)) == ({"model": "m", "input": [], **body}, lost)


OWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a string": (
        {"input": "Hi"},
        {"messages": [Message("user", "Hi", opaque=Opaque("openai-responses", {}))]},
    ),
    "instructions": ({"instructions": "Be brief.", "input": []}, {"system": "Be brief."}),
    "no instructions": ({"instructions": None, "input": []}, {"system": None}),
    "empty instructions": ({"instructions": "", "input": []}, {"system": ""}),
    "reasoning": (
        {"input": [], "reasoning": {"effort": "high", "summary": None, "context": "all_turns"}},
        {"effort": "high", "thinking_display": None},
    ),
    "unknown effort": ({"input": [], "reasoning": {"effort": "huge"}}, {"effort": None}),
    "a form": (
        {
            "input": [],
            "text": {
                "verbosity": "high",
                "format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": None, "x": 1},
            },
        },
        {"verbosity": "high", "output": Output("schema", SCHEMA, "a")},
    ),
    "few tokens": ({"input": [], "max_output_tokens": 5}, {"max_tokens": 5}),
    "includes": (
        {"input": [], "include": ["x", "message.output_text.logprobs", "y"], "store": False},
        {"logprobs": True, "store": False},
    ),
    "state": (
        {"input": [], "previous_response_id": "resp_1", "conversation": {"id": "conv_1"}},
        {"provider_state": {"previous_response_id": "resp_1", "conversation": {"id": "conv_1"}}},
    ),
    "no state": ({"input": [], "previous_response_id": None, "conversation": ""}, {"provider_state": None}),
    "no input": ({"prompt": {"id": "p"}}, {"messages": []}),
    "odd values": (
        {
            "model": 5,
            "input": None,
            "tools": [],
            "stream": "yes",
            "temperature": "warm",
            "metadata": [],
            "text": {},
        },
        {"model": None, "stream": None, "temperature": None, "metadata": None, "tools": []},
    ),
    "what nobody knows": ({"input": [], "background": True, "truncation": "auto", "x_new": {"a": [1]}}, {}),
}


@pytest.mark.parametrize("case", OWN)
def test_a_request_comes_back(case: str) -> None:
    body, meant = OWN[case]
    request = openai_responses.decode_request(body, "/openai/v1/responses")
    assert {name: getattr(request, name) for name in meant} == meant
    encoded = openai_responses.encode_request(request)
    assert differences(body, encoded.body) == []
    assert (encoded.path, encoded.losses) == ("/openai/v1/responses", ())


def test_a_changed_setting_is_the_only_difference() -> None:
    body = OWN["a form"][0]
    request = replace(openai_responses.decode_request(body), verbosity="low", effort="low")
    assert differences(body, openai_responses.encode_request(request).body) == [
        "$.reasoning: absent before",
        "$.text.verbosity: 'high' became 'low'",
    ]


SYSTEM: dict[str, tuple[Any, list[Message], Any, list[Any], list[Said]]] = {
    "a string": ("Be brief.", [], "Be brief.", [], []),
    "nothing": ("", [], None, [], []),
    "a message": (None, [Message("system", "Be brief.")], "Be brief.", [], []),
    "both": ("A", [Message("system", "B")], "A", [{"type": "message", "role": "system", "content": "B"}], []),
    "two messages": (
        None,
        [Message("system", "A"), Message("system", "B")],
        "A",
        [{"type": "message", "role": "system", "content": "B"}],
        [],
    ),
    "parts": ([Text("A"), Text("B")], [], "A\n\nB", [], [("system.content", "merged", "minor")]),
    "a part with more": (
        [Text("A", [Citation("https://x.test")], cache=Cache())],
        [],
        "A",
        [],
        [
            ("system.content[0].cache", "dropped", "formal"),
            ("system.content[0].citations", "dropped", "semantic"),
        ],
    ),
    "a picture": (
        [Text("A"), Image("https://x.test/a.png")],
        [],
        None,
        [
            {
                "type": "message",
                "role": "system",
                "content": [
                    {"type": "input_text", "text": "A"},
                    {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "auto"},
                ],
            }
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", SYSTEM)
def test_the_system_prompt(case: str) -> None:
    system, messages, instructions, items, lost = SYSTEM[case]
    encoded = openai_responses.encode_request(asking([*messages, Message("Hi")], system=system))
    assert encoded.body.get("instructions") == instructions
    hi = {"type": "message", "role": "user", "content": "Hi"}
    assert (encoded.body["input"], losses(encoded)) == ([*items, hi], lost)


@pytest.mark.parametrize("after", [[], [Message("assistant", "Hello.")]])
def test_the_system_prompt_stands_in_the_input_where_the_user_does_not_begin(after: list[Message]) -> None:
    """Instructions alone are no input; and what was sent once stays when the model has answered."""
    item = {"type": "message", "role": "system", "content": "Be brief."}
    for request in (asking(after, system="Be brief."), asking([Message("system", "Be brief."), *after])):
        body = openai_responses.encode_request(request).body
        assert body["input"][0] == item
        assert "instructions" not in body


def test_marked_parts_of_the_system_prompt_keep_their_boundaries() -> None:
    request = asking([], system=[Text("A", cache=Cache("12h")), Text("B")])
    encoded = openai_responses.encode_request(request, Quirks(cache_marks=True))
    assert "instructions" not in encoded.body
    assert [block["text"] for block in encoded.body["input"][0]["content"]] == ["A", "B"]
    assert encoded.body["input"][0]["content"][0]["prompt_cache_breakpoint"] == {
        "mode": "explicit",
        "ttl": "12h",
    }


def test_only_what_is_new_goes_to_a_stored_response() -> None:
    call = ToolCall("call_1", "run", raw="1", custom=True)
    messages = [
        Message("system", "Be brief."),
        Message("user", "Hi"),
        Message("assistant", [call]),
        Message("tool", [ToolResult("call_1", "run", "2")]),
    ]
    state = {"previous_response_id": "resp_1", "note": 1}
    request = Request(context=Context(None, messages, [], state))
    encoded = openai_responses.encode_request(request)
    assert encoded.body == {
        "instructions": "Be brief.",
        "input": [{"type": "custom_tool_call_output", "call_id": "call_1", "output": "2"}],
        "previous_response_id": "resp_1",
    }
    assert losses(encoded) == [("provider_state.note", "dropped", "semantic")]


@pytest.mark.parametrize("state", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_a_result_may_answer_a_call_that_only_the_server_has(state: dict[str, Any]) -> None:
    request = Request(context=Context(None, [Message("tool", "2", "run", "call_1")], [], state))
    encoded = openai_responses.encode_request(request)
    assert encoded.body["input"] == [{"type": "function_call_output", "call_id": "call_1", "output": "2"}]
    assert encoded.losses == ()


def test_the_state_of_a_recorded_request_leaves_its_items_alone() -> None:
    items = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    body = {"model": "m", "input": items, "previous_response_id": "resp_1"}
    assert openai_responses.encode_request(openai_responses.decode_request(body)).body == body
