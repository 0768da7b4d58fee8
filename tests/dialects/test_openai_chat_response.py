"""Responses of Chat Completions: what each means, that it comes back, and responses from elsewhere."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, losses
from toolwire import (
    Audio,
    Choice,
    Citation,
    Message,
    Opaque,
    Quirks,
    Refusal,
    Response,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from toolwire.dialects import openai_chat

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Paris"}'}}
PLAIN = Opaque("openai-chat", {})


def answering(finish: Any = "stop", **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, "refusal": None, **message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "gpt-4o",
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


CITED = [{"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}]
OWN: dict[str, dict[str, Any]] = {
    "words": answering(content="Hi", annotations=[], audio=None),
    "calls": answering("tool_calls", tool_calls=[CALL, {**CALL, "id": "call_2"}]),
    "a legacy call": answering("function_call", function_call={"name": "look", "arguments": "{}"}),
    "an empty legacy call": answering(function_call={"name": "", "arguments": ""}, content="Hi"),
    "a refusal": answering(refusal="No."),
    "citations": answering(content="Hi", annotations=CITED),
    "odd citations": answering(content="Hi", annotations=[{"type": "file_citation"}]),
    "sound": answering(audio={"id": "a", "data": "x", "transcript": "Hi", "expires_at": 1}),
    "parts": answering(content=[{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": []}]),
    "no words": answering(content=""),
    "several": {
        **answering(content="a"),
        "choices": [
            {"index": 1, "message": {"role": "assistant", "content": "b"}, "finish_reason": "length"},
            {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": None},
        ],
    },
    "no choices": {**answering(), "choices": []},
    "choices of no kind": {**answering(), "choices": [{"index": 0, "text": "Hi"}]},
    "nothing": {},
    "more": {
        **answering(content="Hi"),
        "service_tier": "flex",
        "system_fingerprint": "fp",
        "moderation": {"x": 1},
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 4},
            "cost": 0.1,
        },
    },
    "no usage": {**answering(content="Hi"), "usage": None},
    "counts of no kind": {**answering(content="Hi"), "usage": {"prompt_tokens": "10", "total_tokens": None}},
    "odd roles": {
        **answering(),
        "choices": [
            {"message": {"role": None, "content": "a"}, "finish_reason": "eos_token"},
            {"message": {"role": "model", "content": "b"}, "finish_reason": ""},
        ],
    },
}


@pytest.mark.parametrize("body", OWN.values(), ids=OWN)
def test_a_response_comes_back(body: dict[str, Any]) -> None:
    encoded = openai_chat.encode_response(openai_chat.decode_response(body))
    assert (encoded.body, encoded.losses) == (body, ())


MEANT: dict[str, list[Any]] = {
    "words": [Text("Hi")],
    "calls": [
        ToolCall("call_1", "look", {"city": "Paris"}),
        ToolCall("call_2", "look", {"city": "Paris"}, 1),
    ],
    "a legacy call": [ToolCall("toolwire_2386798241_0", "look", {})],
    "an empty legacy call": [Text("Hi")],
    "a refusal": [Refusal("No.", opaque=PLAIN)],
    "citations": [Text("Hi", [Citation("u", "t", None, 0, 1, PLAIN)])],
    "odd citations": [Text("Hi")],
    "sound": [
        Audio(
            "x",
            file_id="a",
            transcript="Hi",
            opaque=Opaque("openai-chat", {"expires_at": 1}),
        )
    ],
    "no words": [Text("")],
    "nothing": [],
}


@pytest.mark.parametrize("case", MEANT)
def test_what_an_answer_means(case: str) -> None:
    assert openai_chat.decode_response(OWN[case]).parts == MEANT[case]


def test_what_a_response_means() -> None:
    response = openai_chat.decode_response(OWN["more"])
    assert (response.id, response.model, response.created) == ("chatcmpl-1", "gpt-4o", 1700000000)
    assert (response.service_tier, response.content) == ("flex", "Hi")
    usage = response.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 5, 15)
    assert (usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (3, 2, 4)
    assert openai_chat.decode_response(OWN["nothing"]).usage is None
    several = openai_chat.decode_response(OWN["several"])
    assert [choice.message.content for choice in several.choices] == ["a", "b"]
    assert (several.finish_reason, several.raw_finish_reason) == (None, None)
    assert (several.choices[1].finish_reason, several.choices[1].raw_finish_reason) == ("length", "length")


FINISHES: list[tuple[Any, dict[str, Any], str | None]] = [
    ("stop", {"content": "Hi"}, "stop"),
    ("length", {"content": "Hi"}, "length"),
    ("tool_calls", {"tool_calls": [CALL]}, "tool_calls"),
    ("function_call", {"function_call": {"name": "f", "arguments": "{}"}}, "tool_calls"),
    ("content_filter", {"content": ""}, "content_filter"),
    ("stop", {"tool_calls": [CALL]}, "tool_calls"),
    (None, {"tool_calls": [CALL]}, "tool_calls"),
    ("length", {"tool_calls": [CALL]}, "length"),
    ("stop", {"refusal": "No."}, "refusal"),
    ("model_length", {"content": "Hi"}, "context_window"),
    ("error", {"content": "Hi"}, "error"),
    ("end_turn", {"content": "Hi"}, "stop"),
    ("MAX_TOKENS", {"content": "Hi"}, "length"),
    ("what", {"content": "Hi"}, "unknown"),
    ("", {"content": "Hi"}, "stop"),
    (None, {"content": "Hi"}, None),
    (7, {"content": "Hi"}, None),
]


@pytest.mark.parametrize(("word", "message", "reason"), FINISHES)
def test_why_an_answer_ended(word: Any, message: dict[str, Any], reason: str | None) -> None:
    body = answering(word, **message)
    response = openai_chat.decode_response(body)
    assert response.finish_reason == reason
    assert response.raw_finish_reason == (word if isinstance(word, str) else None)
    assert openai_chat.encode_response(response).body == body


def test_one_value_changes_one_place() -> None:
    body = answering("stop", content="Hi", x=1)
    response = openai_chat.decode_response(body)
    [choice] = response.choices
    other = replace(
        response,
        choices=[replace(choice, message=replace(choice.message, content="Bye"), finish_reason="length")],
        usage=replace(response.usage, output_tokens=6, reasoning_tokens=1),  # type: ignore[type-var]
    )
    expected = answering("length", content="Bye", x=1)
    expected["usage"] = {
        "prompt_tokens": 10,
        "completion_tokens": 6,
        "total_tokens": 16,
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    encoded = openai_chat.encode_response(other)
    assert (encoded.body, encoded.losses) == (expected, ())


def choice_of(choice: Choice) -> tuple[dict[str, Any], list[Said]]:
    encoded = openai_chat.encode_response(Response(choices=[choice]))
    [body] = encoded.body["choices"]
    return body, losses(encoded)


ENCODED: dict[str, tuple[Message, dict[str, Any], list[Said]]] = {
    "words": (Message("assistant", "Hi"), {"content": "Hi"}, []),
    "parts": (Message("assistant", [Text("a"), Text("b")]), {"content": "ab"}, []),
    "nothing": (Message("assistant", []), {"content": None}, []),
    "a call": (
        Message("assistant", [Text("a"), ToolCall("c", "look", {"x": 1})]),
        {
            "content": "a",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"x":1}'}}],
        },
        [],
    ),
    "thinking": (
        Message("assistant", [Thinking("Hm."), Text("a")]),
        {"content": "a", "reasoning_content": "Hm."},
        [],
    ),
    "signed thinking": (
        Message("assistant", [Thinking("Hm. "), Thinking("So.", "sig"), Text("a")]),
        {"content": "a", "reasoning_content": "Hm. So."},
        [("choices[0].message.content[1].signature", "dropped", "semantic")],
    ),
    "a refusal": (Message("assistant", [Refusal("No.")]), {"content": None, "refusal": "No."}, []),
}


@pytest.mark.parametrize(("message", "said", "lost"), ENCODED.values(), ids=ENCODED)
def test_an_answer_from_elsewhere(message: Message, said: dict[str, Any], lost: list[Said]) -> None:
    body, found = choice_of(Choice(message, "stop"))
    assert body == {
        "index": 0,
        "message": {"role": "assistant", "refusal": None, **said},
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert found == lost


WORDS: list[tuple[Any, str, list[Said]]] = [
    ("stop", "stop", []),
    ("length", "length", []),
    ("tool_calls", "tool_calls", []),
    ("content_filter", "content_filter", []),
    (None, "stop", []),
    ("stop_sequence", "stop", [("choices[0].finish_reason", "approximated", "minor")]),
    ("refusal", "content_filter", [("choices[0].finish_reason", "approximated", "semantic")]),
    ("pause", "stop", [("choices[0].finish_reason", "approximated", "semantic")]),
    ("context_window", "length", [("choices[0].finish_reason", "approximated", "semantic")]),
    ("malformed_tool_call", "stop", [("choices[0].finish_reason", "approximated", "semantic")]),
    ("error", "stop", [("choices[0].finish_reason", "approximated", "semantic")]),
    ("incomplete", "length", [("choices[0].finish_reason", "approximated", "semantic")]),
    ("unknown", "stop", [("choices[0].finish_reason", "approximated", "semantic")]),
]


@pytest.mark.parametrize(("reason", "word", "lost"), WORDS)
def test_the_word_for_an_end(reason: Any, word: str, lost: list[Said]) -> None:
    body, found = choice_of(Choice(Message("assistant", "Hi"), reason))
    assert (body["finish_reason"], found) == (word, lost)


def test_a_refusal_says_itself() -> None:
    body, lost = choice_of(Choice(Message("assistant", [Refusal("No.")]), "refusal"))
    assert (body["finish_reason"], body["message"]["refusal"], lost) == ("stop", "No.", [])


def test_a_stop_sequence_is_not_said() -> None:
    _, lost = choice_of(Choice(Message("assistant", "Hi"), "stop_sequence", "stop_sequence", "END"))
    assert lost == [
        ("choices[0].finish_reason", "approximated", "minor"),
        ("choices[0].stop_sequence", "dropped", "minor"),
    ]


def test_a_response_from_elsewhere() -> None:
    response = Response(
        id="r",
        model="m",
        created=1.9,
        choices=[Choice(Message("assistant", "a"), "stop"), Choice(Message("assistant", "b"), "length")],
        usage=Usage(10, 5, 3, 2, 1, Opaque("anthropic", {"x": 1})),
        service_tier="standard",
        provider_state={"a": 1},
        opaque=Opaque("anthropic", {"container": "c"}),
    )
    encoded = openai_chat.encode_response(response)
    assert encoded.body == {
        "id": "r",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": place,
                "message": {"role": "assistant", "content": words, "refusal": None},
                "logprobs": None,
                "finish_reason": reason,
            }
            for place, (words, reason) in enumerate([("a", "stop"), ("b", "length")])
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    }
    assert losses(encoded) == [
        ("created", "approximated", "formal"),
        ("usage.opaque", "dropped", "formal"),
        ("service_tier", "dropped", "formal"),
        ("provider_state.a", "dropped", "formal"),
        ("opaque.container", "dropped", "semantic"),
    ]


def test_a_response_without_anything() -> None:
    body = openai_chat.encode_response(Response()).body
    assert body.pop("id").startswith("chatcmpl-")
    assert body == {"object": "chat.completion", "created": 0, "model": "", "choices": []}
    assert openai_chat.encode_response(Response()).body["id"] == openai_chat.encode_response(Response()).body["id"]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_thinking_under_the_key_of_a_server(key: str) -> None:
    response = Response.of(Message("assistant", [Thinking("Hm."), Text("a")]))
    encoded = openai_chat.encode_response(response, Quirks(reasoning_key=key))
    assert encoded.body["choices"][0]["message"][key] == "Hm."
    assert encoded.losses == ()
