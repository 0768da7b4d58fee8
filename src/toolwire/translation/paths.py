"""What the paths of the five wires ask for: which wire speaks, what it wants, and whether it wants a stream.

Rules of this file:
- What differs between wires is a row of a table here.
- Three vendors list their models at one path: a header tells who asks.

Sources: openai 3.54.0, anthropic 2.12.0, google-genai 3.4.0 and ollama 0.6.3, as of 2026-11-22.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import unquote

from msgspec import Struct

from toolwire.dialects import traits_of

Action = Literal[
    "answer", "count", "models", "model", "version", "retrieve", "items", "cancel", "compact", "conversation", "other"
]


class RouteMatch(Struct, frozen=True):
    """What a path asks for, of which dialect; `streams` where the path says it, `subject` what it names."""

    action: Action
    dialect: str
    method: str = "POST"
    subject: str = ""
    streams: bool | None = None


_FIXED = {
    "/v1/chat/completions": RouteMatch("answer", "openai-chat"),
    "/v1/responses": RouteMatch("answer", "openai-responses"),
    "/v1/responses/input_tokens": RouteMatch("count", "openai-responses"),
    "/v1/responses/compact": RouteMatch("compact", "openai-responses"),
    "/v1/messages": RouteMatch("answer", "anthropic"),
    "/v1/messages/count_tokens": RouteMatch("count", "anthropic"),
    "/v1beta/models": RouteMatch("models", "gemini", "GET"),
    "/api/chat": RouteMatch("answer", "ollama"),
    "/api/tags": RouteMatch("models", "ollama", "GET"),
    "/api/version": RouteMatch("version", "ollama", "GET"),
    "/api/show": RouteMatch("model", "ollama"),
    **{
        f"/v1/{name}": RouteMatch("other", "openai-chat")
        for name in ("embeddings", "completions", "moderations", "images/generations", "audio/speech")
    },
    **{f"/api/{name}": RouteMatch("other", "ollama") for name in ("embed", "embeddings", "generate")},
}
_VERBS: dict[str | None, tuple[Action, str, bool | None]] = {
    None: ("model", "GET", None),
    "generateContent": ("answer", "POST", False),
    "streamGenerateContent": ("answer", "POST", True),
    "countTokens": ("count", "POST", None),
    "embedContent": ("other", "POST", None),
    "batchEmbedContents": ("other", "POST", None),
}
_VERB = "|".join(filter(None, _VERBS))
# A name may have a colon of its own, as in `qwen3:8b`; one with a slash may stand alone (@ai-sdk/google 3.0.141).
_GEMINI = re.compile(rf"/v1(?:beta|alpha)?/(?:models/|(?=[^/]+/.+:(?:{_VERB})$))(?P<model>.+?)(?::(?P<verb>{_VERB}))?")
_MODEL = re.compile(r"/v1/models(?:/(?P<model>.+))?")
_RESPONSE = re.compile(r"/v1/responses/(?P<id>resp_[A-Za-z0-9]+)(?:/(?P<rest>input_items|cancel))?")
_OF_ANSWERS: dict[str | None, tuple[Action, str, str]] = {
    None: ("retrieve", "openai-responses", "GET"),
    "input_items": ("items", "openai-responses", "GET"),
    "cancel": ("cancel", "openai-responses", "POST"),
}
# What may be asked besides of what is stored.
_MORE: dict[Action, tuple[str, ...]] = {"retrieve": ("DELETE",), "conversation": ("GET", "DELETE")}
_CONVERSATION = re.compile(
    r"/v1/conversations(?:/(?P<rest>conv_[A-Za-z0-9]{1,64}(?:/items(?:/[A-Za-z0-9_-]{1,128})?)?))?"
)
_TWICE = re.compile(r"(?:/v1(?:beta|alpha)?)+(?P<path>/(?:v1(?:beta|alpha)?|api)/.*)")
_BARE = re.compile(
    r"/(?:chat|responses|messages|conversations|models|embeddings|completions|moderations|images|audio)(?:/.*)?"
)
_VENDOR_HEADERS = (("anthropic-version", "anthropic"), ("x-goog-api-key", "gemini"))


def read_path(path: str, headers: Mapping[str, str]) -> RouteMatch | None:
    """Say what a path asks for, or None where no wire has it; names of headers are in small letters."""
    if path in _FIXED:
        return _FIXED[path]
    if (match := _RESPONSE.fullmatch(path)) is not None:
        return RouteMatch(*_OF_ANSWERS[match["rest"]], subject=match["id"])
    if (match := _CONVERSATION.fullmatch(path)) is not None:
        return RouteMatch("conversation", "openai-responses", subject=match["rest"] or "")
    gemini, match = _GEMINI.fullmatch(path), _MODEL.fullmatch(path)
    if match is not None and (gemini is None or gemini["verb"] is None):
        vendor = vendor_of(headers) or "openai-chat"
        return RouteMatch("model" if match["model"] else "models", vendor, "GET", unquote(match["model"] or ""))
    if gemini is None:
        return None
    action, method, streams = _VERBS[gemini["verb"]]
    return RouteMatch(action, "gemini", method, unquote(gemini["model"]), streams)


def with_one_version(path: str) -> str:
    """Give a path as its vendor writes it: the base address that a client was told may name the version, or not."""
    if path in _FIXED:
        return path
    if (twice := _TWICE.fullmatch(path)) is not None:
        return twice["path"]
    if _GEMINI.fullmatch(path) is not None:
        return path
    gemini = _GEMINI.fullmatch(f"/v1beta{path}")
    if gemini is not None and gemini["verb"]:
        return f"/v1beta{path}"
    return f"/v1{path}" if _BARE.fullmatch(path) is not None else path


def vendor_of(headers: Mapping[str, str]) -> str | None:
    """Say whose SDK sends these headers, where it says so by itself."""
    return next((name for header, name in _VENDOR_HEADERS if header in headers), None)


def wire_of(method: str, path: str, headers: Mapping[str, str]) -> str | None:
    """Find the dialect of an HTTP request, or None.

    >>> from toolwire import translate
    >>> translate.wire_of("POST", "/v1/messages", {})
    'anthropic'
    """
    asked = read_path(path.partition("?")[0], {name.lower(): value for name, value in headers.items()})
    if asked is None:
        return None
    return asked.dialect if method.upper() in (*methods_of(asked), *_MORE.get(asked.action, ())) else None


def methods_of(asked: RouteMatch) -> tuple[str, ...]:
    """List the methods by which something is asked."""
    return (asked.method, "HEAD") if asked.method == "GET" else (asked.method,)


def wants_stream(dialect: str, body: Any, path: str = "") -> bool:
    """Whether a request asks for a stream: Gemini says it in the path, Ollama streams unless told not to."""
    traits = traits_of(dialect)
    if traits.stream_verb:
        return traits.stream_verb in path
    said = body.get("stream") if type(body) is dict else None
    return traits.streams_by_default if said is None else said is True


def stream_quirks(dialect: str, body: Any, path: str = "") -> dict[str, Any]:
    """Say in which form a client wants its stream: whether it asked for usage, or for an array."""
    traits = traits_of(dialect)
    if traits.streams_usage_on_request:
        options = body.get("stream_options") if type(body) is dict else None
        return {"stream_usage": type(options) is dict and options.get("include_usage") is True}
    if traits.streams_arrays:
        return {"stream_array": "alt=sse" not in path.partition("?")[2].split("&")}
    return {}
