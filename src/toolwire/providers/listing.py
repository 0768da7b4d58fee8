"""Lists of models in the form of each wire."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from toolwire.providers import catalogue

_WHEN = "2026-01-01T00:00:00Z"
_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]

_DETAILS = {"format": "gguf", "family": "toolwire", "parameter_size": "0", "quantization_level": "none"}


def _windows(name: str, window_field: str, output_field: str) -> dict[str, int]:
    """Return how many tokens a model reads and writes, if that is known."""
    known = catalogue.model(name.partition("/")[2] or name)
    pairs = ((window_field, known.context_window), (output_field, known.max_output)) if known is not None else ()
    return {key: count for key, count in pairs if count is not None}


def _openai(name: str) -> dict[str, Any]:
    windows = _windows(name, "context_window", "max_output_tokens")
    return {"id": name, "object": "model", "created": 0, "owned_by": "toolwire", **windows}


def _anthropic(name: str) -> dict[str, Any]:
    windows = _windows(name, "max_input_tokens", "max_tokens")
    return {"type": "model", "id": name, "display_name": name, "created_at": _WHEN, **windows}


def _gemini(name: str) -> dict[str, Any]:
    windows = _windows(name, "inputTokenLimit", "outputTokenLimit")
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": _METHODS, **windows}


def _ollama(name: str) -> dict[str, Any]:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return {"name": name, "model": name, "modified_at": _WHEN, "size": 0, "digest": digest, "details": _DETAILS}


def _ollama_shown(name: str) -> dict[str, Any]:
    window = _windows(name, "toolwire.context_length", "toolwire.max_output")
    info = {"general.architecture": "toolwire", **window}
    capabilities = ["completion", "tools", "thinking", "vision"]
    return {"details": _DETAILS, "model_info": info, "capabilities": capabilities, "modified_at": _WHEN}


def _anthropic_list(names: Sequence[str]) -> dict[str, Any]:
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return {"data": [_anthropic(name) for name in names], "has_more": False, **ends}


_LISTS: dict[str, Callable[[Sequence[str]], dict[str, Any]]] = {
    "openai-chat": lambda names: {"object": "list", "data": [_openai(name) for name in names]},
    "anthropic": _anthropic_list,
    "gemini": lambda names: {"models": [_gemini(name) for name in names]},
    "ollama": lambda names: {"models": [_ollama(name) for name in names]},
}
_ONE: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai-chat": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama_shown,
}


def list_models(dialect: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the list of models in the form of a wire."""
    return _LISTS[dialect](names)


def show_model(dialect: str, name: str) -> dict[str, Any]:
    """Return one model in the form of a wire."""
    return _ONE[dialect](name)
