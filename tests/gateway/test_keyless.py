"""A provider that repeats its key: the client never gets it, in no form of an error, in no header, and in no pieces."""

import base64
import json

import pytest

from tests.gateway.standing import KEY, NAMES, WIRES, There, at, post, standing
from toolwire.dialects import dialect
from toolwire.gateway.masking import MaskedStream, ProviderSecrets
from toolwire.streams.accumulation import events_of
from toolwire.testing import Fail, simulate
from toolwire.types import Choice, Context, Error, Message, Request, Response

FORMS = {
    "plain": KEY,
    "Base64": base64.b64encode(KEY.encode()).decode(),
    "hex": KEY.encode().hex(),
    "reversed": KEY[::-1],
}
SOURCES = (WIRES[0], *(pytest.param(wire, marks=pytest.mark.slow) for wire in WIRES[1:]))


def told(wire: str, target: str, turn: list[object], *, stream: bool = False) -> str:
    """Give all that a client of a wire is told of one turn, headers and body."""
    request = Request(context=Context(None, [Message("user", "?")]), model=f"{NAMES[target]}/m", stream=stream)
    encoded = dialect(wire).encode_request(request)
    with simulate([turn], strict=False) as model, standing(model.url) as gateway:
        answered = post(gateway.url, encoded.path, json.dumps(encoded.body).encode())
    return f"{answered.headers} {answered.data.decode()}"


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("wire", SOURCES)
def test_an_error_holds_no_key(wire: str, target: str, form: str) -> None:
    said = FORMS[form]
    error = Error("authentication", f"who is {said}?", 401, code=said)
    found = told(wire, target, [Fail(error, headers={"x-ratelimit-of": said, "x-request-id": said})])
    assert "who is" in found
    assert said not in found


@pytest.mark.sampled
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("wire", SOURCES)
def test_an_error_in_the_middle_of_a_stream_holds_no_key(wire: str, target: str) -> None:
    found = told(wire, target, ["Some words.", Fail(Error("server", f"who is {KEY}?", 500))], stream=True)
    assert "who is" in found
    assert KEY not in found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("target", WIRES[:2])
def test_a_key_that_is_a_word_changes_no_answer(target: str, *, stream: bool) -> None:
    name = NAMES[target]
    encoded = dialect(WIRES[0]).encode_request(
        Request(context=Context(None, [Message("user", "?")]), model=f"{name}/m", stream=stream)
    )
    with simulate([["It is EMPTY."]], strict=False) as model:
        provider = at(model.url, name).with_options(api_key="EMPTY")
        with standing(model.url, providers={name: provider}) as gateway:
            answered = post(gateway.url, encoded.path, json.dumps(encoded.body).encode())
    assert b"[hidden]" not in answered.data


def test_what_is_no_answer_of_a_model_holds_no_key() -> None:
    with standing("http://127.0.0.1:9") as gateway:
        there = There(200, {"content-type": "application/json"}, [b'{"data": [], "model": "%s"}' % KEY.encode()])
        gateway.gateway.context.transport = there
        answered = post(gateway.url, "/v1/embeddings", b'{"model": "openai/e", "input": "x"}')
    assert answered.data == b'{"data": [], "model": "[hidden]"}'


SAID = {
    "once": b'data: {"text":"it is %s."}\n\n' % KEY.encode(),
    "twice": KEY.encode() * 2,
    "begun at the end": b"words " + KEY.encode()[:-1],
    "begun twice": KEY.encode()[:9] + KEY.encode(),
    "never": b"sk sk-" + KEY[::-1].encode() + b"\n",
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_a_key_is_found_however_an_answer_is_cut(said: bytes) -> None:
    secrets = ProviderSecrets([KEY])
    cuts = [[said[place : place + 1] for place in range(len(said))]]
    cuts += [
        [said[:first], said[first:last], said[last:]]
        for first in range(len(said))
        for last in (first, max(first, len(said) - 3))
    ]
    for pieces in cuts:
        masking = MaskedStream(secrets)
        assert b"".join([*map(masking.feed, pieces), masking.close()]) == secrets.mask(said)


@pytest.mark.parametrize("target", ["openai-chat", "anthropic"])
def test_a_stream_that_is_cut_within_the_key_holds_no_key(target: str) -> None:
    request = Request(context=Context(None, [Message("user", "?")]), model=f"{NAMES[target]}/m", stream=True)
    encoded = dialect("openai-chat").encode_request(request)
    response = Response(choices=[Choice(Message("assistant", f"it is {KEY}."), "stop")])
    writer, events = dialect(target).encode_stream(), events_of(response)
    frames = b"".join(map(writer.feed, events)) + writer.close()
    cut = frames.index(KEY.encode()) + 7
    with standing("http://127.0.0.1:9") as gateway:
        there = There(200, {"content-type": "text/event-stream"}, [frames[cut:], frames[:cut]])
        gateway.gateway.context.transport = there
        answered = post(gateway.url, encoded.path, json.dumps(encoded.body).encode())
    assert [word in answered.data for word in (b"it is [hidden].", KEY.encode(), b"[DONE]")] == [True, False, True]
