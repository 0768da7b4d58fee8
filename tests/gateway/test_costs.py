"""What a request costs, however it ends: each row of the table in `docs/gateway-operations.md`."""

import contextlib
import json
import math
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway.processes import PART, USAGE, WORDS, Gateway, Model, Team, team, until
from tests.gateway.standing import NAMES, WIRES, post, standing
from tests.gateway.test_keys import Guarded, guarded, taken_by_now
from toolwire.config import PriceSettings
from toolwire.dialects import dialect
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.keys import limit_of, mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.prices import Prices
from toolwire.testing import Scenario, Wait
from toolwire.types import Context, Message, Request
from toolwire.wire.transport import Timeouts

__all__ = ["guarded"]

MOST = 20
SEEN = math.ceil(len(WORDS) / 4)
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


class Asked:
    """A client that asks, reads as far as it wants, and leaves."""

    def __init__(self, gateway: Gateway, key: str, body: bytes, path: str = CHAT) -> None:
        self.socket = socket.create_connection(("127.0.0.1", gateway.port), 30)
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {key}\r\nconnection: close\r\n"
        self.socket.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.heard = b""

    def until(self, words: bytes) -> None:
        """Read until these words have come."""
        while words not in self.heard:
            piece = self.socket.recv(65_536)
            assert piece, self.heard
            self.heard += piece

    def whole(self) -> int:
        """Read to the end, and return the status."""
        while piece := self.socket.recv(65_536):
            self.heard += piece
        self.socket.close()
        return int(self.heard.split()[1])

    def leave(self) -> None:
        """Close the connection."""
        self.socket.close()


def body_of(model: str, *, stream: bool = False) -> bytes:
    """Write a request that Chat Completions and Messages read alike."""
    messages = [{"role": "user", "content": "Hello. " * 40}]
    return json.dumps({"model": model, "max_tokens": MOST, "stream": stream, "messages": messages}).encode()


def prompt(body: bytes) -> int:
    """Return how many tokens a prompt counts that nobody has counted."""
    return math.ceil(len(body) / 4)


def cost(read: int, written: int, requests: int = 1) -> list[int]:
    """Write what requests take of each limit that used so many tokens together."""
    return [requests, read + written, 1000 * read + 4000 * written]


