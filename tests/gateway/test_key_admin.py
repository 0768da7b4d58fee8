"""Keys over HTTP: an admin key manages keys, and nobody else; each change is in force in every process."""

import http.client
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.cli.test_serve import first_line, program
from tests.gateway.standing import KEY, Answered, Stood, send, standing
from tests.gateway.test_accounts import url
from tests.gateway.test_keys import ask, until
from toolwire.cli import main
from toolwire.config import PriceSettings
from toolwire.gateway import budget_alerts
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.app import AllowedOrigins
from toolwire.gateway.key_admin import PATH
from toolwire.gateway.key_json import KINDS, KeySettings
from toolwire.gateway.keys import mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.metrics import Metrics
from toolwire.gateway.prices import Prices
from toolwire.testing import simulate
from toolwire.testing.server import SimulatedModel

__all__ = ["url"]

FRESH = 0.3


class Managed(NamedTuple):
    """Two gateways on one database, an admin key, and the events that they logged."""

    first: Stood
    second: Stood
    ledger: LimitLedger
    admin: str
    events: list[dict[str, Any]]
    model: SimulatedModel

    def call(self, method: str, path: str = "", body: Any = None, key: str | None = None, **headers: str) -> Answered:
        """Send a request to the first gateway, with the admin key unless `key` is another one."""
        return call(self.first, method, path, body, self.admin if key is None else key, **headers)

    def create(self, name: str, **settings: Any) -> dict[str, Any]:
        """Create a key."""
        answered = self.call("POST", body={"name": name, **settings})
        assert answered.status == 201, answered
        created: dict[str, Any] = json.loads(answered.data)
        return created


