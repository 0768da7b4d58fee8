"""Errors, cuts and delays of the simulated model, as the users of the vendors' SDKs meet them."""

import threading
import time
from typing import Any

import anthropic
import google.genai.errors
import httpx
import httpx2
import ollama
import openai
import pytest

from tests.testing.asking import ASKERS, send
from tests.testing.sdks import anthropic_at, openai_at
from toolwire.testing import Cut, Fail, Pace, Raw, Scenario, Wait, simulate
from toolwire.types import Error, ErrorKind

pytestmark = pytest.mark.slow  # it waits for delays and timeouts

WORDS = "Some words, and then some more."

OPENAI: dict[ErrorKind, type[Exception]] = {
    "invalid_request": openai.BadRequestError,
    "context_length": openai.BadRequestError,
    "authentication": openai.AuthenticationError,
    "permission": openai.PermissionDeniedError,
    "not_found": openai.NotFoundError,
    "conflict": openai.ConflictError,
    "rate_limit": openai.RateLimitError,
    "server": openai.InternalServerError,
    "overloaded": openai.InternalServerError,
}
ANTHROPIC: dict[ErrorKind, type[Exception]] = {
    "invalid_request": anthropic.BadRequestError,
    "authentication": anthropic.AuthenticationError,
    "permission": anthropic.PermissionDeniedError,
    "not_found": anthropic.NotFoundError,
    "too_large": anthropic.RequestTooLargeError,
    "rate_limit": anthropic.RateLimitError,
    "server": anthropic.InternalServerError,
    "overloaded": anthropic.OverloadedError,
}
GOOGLE: dict[ErrorKind, type[Exception]] = {
    "invalid_request": google.genai.errors.ClientError,
    "rate_limit": google.genai.errors.ClientError,
    "server": google.genai.errors.ServerError,
    "overloaded": google.genai.errors.ServerError,
}
OLLAMA: dict[ErrorKind, type[Exception]] = dict.fromkeys(
    ("invalid_request", "not_found", "server"), ollama.ResponseError
)
RAISED = {
    "openai-chat": OPENAI,
    "openai-responses": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GOOGLE,
    "ollama": OLLAMA,
}


@pytest.mark.parametrize("name", RAISED)
def test_an_error_becomes_the_exception_of_the_sdk(name: str) -> None:
    with simulate() as model:
        for place, (kind, raised) in enumerate(RAISED[name].items()):
            model.play(Error(kind, f"It is {kind}."))
            with pytest.raises(raised, match=f"It is {kind}") as found:
                ASKERS[name](model.url, stream=place % 2 == 0)
            assert found.type is raised


def test_a_client_that_retries_waits_as_long_as_it_is_told() -> None:
    with simulate([Fail(Error("rate_limit", "Slow down."), retry_after=0.05), "Here."]) as model:
        with openai_at(model.url, max_retries=1) as client:
            begun = time.monotonic()
            asked: Any = [{"role": "user", "content": "?"}]
            answer = client.chat.completions.create(model="gpt-4.1", messages=asked)
        assert answer.choices[0].message.content == "Here."
        assert 0.05 <= time.monotonic() - begun < 20
        assert [received.status for received in model.requests] == [429, 200]


@pytest.mark.parametrize("name", ["openai-chat", "anthropic", "gemini", "ollama"])
def test_an_error_after_some_words_ends_the_stream(name: str) -> None:
    kinds = (openai.APIError, anthropic.APIStatusError, google.genai.errors.APIError, ollama.ResponseError)
    with (
        simulate([[WORDS, Error("overloaded", "Too much.")]]) as model,
        pytest.raises(kinds, match="Too much"),
    ):
        ASKERS[name](model.url, stream=True)


def test_responses_tell_an_error_after_some_words() -> None:
    with simulate([[WORDS, Error("overloaded", "Too much.")]]) as model, openai_at(model.url) as client:
        *_, last = client.responses.create(model="gpt-4.1", input="?", stream=True)
        assert last.type == "response.failed"
        assert last.response.error is not None
        assert last.response.error.message == "Too much."


