"""Messages of a WebSocket that hold anything: each is answered, and the lane and the connection go on."""

import json
import logging
from typing import Any

import pytest
from openai.types.responses.responses_client_event import ResponseCreate
from websockets.sync.client import ClientConnection

from tests.gateway.conftest import Playing
from tests.gateway.test_sockets import END, create, heard, opened, text_of
from toolwire.gateway import sockets
from toolwire.testing import Scenario

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "number": 7,
    "fraction": -1.5,
    "large": 10**30,
    "empty text": "",
    "text": "x",
    "list": [],
    "list of one": [1],
    "lists": [[[]], {"a": []}],
    "object": {},
    "object of one": {"a": 1},
    "objects": {"id": {"id": []}, "type": 1, "prewarm": [True]},
}
FIELDS = sorted({"stream_id", "generate", "stream", *ResponseCreate.model_fields})
NESTED = ["prewarm", "mode", "ttl"]
BYTES = [
    b"",
    b"null",
    b"[]",
    b'"response.create"',
    b"{",
    b"\xff\xfe",
    b"1e999",
    b"[" * 100_000,
    b'{"type": 1e999}',
    b"{}",
]


def answered(socket: ClientConnection, **mark: Any) -> dict[str, Any]:
    """Give the end of what answers a message, which has the mark of its lane."""
    end = heard(socket)[-1]
    assert end["type"] in END, end
    if end["type"] == "error":
        assert 400 <= end["status"] < 500, end
        assert {"type", "code", "message"} <= set(end["error"]), end
        assert end["error"]["message"], end
    assert {name: end.get(name) for name in mark} == mark, end
    return end


def goes_on(socket: ClientConnection, stream_id: str) -> None:
    """Show that a lane still answers."""
    create(socket, input="Hello", stream_id=stream_id)
    assert text_of(answered(socket, stream_id=stream_id)) == "One."


@pytest.mark.parametrize("field", FIELDS)
def test_any_value_of_any_field_of_a_request_is_answered(field: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario(lambda _request, _turn: "One.")) as stood, opened(stood.url) as socket:
        for value in VALUES.values():
            create(socket, **{"input": "Hello", "stream_id": "a", field: value})
            answered(socket, **({} if field in ("stream_id", "type") else {"stream_id": "a"}))
        goes_on(socket, "a")


@pytest.mark.parametrize("field", NESTED)
def test_any_value_within_the_options_of_a_cache_is_answered(field: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario(lambda _request, _turn: "One.")) as stood, opened(stood.url) as socket:
        for value in VALUES.values():
            create(socket, input="Hello", stream_id="a", prompt_cache_options={field: value})
            end = answered(socket, stream_id="a")
            if field == "prewarm":
                assert (end["type"] == "error") is (value not in (None, True, False) or type(value) is int)
        goes_on(socket, "a")


@pytest.mark.parametrize("field", ["previous_response_id", "input", "stream_id", "type"])
def test_any_value_of_any_field_of_an_addition_is_answered(field: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario(lambda _request, _turn: "One.")) as stood, opened(stood.url) as socket:
        for value in VALUES.values():
            added = {"type": "response.steer", "previous_response_id": "resp_0", "input": "More", field: value}
            socket.send(json.dumps(added))
            told = heard(socket, "response.steer.failed", "error")[-1]
            assert told["error"]["message"]
        goes_on(socket, "a")


@pytest.mark.parametrize("data", BYTES, ids=range(len(BYTES)))
@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_what_is_no_message_is_answered(data: bytes, kind: str, lenient_model: Playing) -> None:
    if kind == "text" and data == b"\xff\xfe":
        pytest.skip("a client sends no such text")
    with lenient_model(Scenario(["One."])) as stood, opened(stood.url) as socket:
        socket.send(data.decode() if kind == "text" else data)
        assert answered(socket)["type"] == "error"
        goes_on(socket, "a")


def test_what_fails_in_a_lane_is_told_and_logged_and_the_lane_goes_on(
    monkeypatch: pytest.MonkeyPatch, lenient_model: Playing, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("of the inside")

    with lenient_model(Scenario(lambda _request, _turn: "One.")) as stood, opened(stood.url) as socket:
        for place, generate in (
            ("turn_of_answer", True),
            ("turn_of_answer", False),
            ("read_create", True),
            ("read_id", True),
        ):
            with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
                patched.setattr(sockets, place, fail)
                caplog.clear()
                create(socket, input="Hello", stream_id="a", generate=generate)
                told = heard(socket, "error")[-1]
            assert (told["type"], told["stream_id"]) == ("error", "a")
            assert told["status"] >= 500
            assert "of the inside" not in json.dumps(told)
            assert "of the inside" in caplog.text
        goes_on(socket, "a")
