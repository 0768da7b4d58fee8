"""How an answer ends: an error stays an error in every wire, and what broke off never looks whole."""

import json
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, Answered, post
from toolwire import accumulate
from toolwire.dialects import dialect
from toolwire.testing import Cut, Fail, Raw, Scenario
from toolwire.types import Context, Error, ErrorEnd, Message, MessageEnd, Request, Text, ToolCall
from toolwire.wire.transport import Bounds

ERRORS = [
    Fail(Error("invalid_request", "bad field", 400)),
    Fail(Error("authentication", "no such key", 401)),
    Fail(Error("rate_limit", "slower", 429), retry_after=7),
    Fail(Error("server", "broken", 500)),
    Fail(Error("overloaded", "busy", 503)),
]


def told(source: str, model: str, *, stream: bool) -> tuple[str, bytes]:
    """Write a short request of a wire."""
    encoded = dialect(source).encode_request(
        Request(context=Context(None, [Message("Hello")]), model=model, stream=stream)
    )
    return encoded.path, encoded.json


def asked(url: str, source: str, target: str, *, stream: bool) -> Answered:
    """Ask a short question in one wire of a model that speaks another."""
    path, body = told(source, f"{NAMES[target]}/m", stream=stream)
    return post(url, path, body)


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_an_error_comes_in_the_wire_of_the_client(
    source: str, target: str, stream: bool, lenient_model: Playing
) -> None:
    with lenient_model(Scenario(ERRORS)) as stood:
        for failure in ERRORS:
            answered = asked(stood.url, source, target, stream=stream)
            read = dialect(source).decode_error(answered.status, json.loads(answered.data), answered.headers)
            kinds = {failure.error.kind}
            if failure.error.kind == "overloaded":
                kinds |= {"server"}
            assert read.kind in kinds, answered
            assert failure.error.message in read.message
            assert answered.headers.get("retry-after") == ("7" if failure.retry_after else None)
            assert stood.seen[-1]["ending"] == "error"


@pytest.mark.sampled
@pytest.mark.row("O14")
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_a_stream_that_breaks_off_never_ends_well(source: str, target: str, lenient_model: Playing) -> None:
    turn = [Text("One, two, three, four."), ToolCall(None, "count", {"to": "five"})]
    cuts = [Cut(events=number) for number in range(1, 4)] + [Cut(bytes=97), Cut(events=2, reset=True)]
    with lenient_model(Scenario([[*turn, cut] for cut in cuts])) as stood:
        for cut in cuts:
            answered = asked(stood.url, source, target, stream=True)
            assert answered.status == 200
            assert _ends_badly(source, answered), (cut, answered)


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_broke_within_an_event_of_its_own_wire_breaks_its_connection(
    wire: str, lenient_model: Playing
) -> None:
    with lenient_model(Scenario([["One, two, three.", Cut(bytes=60)]], repeat=True)) as stood:
        path, body = told(wire, f"{NAMES[wire]}/m", stream=True)
        for given in {path, path.partition("?")[0]}:  # an array of Gemini's, too, can be told no error
            answered = post(stood.url, given, body)
            assert answered.broken
            assert len(answered.data) == 60
            assert stood.seen[-1]["ending"] == "broke off"


def _ends_badly(source: str, answered: Answered) -> bool:
    """Whether a client of the wire sees that the answer is not whole."""
    decoder = dialect(source).decode_stream()
    events = [*decoder.feed(answered.data), *decoder.close()]
    failed = any(type(event) is ErrorEnd for event in events)
    whole = any(type(event) is MessageEnd and event.complete for event in events)
    reason = accumulate(events).finish_reason
    return (failed or answered.broken) and not whole and reason not in ("stop", "tool_calls")


@pytest.mark.sampled
@pytest.mark.row("O14")
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_a_whole_answer_that_breaks_off_is_an_error(source: str, target: str, lenient_model: Playing) -> None:
    cuts = [Cut(), Cut(bytes=40), Cut(bytes=40, reset=True)]
    with lenient_model(Scenario([["Hello.", cut] for cut in cuts])) as stood:
        for _ in cuts:
            answered = asked(stood.url, source, target, stream=False)
            assert answered.status == 502, answered
            assert dialect(source).decode_error(502, json.loads(answered.data)).kind in ("server", "overloaded")


GAVE_UP: dict[str, dict[str, Any]] = {
    "openai-chat": {  # Mistral, OpenRouter
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hel"}, "finish_reason": "error"}],
    },
    "openai-responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "failed",
        "model": "m",
        "output": [],
        "error": {"code": "rate_limit_exceeded", "message": "Slower."},
    },
}


