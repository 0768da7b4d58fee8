"""What strictness refuses of the requests and answers that programs and servers really send, and what it lets pass.

The bodies are written by hand in the shapes of captured ones: claude-code 2.1.197, codex 0.169.0,
gemini-cli 0.61.0, opencode 1.18.33 (2026-11-22), pi 0.73.1 (2026-11-23).
"""

import json
from typing import Any

import pytest

from toolwire import LossyTranslation, dialect, translate
from toolwire.dialects import NAMES
from toolwire.types import Severity

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "path": {"type": "string", "title": "Path", "description": "Which file.", "minLength": 1},
        "lines": {"type": "integer", "default": 10, "maximum": 200},
    },
    "required": ["path"],
    "additionalProperties": False,
}
WORDS = "Read the file a.txt."
CHAT_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "read", "arguments": '{"path":"a.txt"}'},
    "index": 0,
}

# What each program sends on every request, of which no wire loses anything that a model may do or sees.
PROGRAMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "opencode": (
        "openai-chat",
        "",
        {
            "model": "toy",
            "max_tokens": 32000,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tool_choice": "auto",
            "tools": [
                {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}}
            ],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": WORDS},
                {"role": "assistant", "content": "I read it.", "tool_calls": [CHAT_CALL]},
                {"role": "tool", "tool_call_id": "call_1", "content": "one"},
            ],
        },
    ),
    "codex": (
        "openai-responses",
        "",
        {
            "model": "gpt-5",
            "instructions": "Be brief.",
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "k",
            "client_metadata": {"session_id": "s", "turn": "1"},
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"effort": "medium", "summary": "auto", "context": "all_turns"},
            "text": {"verbosity": "medium"},
            "tools": [
                {"type": "function", "name": "read", "description": "Reads.", "strict": False, "parameters": SCHEMA}
            ],
            "input": [
                {"type": "message", "role": "user", "id": "msg_1", "content": [{"type": "input_text", "text": WORDS}]},
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "call_1",
                    "name": "read",
                    "arguments": '{"path":"a.txt"}',
                    "status": "completed",
                },
                {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "one"},
            ],
        },
    ),
    "claude-code": (
        "anthropic",
        "",
        {
            "model": "claude-opus-4-8",
            "max_tokens": 64000,
            "stream": True,
            "metadata": {"user_id": "u"},
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "high"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            "tools": [{"name": "read", "description": "Reads.", "input_schema": SCHEMA}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": WORDS, "cache_control": {"type": "ephemeral"}}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "t1", "name": "read", "input": {}, "caller": {"type": "direct"}}
                    ],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "one"}]},
            ],
        },
    ),
    "pi": (
        "anthropic",
        "",
        {
            "model": "claude-sonnet-4-5",
            "max_tokens": 16384,
            "stream": True,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "read", "description": "Reads.", "input_schema": SCHEMA, "eager_input_streaming": True}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": WORDS}]}],
        },
    ),
    "gemini-cli": (
        "gemini",
        "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse",
        {
            "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
            "generationConfig": {
                "temperature": 1,
                "topP": 1,
                "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
            },
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
            "tools": [
                {"functionDeclarations": [{"name": "read", "description": "Reads.", "parametersJsonSchema": SCHEMA}]}
            ],
            "contents": [
                {"role": "user", "parts": [{"text": WORDS}]},
                {
                    "role": "model",
                    "parts": [
                        {
                            "functionCall": {"id": "c1", "name": "read", "args": {"path": "a.txt"}},
                            "thoughtSignature": "skip_thought_signature_validator",
                        }
                    ],
                },
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"id": "c1", "name": "read", "response": {"output": "one"}}}],
                },
            ],
        },
    ),
}
FOREIGN = [(program, target) for program, (source, _, _) in PROGRAMS.items() for target in NAMES if target != source]


def refused(body: dict[str, Any], source: str, target: str, path: str = "") -> set[str]:
    """Give the concepts for which strictness refuses a request; none where it writes one."""
    try:
        translate.request(body, source, target, path, strict=True)
    except LossyTranslation as refusal:
        return {loss.concept for loss in refusal.losses}
    return set()


@pytest.mark.sampled
@pytest.mark.parametrize(("program", "target"), FOREIGN)
def test_what_a_program_sends_with_every_request_is_not_refused(program: str, target: str) -> None:
    source, path, body = PROGRAMS[program]
    assert refused(body, source, target, path) == set()


