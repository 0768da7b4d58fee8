"""Requests of Ollama: what each body means, and that it comes back as it was."""

from typing import Any

import pytest
from msgspec.structs import replace

from toolwire import Context, Image, Opaque, Output, Request, Text, Thinking
from toolwire.dialects import ollama
from toolwire.errors import InvalidBody
from toolwire.types.spelling.ollama import OllamaRequestSpelling

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PNG, JPEG = "iVBORw0KGgoAAAA", "/9j/4AAQ"

OWN_REQUESTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no messages": {"model": "m", "prompt": "Why?", "stream": False},
    "no stream key": {"model": "m", "messages": [{"role": "user", "content": "Why?"}]},
    "roles in any case": {
        "messages": [
            {"role": "System", "content": "a"},
            {"role": "USER", "content": "b"},
            {"role": "Tool", "content": "c"},
        ]
    },
    "a role of nobody": {"messages": [{"role": "narrator", "content": "a"}, "x", None, {"content": "b"}]},
    "a developer": {"messages": [{"role": "developer", "content": "a"}]},
    "content of another kind": {
        "messages": [{"role": "user", "content": None}, {"role": "user", "content": [{"type": "text"}]}]
    },
    "no content": {"messages": [{"role": "assistant"}, {"role": "assistant", "tool_calls": []}, {"role": "tool"}]},
    "empty words": {"messages": [{"role": "assistant", "content": "", "thinking": "", "images": []}]},
    "everything": {
        "messages": [
            {
                "role": "assistant",
                "thinking": "Hm.",
                "content": "Yes.",
                "images": [PNG, f"data:image/png;base64,{PNG}"],
                "tool_calls": [
                    {"function": {"name": "look", "arguments": {"b": 1, "a": 2}}},
                    {"id": "call_1", "function": {"index": 1, "name": "look", "arguments": {}}},
                    {
                        "id": "",
                        "type": "function",
                        "function": {"index": 7, "name": "look", "arguments": "{ }", "note": 1},
                    },
                    {"id": "toolwire_0_3", "function": {"name": "look"}, "note": 1},
                    {"function": {"name": "look", "arguments": [1]}},
                    {"function": {}},
                    "look",
                ],
                "note": 1,
            }
        ]
    },
    "images of another kind": {
        "messages": [{"role": "user", "content": "a", "images": [1]}, {"role": "user", "images": "x"}]
    },
    "results": {
        "messages": [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": {}}}],
            },
            {"role": "tool", "content": "one", "tool_name": "look", "tool_call_id": "c"},
            {"role": "tool", "content": "Error: two", "name": "look", "tool_call_id": None},
            {"role": "tool", "content": " Error: three", "tool_name": "look", "name": "x", "images": [PNG]},
            {"role": "tool", "content": "Error: ", "tool_call_id": "toolwire_1_1", "images": [PNG]},
            {"role": "tool", "images": [PNG], "note": 1},
        ]
    },
    "options": {
        "options": {
            "num_predict": 5,
            "temperature": 0,
            "top_k": 4,
            "stop": ["a"],
            "num_ctx": 9,
            "seed": 1.5,
            "think": True,
        }
    },
    "options of their own": {"options": {"num_predict": -1, "stop": [], "top_p": None, "num_ctx": 9}},
    "no options": {"options": {}, "keep_alive": None, "truncate": False},
    "options of another kind": {
        "options": [1],
        "think": "very",
        "format": 1,
        "stream": "yes",
        "tool_choice": "auto",
    },
    "settings": {
        "think": "high",
        "format": "json",
        "keep_alive": "5m",
        "logprobs": True,
        "top_logprobs": 2,
        "shift": True,
    },
    "thinking": {"think": True, "format": ""},
    "no thinking": {"think": False, "format": SCHEMA},
    "tools": {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Look.",
                    "parameters": {"$ref": "#", "minLength": 1},
                },
            },
            {"function": {"name": "look", "strict": True}},
            {
                "type": "function",
                "name": "look",
                "function": {"name": "look", "description": None, "parameters": None},
            },
            {"type": "search"},
            {"type": "function", "function": {}},
            1,
        ]
    },
    "no tools": {"tools": []},
}


@pytest.mark.parametrize("body", OWN_REQUESTS.values(), ids=OWN_REQUESTS)
def test_a_request_comes_back(body: dict[str, Any]) -> None:
    encoded = ollama.encode_request(ollama.decode_request(body))
    assert (encoded.body, encoded.losses, encoded.path) == (body, (), "/api/chat")


def test_the_path_of_another_endpoint_comes_back() -> None:
    encoded = ollama.encode_request(ollama.decode_request({"model": "m", "prompt": "Why?"}, "/api/generate"))
    assert (encoded.path, encoded.body) == ("/api/generate", {"model": "m", "prompt": "Why?"})


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_what_is_no_object_is_refused(body: Any) -> None:
    for decode in (ollama.decode_request, ollama.decode_response):
        with pytest.raises(InvalidBody, match="must be a JSON object"):
            decode(body)


