"""The numeric limits of the gateway: what holds just below each, at it, and just above it."""

import json
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import at, send
from tests.gateway.test_choosing import A, B, Clock
from toolwire.config import GatewaySettings
from toolwire.gateway.choosing import ProviderChooser
from toolwire.gateway.errors import GatewayError
from toolwire.gateway.headers import headers_to_provider
from toolwire.gateway.prices import estimate, used
from toolwire.gateway.reports import Reports
from toolwire.gateway.response_store import page
from toolwire.gateway.routes import Candidate, Routes
from toolwire.types import Loss, Usage
from toolwire.wire.bodies import members_of

REFUSED = "refused"
# How many items there are, the query, how many of them a page has, and whether there are more.
PAGES: list[tuple[int, str, Any, bool]] = [
    (0, "", 0, False),
    (1, "", 1, False),
    (19, "", 19, False),
    (20, "", 20, False),
    (21, "", 20, True),
    (3, "limit=0", REFUSED, False),
    (3, "limit=1", 1, True),
    (3, "limit=2", 2, True),
    (3, "limit=3", 3, False),
    (3, "limit=4", 3, False),
    (150, "limit=99", 99, True),
    (150, "limit=100", 100, True),
    (100, "limit=100", 100, False),
    (150, "limit=101", REFUSED, False),
    (150, "limit=1000", REFUSED, False),
    (150, "limit=-1", REFUSED, False),
    (150, "limit=1.0", REFUSED, False),
    (5, "order=asc&limit=2&after=i1", 2, True),
    (5, "order=asc&limit=3&after=i1", 3, False),
    (5, "order=asc&limit=2&after=i3", 1, False),
    (5, "order=asc&after=i4", 0, False),
    (5, "after=i0", 0, False),
    (5, "after=i5", REFUSED, False),
]


@pytest.mark.parametrize(("count", "query", "size", "more"), PAGES)
def test_a_page_has_as_many_items_as_asked_for(count: int, query: str, size: Any, more: bool) -> None:
    items = [{"id": f"i{number}"} for number in range(count)]
    if size == REFUSED:
        with pytest.raises(GatewayError):
            page(items, query)
        return
    found = page(items, query)
    assert (len(found["data"]), found["has_more"]) == (size, more)
    names = [item["id"] for item in found["data"]]
    assert (found["first_id"], found["last_id"]) == ((names[0], names[-1]) if names else (None, None))


@pytest.mark.parametrize(
    ("field", "count", "status"),
    [
        ("items", 19, 200),
        ("items", 20, 200),
        ("items", 21, 400),
        ("pairs", 15, 200),
        ("pairs", 16, 200),
        ("pairs", 17, 400),
    ],
)
def test_a_conversation_takes_twenty_items_at_once_and_sixteen_pairs(
    field: str, count: int, status: int, strict_model: Playing
) -> None:
    items = {"items": [{"role": "user", "content": "x"}] * count}
    pairs = {"metadata": {f"{number}": "x" for number in range(count)}}
    body = json.dumps(items if field == "items" else pairs).encode()
    with strict_model([]) as stood:
        made = send(stood.url, "POST", "/v1/conversations", body)
        assert made.status == status
        if field == "items":
            begun = json.loads(send(stood.url, "POST", "/v1/conversations", b"{}").data)
            added = send(stood.url, "POST", f"/v1/conversations/{begun['id']}/items", body)
            assert added.status == status


# The seconds since a provider answered a conversation, and whether it is asked first again.
@pytest.mark.parametrize(("seconds", "first"), [(0.0, True), (299.9, True), (300.0, False), (300.1, False)])
def test_a_conversation_stays_with_its_provider_for_five_minutes(seconds: float, first: bool) -> None:
    clock = Clock()
    chooser = ProviderChooser(clock)
    chooser.answered(B, b"x")
    clock.now += seconds
    assert (chooser.order([A, B], b"x")[0] is B) is first


# How often a provider has failed, what it asked for, and for how many seconds it is left alone.
PAUSES: list[tuple[int, float | None, float]] = [
    (1, None, 1.0),
    (2, None, 2.0),
    (3, None, 4.0),
    (6, None, 32.0),
    (7, None, 60.0),
    (8, None, 60.0),
    (1000, None, 60.0),
    (1, 0.5, 1.0),
    (1, 1.5, 1.5),
    (1, 59.5, 59.5),
    (1, 60.0, 60.0),
    (1, 60.5, 60.0),
    (3, 3.5, 4.0),
    (3, 4.5, 4.5),
]


@pytest.mark.parametrize(("failures", "wait", "seconds"), PAUSES)
def test_a_provider_that_fails_is_left_alone_for_so_long(failures: int, wait: float | None, seconds: float) -> None:
    clock = Clock()
    chooser = ProviderChooser(clock)
    for _ in range(failures):
        chooser.failed(A, wait)
    clock.now += seconds - 0.25
    assert chooser.is_paused(A)
    clock.now += 0.25
    assert not chooser.is_paused(A)


