"""Requests of Messages: what each body means, and that it comes back as it was."""

from typing import Any

import pytest

from toolwire.dialects import anthropic
from toolwire.errors import InvalidBody

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
EPHEMERAL = {"type": "ephemeral"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"b": 1, "a": 2}}


def user(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks), **fields}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", **fields}


FORM = {"type": "json_schema", "schema": SCHEMA}
OWN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "messages of no kind": {"messages": None, "model": "m"},
    "no messages": {"messages": [], "max_tokens": 0},
    "a prompt in words": {"system": "Be brief.", "messages": []},
    "an empty prompt": {"system": "", "messages": []},
    "no prompt": {"system": [], "messages": []},
    "a prompt in blocks": {
        "system": [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            {"type": "text", "text": ""},
            {"type": "image"},
        ],
        "messages": [],
    },
    "turns": {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "user", "content": ""},
            {"role": "assistant", "content": "b", "x": 1},
            {"role": "system", "content": "c"},
            {"role": "system", "content": [{"type": "text", "text": "d"}]},
            {"role": "narrator", "content": "e"},
            {"role": "user", "content": None},
            {"role": "user"},
            {"role": "assistant", "content": []},
            "f",
            None,
        ]
    },
    "blocks": {
        "messages": [
            user(
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b", "cache_control": EPHEMERAL, "citations": None},
                {"type": "text", "text": "c", "citations": [{"type": "char_location", "cited_text": "q"}]},
                {"type": "text", "text": "d", "citations": []},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}},
                {"type": "image", "source": {"type": "url", "url": "u"}, "cache_control": EPHEMERAL},
                {"type": "image", "source": {"type": "url", "url": "data:image/png;base64,x"}},
                {"type": "image", "source": {"type": "file", "file_id": "f"}, "transformations": []},
                {"type": "image", "source": {"type": "s3"}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "x"},
                    "title": "t",
                    "context": "c",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "url", "url": "u"}, "title": None},
                {"type": "document", "source": {"type": "content", "content": []}},
                {"type": "search_result", "source": "s", "title": "t", "content": []},
                {"type": "container_upload", "file_id": "f"},
                {"type": "hologram", "x": 1},
                {"text": "x"},
                "bare",
                None,
            )
        ]
    },
    "thinking": {
        "messages": [
            assistant(
                {"type": "thinking", "thinking": "", "signature": "S"},
                {"type": "thinking", "thinking": "Hm.", "signature": "", "x": 1},
                {"type": "thinking", "thinking": "Hm."},
                {"type": "redacted_thinking", "data": "blob"},
                {"type": "thinking"},
                USE,
            )
        ]
    },
    "calls": {
        "messages": [
            assistant(
                USE,
                {**USE, "caller": {"type": "direct"}, "cache_control": EPHEMERAL},
                {**USE, "id": None},
                {"type": "tool_use", "name": "look", "input": {}},
                {**USE, "input": "{}"},
                {**USE, "name": None},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
                {"type": "web_fetch_tool_result", "tool_use_id": "s"},
                {"type": "mcp_tool_use", "id": "m", "name": "n", "input": {}, "server_name": "x"},
                {"type": "mcp_tool_result", "tool_use_id": "m", "content": [], "is_error": False},
                {"type": "compaction", "content": "x"},
            )
        ]
    },
    "results": {
        "messages": [
            assistant(USE),
            user(
                result(),
                result(content="ok"),
                result(content="ok", is_error=False),
                result(content="boom", is_error=True),
                result(content="ok", is_error=None),
                result(content=""),
                result(content=[]),
                result(content=None),
                result(content="Error: x", cache_control=EPHEMERAL),
                result(
                    content=[
                        {"type": "text", "text": "a"},
                        {"type": "image", "source": {"type": "url", "url": "u"}},
                        {"type": "tool_reference", "tool_name": "x"},
                        {"type": "text", "text": ""},
                    ]
                ),
                {"type": "tool_result", "content": "x"},
            ),
            user({"type": "text", "text": "first"}, result(content="later")),
        ]
    },
    "tools": {
        "tools": [
            {"name": "look", "description": "d", "input_schema": SCHEMA},
            {
                "name": "look",
                "input_schema": {"type": "object"},
                "type": "custom",
                "cache_control": EPHEMERAL,
            },
            {
                "name": "look",
                "input_schema": None,
                "type": None,
                "strict": True,
                "input_examples": [{"a": 1}],
            },
            {"name": "srv_list__tw3-2f", "input_schema": SCHEMA},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
            {"type": "bash_20250124", "name": "bash"},
            {"input_schema": {}},
            7,
        ]
    },
    "no tools": {"tools": []},
    "settings": {
        "model": "m",
        "max_tokens": 5,
        "stream": True,
        "temperature": 1.0,
        "top_p": 0.5,
        "top_k": 4,
        "stop_sequences": ["END"],
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted", "x": 1},
        "output_config": {"effort": "max", "format": {"type": "json_schema", "schema": SCHEMA}, "x": 1},
        "metadata": {"user_id": "u", "x": 1},
        "service_tier": "standard_only",
        "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True, "x": 1},
        "speed": "fast",
        "container": "c",
        "cache_control": EPHEMERAL,
    },
    "settings of no kind": {
        "max_tokens": "5",
        "temperature": None,
        "stop_sequences": [],
        "thinking": {"type": "utmost"},
        "output_config": {"effort": None, "format": {"type": "grammar"}},
        "metadata": {"user_id": None},
        "service_tier": 1,
        "tool_choice": {"type": "sometimes"},
    },
    "no thinking": {"thinking": {"type": "disabled"}, "output_config": {}, "metadata": {}},
    "an effort of nobody": {"output_config": {"effort": "none"}, "thinking": {"type": "between_tools"}},
    "a form beside": {"output_format": FORM},
    "a form beside an effort": {"output_config": {"effort": "low"}, "output_format": FORM},
    "a form beside what is odd": {"output_config": {"x": 1}, "output_format": FORM},
    "a form beside nothing": {"output_config": {}, "output_format": FORM},
    "a form beside no settings": {"output_config": None, "output_format": FORM},
    "two forms": {"output_config": {"format": FORM}, "output_format": FORM},
    "an odd form beside": {"output_format": {**FORM, "x": 1}},
    "no form beside": {"output_format": None},
}


@pytest.mark.parametrize("body", OWN.values(), ids=OWN)
def test_a_request_comes_back(body: dict[str, Any]) -> None:
    encoded = anthropic.encode_request(anthropic.decode_request(body))
    assert (encoded.body, encoded.losses, encoded.path) == (body, (), "/v1/messages")


def test_another_path_comes_back() -> None:
    request = anthropic.decode_request({"messages": []}, "/v1/messages?beta=true")
    assert anthropic.encode_request(request).path == "/v1/messages?beta=true"


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_what_is_no_object_is_refused(body: Any) -> None:
    for decode in (anthropic.decode_request, anthropic.decode_response):
        with pytest.raises(InvalidBody, match="must be a JSON object"):
            decode(body)
