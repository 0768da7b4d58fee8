"""Translation: bodies under any name of a dialect, losses by name, strictness, and what is refused."""

from typing import Any

import msgspec
import pytest

from toolwire import Loss, ToolwireError, dialect, translate
from toolwire.dialects import ALIASES, NAMES, anthropic, gemini, openai_chat
from toolwire.errors import InvalidBody, LossyTranslation, UnknownDialect

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "look", "description": "d", "parameters": {"type": "object"}},
        }
    ],
    "max_tokens": 10,
}
MESSAGES = {
    "model": "m",
    "max_tokens": 10,
    "system": "Be brief.",
    "tools": [{"name": "look", "description": "d", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {"a": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}]},
    ],
}
BACK = {
    "model": "m",
    "max_completion_tokens": 10,
    "tools": [
        {
            "type": "function",
            "function": {"name": "look", "description": "d", "parameters": {"type": "object", "properties": {}}},
        }
    ],
    "messages": [
        *CHAT["messages"][:2],
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}],
        },
        CHAT["messages"][3],
    ],
}


def test_a_request_there_and_back() -> None:
    there = translate.request(CHAT, "openai-chat", "anthropic", strict=True)
    assert (there.path, there.body, there.losses) == ("/v1/messages", MESSAGES, ())
    back = translate.request(there.body, "anthropic", "openai-chat", strict=True)
    assert (back.path, back.body, back.losses) == ("/v1/chat/completions", BACK, ())
    assert msgspec.json.decode(there.json) == MESSAGES


@pytest.mark.sampled
@pytest.mark.parametrize("source", ["openai", "openai-chat", openai_chat, dialect("openai", mid_system=True)])
@pytest.mark.parametrize("target", ["anthropic", anthropic, dialect(anthropic), dialect("anthropic", mid_system=True)])
@pytest.mark.parametrize("body", [CHAT, msgspec.json.encode(CHAT), msgspec.json.encode(CHAT).decode()])
def test_dialects_and_bodies_in_every_form(source: Any, target: Any, body: Any) -> None:
    assert translate.request(body, source, target).body == MESSAGES


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_the_dialect(alias: str, name: str) -> None:
    assert dialect(alias) is dialect(name)
    assert name == dialect(name).DIALECT
    assert dialect(dialect(name)) is dialect(name)


@pytest.mark.parametrize("name", ["", "claude", "OpenAI", "openai_chat", "toolwire"])
def test_a_name_of_nobody(name: str) -> None:
    for source, target in ((name, "anthropic"), ("anthropic", name)):
        for ask in (translate.request, translate.response):
            with pytest.raises(UnknownDialect, match=f"unknown dialect {name!r}; known: openai-chat, ") as caught:
                ask({}, source, target)
            assert set(caught.value.known) == {*NAMES, *ALIASES}
            assert caught.value.name == name
        with pytest.raises(UnknownDialect):
            translate.error(500, {}, source, target)


@pytest.mark.parametrize("name", NAMES)
def test_a_dialect_to_itself_is_the_identity(name: str) -> None:
    body = {"messages": [{"role": "user", "content": "x", "y": 1}], "contents": [], "input": [], "z": [None]}
    encoded = translate.request(body, name, name, strict=True)
    assert (encoded.body, encoded.losses) == (body, ())
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "x"}}],
        "output": [],
        "content": [],
        "z": {"a": 1},
    }
    assert translate.response(answer, name, name, strict=True).body == answer
    assert translate.error(500, {"error": {"message": "m", "z": 1}}, name, name).body == {
        "error": {"message": "m", "z": 1}
    }


