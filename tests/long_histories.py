"""Histories whose results are worth clearing."""

from typing import Any

from toolwire import Message, Text, Tool, ToolCall, ToolResult
from toolwire.client.clearing import Clearing

BIG = "A line of a file. " * 100
TOOLS = [Tool(name, "Does it.", {"type": "object", "properties": {}}) for name in ("read", "write", "look")]
ALWAYS = Clearing(at=2, at_least=0)


def asks(*ids: str, name: str = "read") -> Message:
    return Message("assistant", [Text("I look."), *(ToolCall(one, name, {}) for one in ids)])


def gives(call_id: str, content: Any = BIG, name: str | None = "read", **more: Any) -> Message:
    return Message("tool", [ToolResult(call_id, name, content, **more)])


def turns(count: int, size: str = BIG) -> list[Message]:
    """Make a history of so many turns; the model has not answered the last one."""
    history = [Message("Go.")]
    for number in range(count):
        history += [asks(f"c{number}"), gives(f"c{number}", size)]
    return history


def contents(messages: Any) -> list[Any]:
    return [part.content for message in messages for part in message.parts if type(part) is ToolResult]