@pytest.mark.parametrize(("others", "known"), [(9_998, True), (9_999, True), (10_000, False)])
def test_the_last_ten_thousand_conversations_are_known(others: int, known: bool) -> None:
    chooser = ProviderChooser(Clock())
    chooser.answered(B, b"x")
    for number in range(others):
        chooser.answered(A, f"{number}".encode())
    assert (chooser.order([A, B], b"x")[0] is B) is known


@pytest.mark.parametrize(("others", "known"), [(1_998, True), (1_999, True), (2_000, False)])
def test_the_last_two_thousand_reports_are_stored(others: int, known: bool) -> None:
    reports = Reports()
    reports.file("first", "me", "m", "p/m", ())
    for number in range(others):
        reports.file(f"{number}", "me", "m", "p/m", ())
    assert (reports.find("first", "me") is not None) is known


@pytest.mark.parametrize(("others", "told"), [(4_094, False), (4_095, False), (4_096, True)])
def test_the_losses_of_the_last_4096_sets_of_tools_are_not_repeated(others: int, told: bool) -> None:
    reports = Reports()
    lost = [Loss("tools[0].strict", "strict", "dropped", "x", "minor")]
    assert list(reports.new("me", "a>b", lost)) == lost
    for number in range(others):
        reports.new(f"{number}", "a>b", lost)
    assert bool(reports.new("me", "a>b", lost)) is told


@pytest.mark.parametrize(("length", "passes"), [(8_191, True), (8_192, True), (8_193, False)])
def test_a_header_has_up_to_8192_characters(length: int, passes: bool) -> None:
    headers = {"anthropic-beta": "x" * length}
    assert headers_to_provider("anthropic", headers) == (headers if passes else {})


@pytest.mark.parametrize(("length", "found"), [(255, True), (256, True), (257, False)])
def test_the_name_of_a_model_has_up_to_256_characters(length: int, found: bool) -> None:
    routes = Routes(GatewaySettings(), {"openai": at("http://127.0.0.1:1", "openai")})
    assert (routes.find("openai/" + "m" * (length - len("openai/"))) is not None) is found


MODEL = Candidate(at("http://127.0.0.1:1", "openai"), "nobody-knows-it")
# The bytes of a request and what it says, the tokens that it may read, and those that it may write.
ESTIMATES: list[tuple[int, dict[str, Any], int, int]] = [
    (0, {}, 1, 4096),
    (2, {}, 1, 4096),
    (3, {}, 2, 4096),
    (4, {}, 2, 4096),
    (300, {"max_tokens": 0}, 101, 4096),
    (300, {"max_tokens": 1}, 101, 1),
    (300, {"max_tokens": 4097}, 101, 4097),
    (300, {"max_tokens": 5, "max_completion_tokens": 7}, 101, 7),
    (300, {"max_tokens": 10, "n": 0}, 101, 10),
    (300, {"max_tokens": 10, "n": 1}, 101, 10),
    (300, {"max_tokens": 10, "n": 2}, 101, 20),
    (300, {"max_tokens": 10, "n": 128}, 101, 1280),
    (300, {"max_tokens": 10, "n": 129}, 101, 1280),
    (300, {"generationConfig": {"maxOutputTokens": 10, "candidateCount": 3}}, 101, 30),
    (300, {"max_tokens": (1 << 40) - 1}, 101, (1 << 40) - 1),
    (300, {"max_tokens": 1 << 40}, 101, 4096),
]


@pytest.mark.parametrize(("size", "body", "read", "written"), ESTIMATES)
def test_the_tokens_of_a_request_are_estimated_by_its_bytes_and_its_limits(
    size: int, body: dict[str, Any], read: int, written: int
) -> None:
    tokens = estimate(size, members_of(json.dumps(body).encode()), MODEL)
    assert (tokens.input, tokens.output, tokens.estimated) == (read, written, True)


# The counts that were reported, bytes asked, characters that came, whether the answer is whole; then what it used.
USED: list[tuple[Usage | None, int, int, bool, tuple[int, int, bool]]] = [
    (Usage(10, 5), 400, 400, True, (10, 5, False)),
    (Usage(10, 5), 400, 20, False, (10, 5, True)),
    (Usage(10, 5), 400, 21, False, (10, 6, True)),
    (Usage(10, None), 400, 20, True, (10, 5, True)),
    (Usage(None, 5), 400, 24, True, (100, 6, True)),
    (Usage(None, 5), 401, 16, True, (101, 5, True)),
    (Usage(0, 0), 400, 400, True, (0, 0, False)),
    (None, 0, 0, True, (0, 0, True)),
    (None, 1, 1, True, (1, 1, True)),
    (None, 4, 4, True, (1, 1, True)),
    (None, 5, 5, True, (2, 2, True)),
]


@pytest.mark.parametrize(("usage", "sent", "came", "whole", "tokens"), USED)
def test_what_was_not_reported_is_estimated_from_what_was_seen(
    usage: Usage | None, sent: int, came: int, whole: bool, tokens: tuple[int, int, bool]
) -> None:
    found = used(usage, sent, came, complete=whole)
    assert (found.input, found.output, found.estimated) == tokens
