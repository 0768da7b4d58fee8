"""Thoughts that are bound to what was before them: not sent again where that is something else now."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.client.faces import TOKYO, chat, get_weather, lead
from toolwire import Error, Message, Thinking, Tool, dialect
from toolwire.client.exchange import Retrying
from toolwire.client.failures import RequestRefused
from toolwire.testing import Fail, simulate

CHANGED: dict[str, dict[str, Any]] = {
    "the system prompt": {"system": "Be brief."},
    "the tools": {"tools": [get_weather, Tool("wait", "Wait.", {"type": "object"})]},
    "the model, to one that binds": {"first": "claude-opus-4-5"},
    "the model, to one that does not": {"model": "claude-opus-4-5"},
}


@pytest.mark.parametrize("case", CHANGED)
@pytest.mark.parametrize(("face", "shown"), [("sync", False), ("async", True)])
def test_thoughts_that_are_bound_to_something_else_are_left_out(face: str, shown: bool, case: str) -> None:
    changed: dict[str, Any] = {"model": "claude-sonnet-5-5", "tools": [get_weather], **CHANGED[case]}
    asked = {"tools": [get_weather], "model": changed.pop("first", "claude-sonnet-5-5")}
    with simulate([[Thinking("Old."), TOKYO], [Thinking("Older."), "Warm."]]) as server:
        first = lead(face, "anthropic", server.url, "How is it?", shown=shown, **asked).done
        server.play([[Thinking("New."), TOKYO], "Still warm."])
        history: Any = [Message("How is it?"), *first.messages, "And now?"]
        led = lead(face, "anthropic", server.url, history, shown=shown, options={"retries": 1}, **changed)
    assert led.done.content == "Still warm."
    assert [one.status for one in server.requests[2:]] == [400, 200, 200]
    assert [event.seconds for event in led.told if isinstance(event, Retrying)] == [0.0]
    sent = [block for turn in server.requests[-1].body["messages"] for block in turn["content"] if type(block) is dict]
    assert [block["thinking"] for block in sent if block["type"] == "thinking"] == ["New."]
    lost = [loss.path for loss in led.done.losses if loss.concept == "thinking"]
    assert lost == ["messages[1].content[0]", "messages[3].content[0]"]


@pytest.mark.parametrize("store", [None, False])
@pytest.mark.parametrize(("face", "shown"), [("sync", True), ("async", False)])
def test_thoughts_that_another_server_keeps_are_left_out(face: str, shown: bool, store: bool | None) -> None:
    asked: dict[str, Any] = {"tools": [get_weather], "store": store, "model": "gpt-6-sol"}
    with simulate([[Thinking("Old."), TOKYO], [Thinking("Older."), "Warm."]]) as server:
        first = lead(face, "openai-responses", server.url, "How is it?", shown=shown, **asked).done
    history: Any = [Message("How is it?"), *map(_sealed_elsewhere, first.messages), "And now?"]
    with simulate([[Thinking("New."), TOKYO], "Still warm."]) as server:
        led = lead(face, "openai-responses", server.url, history, shown=shown, **asked)
    assert led.done.content == "Still warm."
    assert [one.status for one in server.requests] == [400 if store is False else 404, 200, 200]
    thoughts = [item["summary"] for item in server.requests[-1].body["input"] if item["type"] == "reasoning"]
    assert thoughts == [[{"type": "summary_text", "text": "New."}]]


def _sealed_elsewhere(message: Message) -> Message:
    """Give a message with its thoughts as another organization seals them."""
    parts = [
        replace(part, signature="gAAAA") if isinstance(part, Thinking) and part.signature else part
        for part in message.parts
    ]
    return replace(message, content=parts)


def test_a_thought_is_left_out_once_and_then_its_error_is_told() -> None:
    signed = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "", "signature": "s"}],
    }
    said = dialect("anthropic").decode_response({**signed, "stop_reason": "end_turn"}).message
    refused = Fail(Error("invalid_request", "messages.1.content.0: Invalid signature in thinking block", 400))
    with simulate([refused, refused], strict=False) as server, pytest.raises(RequestRefused):
        chat("sync", "anthropic", server.url, [Message("Hi"), said, Message("Go on.")])
    assert [len(one.body["messages"]) for one in server.requests] == [3, 2]
