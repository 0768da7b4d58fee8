"""Which provider is asked: in order, by weight, where the cache is, and not while it fails; and what is asked again."""

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.standing import WIRES, Stood, There, at, post, standing
from toolwire.dialects import dialect
from toolwire.gateway.choosing import ProviderChooser
from toolwire.gateway.routes import Candidate
from toolwire.testing import Cut, Fail, Raw, Scenario, Wait, simulate
from toolwire.types import Context, Error, Message, Request
from toolwire.wire.bodies import members_of
from toolwire.wire.conversation_ids import conversation_of

A, B, C = (Candidate(at("http://127.0.0.1:1", "openai"), name) for name in "abc")


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def weighted(candidate: Candidate, weight: float) -> Candidate:
    """Give a goal its share."""
    return Candidate(candidate.provider, candidate.model, weight)


def test_goals_are_asked_in_order_and_those_with_weights_share() -> None:
    chooser = ProviderChooser(Clock())
    assert chooser.order([A, B, C], b"x") == [A, B, C]
    candidates = [weighted(A, 3), weighted(B, 1), C]
    orders = [chooser.order(candidates, str(number).encode()) for number in range(4000)]
    assert all(order[2] is C for order in orders)
    first = Counter(order[0].model for order in orders)
    assert 2850 < first["a"] < 3150


def test_one_that_fails_is_left_alone_for_a_while_and_longer_each_time() -> None:
    clock = Clock()
    chooser = ProviderChooser(clock)
    chooser.failed(A, None)
    assert chooser.order([A, B], b"x") == [B, A]
    clock.now += 1.1
    assert chooser.order([A, B], b"x") == [A, B]
    chooser.failed(A, None)
    clock.now += 1.1
    assert chooser.order([A, B], b"x") == [B, A]
    clock.now += 1
    assert chooser.order([A, B], b"x") == [A, B]
    chooser.failed(A, 30)
    clock.now += 29
    assert chooser.is_paused(A)
    chooser.answered(A, b"y")
    assert not chooser.is_paused(A)
    for candidate in (A, B):
        chooser.failed(candidate, 10**9)
    assert chooser.order([A, B], b"x") == [A, B], "where all have failed all are asked"
    clock.now += 61
    assert not chooser.is_paused(A)


def test_a_conversation_stays_where_its_cache_is_until_that_is_old() -> None:
    clock = Clock()
    chooser = ProviderChooser(clock)
    chooser.answered(B, b"x")
    assert chooser.order([A, B, C], b"x") == [B, A, C]
    assert chooser.order([A, B, C], b"y") == [A, B, C]
    chooser.failed(B, None)
    assert chooser.order([A, B, C], b"x") == [A, C, B]
    clock.now += 301
    assert chooser.order([A, B, C], b"x") == [A, B, C]


def test_what_is_known_is_bounded() -> None:
    chooser = ProviderChooser(Clock())
    for number in range(12_000):
        chooser.answered(A, str(number).encode())
        chooser.failed(Candidate(A.provider, str(number)), None)
    assert len(chooser._answered) <= 10_000
    assert len(chooser._paused) <= 10_001


@pytest.mark.parametrize("source", WIRES)
def test_a_conversation_is_known_by_its_first_words_in_each_wire(source: str) -> None:
    def known(owner: str, *said: str) -> bytes:
        messages = [Message("assistant" if number % 2 else "user", text) for number, text in enumerate(said)]
        request = Request(context=Context(f"Billing {len(said)}", messages), model="m", stream=False)
        body = json.dumps(dialect(source).encode_request(request).body).encode()
        return conversation_of(owner, members_of(body))

    assert known("me", "Hello") == known("me", "Hello", "Hi.", "And then?")
    assert len({known("me", "Hello"), known("you", "Hello"), known("me", "Hello!")}) == 3


@pytest.mark.parametrize(
    "body", [b"{}", b'{"messages": 5}', b'{"messages": []}', b'{"messages": [5, {"role": "system"}]}']
)
def test_what_has_no_first_words_is_no_conversation(body: bytes) -> None:
    assert conversation_of("me", members_of(body)) == b""


ROUTES = """
[routes.both]
to = ["first/m", "second/m"]
on_context = "long"
[routes.long]
to = ["third/m"]
[routes.alone]
to = ["first/m"]
"""


def _asked(stood: Stood, model: str, said: str = "Hello", **more: Any) -> Any:
    body = {"model": model, "messages": [{"role": "user", "content": said}], **more}
    return post(stood.url, "/v1/chat/completions", json.dumps(body).encode())


