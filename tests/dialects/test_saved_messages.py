"""Messages, texts, thoughts and media that their wire spelled oddly: saved, and written again as they were."""

from typing import Any

import msgspec
import pytest

from toolwire import Context, Message, Opaque, Request, dialect
from toolwire.dialects import NAMES
from toolwire.types.spelling import MessageSpelling, TextSpelling

URL_SAFE = "iVBORw0KGgo_-8="
ODD: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "a role of its own": ("anthropic", [{"role": "tool", "content": "a"}]),
    "blocks of Messages": (
        "anthropic",
        [
            {
                "role": "user",
                "content": [
                    {"type": "tool_reference", "tool_name": "look"},
                    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "a"}]},
                    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}]}},
                    {"type": "document", "source": {"type": "content", "content": "a"}},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": URL_SAFE}},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "https://e/a"}},
                ],
            },
        ],
    ),
    "contents of generateContent": (
        "gemini",
        [
            {"parts": {"text": "a"}},
            {"role": "assistant", "parts": [{"text": "a", "thought": True, "thought_signature": "s"}]},
            {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": URL_SAFE}}]},
            {"role": "model", "parts": [{"tool_call": {"tool_type": "GOOGLE_SEARCH", "args": {"a": 1}}}]},
            {"role": "model", "parts": [{"text": "a", "thought": False}]},
        ],
    ),
    "messages of Ollama": (
        "ollama",
        [
            {"role": "User", "content": "a", "images": [URL_SAFE, f"data:image/png;base64,{URL_SAFE}", "https://e/a"]},
            {"role": "assistant", "content": "", "thinking": ""},
        ],
    ),
    "parts of Chat Completions": (
        "openai-chat",
        [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": f"data:image/png;base64,{URL_SAFE}"},
                    {"type": "input_audio", "input_audio": {"data": URL_SAFE, "format": "wav"}},
                    {"type": "file", "file": {"file_data": "JVBE"}},
                    {"type": "file", "file": {"file_data": "https://e/a.pdf"}},
                ],
            },
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "assistant", "content": "", "reasoning": "Hm.", "refusal": "No."},
            {"role": "assistant", "content": "a", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": [{"type": "text", "text": word} for word in "ab"]}],
            },
        ],
    ),
    "items of Responses": (
        "openai-responses",
        [
            {"type": "item_reference", "id": "x"},
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": f"data:image/png;base64,{URL_SAFE}", "detail": "auto"},
                    {"type": "input_file", "file_data": "JVBE"},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": word} for word in "ab"]},
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "a", "annotations": []}, {"type": "odd"}],
            },
            {"type": "message", "role": "assistant", "x": 1, "content": [{"type": "odd"}, {"type": "odder"}]},
            {"role": "assistant", "content": "a"},
        ],
    ),
}


def saved(request: Request) -> Request:
    read = msgspec.json.decode(msgspec.json.encode(request), type=Request)
    assert read == request
    return read


@pytest.mark.parametrize("case", ODD)
def test_a_saved_message_is_written_as_it_was_spelled(case: str) -> None:
    wire, messages = ODD[case]
    key = dialect(wire).TRAITS.history_key
    request = saved(dialect(wire).decode_request({key: messages}, ""))
    assert dialect(wire).encode_request(request).body[key] == messages


@pytest.mark.parametrize("wire", NAMES)
def test_a_spelling_means_nothing_on_another_wire(wire: str) -> None:
    elsewhere = "gemini" if wire != "gemini" else "ollama"
    said = [Message("user", "a", opaque=Opaque(elsewhere, {})), Message("assistant", "b")]
    spelled = [
        Message("user", "a", opaque=Opaque(elsewhere, {}, spelling=MessageSpelling(is_unparsed=True))),
        Message("assistant", "b", opaque=Opaque(elsewhere, {}, spelling=TextSpelling(is_continued=True))),
    ]
    written, usual = (dialect(wire).encode_request(Request(context=Context(None, both))) for both in (spelled, said))
    assert (written.body, written.losses) == (usual.body, usual.losses)
