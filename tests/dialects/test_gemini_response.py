"""Responses and errors of generateContent, both ways."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, losses
from toolwire import Choice, Citation, Error, Message, Opaque, Response, Text, Thinking, ToolCall, Usage, translate
from toolwire.dialects import gemini
from toolwire.errors import InvalidBody


def candidate(*parts: Any, **beside: Any) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": list(parts)}, **beside}


CALL = {"functionCall": {"name": "look", "args": {"a": 1}}}
OWN_RESPONSES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "an answer": {
        "candidates": [candidate({"text": "Yes."}, finishReason="STOP", index=0, avgLogprobs=-0.1)],
        "modelVersion": "gemini-3-pro",
        "responseId": "r",
        "createTime": "2026-10-01T00:00:00Z",
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5, "trafficType": "ON_DEMAND"},
    },
    "several answers": {"candidates": [candidate(CALL, index=1), candidate(CALL, {"text": ""}, index=0)]},
    "no content": {
        "candidates": [
            {"finishReason": "SAFETY"},
            {"content": None},
            {"content": {}},
            {"content": {"role": "x"}},
        ]
    },
    "one part": {"candidates": [{"content": {"parts": {"text": "a"}}}]},
    "candidates that are none": {"candidates": [None, "x"]},
    "no candidates": {"candidates": [], "promptFeedback": {"safetyRatings": []}},
    "a blocked prompt": {
        "promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"},
        "responseId": "r",
    },
    "a blocked prompt with a list": {"candidates": [], "promptFeedback": {"blockReason": 2}},
    "numbers of enums": {
        "candidates": [candidate({"text": "a"}, finishReason=number) for number in (0, 1, 2, 9, True)]
    },
    "grounding": {
        "candidates": [candidate({"text": "a"}, groundingMetadata={"webSearchQueries": ["q"]}, tokenCount=1)]
    },
    "fields of other kinds": {"responseId": 1, "modelVersion": None, "usageMetadata": [], "candidates": {}},
    "snake_case": {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"function_call": {"name": "f"}}]},
                "finish_reason": "STOP",
            }
        ],
        "usage_metadata": {"prompt_token_count": 5, "candidates_token_count": 2},
        "model_version": "m",
        "response_id": "r",
    },
}


@pytest.mark.parametrize("name", OWN_RESPONSES)
def test_identity(name: str) -> None:
    encoded = gemini.encode_response(gemini.decode_response(OWN_RESPONSES[name]))
    assert (encoded.body, encoded.losses) == (OWN_RESPONSES[name], ())


def test_a_response_that_is_no_object() -> None:
    with pytest.raises(InvalidBody, match="must be a JSON object"):
        gemini.decode_response([])  # type: ignore[arg-type]


FINISHES: list[tuple[Any, list[Any], str | None]] = [
    ("STOP", [{"text": "a"}], "stop"),
    ("STOP", [CALL], "tool_calls"),
    (None, [CALL], "tool_calls"),
    (None, [{"text": "a"}], None),
    (1, [CALL], "tool_calls"),
    (2, [{"text": "a"}], "length"),
    (77, [{"text": "a"}], "unknown"),
    ("MAX_TOKENS", [CALL], "length"),
    ("SAFETY", [], "content_filter"),
    ("RECITATION", [], "content_filter"),
    ("MODEL_ARMOR", [], "content_filter"),
    ("MALFORMED_FUNCTION_CALL", [], "malformed_tool_call"),
    ("UNEXPECTED_TOOL_CALL", [CALL], "tool_calls"),
    ("UNEXPECTED_TOOL_CALL", [], "malformed_tool_call"),
    ("", [CALL], "tool_calls"),
    ("MISSING_THOUGHT_SIGNATURE", [], "malformed_tool_call"),
    ("CONTINUATION", [{"text": "a"}], "pause"),
    ("OTHER", [], "unknown"),
    ("UNHEARD_OF", [], "unknown"),
]


@pytest.mark.parametrize(("word", "parts", "reason"), FINISHES)
def test_why_an_answer_ended(word: Any, parts: list[Any], reason: str | None) -> None:
    said = {} if word is None else {"finishReason": word}
    body = {"candidates": [candidate(*parts, **said)]}
    response = gemini.decode_response(body)
    assert response.finish_reason == reason
    assert gemini.encode_response(response).body == body


def test_every_candidate_is_a_choice() -> None:
    body = {"candidates": [candidate({"text": "a"}, index=0), candidate({"text": "b"}, index=1)]}
    assert [choice.message.content for choice in gemini.decode_response(body).choices] == ["a", "b"]


def test_a_blocked_prompt_is_one_empty_choice() -> None:
    response = gemini.decode_response({"promptFeedback": {"blockReason": "SAFETY"}})
    [choice] = response.choices
    assert (choice.message.content, choice.finish_reason, choice.raw_finish_reason) == (
        [],
        "content_filter",
        "SAFETY",
    )
    answered = replace(response, choices=[replace(choice, message=Message("assistant", "a"))])
    assert gemini.encode_response(answered).body["candidates"] == [
        {"content": {"role": "model", "parts": [{"text": "a"}]}, "finishReason": "SAFETY"}
    ]


def ids_of(*candidates: Any, **body: Any) -> list[str | None]:
    response = gemini.decode_response({"candidates": list(candidates), **body})
    return [call.id for choice in response.choices for call in choice.message.tool_calls]


def test_ids_of_calls_differ_within_a_response_and_from_turn_to_turn() -> None:
    first = ids_of(candidate(CALL, CALL), candidate(CALL), responseId="r1")
    second = ids_of(candidate(CALL, CALL), candidate(CALL), responseId="r2")
    third, fourth = ids_of(candidate(CALL)), ids_of(candidate(CALL, {"text": "a"}))
    made = [*first, *second, *third, *fourth]
    assert len(set(made)) == len(made) == 8
    assert all(re.fullmatch(r"gemini_[0-9]+", str(call_id)) for call_id in made)
    assert first == ids_of(candidate(CALL, CALL), candidate(CALL), responseId="r1")
    assert ids_of(candidate(CALL, {"functionCall": {"name": "look", "id": first[0]}}), responseId="r1") == [
        first[1],
        first[0],
    ]


def test_a_call_and_thoughts_mean_what_they_say() -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "Yes."}, {**CALL, "thoughtSignature": "a+/="}]
    response = gemini.decode_response({"candidates": [candidate(*parts)]})
    thinking, text, call = response.parts
    assert (type(thinking), type(text)) == (Thinking, Text)
    assert response.content == "Yes."
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments, call.index, call.complete) == ("look", {"a": 1}, 0, True)


CHUNKS = [{"web": {"uri": "https://a.example", "title": "A"}}, {"web": {"uri": "https://b.example"}}, {"maps": {}}]
FILE = {"retrievedContext": {"text": "kept", "fileSearchStore": "s"}}
NO_PLACES: list[Any] = [None, {}, {"segment": 1}, {"segment": {}, "groundingChunkIndices": [9, -1, "0", None]}]


def support(start: Any, end: Any, text: Any, *chunks: Any) -> dict[str, Any]:
    return {"segment": {"startIndex": start, "endIndex": end, "text": text}, "groundingChunkIndices": list(chunks)}


def grounded(*supports: Any) -> dict[str, Any]:
    return {"groundingMetadata": {"groundingChunks": [*CHUNKS, FILE, None, {}], "groundingSupports": list(supports)}}


SOURCES: dict[str, tuple[list[Any], dict[str, Any], list[list[Citation]]]] = {
    "two sources of one place": (
        [{"text": "so it is"}],
        grounded(support(3, 5, "it", 0, 1)),
        [[Citation("https://a.example", "A", None, 3, 5), Citation("https://b.example", None, None, 3, 5)]],
    ),
    "places are bytes": (
        [{"text": "über \U0001f600 alles"}],
        grounded(support(11, 16, "alles", 0)),
        [[Citation("https://a.example", "A", None, 7, 12)]],
    ),
    "a place in the second text": (
        [{"text": "thought", "thought": True}, {"text": "ü"}, CALL, {"text": "es", "thoughtSignature": "S"}],
        grounded(support(2, 4, "es", 0), support(0, 4, "üe", 0), support(1, 2, None, 0)),
        [[], [], [], [Citation("https://a.example", "A", None, 0, 2)]],
    ),
    "no start, no text": (
        [{"text": "so"}],
        {"citationMetadata": {"citations": [{"endIndex": 2, "uri": "https://c.example", "title": "C", "license": ""}]}},
        [[Citation("https://c.example", "C", None, 0, 2)]],
    ),
    "as the older wire says it": (
        [{"text": "so"}],
        {"citationMetadata": {"citationSources": [{"startIndex": 1, "endIndex": 2, "uri": "https://c.example"}, 1]}},
        [[Citation("https://c.example", None, None, 1, 2)]],
    ),
    "no such place": (
        [{"text": "so"}],
        grounded(*NO_PLACES, support(0, 9, None, 0), support(0, 2, "no", 0), support("0", True, "so", 0)),
        [[]],
    ),
    "no address": ([{"text": "so"}], grounded(support(0, 2, "so", 2, 3, 4, 5)), [[]]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_an_answer_is_grounded_on_is_cited_in_its_words(name: str) -> None:
    parts, beside, cited = SOURCES[name]
    body = {"candidates": [candidate(*parts, finishReason="STOP", **beside)]}
    response = gemini.decode_response(body)
    read = [getattr(part, "citations", None) or [] for part in response.parts]
    assert [[replace(one, opaque=None) for one in citations] for citations in read] == cited
    encoded = gemini.encode_response(response)
    assert (encoded.body, encoded.losses) == (body, ())


@pytest.mark.parametrize(("target", "place"), [("openai-chat", ("annotations",)), ("openai-responses", ())])
def test_what_an_answer_is_grounded_on_reaches_the_wires_that_cite_addresses(target: str, place: Any) -> None:
    body = {"candidates": [candidate({"text": "so it is"}, finishReason="STOP", **grounded(support(3, 5, "it", 0)))]}
    told = translate.response(body, "gemini", target)
    note = {"url": "https://a.example", "title": "A", "start_index": 3, "end_index": 5}
    if place:
        notes = told.body["choices"][0]["message"]["annotations"]
        assert notes == [{"type": "url_citation", "url_citation": note}]
    else:
        assert told.body["output"][0]["content"][0]["annotations"] == [{"type": "url_citation", **note}]
    assert "choices[0].opaque.groundingMetadata" in [loss.path for loss in told.losses]


USAGES: list[tuple[dict[str, Any], Usage]] = [
    (
        {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "totalTokenCount": 18},
        Usage(10, 8, None, None, 3),
    ),
    (
        {
            "promptTokenCount": 10,
            "toolUsePromptTokenCount": 4,
            "cachedContentTokenCount": 2,
            "totalTokenCount": 14,
        },
        Usage(14, None, 2),
    ),
    ({"thoughtsTokenCount": 3}, Usage(None, 3, None, None, 3)),
    ({"prompt_token_count": 1, "candidates_token_count": 2}, Usage(1, 2)),
    ({"promptTokenCount": "1"}, Usage()),
    ({"promptTokenCount": -1, "toolUsePromptTokenCount": 4, "thoughtsTokenCount": -3}, Usage(4)),
    ({"promptTokenCount": 2**53, "toolUsePromptTokenCount": 1, "candidatesTokenCount": 2**54}, Usage()),
]


@pytest.mark.parametrize(("body", "usage"), USAGES)
def test_usage(body: dict[str, Any], usage: Usage) -> None:
    response = gemini.decode_response({"usageMetadata": body})
    assert response.usage is not None
    assert replace(response.usage, opaque=None) == usage
    assert gemini.encode_response(response).body == {"usageMetadata": body}


def test_changed_usage_changes_its_counts() -> None:
    body = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 4,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
    }
    response = gemini.decode_response({"usageMetadata": {**body, "totalTokenCount": 22, "trafficType": "X"}})
    assert response.usage is not None
    changed = replace(response, usage=replace(response.usage, input_tokens=20))
    written = {**body, "promptTokenCount": 16, "totalTokenCount": 28, "trafficType": "X"}
    assert gemini.encode_response(changed).body == {"usageMetadata": written}


def test_counts_that_are_none_change_no_other_count() -> None:
    response = gemini.decode_response({"usageMetadata": {"promptTokenCount": 1, "toolUsePromptTokenCount": -4}})
    assert response.usage is not None
    written: Any = gemini.encode_response(replace(response, usage=replace(response.usage, input_tokens=20))).body
    assert written["usageMetadata"]["promptTokenCount"] == 20


def test_a_response_from_elsewhere() -> None:
    message = Message("assistant", [Thinking("Hm."), Text(""), Text("Yes."), ToolCall("c", "look", {"a": 1})])
    usage = Usage(10, 20, 3, 4, 5, Opaque("elsewhere", {}))
    response = Response.of(message, "tool_calls", id="r", model="m", created=1.0, usage=usage, service_tier="flex")
    encoded = gemini.encode_response(replace(response, provider_state={"a": 1}))
    thought = {"text": "Hm.", "thought": True}
    call = {"functionCall": {"name": "look", "id": "c", "args": {"a": 1}}}
    assert encoded.body == {
        "candidates": [candidate(thought, {"text": "Yes."}, call, finishReason="STOP", index=0)],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 15,
            "thoughtsTokenCount": 5,
            "cachedContentTokenCount": 3,
            "totalTokenCount": 30,
        },
        "modelVersion": "m",
        "responseId": "r",
    }
    assert losses(encoded) == [
        ("choices[0].message.content[0].text", "approximated", "minor"),
        ("usage.cache_write_tokens", "dropped", "formal"),
        ("usage.opaque", "dropped", "formal"),
        ("created", "dropped", "formal"),
        ("service_tier", "dropped", "formal"),
        ("provider_state.a", "dropped", "formal"),
    ]


WORDS: list[tuple[Any, str | None, bool]] = [
    (None, None, True),
    ("stop", "STOP", True),
    ("length", "MAX_TOKENS", True),
    ("content_filter", "SAFETY", True),
    ("malformed_tool_call", "MALFORMED_FUNCTION_CALL", True),
    ("pause", "CONTINUATION", True),
    ("unknown", "OTHER", True),
    ("stop_sequence", "STOP", False),
    ("refusal", "SAFETY", False),
    ("context_window", "MAX_TOKENS", False),
    ("error", "OTHER", False),
    ("incomplete", "OTHER", False),
]


@pytest.mark.parametrize(("reason", "word", "exact"), WORDS)
def test_the_word_for_why_an_answer_ended(reason: Any, word: str | None, exact: bool) -> None:
    encoded = gemini.encode_response(Response.of(Message("assistant", "a"), reason))
    assert encoded.body["candidates"][0].get("finishReason") == word
    severity = "minor" if reason == "stop_sequence" else "semantic"
    lost: list[Said] = [] if exact else [("choices[0].finish_reason", "approximated", severity)]
    assert losses(encoded) == lost


def test_what_a_choice_cannot_say() -> None:
    choice = Choice(Message("assistant", "a", name="me"), "stop", stop_sequence="END", opaque=Opaque("x", {"a": 1}))
    encoded = gemini.encode_response(Response(choices=[choice, choice]))
    assert [entry["index"] for entry in encoded.body["candidates"]] == [0, 1]
    assert losses(encoded)[:3] == [
        ("choices[0].message.name", "dropped", "semantic"),
        ("choices[0].stop_sequence", "dropped", "minor"),
        ("choices[0].opaque.a", "dropped", "semantic"),
    ]


def error_body(status: str | None, message: str = "no", code: int = 400, **beside: Any) -> dict[str, Any]:
    said = {} if status is None else {"status": status}
    return {"error": {"code": code, "message": message, **said, **beside}}


ERRORS: list[tuple[int | None, Any, str, str]] = [
    (400, error_body("INVALID_ARGUMENT"), "invalid_request", "no"),
    (400, error_body("INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}]), "authentication", "no"),
    (
        400,
        error_body("INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        "context_length",
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
    ),
    (401, error_body("UNAUTHENTICATED", code=401), "authentication", "no"),
    (403, error_body("PERMISSION_DENIED", code=403, details=[]), "permission", "no"),
    (404, error_body("NOT_FOUND", code=404), "not_found", "no"),
    (429, error_body("RESOURCE_EXHAUSTED", code=429), "rate_limit", "no"),
    (429, [error_body("RESOURCE_EXHAUSTED", code=429)], "rate_limit", "no"),
    (500, error_body("INTERNAL", code=500), "server", "no"),
    (503, error_body("UNAVAILABLE", code=503), "overloaded", "no"),
    (504, error_body("DEADLINE_EXCEEDED", code=504), "timeout", "no"),
    (200, error_body("UNAVAILABLE", code=503), "overloaded", "no"),
    (None, error_body(None, code=404), "not_found", "no"),
    (418, error_body("TEAPOT", details="x"), "invalid_request", "no"),
    (502, "<html>", "server", "<html>"),
    (500, [], "server", "[]"),
    (500, [error_body("INTERNAL"), 1], "server", ""),
    (400, {"error": "no"}, "invalid_request", ""),
    (400, {"error": {"message": 1}}, "invalid_request", ""),
    (None, None, "unknown", ""),
]


@pytest.mark.parametrize(("status", "body", "kind", "message"), ERRORS)
def test_errors(status: int | None, body: Any, kind: str, message: str) -> None:
    error = gemini.decode_error(status, body)
    assert (error.kind, error.status) == (kind, status)
    assert error.message == message or not message
    reply = gemini.encode_error(error)
    assert (reply.body, reply.losses) == (body, ())
    assert status is None or reply.status == status


def test_a_changed_error() -> None:
    error = gemini.decode_error(429, [error_body("RESOURCE_EXHAUSTED", code=429, details=[])])
    reply = gemini.encode_error(replace(error, message="later"))
    assert reply.body == [error_body("RESOURCE_EXHAUSTED", "later", 429, details=[])]


FOREIGN_ERRORS: list[tuple[Error, int, str]] = [
    (Error("invalid_request", "no"), 400, "INVALID_ARGUMENT"),
    (Error("authentication", "no"), 401, "UNAUTHENTICATED"),
    (Error("rate_limit", "no", 429), 429, "RESOURCE_EXHAUSTED"),
    (Error("overloaded", "no", 529), 529, "UNAVAILABLE"),
    (Error("timeout", "no"), 504, "DEADLINE_EXCEEDED"),
    (Error("too_large", "no"), 413, "INVALID_ARGUMENT"),
    (Error("unknown", "no"), 500, "UNKNOWN"),
]


@pytest.mark.parametrize(("error", "status", "word"), FOREIGN_ERRORS)
def test_errors_from_elsewhere(error: Error, status: int, word: str) -> None:
    reply = gemini.encode_error(error)
    assert (reply.status, reply.body) == (
        status,
        {"error": {"code": status, "message": "no", "status": word}},
    )


def test_what_an_error_cannot_say() -> None:
    opaque = Opaque("elsewhere", {"a": 1})
    reply = gemini.encode_error(Error("server", "no", 500, "t", "c", "p", "r", opaque))
    assert [loss.path for loss in reply.losses] == ["code", "param", "request_id", "opaque.a"]
