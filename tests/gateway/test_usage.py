"""The usage of a gateway: one row for each request, whoever answered it and however it ended, and who may read it."""

import contextlib
import json
import secrets
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway.standing import KEY, Stood, at, post, send, standing
from tests.gateway.test_costs import Asked
from tests.gateway.test_keys import FLUSH, FRESH, until
from tests.gateway.test_sockets import create, heard, opened
from toolwire.config import PriceSettings, read_settings
from toolwire.gateway import starting
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.keys import limit_of, mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.metrics import Metrics
from toolwire.gateway.prices import Prices
from toolwire.gateway.usage_ledger import IN_PROCESS, UsageLedger
from toolwire.gateway.usage_tables import UsageTables
from toolwire.testing import Cut, Fail, Scenario, Wait, simulate
from toolwire.testing.server import SimulatedModel
from toolwire.types import Error

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
ASKED = [{"role": "user", "content": "Hello"}]


class Counted(NamedTuple):
    """A gateway that counts usage, a key without limits, an admin key, and the file of its database."""

    stood: Stood
    model: SimulatedModel
    key: str
    admin: str
    ledger: LimitLedger
    file: Path

    def ask(self, path: str, body: dict[str, Any], key: str | None = None, **headers: str) -> int:
        """Post a body with a key."""
        keys = {"x-api-key": key or self.key}
        return post(self.stood.url, path, json.dumps(body).encode(), {**keys, **headers}).status

    def rows(self) -> list[dict[str, Any]]:
        """Read the rows, once all are written."""
        usage: Any = self.stood.gateway.context.usage
        self.stood.settle()
        until(lambda: usage.size == 0)
        with contextlib.closing(sqlite3.connect(self.file)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute("SELECT * FROM toolwire_usage ORDER BY id")]

    def usage(self, query: str = "", key: str | None = None) -> Any:
        """Ask for the usage as an admin does."""
        answered = send(self.stood.url, "GET", f"/toolwire/usage{query}", None, {"x-api-key": key or self.admin})
        return json.loads(answered.data) if answered.status == 200 else (answered.status, answered.data.decode())


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    monkeypatch.setattr("toolwire.gateway.accounts.FRESH", FRESH)
    monkeypatch.setattr("toolwire.gateway.accounts._FLUSH", FLUSH)
    monkeypatch.setattr("toolwire.gateway.usage_ledger._DELAY", 0.05)
    file = tmp_path / "gateway.db"
    url = f"sqlite:///{file}"
    ledger, accounts, tables = LimitLedger(url), Accounts(LimitLedger(url)), UsageTables(url)
    text, key = mint("ci", (), (), time.time(), None, team="core", user="ann")
    admin, boss = mint("boss", (), (), time.time(), None, is_admin=True)
    ledger.add(key)
    ledger.add(boss)
    prices = Prices({"openai/m": PriceSettings(1.0, 4.0)})
    tools: dict[str, Any] = {"accounts": accounts, "prices": prices, "usage": UsageLedger(lambda: tables)}
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        away = at("http://127.0.0.1:1", "openai").with_options(name="away")
        routes = '[routes.both]\nto = ["away/m", "openai/m"]\n[routes.joined]\nto = ["openai/m"]\ncontinue = true\n'
        with standing(model.url, routes, {"away": away}, **tools) as stood:
            stood.gateway.shows_usage = True
            yield Counted(stood, model, text, admin, ledger, file)
    ledger.close()


CASES: dict[str, tuple[str, dict[str, Any], Any, dict[str, Any]]] = {
    "a whole answer": (
        CHAT,
        {"model": "openai/m", "messages": ASKED},
        ["Hello."],
        {"wire": "openai-chat", "action": "answer", "provider": "openai", "model": "openai/m", "asked": "openai/m"},
    ),
    "a stream": (CHAT, {"model": "openai/m", "messages": ASKED, "stream": True}, ["Hello."], {"estimated": 1}),
    "a stream that breaks": (
        CHAT,
        {"model": "openai/m", "messages": ASKED, "stream": True},
        [["Hello. " * 40, Cut()]],
        {"status": 200, "ending": "broke off", "estimated": 1},
    ),
    "a stream that goes on": (
        CHAT,
        {"model": "joined", "messages": ASKED, "stream": True},
        [["Hello. " * 40, Cut()], "And more."],
        {"asked": "joined", "model": "openai/m", "ending": "continued"},
    ),
    "a provider's error": (
        CHAT,
        {"model": "openai/m", "messages": ASKED},
        [Fail(Error("server", "broken", 500))],
        {"status": 500, "ending": "error", "provider": "openai", "model": "", "asked": "openai/m", "cost_nano": 0},
    ),
    "another wire": (
        MESSAGES,
        {"model": "openai/m", "max_tokens": 9, "messages": ASKED, "top_k": 3},
        ["Hello."],
        {"wire": "anthropic", "provider": "openai", "semantic_losses": 1},
    ),
    "the next provider": (
        CHAT,
        {"model": "both", "messages": ASKED},
        ["Hello."],
        {"asked": "both", "provider": "openai", "model": "openai/m", "status": 200},
    ),
    "a count of tokens": (
        f"{MESSAGES}/count_tokens",
        {"model": "openai/m", "messages": ASKED},
        [],
        {"action": "count", "model": "", "asked": "openai/m", "input_tokens": 0},
    ),
    "a model that is unknown": (
        CHAT,
        {"model": "nobody/m", "messages": ASKED},
        [],
        {"status": 404, "asked": "", "provider": "", "model": "", "ending": "error"},
    ),
    "a body that is none": (CHAT, {"messages": ASKED}, [], {"status": 400, "asked": ""}),
}


