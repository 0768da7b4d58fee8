"""Requests as client programs make them, answered by a real llama.cpp server; `scripts/llama-server` says how.

Rule: a random model says what it likes; what is asserted is that each turn is answered, and ends well.
"""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.standing import NAMES, at, post, standing
from tests.gateway.test_cache import SCHEMA, claude, codex
from toolwire.dialects import dialect
from toolwire.types import ErrorEnd

URL = os.environ.get("TOOLWIRE_LLAMA_URL", "").rstrip("/")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not URL, reason="TOOLWIRE_LLAMA_URL names no llama.cpp server"),
]
SPOKEN = ("openai-chat", "openai-responses", "anthropic")  # by llama.cpp itself
TOOL = {"name": "Read", "description": "Read a file.", "parameters": SCHEMA}


def gemini_cli(_model: str, _turn: int, said: list[Any]) -> dict[str, Any]:
    """Give a body as Gemini CLI sends it."""
    declared = {"name": "Read", "description": "Read a file.", "parametersJsonSchema": SCHEMA}
    return {
        "systemInstruction": {"role": "user", "parts": [{"text": "You are careful."}]},
        "contents": [{"role": "user", "parts": [{"text": "Look at it."}]}, *said],
        "tools": [{"functionDeclarations": [declared]}],
        "generationConfig": {"temperature": 1, "topP": 0.95, "topK": 64, "thinkingConfig": {"includeThoughts": True}},
    }


def opencode(model: str, _turn: int, said: list[Any]) -> dict[str, Any]:
    """Give a body as opencode, Qwen Code, aider and llm send it."""
    first = [{"role": "system", "content": "You are careful."}, {"role": "user", "content": "Look at it."}]
    return {
        "model": model,
        "max_tokens": 32000,
        "temperature": 0.55,
        "messages": [*first, *said],
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


# What each program repeats of its first turn: what the model said, its call, and the result.
REPEATED: dict[str, list[Any]] = {
    "anthropic": [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}]},
    ],
    "openai-responses": [
        {"type": "function_call", "call_id": "call_1", "name": "Read", "arguments": '{"path":"a"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "seen"},
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "Read", "args": {"path": "a"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "Read", "response": {"output": "seen"}}}]},
    ],
    "openai-chat": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"a"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
    ],
}
PROGRAMS: dict[str, tuple[str, str, Callable[..., dict[str, Any]]]] = {
    "claude": ("anthropic", "/v1/messages", claude),
    "codex": ("openai-responses", "/v1/responses", codex),
    "gemini": ("gemini", "/v1beta/models/{}:streamGenerateContent?alt=sse", gemini_cli),
    "opencode": ("openai-chat", "/v1/chat/completions", opencode),
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("spoken", SPOKEN)
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_turn_of_a_program_is_answered(program: str, spoken: str) -> None:
    wire, path, make = PROGRAMS[program]
    model = f"{NAMES[spoken]}/any"
    with standing(URL, providers={NAMES[spoken]: at(URL, NAMES[spoken])}) as stood:
        for turn, said in enumerate(([], REPEATED[wire])):
            body = make(model, turn, said)
            bounded: dict[str, Any] = {
                **body,
                **{name: 200 for name in ("max_tokens", "max_output_tokens") if name in body},
            }
            bounded.pop("thinking", None)  # its budget is larger than so few tokens
            answer = post(stood.url, path.format(model), json.dumps(bounded).encode())
            assert (answer.status, answer.broken) == (200, False), answer.data
            decoder = dialect(wire).decode_stream()
            events = [*decoder.feed(answer.data), *decoder.close()]
            assert not [event for event in events if type(event) is ErrorEnd]
