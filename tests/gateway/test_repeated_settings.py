"""An answer of Responses that the gateway translates repeats the settings of its request, and has the present time."""

import json
import time
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, post
from tests.translation.test_repeated_settings import DEFAULTS, echoed
from toolwire.testing import Scenario

FOREIGN = tuple(wire for wire in WIRES if wire != "openai-responses")
SETTINGS: dict[str, Any] = {
    "instructions": "Be brief.",
    "max_output_tokens": 99,
    "metadata": {"team": "red"},
    "parallel_tool_calls": False,
    "prompt_cache_key": "k",
    "temperature": 0.25,
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "tools": [
        {
            "type": "function",
            "name": "look",
            "description": "Look.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        }
    ],
    "top_p": 0.5,
    "truncation": "auto",
}


def answers(url: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each response object that the gateway sends."""
    answered = post(url, "/v1/responses", json.dumps(body).encode())
    assert answered.status == 200, answered.data
    if not body.get("stream"):
        return [json.loads(answered.data)]
    told = [json.loads(line[6:]) for line in answered.data.splitlines() if line.startswith(b"data: {")]
    return [event["response"] for event in told if "response" in event]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", FOREIGN)
def test_every_response_object_repeats_the_settings(target: str, stream: bool, lenient_model: Playing) -> None:
    body = {"model": f"{NAMES[target]}/m", "input": "Hello", "stream": stream}
    with lenient_model(Scenario([["One."], ["Two."]])) as stood:
        before = int(time.time())
        first = answers(stood.url, {**body, **SETTINGS})
        second = answers(stood.url, {**body, "previous_response_id": first[-1]["id"]})
        after = int(time.time())
    assert len(first) == len(second) == (3 if stream else 1)
    assert [echoed(one) for one in first] == [{**DEFAULTS, **SETTINGS}] * len(first)
    continued = {**DEFAULTS, "previous_response_id": first[-1]["id"]}
    assert [echoed(one) for one in second] == [continued] * len(second)
    for one in (*first, *second):
        assert before <= one["created_at"] <= after
        assert type(one["created_at"]) is int
    for *begun, whole in (first, second):
        assert [one["completed_at"] for one in begun] == [None] * len(begun)
        assert before <= whole["created_at"] <= whole["completed_at"] <= after


@pytest.mark.parametrize("target", FOREIGN)
def test_a_conversation_is_named_in_its_answers(target: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario([["One."]])) as stood:
        made = json.loads(post(stood.url, "/v1/conversations", b"{}").data)
        body = {"model": f"{NAMES[target]}/m", "input": "Hello", "conversation": made["id"]}
        [answer] = answers(stood.url, body)
    assert answer["conversation"] == {"id": made["id"]}
    assert answer["previous_response_id"] is None


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_the_simulated_model_repeats_them_itself(stream: bool, lenient_model: Playing) -> None:
    body = {"model": f"{NAMES['openai-responses']}/m", "input": "Hello", "stream": stream}
    with lenient_model(Scenario([["One."], ["Two."]])) as stood:
        before = int(time.time())
        first = answers(stood.url, {**body, **SETTINGS})
        second = answers(stood.url, body)
    assert [echoed(one) for one in first] == [{**DEFAULTS, **SETTINGS}] * len(first)
    assert [echoed(one) for one in second] == [DEFAULTS] * len(second)
    assert first[-1]["id"] != second[-1]["id"]
    assert before <= first[-1]["created_at"] <= first[-1]["completed_at"] <= time.time()
