"""How long a client waits, and what it takes for an answer: the rules that every request rests on."""

import json
from typing import Any

import pytest

from tests.client.faces import FACES, KEY, chat, lead
from toolwire import Context, Error, Message, Tool, generate
from toolwire.client.exchange import Retries
from toolwire.client.failures import AuthenticationFailed, ProviderError, ProviderUnavailable, RateLimited
from toolwire.testing import Fail, Raw, simulate

QUICK = Retries(attempts=3, base=0.01)


def test_no_wait_is_longer_than_allowed() -> None:
    said = {"retry-after": "1000000000"}
    with simulate([[Fail(Error("rate_limit", "Later."), headers=said)], ["Here."]]) as model:
        led = lead("sync", "openai", model.url, "?", options={"retries": Retries(longest=0.05)})
        assert led.done.content == "Here."


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("body", [b"", b'{"choices": [{"message": {"role": "assistant", "content": "Gone."}}]}'])
def test_a_redirect_is_no_answer_and_is_not_followed(body: bytes, status: int, face: str) -> None:
    moved = Raw(body, status, "application/json")
    with simulate([[moved]]) as model:
        with pytest.raises(ProviderError, match="redirects are not followed") as found:
            lead(face, "openai", model.url, "?", options={"retries": QUICK})
        assert (found.value.status, len(model.requests)) == (status, 1)


@pytest.mark.parametrize("header", ["x-request-id", "request-id"])
def test_a_key_in_the_name_of_a_request_is_hidden(header: str) -> None:
    failing = [[Fail(Error("authentication", "No."), headers={header: f"req-{KEY}"})]]
    with simulate(failing) as model, pytest.raises(AuthenticationFailed) as found:
        chat("sync", "openai", model.url, "?")
    assert KEY not in str(found.value)
    assert KEY not in repr(found.value.error)


def test_a_key_that_looks_like_none_is_hidden_in_an_error_that_repeats_it() -> None:
    key = "open sesame if you please"
    told = Raw(json.dumps({"error": {"message": f"Wrong: {key}", "code": key}}).encode(), 401)
    with simulate([told], strict=False) as model, pytest.raises(AuthenticationFailed, match="Wrong: ") as found:
        lead("sync", "openai", model.url, "?", options={"api_key": key})
    assert key not in str(found.value)
    assert key not in repr(found.value.error)


HALF: dict[str, tuple[str, list[str], int]] = {
    "before its first word": ("", ["Here."], 2),
    "after a word": ("Half", ["Half"], 1),
}


@pytest.mark.parametrize("case", HALF)
def test_a_stream_that_ends_before_its_answer_does_is_an_error(case: str) -> None:
    words, texts, requests = HALF[case]
    chunk = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": words}, "finish_reason": None}]}
    half = Raw(f"data: {json.dumps(chunk)}\n\n".encode(), 200, "text/event-stream")
    with simulate([[half], ["Here."]][:requests]) as model:
        done = lead("sync", "openai", model.url, "?", shown=True, options={"retries": QUICK}).done
        assert len(model.requests) == requests
    assert [message.text for message in done.messages] == texts
    assert (None if done.error is None else done.error.code) == ("incomplete" if requests == 1 else None)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthenticationFailed), (429, RateLimited), (503, ProviderUnavailable)]
)
@pytest.mark.parametrize("face", FACES)
def test_an_error_with_a_long_body_is_the_error_that_it_is(face: str, status: int, kind: Any) -> None:
    long = Raw(b'{"error": {"message": "' + b"x" * 1_100_000 + b'"}}', status, "application/json")
    with simulate(lambda _request, _turn: [long]) as model:
        with pytest.raises(kind) as found:
            lead(face, "openai", model.url, "?", options={"retries": QUICK})
        assert found.value.status == status
        assert len(model.requests) == (1 if status == 401 else 3)


def test_of_two_tools_of_one_name_the_first_is_declared() -> None:
    first, second = (Tool("look", words, {"type": "object", "properties": {}}) for words in ("first", "second"))
    with simulate(["Done."]) as model:
        where = {"base_url": model.url, "api_key": "k"}
        generate(Context("", [Message("?")], [first]), "openai", "m", options=where, tools=[second, second])
        asked = model.requests[0].request
    assert asked is not None
    assert [(tool.name, tool.description) for tool in asked.tools if isinstance(tool, Tool)] == [("look", "first")]
