"""Errors of providers: their kinds, their HTTP statuses, and the parts of their bodies that several dialects share.

Rules of this file:
- Most wires send `{"error": {"message": ...}}`. The other keys of both objects are stored as opaque data, and written
  again to the same wire.
- If a body is not an error of its dialect, the error has all of it, and the body is written again as long as the error
  has the same message.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, Wire, made_by, take, unparsed_of
from toolwire.types import Error, ErrorKind, ErrorReply, Opaque
from toolwire.wire.retry_after import RETRY_INFO, read_retry_after, retry_info, write_duration, write_retry_after

_LAST_WORD = re.compile(r"(?<=[^\w.~+/=:-])[\w.~+/=:-]{1,200}\Z", re.ASCII)
# RFC 9110. Providers send 402 for an empty balance (https://api-docs.deepseek.com/quick_start/error_codes), and
# Anthropic sends 529 when it is overloaded (https://platform.claude.com/docs/en/api/errors).
_KIND_OF_STATUS: dict[int, ErrorKind] = {
    400: "invalid_request",
    401: "authentication",
    402: "billing",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    422: "invalid_request",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
STATUS_OF_KIND: dict[ErrorKind, int] = {
    "invalid_request": 400,
    "context_length": 400,
    "authentication": 401,
    "billing": 402,
    "permission": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "rate_limit": 429,
    "server": 500,
    "overloaded": 503,
    "timeout": 504,
    "unknown": 500,
}

# The codes and types of OpenAI (openai 3.52.0, ResponseError.code, 2026-11-20), and of servers that imitate it.
_KIND_OF_CODE: dict[object, ErrorKind] = {
    "insufficient_quota": "billing",
    "context_length_exceeded": "context_length",
    "exceed_context_size_error": "context_length",
    "rate_limit_exceeded": "rate_limit",
    "invalid_api_key": "authentication",
    "model_not_found": "not_found",
    "server_error": "server",
    "vector_store_timeout": "timeout",
    "invalid_prompt": "invalid_request",
    "data_residency_mismatch": "invalid_request",
    "bio_policy": "invalid_request",
    "misalignment_policy_violation": "invalid_request",
    "invalid_image": "invalid_request",
    "invalid_image_format": "invalid_request",
    "invalid_base64_image": "invalid_request",
    "invalid_image_url": "invalid_request",
    "image_too_large": "invalid_request",
    "image_too_small": "invalid_request",
    "image_parse_error": "invalid_request",
    "image_content_policy_violation": "invalid_request",
    "invalid_image_mode": "invalid_request",
    "image_file_too_large": "invalid_request",
    "unsupported_image_media_type": "invalid_request",
    "empty_image_file": "invalid_request",
    "failed_to_download_image": "invalid_request",
    "image_file_not_found": "invalid_request",
    "authentication_error": "authentication",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "rate_limit_error": "rate_limit",
    "timeout_error": "timeout",
}
TYPE_OF_KIND: dict[ErrorKind, str] = {
    "authentication": "authentication_error",
    "permission": "permission_error",
    "billing": "insufficient_quota",
    "not_found": "not_found_error",
    "rate_limit": "rate_limit_error",
    "server": "server_error",
    "overloaded": "server_error",
    "timeout": "timeout_error",
    "unknown": "server_error",
}
# Phrases of Ollama, llama.cpp and vLLM for a prompt that is too long, from recordings and users' reports (2026-08-21).
LENGTH_PHRASES = (
    *(
        "the input length exceeds the context length",
        "exceeds the context length",
        "exceeds the available context size",
        "maximum context length",
    ),
    *("maximum prompt length", "longer than the model's context length"),  # xAI and SGLang, from users' reports
)
# Kinds of a status that are more precise than the code `server_error` in the body.
_KINDS_OF_SERVERS = frozenset({"overloaded", "timeout", "rate_limit"})
_CODE_OF_KIND: dict[ErrorKind, str] = {"context_length": "context_length_exceeded", "billing": "insufficient_quota"}


def kind_of_status(status: int | None) -> ErrorKind:
    """Return the kind of error that a status means, for a body that has no better information."""
    if status is None:
        return "unknown"
    known = _KIND_OF_STATUS.get(status)
    if known is not None:
        return known
    return "server" if status >= 500 else "invalid_request" if status >= 400 else "unknown"


def status_of(error: Error) -> int:
    """Return the HTTP status of an error: its own, or the usual one of its kind."""
    return error.status if error.status is not None else STATUS_OF_KIND[error.kind]


class _DecodeError(Protocol):
    def __call__(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Error: ...


def with_retry_after(decode: Callable[[int | None, Any], Error]) -> _DecodeError:
    """Return `decode`, which decodes the body of an error, with `retry_after` from the body or the headers."""

    def decode_error(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Error:
        error = decode(status, body)
        seconds = read_retry_after(headers, body, limited=error.kind == "rate_limit")
        return error if seconds is None else replace(error, retry_after=seconds)

    return decode_error


def reply_of(error: Error, body: Any, ledger: Ledger | None = None) -> ErrorReply:
    """Return the reply for an error: its status, its body, and the headers with the time to wait."""
    losses = () if ledger is None else tuple(ledger.losses)
    return ErrorReply(status_of(error), body, losses, write_retry_after(error.retry_after))


def with_retry_info(inner: dict[str, Any], seconds: float | None, *, add: bool = False) -> dict[str, Any]:
    """Return the object of an error with Google's `RetryInfo` for `seconds`.

    An error without a `RetryInfo` gets one only with `add`. Without `seconds`, an old `RetryInfo` is removed.
    """
    body = {"error": inner}
    old = retry_info(body)
    if seconds == read_retry_after(None, body, limited=False) or (old is None and not add):
        return inner
    new = [] if seconds is None else [{**(old or {"@type": RETRY_INFO}), "retryDelay": write_duration(seconds)}]
    details = inner.get("details", []) if old is not None else [old]
    return {**inner, "details": [entry for detail in details for entry in (new if detail is old else [detail])]}


def unparsed_error(body: Any, status: int | None, opaque: Opaque) -> Error:
    """Return the error of a `body` that is not an error of its dialect. The spelling in `opaque` has the body."""
    return Error(kind_of_status(status), excerpt(body), status, opaque=opaque)


def unparsed_reply(error: Error, body: Any | UnsetType) -> ErrorReply | None:
    """Return a reply with the `body` of an `unparsed_error`, if `error` still has its message. Else return None."""
    return reply_of(error, body) if body is not UNSET and error.message == excerpt(body) else None


def split_error(body: Any) -> tuple[dict[str, Any], dict[str, Any], str] | None:
    """Split the `body` of an error: return the unparsed keys of the body and of the error in it, and the message.

    Return None if the body has no error with a message.
    """
    inner = body.get("error") if type(body) is dict else None
    if type(inner) is not dict or type(inner.get("message")) is not str:
        return None
    unparsed, inner = body.copy(), inner.copy()
    del unparsed["error"]
    return unparsed, inner, inner.pop("message")


def join_unparsed(unparsed: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Return the `unparsed` keys of a body, with those of the error in it, `inner`."""
    return {**unparsed, "error": inner} if inner else unparsed


