"""The hub and a client meet: a request of any wire is asked of any provider, and its answer told on the first wire."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.client.canned import Canned
from tests.client.faces import DIALECTS, FACES, KEY, awaited, options_at
from toolwire import (
    Context,
    Error,
    ErrorEnd,
    Message,
    MessageEnd,
    MessageStart,
    Request,
    Response,
    TextDelta,
    Tool,
    ToolCall,
    ToolChoice,
    accumulate,
    aio,
    dialect,
)
from toolwire.client import sync
from toolwire.client.exchange import Retries
from toolwire.client.failures import ProviderError, RateLimited
from toolwire.dialects import NAMES
from toolwire.errors import InvalidField
from toolwire.testing import Cut, Fail, simulate
from toolwire.types import Choice, Text

LOOK = Tool("look", "Look.", {"type": "object", "properties": {"a": {"type": "integer"}}})
ASKED = Request(
    model="asked",
    max_tokens=100,
    context=Context("Be brief.", [Message("Look twice.")], [LOOK]),
)

YES = Response(choices=[Choice(Message("assistant", "Yes."), "stop")])
REACHED = {"openai": "openai-chat", **{name: name for name in NAMES}}


def send(face: str, name: str, url: str, request: Any, **options: Any) -> Any:
    given = {**options_at(name, url), **options}
    if face == "sync":
        with sync.Client(name, "own", **given) as client:
            return client.send(request)

    async def main() -> Any:
        async with aio.Client(name, "own", **given) as client:
            return await client.send(request)

    return awaited(main())


def send_stream(face: str, name: str, url: str, request: Any, **options: Any) -> tuple[list[Any], Any]:
    given = {**options_at(name, url), **options}
    if face == "sync":
        with sync.Client(name, "own", **given) as client, client.send_stream(request) as stream:
            assert stream.begin() is stream.begin()
            assert stream.response is None
            return list(stream), stream.response

    async def main() -> Any:
        async with aio.Client(name, "own", **given) as client, client.send_stream(request) as stream:
            assert await stream.begin() is stream
            assert stream.response is None
            return [event async for event in stream], stream.response

    return awaited(main())  # type: ignore[no-any-return]


@pytest.mark.sampled
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("wire", NAMES)
@pytest.mark.parametrize("face", FACES)
def test_a_request_of_any_wire_is_sent_to_any_provider(face: str, wire: str, name: str) -> None:
    encoded = dialect(wire).encode_request(ASKED)
    request = dialect(wire).decode_request(encoded.body, encoded.path)
    with simulate([[ToolCall(None, "look", {"a": 1})], [Text("So "), Text("what.")]]) as model:
        response = send(face, name, model.url, request)
        events, streamed = send_stream(face, name, model.url, request)
        first, second = model.requests
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("look", {"a": 1})]
    assert dialect(wire).decode_response(dialect(wire).encode_response(response).body).tool_calls[0].name == "look"
    assert accumulate(events) == streamed
    assert streamed.content == "So what."
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "So what."
    assert events[-1] == MessageEnd()
    told = [dialect(name).decode_request(each.body, each.path) for each in (first, second)]
    assert [(each.model, bool(each.stream)) for each in told] == [("asked", False), ("asked", True)]
    assert [tool.name for tool in told[0].tools if isinstance(tool, Tool)] == ["look"]
    encoder = dialect(wire).encode_stream()
    data = b"".join(map(encoder.feed, events)) + encoder.close()
    decoder = dialect(wire).decode_stream()
    assert accumulate(decoder.feed(data) + decoder.close()).content == "So what."


@pytest.mark.parametrize("face", FACES)
def test_the_model_is_that_of_the_request_or_the_clients(face: str) -> None:
    with simulate(["Yes.", "Yes."]) as model:
        send(face, "openai", model.url, ASKED)
        send(face, "openai", model.url, replace(ASKED, model=None))
        assert [each.body["model"] for each in model.requests] == ["asked", "own"]


@pytest.mark.parametrize("face", FACES)
def test_a_request_is_sent_with_key_headers_quirks_and_retries(face: str) -> None:
    options = {"headers": {"x-team": "blue"}, "quirks": {"max_tokens_key": "max_tokens"}, "retries": Retries(base=0.01)}
    with simulate([[Fail(Error("overloaded", "Later."))], ["Yes."]], api_key=KEY) as model:
        assert send(face, "openai", model.url, ASKED, **options).content == "Yes."
        assert [each.body["max_tokens"] for each in model.requests] == [100, 100]


@pytest.mark.parametrize("face", FACES)
def test_what_a_request_loses_is_in_the_answer(face: str) -> None:
    with simulate(["Yes.", "Yes."]) as model:
        asked = replace(ASKED, seed=7, stream=True)
        response = send(face, "anthropic", model.url, asked)
        _, streamed = send_stream(face, "anthropic", model.url, asked)
    assert {loss.path for loss in response.losses} >= {"seed"}
    assert response.losses == streamed.losses


@pytest.mark.parametrize("face", FACES)
def test_an_error_before_the_first_event_is_raised(face: str) -> None:
    failing = [[Fail(Error("rate_limit", "Slow."), retry_after=30)]]
    for attempts in (1, 3):
        retries = Retries(attempts, longest=0.01)
        with simulate(failing * 2 * attempts) as model:
            for way in (send, send_stream):
                with pytest.raises(RateLimited, match="Slow") as found:
                    way(face, "openai", model.url, ASKED, retries=retries)
                assert found.value.error.retry_after == 30.0
            assert len(model.requests) == 2 * attempts


@pytest.mark.parametrize("face", FACES)
def test_another_try_is_no_event(face: str) -> None:
    with simulate([[Fail(Error("overloaded", "Later."))], ["Yes."]]) as model:
        events, response = send_stream(face, "openai", model.url, ASKED, retries=Retries(base=0.01))
    assert type(events[0]) is MessageStart
    assert response.content == "Yes."


# How servers say an error with a status of 200, and whether another try may help.
UNDER_200: dict[str, dict[str, Any]] = {
    "openai": {"error": {"message": "Slow down.", "code": 429}, "user_id": "u"},
    "openai-responses": {
        "object": "response",
        "status": "failed",
        "output": [],
        "error": {"code": "rate_limit_exceeded", "message": "Slow down."},
    },
    "anthropic": {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}},
    "gemini": {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down."}},
}


@pytest.mark.parametrize("name", UNDER_200)
@pytest.mark.parametrize("face", FACES)
def test_an_error_with_the_status_of_an_answer_is_an_error(face: str, name: str) -> None:
    retries, good = Retries(2, base=0.01), dialect(REACHED[name]).encode_response(YES).body
    for bodies in ([UNDER_200[name]] * 2, [UNDER_200[name], good]):
        canned = Canned(*bodies)
        if good in bodies:
            assert send(face, name, "http://model", ASKED, retries=retries, transport=canned).content == "Yes."
        else:
            with pytest.raises(RateLimited, match="Slow down"):
                send(face, name, "http://model", ASKED, retries=retries, transport=canned)
        assert len(canned.sent) == 2


@pytest.mark.parametrize("face", FACES)
def test_an_error_in_words_with_the_status_of_an_answer_is_an_error(face: str) -> None:
    with pytest.raises(ProviderError, match="no such model"):
        send(face, "ollama", "http://model", ASKED, transport=Canned({"error": "no such model"}))


def test_what_had_come_of_an_answer_that_failed_is_kept_beside_its_error() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Half"}]}
    failed = {**UNDER_200["openai-responses"], "output": [said]}
    with sync.Client("openai-responses", "own", transport=Canned(failed), retries=Retries(1), api_key=KEY) as client:
        done = client.run("Go.")
    assert (done.ending, done.message.text) == ("error", "Half")
    assert done.error is not None
    assert (done.error.kind, done.error.message) == ("rate_limit", "Slow down.")


@pytest.mark.sampled
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("how", [Cut(), Fail(Error("overloaded", "Too much."))])
@pytest.mark.parametrize("face", FACES)
def test_an_error_after_the_first_event_is_an_event_and_the_end_comes_last(face: str, how: Any, name: str) -> None:
    with simulate([[Text("Half an"), Text(" answer, and more of it."), how]]) as model:
        events, response = send_stream(face, name, model.url, ASKED)
    assert [type(event) for event in events[-2:]] == [ErrorEnd, MessageEnd]
    assert [type(event) for event in events].count(ErrorEnd) == 1
    assert events[-1].complete is False
    assert response.content.startswith("Half")
    assert response.finish_reason in ("error", "incomplete")


@pytest.mark.parametrize("face", FACES)
def test_the_next_provider_is_sent_it_with_its_own_model(face: str) -> None:
    with simulate([[Fail(Error("invalid_request", "No."))], ["Yes."]]) as model:
        given = options_at("openai", model.url)
        others: Any = [("openai", given), ({"name": "anthropic", **given, "default_model": "other"})]
        if face == "sync":
            with sync.Client(others, "own", retries=Retries(1)) as client:
                assert client.send(replace(ASKED, model="first")).content == "Yes."
        else:

            async def main() -> Any:
                async with aio.Client(others, "own", retries=Retries(1)) as awaiting:
                    return await awaiting.send(replace(ASKED, model="first"))

            assert awaited(main()).content == "Yes."
        assert [each.body["model"] for each in model.requests] == ["first", "other"]


@pytest.mark.parametrize("face", FACES)
def test_a_tool_that_has_to_be_called_is_asked_for_again(face: str) -> None:
    must = replace(ASKED, tool_choice=ToolChoice("required"))
    with simulate(["No.", [ToolCall(None, "look", {"a": 1})]]) as model:
        assert send(face, "ollama", model.url, must).tool_calls[0].name == "look"


@pytest.mark.parametrize("wrong", ["Hi.", {"messages": []}, None, Context()])
@pytest.mark.parametrize("face", FACES)
def test_what_is_no_request_is_refused(face: str, wrong: Any) -> None:
    for way in (send, send_stream):
        with pytest.raises(InvalidField, match="send: request must be a Request"):
            way(face, "openai", "http://127.0.0.1:9", wrong)


def test_a_stream_that_is_closed_lets_go() -> None:
    with simulate([[Text("a"), Text("b"), Text("c")]]) as model:
        client = sync.Client("openai", "own", **options_at("openai", model.url))
        stream = client.send_stream(ASKED)
        next(iter(stream))
        stream.close()
        assert stream.response is None
        with pytest.raises(RuntimeError, match="closed"):
            stream.collect()
