"""What the gateway sends for the provider's prompt cache, on every pair of wires, plain and streamed."""

import json
from typing import Any

import msgspec
import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, ask, post, send, standing
from toolwire import Context, Message, Request, Usage, dialect
from toolwire.config import PriceSettings
from toolwire.gateway.headers import client_session_of
from toolwire.gateway.metrics import Metrics
from toolwire.gateway.prices import Prices, Tokens
from toolwire.gateway.request_record import RequestRecord
from toolwire.gateway.routes import Candidate
from toolwire.providers import PROVIDERS
from toolwire.testing import Scenario, simulate

KEY = "prompt_cache_key"
PAIRS = [(source, target) for source in WIRES for target in WIRES]
SYSTEM = "Be brief. " * 100


def request(model: str, *, stream: bool, turns: int = 1) -> Request:
    messages = [Message("user", "Hi.")]
    for turn in range(1, turns):
        messages += [Message("assistant", f"Yes {turn}."), Message("user", f"More {turn}.")]
    return Request(context=Context(SYSTEM, messages), model=model, stream=stream, max_tokens=99)


@pytest.mark.sampled
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_turn_asks_for_the_cache(source: str, target: str, lenient_model: Playing, *, stream: bool) -> None:
    with lenient_model(["Yes."] * 3) as stood:
        for turns in (1, 2, 3):
            _, answer = ask(stood.url, source, request(f"{NAMES[target]}/m", stream=stream, turns=turns))
            losses = losses_of(stood.url, answer.headers["x-toolwire-request"])
            assert "x-toolwire-losses" not in answer.headers or "semantic" not in answer.headers["x-toolwire-losses"]
        bodies: list[Any] = [one.body for one in stood.requests]
    foreign = source != target
    marked, keyed = foreign and target == "anthropic", foreign and target.startswith("openai-")
    assert [body.get("cache_control") for body in bodies] == [{"type": "ephemeral"} if marked else None] * 3
    assert len({body.get(KEY) for body in bodies}) == 1
    assert (bodies[0].get(KEY) is not None) is keyed
    assert [loss["path"] for loss in losses if loss["action"] == "added"] == (
        ["cache_control"] if marked else [KEY] if keyed else []
    )


def losses_of(url: str, identity: str) -> list[Any]:
    return list(json.loads(send(url, "GET", f"/toolwire/requests/{identity}/losses", None).data)["losses"])