@pytest.mark.parametrize("target", GAVE_UP)
@pytest.mark.parametrize("source", WIRES)
def test_an_answer_that_says_that_it_failed_is_an_error(source: str, target: str, lenient_model: Playing) -> None:
    data = json.dumps(GAVE_UP[target]).encode()
    with lenient_model(Raw(data)) as stood:
        answered = asked(stood.url, source, target, stream=False)
        if source == target:
            assert (answered.status, answered.data) == (200, data)
            return
        assert stood.seen[-1]["ending"] == "error"
        words = "Slower." if target == "openai-responses" else "the provider ended the answer with an error"
        assert answered.status == (429 if target == "openai-responses" else 502)
        assert dialect(source).decode_error(answered.status, json.loads(answered.data)).message == words


@pytest.mark.parametrize("source", WIRES)
def test_a_stream_whose_last_word_is_an_error_ends_in_one(source: str, lenient_model: Playing) -> None:
    [choice] = GAVE_UP["openai-chat"]["choices"]
    rest = {"object": "chat.completion.chunk", "id": "c", "created": 1, "model": "m"}
    chunks = [({"role": "assistant", "content": "Hel"}, None), ({}, choice["finish_reason"])]
    told = [{**rest, "choices": [{"index": 0, "delta": delta, "finish_reason": word}]} for delta, word in chunks]
    data = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in told) + b"data: [DONE]\n\n"
    with lenient_model(Raw(data, content_type="text/event-stream")) as stood:
        answered = asked(stood.url, source, "openai-chat", stream=True)
        assert answered.data == data if source == "openai-chat" else _ends_badly(source, answered)


@pytest.mark.sampled
@pytest.mark.parametrize("source", WIRES)
@pytest.mark.parametrize(
    "data", [b"", b"<html>no</html>", b'{"a":', b"[]", b"null", b'{"error": "odd"}', b"\xff\xfe"], ids=repr
)
@pytest.mark.row("F17")
def test_an_answer_that_is_none_is_an_error(source: str, data: bytes, lenient_model: Playing) -> None:
    for target in WIRES:
        for stream in (False, True):
            with lenient_model(Raw(data)) as stood:
                answered = asked(stood.url, source, target, stream=stream)
                if source == target and data and not stream:
                    assert answered.data == data  # one wire: what came is handed on
                elif answered.status == 200:
                    assert _ends_badly(source, answered), (target, stream, answered)
                else:
                    assert answered.status in (502, 500), answered


FOR_PEOPLE = [
    (Raw(b"<html>" + b"x" * 5000, 502, "text/html"), 502, "<html>xxx"),
    (Raw(b"<html>Forbidden</html>", 403, "text/html"), 403, "Forbidden"),
    (Raw(b"upstream connect error", 503, "text/plain"), 503, "upstream connect error"),
    (Raw(b"who are you", 999), 502, "who are you"),
    (Raw(b"", 500), 500, "answered with 500 and no word"),
    (Raw(b"<html>Sign in</html>", 200, "text/html; charset=utf-8"), 502, "(text/html; charset=utf-8), which is no"),
]


@pytest.mark.sampled
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
@pytest.mark.row("F17")
def test_what_a_server_tells_people_is_an_error_of_the_clients_wire(
    source: str, target: str, lenient_model: Playing
) -> None:
    for stream in (False, True):
        for raw, status, words in FOR_PEOPLE:
            with lenient_model(raw) as stood:
                answered = asked(stood.url, source, target, stream=stream)
                read = dialect(source).decode_error(answered.status, json.loads(answered.data))
                assert (answered.status, words in read.message) == (status, True), (raw, answered)
                assert len(answered.data) < 1000
                assert answered.headers["content-type"] == "application/json"


@pytest.mark.sampled
@pytest.mark.row("O24")
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("source", WIRES)
def test_an_answer_without_an_end_is_given_up(source: str, target: str, lenient_model: Playing) -> None:
    turn = [Text("word " * 4000)]
    with lenient_model(Scenario([turn, turn])) as stood:
        bounds, stood.gateway.context.bounds = stood.gateway.context.bounds, Bounds(bytes=9000)
        try:
            answered = asked(stood.url, source, target, stream=True)
            assert _ends_badly(source, answered)
            assert len(answered.data) < 500_000
            assert asked(stood.url, source, target, stream=False).status == 502
        finally:
            stood.gateway.context.bounds = bounds


@pytest.mark.parametrize("wire", WIRES)
def test_what_the_gateway_refuses_is_told_in_the_wire_that_asked(wire: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario([], complete=False)) as stood:
        path, body = told(wire, "nobody/m", stream=False)
        answered = post(stood.url, path, body)
        assert answered.status == 404
        assert dialect(wire).decode_error(404, json.loads(answered.data)).kind == "not_found"
        if wire != "gemini":
            answered = post(stood.url, path, b'{"model": ""}')
            assert dialect(wire).decode_error(answered.status, json.loads(answered.data)).kind == "invalid_request"
        answered = post(stood.url, path, b"{")
        assert answered.status == 400 or wire == "gemini"
