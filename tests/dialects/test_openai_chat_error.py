"""Errors of Chat Completions and of the servers that imitate it, and what they become elsewhere."""

from typing import Any

import pytest

from toolwire import Opaque, ToolCall, dialect, translate
from toolwire.dialects import openai_chat
from toolwire.streams import encode_json
from toolwire.types import Error, ErrorEnd

BODIES: dict[str, tuple[int | None, Any, Error]] = {
    "the usual form": (
        400,
        {"error": {"message": "m", "type": "invalid_request_error", "param": "messages", "code": None}},
        Error("invalid_request", "m", 400, "invalid_request_error", None, "messages"),
    ),
    "a code": (
        429,
        {
            "error": {
                "message": "m",
                "type": "insufficient_quota",
                "param": None,
                "code": "insufficient_quota",
            }
        },
        Error("billing", "m", 429, "insufficient_quota", "insufficient_quota"),
    ),
    "a context that is too long": (
        400,
        {"error": {"message": "m", "code": "context_length_exceeded", "param": "messages"}},
        Error("context_length", "m", 400, None, "context_length_exceeded", "messages"),
    ),
    "a number as a code": (
        502,
        {"error": {"message": "m", "code": 502}},
        Error("server", "m", 502, None, 502),
    ),
    "a number as a code in a stream": (
        200,
        {"error": {"message": "m", "code": 429}, "user_id": "u"},
        Error("rate_limit", "m", 200, None, 429),
    ),
    "a number without a status": (
        None,
        {"error": {"message": "m", "code": 401}},
        Error("authentication", "m", None, None, 401),
    ),
    "more": (
        401,
        {"error": {"message": "m", "metadata": {"raw": "x"}}, "request_id": "r"},
        Error("authentication", "m", 401),
    ),
    "text": (404, {"error": "model not found"}, Error("not_found", "model not found", 404)),
    "a message": (
        422,
        {"object": "error", "message": "m", "code": 40303},
        Error("invalid_request", "m", 422),
    ),
    "a list": (
        400,
        [{"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}],
        Error("invalid_request", "m", 400, None, 400),
    ),
    "a detail": (
        422,
        {"detail": [{"msg": "m"}]},
        Error("invalid_request", '{"detail":[{"msg":"m"}]}', 422),
    ),
    "an error that is null": (500, {"error": None}, Error("server", '{"error":null}', 500)),
    "an error without words": (
        500,
        {"error": {"type": "server_error"}},
        Error("server", '{"error":{"type":"server_error"}}', 500),
    ),
    "a page": (502, "<html>Bad gateway</html>", Error("server", "<html>Bad gateway</html>", 502)),
    "nothing": (503, None, Error("overloaded", "", 503)),
    "an empty object": (500, {}, Error("server", "{}", 500)),
    "a long page": (500, "x" * 900, Error("server", "x" * 500, 500)),
}


@pytest.mark.parametrize(("status", "body", "error"), BODIES.values(), ids=BODIES)
def test_an_error_is_read_and_comes_back(status: int | None, body: Any, error: Error) -> None:
    read = openai_chat.decode_error(status, body)
    assert (read.kind, read.message, read.status) == (error.kind, error.message, error.status)
    assert (read.type, read.code, read.param) == (error.type, error.code, error.param)
    reply = openai_chat.encode_error(read)
    assert (reply.body, reply.losses) == (body, ())
    assert reply.status == (status if status is not None else 401)


KINDS: list[tuple[int, str, bool]] = [
    (400, "invalid_request", False),
    (401, "authentication", False),
    (402, "billing", False),
    (403, "permission", False),
    (404, "not_found", False),
    (408, "timeout", True),
    (409, "conflict", True),
    (413, "too_large", False),
    (418, "invalid_request", False),
    (422, "invalid_request", False),
    (429, "rate_limit", True),
    (500, "server", True),
    (502, "server", True),
    (503, "overloaded", True),
    (504, "timeout", True),
    (529, "overloaded", True),
    (599, "server", True),
    (302, "unknown", False),
]


@pytest.mark.parametrize(("status", "kind", "retryable"), KINDS)
def test_a_status_says_the_kind(status: int, kind: str, retryable: bool) -> None:
    read = openai_chat.decode_error(status, {"error": {"message": "m"}})
    assert (read.kind, read.retryable) == (kind, retryable)


WORDS: list[tuple[int | None, dict[str, Any], str]] = [
    (429, {"code": "insufficient_quota"}, "billing"),
    (429, {"type": "insufficient_quota"}, "billing"),
    (429, {"code": "rate_limit_exceeded"}, "rate_limit"),
    (400, {"code": "context_length_exceeded"}, "context_length"),
    (400, {"code": "invalid_api_key"}, "authentication"),
    (400, {"code": "model_not_found"}, "not_found"),
    (200, {"type": "server_error"}, "server"),
    (None, {"type": "server_error"}, "server"),
    (400, {"type": "server_error"}, "server"),
    (500, {"type": "server_error"}, "server"),
    (503, {"type": "server_error"}, "overloaded"),
    (529, {"type": "server_error", "code": "server_error"}, "overloaded"),
    (504, {"type": "server_error"}, "timeout"),
    (429, {"type": "server_error"}, "rate_limit"),
    (400, {"code": "array_above_max_length"}, "invalid_request"),
    (200, {"code": "invalid_image_url", "type": "image_generation_user_error"}, "invalid_request"),
    (200, {"code": "bio_policy"}, "invalid_request"),
    (200, {"type": "invalid_request_error"}, "invalid_request"),
    (401, {"type": "invalid_request_error"}, "authentication"),
    (429, {"type": "invalid_request_error"}, "rate_limit"),
]


@pytest.mark.parametrize(("status", "said", "kind"), WORDS)
def test_a_word_says_more_than_the_status_but_for_the_one_that_says_least(
    status: int | None, said: dict[str, Any], kind: str
) -> None:
    assert openai_chat.decode_error(status, {"error": {"message": "m", **said}}).kind == kind


WRITTEN: list[tuple[Any, int, str, str | None]] = [
    ("invalid_request", 400, "invalid_request_error", None),
    ("context_length", 400, "invalid_request_error", "context_length_exceeded"),
    ("authentication", 401, "authentication_error", None),
    ("billing", 402, "insufficient_quota", "insufficient_quota"),
    ("permission", 403, "permission_error", None),
    ("not_found", 404, "not_found_error", None),
    ("conflict", 409, "invalid_request_error", None),
    ("too_large", 413, "invalid_request_error", None),
    ("rate_limit", 429, "rate_limit_error", None),
    ("server", 500, "server_error", None),
    ("unknown", 500, "server_error", None),
    ("overloaded", 503, "server_error", None),
    ("timeout", 504, "timeout_error", None),
]


@pytest.mark.parametrize(("kind", "status", "word", "code"), WRITTEN)
def test_an_error_from_elsewhere(kind: Any, status: int, word: str, code: str | None) -> None:
    reply = openai_chat.encode_error(Error(kind, "m"))
    assert (reply.status, reply.losses) == (status, ())
    assert reply.body == {"error": {"message": "m", "type": word, "param": None, "code": code}}


def test_an_error_from_elsewhere_with_everything() -> None:
    error = Error("rate_limit", "m", 430, "x", 7, "p", "req_1", Opaque("anthropic", {"details": 1}))
    reply = openai_chat.encode_error(error)
    assert (reply.status, reply.body) == (
        430,
        {"error": {"message": "m", "type": "rate_limit_error", "param": "p", "code": None}},
    )
    assert [(loss.path, loss.severity) for loss in reply.losses] == [
        ("code", "minor"),
        ("opaque.details", "semantic"),
        ("request_id", "formal"),
    ]


ACROSS: list[tuple[int, Any, int, str]] = [
    (400, {"error": {"message": "m", "code": None}}, 400, "invalid_request_error"),
    (401, {"error": {"message": "m", "code": "invalid_api_key"}}, 401, "authentication_error"),
    (403, {"error": {"message": "m"}}, 403, "permission_error"),
    (404, {"error": {"message": "m", "code": "model_not_found"}}, 404, "not_found_error"),
    (413, {"error": {"message": "m"}}, 413, "request_too_large"),
    (429, {"error": {"message": "m", "code": "insufficient_quota"}}, 429, "billing_error"),
    (429, {"error": {"message": "m"}}, 429, "rate_limit_error"),
    (500, {"error": {"message": "m"}}, 500, "api_error"),
    (503, {"error": {"message": "m"}}, 503, "overloaded_error"),
    (504, "m", 504, "timeout_error"),
    (502, {"error": "m"}, 502, "api_error"),
]


@pytest.mark.parametrize(("status", "body", "answered", "word"), ACROSS)
def test_an_error_for_a_client_of_messages(status: int, body: Any, answered: int, word: str) -> None:
    reply = translate.error(status, body, "openai", "anthropic")
    assert reply.status == answered
    assert reply.body == {"type": "error", "error": {"type": word, "message": "m"}}


TOO_LONG: dict[str, Any] = {
    "openai-chat": {"error": {"message": "m", "type": "x", "param": "messages", "code": "context_length_exceeded"}},
    "openai-responses": {"error": {"message": "m", "type": "x", "param": None, "code": "context_length_exceeded"}},
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9"}},
    "gemini": {
        "error": {"code": 400, "message": "1 exceeds the maximum number of tokens", "status": "INVALID_ARGUMENT"}
    },
    "ollama": {"error": "the input exceeds the context length"},
}

SIGNS = {
    "anthropic": "prompt is too long",
    "gemini": "exceeds the maximum number of tokens",
    "ollama": "exceeds the context length",
}


@pytest.mark.parametrize("source", TOO_LONG)
@pytest.mark.parametrize("target", TOO_LONG)
def test_a_prompt_that_was_too_long_is_known_by_the_targets_own_sign(source: str, target: str) -> None:
    reply = translate.error(400, TOO_LONG[source], source, target)
    assert dialect(target).decode_error(reply.status, reply.body).kind == "context_length"
    sign = SIGNS.get(target, '"code":"context_length_exceeded"').encode()
    assert sign in encode_json(reply.body)
    told = dialect(target).encode_stream().feed(ErrorEnd(dialect(source).decode_error(400, TOO_LONG[source])))
    assert sign in told


NUMBERS: list[tuple[str, int, Any, str | None]] = [
    ("gemini", 400, {"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}, None),
    ("gemini", 429, {"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}, None),
    ("ollama", 402, {"error": {"message": "m", "code": 402}}, "insufficient_quota"),
    ("ollama", 400, {"error": {"message": "m", "code": "1261"}}, None),
    ("ollama", 400, {"error": {"message": "m", "code": "bad_thing"}}, "bad_thing"),
]


@pytest.mark.parametrize(("source", "status", "body", "code"), NUMBERS)
@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
def test_a_vendors_number_is_no_code(source: str, status: int, body: Any, code: str | None, target: str) -> None:
    reply = translate.error(status, body, source, target)
    assert (reply.status, reply.body["error"]["code"]) == (status, code)


IMITATORS: list[tuple[str, int, Any]] = [
    ("openai-chat", 400, {"error": {"message": "This model's maximum context length is 9", "code": 400}}),
    ("openai-chat", 400, {"object": "error", "message": "This model's maximum context length is 9", "code": 400}),
    ("openai-chat", 500, {"error": {"message": "the prompt exceeds the available context size", "code": 500}}),
    ("openai-responses", 400, {"error": {"message": "This model's maximum context length is 9", "type": "x"}}),
    ("openai-responses", 400, {"error": "the input exceeds the context length"}),
    ("ollama", 500, {"error": "the input exceeds the context length"}),
]


@pytest.mark.parametrize(("source", "status", "body"), IMITATORS)
def test_a_server_without_a_code_says_in_words_that_a_prompt_was_too_long(source: str, status: int, body: Any) -> None:
    read = dialect(source).decode_error(status, body)
    assert read.kind == "context_length"
    assert dialect(source).encode_error(read).body == body
    for target in ("openai-chat", "openai-responses", "anthropic"):
        if target != source:
            reply = translate.error(status, body, source, target)
            assert dialect(target).decode_error(reply.status, reply.body).kind == "context_length"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        "The input (32800 tokens) is longer than the model's context length (32768 tokens).",
    ],
)
def test_a_prompt_that_is_too_long_is_known_by_its_words(message: str) -> None:
    assert openai_chat.decode_error(400, {"error": {"message": message}}).kind == "context_length"


@pytest.mark.parametrize(("reason", "runs"), [("length", False), ("content_filter", False), ("tool_calls", True)])
def test_a_call_of_free_text_that_was_cut_off_does_not_run(reason: str, runs: bool) -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = {"id": "r", "choices": [{"index": 0, "finish_reason": reason, "message": message}]}
    response = openai_chat.decode_response(body)
    assert [one.runs for one in response.message.parts if isinstance(one, ToolCall)] == [runs]
    assert bool(response.tool_calls) is runs
    assert openai_chat.encode_response(response).body == body


@pytest.mark.parametrize("word", ["abort", "insufficient_system_resource"])
def test_an_answer_that_its_server_gave_up_ends_in_an_error(word: str) -> None:
    message = {"role": "assistant", "content": "Half"}
    body = {"id": "r", "choices": [{"index": 0, "finish_reason": word, "message": message}]}
    response = openai_chat.decode_response(body)
    assert response.finish_reason == "error"
    assert openai_chat.encode_response(response).body == body
