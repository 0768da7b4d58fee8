"""The id and the time of an answer: another wire's answer has those that the caller gives, its own wire's stay."""

import json
from typing import Any

import pytest

from toolwire import Message, Response, ToolCall, translate
from toolwire.dialects import NAMES
from toolwire.streams.accumulation import accumulate, events_of
from toolwire.translation.exchange import Exchange

ASKS = [{"role": "user", "content": "?"}]
BODIES: dict[str, dict[str, Any]] = {
    "openai-chat": {"model": "m", "messages": ASKS},
    "openai-responses": {"model": "m", "input": ASKS},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": ASKS},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "?"}]}]},
    "ollama": {"model": "m", "messages": ASKS},
}
PATH = {"gemini": "/v1beta/models/m:streamGenerateContent?alt=sse"}
PAIRS = [(source, target) for source in NAMES for target in NAMES]
FOREIGN = [(source, target) for source, target in PAIRS if source != target]
WITH_IDS = ("openai-chat", "openai-responses", "anthropic", "gemini")
DATED = ("openai-chat", "openai-responses", "ollama")
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


def asked(source: str, target: str, **given: Any) -> Exchange:
    return translate.exchange(BODIES[source], source=source, target=target, path=PATH.get(source, ""), **given)


def answer(exchange: Exchange, response: Response, *, streamed: bool) -> tuple[Response, bytes]:
    """Take an answer of the target through an exchange, and read it as the client does."""
    target, client = exchange.target, exchange.source
    if not streamed:
        encoded = exchange.response(target.encode_response(response).body)
        return client.decode_response(encoded.body), encoded.json
    writer, way, reader = target.encode_stream(), exchange.stream(), client.decode_stream()
    data = b"".join([*map(writer.feed, events_of(response)), writer.close()])
    shown = b"".join([*(way.feed(data[at : at + 9]) for at in range(0, len(data), 9)), way.close()])
    return accumulate([*reader.feed(shown), *reader.close()]), shown


def said(**fields: Any) -> Response:
    return Response.of(Message("assistant", [ToolCall("c1", "look", {"a": 1})]), "tool_calls", model="m", **fields)


@STREAMED
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_an_answer_of_another_wire_has_the_id_of_the_caller(source: str, target: str, streamed: bool) -> None:
    response, data = answer(asked(source, target, response_id="msg_7"), said(id="constant"), streamed=streamed)
    assert response.id == ("msg_7" if source in WITH_IDS else None)
    assert b"constant" not in data
    [call] = response.tool_calls
    assert (call.name, call.arguments) == ("look", {"a": 1})


@STREAMED
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_without_an_id_of_the_caller_the_answer_is_as_before(source: str, target: str, streamed: bool) -> None:
    response, _ = answer(asked(source, target), said(id="constant"), streamed=streamed)
    kept = source in WITH_IDS and target in WITH_IDS
    assert (response.id == "constant") is kept


@STREAMED
@pytest.mark.parametrize("wire", NAMES)
def test_an_answer_of_its_own_wire_keeps_its_id_and_its_time(wire: str, streamed: bool) -> None:
    exchange = asked(wire, wire, response_id="msg_7", now=99)
    whole = said(id="constant" if wire in WITH_IDS else None, created=5.0 if wire in DATED else None)
    response, data = answer(exchange, whole, streamed=streamed)
    assert b"msg_7" not in data
    assert (response.id, response.created) == (whole.id, whole.created)


@STREAMED
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_now_is_the_time_of_an_answer_whose_wire_has_none(source: str, target: str, streamed: bool) -> None:
    response, data = answer(asked(source, target, now=1_700_000_000), said(), streamed=streamed)
    if source not in DATED:
        assert b"1700000000" not in data
    elif target not in DATED:
        assert response.created == 1_700_000_000
    response, _ = answer(asked(source, target, now=1_700_000_000), said(created=5.0), streamed=streamed)
    if source in DATED and target in DATED:
        assert response.created == 5


@pytest.mark.parametrize(("source", "target"), [pair for pair in FOREIGN if pair[0] in WITH_IDS])
def test_every_piece_of_a_stream_says_the_same_id(source: str, target: str) -> None:
    _, data = answer(asked(source, target, response_id="msg_7", now=9), said(id="constant"), streamed=True)
    bodies = [json.loads(line[6:]) for line in data.decode().splitlines() if line[:7] == "data: {"]
    heads = {"openai-responses": "response", "anthropic": "message"}
    told = [body.get(heads[source]) if source in heads else body for body in bodies]
    assert {body.get("id", body.get("responseId")) for body in told if body} == {"msg_7"}


@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_an_exchange_reads_no_clock_and_draws_no_lot(source: str, target: str) -> None:
    both = [answer(asked(source, target), said(), streamed=streamed)[1] for streamed in (True, True, False, False)]
    assert both[0] == both[1]
    assert both[2] == both[3]


@pytest.mark.parametrize("target", [name for name in NAMES if name != "openai-responses"])
def test_a_stream_that_fails_at_once_has_the_id_too(target: str) -> None:
    """OpenAI's SDK takes no error of no response, so an answer begins before it fails."""
    way = asked("openai-responses", target, response_id="resp_7").stream()
    data = way.feed(b'{"error":{"message":"no"}}\n' if target == "ollama" else b'data: {"error":{"message":"no"}}\n\n')
    assert b'"id":"resp_7"' in data + way.close()