# What a program adds, and the concept for which every other wire refuses it but those that can say it.
ADDED: dict[str, tuple[str, dict[str, Any], str, frozenset[str]]] = {
    "top_k": ("gemini-cli", {"generationConfig": {"topK": 64}}, "top_k", frozenset({"ollama"})),
    "temperature": (
        "gemini-cli",
        {"generationConfig": {"temperature": 0.2}},
        "temperature",
        frozenset({"openai-chat", "openai-responses", "ollama"}),
    ),
    "verbosity": ("codex", {"text": {"verbosity": "low"}}, "verbosity", frozenset({"openai-chat"})),
    "a server's tool": ("codex", {"tools": [{"type": "web_search"}]}, "server_tool", frozenset()),
    "earlier turns": (
        "codex",
        {"previous_response_id": "resp_1"},
        "provider_state",
        frozenset(),
    ),
    "seed": ("opencode", {"seed": 7}, "seed", frozenset({"gemini", "ollama"})),
    "several answers": ("opencode", {"n": 2}, "n", frozenset({"gemini"})),
    "a search of the server": (
        "claude-code",
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "server_tool",
        frozenset(),
    ),
}


@pytest.mark.parametrize(("program", "added", "concept", "sayable"), ADDED.values(), ids=ADDED)
def test_what_the_model_may_do_or_sees_is_refused(
    program: str, added: dict[str, Any], concept: str, sayable: frozenset[str]
) -> None:
    source, path, body = PROGRAMS[program]
    found = {target: refused(body | added, source, target, path) for target in NAMES if target != source}
    assert found == {target: set() if target in sayable else {concept} for target in found}


HIDDEN = [
    ({"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"}, False),
    ({"text": "Yes.", "thoughtSignature": "c2ln"}, True),
]


@pytest.mark.parametrize(("part", "lost"), HIDDEN)
def test_thoughts_that_only_their_provider_can_read(part: dict[str, Any], lost: bool) -> None:
    contents = [{"role": "user", "parts": [{"text": "?"}]}, {"role": "model", "parts": [part, {"text": "Yes."}]}]
    assert bool(refused({"contents": contents}, "gemini", "ollama")) == lost


ECHO = {
    "background": False,
    "completed_at": 2,
    "billing": {"payer": "developer"},
    "frequency_penalty": 0.0,
    "instructions": "Be brief.",
    "max_output_tokens": 100,
    "max_tool_calls": 5,
    "metadata": {"k": "v"},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": "resp_0",
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "reasoning": {"effort": "medium", "summary": None},
    "safety_identifier": "s",
    "store": True,
    "temperature": 0.5,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [{"type": "function", "name": "read", "parameters": SCHEMA, "strict": True}],
    "top_logprobs": 0,
    "top_p": 0.9,
    "truncation": "disabled",
    "user": "u",
}
ANSWERS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "system_fingerprint": "fp",
        "service_tier": "default",
        "provider": "Groq",
        "remote_host": "https://models.example",
        "remote_model": "m:120b",
        "x_groq": {"id": "req_1"},
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "native_finish_reason": "tool_use",
                "matched_stop": 7,
                "message": {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "queue_time": 0.1},
    },
    "openai-responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "service_tier": "default",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        **ECHO,
    },
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}, "caller": {"type": "direct"}}],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2, "cache_creation": {"ephemeral_5m_input_tokens": 0}},
    },
    "gemini": {
        "responseId": "r",
        "modelVersion": "m",
        "createTime": "2026-11-22T00:00:00Z",
        "candidates": [
            {
                "index": 0,
                "finishReason": "STOP",
                "finishMessage": "Model generated function call(s).",
                "avgLogprobs": -0.1,
                "content": {"role": "model", "parts": [{"text": "Yes."}]},
            }
        ],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
    },
    "ollama": {
        "model": "m",
        "created_at": "2026-11-22T00:00:00Z",
        "message": {"role": "assistant", "content": "Yes."},
        "done": True,
        "done_reason": "stop",
        "total_duration": 5,
        "load_duration": 1,
        "prompt_eval_count": 3,
        "prompt_eval_duration": 1,
        "eval_count": 2,
        "eval_duration": 3,
    },
}


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_what_a_server_repeats_and_counts_is_formal(source: str, target: str) -> None:
    losses = translate.response(ANSWERS[source], source, target, strict=True).losses
    assert {loss.severity for loss in losses} <= {"formal"}
    if source == "openai-responses" != target:
        assert {f"opaque.{key}" for key, value in ECHO.items() if value is not None} <= {loss.path for loss in losses}