def call(stood: Stood, method: str, path: str = "", body: Any = None, key: str = "", **headers: str) -> Answered:
    """Send a request under `/toolwire/keys`."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    credentials = {"x-api-key": key} if key else {}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return send(stood.url, method, f"{PATH}{path}", data, credentials | given)


def error_in(answered: Answered) -> str:
    """Return the message of an error."""
    message: str = json.loads(answered.data)["error"]["message"]
    return message


@pytest.fixture
def managed(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Managed]:
    monkeypatch.setattr("toolwire.gateway.accounts.FRESH", FRESH)
    monkeypatch.setattr("toolwire.gateway.accounts._FLUSH", 0.02)
    monkeypatch.setattr(budget_alerts, "_PAUSE", 0.02)
    ledger, events = LimitLedger(url), list[dict[str, Any]]()
    text, admin = mint("root", (), (), time.time(), None, is_admin=True)
    ledger.add(admin)
    prices = Prices({"openai/m": PriceSettings(1.0, 4.0)})
    with (
        simulate(lambda _request, _turn: "Hello.", strict=False) as model,
        standing(model.url, accounts=Accounts(LimitLedger(url)), prices=prices) as first,
        standing(model.url, accounts=Accounts(LimitLedger(url)), prices=prices) as second,
    ):
        for one in (first, second):
            one.gateway.admin = True
            one.gateway.log_event = lambda event: events.append(msgspec.to_builtins(event))
        yield Managed(first, second, ledger, text, events, model)
    ledger.close()


@pytest.mark.row("O4")
def test_a_key_is_created_and_shown_once(managed: Managed) -> None:
    settings = {
        "team": "core",
        "user": "ann",
        "models": ["openai/*"],
        "limits": {"requests": "5/day", "budget": "20/month"},
        "alert": "80%",
        "expires": "30d",
    }
    answered = managed.call("POST", body={"name": "ci", **settings})
    created = json.loads(answered.data)
    text = created.pop("key")
    assert (answered.status, answered.headers["location"]) == (201, f"{PATH}/{created['id']}")
    assert answered.headers["cache-control"] == "no-store"
    assert created["id"] == text[3:11]
    shown = managed.call("GET", f"/{created['id']}")
    assert json.loads(shown.data) == created
    assert (created["name"], created["team"], created["user"], created["alert"]) == ("ci", "core", "ann", "80%")
    assert (created["admin"], created["state"]) == (False, "active")
    assert (created["limits"], created["models"]) == ({"requests": "5/day", "budget": "20/month"}, ["openai/*"])
    assert created["taken"] == {"requests": 0, "budget": 0.0}
    for _ in range(2):
        assert ask(managed.second.url, text).status == 200
    until(lambda: json.loads(managed.call("GET", f"/{created['id']}").data)["taken"]["budget"] > 0)
    assert json.loads(managed.call("GET", f"/{created['id']}").data)["taken"]["requests"] == 2
    assert ask(managed.second.url, text, "anthropic/m").status == 403
    listed = managed.call("GET")
    assert [one["name"] for one in json.loads(listed.data)["keys"]] == ["root", "ci"]
    for answer in (shown, listed):
        assert text[11:] not in answer.data.decode()
        assert "hash" not in answer.data.decode()
    assert send(managed.first.url, "HEAD", PATH, None, {"x-api-key": managed.admin}).data == b""


def test_keys_are_listed_in_pages(managed: Managed) -> None:
    ids = [managed.create(f"k{number}")["id"] for number in range(5)]
    first = json.loads(managed.call("GET", "?limit=2").data)
    assert [one["name"] for one in first["keys"]] == ["root", "k0"]
    second = json.loads(managed.call("GET", f"?limit=4&after={first['next']}").data)
    assert [one["id"] for one in second["keys"]] == ids[1:]
    assert second["next"] is None
    for query, message in (
        ("limit=0", "limit must be a number from 1 to 1000"),
        ("limit=1001", "limit must be a number from 1 to 1000"),
        ("limit=x", "limit must be a number from 1 to 1000"),
        ("after=nobody", "after must be the id of a key"),
        ("after=%00", "after must be the id of a key"),
        ("after=aaaaaaaa", "after must be the id of a key"),
        ("aftr=x", "'aftr' is no parameter of a list of keys; did you mean after?"),
    ):
        answered = managed.call("GET", f"?{query}")
        assert (answered.status, message in error_in(answered)) == (400, True), answered


def test_keys_that_were_created_at_the_same_time_are_each_listed_once(managed: Managed) -> None:
    keys = [mint(f"k{number}", (), (), 1.0, None)[1] for number in range(5)]
    for key in keys:
        managed.ledger.add(key)
    listed, after = list[str](), ""
    for _ in range(6):
        page = json.loads(managed.call("GET", f"?limit=1&after={after}").data)
        listed += [one["id"] for one in page["keys"]]
        after = page["next"]
    assert listed == [*sorted(key.id for key in keys), managed.admin[3:11]]
    assert after is None


@pytest.mark.row("O5")
def test_a_change_is_in_force_in_every_process_within_a_second(managed: Managed) -> None:
    created = managed.create("ci", limits={"requests": "100/day", "tokens": "100000/day"})
    key, path = created["key"], f"/{created['id']}"
    assert [ask(one.url, key).status for one in (managed.first, managed.second)] == [200, 200]
    changed = managed.call("PATCH", path, {"models": ["anthropic/*"], "limits": {"tokens": None}, "team": "core"})
    assert changed.status == 200
    record = json.loads(changed.data)
    assert (record["models"], record["limits"], record["team"]) == (["anthropic/*"], {"requests": "100/day"}, "core")
    assert ask(managed.first.url, key).status == 403
    until(lambda: ask(managed.second.url, key).status == 403)
    assert managed.call("PATCH", path, {"models": None, "limits": None, "team": None}).status == 200
    record = json.loads(managed.call("GET", path).data)
    assert (record["models"], record["limits"], record["team"]) == (["*"], {}, "")
    assert ask(managed.first.url, key).status == 200
    revoked = managed.call("DELETE", path)
    assert (revoked.status, json.loads(revoked.data)["state"]) == (200, "revoked")
    assert managed.call("DELETE", path).data == revoked.data, "to revoke a key twice changes nothing"
    assert ask(managed.first.url, key).status == 401
    time.sleep(FRESH)
    assert ask(managed.second.url, key).status == 401


def test_what_is_shown_can_be_sent_back(managed: Managed) -> None:
    settings = {"models": ["openai/*"], "limits": {"budget": "0.5/hour", "tokens": "10/min"}, "expires": "30d"}
    created = managed.create("ci", alert="50%", **settings)
    names = ("name", "team", "user", "admin", "models", "limits", "alert", "expires")
    changed = managed.call("PATCH", f"/{created['id']}", {name: created[name] for name in names})
    assert json.loads(changed.data) == {name: value for name, value in created.items() if name != "key"}


WRONG: list[tuple[Any, str]] = [
    (b"", "body: is not JSON: it is empty"),
    (b"{", "is not JSON"),
    (b"\xff", "is not JSON"),
    (b"[" * 30_000, "is not JSON"),
    ([], "body: must be a JSON object"),
    (b'{"name": "a", "name": "b"}', "has the key 'name' twice"),
    ({"name": "ci", "budgets": "20/day"}, "'budgets' is no field of a key that can be set"),
    ({"name": "ci", "alrt": "80%"}, "did you mean alert?"),
    ({"name": "ci", "id": "abcdefgh"}, "'id' is no field"),
    ({"name": "ci", "is_admin": True}, "did you mean admin?"),
    ({"name": "ci", "key": "tw-mine"}, "'key' is no field"),
    ({"name": 5}, "name: Expected `str`, got `int`"),
    ({"name": ""}, "name must be a text of 1 to 100 characters"),
    ({"name": "a\nb"}, "name must be a text of 1 to 100 characters"),
    ({"name": "x" * 101}, "name must be a text of 1 to 100 characters"),
    ({"name": "ci", "admin": "yes"}, "admin: Expected `bool`, got `str`"),
    ({"name": "ci", "admin": None}, "admin: Expected `bool`, got `null`"),
    ({"name": "ci", "models": []}, 'models must name a model; null or ["*"] allows every model'),
    ({"name": "ci", "models": ["a b"]}, "models must be names of 1 to 256 characters, without white space"),
    ({"name": "ci", "models": ["m"] * 1001}, "models must be at most 1000 names"),
    ({"name": "ci", "models": "openai/*"}, "models: Expected `array | null`, got `str`"),
    ({"name": "ci", "limits": {"request": "5/day"}}, "'request' is no field of limits; did you mean requests?"),
    ({"name": "ci", "limits": {"requests": "5/week"}}, "requests must be a limit such as 60/min"),
    ({"name": "ci", "limits": {"requests": 5}}, "limits"),
    ({"name": "ci", "alert": "80%"}, "alert needs a budget"),
    ({"name": "ci", "limits": {"budget": "1/day"}, "alert": "0"}, "alert must be a part of the budget from 1% to 100%"),
    ({"name": "ci", "expires": "soon"}, "expires must be a time such as 30s, 15m, 24h or 7d"),
    ({"name": "ci", "expires": "0d"}, "expires must be more than 0 seconds from now"),
    ({"name": "ci", "expires": "2020-01-01T00:00:00Z"}, "expires must be more than 0 seconds from now"),
    ({"name": "ci", "expires": "2099-01-01T00:00:00"}, "expires must have a zone"),
    ({"name": "ci", "expires": "9999999d"}, "expires"),
    ({"name": "ci", "expires": "9" * 400 + "d"}, "expires"),
    ({"name": "ci", "team": "x" * 101}, "team must be a printable text of at most 100 characters"),
    ({"name": "ci", "user": "\u0000"}, "user must be a printable text"),
    ({"team": "core"}, "name is missing"),
]


def test_a_body_that_is_wrong_is_rejected_and_changes_nothing(managed: Managed) -> None:
    created = managed.create("other")
    before = managed.call("GET").data
    for body, message in WRONG:
        answered = managed.call("POST", body=body)
        assert (answered.status, message in error_in(answered)) == (400, True), (body, answered)
        if message != "name is missing":
            answered = managed.call("PATCH", f"/{created['id']}", body)
            assert (answered.status, message in error_in(answered)) == (400, True), (body, answered)
    large = json.dumps({"name": "ci", "models": ["m" * 200] * 400}).encode()
    for method, path in (("POST", ""), ("PATCH", f"/{created['id']}")):
        assert managed.call(method, path, large).status == 413
        assert managed.call(method, path, b"{}", content_encoding="gzip").status == 415
    assert managed.call("GET").data == before


@pytest.mark.row("O2", "O4")
def test_nobody_but_an_admin_key_manages_keys(managed: Managed) -> None:
    normal = managed.create("ci")
    other = managed.create("second", admin=True)
    expired = mint("old", (), (), time.time(), time.time() - 1, is_admin=True)
    managed.ledger.add(expired[1])
    path = f"/{normal['id']}"
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("POST", "", {"name": "x"}),
        ("GET", path, None),
        ("DELETE", path, None),
    ]
    calls.append(("PATCH", path, {"admin": True}))
    assert managed.call("DELETE", f"/{other['id']}").status == 200
    time.sleep(FRESH)
    before = managed.ledger.listed()
    for method, where, body in calls:
        refused = managed.call(method, where, body, key=normal["key"])
        assert (refused.status, "this needs an admin key" in error_in(refused)) == (403, True)
        for key in (other["key"], expired[0], "tw-none", normal["key"][:-1]):
            assert managed.call(method, where, body, key=key).status == 401, key
        assert call(managed.first, method, where, body).status == 401
        cookie = {"cookie": f"key={managed.admin}; x-api-key={managed.admin}; authorization=Bearer {managed.admin}"}
        assert call(managed.first, method, where, body, **cookie).status == 401
        assert call(managed.first, method, f"{where}?key={managed.admin}", body, managed.admin).status == 401
        basic = send(managed.first.url, method, f"{PATH}{where}", None, {"authorization": f"Basic {managed.admin}"})
        assert basic.status == 401
    assert managed.ledger.listed() == before


@pytest.mark.row("O2")
def test_each_path_has_its_methods_and_no_other(managed: Managed) -> None:
    created = managed.create("ci")
    paths = {"": {"GET", "HEAD", "POST"}, f"/{created['id']}": {"GET", "HEAD", "PATCH", "DELETE"}}
    for path, methods in paths.items():
        for method in {"PUT", "PATCH", "DELETE", "POST", "OPTIONS", "TRACE", "QUERY"} - methods:
            answered = managed.call(method, path, b"{}")
            assert (answered.status, set(answered.headers["allow"].split(", "))) == (405, methods)
            assert f"{method} is not possible on {PATH}{path}" in error_in(answered)
    missing = ["/", "/abcdefgh", "/abcdefgh/", f"/{created['id']}/x", "/..", "/%2e%2e", "/ci", f"/{created['id']}%00"]
    for path in missing:
        for method in ("GET", "PATCH", "DELETE"):
            assert managed.call(method, path, b"{}" if method == "PATCH" else None).status == 404, path
    assert [one.state(time.time()) for one in managed.ledger.listed()] == ["active", "active"]


@pytest.mark.row("O4")
def test_without_the_setting_no_key_is_managed_over_http(managed: Managed) -> None:
    managed.first.gateway.admin = False
    for method, path in (("GET", ""), ("POST", ""), ("GET", "/abcdefgh"), ("DELETE", "/abcdefgh")):
        refused = managed.call(method, path, b'{"name": "x"}' if method == "POST" else None)
        assert (refused.status, "[admin] is not on in the settings" in error_in(refused)) == (404, True)
    assert len(managed.ledger.listed()) == 1


@pytest.mark.row("O25")
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "https://app.example"},
        {"origin": "http://localhost:3000"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "same"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "same-origin"},
    ],
)
def test_no_page_in_a_browser_manages_keys(headers: dict[str, str], managed: Managed) -> None:
    managed.first.gateway.allowed_origins = AllowedOrigins(origins=("https://app.example",))
    headers = {name: managed.first.url if text == "same" else text for name, text in headers.items()}
    for method, body in (("GET", None), ("POST", {"name": "x"}), ("OPTIONS", None)):
        refused = managed.call(method, "", body, access_control_request_method="POST", **headers)
        assert (refused.status, "web pages cannot manage keys" in error_in(refused)) == (403, True)
        assert not [name for name in refused.headers if name.startswith("access-control")]
    assert len(managed.ledger.listed()) == 1
    assert managed.call("GET", "", None, sec_fetch_site="none").status == 200


def test_a_name_belongs_to_one_key_in_force(managed: Managed) -> None:
    first, other = managed.create("ci"), managed.create("other")
    refused = managed.call("POST", body={"name": "ci"})
    assert (refused.status, f"'ci' is the name of the key {first['id']}" in error_in(refused)) == (409, True)
    refused = managed.call("PATCH", f"/{other['id']}", {"name": "ci"})
    assert (refused.status, f"'ci' is the name of the key {first['id']}" in error_in(refused)) == (409, True)
    assert managed.call("PATCH", f"/{other['id']}", {"name": "other"}).status == 200
    assert managed.call("DELETE", f"/{first['id']}").status == 200
    assert json.loads(managed.call("PATCH", f"/{other['id']}", {"name": "ci"}).data)["name"] == "ci"
    refused = managed.call("PATCH", f"/{first['id']}", {"team": "core"})
    assert (refused.status, "is revoked, and cannot be changed" in error_in(refused)) == (409, True)


def test_the_name_of_an_expired_key_is_free_until_it_is_in_force_again(managed: Managed) -> None:
    _, old = mint("ci", (), (), time.time() - 10, time.time() - 5)
    managed.ledger.add(old)
    created = managed.create("ci")
    refused = managed.call("PATCH", f"/{old.id}", {"expires": "1d"})
    assert (refused.status, f"'ci' is the name of the key {created['id']}" in error_in(refused)) == (409, True)
    extended = managed.call("PATCH", f"/{old.id}", {"expires": "1d", "name": "old"})
    assert (extended.status, json.loads(extended.data)["state"]) == (200, "active")


def test_of_keys_of_one_name_that_are_created_at_once_one_is_created(managed: Managed) -> None:
    gateways = [managed.first, managed.second] * 8

    def create(stood: Stood) -> int:
        return call(stood, "POST", "", {"name": "ci"}, managed.admin).status

    with ThreadPoolExecutor(16) as pool:
        statuses = sorted(pool.map(create, gateways))
    assert statuses == [201] + [409] * 15
    assert [key.name for key in managed.ledger.listed()].count("ci") == 1


def test_changes_of_one_key_at_once_are_all_kept(managed: Managed) -> None:
    created = managed.create("ci")
    changes: list[dict[str, Any]] = [{"team": "core"}, {"user": "ann"}, {"models": ["openai/*"]}, {"expires": "1d"}]
    changes += [{"limits": {kind: "5/day"}} for kind in ("requests", "tokens", "budget")]
    with ThreadPoolExecutor(8) as pool:
        sent = [
            pool.submit(call, stood, "PATCH", f"/{created['id']}", body, managed.admin)
            for body, stood in zip(changes, [managed.first, managed.second] * 4, strict=False)
        ]
        assert {one.result().status for one in sent} == {200}
    record = json.loads(managed.call("GET", f"/{created['id']}").data)
    assert (record["team"], record["user"], record["models"]) == ("core", "ann", ["openai/*"])
    assert record["expires"]
    assert record["limits"] == {"requests": "5/day", "tokens": "5/day", "budget": "5/day"}


@pytest.mark.row("O4")
def test_the_last_admin_key_stays(managed: Managed) -> None:
    root = managed.admin[3:11]
    for method, body in (("DELETE", None), ("PATCH", {"admin": False})):
        refused = managed.call(method, f"/{root}", body)
        assert (refused.status, f"{root} is the last admin key" in error_in(refused)) == (409, True)
    other = managed.create("second", admin=True)
    assert managed.call("PATCH", f"/{root}", {"admin": False}).status == 200
    assert managed.call("GET").status == 403
    assert managed.call("DELETE", f"/{other['id']}", key=other["key"]).status == 409
    assert managed.ledger.revoke(other["id"], time.time()) is not None, "an operator may revoke it"


@pytest.mark.row("O4")
def test_admin_keys_that_revoke_each_other_at_once_leave_one(managed: Managed) -> None:
    keys = [managed.admin, *[managed.create(f"admin{number}", admin=True)["key"] for number in range(5)]]
    gateways = [managed.first, managed.second] * 3

    def revoke(number: int) -> int:
        return call(gateways[number], "DELETE", f"/{keys[number - 1][3:11]}", None, keys[number]).status

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(revoke, range(6)))
    left = [key for key in managed.ledger.listed() if key.state(time.time()) == "active"]
    assert left
    assert len(left) == 6 - statuses.count(200)


@pytest.mark.row("O4", "O5")
@pytest.mark.parametrize(("method", "body"), [("DELETE", None), ("PATCH", {"admin": False})])
def test_a_revoked_admin_key_makes_no_key_in_the_second_in_which_it_still_works(
    method: str, body: Any, managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = managed.create("second", admin=True)
    monkeypatch.setattr("toolwire.gateway.accounts.FRESH", 60)
    assert call(managed.second, "GET", "", None, other["key"]).status == 200
    assert managed.call(method, f"/{other['id']}", body).status == 200
    assert call(managed.second, "GET", "", None, other["key"]).status == 200, "the control: it is cached there"
    before = managed.ledger.listed()
    for way, path, settings in (
        ("POST", "", {"name": "x", "admin": True}),
        ("PATCH", f"/{managed.admin[3:11]}", {"team": "x"}),
        ("DELETE", f"/{managed.admin[3:11]}", None),
    ):
        assert call(managed.second, way, path, settings, other["key"]).status == 401
    assert managed.ledger.listed() == before


@pytest.mark.row("O6", "O20")
def test_no_key_is_told_but_in_the_response_that_creates_it(managed: Managed) -> None:
    created = managed.create("ci", limits={"budget": "1/day"}, alert="1%", team=KEY)
    assert KEY not in str(created), "a secret of a provider is masked"
    managed.call("PATCH", f"/{created['id']}", {"team": "core"})
    managed.call("POST", body={"name": created["key"], "models": [managed.admin]}, key=created["key"])
    managed.call("DELETE", f"/{created['id']}")
    logged = json.dumps(managed.events) + json.dumps(managed.first.seen.first(4))
    rows = "".join(map(str, managed.ledger.listed()))
    for text in (managed.admin, created["key"]):
        assert text[11:] not in logged
        assert text[11:] not in rows
    assert [(one["event"], one["key"], one["key_name"], one["by_name"]) for one in managed.events] == [
        (event, created["id"], "ci", "root") for event in ("key_created", "key_changed", "key_revoked")
    ]


def test_requests_that_change_keys_count_against_the_limit_of_the_admin_key(managed: Managed) -> None:
    admin = managed.create("limited", admin=True, limits={"requests": "2/day"})
    sent = [managed.call("POST", body={"name": f"n{number}"}, key=admin["key"]).status for number in range(3)]
    assert sent == [201, 201, 429]
    assert managed.call("GET", key=admin["key"]).status == 200


def test_a_body_that_never_ends_holds_up_nobody(managed: Managed) -> None:
    place = urlsplit(managed.first.url)
    slow = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    slow.putrequest("POST", PATH)
    slow.putheader("x-api-key", managed.admin)
    slow.putheader("content-length", "100")
    slow.endheaders(b'{"name":')
    assert managed.create("ci")["name"] == "ci"
    slow.close()
    assert [key.name for key in managed.ledger.listed()] == ["root", "ci"]


@pytest.mark.row("O28")
def test_with_the_setting_only_an_admin_key_reads_metrics(managed: Managed) -> None:
    gateway = managed.first.gateway
    metrics = Metrics(lambda: gateway.context.routes.providers, lambda: gateway.running)
    gateway.metrics, gateway.observers = metrics.render, [metrics.observe]
    normal = managed.create("ci")["key"]
    assert ask(managed.first.url, normal).status == 200

    def read(key: str) -> Answered:
        return send(managed.first.url, "GET", "/metrics", None, {"x-api-key": key})

    until(lambda: b'toolwire_key_requests_total{key_name="ci",model="openai/m"} 1.0' in read(managed.admin).data)
    assert (read(normal).status, read("tw-none").status) == (403, 401)
    gateway.admin = False
    assert read(normal).status == 200


def _value_of_chance(dice: random.Random, depth: int = 0) -> Any:
    """Return a JSON value: nearly a setting, or nothing like one."""
    texts = ["", "x", "60/min", "20/day", "80%", "30d", "2099-01-01T00:00:00Z", "T", "*"]
    plain = [*texts, "\u0000", "\U0001f511", "9" * 500, None, True, False, 0, -1, 1e308, 10**30, 0.5]
    if depth < 3 and dice.random() < 0.3:
        return [_value_of_chance(dice, depth + 1) for _ in range(dice.randrange(4))]
    if depth < 3 and dice.random() < 0.3:
        names = [*KINDS, "x", "", "\u0000"]
        return {dice.choice(names): _value_of_chance(dice, depth + 1) for _ in range(dice.randrange(4))}
    return dice.choice(plain)


def test_no_body_of_chance_is_a_fault(managed: Managed) -> None:
    dice = random.Random(1)  # noqa: S311 - the same ones each time
    names = [*KeySettings.__struct_fields__, "key", "id", "x"]
    victim = managed.create("victim")
    statuses = Counter[int]()
    for number in range(400):
        body: Any = {name: _value_of_chance(dice) for name in dice.sample(names, dice.randrange(4))}
        body |= {"name": f"n{number}"} if dice.random() < 0.7 else {}
        data = json.dumps(body if dice.random() < 0.9 else _value_of_chance(dice)).encode()
        data = data[: dice.randrange(len(data) + 1)] if dice.random() < 0.1 else data
        method, path = dice.choice([("POST", ""), ("PATCH", f"/{victim['id']}")])
        answered = managed.call(method, path, data)
        assert answered.status in (200, 201, 400, 409), (data, answered)
        statuses[answered.status] += 1
        if answered.status >= 400:
            assert error_in(answered)
    assert min(statuses[200], statuses[201], statuses[400]) > 20
    assert managed.call("GET", "?limit=1000").status == 200


SETTINGS = """
[server]
database = "{database}"
[admin]
on = true
[providers.local]
dialect = "openai-chat"
base_url = "{url}"
key = "$LOCAL_KEY"
[prices]
"local/m" = {{ input = 1.0, output = 4.0 }}
"""


@pytest.mark.slow
def test_processes_raise_an_alert_once_in_the_log_and_in_the_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "toolwire.toml"
    with simulate(lambda _request, _turn: "Hello.", strict=False) as model:
        file.write_text(SETTINGS.format(database="sqlite:///keys.db", url=model.url))
        assert main(["keys", "create", "--config", str(file), "--name", "root", "--admin"]) == 0
        admin = capsys.readouterr().out.strip()
        ran = [
            program("--quiet", "--config", str(file), "--listen", "127.0.0.1:0", LOCAL_KEY="local-secret")
            for _ in range(2)
        ]
        try:
            gateways = [Stood(first_line(one), None, None) for one in ran]  # type: ignore[arg-type]
            answered = call(
                gateways[0], "POST", "", {"name": "ci", "limits": {"budget": "0.001/day"}, "alert": "80%"}, admin
            )
            key = json.loads(answered.data)["key"]
            with ThreadPoolExecutor(8) as pool:
                asked = [
                    pool.submit(ask, gateways[number % 2].url, key, "local/m", max_tokens=20) for number in range(99)
                ]
                assert {one.result().status for one in asked} == {200, 429}
            series = 'toolwire_key_budget_alerts_total{key_name="ci"} '

            def alerts() -> list[str]:
                pages = [send(one.url, "GET", "/metrics", None, {"x-api-key": admin}).data.decode() for one in gateways]
                lines = "".join(pages).splitlines()
                return sorted(line.removeprefix(series) for line in lines if line.startswith(series))

            until(lambda: alerts() == ["0.0", "1.0"])
            assert call(gateways[0], "GET", "", None, admin).status == 200
            file.write_text(file.read_text().replace("on = true", "on = false"))
            ran[0].send_signal(signal.SIGHUP)
            until(lambda: call(gateways[0], "GET", "", None, admin).status == 404)
            usage = [send(one.url, "GET", "/toolwire/usage", None, {"x-api-key": admin}).status for one in gateways]
            assert usage == [404, 200]
        finally:
            for one in ran:
                one.send_signal(signal.SIGTERM)
            logs = "".join(one.communicate(timeout=40)[1] for one in ran)
    events = [json.loads(line) for line in logs.splitlines() if line.startswith('{"time"')]
    [created] = [one for one in events if one["event"] == "key_created"]
    [alert] = [one for one in events if one["event"] == "budget_alert"]
    assert (created["key"], created["by_name"]) == (key[3:11], "root")
    assert alert["time"]
    assert {name: alert[name] for name in ("key", "key_name", "budget", "alert")} == {
        "key": key[3:11],
        "key_name": "ci",
        "budget": "0.001/day",
        "alert": "80%",
    }
    assert 0.0008 <= alert["spent"] <= 0.001
    for text in (key, admin):
        assert text[11:] not in logs
