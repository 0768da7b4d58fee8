"""The five wires as servers speak them: paths, content types, headers, and the form of ids.

Rule: what differs between servers is a row of a table here.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import unquote

from msgspec import Struct

from toolwire.types import ErrorKind

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"

Action = Literal["answer", "count", "models", "model", "version", "retrieve"]


class WireStyle(Struct, frozen=True):
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
        WireStyle("openai-chat", "chatcmpl-", ("call_", 24), "x-request-id", "req_"),
        WireStyle("openai-responses", "resp_", ("call_", 24), "x-request-id", "req_"),
        WireStyle("anthropic", "msg_", ("toolu_", 24), "request-id", "req_", statuses={"overloaded": 529}),
        WireStyle("gemini", "", None, "x-request-id", ""),
        WireStyle("ollama", "", ("call_", 8), "x-request-id", "", LINES),
    )
}


class Route(Struct, frozen=True):
    """What a path asks for, of which dialect; `streams` where the path says it, `subject` what it names."""

    action: Action
    dialect: str
    method: str = "POST"
    subject: str = ""
    streams: bool | None = None


_FIXED = {
    "/v1/chat/completions": Route("answer", "openai-chat"),
    "/v1/responses": Route("answer", "openai-responses"),
    "/v1/responses/input_tokens": Route("count", "openai-responses"),
    "/v1/messages": Route("answer", "anthropic"),
    "/v1/messages/count_tokens": Route("count", "anthropic"),
    "/v1beta/models": Route("models", "gemini", "GET"),
    "/api/chat": Route("answer", "ollama"),
    "/api/tags": Route("models", "ollama", "GET"),
    "/api/version": Route("version", "ollama", "GET"),
    "/api/show": Route("model", "ollama"),
}
_GEMINI = re.compile(r"/v1(?:beta|alpha)?/models/(?P<model>[^/:]+)(?::(?P<verb>[A-Za-z]+))?")
_VERBS = {
    "generateContent": ("answer", False),
    "streamGenerateContent": ("answer", True),
    "countTokens": ("count", None),
}
_MODEL = re.compile(r"/v1/models(?:/(?P<model>.+))?")
_RESPONSE = re.compile(r"/v1/responses/(?P<id>resp_[A-Za-z0-9]+)")


TELLING = (("anthropic-version", "anthropic"), ("x-goog-api-key", "gemini"))


def route(path: str, headers: Mapping[str, str]) -> Route | None:
    """Say what a path asks for, or None; three vendors list their models at one path, a header tells them."""
    if (known := _FIXED.get(path)) is not None:
        return known
    if (found := _RESPONSE.fullmatch(path)) is not None:
        return Route("retrieve", "openai-responses", "GET", found["id"])
    if path.startswith("/v1/models") and ":" not in path.rpartition("/")[2]:
        if (found := _MODEL.fullmatch(path)) is None:
            return None
        vendor = next((name for header, name in TELLING if header in headers), "openai-chat")
        return Route("model" if found["model"] else "models", vendor, "GET", unquote(found["model"] or ""))
    if (found := _GEMINI.fullmatch(path)) is not None:
        model, verb = unquote(found["model"]), found["verb"]
        if verb is None:
            return Route("model", "gemini", "GET", model)
        action: Any
        if verb in _VERBS:
            action, streams = _VERBS[verb]
            return Route(action, "gemini", "POST", model, streams)
    return None


def wants_stream(found: Route, body: Mapping[str, Any]) -> bool:
    """Whether a request asks for a stream: Gemini says it in the path, Ollama streams unless told not to."""
    if found.streams is not None:
        return found.streams
    return body.get("stream", found.dialect == "ollama") is True