LOST = (openai.APIConnectionError, anthropic.APIConnectionError, httpx2.TransportError, httpx.TransportError)
CUTS: dict[str, list[Any]] = {
    "before anything": [Cut()],
    "after some words": [WORDS, Cut()],
    "after the head": [WORDS, Cut(bytes=0)],
    "after some bytes": [WORDS, Cut(bytes=50)],
    "after an event": [WORDS, Cut(events=1)],
    "as a crash does": [WORDS, Cut(reset=True)],
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_is_a_lost_connection(cut: str) -> None:
    with simulate() as model:
        for name, ask in ASKERS.items():
            for stream in (True, False) if name == "anthropic" else (True,):
                model.play([CUTS[cut]])
                with pytest.raises(LOST):
                    ask(model.url, stream=stream)
        model.play([WORDS])
        assert ASKERS["ollama"](model.url) == WORDS


def test_a_cut_counts_bytes_and_events() -> None:
    def seen(*steps: Any) -> bytes:
        with simulate([[WORDS, *steps]], clock=lambda: 5) as model, httpx2.Client() as client:
            pieces: list[bytes] = []
            body = {"model": "qwen3", "messages": [{"role": "user", "content": "?"}]}
            with client.stream("POST", f"{model.url}/api/chat", json=body) as answer:
                try:
                    pieces += answer.iter_raw()
                except httpx2.TransportError:
                    pieces.append(b"!")
            return b"".join(pieces)

    whole = seen()
    lines = whole.splitlines(keepends=True)
    assert len(lines) > 2
    assert whole[-1:] == b"\n"
    assert seen(Cut(bytes=7)) == whole[:7] + b"!"
    assert seen(Cut(events=2)) == b"".join(lines[:2]) + b"!"
    assert seen(Cut(bytes=0)) == b"!"


@pytest.mark.parametrize("name", ASKERS)
def test_a_client_that_cannot_wait_gives_up_and_the_model_knows(name: str) -> None:
    late = (
        openai.APITimeoutError,
        anthropic.APITimeoutError,
        httpx2.TimeoutException,
        httpx.TimeoutException,
    )
    with simulate([[Wait(30), WORDS]]) as model:
        with pytest.raises(late):
            ASKERS[name](model.url, timeout=0.1)
        [received] = model.requests
        assert received.over.wait(10)
        assert received.gone
        assert received.sent == 0


def test_a_pace_spreads_the_events_of_a_stream() -> None:
    with simulate([[Pace(0.02), WORDS]]) as model, anthropic_at(model.url) as client:
        asked: Any = {
            "model": "claude-opus-5-5",
            "max_tokens": 10,
            "messages": [{"role": "user", "content": "?"}],
        }
        with client.messages.stream(**asked) as events:
            times = [time.monotonic() for _ in events]
        assert times[-1] - times[0] > 0.06
        assert model.requests[0].sent > 0


def test_a_client_that_leaves_ends_the_answer_at_once() -> None:
    with simulate([[Pace(0.01), WORDS * 100]]) as model, openai_at(model.url) as client:
        asked: Any = [{"role": "user", "content": "?"}]
        with client.chat.completions.create(model="gpt-4.1", messages=asked, stream=True) as chunks:
            next(iter(chunks))
        [received] = model.requests
        assert received.over.wait(10)
        assert received.gone


def test_bytes_are_sent_as_they_are() -> None:
    nasty = b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\r\n\r\ndata: {broken\n\n'
    with simulate([Raw(nasty), Raw(b"<html>busy</html>", 502, "text/html"), [WORDS, Raw(b": a comment\n\n")]]) as model:
        body = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "?"}], "stream": True}
        assert send(model.url, "openai-chat", body).data == nasty
        busy = send(model.url, "openai-chat", {**body, "stream": False})
        assert (busy.status, busy.headers["content-type"], busy.data) == (
            502,
            "text/html",
            b"<html>busy</html>",
        )
        mixed = send(model.url, "openai-chat", body).data
        assert mixed.count(b": a comment\n\n") == 1
        assert mixed.endswith(b"data: [DONE]\n\n")


def test_answers_at_once_do_not_wait_for_each_other() -> None:
    with simulate(Scenario([[Wait(1), WORDS]], repeat=True)) as model:
        threads = [threading.Thread(target=ASKERS["ollama"], args=(model.url,)) for _ in range(8)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - begun < 7, "one after another they take eight seconds"
        assert [received.status for received in model.requests] == [200] * 8
