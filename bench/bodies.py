"""Requests to measure with: long tool histories, made from numbers, different at every call."""

import itertools
from typing import Any

import msgspec

_counter = itertools.count(1)
WORDS = ("the build fails in the second step because a module that the test needs is missing from the image").split()


def prose(seed: int, length: int) -> str:
    """Make some words of about this length."""
    words = (WORDS[(seed * 7 + step * 11) % len(WORDS)] for step in itertools.count())
    text = ""
    for word in words:
        text += word + (": " if len(text) % 90 > 80 else " ")
        if len(text) >= length:
            return text.strip()
    raise AssertionError


def tool(number: int, properties: int) -> dict[str, Any]:
    """Make one declaration in the OpenAI format."""
    kinds = (
        {"type": "string"},
        {"type": "integer"},
        {"type": "boolean"},
        {"type": "array", "items": {"type": "string"}},
    )
    return {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": prose(number, 160),
            "parameters": {
                "type": "object",
                "properties": {
                    f"field_{place}": {**kinds[place % 4], "description": prose(number + place, 60)}
                    for place in range(properties)
                },
                "required": ["field_0"],
                "additionalProperties": False,
            },
        },
    }


def chat_request(turns: int, tools: int, size: int, properties: int = 6) -> dict[str, Any]:
    """Make a request with a system message and turns of user, two calls, two results and an answer."""
    run = next(_counter)
    messages: list[dict[str, Any]] = [{"role": "system", "content": prose(run, size)}]
    for turn in range(turns):
        ids = [f"call_{run:06d}{turn:06d}{index:06d}" for index in range(2)]
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": f"tool_{(turn + index) % tools}",
                    "arguments": msgspec.json.encode(
                        {"field_0": prose(run + turn, size // 8), "field_1": turn}
                    ).decode(),
                },
            }
            for index, call_id in enumerate(ids)
        ]
        messages += [
            {"role": "user", "content": prose(run + turn, size // 2)},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": call_id, "content": prose(turn, size)} for call_id in ids),
            {"role": "assistant", "content": prose(turn + 1, size)},
        ]
    declared = [tool(number, properties) for number in range(tools)]
    return {
        "model": "gpt-x",
        "messages": messages,
        "tools": declared,
        "temperature": 0.2,
        "max_completion_tokens": 1000,
    }


def sixty_kilobytes() -> dict[str, Any]:
    """41 messages and 10 tools in about 60 KB."""
    return chat_request(turns=8, tools=10, size=1270, properties=9)


def four_kilobytes() -> dict[str, Any]:
    """6 messages and 2 tools in about 4 KB."""
    return chat_request(turns=1, tools=2, size=420, properties=5)