def _three(first: Any, then: Callable[[Stood, list[Any]], None], wire: str = "openai") -> None:
    """Serve three providers, of which the first plays what it is given."""
    with simulate(first, strict=False) as one, simulate([], strict=False) as two, simulate([], strict=False) as three:
        for other in (two, three):
            other.play(lambda _request, _turn: "Hello.")
        models = {"first": one, "second": two, "third": three}
        providers = {name: at(model.url, wire).with_options(name=name) for name, model in models.items()}
        with standing(one.url, ROUTES, providers) as stood:
            then(stood, [one, two, three])


@pytest.mark.sampled
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 502, 503, 529])
def test_another_provider_answers_for_one_that_fails_and_the_answer_says_who(status: int, wire: str) -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        for number in range(3):
            answered = _asked(stood, "both", f"Question {number}")
            assert (answered.status, answered.headers["x-toolwire-model"]) == (200, "second/m")
        assert len(models[0].requests) == 1, "it is left alone for a while"

    _three(lambda _request, _turn: Fail(Error("server", "no", status)), then, wire)


def test_a_route_with_one_provider_is_always_tried() -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        assert [_asked(stood, "alone").status for _ in range(3)] == [500] * 3
        assert len(models[0].requests) == 3

    _three(lambda _request, _turn: Fail(Error("server", "no", 500)), then)


def test_one_that_says_when_is_asked_again_where_it_is_soon() -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        start = time.monotonic()
        assert _asked(stood, "alone").status == 200
        assert 0.3 <= time.monotonic() - start < 20
        later = _asked(stood, "alone", "Another")
        assert (later.status, later.headers["retry-after"]) == (429, "30")
        assert len(models[0].requests) == 3

    slower = [Fail(Error("rate_limit", "slower", 429), retry_after=wait) for wait in (0.3, 30)]
    _three(Scenario([slower[0], "Hello.", slower[1]]), then)


def test_of_several_that_fail_the_last_one_is_told_and_not_who_was_asked_once_more() -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        models[1].play(Fail(Error("rate_limit", "slower", 429), retry_after=30))
        answered = _asked(stood, "both")
        assert (answered.status, answered.headers["retry-after"]) == (429, "30")
        assert [len(model.requests) for model in models] == [2, 1, 0]

    soon = Fail(Error("server", "busy", 503), retry_after=0.1)
    _three(Scenario([soon, soon]), then)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (429, 401, 429),
        (401, 429, 429),
        (500, 403, 500),
        (402, 503, 503),
        (500, 429, 429),
        (429, 500, 429),
        (401, 403, 403),
    ],
)
def test_of_several_that_fail_the_one_is_told_that_the_client_can_do_something_about(
    first: int, second: int, told: int
) -> None:
    def fails(status: int) -> Fail:
        return Fail(Error("server", f"no: {status}", status), retry_after=30 if status == 429 else None)

    def then(stood: Stood, models: list[Any]) -> None:
        models[1].play(fails(second))
        answered = _asked(stood, "both")
        assert (answered.status, answered.headers.get("retry-after")) == (told, "30" if told == 429 else None)
        assert f"no: {told}".encode() in answered.data

    _three(fails(first), then)


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini"])
def test_what_is_too_long_goes_to_the_route_for_it(wire: str) -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        answered = _asked(stood, "both")
        assert (answered.status, answered.headers["x-toolwire-model"]) == (200, "third/m")
        assert [len(model.requests) for model in models] == [1, 0, 1]

    message = "prompt is too long: 300000 tokens > 200000 maximum"
    if wire == "gemini":
        message = "The input token count (300000) exceeds the maximum number of tokens allowed (200000)."
    _three([Fail(Error("context_length", message, 400, code="context_length_exceeded"))], then, wire)


def test_what_is_too_long_is_told_where_the_route_for_it_does_not_know_what_is_asked() -> None:
    wires = {"first": "openai", "second": "anthropic"}
    providers = {name: at("http://127.0.0.1:9", wire).with_options(name=name) for name, wire in wires.items()}
    routes = '[routes.r]\nto = ["first/m"]\non_context = "long"\n[routes.long]\nto = ["second/m"]\n'
    with standing("http://127.0.0.1:9", routes, providers) as stood:
        said = b'{"error": {"message": "too long", "code": "context_length_exceeded"}}'
        stood.gateway.context.transport = There(400, {"content-type": "application/json"}, [said])
        answered = post(stood.url, "/v1/embeddings", b'{"model": "r", "input": "x"}')
        assert (answered.status, answered.data) == (400, said)
        assert stood.seen[-1]["provider"] == "first/m"


