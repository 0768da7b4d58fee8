"""Histories with tools in each wire: legal ones, and places in them to break.

Rule: a history has a question, two calls at once with their results, one more call with its result. Seals are
those of the simulated model.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from toolwire.testing.rules import Rejection, ServerMemory, WireRequest
from toolwire.testing.rules_anthropic import prefix_of
from toolwire.testing.sealing import seal, token
from toolwire.testing.wires import refusal

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": [],
    "additionalProperties": False,
}
AGAIN = {"role": "user", "content": "Hello?"}
NEWEST = {"anthropic-version": "2026-10-21"}
Change = Callable[[dict[str, Any]], object]


def _function(name: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def _tool(role: str, call_id: str) -> dict[str, Any]:
    return {"role": role, "tool_call_id": call_id, "content": "sunny"}


def chat() -> WireRequest:
    """Give a history of Chat Completions."""
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "content": None, "tool_calls": [_function("f", "c1"), _function("g", "c2")]},
        _tool("tool", "c1"),
        _tool("tool", "c2"),
        {"role": "assistant", "content": "Once more.", "tool_calls": [_function("f", "c3")]},
        _tool("tool", "c3"),
    ]
    tools = [{"type": "function", "function": {"name": name, "parameters": OBJECT}} for name in "fg"]
    return WireRequest("openai-chat", {"model": "gpt-4.1", "messages": messages, "tools": tools}, "gpt-4.1")


def responses() -> WireRequest:
    """Give a history of Responses, its reasoning carried along."""
    memory = ServerMemory()
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": token("a thought")}
    items: list[Any] = [{"role": "user", "content": "Weather?"}, sealed]
    for call_id, name in (("c1", "f"), ("c2", "g"), ("c3", "f")):
        items.append({"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name})
        items[-1]["arguments"] = "{}"
    items += [{"type": "function_call_output", "call_id": call_id, "output": "x"} for call_id in ("c1", "c2", "c3")]
    memory.items |= {"rs_1": None, "fc_c1": "rs_1"}
    tools = [{"type": "function", "name": name, "parameters": OBJECT, "strict": False} for name in "fg"]
    body = {"model": "gpt-6-sol", "input": items, "tools": tools}
    return WireRequest("openai-responses", body, "gpt-6-sol", memory=memory)


def _use(name: str, call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def _result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "sunny"}


def messages() -> WireRequest:
    """Give a history of the Messages API, with a thought that is bound to all before it."""
    thought = {"type": "thinking", "thinking": "Two at once.", "signature": ""}
    turns: list[Any] = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [thought, _use("f", "c1"), _use("g", "c2")]},
        {"role": "user", "content": [_result("c1"), _result("c2"), {"type": "text", "text": "And?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Once more."}, _use("f", "c3")]},
        {"role": "user", "content": [_result("c3")]},
    ]
    tools = [{"name": name, "input_schema": OBJECT} for name in "fg"]
    body = {
        "model": "claude-opus-5-5",
        "max_tokens": 9000,
        "messages": turns,
        "tools": tools,
        "system": "Be brief.",
    }
    asked = WireRequest("anthropic", body, "claude-opus-5-5", NEWEST)
    thought["signature"] = seal("Two at once.", prefix_of(asked, 1, []))
    return asked


def _content(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def gemini() -> WireRequest:
    """Give a history of generateContent, signed at the first call of each step."""

    def asks(name: str) -> dict[str, Any]:
        return {"functionCall": {"name": name, "args": {}}}

    def gives(name: str) -> dict[str, Any]:
        return {"functionResponse": {"name": name, "response": {"output": "sunny"}}}

    signed = {"thoughtSignature": token("a call")}
    contents = [
        _content("user", {"text": "Weather?"}),
        _content("model", {"text": "Hm.", "thought": True}, {**asks("f"), **signed}, asks("g")),
        _content("user", gives("f"), gives("g")),
        _content("model", {**asks("f"), **signed}),
        _content("user", gives("f")),
    ]
    declared = [{"name": name, "parametersJsonSchema": OBJECT} for name in "fg"]
    return WireRequest("gemini", {"contents": contents, "tools": [{"functionDeclarations": declared}]}, "gemini-3-pro")


def ollama() -> WireRequest:
    """Give a history of Ollama's own chat."""
    called = [{"function": {"name": name, "arguments": {}}} for name in "fg"]
    messages = [
        {"role": "user", "content": "Weather?", "images": ["aGk="]},
        {"role": "assistant", "content": "", "tool_calls": called},
        {"role": "tool", "content": "sunny", "tool_name": "f"},
    ]
    tools = [{"type": "function", "function": {"name": name, "parameters": OBJECT}} for name in "fg"]
    return WireRequest("ollama", {"model": "qwen3", "messages": messages, "tools": tools}, "qwen3")


LEGAL: dict[str, Callable[[], WireRequest]] = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": messages,
    "gemini": gemini,
    "ollama": ollama,
}


def judged(
    name: str,
    change: Change | None = None,
    model: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Rejection | None:
    """Judge a legal history after a change to its body, and with another model where one is given."""
    asked = LEGAL[name]()
    body = copy.deepcopy(asked.body)
    if change is not None:
        change(body)
    if model is not None and "model" in body:
        body["model"] = model
    asked = replace(asked, body=body, model=model or asked.model)
    return refusal(asked if headers is None else replace(asked, headers=headers))