def test_what_a_request_means() -> None:
    body = {
        "model": "m",
        "stream": True,
        "options": {
            "num_predict": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 4,
            "stop": ["a"],
            "seed": 1,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
            "num_ctx": 9,
        },
        "think": "low",
        "format": SCHEMA,
        "logprobs": True,
        "top_logprobs": 2,
        "keep_alive": "5m",
    }
    request = ollama.decode_request(body)
    assert request == Request(
        context=Context(),
        model="m",
        stream=True,
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        stop=["a"],
        seed=1,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        effort="low",
        output=Output("schema", SCHEMA),
        logprobs=True,
        top_logprobs=2,
        opaque=Opaque(
            "ollama",
            {"options": {"num_ctx": 9}, "keep_alive": "5m"},
            spelling=OllamaRequestSpelling(has_no_messages=True),
        ),
    )


def test_what_the_messages_mean() -> None:
    body = {
        "messages": [
            {"role": "System", "content": "Be brief."},
            {"role": "user", "content": "Who?", "images": [JPEG, "AAAA"]},
            {
                "role": "assistant",
                "content": "",
                "thinking": "Hm.",
                "tool_calls": [
                    {"function": {"name": "look", "arguments": {"a": 1}}},
                    {"id": "c", "function": {"index": 1, "name": "find", "arguments": '{"a":2}'}},
                    {"function": {"name": "look", "arguments": "{"}},
                    {"function": {"name": "look", "arguments": 7}},
                ],
            },
        ]
    }
    system, user, answer = ollama.decode_request(body).messages
    assert (system.role, system.content) == ("system", "Be brief.")
    assert [type(part) for part in user.parts] == [Text, Image, Image]
    assert [(part.data, part.media_type) for part in user.parts[1:]] == [(JPEG, "image/jpeg"), ("AAAA", None)]  # type: ignore[union-attr]
    assert answer.parts[0] == Thinking(text="Hm.", opaque=Opaque("ollama", {}))
    calls = [*answer.tool_calls, *answer.broken_calls]
    assert [(call.id, call.name, call.arguments, call.index) for call in calls] == [
        ("toolwire_2_0", "look", {"a": 1}, 0),
        ("c", "find", {"a": 2}, 1),
        ("toolwire_2_2", "look", {}, 2),
        ("toolwire_2_3", "look", {}, 3),
    ]
    assert [call.error is None for call in calls] == [True, True, False, False]
    assert calls[3].error == "an object was expected, not a number"


CALLS = {
    "role": "assistant",
    "tool_calls": [{"function": {"name": name, "arguments": {}}} for name in ("look", "find", "look")],
}
LINKS: dict[str, tuple[list[dict[str, Any]], list[str | None]]] = {
    "by order": ([{}, {}, {}, {}], ["toolwire_0_0", "toolwire_0_1", "toolwire_0_2", None]),
    "by name": (
        [{"tool_name": "look"}, {"name": "look"}, {"tool_name": "find"}],
        ["toolwire_0_0", "toolwire_0_2", "toolwire_0_1"],
    ),
    "by name, then by order": (
        [{"tool_name": "find"}, {}, {"tool_name": "what"}],
        ["toolwire_0_1", "toolwire_0_0", "toolwire_0_2"],
    ),
    "by id": (
        [{"tool_call_id": "toolwire_0_1"}, {"tool_call_id": "x"}, {}],
        ["toolwire_0_1", "x", "toolwire_0_0"],
    ),
}


@pytest.mark.parametrize(("results", "ids"), LINKS.values(), ids=LINKS)
def test_a_result_is_linked(results: list[dict[str, Any]], ids: list[str | None]) -> None:
    body = {"messages": [CALLS, *({"role": "tool", "content": "x", **result} for result in results)]}
    request = ollama.decode_request(body)
    assert [message.tool_call_id for message in request.messages[1:]] == ids
    assert ollama.encode_request(request).body == body


def test_a_result_answers_the_last_turn_only() -> None:
    turn, result = {"role": "assistant", "content": "Done."}, {"role": "tool", "content": "x"}
    request = ollama.decode_request({"messages": [CALLS, result, turn, result]})
    assert [message.tool_call_id for message in request.messages[1::2]] == ["toolwire_0_0", None]


def test_one_value_changes_one_place() -> None:
    body = {
        "messages": [
            {"role": "User", "content": "a", "images": [PNG]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"index": 0, "name": "look", "arguments": '{"a": 1}'}}],
            },
            {"role": "tool", "content": "x", "tool_name": "look"},
        ],
        "options": {"temperature": 0, "num_ctx": 9},
        "format": "json",
    }
    request = ollama.decode_request(body)
    user, answer, result = request.messages
    call = replace(answer.tool_calls[0], arguments={"a": 2})
    changed = [
        replace(user, content=[Text("b"), *user.parts[1:]]),
        replace(answer, content=[call]),
        replace(result, content=[replace(result.parts[0], is_error=True)]),
    ]
    other = replace(request, temperature=1, context=Context(None, changed))
    assert ollama.encode_request(other).body == {
        "messages": [
            {"role": "User", "content": "b", "images": [PNG]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"index": 0, "name": "look", "arguments": '{"a":2}'}}],
            },
            {"role": "tool", "content": "Error: x", "tool_name": "look"},
        ],
        "options": {"temperature": 1, "num_ctx": 9},
        "format": "json",
    }