REFUSED: list[tuple[Any, str]] = [
    (b"{", "body: is not JSON: "),
    ("", "body: is not JSON: "),
    (b"\xff", "body: is not JSON: "),
    (b"[]", r"\$: a request's body must be a JSON object"),
    (None, r"\$: a request's body must be a JSON object"),
    (b'{"model": "a", "model": "b"}', "has the key 'model' twice"),
    (b'{"messages": [{"role": "user", "content": "x", "role": "user"}]}', "has the key 'role' twice"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_what_is_no_body_is_refused(body: Any, reason: str) -> None:
    with pytest.raises(InvalidBody, match=reason) as caught:
        translate.request(body, "openai", "anthropic")
    assert caught.value.path
    assert isinstance(caught.value, ToolwireError)


def loss_of(**settings: Any) -> list[tuple[str, str, str]]:
    encoded = translate.request(CHAT | settings, "openai", "anthropic")
    return [(loss.path, loss.action, loss.severity) for loss in encoded.losses]


LOSSES: list[tuple[dict[str, Any], str, str]] = [
    ({"seed": 1}, "seed", "semantic"),
    ({"response_format": {"type": "json_object"}}, "response_format", "semantic"),
    ({"prompt_cache_key": "k"}, "prompt_cache_key", "formal"),
    ({"reasoning_effort": "minimal"}, "reasoning_effort", "minor"),
    ({"n": 1}, "n", "formal"),
    ({"verbosity": "low"}, "verbosity", "semantic"),
]


@pytest.mark.parametrize(("settings", "path", "severity"), LOSSES)
def test_a_loss_is_named_where_it_stands_in_the_body(settings: dict[str, Any], path: str, severity: str) -> None:
    [(where, _, how_bad)] = loss_of(**settings)
    assert (where, how_bad) == (path, severity)


@pytest.mark.parametrize(("settings", "path", "severity"), LOSSES)
def test_strictness_minds_losses_of_meaning(settings: dict[str, Any], path: str, severity: str) -> None:
    if severity != "semantic":
        assert translate.request(CHAT | settings, "openai", "anthropic", strict=True).losses[0].path == path
        return
    with pytest.raises(LossyTranslation) as caught:
        translate.request(CHAT | settings, "openai", "anthropic", strict=True)
    [loss] = caught.value.losses
    assert (loss.path, loss.severity) == (path, "semantic")
    assert str(caught.value).startswith("1 value(s) cannot be expressed in the target:\n  ")
    assert path in str(caught.value)


def test_strictness_tells_every_loss_of_meaning_and_no_other() -> None:
    with pytest.raises(LossyTranslation) as caught:
        translate.request(CHAT | {"seed": 1, "n": 1, "verbosity": "low"}, "openai", "anthropic", strict=True)
    assert [loss.path for loss in caught.value.losses] == ["seed", "verbosity"]


ANSWER = {
    "id": "r",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
}


def test_a_response() -> None:
    encoded = translate.response(msgspec.json.encode(ANSWER), "openai", "anthropic", strict=True)
    assert encoded.body["content"] == [{"type": "text", "text": "Hi", "citations": None}]
    assert [loss.path for loss in encoded.losses] == ["created"]
    two = ANSWER | {"choices": ANSWER["choices"] * 2}  # type: ignore[operator]
    with pytest.raises(LossyTranslation, match=r"choices\[1\]"):
        translate.response(two, "openai", "anthropic", strict=True)
    [block] = translate.response(two, "openai", "anthropic").body["content"]
    assert block["text"] == "Hi"


ERRORS: list[tuple[Any, str]] = [
    ({"error": {"message": "m"}}, "m"),
    (b'{"error": {"message": "m"}}', "m"),
    (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
    (b"\xff", "\ufffd"),
    ("Bad gateway", "Bad gateway"),
    (None, ""),
    ([], "[]"),
]


@pytest.mark.parametrize(("body", "message"), ERRORS)
def test_an_error_of_any_form(body: Any, message: str) -> None:
    reply = translate.error(502, body, "openai", "anthropic")
    assert (reply.status, reply.body) == (
        502,
        {"type": "error", "error": {"type": "api_error", "message": message}},
    )
    assert msgspec.json.decode(reply.json) == reply.body


def test_the_path_says_what_the_body_does_not() -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    path = "/v1beta/models/gemini-3:streamGenerateContent"
    encoded = translate.request(body, gemini, "openai", path)
    assert (encoded.body["model"], encoded.body["stream"]) == ("gemini-3", True)


def test_a_loss_in_words() -> None:
    loss = Loss("tools[0].cache", "cache_mark", "dropped", "openai-chat servers cache without marks", "minor")
    assert str(loss) == "tools[0].cache: openai-chat servers cache without marks (dropped)"


def test_what_cannot_be_written_says_so() -> None:
    encoded = translate.request({"messages": [], "model": "\ud800"}, "openai", "anthropic")
    with pytest.raises(InvalidBody, match="body: cannot be written as JSON"):
        _ = encoded.json


def test_an_error_that_came_with_a_good_status_does_not_look_like_success() -> None:
    body = {"error": {"message": "slow down", "type": "rate_limit_error"}}
    assert translate.error(200, body, "openai-chat", "anthropic").status == 429
    assert translate.error(200, body, "openai-chat", "openai-chat").status == 200


def test_what_says_how_an_answer_travels_is_no_loss_of_meaning() -> None:
    body = {"model": "m", "messages": [], "stream": True, "stream_options": {"include_usage": True}}
    encoded = translate.request(body, "openai-chat", "anthropic", strict=True)
    assert {loss.path: loss.severity for loss in encoded.losses}["opaque.stream_options"] == "formal"


@pytest.mark.parametrize("target", ["openai-chat", "gemini", "anthropic", "ollama"])
def test_alternatives_are_not_asked_for_where_no_probabilities_are(target: str) -> None:
    """Responses takes `top_logprobs` beside an `include`; the others refuse it without `logprobs`."""
    body = {"model": "m", "input": "Hi", "max_output_tokens": 50, "top_logprobs": 5}
    told = translate.request(body, source="openai-responses", target=target)
    assert "logprobs" not in str(told.body)
    assert [loss.severity for loss in told.losses if loss.path == "top_logprobs"] == ["minor"]


@pytest.mark.parametrize(("model", "included"), [("gpt-4o", False), ("gpt-6-sol", True), ("unknown", True)])
def test_a_model_that_does_not_reason_is_asked_for_no_reasoning(model: str, included: bool) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
    made = translate.exchange(body, source="openai-chat", target="openai-responses")
    assert ("include" in made.encoded.body) == included


@pytest.mark.parametrize(
    ("target", "model", "said"),
    [
        ("gemini", "gemini-2.5-flash", {"thinkingBudget": 0}),
        ("gemini", "gemini-3-flash", {"thinkingLevel": "MINIMAL"}),
        ("ollama", "qwen3", False),
    ],
)
def test_what_is_told_between_tools_is_no_thinking(target: str, model: str, said: Any) -> None:
    body = {"model": model, "max_tokens": 99, "thinking": {"type": "between_tools"}}
    body |= {"messages": [{"role": "user", "content": "Hi"}]}
    told = translate.request(body, source="anthropic", target=target)
    assert (told.body["think"] if target == "ollama" else told.body["generationConfig"]["thinkingConfig"]) == said
    [loss] = [loss for loss in told.losses if loss.detail.startswith(f"{target} cannot think only between tools")]
    assert loss.severity == "minor"


def asked_of(block: dict[str, Any], place: str = "messages", key: str = "content") -> dict[str, Any]:
    return {"model": "m", "max_tokens": 99, place: [{"role": "user", key: [block]}]}


STORED: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", asked_of({"type": "image", "source": {"type": "file", "file_id": "file_1"}})),
    ("anthropic", asked_of({"type": "document", "source": {"type": "file", "file_id": "file_1"}})),
    ("openai-responses", asked_of({"type": "input_image", "file_id": "file_1", "detail": "auto"}, "input")),
    ("openai-responses", asked_of({"type": "input_file", "file_id": "file_1"}, "input")),
    ("openai-chat", asked_of({"type": "file", "file": {"file_id": "file_1"}})),
    *(
        ("gemini", asked_of({"fileData": {"fileUri": f"{store}/file_1", "mimeType": kind}}, "contents", "parts"))
        for store in ("gs://bucket", "https://generativelanguage.googleapis.com/v1beta/files")
        for kind in ("image/png", "application/pdf")
    ),
]


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("source", "body"), STORED)
def test_a_file_in_the_store_of_a_vendor_is_sent_to_no_other(source: str, body: dict[str, Any], target: str) -> None:
    told = translate.request(body, source=source, target=target)
    if source.partition("-")[0] == target.partition("-")[0]:
        assert "file_1" in str(told.body) or {loss.concept for loss in told.losses} & {"image", "document"}
    else:
        assert "file_1" not in str(told.body)
        assert "semantic" in {loss.severity for loss in told.losses}


@pytest.mark.parametrize("key", ["responseSchema", "responseJsonSchema"])
def test_a_loss_of_geminis_schema_is_named_by_the_key_that_says_it(key: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}
    config = {"responseMimeType": "application/json", key: schema}
    body = {**asked_of({"text": "a"}, "contents", "parts"), "generationConfig": config}
    paths = {loss.path for loss in translate.request(body, "gemini", "anthropic").losses}
    assert f"generationConfig.{key}.properties.a" in paths


def given_media(key: str, **medium: str) -> dict[str, Any]:
    return asked_of({key: medium}, "contents", "parts")


GOOGLES_MEDIA: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a video of YouTube": (given_media("fileData", fileUri="https://www.youtube.com/watch?v=abc"), []),
    "a short address": (given_media("fileData", fileUri="https://youtu.be/abc", mimeType="video/mp4"), []),
    "a video by URL": (given_media("fileData", fileUri="https://a.example/abc.mp4", mimeType="video/mp4"), []),
    "a video as data": (given_media("inlineData", data="abcd", mimeType="video/mp4"), []),
    "a text by URL": (
        given_media("fileData", fileUri="https://a.example/abc", mimeType="text/plain"),
        ["openai-responses"],
    ),
    "a PDF by URL": (
        given_media("fileData", fileUri="https://a.example/abc", mimeType="application/pdf"),
        ["anthropic", "openai-responses"],
    ),
    "a picture by URL": (
        given_media("fileData", fileUri="https://a.example/abc", mimeType="image/png"),
        ["anthropic", "openai-chat", "openai-responses"],
    ),
}


