"""Requests of Responses: what a request made elsewhere becomes, what a recorded one means, and that it comes back."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.wires import differences
from toolwire import (
    Audio,
    Cache,
    Citation,
    Context,
    Document,
    Image,
    Message,
    Opaque,
    Output,
    Quirks,
    Refusal,
    Request,
    ServerTool,
    ServerToolCall,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolwire.dialects import anthropic, openai_chat
from toolwire.dialects import openai_responses as wire

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ELSEWHERE = Opaque("anthropic", {})


def asked(*messages: Message, system: Any = None, state: Any = None, **settings: Any) -> Any:
    """Encode a request that was made elsewhere."""
    tools = settings.pop("tools", [])
    return wire.encode_request(Request(context=Context(system, list(messages), tools, state), **settings))


def items_of(*messages: Message) -> list[Any]:
    encoded = asked(*messages)
    assert encoded.path == "/v1/responses"
    return encoded.body["input"]


def lost(encoded: Any) -> list[tuple[str, str]]:
    return [(loss.path, loss.action) for loss in encoded.losses]


def said(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


CALL = ToolCall("call_1", "weather", {"city": "Rome"})
CALL_ITEM = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Rome"}'}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([Message("Hi")], [said("user", "Hi")]),
        ([Message("developer", "JSON only.")], [said("developer", "JSON only.")]),
        ([Message("Hi"), Message("system", "Late.")], [said("user", "Hi"), said("system", "Late.")]),
        ([Message("assistant", "Sure.")], [said("assistant", "Sure.")]),
        (
            [Message("assistant", [Text("a"), Text("b")])],
            [said("assistant", "a"), said("assistant", "b")],
        ),
        (
            [Message("assistant", [Text(""), CALL]), Message("tool", "mild", "weather", "call_1")],
            [CALL_ITEM, {"type": "function_call_output", "call_id": "call_1", "output": "mild"}],
        ),
        (
            [
                Message("assistant", [Text("Look."), CALL]),
                Message("user", [ToolResult("call_1", None, "mild"), Text("And now?")]),
            ],
            [
                said("assistant", "Look."),
                CALL_ITEM,
                {"type": "function_call_output", "call_id": "call_1", "output": "mild"},
                said("user", "And now?"),
            ],
        ),
        ([Message("user", [Text("a"), Text("b")])], [said("user", [input_text("a"), input_text("b")])])
        if (input_text := lambda text: {"type": "input_text", "text": text})
        else None,
    ],
)
def test_messages_become_items(messages: list[Message], expected: list[Any]) -> None:
    assert items_of(*messages) == expected