@pytest.mark.parametrize("case", CASES)
def test_each_request_has_one_row_that_says_what_the_log_says(counted: Counted, case: str) -> None:
    path, body, scenario, expected = CASES[case]
    counted.model.play(Scenario(scenario))
    counted.ask(path, body, session_id="s1")
    [row] = counted.rows()
    [record] = counted.stood.seen.first(1)
    assert {name: row[name] for name in expected} == expected
    assert (row["request"], row["key"], row["key_name"]) == (record["request"], record["key"], "ci")
    assert (row["team"], row["user_name"], row["requests"]) == ("core", "ann", 1)
    assert row["input_tokens"] == (record["input_tokens"] or 0)
    assert row["output_tokens"] == (record["output_tokens"] or 0)
    assert row["cost_nano"] == round(record["cost"] * 1e9)
    assert [row["status"], row["ending"], row["seconds"]] == [record["status"], record["ending"], record["seconds"]]
    assert 0 < row["first_byte"] <= row["seconds"]
    assert abs(row["time"] - time.time()) < 20
    assert row["session"] != "s1"


def test_embeddings_are_counted(counted: Counted) -> None:
    counted.ask("/v1/embeddings", {"model": "openai/m", "input": "x" * 400})
    [row] = counted.rows()
    assert (row["action"], row["provider"], row["requests"]) == ("other", "openai", 1)
    assert row["cost_nano"] == round(counted.stood.seen[0]["cost"] * 1e9)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_is_counted_once(counted: Counted, stream: bool) -> None:
    counted.model.play(Scenario([[*["Hello. " * 10] * stream, Wait(20), "More."]]))

    class Door:
        port = int(counted.stood.url.rpartition(":")[2])

    body = json.dumps({"model": "openai/m", "messages": ASKED, "stream": stream}).encode()
    asked: Any = Asked(Door, counted.key, body)  # type: ignore[arg-type]
    if stream:
        asked.until(b"Hello")
    else:
        until(lambda: bool(counted.model.requests and counted.model.requests[0].status))
    asked.leave()
    counted.stood.seen.first(1)
    [row] = counted.rows()
    assert (row["ending"], row["model"], row["estimated"]) == ("client gone", "openai/m", 1)
    assert row["status"] == (200 if stream else 0)
    assert row["input_tokens"] > 0
    assert (row["first_byte"] is None) is not stream


def test_each_turn_of_a_websocket_is_counted_once(counted: Counted) -> None:
    with opened(counted.stood.url, authorization=f"Bearer {counted.key}") as socket:
        create(socket, input="Hello", generate=False)
        heard(socket)
        for words in ("One", "Two"):
            create(socket, input=words)
            heard(socket)
    rows = counted.rows()
    assert [(row["wire"], row["action"], row["model"]) for row in rows] == [
        ("openai-responses", "answer", "anthropic/m")
    ] * 2
    assert all(row["key_name"] == "ci" and row["ending"] == "answer" for row in rows)


def test_what_asks_no_model_or_has_no_key_has_no_row(counted: Counted) -> None:
    url, key = counted.stood.url, {"x-api-key": counted.key}
    assert post(url, CHAT, json.dumps({"model": "openai/m", "messages": ASKED}).encode()).status == 401
    assert send(url, "GET", "/v1/models", None, key).status == 200
    assert send(url, "GET", "/nothing", None, key).status == 404
    assert send(url, "GET", CHAT, None, key).status == 405
    assert post(url, "/v1/conversations", b"{}", key).status == 200
    assert counted.rows() == []


