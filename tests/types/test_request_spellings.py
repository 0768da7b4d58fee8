"""How wires spelled requests: stored with the request, and written again by their own wire alone."""

from typing import Any

import msgspec
import pytest

from toolwire import Message, Request, dialect
from toolwire.dialects import NAMES

FIRST = {"role": "user", "content": "Hi"}
FORM = {"type": "json_schema", "schema": {"type": "object", "properties": {}}}
ODD: dict[str, tuple[str, dict[str, Any], str]] = {
    "a form beside the settings": ("anthropic", {"messages": [FIRST], "max_tokens": 5, "output_format": FORM}, ""),
    "no messages": ("anthropic", {"max_tokens": 5}, "/proxy/v1/messages"),
    "keys in snake_case": (
        "gemini",
        {
            "system_instruction": {"parts": {"text": "Be brief."}, "role": "user"},
            "contents": {"parts": [{"text": "Hi"}]},
            "generation_config": {"top_k": 1, "thinking_config": {"thinking_level": "low"}},
        },
        "/v1beta/models/m:generateContent?x=1",
    ),
    "the words of OpenAPI": (
        "gemini",
        {
            "contents": [],
            "generationConfig": {
                "responseMimeType": "text/x.enum",
                "responseSchema": {"type": "STRING", "enum": ["a"]},
                "responseModalities": ["TEXT"],
            },
        },
        "/v1beta/models/m:generateContent",
    ),
    "no stream": ("ollama", {"model": "m", "messages": [FIRST]}, ""),
    "functions": (
        "openai-chat",
        {"messages": [FIRST], "max_tokens": 5, "stop": "END", "functions": [{"name": "f"}], "function_call": "auto"},
        "/openai/deployments/d/chat/completions",
    ),
    "a text as the input": ("openai-responses", {"input": "Hi"}, ""),
    "an item of tools": (
        "openai-responses",
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {"type": "additional_tools", "tools": [{"type": "function", "name": "f", "parameters": {}}]},
            ]
        },
        "",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_a_saved_request_is_written_as_it_was_spelled(case: str) -> None:
    wire, body, path = ODD[case]
    request = dialect(wire).decode_request(body, path)
    saved = msgspec.json.decode(msgspec.json.encode(request), type=Request)
    assert saved == request
    encoded = dialect(wire).encode_request(saved)
    assert encoded.body == body
    assert not path or encoded.path == path


@pytest.mark.parametrize("case", ODD)
def test_another_wire_writes_its_own_path(case: str) -> None:
    wire, body, path = ODD[case]
    request = dialect(wire).decode_request(body, path)
    plain = msgspec.structs.replace(request, opaque=None)
    for other in NAMES:
        if other != wire:
            assert dialect(other).encode_request(request).path == dialect(other).encode_request(plain).path


def test_a_text_as_the_input_is_one_only_as_long_as_it_is_alone() -> None:
    responses = dialect("openai-responses")
    request = responses.decode_request({"input": "Hi"})
    longer = msgspec.structs.replace(request.context, messages=[*request.messages, Message("assistant", "Ho")])
    encoded = responses.encode_request(msgspec.structs.replace(request, context=longer))
    assert type(encoded.body["input"]) is list
    changed = msgspec.structs.replace(request.context, messages=[Message("user", "Hi")])
    encoded = responses.encode_request(msgspec.structs.replace(request, context=changed))
    assert type(encoded.body["input"]) is list
