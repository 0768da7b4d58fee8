"""When an answer of another wire was made, and how long it took, as the client's wire says it."""

import json
import re
import time

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, ask
from toolwire.testing import Scenario
from toolwire.types import Context, Message, Request

TIMED = {"openai-chat": "created", "openai-responses": "created_at", "ollama": "created_at"}
PAIRS = [(source, target) for source in TIMED for target in WIRES if source != target]
SILENT = ("anthropic", "gemini")  # they tell no time


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_an_answer_says_when_it_was_made(source: str, target: str, stream: bool, strict_model: Playing) -> None:
    request = Request(model=f"{NAMES[target]}/m", context=Context(None, [Message("Hello")]), stream=stream)
    with strict_model(Scenario([["One, two, three."]])) as stood:
        before = int(time.time())
        response, answered = ask(stood.url, source, request)
        after = time.time()
    if target in SILENT:
        assert response.created is not None
        assert before <= response.created <= after
    said = set(re.findall(rb'"%b":("[^"]*"|\d+)' % TIMED[source].encode(), answered.data))
    assert len(said) == 1, "every piece says the same"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", [wire for wire in WIRES if wire != "ollama"])
def test_a_client_of_ollama_can_count_words_a_second(target: str, stream: bool, strict_model: Playing) -> None:
    request = Request(model=f"{NAMES[target]}/m", context=Context(None, [Message("Hello")]), stream=stream)
    with strict_model(Scenario([["One, two, three."]])) as stood:
        before = time.monotonic_ns()
        _, answered = ask(stood.url, "ollama", request)
        most = time.monotonic_ns() - before
    last = json.loads(answered.data.splitlines()[-1])
    assert last["done"] is True
    assert last["eval_count"] > 0
    assert last["total_duration"] == last["prompt_eval_duration"] + last["eval_duration"]
    assert 0 < last["prompt_eval_duration"] < last["total_duration"] < most
    if stream:
        assert b"_duration" not in b"".join(answered.data.splitlines()[:-1])
