"""Clients of Ollama that send no ids: through the gateway each result reaches its call, in every wire."""

import json

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, post
from tests.test_results_without_ids import CASES, ollama, pairs

FOREIGN = tuple(wire for wire in WIRES if wire != "ollama")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", FOREIGN)
def test_a_result_of_an_ollama_client_reaches_its_call(wire: str, stream: bool, lenient_model: Playing) -> None:
    with lenient_model([["Well."]] * len(CASES)) as stood:
        for case, (steps, expected) in CASES.items():
            body = {**ollama(steps), "model": f"{NAMES[wire]}/m", "stream": stream}
            answered = post(stood.url, "/api/chat", json.dumps(body).encode())
            assert answered.status == 200, answered.data
            assert pairs(wire, stood.requests[-1].body) == expected, case
