"""What a provider's cache finds again: a second turn of Claude Code and of Codex begins as the first one did."""

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, post
from toolwire import translate
from toolwire.testing import Scenario
from toolwire.types import Text, ToolCall

SCHEMA: Any = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
LISTS = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
    "ollama": "messages",
}
_BILLED = "x-anthropic-billing-header: cc_version=2.1.197.{0}; cc_entrypoint=cli; cch={0};"


def claude(model: str, turn: int, said: list[Any]) -> dict[str, Any]:
    """Give a body as Claude Code sends it: another first block, and other marks of a cache, in each turn."""
    mark = {"cache_control": {"type": "ephemeral"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Look at it."}]}, *said]
    last = messages[-1]
    messages[-1] = {**last, "content": [*last["content"][:-1], {**last["content"][-1], **mark}]}
    return {
        "model": model,
        "max_tokens": 32000,
        "stream": True,
        "system": [
            {"type": "text", "text": _BILLED.format(f"a{turn}f")},
            {"type": "text", "text": "You are careful.", **mark},
        ],
        "tools": [{"name": "Read", "description": "Read a file.", "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "metadata": {"user_id": "u"},
        "messages": messages,
    }


def codex(model: str, _turn: int, said: list[Any]) -> dict[str, Any]:
    """Give a body as Codex sends it."""
    tool = {"type": "function", "name": "Read", "strict": False, "parameters": SCHEMA}
    free = {"type": "custom", "name": "apply_patch", "description": "Patch.", "format": {"type": "text"}}
    first = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look at it."}]}
    return {
        "model": model,
        "instructions": "You are careful.",
        "input": [first, *said],
        "tools": [tool, free],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "one",
    }


def answered(wire: str, data: bytes) -> list[Any]:
    """Give what a client repeats of an answer, and the result of its call."""
    from toolwire.dialects import dialect
    from toolwire.streams.accumulation import Accumulator

    decoder, heard = dialect(wire).decode_stream(), Accumulator()
    for event in [*decoder.feed(data), *decoder.close()]:
        heard.feed(event)
    encoded = dialect(wire).encode_response(heard.response).body
    if wire == "anthropic":
        [call] = [block for block in encoded["content"] if block["type"] == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "seen"}
        return [{"role": "assistant", "content": encoded["content"]}, {"role": "user", "content": [result]}]
    [call] = [item for item in encoded["output"] if item["type"] == "function_call"]
    return [*encoded["output"], {"type": "function_call_output", "call_id": call["call_id"], "output": "seen"}]


def beginning(body: dict[str, Any], wire: str) -> str:
    """Give the bytes of a body up to the end of its last message."""
    written, items = json.dumps(body), body[LISTS[wire]]
    return written[: written.index(json.dumps(items)) + len(json.dumps(items)) - 1]


@pytest.mark.sampled
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("here", "path", "make"), [("anthropic", "/v1/messages", claude), ("openai-responses", "/v1/responses", codex)]
)
def test_a_second_turn_begins_as_the_first(here: str, path: str, make: Any, wire: str, lenient_model: Playing) -> None:
    if wire == here:
        pytest.skip("the same bytes pass")
    turns = [
        [Text("I look."), ToolCall(None, "Read", {"path": "a"})],
        [Text("And."), ToolCall(None, "Read", {"path": "b"})],
        ["Done."],
    ]
    with lenient_model(Scenario(turns)) as stood:
        said: list[Any] = []
        for turn in range(3):
            body = make(f"{NAMES[wire]}/m", turn, said)
            answer = post(stood.url, path, json.dumps(body).encode())
            assert answer.status == 200, answer.data
            said = said + (answered(here, answer.data) if turn < 2 else [])
        bodies: list[Any] = [one.body for one in stood.requests]
    assert len(bodies) == 3
    for before, after in pairwise(bodies):
        assert json.dumps(after).startswith(beginning(before, wire))
        assert {**after, LISTS[wire]: None} == {**before, LISTS[wire]: None}
    assert "billing" not in json.dumps(bodies)


@pytest.mark.sampled
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("given", [dict, json.dumps, lambda body: json.dumps(body, indent=1).encode()])
def test_the_line_that_its_vendor_bills_by_stays_there(wire: str, whole: bool, given: Any) -> None:
    body = claude("m", 1, [])
    quoted = body["system"][0]["text"]
    body["messages"] = [{"role": "user", "content": [{"type": "text", "text": json.dumps(body["system"])}]}]
    if whole:
        body["system"] = f"{_BILLED.format('a1f')}\nYou are careful."
    exchange = translate.exchange(given(body), source="anthropic", target=wire, model="m")
    lost = [loss for loss in exchange.encoded.losses if loss.concept == "billing"]
    words = json.dumps(exchange.encoded.body)
    assert "You are careful." in words
    assert words.count(quoted) == (2 if wire == "anthropic" else 1), "what a user quotes stays"
    marks = [loss.path for loss in exchange.encoded.losses if loss.concept == "cache_mark"]
    assert marks == ([] if whole or wire == "anthropic" else ["system.content[1].cache"])
    assert [(loss.path, loss.severity) for loss in lost] == ([] if wire == "anthropic" else [("system", "formal")])
