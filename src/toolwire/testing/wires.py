"""The five wires as servers speak them: paths, headers, the form of ids, keys, and what is told beside answers.

Rule: what differs between servers is a row of a table here.

Sources: openai 3.52.0, anthropic 2.11.0, google-genai 3.4.0 and ollama 0.6.3, for paths, headers and lists; the words
about keys and models are those that users report (to 2026-11).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolwire.testing.rules import Rejection
from toolwire.testing.sealing import count_tokens, digest
from toolwire.types import ErrorKind

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
_LINES = "application/x-ndjson"


class _WireStyle(Struct, frozen=True):
    """How servers of a dialect speak: how they name an answer, a call and a request, and a busy time."""

    dialect: str
    answer_id: str
    call_id: tuple[str, int] | None
    request_header: str
    request_id: str
    stream_type: str = EVENTS
    statuses: Mapping[ErrorKind, int] = {}


WIRES = {
    wire.dialect: wire
    for wire in (
        _WireStyle("openai-chat", "chatcmpl-", ("call_", 24), "x-request-id", "req_"),
        _WireStyle("openai-responses", "resp_", ("call_", 24), "x-request-id", "req_"),
        _WireStyle("anthropic", "msg_", ("toolu_", 24), "request-id", "req_", statuses={"overloaded": 529}),
        _WireStyle("gemini", "", None, "x-request-id", ""),
        _WireStyle("ollama", "", ("call_", 8), "x-request-id", "", _LINES),
    )
}


_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
    "auth (i.e. Authorization: Bearer YOUR_KEY)."
)
_UNREGISTERED = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
    "other form of API consumer identity to call this API."
)
_WRONG_KEY = (
    "Incorrect API key provided: {}. You can find your API key at https://platform.openai.com/account/api-keys."
)


def check_key(name: str, headers: Mapping[str, str], query: Mapping[str, str], expected: str | None) -> None:
    """Refuse a request without a key, or with another than the expected one; Ollama wants none by itself."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    bearer = bearer.strip() if scheme.lower() == "bearer" else ""
    places = {
        "anthropic": (headers.get("x-api-key"), bearer),
        "gemini": (headers.get("x-goog-api-key"), query.get("key"), bearer),
    }
    key = next(filter(None, places.get(name, (bearer, headers.get("api-key")))), None)
    if expected in (None, key) and (key is not None or name == "ollama"):
        return
    match name:
        case "gemini" if key is None:
            raise Rejection(_UNREGISTERED, status=403, kind="permission")
        case "gemini":
            raise Rejection("API key not valid. Please pass a valid API key.")
        case "anthropic":
            text = "x-api-key header is required" if key is None else "invalid x-api-key"
            raise Rejection(text, status=401, kind="authentication")
        case "ollama":
            raise Rejection("unauthorized", status=401, kind="authentication")
    if key is None:
        raise Rejection(_NO_KEY, status=401, kind="authentication")
    hidden = f"{key[:3]}***{key[-2:]}" if len(key) > 8 else "***"
    raise Rejection(_WRONG_KEY.format(hidden), None, "invalid_api_key", 401, "authentication")


_WHEN = "2026-01-01T00:00:00Z"
VERSION = "0.30.0"


def _openai_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "toolwire"}


def _anthropic_model(name: str) -> dict[str, Any]:
    return {"type": "model", "id": name, "display_name": name, "created_at": _WHEN}


def _gemini_model(name: str) -> dict[str, Any]:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def _ollama_model(name: str) -> dict[str, Any]:
    details = {"format": "gguf", "family": "toolwire", "parameter_size": "0", "quantization_level": "none"}
    named = {"name": name, "model": name, "modified_at": _WHEN, "size": 0}
    return {**named, "digest": digest(name).hex(), "details": details}


def _ollama_shown(name: str) -> dict[str, Any]:
    capabilities = ["completion", "tools", "thinking", "vision"]
    known = {"details": _ollama_model(name)["details"], "model_info": {"general.architecture": "toolwire"}}
    return {"modelfile": "", "template": "", **known, "capabilities": capabilities, "modified_at": _WHEN}


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