def kind_of_words(status: int | None, message: str) -> ErrorKind:
    """Return the kind of an error that has no code: `context_length` if its message is about it, else by its status."""
    return "context_length" if any(phrase in message for phrase in LENGTH_PHRASES) else kind_of_status(status)


def recognizable_message(error: Error, phrases: Sequence[str], ledger: Ledger) -> str:
    """Return the message of an error, with one of the `phrases` by which clients recognize a too long prompt."""
    message, is_native = error.message, made_by(error.opaque, ledger.dialect)
    if is_native or error.kind != "context_length" or any(phrase in message for phrase in phrases):
        return message
    detail = f"clients of {ledger.dialect} recognize the error by its text, which is added"
    ledger.lose("message", "error_kind", detail, "approximated", "minor")
    return f"{phrases[0]}: {message}"


def take_details(unparsed: dict[str, Any], status: int | None, message: str) -> dict[str, Any]:
    """Remove the fields of OpenAI's error from the unparsed keys, and return those of the `Error`.

    If there is no status of an error, a number in `code` is used as the status.
    """
    error_type, param = take(unparsed, "type", str), take(unparsed, "param", str)
    code = unparsed.pop("code") if type(unparsed.get("code")) in (str, int) else None
    known = _KIND_OF_CODE.get(code) or _KIND_OF_CODE.get(error_type)
    by_code = type(code) is int and (status is None or status < 400)
    by_status = kind_of_words(code if by_code else status, message)
    kind = by_status if known is None or (known == "server" and by_status in _KINDS_OF_SERVERS) else known
    if kind == "unknown" and error_type == "invalid_request_error":  # a status of an error would be more precise
        kind = "invalid_request"
    return {"kind": kind, "message": message, "status": status, "type": error_type, "code": code, "param": param}


def encode_openai_error(error: Error, wire: Wire, message_key: str | None) -> ErrorReply:
    """Encode an error as OpenAI's servers and those that imitate them do.

    With a `message_key`, the body itself has the message under this key, instead of an `error` object.
    """
    ledger = Ledger(wire, of="error")
    inner: dict[str, Any] = {message_key or "message": error.message}
    for field in ("type", "param", "code"):
        if (value := getattr(error, field)) is not None:
            inner[field] = value
    if message_key is not None:
        body = inner
    elif made_by(error.opaque, wire.dialect):
        body = {"error": with_retry_info(unparsed_of(error.opaque, wire.dialect, "error") | inner, error.retry_after)}
    else:
        inner["type"] = TYPE_OF_KIND.get(error.kind, "invalid_request_error")
        code = _CODE_OF_KIND.get(error.kind) or (None if str(error.code).isdecimal() else error.code)
        if error.code not in (None, code, error.status):
            ledger.lose("code", "error_detail", f"{wire.dialect} has its own error codes", severity="minor")
        body = {"error": {"param": None, **inner, "code": code}}
    ledger.replay(body, error.opaque)
    if error.request_id is not None:
        ledger.lose("request_id", "request_id", f"{wire.dialect} sends it in a header")
    return reply_of(error, body, ledger)


def excerpt(body: Any, limit: int = 500) -> str:
    """Return the beginning of the `body` of an error, without a word that the limit cuts, which might be an API key."""
    text = body if isinstance(body, str) else "" if body is None else _text_of(body)
    return text if len(text) <= limit else _LAST_WORD.sub("", text[:limit])


def _text_of(body: Any) -> str:
    try:
        return msgspec.json.encode(body).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(body)
