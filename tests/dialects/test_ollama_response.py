"""Responses and errors of Ollama, in both directions."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, losses
from toolwire import Choice, Error, Message, Opaque, Response, Text, Thinking, ToolCall, Usage, dialect
from toolwire.dialects import ollama

CALL = ToolCall("call_1", "look", {"city": "Paris"})
CALL_BODY = {"id": "call_1", "function": {"name": "look", "arguments": {"city": "Paris"}}}

WHEN, SECONDS = "2025-05-16T00:19:53.711799677Z", 1747354793.711799
OWN_RESPONSES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "generated": {"model": "m", "created_at": WHEN, "response": "Because.", "done": True, "context": [1]},
    "an error": {"error": "no"},
    "a call": {
        "model": "m",
        "created_at": WHEN,
        "message": {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "function": {"index": 0, "name": "f", "arguments": {}}}],
        },
        "done": True,
        "done_reason": "stop",
        "total_duration": 5,
        "prompt_eval_count": 1,
        "eval_count": 2,
        "logprobs": [{"token": "a"}],
    },
    "loaded": {"message": {"role": "assistant", "content": ""}, "done_reason": "load", "done": True},
    "no end": {"message": {"role": "Assistant", "content": "a"}, "done": False, "done_reason": ""},
    "odd": {
        "message": {"role": "tool", "content": None},
        "done": "yes",
        "done_reason": 1,
        "created_at": "today",
        "eval_count": "2",
    },
    "null for a role": {"message": {"role": None, "content": "a"}, "created_at": "2025-05-16T00:19:53", "model": None},
    "another offset": {"created_at": "2025-05-16T02:19:53.7+02:00"},
    "no message": {"message": "x", "done": True},
}


@pytest.mark.parametrize("body", OWN_RESPONSES.values(), ids=OWN_RESPONSES)
def test_a_response_comes_back(body: dict[str, Any]) -> None:
    encoded = ollama.encode_response(ollama.decode_response(body))
    assert (encoded.body, encoded.losses) == (body, ())


def test_what_a_response_means() -> None:
    response = ollama.decode_response(OWN_RESPONSES["a call"])
    assert (response.model, response.created, response.content) == ("m", SECONDS, None)
    assert response.tool_calls == [ToolCall("c", "f", {})]
    assert (response.finish_reason, response.raw_finish_reason) == ("tool_calls", "stop")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (
        1,
        2,
        3,
    )
    assert response.opaque is not None
    assert response.opaque.value == {"total_duration": 5, "logprobs": [{"token": "a"}]}
    assert ollama.decode_response(OWN_RESPONSES["another offset"]).created == 1747354793.7
    assert ollama.decode_response(OWN_RESPONSES["odd"]).created is None
    assert ollama.decode_response(OWN_RESPONSES["nothing"]).usage is None


REASONS: dict[str, tuple[str | None, str | None, bool]] = {
    "stop": ("stop", "stop", False),
    "length": ("length", "length", False),
    "load": ("load", "unknown", False),
    "unload": ("unload", "unknown", False),
    "empty": ("", None, False),
    "absent": (None, None, False),
    "stop with calls": ("stop", "tool_calls", True),
    "absent with calls": (None, "tool_calls", True),
    "length with calls": ("length", "length", True),
}


@pytest.mark.parametrize(("raw", "reason", "called"), REASONS.values(), ids=REASONS)
def test_why_an_answer_ended(raw: str | None, reason: str | None, called: bool) -> None:
    calls = {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]} if called else {}
    body = {
        "message": {"role": "assistant", "content": "a", **calls},
        **({} if raw is None else {"done_reason": raw}),
    }
    response = ollama.decode_response(body)
    assert (response.finish_reason, response.raw_finish_reason) == (reason, raw)
    assert ollama.encode_response(response).body == body


FINISHES: dict[str, tuple[Any, list[Any], str, list[Said]]] = {
    "stop": ("stop", [Text("a")], "stop", []),
    "length": ("length", [Text("a")], "length", []),
    "calls": ("tool_calls", [CALL], "stop", []),
    "no reason": (None, [Text("a")], "stop", []),
    "refusal": ("refusal", [Text("a")], "stop", [("choices[0].finish_reason", "approximated", "semantic")]),
    "full": (
        "context_window",
        [Text("a")],
        "length",
        [("choices[0].finish_reason", "approximated", "semantic")],
    ),
    "filtered": (
        "content_filter",
        [Text("a")],
        "stop",
        [("choices[0].finish_reason", "approximated", "semantic")],
    ),
    "calls without any": (
        "tool_calls",
        [Text("a")],
        "stop",
        [("choices[0].finish_reason", "approximated", "semantic")],
    ),
}


@pytest.mark.parametrize(("reason", "parts", "word", "lost"), FINISHES.values(), ids=FINISHES)
def test_why_an_answer_from_elsewhere_ended(reason: Any, parts: list[Any], word: str, lost: list[Any]) -> None:
    encoded = ollama.encode_response(Response.of(Message("assistant", parts), reason))
    assert (encoded.body["done_reason"], losses(encoded)) == (word, lost)


def test_a_response_from_elsewhere() -> None:
    answer = Message("assistant", [Thinking("Hm."), Text("I "), Text("look."), CALL])
    choice = Choice(answer, "tool_calls", "tool_use", opaque=Opaque("anthropic", {}))
    response = Response(choices=[choice], id="msg_1", model="m", created=1_700_000_000, usage=Usage(3, 4, 1))
    encoded = ollama.encode_response(response)
    assert encoded.body == {
        "model": "m",
        "created_at": "2023-11-14T22:13:20Z",
        "message": {"role": "assistant", "thinking": "Hm.", "content": "I look.", "tool_calls": [CALL_BODY]},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 3,
        "eval_count": 4,
    }
    assert losses(encoded) == [
        ("choices[0].message.content", "merged", "minor"),
        ("usage.cache_read_tokens", "dropped", "formal"),
        ("id", "dropped", "formal"),
    ]


def test_a_bare_response_from_elsewhere() -> None:
    encoded = ollama.encode_response(Response())
    assert encoded.body == {
        "model": "",
        "created_at": "1970-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": ""},
        "done": True,
    }


def test_what_a_response_cannot_hold() -> None:
    choices = [
        Choice(Message("assistant", "a"), "stop_sequence", stop_sequence="END"),
        Choice(Message("assistant", "b")),
    ]
    response = Response(choices=choices, created=1e300, service_tier="priority", provider_state={"id": "r"})
    encoded = ollama.encode_response(response)
    assert encoded.body["created_at"] == "1970-01-01T00:00:00Z"
    assert losses(encoded) == [
        ("created", "dropped", "formal"),
        ("choices[0].finish_reason", "approximated", "minor"),
        ("choices[0].stop_sequence", "dropped", "minor"),
        ("choices[1]", "dropped", "semantic"),
        ("service_tier", "dropped", "formal"),
        ("provider_state.id", "dropped", "formal"),
    ]


@pytest.mark.parametrize("key", ["prompt_eval_count", "eval_count"])
@pytest.mark.parametrize("count", [-1, 2**60, "3"])
def test_a_count_that_is_none_is_kept_and_told_as_bookkeeping(key: str, count: Any) -> None:
    body = {"model": "m", "message": {"role": "assistant", "content": "a"}, "done": True, key: count}
    assert ollama.encode_response(ollama.decode_response(body)).body == body
    encoded = dialect("openai-chat").encode_response(ollama.decode_response(body))
    assert [(loss.path, loss.severity) for loss in encoded.losses] == [(f"opaque.{key}", "formal")]


def test_one_value_of_a_response_changes_one_place() -> None:
    body = OWN_RESPONSES["a call"]
    response = ollama.decode_response(body)
    assert response.usage is not None
    later = replace(response, created=SECONDS + 1, usage=replace(response.usage, output_tokens=9))
    changed = ollama.encode_response(later).body
    assert changed == {**body, "created_at": "2025-05-16T00:19:54.711799Z", "eval_count": 9}
    cut = replace(response, choices=[replace(response.choices[0], finish_reason="length")])
    assert ollama.encode_response(cut).body == {**body, "done_reason": "length"}


ERRORS: dict[str, tuple[int, Any, tuple[str, str]]] = {
    "words": (400, {"error": "m does not support tools"}, ("invalid_request", "m does not support tools")),
    "not found": (404, {"error": "model 'm' not found", "note": 1}, ("not_found", "model 'm' not found")),
    "too long": (
        400,
        {"error": "the input length exceeds the context length"},
        ("context_length", "the input length exceeds the context length"),
    ),
    "server": (500, {"error": "llama runner crashed"}, ("server", "llama runner crashed")),
    "like another's": (
        429,
        {
            "error": {
                "message": "slow down",
                "type": "rate_limit_error",
                "param": None,
                "code": 7,
                "more": 1,
            },
            "id": "x",
        },
        ("rate_limit", "slow down"),
    ),
    "an empty code": (400, {"error": {"message": "a", "code": ""}}, ("invalid_request", "a")),
    "text": (502, "Bad gateway", ("server", "Bad gateway")),
    "nothing": (503, None, ("overloaded", "")),
    "something": (401, {"detail": "who?"}, ("authentication", '{"detail":"who?"}')),
}


@pytest.mark.parametrize(("status", "body", "meaning"), ERRORS.values(), ids=ERRORS)
def test_an_error(status: int, body: Any, meaning: tuple[str, str]) -> None:
    error = ollama.decode_error(status, body)
    assert (error.kind, error.message) == meaning
    reply = ollama.encode_error(error)
    assert (reply.status, reply.body, reply.losses) == (status, body, ())


def test_the_details_of_an_error_like_anothers() -> None:
    error = ollama.decode_error(429, ERRORS["like another's"][1])
    assert (error.type, error.code, error.retryable) == ("rate_limit_error", 7, True)
    assert ollama.encode_error(replace(error, message="wait")).body["error"]["message"] == "wait"


FOREIGN_ERRORS: dict[str, tuple[Error, int, list[Said]]] = {
    "with a status": (Error("rate_limit", "wait", 429), 429, []),
    "without": (Error("not_found", "wait"), 404, []),
    "with details": (
        Error("overloaded", "wait", 529, "overloaded_error", "c", "p", "req_1"),
        529,
        [(field, "dropped", "minor") for field in ("type", "param", "code", "request_id")],
    ),
    "of a kind without a status": (Error("unknown", "wait"), 500, [("kind", "approximated", "minor")]),
}


@pytest.mark.parametrize(("error", "status", "lost"), FOREIGN_ERRORS.values(), ids=FOREIGN_ERRORS)
def test_an_error_from_elsewhere(error: Error, status: int, lost: list[Any]) -> None:
    reply = ollama.encode_error(error)
    assert (reply.status, reply.body, losses(reply)) == (status, {"error": "wait"}, lost)