def estimated(body: bytes, requests: int = 1) -> list[int]:
    """Write what requests take that are in flight."""
    return cost(requests * (len(body) // 3 + 1), requests * MOST, requests)


def added(before: list[int], more: list[int]) -> list[int]:
    return [one + other for one, other in zip(before, more, strict=True)]


@pytest.fixture(scope="module")
def standing_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with team(tmp_path_factory.mktemp("costs"), "sqlite:///keys.db") as made:
        made.start()
        yield made


class Case(NamedTuple):
    """A request whose client waits for its end, and what it costs: tokens read (None: the prompt) and written."""

    model: str
    read: int | None
    written: int
    stream: bool = False
    requests: int = 1
    prompts: int = 0  # of attempts that failed


CASES = {
    "no such model": Case("nobody/m", 0, 0, requests=0),
    "not reached": Case("away/m", 0, 0),
    "an error": Case("local/error", 0, 0),
    "an error, streamed": Case("claude/error", 0, 0, stream=True),
    "an error in a 200": Case("local/error-in-200", 0, 0),
    "an error in a 200 of another wire": Case("claude/error-in-200", 0, 0),
    "whole": Case("local/answer", *USAGE),
    "whole, of another wire": Case("claude/answer", *USAGE),
    "streamed": Case("claude/answer", *USAGE, stream=True),
    "no head, asked twice": Case("local/cut-head", 0, 0, prompts=2),
    "no head, asked twice, of another wire": Case("claude/cut-head", 0, 0, prompts=2, stream=True),
    "broken off": Case("local/breaks", None, math.ceil(len(PART) / 4)),
    "broken off, of another wire": Case("claude/breaks", None, math.ceil(len(PART) / 4)),
    "a stream broken off": Case("local/breaks", None, SEEN, stream=True),
    "a stream broken off, of another wire": Case("claude/breaks", USAGE[0], SEEN, stream=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("name", CASES)
def test_what_a_request_costs_whose_client_waits_for_its_end(name: str, path: str, standing_team: Team) -> None:
    case, before = CASES[name], standing_team.taken()
    body = body_of(case.model, stream=case.stream)
    Asked(standing_team.gateways[0], standing_team.text, body, path).whole()
    read = (prompt(body) if case.read is None else case.read) + case.prompts * prompt(body)
    until(lambda: standing_team.taken() == added(before, cost(read, case.written, case.requests)))


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
def test_each_provider_that_was_sent_a_request_and_may_bill_it_counts(stream: bool, tmp_path: Path) -> None:
    with team(tmp_path, "sqlite:///keys.db") as stood:  # one is sent it in vain, one refuses it, one is away
        body = body_of("several", stream=stream)
        assert Asked(stood.start(), stood.text, body).whole() == 200
        until(lambda: stood.taken() == cost(prompt(body) + USAGE[0], USAGE[1]))
        assert stood.model.received == {"cut-head": 1, "error": 1, "answer": 1}


@pytest.fixture(params=["sqlite", "postgresql"])
def stood(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Team]:
    database = "sqlite:///keys.db" if request.param == "sqlite" else request.getfixturevalue("database").url
    with team(tmp_path, database) as made:
        yield made


@pytest.mark.slow
@pytest.mark.row("O13")
@pytest.mark.parametrize("model", ["local/silent", "claude/silent"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_before_the_answer_pays_for_its_prompt(stream: bool, model: str, stood: Team) -> None:
    gateway, body = stood.start(), body_of(model, stream=stream)
    for path in (CHAT, MESSAGES):
        before = stood.model.received["silent"]
        asked = Asked(gateway, stood.text, body, path)
        until(lambda seen=before + 1: stood.model.received["silent"] == seen)  # type: ignore[misc]
        asked.leave()
    until(lambda: stood.taken() == cost(2 * prompt(body), 0, 2))
    until(lambda: [one["ending"] for one in gateway.records()] == ["client gone"] * 2)
    assert [one["input_tokens"] for one in gateway.records()] == [prompt(body)] * 2


@pytest.mark.slow
@pytest.mark.row("O13")
@pytest.mark.parametrize("model", ["local/partial", "claude/partial"])
def test_a_client_that_leaves_within_the_answer_pays_for_what_was_received(model: str, stood: Team) -> None:
    gateway, body = stood.start(), body_of(model, stream=True)
    for path in (CHAT, MESSAGES):
        asked = Asked(gateway, stood.text, body, path)
        asked.until(b"word word")
        asked.leave()
    read = USAGE[0] if model.startswith("claude") else prompt(body)
    until(lambda: stood.taken() == cost(2 * read, 2 * SEEN, 2))
    whole = body_of(model)
    asked = Asked(gateway, stood.text, whole)
    until(lambda: stood.model.open == 1)
    time.sleep(0.3)  # until the gateway has read the beginning of the answer
    asked.leave()
    received = cost(prompt(whole), math.ceil(len(PART) / 4))
    until(lambda: stood.taken() == added(cost(2 * read, 2 * SEEN, 2), received))


def in_flight(team: Team, gateway: Gateway, count: int, body: bytes) -> list[Asked]:
    """Have so many requests in flight: the model has received them, and does not answer yet."""
    before = team.model.received["slow"]
    asked = [Asked(gateway, team.text, body) for _ in range(count)]
    until(lambda: team.model.received["slow"] == before + count)
    return asked


@pytest.mark.slow
@pytest.mark.row("O17")
@pytest.mark.parametrize(("kind", "seconds"), [("sqlite", 16.5), ("postgresql", 6.5)], ids=["sqlite", "postgresql"])
def test_requests_of_a_paused_process_count_as_estimated_and_then_as_they_ended(
    kind: str, seconds: float, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = "sqlite:///keys.db" if kind == "sqlite" else request.getfixturevalue("database").url
    with team(tmp_path, url) as stood:
        paused, other, body = stood.start(), stood.start(), body_of("local/slow", stream=True)
        held = in_flight(stood, paused, 40, body)
        paused.pause()
        time.sleep(seconds)
        assert Asked(other, stood.text, body_of("local/answer")).whole() == 200
        until(lambda: stood.taken() == added(estimated(body, 40), cost(*USAGE)))
        paused.go_on()
        stood.model.release()
        assert {one.whole() for one in held} == {200}
        until(lambda: stood.taken() == cost(41 * USAGE[0], 41 * USAGE[1], 41))
        statuses = [Asked(one, stood.text, body_of("local/answer")).whole() for one in (paused, other) * 48]
        assert (statuses.count(200), statuses.count(429)) == (59, 37)
        assert sum(stood.model.received.values()) == stood.taken()[0] == 100


@pytest.mark.slow
@pytest.mark.row("O17")
def test_requests_of_a_killed_process_stay_spent_as_estimated(stood: Team) -> None:
    killed, body = stood.start(), body_of("claude/slow", stream=True)
    for _ in range(10):
        assert Asked(killed, stood.text, body_of("local/answer")).whole() == 200
    answered = cost(10 * USAGE[0], 10 * USAGE[1], 10)
    until(lambda: stood.taken() == answered)
    held = in_flight(stood, killed, 60, body)
    killed.kill()
    for one in held:
        one.leave()
    assert stood.taken() == added(answered, estimated(body, 60))
    other = stood.start()
    statuses = [Asked(other, stood.text, body_of("local/answer")).whole() for _ in range(40)]
    assert (statuses.count(200), statuses.count(429)) == (30, 10)
    assert sum(stood.model.received.values()) == stood.taken()[0] == 100


@pytest.mark.slow
def test_requests_that_a_stopped_process_cuts_cost_what_was_received(tmp_path: Path) -> None:
    with team(tmp_path, "sqlite:///keys.db") as stood:
        gateway, body = stood.start(), body_of("local/partial", stream=True)
        asked = Asked(gateway, stood.text, body)
        asked.until(b"word word")
        silent = body_of("local/silent")
        waits = Asked(gateway, stood.text, silent)
        until(lambda: stood.model.received["silent"] == 1)
        gateway.stop()  # it waits for half a minute
        assert stood.taken() == added(cost(prompt(body), SEEN), cost(prompt(silent), 0))
        with contextlib.closing(sqlite3.connect(tmp_path / "keys.db")) as database:
            rows = database.execute("SELECT input_tokens, output_tokens, ending FROM toolwire_usage").fetchall()
        assert sorted(rows) == sorted([(prompt(body), SEEN, "broke off"), (prompt(silent), 0, "broke off")])
        asked.leave()
        waits.leave()


@pytest.mark.slow
@pytest.mark.parametrize("ends", [False, True], ids=["and is back", "and the gateway ends meanwhile"])
def test_requests_in_flight_are_settled_when_the_database_is_back(
    ends: bool, stood: Team, request: pytest.FixtureRequest
) -> None:
    gateway, body = stood.start(), body_of("local/slow", stream=True)
    assert Asked(gateway, stood.text, body_of("local/answer")).whole() == 200
    held = in_flight(stood, gateway, 5, body)
    before = added(cost(*USAGE), estimated(body, 5))
    until(lambda: stood.taken() == before)
    away = _Away(stood, request)
    assert Asked(gateway, stood.text, body_of("local/answer")).whole() == 503
    stood.model.release()
    assert {one.whole() for one in held} == {200}
    if ends:
        gateway.stop()
    away.back()
    if ends:
        assert stood.taken() == before
        assert Asked(stood.start(), stood.text, body_of("local/answer")).whole() == 200
        until(lambda: stood.taken() == added(before, cost(*USAGE)))
    else:
        until(lambda: stood.taken() == cost(6 * USAGE[0], 6 * USAGE[1], 6))
        assert Asked(gateway, stood.text, body_of("local/answer")).whole() == 200
    assert stood.model.received == {"answer": 2, "slow": 5}


class _Away:
    """A database that cannot be reached until it is back."""

    def __init__(self, stood: Team, request: pytest.FixtureRequest) -> None:
        self._folder, self._postgres, self._name = stood.folder, None, ""
        stood.ledger.close()
        if "postgresql" in request.node.name:
            self._postgres, self._name = request.getfixturevalue("postgres"), request.getfixturevalue("database").name
            self._postgres.run(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false")
            cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'"  # noqa: S608
            self._postgres.run(cut)
            return
        (self._folder / "away").mkdir()
        for file in self._folder.glob("keys.db*"):
            file.rename(self._folder / "away" / file.name)

    def back(self) -> None:
        """Have it back."""
        if self._postgres is not None:
            self._postgres.run(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS true")
            return
        for file in (self._folder / "away").iterdir():
            file.rename(self._folder / file.name)


@pytest.mark.sampled
@pytest.mark.row("O13")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_on_each_wire_a_client_that_leaves_pays_for_its_prompt(
    source: str, target: str, stream: bool, guarded: Guarded
) -> None:
    text, seen = guarded.make(requests="100/day", tokens="100000/day"), guarded.stood.seen
    encoded = dialect(source).encode_request(
        Request(context=Context(None, [Message("Hello. " * 20)]), model=f"{NAMES[target]}/m", stream=stream)
    )
    guarded.model.play(Scenario([[Wait(20), "Hello."]]))
    gateway: Any = _Address(guarded.stood.url)
    asked = Asked(gateway, text, encoded.json, encoded.path)
    until(lambda: any(one.status for one in guarded.model.requests))
    asked.leave()
    until(lambda: taken_by_now(guarded) == [1, prompt(encoded.json)])
    assert (seen[0]["ending"], seen[0]["input_tokens"], seen[0]["estimated"]) == (
        "client gone",
        prompt(encoded.json),
        True,
    )


@pytest.mark.sampled
@pytest.mark.row("O13")
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_on_each_wire_a_client_that_leaves_within_a_stream_pays_for_what_was_received(
    source: str, target: str, guarded: Guarded
) -> None:
    text, said = guarded.make(requests="100/day", tokens="100000/day"), "Some words. " * 9 + "END"
    encoded = dialect(source).encode_request(
        Request(context=Context(None, [Message("Hello. " * 20)]), model=f"{NAMES[target]}/m", stream=True)
    )
    guarded.model.play(Scenario([[said, Wait(20), " And more."]]))
    gateway: Any = _Address(guarded.stood.url)
    asked = Asked(gateway, text, encoded.json, encoded.path)
    asked.until(b"END")
    asked.leave()
    seen = guarded.stood.seen[0]
    assert (seen["ending"], seen["output_tokens"]) == ("client gone", math.ceil(len(said) / 4))
    assert seen["input_tokens"] > 0
    until(lambda: taken_by_now(guarded) == [1, seen["input_tokens"] + seen["output_tokens"]])


class _Address(NamedTuple):
    """Where a gateway of this process is."""

    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("turn", ["never answers", "cannot be reached", "breaks off", "an error in a 200"])
def test_a_provider_that_fails_costs_what_it_may_bill(turn: str, stream: bool, tmp_path: Path) -> None:
    ledger = LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}")
    text, key = mint("ci", (), [limit_of("requests", "9/day"), limit_of("budget", "1/day")], time.time(), None)
    ledger.add(key)
    prices = Prices({"openai/m": PriceSettings(1.0, 4.0)})
    with Model() as model:
        accounts = Accounts(LimitLedger(f"sqlite:///{tmp_path / 'keys.db'}"))
        timeouts = Timeouts(first=0.3, between=0.3)
        named = {
            "never answers": "silent",
            "cannot be reached": "",
            "breaks off": "breaks",
            "an error in a 200": "error-in-200",
        }
        url = model.url if named[turn] else "http://127.0.0.1:1"
        with standing(url, timeouts=timeouts, prices=prices, accounts=accounts) as stood:
            goal = f"openai/{named[turn] or 'm'}"
            prices._exact = {goal: PriceSettings(1.0, 4.0)}
            body = body_of(goal, stream=stream)
            post(stood.url, CHAT, body, {"x-api-key": text})
            seen = SEEN if stream else math.ceil(len(PART) / 4)
            read, written = {"silent": (1, 0), "breaks": (1, seen)}.get(named[turn], (0, 0))
            expected = cost(read * prompt(body), written)
            until(lambda: [*ledger.taken(key, time.time()).values()] == [expected[0], expected[2]])
    ledger.close()
