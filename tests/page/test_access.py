"""Who may see the page: hosts, other sites, links that work once, sessions, and what every answer forbids."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.page.client import Reply, ask
from toolwire.page import Hosts, PageApplication, Rejected, SignIn, Sources
from toolwire.page.app import HEADERS
from toolwire.records import Record

KEYS = {"tw-admin": "boss"}


async def check(credential: str) -> str:
    if credential not in KEYS:
        raise Rejected(401, "this key is unknown")
    return KEYS[credential]


@pytest.fixture
def now() -> list[float]:
    return [1_000_000.0]


@pytest.fixture
def guarded(now: list[float]) -> PageApplication:
    return PageApplication(Sources(), Hosts(), SignIn(check, lambda: now[0]))


def link_of(page: PageApplication) -> str:
    reply = ask(page, "/page/links", method="POST", headers={"authorization": "Bearer tw-admin"})
    assert reply.status == 200
    return str(reply.json["path"]).partition("link=")[2]


def sign_in(page: PageApplication) -> dict[str, str]:
    reply = ask(page, "/page/sign-in", form={"link": link_of(page)}, headers={"origin": "http://127.0.0.1:8080"})
    assert (reply.status, reply.headers["location"]) == (303, "/")
    return {"cookie": reply.headers["set-cookie"].partition(";")[0]}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "[::1]:8080", "LOCALHOST"])
def test_names_of_this_machine_are_answered(page: PageApplication, host: str) -> None:
    assert ask(page, "/", headers={"host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "", "a:b:c"])
def test_other_names_are_rejected(page: PageApplication, host: str) -> None:
    for url in ("/", "/page/paste?format=json", "/page/static/page.css", "/page/live"):
        assert ask(page, url, headers={"host": host}).status == 421


def test_the_name_of_a_reverse_proxy_is_allowed_by_the_settings() -> None:
    page = PageApplication(Sources(), Hosts(("models.example.com",)))
    assert ask(page, "/", headers={"host": "models.example.com"}).status == 200
    assert ask(page, "/", headers={"host": "other.example.com"}).status == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://localhost:8080"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_what_another_site_causes_is_rejected(page: PageApplication, headers: dict[str, str]) -> None:
    for url in ("/", "/page/paste?format=json", "/page/live"):
        assert ask(page, url, headers=headers).status == 403
    assert ask(page, "/page/paste", form={"body": "{}"}, headers=headers).status == 403


def test_our_own_forms_and_the_address_bar_are_answered(page: PageApplication) -> None:
    own = {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}
    assert ask(page, "/page/paste", form={"body": "{}"}, headers=own).status == 200
    assert ask(page, "/", headers={"sec-fetch-site": "none"}).status == 200


def test_nothing_is_shown_without_a_sign_in(guarded: PageApplication) -> None:
    for url in ("/", "/page/traffic", "/page/paste", "/page/paste?format=json", "/page/live", "/page/runs/x/answer"):
        reply = ask(guarded, url)
        assert reply.status == 401
        assert "aria-current" not in reply.text
    assert ask(guarded, "/page/static/page.css").status == 200


def test_a_link_works_once_and_shows_a_button_first(guarded: PageApplication) -> None:
    link = link_of(guarded)
    for _ in range(3):  # a mail program that opens links uses nothing up
        assert 'method="post"' in ask(guarded, f"/page/sign-in?link={link}").text
    first = ask(guarded, "/page/sign-in", form={"link": link})
    assert first.status == 303
    assert all(word in first.headers["set-cookie"] for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert ask(guarded, "/page/sign-in", form={"link": link}).status == 403
    cookie = {"cookie": first.headers["set-cookie"].partition(";")[0]}
    assert "Sign out boss" in ask(guarded, "/page/paste", headers=cookie).text


def test_a_link_is_for_admin_keys_alone(guarded: PageApplication) -> None:
    for headers in ({}, {"authorization": "Bearer tw-other"}, {"authorization": "tw-admin"}):
        reply = ask(guarded, "/page/links", method="POST", headers=headers)
        assert reply.status == 401
        assert "path" not in reply.json
    assert ask(guarded, "/page/links", headers={"authorization": "Bearer tw-admin"}).status == 404


def test_links_and_sessions_end(guarded: PageApplication, now: list[float]) -> None:
    link = link_of(guarded)
    now[0] += 601
    assert ask(guarded, "/page/sign-in", form={"link": link}).status == 403
    cookie = sign_in(guarded)
    assert ask(guarded, "/", headers=cookie).status == 200
    now[0] += 12 * 3600 + 1
    assert ask(guarded, "/", headers=cookie).status == 401


def test_a_revoked_key_ends_its_sessions(guarded: PageApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = sign_in(guarded)
    monkeypatch.delitem(KEYS, "tw-admin")
    assert ask(guarded, "/", headers=cookie).status == 401


def test_a_page_that_follows_the_traffic_ends_with_its_session(
    guarded: PageApplication, sources: Sources, recorded: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.sources = sources
    assert recorded
    monkeypatch.setattr("toolwire.page.app._CHECK_SECONDS", 0.1)
    cookie = sign_in(guarded)
    timer = threading.Timer(0.5, KEYS.pop, ["tw-admin"])
    monkeypatch.setitem(KEYS, "tw-admin", "boss")  # it is there again afterwards
    timer.start()
    began = time.monotonic()
    reply = ask(guarded, "/page/live", headers=cookie)
    assert (reply.status, 0.4 < time.monotonic() - began < 5, guarded.followers) == (200, True, 0)
    assert ask(guarded, "/page/live", headers=cookie).status == 401


def test_who_is_not_signed_in_sends_little(guarded: PageApplication) -> None:
    assert ask(guarded, "/page/sign-in", form={"link": "x" * 4097}).status == 413


def test_who_signs_out_is_out(guarded: PageApplication) -> None:
    cookie = sign_in(guarded)
    own = {**cookie, "origin": "http://127.0.0.1:8080"}
    assert ask(guarded, "/page/sign-out", form={}, headers={**own, "origin": "http://evil.example"}).status == 403
    assert ask(guarded, "/page/sign-out", form={}, headers=own).status == 401
    assert ask(guarded, "/", headers=cookie).status == 401


def test_a_form_with_a_cookie_must_say_where_it_comes_from(guarded: PageApplication) -> None:
    cookie = sign_in(guarded)
    assert ask(guarded, "/page/paste", form={"body": "{}"}, headers=cookie).status == 403
    assert (
        ask(guarded, "/page/paste", form={"body": "{}"}, headers={**cookie, "sec-fetch-site": "same-origin"}).status
        == 200
    )


def test_a_cookie_is_secure_behind_https(guarded: PageApplication) -> None:
    reply = ask(guarded, "/page/sign-in", form={"link": link_of(guarded)}, headers={"x-forwarded-proto": "https"})
    assert reply.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize(
    "call",
    [
        lambda page: ask(page, "/"),
        lambda page: ask(page, "/page/paste?format=json"),
        lambda page: ask(page, "/page/static/page.js"),
        lambda page: ask(page, "/page/nothing"),
        lambda page: ask(page, "/", headers={"host": "evil.example"}),
        lambda page: ask(page, "/page/paste", method="PATCH"),
    ],
)
def test_every_answer_forbids_what_the_page_does_not_need(
    page: PageApplication, call: Callable[[PageApplication], Reply]
) -> None:
    headers = call(page).headers
    assert {name: headers.get(name) for name in HEADERS} == HEADERS
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]


def test_head_has_no_body_and_other_methods_are_rejected(page: PageApplication) -> None:
    reply = ask(page, "/page/paste", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert ask(page, "/page/paste", method="DELETE").status == 405


def test_a_failure_shows_no_traceback(page: PageApplication, sources: Sources) -> None:
    sources.traces = object()
    reply = ask(page, "/page/traces")
    assert reply.status == 500
    assert "object" not in reply.text
    assert "Traceback" not in reply.text
