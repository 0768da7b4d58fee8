"""Totality of requests: any JSON value in any place of one gives a request of each wire, or a documented error."""

import contextlib
import json
import random
from collections import Counter
from typing import Any

import pytest

from tests.test_stream_types import paths, put
from tests.test_totality import STEPS
from tests.wires import requests_of
from toolwire import translate
from toolwire.dialects import NAMES
from toolwire.errors import ToolwireError

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}
ASKS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "F", "parameters": SCHEMA, "strict": True}},
            {"type": "custom", "custom": {"name": "c", "format": {"type": "text"}}},
        ],
        "messages": [
            {"role": "assistant", "content": "Hi", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        ],
    },
    "openai-responses": {
        "tools": [
            {"type": "function", "name": "f", "parameters": SCHEMA, "strict": True},
            {"type": "web_search", "name": "w"},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g", "parameters": {}}]},
            {"type": "mcp", "server_label": "s", "server_url": "u"},
        ],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        ],
    },
    "anthropic": {
        "max_tokens": 9,
        "tools": [
            {"name": "f", "description": "F", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]},
        ],
    },
    "gemini": {
        "tools": [
            {"functionDeclarations": [{"name": "f", "description": "F", "parametersJsonSchema": SCHEMA}]},
            {"googleSearch": {"name": "w"}},
        ],
        "contents": [
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "ok"}}}]},
        ],
    },
    "ollama": {
        "tools": [{"type": "function", "function": {"name": "f", "description": "F", "parameters": SCHEMA}}],
        "messages": [
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "tool_name": "f", "content": "ok"},
        ],
    },
}  # fmt: skip
# What is chosen: a tool that is declared, one that is not, some, any.
CHOICES: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        {"tool_choice": "required"},
        *({"tool_choice": {"type": "function", "function": {"name": name}}} for name in ("f", "nobody")),
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
            {"type": "function", "function": {"name": "nobody"}}]}}},
    ],
    "openai-responses": [
        {"tool_choice": "required"},
        {"tool_choice": {"type": "web_search"}},
        *({"tool_choice": {"type": "function", "name": name}} for name in ("f", "nobody")),
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
            {"type": "function", "name": "nobody"}, {"type": "mcp", "server_label": "s"}]}},
    ],
    "anthropic": [
        {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        *({"tool_choice": {"type": "tool", "name": name}} for name in ("f", "nobody")),
    ],
    "gemini": [
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}}
        for name in ("f", "nobody")
    ],
    "ollama": [{}],
}  # fmt: skip
# One value of each type of JSON, and those that are odd in some place.
EACH_TYPE: tuple[Any, ...] = (None, True, 7, 1.5, "x", "\ud800", [], ["x"], [{}], {}, {"type": {}}, {"name": {}})
PATHS = {"gemini": "/v1beta/models/m:generateContent"}


def ask(body: Any, source: str, target: str) -> None:
    """Translate a request in each way that there is; what is raised is documented."""
    path = PATHS.get(source, "")
    with contextlib.suppress(ToolwireError):
        translate.request(body, source, target, path)
    with contextlib.suppress(ToolwireError):
        exchange = translate.exchange(body, source=source, target=target, path=path, model="gpt-5")
        assert exchange.memory_keys == list(exchange.memory_keys)
        assert exchange.encoded.losses == exchange.encoded.losses
        with contextlib.suppress(ToolwireError):
            assert exchange.encoded.json


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("source", NAMES)
def test_a_request_with_a_value_of_any_type_raises_what_is_documented(
    source: str, step: int, tally: Counter[str]
) -> None:
    number = 0
    for choice in CHOICES[source]:
        whole = {"model": "m", **ASKS[source], **choice}
        for path in paths(whole):
            for value in EACH_TYPE:
                number += 1
                if number % step == 0:
                    for target in NAMES:
                        ask(put(whole, path, value), source, target)
                    tally["requests with a value of another type, in five wires"] += 1


@pytest.mark.corpus
@pytest.mark.parametrize("times", [pytest.param(60, id="few"), pytest.param(6_000, id="many", marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", NAMES)
def test_a_request_with_several_odd_values_raises_what_is_documented(source: str, times: int, corpus: Any) -> None:
    assert corpus
    chance = random.Random(f"requests of {source}")  # noqa: S311 - the same mutations in every run
    recorded = [body for _, body in requests_of(source)]
    for _ in range(times):
        body = {**chance.choice(recorded), **ASKS[source], **chance.choice(CHOICES[source])}
        body = body if chance.random() < 0.5 else chance.choice(recorded)
        for _ in range(chance.randint(1, 4)):
            places = [path for path in paths(body) if path]
            focus = [path for path in places if str(path[0]).startswith("tool")] if chance.random() < 0.5 else places
            body = put(body, chance.choice(focus or places), chance.choice(EACH_TYPE)) if places else body
        ask(body, source, chance.choice(NAMES))


def test_a_choice_of_an_unknown_tool_beside_an_odd_one() -> None:
    """The name of a tool of the server's own may be any JSON."""
    choice, tool = {"type": "function", "name": "nobody"}, {"type": "function", "name": "f", "parameters": SCHEMA}
    odd: Any
    for odd in ({"type": "web_search", "name": {"x": 1}}, {"type": [], "name": []}, {"name": {}}, None, 7):
        body: dict[str, Any] = {"model": "m", "input": "Hi", "tools": [tool, odd], "tool_choice": choice}
        for target in NAMES:
            encoded = translate.exchange(body, source="openai-responses", target=target).encoded
            assert target == "openai-responses" or "nobody" not in json.dumps(encoded.body)
