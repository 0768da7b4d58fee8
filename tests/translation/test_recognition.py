"""A body is of the wire whose marks it has; what has none, or marks of no one wire, is of any."""

from typing import Any

import pytest

from tests.corpus import found, recordings
from toolwire.errors import InvalidBody
from toolwire.translation.recognition import Kind, check_wire, matching_dialects

USER = {"role": "user", "content": "Hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SEEN: list[tuple[Kind, Any, tuple[str, ...]]] = [
    ("request", {"messages": [USER]}, ("openai-chat", "anthropic", "ollama")),
    ("request", {"messages": [USER, {"role": "assistant", "tool_calls": [CALL]}]}, ("openai-chat", "ollama")),
    ("request", {"messages": [{"role": "developer", "content": "x"}]}, ("openai-chat",)),
    ("request", {"messages": [], "tools": [{"name": "f", "input_schema": {}}]}, ("anthropic",)),
    ("request", {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, ("anthropic",)),
    ("request", {"messages": [{"role": "user", "content": "x", "images": ["eA=="]}]}, ("ollama",)),
    ("request", {"messages": [USER], "max_tokens": 5}, ("openai-chat", "anthropic")),
    ("request", {"messages": [USER], "system": "s"}, ("anthropic",)),
    ("request", {"messages": [USER], "system": "s", "options": {}}, ()),
    ("request", {"messages": [{"role": "system", "content": "s"}, USER]}, ("openai-chat", "ollama")),
    ("request", {"messages": [USER, {"role": "system", "content": "s"}]}, ("openai-chat", "anthropic", "ollama")),
    ("request", {"messages": [USER], "response_format": {}}, ("openai-chat",)),
    ("request", {"messages": [USER], "options": {}}, ("ollama",)),
    ("request", {"contents": []}, ("gemini",)),
    ("request", {"input": "Hi"}, ("openai-responses",)),
    ("request", {"input": "Hi", "messages": []}, ()),
    ("request", {}, ()),
    ("request", [], ()),
    ("request", None, ()),
    ("response", {"choices": []}, ("openai-chat",)),
    ("response", {"output": []}, ("openai-responses",)),
    ("response", {"content": [{"type": "text", "text": ""}]}, ("anthropic",)),
    ("response", {"candidates": []}, ("gemini",)),
    ("response", {"message": {"role": "assistant"}, "done": True}, ("ollama",)),
    ("stream", {"type": "message_start"}, ("anthropic",)),
    ("stream", {"type": "response.created"}, ("openai-responses",)),
]


@pytest.mark.parametrize(("kind", "body", "names"), SEEN)
def test_marks_tell_a_wire(kind: Kind, body: Any, names: tuple[str, ...]) -> None:
    assert matching_dialects(body, kind) == names


@pytest.mark.parametrize(
    ("kind", "body", "name", "words"),
    [
        ("request", {"messages": "oops"}, "openai", "messages: must be an array, not a string"),
        ("request", {"contents": "oops"}, "gemini", "contents: must be an array or an object, not a string"),
        ("request", {"input": 7}, "responses", "input: must be an array or a string, not a number"),
        ("request", {"messages": [], "tools": {}}, "ollama", "tools: must be an array, not an object"),
        ("response", {"choices": {}}, "openai", "choices: must be an array, not an object"),
        ("request", {"contents": []}, "openai", "body: this looks like gemini, not openai-chat"),
        ("request", {"choices": []}, "openai", "body: this looks like a response of openai-chat, not a request"),
        (
            "response",
            {"messages": []},
            "openai",
            "body: this looks like a request of openai-chat or anth",
        ),
    ],
)
def test_what_cannot_be_of_a_wire_is_refused(kind: Kind, body: Any, name: str, words: str) -> None:
    with pytest.raises(InvalidBody) as refused:
        check_wire(body, kind, name)
    assert str(refused.value).startswith(words)


FOLDERS = {
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "anthropic-messages": "anthropic",
    "gemini": "gemini",
    "ollama-chat": "ollama",
    "mistral-chat": "openai-chat",
}


@pytest.mark.corpus
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_recorded_body_is_refused_for_what_it_is(folder: str) -> None:
    found("TOOLWIRE_CORPUS", "corpus")
    checked = 0
    for recording in recordings(folder):
        for kind, body in (("request", recording.request), ("response", recording.response)):
            if type(body) is dict and "error" not in body:
                check_wire(body, kind, FOLDERS[folder])  # type: ignore[arg-type]
                checked += 1
        for event in (recording.response_events or ())[:1]:
            check_wire(event, "stream", FOLDERS[folder])
    assert checked > 10
