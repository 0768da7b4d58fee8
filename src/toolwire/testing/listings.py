"""What servers tell beside answers: their models, their version, and how many tokens something has."""

from collections.abc import Callable, Sequence
from typing import Any

from toolwire.testing.sealing import count_tokens, digest

WHEN = "2026-01-01T00:00:00Z"
VERSION = "0.30.0"


def _openai_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "toolwire"}


def _anthropic_model(name: str) -> dict[str, Any]:
    return {"type": "model", "id": name, "display_name": name, "created_at": WHEN}


def _gemini_model(name: str) -> dict[str, Any]:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def _ollama_model(name: str) -> dict[str, Any]:
    details = {"format": "gguf", "family": "toolwire", "parameter_size": "0", "quantization_level": "none"}
    named = {"name": name, "model": name, "modified_at": WHEN, "size": 0}
    return {**named, "digest": digest(name).hex(), "details": details}


def _ollama_shown(name: str) -> dict[str, Any]:
    capabilities = ["completion", "tools", "thinking", "vision"]
    known = {"details": _ollama_model(name)["details"], "model_info": {"general.architecture": "toolwire"}}
    return {"modelfile": "", "template": "", **known, "capabilities": capabilities, "modified_at": WHEN}


MODELS: dict[str, Callable[[Sequence[str]], dict[str, Any]]] = {
    "openai-chat": lambda names: {"object": "list", "data": [_openai_model(name) for name in names]},
    "anthropic": lambda names: {
        "data": [_anthropic_model(name) for name in names],
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    },
    "gemini": lambda names: {"models": [_gemini_model(name) for name in names]},
    "ollama": lambda names: {"models": [_ollama_model(name) for name in names]},
}
MODEL: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai-chat": _openai_model,
    "anthropic": _anthropic_model,
    "gemini": _gemini_model,
    "ollama": _ollama_shown,
}


def counted(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Count the tokens of a request."""
    tokens = count_tokens(body)
    if name == "gemini":
        return {"totalTokens": tokens}
    shown = {"input_tokens": tokens}
    return {"object": "response.input_tokens", **shown} if name == "openai-responses" else shown