def test_refusals_that_are_equal_share_a_row_and_all_of_them_count(counted: Counted) -> None:
    text, key = mint("limited", (), [limit_of("requests", "1/day")], time.time(), None)
    counted.ledger.add(key)
    asked = {"model": "openai/m", "messages": ASKED}
    assert [counted.ask(CHAT, asked, text) for _ in range(9)] == [200] + [429] * 8
    rows = counted.rows()
    assert sum(row["requests"] for row in rows) == 9
    assert {(row["status"], row["provider"]) for row in rows} == {(200, "openai"), (429, "")}
    assert len(rows) < 9
    [told] = counted.usage("?by=key&key_name=limited")
    assert told["requests"] == 9


def test_sessions_of_clients_are_told_apart_and_cannot_be_read(counted: Counted) -> None:
    about = {"model": "anthropic/m", "max_tokens": 9, "messages": ASKED}
    user = "user_1_account__session_" + "c" * 36
    counted.ask(MESSAGES, {**about, "metadata": {"user_id": user}})
    counted.ask(MESSAGES, about, **{"x-session-id": "c" * 36})
    counted.ask(MESSAGES, about, **{"x-session-id": "d" * 36})
    counted.ask(MESSAGES, {**about, "metadata": {"user_id": 7}})
    counted.ask(RESPONSES, {"model": "openai/m", "input": "x", "prompt_cache_key": "c" * 36})
    counted.ask(MESSAGES, about, counted.admin, **{"x-session-id": "c" * 36})
    sessions = [row["session"] for row in counted.rows()]
    assert sessions[0] == sessions[1] == sessions[4] != ""
    assert len(set(sessions)) == 4, "another session, none, and the same name with another key"
    assert sessions[3] == ""
    assert {len(session) for session in sessions} == {0, 16}


def test_an_admin_key_reads_usage_and_no_other_does(counted: Counted) -> None:
    counted.ask(CHAT, {"model": "openai/m", "messages": ASKED})
    counted.ask(CHAT, {"model": "openai/m", "messages": ASKED})
    counted.ask(MESSAGES, {"model": "anthropic/m", "max_tokens": 9, "messages": ASKED}, counted.admin)
    told = counted.usage("?by=key,model&since=1d")  # rows that wait are written first
    assert [(row["key"], row["model"], row["requests"]) for row in told] == [
        ("ci", "openai/m", 2),
        ("boss", "anthropic/m", 1),
    ]
    assert [*told[0]] == ["key", "model", "requests", "input_tokens", "output_tokens", "cached_tokens", "cost"]
    records = [record for record in counted.stood.seen if record["key_name"] == "ci"]
    assert told[0]["input_tokens"] == sum(record["input_tokens"] for record in records)
    assert told[0]["output_tokens"] == sum(record["output_tokens"] for record in records)
    assert told[0]["cost"] == pytest.approx(sum(record["cost"] for record in records))
    assert counted.usage() == told, "by key and model, of all times"
    assert [row["team"] for row in counted.usage("?by=team")] == ["core", ""]
    assert [row["wire"] for row in counted.usage("?by=wire&team=core")] == ["openai-chat"]
    assert [row["user"] for row in counted.usage("?by=user&key_name=ci&key_name=boss&since=1h")] == ["ann", ""]
    status, error = counted.usage(key=counted.key)
    assert (status, "toolwire keys create --admin" in error) == (403, True)
    assert send(counted.stood.url, "GET", "/toolwire/usage", None).status == 401
    counted.stood.gateway.shows_usage = False
    status, error = counted.usage()
    assert (status, "[admin]" in error) == (404, True)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("?by=mdel", "did you mean model?"),
        ("?by=,", "must name columns"),
        ("?since=yesterday", "since must be a time such as 7d"),
        ("?until=2026-13-01", "until must be a time such as 7d"),
        ("?since=1d&until=2d", "is not after since"),
        ("?since=100000000d", "since must be a time"),
        ("?sinc=1d", "did you mean since?"),
        ("?since=2001-01-01T05:00", "name a whole day, such as 2001-01-01"),
        ("?since=%00%ff", "since must be a time"),
    ],
)
def test_a_question_that_cannot_be_read_is_told_what_would_be_right(counted: Counted, query: str, error: str) -> None:
    status, told = counted.usage(query)
    assert status == 400
    assert error in json.loads(told)["error"]["message"]


