"""What clients wrap and ask for in their own vendor's way reaches a model of another vendor through the gateway."""

import json
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, post
from toolwire.testing import Scenario
from toolwire.types import ToolResult

CALLED = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
LOOK = {"functionDeclarations": [{"name": "look", "description": "Look."}]}


@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent"])
@pytest.mark.parametrize("target", WIRES)
def test_a_wrapped_result_is_read_as_its_value(target: str, verb: str, lenient_model: Playing) -> None:
    wrapped = [{"return_value": "25C"}, {"name": "look", "content": "25C"}, {"output": [{"text": "25C"}]}]
    with lenient_model(Scenario([["Warm."]] * len(wrapped))) as stood:
        for response in wrapped:
            answer = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": response}}]}
            contents: list[Any] = [{"role": "user", "parts": [{"text": "How warm?"}]}, CALLED, answer]
            body = {"contents": contents, "tools": [LOOK]}
            path = f"/v1beta/models/{NAMES[target]}/m:{verb}"
            assert post(stood.url, path, json.dumps(body).encode()).status == 200
        requests = list(stood.requests)
    for received, response in zip(requests, wrapped, strict=True):
        assert received.request is not None
        results = [part for one in received.request.messages for part in one.parts if isinstance(part, ToolResult)]
        assert [result.content for result in results] == ["25C"]
        if target == "gemini":
            assert received.body["contents"][2]["parts"][0]["functionResponse"]["response"] == response


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_json_mode_reaches_a_model_of_messages(stream: bool, strict_model: Playing) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]
    body = {"model": f"{NAMES['anthropic']}/m", "messages": messages, "stream": stream}
    with strict_model(Scenario([['{"city": "Rome"}']])) as stood:
        answered = post(
            stood.url, "/v1/chat/completions", json.dumps({**body, "response_format": {"type": "json_object"}}).encode()
        )
        [received] = stood.requests
    assert answered.status == 200
    assert received.body["system"] == "Be brief.\n\nAnswer in JSON."
    assert answered.headers["x-toolwire-losses"] == "semantic=1"