@pytest.mark.parametrize(("body", "takers"), GOOGLES_MEDIA.values(), ids=GOOGLES_MEDIA)
def test_media_of_gemini_go_where_they_can_be_opened(body: dict[str, Any], takers: list[str]) -> None:
    told = {target: translate.request(body, "gemini", target) for target in NAMES if target != "gemini"}
    assert sorted(target for target, made in told.items() if "abc" in str(made.body)) == takers
    concepts = {target: {loss.concept for loss in made.losses} for target, made in told.items()}
    lost = {target for target in concepts if concepts[target] & {"image", "document"}}
    assert lost == told.keys() - set(takers)


ASKING: dict[str, tuple[str, dict[str, Any]]] = {
    "Messages, a budget": ("anthropic", {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024}}),
    "Messages, adaptive": ("anthropic", {"max_tokens": 4096, "thinking": {"type": "adaptive"}}),
    "Chat, an effort": ("openai-chat", {"reasoning_effort": "high"}),
    "Ollama": ("ollama", {"think": True}),
}


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.5-flash"])
@pytest.mark.parametrize("asking", ASKING)
def test_gemini_shows_the_thoughts_that_a_client_asks_for(asking: str, model: str) -> None:
    source, settings = ASKING[asking]
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **settings}
    encoded = translate.request(body, source, "gemini", model=model)
    assert encoded.body["generationConfig"]["thinkingConfig"]["includeThoughts"] is True
    assert ("thinking_display", "defaulted", "formal") in {
        (loss.concept, loss.action, loss.severity) for loss in encoded.losses
    }


@pytest.mark.parametrize(
    "settings", [{"reasoning_effort": "none"}, {}, {"max_tokens": 9, "thinking": {"type": "disabled"}}]
)
def test_gemini_shows_no_thoughts_that_nobody_asks_for(settings: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **settings}
    source = "anthropic" if "thinking" in settings else "openai-chat"
    encoded = translate.request(body, source, "gemini", model="gemini-2.5-flash")
    assert "includeThoughts" not in str(encoded.body)


def test_a_budget_turns_thinking_on_where_there_is_no_number() -> None:
    config = {"thinkingConfig": {"thinkingBudget": 2048, "includeThoughts": True}}
    body = {"contents": [{"role": "user", "parts": [{"text": "x"}]}], "generationConfig": config}
    encoded = translate.request(body, "gemini", "ollama", "/v1beta/models/m:generateContent")
    assert encoded.body["think"] is True
    assert {loss.severity for loss in encoded.losses if loss.concept == "thinking_budget"} == {"minor"}
