"""The ids of answers through the gateway: unique for each answer, though the provider's id repeats."""

import json
from typing import Any

import openai
import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, ask, post
from tests.gateway.test_stored import asked, client_of
from toolwire import Message, Response, Text, ToolCall
from toolwire.testing import Scenario
from toolwire.types import Context, Request

COUNT = 20
CONSTANT = "chatcmpl-constant"
PREFIX = {"openai-chat": "chatcmpl-", "openai-responses": "resp_", "anthropic": "msg_", "gemini": ""}
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


def same(**fields: Any) -> Scenario:
    """Answer every request with one id."""
    told = Response.of(Message("assistant", [Text("I look."), ToolCall("call_0", "look", {})]), "tool_calls", **fields)
    return Scenario([told], repeat=True)


@STREAMED
@pytest.mark.parametrize("wire", WIRES)
def test_twenty_answers_have_twenty_ids(wire: str, stream: bool, lenient_model: Playing) -> None:
    upstream = "anthropic" if wire == "openai-chat" else "openai-chat"
    request = Request(model=f"{NAMES[upstream]}/m", context=Context(None, [Message("Hello")]), stream=stream)
    with lenient_model(same(id=CONSTANT)) as stood:
        answers = [ask(stood.url, wire, request) for _ in range(COUNT)]
    assert all(CONSTANT.encode() not in answered.data for _, answered in answers)
    ids = {response.id or "" for response, _ in answers}
    assert len(ids) == (COUNT if wire in PREFIX else 1)  # answers of Ollama have no ids
    assert all(one.startswith(PREFIX[wire]) and len(one) > 20 for one in ids if one)


@STREAMED
@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "ollama"])
def test_an_answer_of_the_clients_own_wire_keeps_the_providers_id(
    wire: str, stream: bool, lenient_model: Playing
) -> None:
    request = Request(model=f"{NAMES[wire]}/m", context=Context(None, [Message("Hello")]), stream=stream)
    with lenient_model(same(id=CONSTANT)) as stood:
        assert {ask(stood.url, wire, request)[0].id for _ in range(3)} == {CONSTANT}


@STREAMED
def test_each_stored_answer_is_found_by_its_id(stream: bool, lenient_model: Playing) -> None:
    texts = [f"Answer {number}." for number in range(COUNT)]
    turns = [[Response.of(Message("assistant", [Text(text)]), "stop", id=CONSTANT)] for text in texts]
    body: dict[str, Any] = {"model": "openai/m"}
    with lenient_model([*turns, *(["Well."] for _ in texts)]) as stood:
        client: openai.OpenAI = client_of(stood.url)
        ids = [asked(client, stream=stream, input="Hello", **body).id for _ in texts]
        assert len(set(ids)) == COUNT
        for name, text in zip(ids, texts, strict=True):
            asked(client, stream=stream, input="More", previous_response_id=name, **body)
            said = [message.text for message in stood.requests[-1].request.messages]  # type: ignore[union-attr]
            assert said == ["Hello", text, "More"]


@pytest.mark.parametrize("stream", [False, True])
def test_claudes_client_tells_two_answers_apart(stream: bool, lenient_model: Playing) -> None:
    """Claude Code joins answers of one id to one message (2.1.197)."""
    body = {"model": "openai/m", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
    with lenient_model(same(id=CONSTANT)) as stood:
        told = [post(stood.url, "/v1/messages", json.dumps(body).encode()).data.decode() for _ in range(2)]
    ids = [text.partition('"id":"msg_')[2].partition('"')[0] for text in told]
    assert len(set(ids)) == 2
    assert "" not in ids
