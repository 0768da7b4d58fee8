"""The five wires as their servers implement them: paths, headers, ids, keys and rejections.

Rules of this file:
- A difference between servers is a row of a table here; the tables and the checks of a vendor are in `rules_*`.
- Rejections and their messages follow the vendors' documentation and the reports of their users. A request that no
  vendor is known to reject is accepted.

Sources: openai 3.52.0, anthropic 2.11.0, google-genai 3.4.0 and ollama 0.6.3, for paths, headers and lists; the
messages about keys and models are those that users report (to 2026-11).
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolwire.testing import rules_anthropic, rules_gemini, rules_ollama, rules_openai_chat, rules_openai_responses
from toolwire.testing.rules import Check, Rejection, WireRequest
from toolwire.testing.sealing import count_tokens
from toolwire.types import ErrorKind

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
_LINES = "application/x-ndjson"
_TIMES = {"total_duration": 42_000_000, "prompt_eval_duration": 2_000_000, "eval_duration": 40_000_000}


class _WireStyle(Struct, frozen=True):
    """The conventions of a dialect's servers: ids of answers, calls and requests, statuses, times and durations."""

    dialect: str
    checks: tuple[Check, ...]
    answer_id: str
    call_id: tuple[str, int] | None
    request_header: str
    request_id: str
    stream_type: str = EVENTS
    statuses: Mapping[ErrorKind, int] = {}
    times: Mapping[str, int] = {}
    has_split_seconds: bool = False


WIRES = {
    wire.dialect: wire
    for wire in (
        _WireStyle("openai-chat", rules_openai_chat.CHECKS, "chatcmpl-", ("call_", 24), "x-request-id", "req_"),
        _WireStyle("openai-responses", rules_openai_responses.CHECKS, "resp_", ("call_", 24), "x-request-id", "req_"),
        _WireStyle(
            "anthropic",
            rules_anthropic.CHECKS,
            "msg_",
            ("toolu_", 24),
            "request-id",
            "req_",
            statuses={"overloaded": 529},
        ),
        _WireStyle("gemini", rules_gemini.CHECKS, "", None, "x-request-id", ""),
        _WireStyle(
            "ollama",
            rules_ollama.CHECKS,
            "",
            ("call_", 8),
            "x-request-id",
            "",
            _LINES,
            times=_TIMES,
            has_split_seconds=True,
        ),
    )
}


def judge(request: WireRequest) -> None:
    """Raise Rejection if the server of this dialect would reject a request."""
    for check in WIRES[request.dialect].checks:
        check(request)


def refusal(request: WireRequest) -> Rejection | None:
    """Return the reason why the server of this dialect would reject a request, or None."""
    try:
        judge(request)
    except Rejection as rejection:
        return rejection.with_traceback(None)
    return None


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


def key_of(name: str, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    """Return the key of a request, from the places where the servers of its dialect look for it."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    bearer = bearer.strip() if scheme.lower() == "bearer" else ""
    candidates = {
        "anthropic": (headers.get("x-api-key"), bearer),
        "gemini": (headers.get("x-goog-api-key"), query.get("key"), bearer),
    }
    return next(filter(None, candidates.get(name, (bearer, headers.get("api-key")))), None)


def check_key(name: str, headers: Mapping[str, str], query: Mapping[str, str], expected: str | None) -> None:
    """Raise Rejection for a missing or wrong key. Ollama needs none by default."""
    key = key_of(name, headers, query)
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
    masked = f"{key[:3]}***{key[-2:]}" if len(key) > 8 else "***"
    raise Rejection(_WRONG_KEY.format(masked), None, "invalid_api_key", 401, "authentication")


VERSION = "0.30.0"


def token_count(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a token count request."""
    tokens = count_tokens(body)
    if name == "gemini":
        return {"totalTokens": tokens}
    count = {"input_tokens": tokens}
    return {"object": "response.input_tokens", **count} if name == "openai-responses" else count
