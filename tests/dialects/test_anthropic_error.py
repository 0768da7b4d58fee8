"""Errors of Messages, and what they become elsewhere."""

from typing import Any

import pytest

from toolwire import Opaque, translate
from toolwire.dialects import anthropic
from toolwire.types import Error


def body_of(word: Any, message: str = "m", **fields: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": word, "message": message}, **fields}


WORDS: list[tuple[int, str, str, bool]] = [
    (400, "invalid_request_error", "invalid_request", False),
    (401, "authentication_error", "authentication", False),
    (402, "billing_error", "billing", False),
    (403, "permission_error", "permission", False),
    (404, "not_found_error", "not_found", False),
    (409, "conflict_error", "conflict", True),
    (413, "request_too_large", "too_large", False),
    (429, "rate_limit_error", "rate_limit", True),
    (500, "api_error", "server", True),
    (504, "timeout_error", "timeout", True),
    (529, "overloaded_error", "overloaded", True),
]


@pytest.mark.parametrize(("status", "word", "kind", "retryable"), WORDS)
def test_a_word_says_the_kind(status: int, word: str, kind: str, retryable: bool) -> None:
    body = body_of(word, request_id="req_1")
    for given in (status, None, 200):
        error = anthropic.decode_error(given, body)
        assert (error.kind, error.message, error.type, error.request_id) == (kind, "m", word, "req_1")
        assert error.retryable is retryable
        assert anthropic.encode_error(error).body == body
    reply = anthropic.encode_error(Error(error.kind, "m"))
    assert reply.body == body_of(word)
    assert reply.status == (503 if kind == "overloaded" else status)


BODIES: dict[str, tuple[int, Any, str, str]] = {
    "more": (
        400,
        {
            **body_of("invalid_request_error"),
            "error": {"type": "x", "message": "m", "details": {"a": 1}},
            "y": 1,
        },
        "invalid_request",
        "m",
    ),
    "a prompt that is too long": (
        400,
        body_of("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
        "context_length",
        "prompt is too long: 200001 tokens > 200000 maximum",
    ),
    "a limit that is too long": (
        400,
        body_of("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 3"),
        "context_length",
        "input length and `max_tokens` exceed context limit: 1 + 2 > 3",
    ),
    "no credit": (
        400,
        body_of("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
        "billing",
        "Your credit balance is too low to access the Anthropic API.",
    ),
    "a word of nobody": (418, body_of("teapot_error"), "invalid_request", "m"),
    "no word": (503, {"error": {"message": "m"}}, "overloaded", "m"),
    "a word of no kind": (500, body_of(None), "server", "m"),
    "no message": (500, {"type": "error", "error": {"type": "api_error"}}, "server", ""),
    "text": (502, "<html>", "server", "<html>"),
    "an error in words": (404, {"error": "no such model"}, "not_found", ""),
    "nothing": (529, None, "overloaded", ""),
    "a list": (400, [1], "invalid_request", "[1]"),
}


@pytest.mark.parametrize("case", BODIES)
def test_an_error_is_read_and_comes_back(case: str) -> None:
    status, body, kind, message = BODIES[case]
    error = anthropic.decode_error(status, body)
    assert (error.kind, error.status) == (kind, status)
    assert error.message.startswith(message)
    reply = anthropic.encode_error(error)
    assert (reply.status, reply.body, reply.losses) == (status, body, ())


OTHERS: list[tuple[Any, int, str]] = [
    ("context_length", 400, "invalid_request_error"),
    ("unknown", 500, "api_error"),
    ("overloaded", 503, "overloaded_error"),
]


@pytest.mark.parametrize(("kind", "status", "word"), OTHERS)
def test_an_error_from_elsewhere(kind: Any, status: int, word: str) -> None:
    reply = anthropic.encode_error(Error(kind, "prompt is too long: m"))
    assert (reply.status, reply.body, reply.losses) == (status, body_of(word, "prompt is too long: m"), ())


def test_an_error_from_elsewhere_with_everything() -> None:
    error = Error("rate_limit", "m", 430, "x", 7, "p", "req_1", Opaque("openai-chat", {"user_id": 1}))
    reply = anthropic.encode_error(error)
    assert (reply.status, reply.body) == (430, body_of("rate_limit_error", request_id="req_1"))
    assert [(loss.path, loss.severity) for loss in reply.losses] == [
        ("code", "minor"),
        ("param", "minor"),
        ("opaque.user_id", "semantic"),
    ]


ACROSS: list[tuple[int, Any, dict[str, Any]]] = [
    (400, body_of("invalid_request_error"), {"type": "invalid_request_error", "code": None}),
    (
        400,
        body_of("invalid_request_error", "prompt is too long"),
        {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "prompt is too long"},
    ),
    (401, body_of("authentication_error"), {"type": "authentication_error", "code": None}),
    (402, body_of("billing_error"), {"type": "insufficient_quota", "code": "insufficient_quota"}),
    (403, body_of("permission_error"), {"type": "permission_error", "code": None}),
    (404, body_of("not_found_error"), {"type": "not_found_error", "code": None}),
    (409, body_of("conflict_error"), {"type": "invalid_request_error", "code": None}),
    (413, body_of("request_too_large"), {"type": "invalid_request_error", "code": None}),
    (429, body_of("rate_limit_error"), {"type": "rate_limit_error", "code": None}),
    (500, body_of("api_error"), {"type": "server_error", "code": None}),
    (504, body_of("timeout_error"), {"type": "timeout_error", "code": None}),
    (529, body_of("overloaded_error"), {"type": "server_error", "code": None}),
    (502, "m", {"type": "server_error", "code": None}),
]


@pytest.mark.parametrize(("status", "body", "said"), ACROSS)
def test_an_error_for_a_client_of_chat_completions(status: int, body: Any, said: dict[str, Any]) -> None:
    reply = translate.error(status, body, "anthropic", "openai")
    assert reply.status == status
    assert reply.body == {"error": {"message": "m", "param": None, **said}}


def test_the_id_of_a_request_is_told_as_lost() -> None:
    reply = translate.error(500, body_of("api_error", request_id="req_1"), "anthropic", "openai")
    assert [(loss.path, loss.severity) for loss in reply.losses] == [("request_id", "formal")]
