"""Keys at the door: who may ask, for what, how much; in the words of each wire, and nothing without a key."""

import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway.standing import KEY, NAMES, WIRES, Answered, Stood, at, post, send, standing
from toolwire.config import PriceSettings, read_settings
from toolwire.dialects import dialect
from toolwire.errors import UserError
from toolwire.gateway import cached_prefix, prefix_cache
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.keys import Key, limit_of, mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.prefix_cache import PrefixCache
from toolwire.gateway.prices import Prices, Tokens, estimate, used
from toolwire.gateway.routes import Candidate, Routes, UpstreamNetwork
from toolwire.testing import Cut, Fail, Scenario, Wait, simulate
from toolwire.testing.server import SimulatedModel
from toolwire.types import Context, Error, Message, Request, Usage
from toolwire.wire.bodies import members_of

Making = Callable[..., str]
HEADERS: dict[str, Callable[[str], dict[str, str]]] = {
    "authorization": lambda key: {"authorization": f"Bearer {key}"},
    "x-api-key": lambda key: {"x-api-key": key},
    "api-key": lambda key: {"api-key": key},
    "x-goog-api-key": lambda key: {"x-goog-api-key": key},
}


class Guarded(NamedTuple):
    """A gateway that wants keys, and what makes one."""

    stood: Stood
    make: Making
    ledger: LimitLedger
    model: SimulatedModel


FRESH, FLUSH = 0.2, 0.02


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    monkeypatch.setattr("toolwire.gateway.accounts.FRESH", FRESH)
    monkeypatch.setattr("toolwire.gateway.accounts._FLUSH", FLUSH)
    ledger = LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}")
    accounts = Accounts(LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}"))

    def make(*models: str, **limits: str) -> str:
        text, key = mint("ci", models, [limit_of(*one) for one in limits.items()], time.time(), None)
        ledger.add(key)
        return text

    prices = Prices({"openai/m": PriceSettings(1.0, 4.0)})
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        more = {"silent": at(model.url, "openai").with_options(name="silent")}
        with standing(model.url, "", more, accounts=accounts, prices=prices) as stood:
            yield Guarded(stood, make, ledger, model)
    ledger.close()


def until(met: Callable[[], bool]) -> None:
    """Wait until something is so."""
    late = time.monotonic() + 10
    while not met():
        assert time.monotonic() < late, "it did not happen in time"
        time.sleep(0.01)


def taken_of(guarded: Guarded) -> list[int]:
    """Give what the one key has taken of its windows, when what was settled is written."""
    time.sleep(10 * FLUSH)
    return taken_by_now(guarded)


def taken_by_now(guarded: Guarded) -> list[int]:
    """Give what of its windows is written to be taken by the one key."""
    [kept] = guarded.ledger.listed()
    return list(guarded.ledger.taken(kept, time.time()).values())


