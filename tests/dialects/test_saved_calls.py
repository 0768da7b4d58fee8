"""How wires spelled calls and results: saved with the conversation, and written again by their own wire alone."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from toolwire import Request, dialect, translate
from toolwire.dialects import NAMES

ASKED = {"role": "user", "content": "Hi"}


def chat(*bodies: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [ASKED, *bodies]}


def gemini(call: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]}


ODD: dict[str, tuple[str, dict[str, Any]]] = {
    "no ids and no arguments": (
        "openai-chat",
        chat(
            {"role": "assistant", "tool_calls": [{"id": "", "function": {"name": "look"}}]},
            {"role": "tool", "content": {"a": 1}},
        ),
    ),
    "the name of the tool in its result": (
        "openai-chat",
        chat(
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look"}}]},
            {"role": "tool", "tool_call_id": "c", "name": "look", "content": "b"},
        ),
    ),
    "an entry that is no call": ("openai-chat", chat({"role": "assistant", "tool_calls": [{"id": "c"}]})),
    "a deprecated function": (
        "openai-chat",
        chat(
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
            {"role": "function", "name": "look", "content": "b"},
        ),
    ),
    "an index, and no ids": (
        "ollama",
        chat(
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"index": 7, "name": "look"}}]},
            {"role": "Tool", "name": "look", "content": [1]},
        ),
    ),
    "an id that toolwire might have generated": (
        "ollama",
        chat(
            {"role": "assistant", "tool_calls": [{"id": "toolwire_0_3", "function": {"name": "f", "arguments": {}}}]},
            {"role": "tool", "tool_call_id": "toolwire_0_3", "tool_name": "f", "content": "b"},
        ),
    ),
    "an entry without a name": ("ollama", chat({"role": "assistant", "tool_calls": [{"function": {}}]})),
    "keys in snake_case, and no ids": (
        "gemini",
        gemini({"function_call": {"name": "f"}}, {"function_response": {"name": "f", "response": {"result": 1}}}),
    ),
    "an id that no call has": (
        "gemini",
        gemini(
            {"functionCall": {"name": "f", "args": '{"a": 1}'}},
            {"functionResponse": {"id": "x", "name": "f", "parts": [{"inlineData": {"data": "eA=="}}]}},
        ),
    ),
    "no input": (
        "anthropic",
        chat(
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": {"a": 1}}]},
        ),
    ),
    "a namespace": (
        "openai-responses",
        {
            "input": [
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "function_call", "id": "fc_1", "call_id": "c", "namespace": "n", "name": "f"},
                {"type": "function_call_output", "call_id": "c", "namespace": "n", "name": "f", "output": {"a": 1}},
            ]
        },
    ),
    "tools that OpenAI defines": (
        "openai-responses",
        {
            "input": [
                {"type": "local_shell_call", "id": "x", "action": {"type": "exec", "command": ["ls"]}, "call_id": "c"},
                {"type": "local_shell_call_output", "id": "c", "output": "a"},
                {"type": "apply_patch_call", "call_id": "d", "operation": {"type": "delete_file", "path": "a"}},
                {"type": "apply_patch_call_output", "call_id": "d", "status": "completed"},
                {"type": "tool_search_call", "call_id": "e", "execution": "client", "arguments": {"query": "a"}},
                {
                    "type": "tool_search_output",
                    "call_id": "e",
                    "execution": "client",
                    "tools": [{"type": "function", "name": "f", "parameters": {}}],
                },
            ]
        },
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_saved_calls_are_written_as_they_were_spelled(case: str) -> None:
    wire, body = ODD[case]
    request = dialect(wire).decode_request(body)
    saved = msgspec.json.decode(msgspec.json.encode(request), type=Request)
    assert saved == request
    assert dialect(wire).encode_request(saved).body == body


def without_spelling(value: Any) -> Any:
    """Return a message, or one of its parts, without its spelling."""
    opaque = getattr(value, "opaque", None)
    return value if opaque is None else replace(value, opaque=replace(opaque, spelling=None))


def without_spellings(request: Request) -> Request:
    """Return `request` without the spellings of its messages and of their parts."""
    messages = []
    for message in map(without_spelling, request.messages):
        content = message.content if type(message.content) is str else list(map(without_spelling, message.content))
        messages.append(replace(message, content=content))
    return replace(request, context=replace(request.context, messages=messages))


@pytest.mark.parametrize("case", [case for case in ODD if "no call" not in case and "without a name" not in case])
def test_another_wire_ignores_how_calls_were_spelled(case: str) -> None:
    wire, body = ODD[case]
    request = dialect(wire).decode_request(body)
    for name in NAMES:
        if name != wire:
            there = dialect(name)
            assert there.encode_request(request) == there.encode_request(without_spellings(request)), name


def test_a_broken_call_of_a_tool_in_a_namespace_cannot_be_run() -> None:
    """It is the provider's call, and its text is marked like that of any other broken call from elsewhere."""
    tool = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": {}}]}
    call = {"id": "c", "type": "function", "function": {"name": "n__f", "arguments": '{"a":1,"a":2}'}}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [call]}}
    exchange = translate.exchange({"input": "Hi", "tools": [tool]}, source="openai-responses", target="openai-chat")
    [item] = exchange.response({"object": "chat.completion", "choices": [choice]}).body["output"]
    assert (item["namespace"], item["name"]) == ("n", "f")
    with pytest.raises(json.JSONDecodeError):
        json.loads(item["arguments"])
