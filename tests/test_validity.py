"""Validity: what is written passes the vendor's own types, whenever the source did."""

from typing import Any

import pytest

from tests.oracles import REQUESTS, RESPONSES
from tests.wires import DIALECTS, PAIRS, SHARES, requests_of, responses_of


@pytest.mark.corpus
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("share", SHARES)
def test_requests_are_valid_at_the_target(source: str, target: str, share: int, corpus: Any) -> None:
    assert corpus
    judged, refused = 0, []
    for recording, body in requests_of(source, share):
        if REQUESTS[source](body) is not None:
            continue
        request = DIALECTS[source].decode_request(body, recording.path)
        judged += 1
        if (complaint := REQUESTS[target](DIALECTS[target].encode_request(request).body)) is not None:
            refused.append((recording.name, complaint))
    assert judged > 0
    assert refused == []


@pytest.mark.corpus
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("share", SHARES)
def test_responses_are_valid_at_the_target(source: str, target: str, share: int, corpus: Any) -> None:
    assert corpus
    judged, refused = 0, []
    for recording, body in responses_of(source, share):
        if RESPONSES[source](body) is not None:
            continue
        judged += 1
        encoded = DIALECTS[target].encode_response(DIALECTS[source].decode_response(body))
        if (complaint := RESPONSES[target](encoded.body)) is not None:
            refused.append((recording.name, complaint))
    assert judged > 0
    assert refused == []


BAD: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        {"model": "m", "messages": [{"role": "tool", "content": "x"}]},
        {"model": "m", "messages": [], "unheard_of": 1},
        {"model": "m", "messages": [{"role": "user", "content": [{"type": "text"}]}]},
    ],
    "openai-responses": [
        {"model": "m", "input": [{"type": "function_call_output", "output": "x"}], "unheard_of": 1},
        {"model": "m", "input": "x", "tools": [{"type": "function", "function": {"name": "f"}}]},
    ],
    "anthropic": [
        {"model": "m", "messages": [{"role": "user", "content": "x"}]},
        {"model": "m", "max_tokens": 1, "messages": [{"role": "tool", "content": "x"}]},
    ],
    "gemini": [
        {"contents": [{"role": "user", "parts": [{"words": "x"}]}]},
        {"messages": []},
    ],
    "ollama": [
        {"model": "m", "messages": [{"role": "user", "content": ["x"]}]},
        {"model": "m", "messages": [], "unheard_of": 1},
    ],
}


@pytest.mark.parametrize(("name", "body"), [(name, body) for name, bodies in BAD.items() for body in bodies])
def test_the_judges_refuse_what_is_wrong(name: str, body: dict[str, Any]) -> None:
    """A control: a judge that lets everything pass would make the laws above empty."""
    assert REQUESTS[name](body) is not None
