"""Counts of tokens that are none: they are neither added, nor priced, nor shown, whatever a server or a caller says."""

import json
from typing import Any

import pytest

from toolwire import Message, Response, Usage, catalogue, dialect
from toolwire.catalogue import Model, Price
from toolwire.cli.display import usage_summary
from toolwire.client.spans import _tokens
from toolwire.loop import add_usage

NO_COUNTS: list[Any] = [-1, -5000, 1.5, float("nan"), float("inf"), "7", "", True, [1], {}]
PRICED = Model(name="m", price=Price(input=1.0, output=1.0))
# Where each wire says what was read and what was written.
WIRES: dict[str, tuple[str, str, str]] = {
    "openai-chat": ("usage", "prompt_tokens", "completion_tokens"),
    "openai-responses": ("usage", "input_tokens", "output_tokens"),
    "anthropic": ("usage", "input_tokens", "output_tokens"),
    "gemini": ("usageMetadata", "promptTokenCount", "candidatesTokenCount"),
}


@pytest.mark.parametrize("odd", NO_COUNTS, ids=repr)
def test_what_is_no_count_is_not_used(odd: Any) -> None:
    good = Usage(10, 20)
    for usage in (Usage(odd, odd, odd, odd, odd), Usage(odd, 20), Usage(10, odd), Usage(10, 20, odd)):
        kept = [count for count in (usage.input_tokens, usage.output_tokens) if type(count) is int and count > 0]
        assert usage.total_tokens == sum(kept)
        assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"] == sum(kept)
        assert catalogue.cost(usage, PRICED) is None or not odd
        assert set(_tokens(usage).values()) <= {10, 20}
        shown = usage_summary(usage, None)
        assert shown == ", ".join(f"{count} tokens {'in' if count == 10 else 'out'}" for count in kept)
        total = add_usage(good, usage)
        assert total is not None
        assert total.total_tokens == 30 + sum(kept)
    assert catalogue.cost(good, PRICED) == pytest.approx(0.00003)


@pytest.mark.sampled
@pytest.mark.parametrize("odd", [-5, -5000, 1.5, "7", True, None, [1]], ids=repr)
@pytest.mark.parametrize("name", WIRES)
def test_a_server_cannot_lower_what_was_used(name: str, odd: Any) -> None:
    """The body is written again as it came."""
    place, read, written = WIRES[name]
    wire = dialect(name)
    body = json.loads(wire.encode_response(Response.of(Message("assistant", "Hi."), "stop", model="m")).json)
    body[place] = {read: odd, written: odd}
    response = wire.decode_response(body)
    assert response.usage is None or response.usage.total_tokens == 0
    assert add_usage(Usage(10, 20), response.usage) == Usage(10, 20) or response.usage is None
    assert wire.encode_response(response).body == body
    body = {"model": "m", "message": {"role": "assistant", "content": "Hi."}, "done": True, "eval_count": odd}
    told = dialect("ollama").decode_response(body).usage
    assert told is None or told.total_tokens == 0