@pytest.mark.parametrize("target", NAMES)
def test_what_a_stream_repeats_is_formal(target: str) -> None:
    answer = ANSWERS["openai-responses"]
    item = answer["output"][0]
    begun = answer | {"status": "in_progress", "output": [], "usage": None}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    frames: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.content_part.added", "part": item["content"][0] | {"text": ""}, **place},
        {"type": "response.output_text.delta", "delta": "Yes.", **place},
        {"type": "response.output_text.done", "text": "Yes.", **place},
        {"type": "response.content_part.done", "part": item["content"][0], **place},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": answer},
    ]
    stream = translate.stream("openai-responses", target)
    for frame in frames:
        stream.feed(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode())
    stream.close()
    assert {loss.severity for loss in stream.losses} <= {"formal"}
    assert bool(stream.losses) == (target != "openai-responses")


def test_an_echo_is_one_in_an_answer_only() -> None:
    setting = {"truncation": "auto"}
    asked = translate.request(PROGRAMS["codex"][2] | setting, "openai-responses", "anthropic")
    answered = translate.response(ANSWERS["openai-responses"] | setting, "openai-responses", "anthropic")
    found = [
        {loss.path: loss.severity for loss in encoded.losses}["opaque.truncation"] for encoded in (asked, answered)
    ]
    assert found == ["semantic", "formal"]


def chat(**settings: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}]} | settings


def function(parameters: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return chat(tools=[{"type": "function", "function": {"name": "f", "parameters": parameters, **rest}}])


def typed(**keywords: Any) -> dict[str, Any]:
    return function({"type": "object", "properties": {}, **keywords})


# Body, target, the place of a loss in the canonical value or its concept, and how much it matters.
WEIGHED: list[tuple[dict[str, Any], str, str, Severity]] = [
    (chat(), "anthropic", "max_tokens", "formal"),
    (chat(max_tokens=5, n=1), "anthropic", "n", "formal"),
    (chat(temperature=1), "anthropic", "temperature", "formal"),
    (chat(temperature=0.7), "anthropic", "temperature", "semantic"),
    (chat(top_p=1), "anthropic", "top_p", "formal"),
    (chat(user="u"), "ollama", "user", "formal"),
    (chat(safety_identifier="u"), "gemini", "safety_identifier", "formal"),
    (chat(store=True), "ollama", "store", "formal"),
    (chat(metadata={"a": "b"}), "ollama", "metadata", "formal"),
    (chat(prompt_cache_key="k"), "gemini", "cache_key", "formal"),
    (chat(service_tier="priority"), "ollama", "service_tier", "minor"),
    (chat(verbosity="medium"), "gemini", "verbosity", "formal"),
    (chat(logprobs=True), "anthropic", "logprobs", "semantic"),
    (chat(web_search_options={}), "gemini", "opaque.web_search_options", "semantic"),
    (chat(prediction={"type": "content", "content": "a"}), "gemini", "opaque.prediction", "minor"),
    (chat(unheard_of=1), "gemini", "opaque.unheard_of", "semantic"),
    (typed(additionalProperties=False), "ollama", "schema_additionalProperties", "minor"),
    (typed(additionalProperties=True), "ollama", "schema_additionalProperties", "minor"),
    (
        typed(additionalProperties={"type": "string"}),
        "ollama",
        "schema_additionalProperties",
        "semantic",
    ),
    (typed(title="T"), "ollama", "schema_title", "minor"),
    (typed(description="What it is."), "ollama", "schema_description", "semantic"),
    (function({"type": "object"}, strict=False), "gemini", "tools[0].strict", "formal"),
    (function({"type": "object", "properties": {}}, strict=False), "ollama", "tools[0].strict", "formal"),
    (function({"type": "object", "properties": {}}, strict=True), "ollama", "tools[0].strict", "minor"),
]


@pytest.mark.parametrize(("body", "target", "lost", "severity"), WEIGHED)
def test_how_much_a_loss_matters(body: dict[str, Any], target: str, lost: str, severity: str) -> None:
    losses = dialect(target).encode_request(dialect("openai-chat").decode_request(body)).losses
    assert [loss.severity for loss in losses if lost in (loss.path, loss.concept)] == [severity]
