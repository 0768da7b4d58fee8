"""Any client to any model: five wires in, five out, plain and streamed, over three turns."""

import base64
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, ask
from toolwire.testing import Scenario
from toolwire.types import (
    Context,
    Image,
    Message,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)

PIXEL = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
).decode()
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [Tool("read_file", "Read a file.", PATH), Tool("now", "Say the time.", {"type": "object", "properties": {}})]
CALLS = [
    ToolCall(None, "read_file", {"path": 'a "b"\\c\n\u00e4\u4e16.txt'}),
    ToolCall(None, "now", {}),
    ToolCall(None, "read_file", {"path": "d.png"}),
]
MODELS = {
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-5",
    "anthropic": "claude-opus-4-6",
    "gemini": "gemini-2.5-pro",
    "ollama": "qwen3",
}
# Wires that have a signature of their own, and refuse a turn without it.
SIGNED = ("openai-responses", "anthropic", "gemini")


def turns(*, thinking: bool) -> list[list[object]]:
    """Give the turns of a model that thinks, calls three tools at once, calls another, and answers."""
    first: list[object] = [Thinking("Which files are there?")] if thinking else []
    return [
        [*first, Text("I look."), *CALLS, Usage(input_tokens=100, output_tokens=20)],
        [ToolCall(None, "now", {})],
        ["Done: \u00e4\u4e16."],
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_any_client_leads_any_model_through_three_turns(
    source: str, target: str, stream: bool, strict_model: Playing
) -> None:
    thinks = target != "openai-chat"
    with strict_model(Scenario(turns(thinking=thinks))) as stood:
        name = f"{NAMES[target]}/{MODELS[target]}"
        effort: Any = "high" if target in SIGNED else None
        context = Context("Be brief.", [Message("What is in the files?")], TOOLS)
        request = Request(context=context, model=name, stream=stream, max_tokens=4096, effort=effort)
        response, answered = ask(stood.url, source, request)
        assert [(call.name, call.arguments) for call in response.tool_calls] == [
            (call.name, call.arguments) for call in CALLS
        ]
        assert (response.content or "").strip() == "I look."
        assert response.finish_reason == "tool_calls"
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == (100, 20)
        assert answered.headers["x-toolwire-request"].startswith("tw_")
        shown = [part for part in response.message.parts if isinstance(part, Thinking)]
        assert ("".join(part.text for part in shown) == "Which files are there?") is thinks
        results = [
            ToolResult(response.tool_calls[0].id, "read_file", "ok"),
            ToolResult(response.tool_calls[1].id, "now", "no clock", is_error=True),
            ToolResult(
                response.tool_calls[2].id, "read_file", [Text("a picture"), Image(data=PIXEL, media_type="image/png")]
            ),
        ]
        messages = [*context.messages, response.message, *[Message("tool", [result]) for result in results]]
        second, _ = ask(stood.url, source, _with(request, messages))
        assert [(call.name, call.arguments) for call in second.tool_calls] == [("now", {})]
        got = stood.requests[1].request
        assert got is not None
        told = [part for message in got.messages for part in message.parts if isinstance(part, ToolResult)]
        assert [result.tool_call_id for result in told] == [
            part.id for message in got.messages for part in message.parts if isinstance(part, ToolCall)
        ]
        assert "ok" in str(told[0].content)
        assert "no clock" in str(told[1].content)
        assert PIXEL in str(stood.requests[1].body)
        back = [part for message in got.messages for part in message.parts if isinstance(part, Thinking)]
        if target in SIGNED:
            assert [part.text for part in back] == ["Which files are there?"]
        messages += [second.message, Message("tool", [ToolResult(second.tool_calls[0].id, "now", "noon")])]
        third, _ = ask(stood.url, source, _with(request, messages))
        assert third.content == "Done: \u00e4\u4e16."
        assert third.finish_reason == "stop"


def _with(request: Request, messages: list[Message]) -> Request:
    return Request(
        context=Context(request.context.system, messages, request.context.tools),
        model=request.model,
        stream=request.stream,
        max_tokens=request.max_tokens,
        effort=request.effort,
    )