@pytest.mark.parametrize("error", ["null", '""', "{}", "false"])
def test_an_answer_whose_error_is_none_is_an_answer(error: str) -> None:
    def then(stood: Stood, _models: list[Any]) -> None:
        answered = _asked(stood, "both")
        assert (answered.status, answered.headers["x-toolwire-model"]) == (200, "first/m")

    said = '{"choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}], "error": %s}'
    _three(Raw((said % error).encode()), then)


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_too_long_under_a_good_status_goes_to_the_route_for_it(stream: bool) -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        answered = _asked(stood, "both", stream=stream)
        assert (answered.status, answered.headers["x-toolwire-model"]) == (200, "third/m")
        assert [len(model.requests) for model in models] == [1, 0, 1]

    said = b'{"error": {"message": "too long", "code": "context_length_exceeded"}}'
    _three(Raw(b"data: %s\n\n" % said if stream else said), then)


def test_a_whole_answer_that_breaks_off_is_given_by_another() -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        answered = _asked(stood, "both")
        assert (answered.status, answered.headers["x-toolwire-model"]) == (200, "second/m")
        assert len(models[0].requests) == 1

    _three([["Hello.", Cut(bytes=40, reset=True)]], then)


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "ollama"])
def test_a_stream_that_breaks_off_before_its_first_byte_is_given_by_another(wire: str) -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        answered = _asked(stood, "both", stream=True)
        assert answered.headers["x-toolwire-model"] == "second/m"
        assert b"[DONE]" in answered.data
        assert len(models[0].requests) == 1

    _three([[Cut(bytes=0)]], then, wire)


NO_ANSWERS = [
    Raw(b"<html>Sign in</html>", content_type="text/html; charset=utf-8"),
    Raw(b'{"error": {"message": "no credits", "code": 402, "type": "billing_error"}}'),
    Raw(b'{"error": {"message": "busy", "type": "overloaded_error"}}', content_type="text/plain"),
]
PLAIN_NO_ANSWERS = [Raw(data) for data in (b"", b"null", b"[]", b'{"choices":', b"data: [DONE]\n\n")]
BEGUN_NO_ANSWERS = [
    Raw(b'data: {"error": {"message": "busy", "code": 503}}\n\n', content_type="text/event-stream"),
    Raw(
        b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n',
        content_type="text/event-stream",
    ),
]


@pytest.mark.parametrize("rest", [BEGUN_NO_ANSWERS[0].data, b""])
def test_a_comment_is_no_word_of_an_answer(rest: bytes) -> None:
    def then(stood: Stood, _models: list[Any]) -> None:
        answered = _asked(stood, "both", stream=True)
        assert (answered.status, answered.headers["x-toolwire-model"]) == (200, "second/m")

    comment = Raw(b": PROCESSING\n\n", content_type="text/event-stream")
    _three(Scenario([[comment, Wait(0.05), comment, Wait(0.05), Raw(rest), Cut()]]), then)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_what_is_no_answer_is_given_by_another(wire: str, stream: bool) -> None:
    tries = [*NO_ANSWERS, *(BEGUN_NO_ANSWERS if stream else PLAIN_NO_ANSWERS)]

    def then(stood: Stood, models: list[Any]) -> None:
        for number in range(len(tries)):
            stood.gateway.context.chooser = ProviderChooser()
            answered = _asked(stood, "both", f"Question {number}", stream=stream)
            assert (answered.status, answered.headers["x-toolwire-model"]) == (200, "second/m"), tries[number]
        assert len(models[0].requests) == len(tries)
        models[0].play(NO_ANSWERS[1])
        models[1].play(NO_ANSWERS[1])
        assert _asked(stood, "both", "Another", stream=stream).status in (402, 429, 502)
        assert (stood.seen[-1]["ending"], stood.seen[-1]["input_tokens"]) == ("error", None)

    _three(Scenario(tries), then, wire)


def test_what_the_client_did_wrong_is_told_at_once() -> None:
    def then(stood: Stood, models: list[Any]) -> None:
        assert _asked(stood, "both").status == 400
        assert [len(model.requests) for model in models] == [1, 0, 0]

    _three([Fail(Error("invalid_request", "bad", 400))], then)
