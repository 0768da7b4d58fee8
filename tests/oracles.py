"""The vendors' own types as judges of bodies: unknown keys are refused, iterables are looked into.

A judge gives None for a body that passes, and the first complaint for one that does not.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import anthropic.types
import anthropic.types.beta
import anthropic.types.beta.message_create_params
import anthropic.types.message_create_params
import ollama
import openai.types.chat
import openai.types.chat.completion_create_params
import openai.types.responses
import openai.types.responses.response_create_params
from google.genai import types as google
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

Judge = Callable[[Any], str | None]
# Keys of today's Ollama server that its Python client does not declare (it drops them when it reads).
OLLAMA_EXTRAS = {"tool_calls": {"id"}, "messages": {"tool_call_id", "images"}, "function": {"index"}}
OLLAMA_REQUEST: dict[str, Any] = {
    "model": str,
    "messages": list[ollama.Message],
    "tools": list[ollama.Tool],
    "stream": bool,
    "format": Literal["", "json"] | dict[str, Any],
    "options": ollama.Options,
    "think": bool | Literal["low", "medium", "high", "max"],
    "keep_alive": float | str | None,
    "logprobs": bool,
    "top_logprobs": int,
    "truncate": bool,
    "shift": bool,
}
GEMINI_REQUEST: dict[str, Any] = {
    "contents": list[google.Content],
    "systemInstruction": google.Content,
    "tools": list[google.Tool],
    "toolConfig": google.ToolConfig,
    "generationConfig": google.GenerationConfig,
    "safetySettings": list[google.SafetySetting],
    "cachedContent": str,
    "labels": dict[str, str],
    "store": bool,
    "serviceTier": str,
    "continuationToken": str,
}


def _tighten(schema: Any, kinds: tuple[str, ...]) -> Any:
    """Rewrite a core schema: typed maps and models refuse unknown keys, lazy iterables become lists."""
    if isinstance(schema, list | tuple):
        return type(schema)(_tighten(inner, kinds) for inner in schema)
    if not isinstance(schema, dict):
        return schema
    opaque = {"metadata", "cls", "function", "serialization", "config"}
    made = {key: value if key in opaque else _tighten(value, kinds) for key, value in schema.items()}
    if made.get("type") == "generator":
        made["type"] = "list"
    if made.get("type") in kinds and "extras_schema" not in made and made.get("extra_behavior") != "allow":
        made["extra_behavior"] = "forbid"
    return made


@cache
def _strict(kind: Any, *kinds: str) -> SchemaValidator:
    adapter = TypeAdapter(kind)
    adapter.rebuild(force=True)
    return SchemaValidator(_tighten(adapter.core_schema, kinds or ("typed-dict",)))


@cache
def _plain(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _complaint(validator: SchemaValidator | TypeAdapter[Any], value: Any) -> str | None:
    try:
        validator.validate_python(value)
    except ValidationError as refusal:
        first = refusal.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (
        AttributeError,
        ValueError,
    ) as crash:  # google-genai's enums fail on numbers instead of refusing them
        return repr(crash)
    return None


def judge(build: Callable[[Any], SchemaValidator | TypeAdapter[Any]], *kinds: Any) -> Judge:
    """Judge by any of several types."""

    def complain(body: Any) -> str | None:
        complaints = [_complaint(build(kind), body) for kind in kinds]
        return None if None in complaints else complaints[0]

    return complain


def _gemini_request(body: Any) -> str | None:
    for key, value in body.items():
        if key not in GEMINI_REQUEST:
            return f"{key}: unknown"
        if (complaint := _complaint(_plain(GEMINI_REQUEST[key]), value)) is not None:
            return f"{key}.{complaint}"
    return None if "contents" in body else "contents: missing"


def _ollama_request(body: Any) -> str | None:
    """Judge by the client's types for each key; its own request type lets any map pass as a message."""
    for message in body.get("messages") or ():
        if isinstance(message, dict) and not all(isinstance(image, str) for image in message.get("images") or ()):
            return "messages.images: base64 text on the wire"
    for key, value in body.items():
        if key not in OLLAMA_REQUEST:
            return f"{key}: unknown"
        kind = OLLAMA_REQUEST[key]
        validator = _strict(kind, "typed-dict", "model-fields") if key == "messages" else _plain(kind)
        if (complaint := _complaint(validator, _without_extras(value, key))) is not None:
            return f"{key}.{complaint}"
    return next((f"{key}: missing" for key in ("model", "messages") if key not in body), None)


def _ollama_response(body: Any) -> str | None:
    return _complaint(_plain(ollama.ChatResponse), body)


def _without_extras(value: Any, within: str = "") -> Any:
    """Leave out the keys that the server knows and its client does not."""
    if isinstance(value, list):
        return [_without_extras(inner, within) for inner in value]
    if not isinstance(value, dict) or within == "arguments":
        return value
    extras = OLLAMA_EXTRAS.get(within, set())
    return {key: _without_extras(inner, key) for key, inner in value.items() if key not in extras}


chat = openai.types.chat.completion_create_params
responses = openai.types.responses.response_create_params
messages = anthropic.types.message_create_params
beta = anthropic.types.beta.message_create_params
REQUESTS: dict[str, Judge] = {
    "openai-chat": judge(_strict, chat.CompletionCreateParamsNonStreaming, chat.CompletionCreateParamsStreaming),
    "openai-responses": judge(
        _strict, responses.ResponseCreateParamsNonStreaming, responses.ResponseCreateParamsStreaming
    ),
    "anthropic": judge(
        _strict,
        messages.MessageCreateParamsNonStreaming,
        messages.MessageCreateParamsStreaming,
        beta.MessageCreateParamsNonStreaming,
        beta.MessageCreateParamsStreaming,
    ),
    "gemini": _gemini_request,
    "ollama": _ollama_request,
}
RESPONSES: dict[str, Judge] = {
    "openai-chat": judge(_plain, openai.types.chat.ChatCompletion),
    "openai-responses": judge(_plain, openai.types.responses.Response),
    "anthropic": judge(_plain, anthropic.types.Message, anthropic.types.beta.BetaMessage),
    "gemini": judge(_plain, google.GenerateContentResponse),
    "ollama": _ollama_response,
}