def test_no_text_of_a_client_is_in_the_ledger_the_metrics_or_the_log(counted: Counted) -> None:
    used: list[str] = []

    def one() -> str:
        used.append(f"canary{secrets.token_hex(8)}")
        return used[-1]

    metrics = Metrics(lambda: counted.stood.gateway.context.routes.providers, lambda: 0)
    usage: Any = counted.stood.gateway.context.usage
    metrics.others.append(usage.collect)
    counted.stood.gateway.observers.append(metrics.observe)
    tool = {"name": f"t{one()}", "description": one(), "parameters": {"type": "object", "properties": {one(): {}}}}
    used.append(pasted := f"sk-{secrets.token_hex(24)}")  # a key in place of a model
    for model in ("openai/m", f"openai/{pasted}", f"{one()}/m", one(), ""):
        chat = {
            "model": model,
            "messages": [{"role": "system", "content": one()}, {"role": "user", "content": one(), "name": one()}],
            "tools": [{"type": "function", "function": tool}],
            "user": one(),
            "metadata": {one(): one()},
            "prompt_cache_key": one(),
            "stop": [one()],
            one(): one(),
        }
        messages = {
            "model": model,
            "max_tokens": 9,
            "system": one(),
            "messages": [{"role": "user", "content": one()}],
            "metadata": {"user_id": f"user_{one()}_session_{one()}"},
        }
        headers = {"session_id": one(), "user-agent": one(), "x-request-id": one(), "anthropic-beta": one()}
        counted.ask(CHAT, chat, **headers)
        counted.ask(MESSAGES, messages, **{"x-session-id": one(), "cookie": one()})
        gemini = {"contents": [{"role": "user", "parts": [{"text": one()}]}]}
        counted.ask(f"/v1beta/models/{model or one()}:generateContent?q={one()}", gemini)
        counted.ask("/v1/embeddings", {"model": model, "input": one(), "user": one()})
    key = {"x-api-key": counted.key}
    assert post(counted.stood.url, f"/v1beta/models/{one()}:generateContent", b"{", key).status == 400
    assert send(counted.stood.url, "GET", f"/v1/models/{one()}", None, key).status == 404
    rows = counted.rows()
    assert len(rows) > 10
    told = json.dumps([rows, list(counted.stood.seen), counted.usage("?by=key,model,provider")])
    with contextlib.closing(sqlite3.connect(counted.file)) as database:
        told += "".join(database.iterdump())
    told += metrics.render().decode()
    assert "openai/m" in told
    assert "toolwire_usage_rows_waiting 0.0" in told
    assert [secret for secret in used if secret in told] == []
    assert counted.key not in told
    assert KEY not in told


def test_the_settings_decide_where_usage_is_stored_and_who_reads_it(tmp_path: Path) -> None:
    def made(text: str) -> tuple[Any, UsageLedger]:
        settings = read_settings(text)
        path = str(tmp_path / "toolwire.toml")
        gateway = starting.gateway_of(starting.routes_of(settings, path, {}), settings, path)
        assert gateway.context.usage is not None
        return gateway, gateway.context.usage

    gateway, ledger = made("")
    assert (gateway.shows_usage, ledger._in_process, ledger._seconds) == (True, True, 86_400.0)
    gateway, ledger = made('[server]\ndatabase = "sqlite:///k.db"\n[usage]\nkeep = "7d"\n')
    assert (gateway.shows_usage, ledger._in_process, ledger._seconds) == (False, False, 7 * 86_400.0)
    gateway, _ = made('[server]\ndatabase = "sqlite:///k.db"\n[admin]\non = true\n')
    assert gateway.shows_usage
    assert b"toolwire_usage_rows_lost_total 0.0" in gateway.metrics()


def test_without_a_database_usage_is_in_the_process() -> None:
    usage = UsageLedger(lambda: UsageTables(IN_PROCESS, sums=False), in_process=True)
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model, standing(model.url, usage=usage) as stood:
        stood.gateway.shows_usage = True
        for _ in range(3):
            post(stood.url, CHAT, json.dumps({"model": "openai/m", "messages": ASKED}).encode())
        stood.settle()
        answered = send(stood.url, "GET", "/toolwire/usage?by=model,day", None)
        [row] = json.loads(answered.data)
        assert (row["model"], row["requests"]) == ("openai/m", 3)
        assert json.loads(send(stood.url, "GET", "/toolwire/usage?until=1d", None).data) == []


def test_what_is_answered_while_the_gateway_stops_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.gateway.usage_ledger._DELAY", 60.0)
    url = f"sqlite:///{tmp_path / 'u.db'}"
    tables = UsageTables(url)
    usage = UsageLedger(lambda: tables)
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model, standing(model.url, usage=usage) as stood:
        for _ in range(5):
            post(stood.url, CHAT, json.dumps({"model": "openai/m", "messages": ASKED}).encode())
        stood.settle()
        assert usage.size == 5
    with contextlib.closing(sqlite3.connect(tmp_path / "u.db")) as database:
        assert database.execute("SELECT sum(requests) FROM toolwire_usage_days").fetchone() == (5,)
