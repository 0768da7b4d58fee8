"""Deferred tools through the gateway: no schema is sent before it is found, and each request is paid for once."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, Answered, post, send, standing
from tests.translation.test_deferred_tools import HISTORY, PAIRS, SEARCHES, WORD, names_in, request
from toolwire import Response, ToolCall, Usage, accumulate, dialect
from toolwire.config import PriceSettings
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.keys import limit_of, mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.prices import Prices, estimate
from toolwire.gateway.routes import Candidate
from toolwire.providers import PROVIDERS
from toolwire.testing import Cut, Fail, Scenario, Wait, simulate
from toolwire.wire.bodies import members_of

Body = dict[str, Any]
STREAMED = pytest.mark.parametrize("streamed", [False, True])
PATHS = {"anthropic": "/v1/messages", "openai-responses": "/v1/responses"}
SEARCH = ToolCall(None, "tool_search", {"query": "weather of a city"})
WEATHER = ToolCall(None, "get_weather", {"city": "Oslo"})


def asked(url: str, source: str, body: Body, **headers: str) -> Answered:
    return post(url, PATHS[source], json.dumps(body).encode(), headers)


def read(source: str, answered: Answered, *, streamed: bool) -> Response:
    assert answered.status == 200, answered.data
    wire = dialect(source)
    if not streamed:
        return wire.decode_response(json.loads(answered.data))
    decoder = wire.decode_stream()
    return accumulate([*decoder.feed(answered.data), *decoder.close()])


def with_results(source: str, body: Body, response: Response, text: str) -> Body:
    """Give the next request of a client, with the result of its only call."""
    [call] = response.tool_calls
    key, encoded = HISTORY[source], dialect(source).encode_response(response).body
    if source == "anthropic":
        block = {"type": "tool_result", "tool_use_id": call.id, "content": text}
        said: list[Any] = [{"role": "assistant", "content": encoded["content"]}, {"role": "user", "content": [block]}]
    else:
        said = [*encoded["output"], {"type": "function_call_output", "call_id": call.id, "output": text}]
    return {**body, key: [*body[key], *said]}


def request_for(source: str, target: str, *, streamed: bool) -> Body:
    return {**request(source, streamed=streamed), "model": f"{NAMES[target]}/m"}


@STREAMED
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_model_finds_one_of_a_hundred_tools(
    source: str, target: str, strict_model: Playing, *, streamed: bool
) -> None:
    with strict_model([["I look.", SEARCH], [WEATHER], ["It is sunny."]]) as stood:
        body = request_for(source, target, streamed=streamed)
        first = read(source, asked(stood.url, source, body), streamed=streamed)
        kinds = [type(part).__name__ for part in first.parts]
        assert kinds == ["Text", "ServerToolCall", "ServerToolResult", "ToolCall"]
        assert first.tool_calls[0].plain_arguments == {"city": "Oslo"}
        later = with_results(source, body, first, "sunny in Oslo")
        last = asked(stood.url, source, later)
        assert read(source, last, streamed=streamed).content == "It is sunny."
        bodies: list[Any] = [one.body for one in stood.requests]
        records = stood.seen.first(2)
        losses = send(stood.url, "GET", f"/toolwire/requests/{last.headers['x-toolwire-request']}/losses", None)
        told = json.loads(losses.data)["losses"]
    assert WORD not in json.dumps(bodies[0])
    assert [names_in(one) for one in bodies] == [["tool_search", "ping"], *[["tool_search", "ping", "get_weather"]] * 2]
    assert "sunny in Oslo" in json.dumps(bodies[2])
    assert sum(loss["action"] == "deferred" for loss in told) == 99
    assert [loss for loss in told if loss["severity"] == "semantic"] == []
    assert [(record["status"], record["ending"]) for record in records[:2]] == [(200, "answer")] * 2


@STREAMED
@pytest.mark.parametrize("failing", [Fail(429), Fail(500), Cut()])
def test_a_failure_after_a_search_is_the_clients_error(failing: Any, lenient_model: Playing, *, streamed: bool) -> None:
    with lenient_model([[SEARCH], [failing]]) as stood:
        answered = asked(stood.url, "anthropic", request_for("anthropic", "openai-chat", streamed=streamed))
        record = stood.seen[0]
    if streamed:
        assert answered.status == 200
        assert b"event: error" in answered.data
        assert not answered.broken
    else:
        assert answered.status >= 400
        assert json.loads(answered.data)["type"] == "error"
    assert record["ending"] in ("error", "broke off")
    assert record["input_tokens"] > 0


def test_a_secret_of_the_provider_is_masked_after_a_search(lenient_model: Playing) -> None:
    from tests.gateway.standing import KEY

    for streamed in (False, True):
        with lenient_model([[SEARCH], [f"The key is {KEY}."]]) as stood:
            answered = asked(stood.url, "anthropic", request_for("anthropic", "openai-chat", streamed=streamed))
        assert KEY.encode() not in answered.data
        assert b"The key is" in answered.data


PRICE = PriceSettings(10.0, 10.0)


def paid(tmp_path: Path, turns: Any, streamed: bool, use: Callable[[Any, Body, str], None], budget: str) -> list[int]:
    """Let a client with a key ask a model that plays such turns. Give what the key has taken then."""
    ledger, now = LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}"), time.time()
    limits = {"requests": "9/day", "tokens": "1000000/day", "budget": budget}
    text, key = mint("ci", [], [limit_of(*one) for one in limits.items()], now, None)
    ledger.add(key)
    accounts = Accounts(LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}"))
    prices = Prices({"openai/m": PRICE})
    with simulate(turns) as model, standing(model.url, accounts=accounts, prices=prices) as stood:
        use(stood, request_for("anthropic", "openai-chat", streamed=streamed), text)
        stood.settle()
        expected = (stood.seen[0]["input_tokens"] or 0) + (stood.seen[0]["output_tokens"] or 0)
        late = time.monotonic() + 10
        while (taken := [*ledger.taken(key, time.time()).values()])[1] != expected and time.monotonic() < late:
            time.sleep(0.01)
    ledger.close()
    return taken


@STREAMED
def test_both_requests_are_paid_for_and_it_is_one(tmp_path: Path, *, streamed: bool) -> None:
    turns = [
        [SEARCH, Usage(input_tokens=1000, output_tokens=20)],
        [WEATHER, Usage(input_tokens=2000, output_tokens=30)],
    ]

    def use(stood: Any, body: Body, key: str) -> None:
        response = read("anthropic", asked(stood.url, "anthropic", body, **{"x-api-key": key}), streamed=streamed)
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == (3000, 50)
        record = stood.seen[0]
        assert (record["input_tokens"], record["output_tokens"], record["estimated"]) == (3000, 50, False)
        assert record["cost"] == pytest.approx(3050 * 10 / 1e6)

    assert paid(tmp_path, turns, streamed, use, "10/day") == [1, 3050, 30_500_000]


@STREAMED
def test_a_client_that_leaves_during_the_second_request_pays_for_it(tmp_path: Path, *, streamed: bool) -> None:
    turns = [[SEARCH, Usage(input_tokens=1000, output_tokens=20)], [Wait(30), WEATHER]]

    def use(stood: Any, body: Body, key: str) -> None:
        import http.client
        from urllib.parse import urlsplit

        connection = http.client.HTTPConnection(urlsplit(stood.url).netloc, timeout=30)
        connection.request("POST", "/v1/messages", json.dumps(body), {"x-api-key": key})
        time.sleep(1.0)
        connection.close()
        record = stood.seen[0]
        assert record["estimated"]
        assert record["input_tokens"] > 1000

    requests, tokens, cost = paid(tmp_path, turns, streamed, use, "10/day")
    assert requests == 1
    assert tokens > 1020
    assert cost == tokens * 10_000


@STREAMED
def test_a_budget_without_room_for_the_second_request_refuses_it(tmp_path: Path, *, streamed: bool) -> None:
    turns = Scenario([[SEARCH, Usage(input_tokens=1000, output_tokens=20)], [WEATHER]], complete=False)
    body = json.dumps(request_for("anthropic", "openai-chat", streamed=streamed)).encode()
    candidate = Candidate(PROVIDERS["openai"], "m")
    tokens = estimate(len(body), members_of(body), candidate)
    first = Prices({"openai/m": PRICE}).highest_cost(candidate, tokens) / 1e9

    def use(stood: Any, body: Body, key: str) -> None:
        answered = asked(stood.url, "anthropic", body, **{"x-api-key": key})
        assert b"rate_limit_error" in answered.data
        assert answered.status == (200 if streamed else 429)

    requests, taken, _ = paid(tmp_path, turns, streamed, use, f"{first + 0.001:.6f}/day")
    assert (requests, taken) == (1, 1020)


def test_a_deferred_tool_without_a_search_waits_for_its_name(strict_model: Playing) -> None:
    body = request_for("anthropic", "openai-chat", streamed=False)
    body["tools"].remove(SEARCHES["anthropic"])
    with strict_model(["Hi."]) as stood:
        assert asked(stood.url, "anthropic", body).status == 200
        assert names_in(stood.requests[0].body) == ["ping"]


@STREAMED
def test_a_stored_response_goes_on_with_what_it_found(strict_model: Playing, *, streamed: bool) -> None:
    with strict_model([[SEARCH], [WEATHER], ["It is sunny."]]) as stood:
        body = {**request_for("openai-responses", "anthropic", streamed=streamed), "store": True}
        first = read("openai-responses", asked(stood.url, "openai-responses", body), streamed=streamed)
        [call] = first.tool_calls
        result = {"type": "function_call_output", "call_id": call.id, "output": "sunny in Oslo"}
        later = {**body, "previous_response_id": first.id, "input": [result]}
        assert read("openai-responses", asked(stood.url, "openai-responses", later), streamed=streamed).content
        assert names_in(stood.requests[2].body) == ["tool_search", "ping", "get_weather"]
        assert "sunny in Oslo" in json.dumps(stood.requests[2].body)