def body_of(model: str = "openai/m", **more: Any) -> bytes:
    """Write a short question."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}], **more}).encode()


def ask(url: str, key: str | None, model: str = "openai/m", **more: Any) -> Answered:
    """Ask a short question with a key."""
    return post(url, "/v1/chat/completions", body_of(model, **more), {} if key is None else {"x-api-key": key})


@pytest.mark.parametrize(
    ("kind", "text", "amount", "window"),
    [
        ("requests", "60", 60, "min"),
        ("requests", "60/min", 60, "min"),
        ("requests", "0", 0, "min"),
        ("tokens", "100000/hour", 100_000, "hour"),
        ("budget", "20/day", 20_000_000_000, "day"),
        ("budget", "0.5/hour", 500_000_000, "hour"),
        ("budget", "0.000000001", 1, "min"),
    ],
)
def test_a_limit_is_a_number_in_a_window(kind: str, text: str, amount: int, window: str) -> None:
    limit = limit_of(kind, text)
    assert (limit.amount, limit.window) == (amount, window)
    assert limit_of(kind, str(limit)) == limit


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1/week", "1/", "/min", "1.5/min", "1e3", "\u0661", "60 per min", "9" * 30]
)
def test_what_is_no_limit_is_refused_and_the_form_is_told(text: str) -> None:
    with pytest.raises(UserError, match="60/min"):
        limit_of("requests", text)


@pytest.mark.row("O1")
@pytest.mark.parametrize("header", HEADERS)
def test_each_header_of_a_key_is_taken(guarded: Guarded, header: str) -> None:
    headers = HEADERS[header](guarded.make())
    assert post(guarded.stood.url, "/v1/chat/completions", body_of(), headers).status == 200
    assert guarded.model.requests[-1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.row("O1")
@pytest.mark.parametrize("source", WIRES)
def test_without_a_key_that_is_known_nothing_is_asked(guarded: Guarded, source: str) -> None:
    encoded = dialect(source).encode_request(
        Request(context=Context(None, [Message("Hello")]), model=f"{NAMES[source]}/m", stream=False)
    )
    key = guarded.make()
    shown: list[dict[str, str]] = [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "bearer x"},
        {"authorization": f"Basic {key}"},
        {"authorization": key},
        {"x-api-key": ""},
        {"x-api-key": key[:-1]},
        {"x-api-key": key + "a"},
        {"x-api-key": key[:11] + "a" * 32},
        {"x-api-key": "' OR '1'='1"},
        {"x-goog-api-key": "\xe9" * 40},
        {"x-api-key": "tw-" + "a" * 40},
    ]
    bodies = set()
    for headers in shown:
        answered = post(guarded.stood.url, encoded.path, json.dumps(encoded.body).encode(), headers)
        assert answered.status == 401, headers
        assert dialect(source).decode_error(401, json.loads(answered.data)).kind == "authentication"
        bodies.add(answered.data)
    assert len(bodies) == 2, "one that says that a key is missing, one that it is not known"
    in_query = post(
        guarded.stood.url, f"{encoded.path}?key={key}", json.dumps(encoded.body).encode(), {"x-api-key": key}
    )
    assert in_query.status == 401
    assert guarded.model.requests == []


@pytest.mark.row("O1")
def test_two_keys_that_differ_are_refused_and_two_that_do_not_are_one(guarded: Guarded) -> None:
    one, two = guarded.make(), guarded.make()
    for second, status in ((two, 400), (one, 200), ("", 400)):
        headers = {"authorization": f"Bearer {one}", "x-api-key": second}
        assert post(guarded.stood.url, "/v1/chat/completions", body_of(), headers).status == status


@pytest.mark.row("O5")
def test_a_key_that_was_revoked_is_used_no_longer(guarded: Guarded) -> None:
    key = guarded.make()
    assert ask(guarded.stood.url, key).status == 200
    guarded.ledger.revoke(guarded.ledger.listed()[0].id, time.time())
    time.sleep(1.1 * FRESH)
    assert ask(guarded.stood.url, key).status == 401


def test_a_key_asks_for_its_models_and_sees_no_others(guarded: Guarded) -> None:
    key = guarded.make("openai/*", "anthropic/claude-sonnet-5-5")
    url = guarded.stood.url
    for model, status in (("openai/m", 200), ("anthropic/claude-opus-5-5", 403), ("silent/m", 403), ("no/m", 403)):
        assert ask(url, key, model).status == status
    import urllib.request

    for wire, path in (("anthropic", "/v1/messages/count_tokens"), ("gemini", "/v1beta/models/{}:countTokens")):
        for model, status in (("openai/m", 200), ("silent/m", 403), ("no/m", 403)):
            body = {"messages": [], "contents": [], "model": model}
            answered = post(url, path.format(model), json.dumps(body).encode(), {"x-api-key": key})
            assert (answered.status, wire, model) == (status, wire, model)
    listed = urllib.request.Request(f"{url}/v1/models", headers={"x-api-key": key})  # noqa: S310 - loopback
    names = [one["id"] for one in json.load(urllib.request.urlopen(listed))["data"]]  # noqa: S310 - loopback
    assert names
    assert all(name.startswith("openai/") or name == "anthropic/claude-sonnet-5-5" for name in names)


@pytest.mark.row("O17")
@pytest.mark.parametrize("source", WIRES)
def test_a_limit_that_is_reached_is_told_in_each_wire_with_the_time_to_wait(guarded: Guarded, source: str) -> None:
    encoded = dialect(source).encode_request(
        Request(context=Context(None, [Message("Hello")]), model=f"{NAMES[source]}/m", stream=True)
    )
    headers = {"x-api-key": guarded.make(requests="2/day")}
    sent = [post(guarded.stood.url, encoded.path, json.dumps(encoded.body).encode(), headers) for _ in range(4)]
    assert [one.status for one in sent] == [200, 200, 429, 429]
    assert 1 <= int(sent[2].headers["retry-after"]) <= 86_400
    error = dialect(source).decode_error(429, json.loads(sent[2].data), sent[2].headers)
    assert error.kind == "rate_limit"
    assert error.retry_after


@pytest.mark.row("O17")
def test_what_is_rejected_or_malformed_takes_nothing(guarded: Guarded) -> None:
    key, url = guarded.make(requests="2/day"), guarded.stood.url
    assert post(url, "/v1/chat/completions", b"{", {"x-api-key": key}).status == 400
    assert ask(url, key, "nobody/m").status == 404
    lossy, strict = body_of("anthropic/m", logit_bias={"5": 1}), {"x-api-key": key, "x-toolwire-strict": "1"}
    assert post(url, "/v1/chat/completions", lossy, strict).status == 400
    assert [ask(url, key).status for _ in range(3)] == [200, 200, 429]


def test_a_budget_needs_a_price(guarded: Guarded) -> None:
    key, url = guarded.make(budget="1/day"), guarded.stood.url
    refused = ask(url, key, "silent/m")
    assert refused.status == 403
    assert b"no price" in refused.data
    assert ask(url, key, "openai/m").status == 200
    assert ask(url, guarded.make(), "silent/m").status == 200


@pytest.mark.row("O17")
def test_a_budget_is_never_overdrawn(guarded: Guarded) -> None:
    key, url = guarded.make(budget="0.001/day"), guarded.stood.url
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: ask(url, key, max_tokens=20).status, range(200)))
    assert set(statuses) == {200, 429}
    spent = sum(record["cost"] for record in guarded.stood.seen.first(200) if record["status"] == 200)
    until(lambda: abs(taken_of(guarded)[0] - spent * 1e9) < 1)
    [taken] = taken_of(guarded)
    assert 0 < taken <= 1_000_000
    assert abs(taken - spent * 1e9) < 1
    assert taken > 800_000, "what was not used is used by others"


@pytest.mark.row("O30")
def test_a_stream_that_costs_more_than_reserved_is_not_cut_and_the_next_is_refused(
    guarded: Guarded,
) -> None:
    key = guarded.make(budget="0.02/day")  # 4,096 tokens of an answer are reserved: 0.0164 dollars
    guarded.model.play(Scenario([["word " * 8000, Usage(input_tokens=10, output_tokens=9000)]]))
    answered = ask(guarded.stood.url, key, stream=True, stream_options={"include_usage": True})
    assert answered.data.count(b"word ") == 8000
    assert b"[DONE]" in answered.data
    [kept] = guarded.ledger.listed()
    all_of_it = 10 * 1000 + 9000 * 4000  # it is settled, though it is more than the budget
    until(lambda: [*guarded.ledger.taken(kept, time.time()).values()] == [all_of_it])
    assert ask(guarded.stood.url, key).status == 429
    assert len(guarded.model.requests) == 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("scenario", "stream", "tokens"),
    [
        (["Hello."], True, "reported"),
        ([[*["Hello. " * 40], Cut()]], True, "estimated"),
        ([Fail(Error("server", "broken", 500))], True, "none"),
        ([Fail(Error("server", "broken", 500))], False, "none"),
    ],
)
def test_what_was_used_is_settled_however_it_ended(guarded: Guarded, scenario: Any, stream: bool, tokens: str) -> None:
    key = guarded.make(tokens="100000/day")
    guarded.model.play(Scenario(scenario))
    ask(guarded.stood.url, key, stream=stream, stream_options={"include_usage": True})
    until(lambda: len(guarded.stood.seen) == 1)
    record = guarded.stood.seen[-1]
    used = (record["input_tokens"] or 0) + (record["output_tokens"] or 0)
    until(lambda: taken_by_now(guarded) == [used])
    [taken] = taken_of(guarded)
    assert taken == used
    assert record["estimated"] is (tokens == "estimated")
    assert bool(taken) is (tokens != "none")


@pytest.mark.row("O13")
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_is_settled_once(guarded: Guarded, stream: bool) -> None:
    import socket
    from urllib.parse import urlsplit

    key = guarded.make(requests="100/day", tokens="100000/day")
    guarded.model.play(Scenario([[Wait(20), "Hello."]] * 3))
    body = body_of(stream=stream)
    for number in range(3):
        with socket.create_connection(("127.0.0.1", urlsplit(guarded.stood.url).port or 0)) as opened:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {key}\r\n"
            opened.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda asked=number: any(one.turn == asked and one.status for one in guarded.model.requests))  # type: ignore[misc]
        until(lambda gone=number + 1: len(guarded.stood.seen) == gone)  # type: ignore[misc]
    prompts = 3 * math.ceil(len(body) / 4)  # nobody had begun to answer
    until(lambda: taken_by_now(guarded) == [3, prompts])
    assert taken_of(guarded) == [3, prompts]
    assert [record["ending"] for record in guarded.stood.seen] == ["client gone"] * 3


def test_memory_and_reports_are_those_of_a_key(guarded: Guarded) -> None:
    import urllib.error
    import urllib.request

    one, two = guarded.make(), guarded.make()
    answered = ask(guarded.stood.url, one, "anthropic/m", logit_bias={"50256": -100})
    path = f"{guarded.stood.url}/toolwire/requests/{answered.headers['x-toolwire-request']}/losses"
    told = urllib.request.Request(path, headers={"x-api-key": one})  # noqa: S310 - loopback
    assert json.load(urllib.request.urlopen(told))["losses"]  # noqa: S310 - loopback
    for headers, status in (({"x-api-key": two}, 404), ({}, 401)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(path, headers=headers))  # noqa: S310 - loopback
        assert refused.value.code == status
        refused.value.close()


def test_what_one_key_has_had_translated_no_other_finds(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    plain = cached_prefix.write_extension

    def noted(*given: Any) -> Any:
        found.append(True)
        return plain(*given)

    monkeypatch.setattr(prefix_cache, "write_extension", noted)
    guarded.stood.gateway.context.translations = PrefixCache(1 << 22)
    said = [{"role": role, "content": f"{role} " * 150} for role in ("user", "assistant", "user", "assistant", "user")]
    for key, turns, hits in ((guarded.make(), 4, 2), (guarded.make(), 2, 2), (guarded.make(), 2, 2)):
        for _ in range(turns):
            ask(guarded.stood.url, key, "anthropic/m", messages=said)
        assert len(found) == hits


GOAL = Candidate(at("http://127.0.0.1:1", "openai"), "m")


@pytest.mark.parametrize(
    ("more", "output"),
    [
        ({}, 4096),
        ({"max_tokens": 10}, 10),
        ({"max_completion_tokens": 11, "n": 3}, 33),
        ({"max_output_tokens": 12}, 12),
        ({"generationConfig": {"maxOutputTokens": 13, "candidateCount": 2}}, 26),
        ({"options": {"num_predict": 14}}, 14),
        ({"options": {"num_predict": -1}}, 4096),
        ({"max_tokens": "x", "n": [], "options": 3}, 4096),
        ({"max_tokens": -5}, 4096),
        ({"max_tokens": 10**30}, 4096),
        ({"max_tokens": 10**9}, 10**9),
    ],
)
def test_what_an_answer_may_cost_is_read_from_each_wire(more: dict[str, Any], output: int) -> None:
    body = body_of(**more)
    assert estimate(len(body), members_of(body), GOAL) == Tokens(len(body) // 3 + 1, output, estimated=True)


def test_money_is_whole_and_rounded_up() -> None:
    prices = Prices({"openai/m": PriceSettings(1.0, 4.0, cache_read=0.1)})
    assert prices.cost(GOAL, Tokens(100, 20)) == 180_000
    assert prices.cost(GOAL, Tokens(100, 20, cache_read=50)) == 135_000
    assert Prices({"openai/m": PriceSettings(0.0001, 0)}).cost(GOAL, Tokens(1, 0)) == 1
    assert Prices({}).cost(GOAL, Tokens(1, 0)) == 0
    assert Prices({}).of(GOAL) is None


def test_a_pattern_prices_the_models_that_no_longer_name_fits() -> None:
    said = {
        "openai/*": PriceSettings(1.0, 0),
        "openai/gpt-4*": PriceSettings(2.0, 0),
        "openai/gpt-4.1": PriceSettings(3.0, 0),
        "openai/*-mini": PriceSettings(4.0, 0),
    }
    prices = Prices(
        read_settings(
            "[prices]\n" + "".join(f'"{name}" = {{ input = {one.input}, output = 0 }}\n' for name, one in said.items())
        ).prices
    )
    dear = {
        model: prices.of(Candidate(GOAL.provider, model)).input
        for model in ("m", "org/m", "gpt-4", "gpt-4.1", "gpt-5-mini")
    }
    assert dear == {"m": 1.0, "org/m": 1.0, "gpt-4": 2.0, "gpt-4.1": 3.0, "gpt-5-mini": 4.0}
    assert prices.of(Candidate(GOAL.provider.with_options(name="other"), "nobody-knows-it")) is None


def test_a_budget_is_spent_at_the_price_of_a_pattern(guarded: Guarded) -> None:
    guarded.stood.gateway.context.prices = Prices({"openai/*": PriceSettings(1.0, 4.0)})
    key = guarded.make(budget="1/day")
    assert ask(guarded.stood.url, key, "openai/nobody-knows-it").status == 200
    assert guarded.stood.seen[0]["cost"] > 0


def test_what_nobody_counted_is_guessed_and_marked() -> None:
    assert used(Usage(10, 5), 400, 0, complete=True) == Tokens(10, 5)
    assert used(None, 400, 8, complete=True) == Tokens(100, 2, estimated=True)
    assert used(Usage(10, 1), 400, 80, complete=False) == Tokens(10, 20, estimated=True)
    assert used(Usage(10, -5), 400, 8, complete=True).estimated


def test_a_key_says_nothing_of_itself() -> None:
    text, key = mint("ci", (), (), 0.0, None)
    assert text not in repr(key)
    assert isinstance(key, Key)


def test_what_is_too_long_is_told_where_the_route_for_it_has_no_price(guarded: Guarded) -> None:
    said = read_settings('[routes.r]\nto = ["openai/m"]\non_context = "long"\n[routes.long]\nto = ["silent/m"]\n')
    tools = guarded.stood.gateway.context
    guarded.stood.gateway.renew(Routes(said, tools.routes.providers), tools.prices, UpstreamNetwork())
    guarded.model.play(Fail(Error("context_length", "too long", 400, code="context_length_exceeded")))
    answered = ask(guarded.stood.url, guarded.make(budget="20/day"), "r")
    assert (answered.status, json.loads(answered.data)["error"]["code"]) == (400, "context_length_exceeded")


def test_the_log_has_the_time_the_name_of_the_key_and_the_provider(guarded: Guarded) -> None:
    key = guarded.make()
    began = datetime.now(UTC)
    body = json.dumps({"model": "openai/m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
    assert post(guarded.stood.url, "/v1/chat/completions", body, HEADERS["api-key"](key)).status == 200
    line = guarded.stood.seen[0]
    assert (line["key_name"], line["key"], line["provider"]) == ("ci", key[3:11], "openai/m")
    assert next(iter(line)) == "time"
    assert line["time"].endswith("Z")
    assert began - timedelta(seconds=1) <= datetime.fromisoformat(line["time"]) <= datetime.now(UTC)


def test_the_log_names_no_key_where_none_is_accepted(guarded: Guarded) -> None:
    assert post(guarded.stood.url, "/v1/chat/completions", b"{}").status == 401
    assert (guarded.stood.seen[0]["key"], guarded.stood.seen[0]["key_name"]) == ("", "")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_a_health_check_is_not_logged(guarded: Guarded, path: str, method: str) -> None:
    assert send(guarded.stood.url, method, path, None).status == 200
    assert post(guarded.stood.url, "/v1/chat/completions", b"{}").status == 401
    assert [line["path"] for line in guarded.stood.seen.first(1)] == ["/v1/chat/completions"]
