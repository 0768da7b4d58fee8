"""Why an answer ended: each word of each wire, and what it means for whoever goes on with the answer."""

from typing import Any

import pytest

from toolwire import dialect

WORDS: dict[str, dict[str, str]] = {
    "openai-chat": {
        "stop": "stop",
        "length": "length",
        "max_tokens": "length",
        "MAX_TOKENS": "length",
        "content_filter": "content_filter",
        "model_length": "context_window",
        "end_turn": "stop",
        "eos": "stop",
        "STOP": "stop",
        "error": "error",
        "unheard_of": "unknown",
    },
    "anthropic": {
        "end_turn": "stop",
        "max_tokens": "length",
        "stop_sequence": "stop_sequence",
        "pause_turn": "pause",
        "refusal": "refusal",
        "model_context_window_exceeded": "context_window",
        "unheard_of": "unknown",
    },
    "gemini": {
        "STOP": "stop",
        "MAX_TOKENS": "length",
        "SAFETY": "content_filter",
        "RECITATION": "content_filter",
        "BLOCKLIST": "content_filter",
        "PROHIBITED_CONTENT": "content_filter",
        "SPII": "content_filter",
        "LANGUAGE": "content_filter",
        "MALFORMED_FUNCTION_CALL": "malformed_tool_call",
        "UNHEARD_OF": "unknown",
    },
    "ollama": {"stop": "stop", "length": "length", "unheard_of": "unknown"},
}


def body(name: str, word: str) -> dict[str, Any]:
    match name:
        case "openai-chat":
            message = {"role": "assistant", "content": "Hi."}
            return {"choices": [{"index": 0, "message": message, "finish_reason": word}]}
        case "anthropic":
            return {"role": "assistant", "content": [{"type": "text", "text": "Hi."}], "stop_reason": word}
        case "gemini":
            content = {"role": "model", "parts": [{"text": "Hi."}]}
            return {"candidates": [{"content": content, "finishReason": word}]}
    return {"message": {"role": "assistant", "content": "Hi."}, "done": True, "done_reason": word}


@pytest.mark.parametrize(("name", "word"), [(name, word) for name, words in WORDS.items() for word in words])
def test_a_word_means_what_it_means_and_is_kept(name: str, word: str) -> None:
    response = dialect(name).decode_response(body(name, word))
    assert (response.finish_reason, response.raw_finish_reason) == (WORDS[name][word], word)
