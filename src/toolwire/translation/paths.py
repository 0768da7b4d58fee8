"""Match the paths of HTTP requests: which wire a request is of, what it asks for, and whether it asks for a stream.

Rules of this file:
- A difference between wires is a row of a table here.
- OpenAI, Anthropic and Gemini list their models at the same path. A header shows whose client sends the request.

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
    """The operation that a request to a path asks for, and its dialect.

    `streams` is None unless the path determines it. `subject` is the model or the id in the path.
    """

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
# A model may have a colon in its name, as in `qwen3:8b`. Before a name with a slash, @ai-sdk/google 3.0.141 leaves out
# `models/`.
_GEMINI = re.compile(rf"/v1(?:beta|alpha)?/(?:models/|(?=[^/]+/.+:(?:{_VERB})$))(?P<model>.+?)(?::(?P<verb>{_VERB}))?")
_MODEL = re.compile(r"/v1/models(?:/(?P<model>.+))?")
_RESPONSE = re.compile(r"/v1/responses/(?P<id>resp_[A-Za-z0-9]+)(?:/(?P<rest>input_items|cancel))?")
_RESPONSE_ACTIONS: dict[str | None, tuple[Action, str, str]] = {
    None: ("retrieve", "openai-responses", "GET"),
    "input_items": ("items", "openai-responses", "GET"),
    "cancel": ("cancel", "openai-responses", "POST"),
}
# The other methods that stored responses and conversations have.
_OTHER_METHODS: dict[Action, tuple[str, ...]] = {"retrieve": ("DELETE",), "conversation": ("GET", "DELETE")}
_CONVERSATION = re.compile(
    r"/v1/conversations(?:/(?P<rest>conv_[A-Za-z0-9]{1,64}(?:/items(?:/[A-Za-z0-9_-]{1,128})?)?))?"
)
_WITH_TWO_VERSIONS = re.compile(r"(?:/v1(?:beta|alpha)?)+(?P<path>/(?:v1(?:beta|alpha)?|api)/.*)")
_WITHOUT_VERSION = re.compile(
    r"/(?:chat|responses|messages|conversations|models|embeddings|completions|moderations|images|audio)(?:/.*)?"
)
_VENDOR_HEADERS = (("anthropic-version", "anthropic"), ("x-goog-api-key", "gemini"))


def match_route(path: str, headers: Mapping[str, str]) -> RouteMatch | None:
    """Return what a request to `path` asks for, or None if no wire has the path. Header names are in lower case."""
    if path in _FIXED:
        return _FIXED[path]
    if (match := _RESPONSE.fullmatch(path)) is not None:
        return RouteMatch(*_RESPONSE_ACTIONS[match["rest"]], subject=match["id"])
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


def normalize_path(path: str) -> str:
    """Return a path with the API version exactly once.

    Clients add the path of a request to their base URL. If both have the version, or neither, the path has it twice or
    not at all.
    """
    if path in _FIXED:
        return path
    if (match := _WITH_TWO_VERSIONS.fullmatch(path)) is not None:
        return match["path"]
    if _GEMINI.fullmatch(path) is not None:
        return path
    gemini = _GEMINI.fullmatch(f"/v1beta{path}")
    if gemini is not None and gemini["verb"]:
        return f"/v1beta{path}"
    return f"/v1{path}" if _WITHOUT_VERSION.fullmatch(path) is not None else path


def vendor_of(headers: Mapping[str, str]) -> str | None:
    """Return the dialect of the SDK that sends these headers, or None if they do not show it."""
    return next((name for header, name in _VENDOR_HEADERS if header in headers), None)


def wire_of(method: str, path: str, headers: Mapping[str, str]) -> str | None:
    """Return the dialect of an HTTP request with `headers`, or None if no wire has `path` and `method`.

    >>> from toolwire import translate
    >>> translate.wire_of("POST", "/v1/messages", {})
    'anthropic'
    """
    route = match_route(path.partition("?")[0], {name.lower(): value for name, value in headers.items()})
    if route is None:
        return None
    return route.dialect if method.upper() in (*allowed_methods(route), *_OTHER_METHODS.get(route.action, ())) else None


def allowed_methods(route: RouteMatch) -> tuple[str, ...]:
    """Return the HTTP methods of a route."""
    return (route.method, "HEAD") if route.method == "GET" else (route.method,)


def wants_stream(dialect: str, body: Any, path: str = "") -> bool:
    """Return True if a request asks for a stream. Gemini has it in the path, and Ollama streams by default."""
    traits = traits_of(dialect)
    if traits.stream_verb:
        return traits.stream_verb in path
    stream = body.get("stream") if type(body) is dict else None
    return traits.streams_by_default if stream is None else stream is True


def stream_quirks(dialect: str, body: Any, path: str = "") -> dict[str, Any]:
    """Return the quirks of the stream that a client asks for: with usage (Chat Completions), as an array (Gemini)."""
    traits = traits_of(dialect)
    if traits.streams_usage_on_request:
        options = body.get("stream_options") if type(body) is dict else None
        return {"stream_usage": type(options) is dict and options.get("include_usage") is True}
    if traits.streams_arrays:
        return {"stream_array": "alt=sse" not in path.partition("?")[2].split("&")}
    return {}