@pytest.mark.parametrize("source", ["openai-chat", "gemini"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_route_can_leave_that_off(source: str, *, stream: bool) -> None:
    settings = """
[routes.off]
to = ["anthropic/m", "openai-responses/m"]
cache = "off"
[routes.on]
to = ["anthropic/m"]
"""
    with simulate(["Yes."] * 4, strict=False) as model, standing(model.url, settings) as stood:
        for name in ("off", "on", "off", "on"):
            ask(stood.url, source, request(name, stream=stream))
        assert ["cache_control" in one.body for one in model.requests] == [False, True, False, True]


def test_a_session_in_a_header_is_the_key() -> None:
    body = {"model": "openai-responses/m", "messages": [{"role": "user", "content": "Hi."}]}
    with simulate(["Yes."] * 5, strict=False) as model, standing(model.url) as stood:
        for headers in (
            {"session_id": "s-1"},
            {"session_id": "s-1"},
            {"session_id": "s-2"},
            {},
            {"x-session-id": "s-1"},
        ):
            post(stood.url, "/v1/chat/completions", json.dumps(body).encode(), headers)
        keys = [one.body[KEY] for one in model.requests]
    assert keys[0] == keys[1] == keys[4]
    assert len(set(keys)) == 3
    assert "s-1" not in "".join(keys)


def test_the_first_header_that_is_set_counts() -> None:
    assert client_session_of({"session_id": "a", "conversation_id": "b"}) == "a"
    assert client_session_of({"session_id": "", "conversation_id": "b"}) == "b"
    assert client_session_of({}) == ""


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic"])
def test_a_wire_is_known_by_its_own_settings(name: str) -> None:
    assert ("cache_key" in dialect(name).SETTING_PATHS) is name.startswith("openai-")


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_marks_of_claude_code_reach_openais_models(provider: str, strict_model: Playing, *, stream: bool) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body = {
        "model": f"{provider}/gpt-6-sol",
        "max_tokens": 99,
        "stream": stream,
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "system": [{"type": "text", "text": SYSTEM, **mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi.", **mark}]}],
    }
    with strict_model(["Yes."]) as stood:
        assert post(stood.url, "/v1/messages", json.dumps(body).encode()).status == 200
        [sent] = [one.body for one in stood.requests]
    assert json.dumps(sent).count('"prompt_cache_breakpoint"') == 2
    assert sent["prompt_cache_options"] == {"mode": "implicit"}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_the_marks_of_openais_clients_reach_claude(path: str, strict_model: Playing) -> None:
    kind, history = ("text", "messages") if "chat" in path else ("input_text", "input")
    block = {"type": kind, "text": SYSTEM, "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    messages: list[Any] = [{"role": "user", "content": [block]}, {"role": "assistant", "content": "Yes."}] * 6
    body = {"model": "anthropic/m", history: messages[:-1]}
    with strict_model(["Yes."]) as stood:
        assert post(stood.url, path, json.dumps(body).encode()).status == 200
        [sent] = [one.body for one in stood.requests]
    assert json.dumps(sent).count('"cache_control"') == 4
    assert json.dumps(sent).count('"1h"') == 4


USAGE = Usage(1000, 10, cache_read_tokens=600, cache_write_tokens=300, cache_write_long_tokens=100)
# Gemini counts no tokens that are written, and Ollama none that are cached.
COUNTED = {"gemini": (1000, 600, 0), "ollama": (1000, 0, 0)}
COUNTS_LIFETIMES = ("anthropic", "openai-responses")


@pytest.mark.sampled
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("stream", [False, True])
def test_cached_tokens_are_told_logged_and_paid(
    source: str, target: str, lenient_model: Playing, *, stream: bool
) -> None:
    prices = Prices({f"{NAMES[target]}/m": PriceSettings(10, 100, 1, 12, 20)})
    with lenient_model(Scenario([[USAGE, "Yes."]])) as stood:
        context = stood.gateway.context
        before, context.prices = context.prices, prices
        try:
            answer, _ = ask(stood.url, source, request(f"{NAMES[target]}/m", stream=stream))
            record = stood.seen[0]
        finally:
            context.prices = before
    total, read, written = COUNTED.get(target, (1000, 600, 300))
    assert (record["input_tokens"], record["cache_read_tokens"], record["cache_write_tokens"]) == (total, read, written)
    long = 100 if target in COUNTS_LIFETIMES else 0
    assert record.get("cache_write_long_tokens", 0) == long
    dollars = ((total - read - written) * 10 + read * 1 + (written - long) * 12 + long * 20 + 10 * 100) / 1e6
    assert record["cost"] == pytest.approx(dollars, abs=1e-9)
    assert answer.usage is not None
    told = answer.usage.input_tokens, answer.usage.cache_read_tokens or 0, answer.usage.cache_write_tokens or 0
    shown = {"gemini": (total, read, 0), "ollama": (total, 0, 0)}.get(source, (total, read, written))
    assert told == shown
    assert (answer.usage.cache_write_long_tokens or 0) == (long if source in COUNTS_LIFETIMES else 0)


def test_a_reservation_covers_a_cache_that_is_written() -> None:
    listed = {"anthropic": PriceSettings(10, 100, 1, 20), "gemini": PriceSettings(10, 100, 1, None, 30)}
    prices = Prices({f"{name}/m": price for name, price in {**listed, "openai": PriceSettings(10, 100)}.items()})
    claude, gemini, gpt = (Candidate(PROVIDERS[name], "m") for name in ("anthropic", "gemini", "openai"))
    tokens = Tokens(1000, 10)
    assert prices.highest_cost(claude, tokens) == prices.cost(claude, Tokens(1000, 10, cache_write=1000))
    long = Tokens(1000, 10, cache_write=1000, cache_write_long=1000)
    assert prices.highest_cost(gemini, tokens) == prices.cost(gemini, long) == 1000 * (1000 * 30 + 10 * 100)
    assert prices.highest_cost(gpt, tokens) == prices.cost(gpt, tokens)


def test_metrics_count_cached_tokens(lenient_model: Playing) -> None:
    with lenient_model(Scenario([[USAGE, "Yes."]])) as stood:
        ask(stood.url, "gemini", request("anthropic/m", stream=False))
        _ = stood.seen[0]
    metrics = Metrics(lambda: {"anthropic"}, lambda: 0)
    metrics.observe(msgspec.convert(stood.seen[0], RequestRecord))
    text = metrics.render().decode()
    assert 'toolwire_cached_tokens_total{operation="read",provider="anthropic"} 600.0' in text
    assert 'toolwire_cached_tokens_total{operation="write",provider="anthropic"} 300.0' in text
