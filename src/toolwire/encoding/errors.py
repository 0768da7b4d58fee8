"""Errors of providers: their kinds, their HTTP statuses, and what dialects read and write alike of their bodies.

Rules of this file:
- Most wires say `{"error": {"message": ...}}`. What else stands in either object is kept, to be replayed.
- A body that is none of a dialect's is kept whole, and written again for as long as the error says the same.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from toolwire.encoding.ledger import Ledger, Wire, left_of, made_by, take
from toolwire.types import Error, ErrorKind, ErrorReply, Opaque
from toolwire.wire.retry_after import RETRY_INFO, read_retry_after, retry_info, write_duration, write_retry_after

_CUT_WORD = re.compile(r"(?<=[^\w.~+/=:-])[\w.~+/=:-]{1,200}\Z", re.ASCII)
# RFC 9110; 402 and 529 as the vendors use them.
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

# The words of OpenAI (openai 3.52.0, ResponseError.code, 2026-11-20), and of the many servers that imitate it.
_KIND_OF_WORD: dict[object, ErrorKind] = {
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
# Words of Ollama, llama.cpp and vLLM, as recorded bodies and users' reports say them (2026-08-21).
LONG = (
    *(
        "the input length exceeds the context length",
        "exceeds the context length",
        "exceeds the available context size",
        "maximum context length",
    ),
    *("maximum prompt length", "longer than the model's context length"),  # xAI and SGLang, as users report them
)
# What a status says more precisely than the word `server_error` beside it.
_OF_SERVERS = frozenset({"overloaded", "timeout", "rate_limit"})
_CODE_OF_KIND: dict[ErrorKind, str] = {"context_length": "context_length_exceeded", "billing": "insufficient_quota"}


def kind_of_status(status: int | None) -> ErrorKind:
    """Name the kind of error that a status means when the body says nothing better."""
    if status is None:
        return "unknown"
    known = _KIND_OF_STATUS.get(status)
    if known is not None:
        return known
    return "server" if status >= 500 else "invalid_request" if status >= 400 else "unknown"


def status_of(error: Error) -> int:
    """Give the status to answer with: the error's own, or the usual one of its kind."""
    return error.status if error.status is not None else STATUS_OF_KIND[error.kind]


class _DecodeError(Protocol):
    def __call__(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Error: ...


def timed(read: Callable[[int | None, Any], Error]) -> _DecodeError:
    """Let what reads an error's body say too how long its server asks to be left alone, there or in its headers."""

    def decode_error(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Error:
        error = read(status, body)
        seconds = read_retry_after(headers, body, limited=error.kind == "rate_limit")
        return error if seconds is None else replace(error, retry_after=seconds)

    return decode_error


def reply_of(error: Error, body: Any, ledger: Ledger | None = None) -> ErrorReply:
    """Give an error's body with its status, and with the headers that say how long to wait."""
    losses = () if ledger is None else tuple(ledger.losses)
    return ErrorReply(status_of(error), body, losses, write_retry_after(error.retry_after))


def tell_wait(inner: dict[str, Any], seconds: float | None, *, add: bool = False) -> dict[str, Any]:
    """Give what an error says, with Google's note of when to try again as it is now, or with one more."""
    body = {"error": inner}
    note = retry_info(body)
    if seconds == read_retry_after(None, body, limited=False) or (note is None and not add):
        return inner
    told = [] if seconds is None else [{**(note or {"@type": RETRY_INFO}), "retryDelay": write_duration(seconds)}]
    details = inner.get("details", []) if note is not None else [note]
    return {**inner, "details": [new for one in details for new in (told if one is note else [one])]}


def keep_error(body: Any, status: int | None, opaque: Opaque) -> Error:
    """Return the error of a `body` that is no error of its dialect. The spelling in `opaque` has the body."""
    return Error(kind_of_status(status), excerpt(body), status, opaque=opaque)


def kept_error(error: Error, body: Any | UnsetType) -> ErrorReply | None:
    """Return a reply with the `body` that was no error of its dialect, as long as `error` has the same message."""
    return reply_of(error, body) if body is not UNSET and error.message == excerpt(body) else None


def open_error(body: Any) -> tuple[dict[str, Any], dict[str, Any], str] | None:
    """Take the message of an error out of a `body`: return the unparsed keys of body and error, and the message."""
    inner = body.get("error") if type(body) is dict else None
    if type(inner) is not dict or type(inner.get("message")) is not str:
        return None
    unparsed, inner = body.copy(), inner.copy()
    del unparsed["error"]
    return unparsed, inner, inner.pop("message")


def join_unparsed(unparsed: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Return the `unparsed` keys of a body with those of the error within it, `inner`."""
    return {**unparsed, "error": inner} if inner else unparsed


def kind_of_words(status: int | None, message: str) -> ErrorKind:
    """Name the kind of an error that has no code: by its status, and by its words if a prompt was too long."""
    return "context_length" if any(words in message for words in LONG) else kind_of_status(status)


def tell_length(error: Error, words: Sequence[str], ledger: Ledger) -> str:
    """Give the message of an error; a prompt that was too long is told in words that clients of the wire know."""
    message, mine = error.message, made_by(error.opaque, ledger.dialect)
    if mine or error.kind != "context_length" or any(known in message for known in words):
        return message
    ledger.lose("message", "error_kind", f"{ledger.dialect} says its kind in words", "approximated", "minor")
    return f"{words[0]}: {message}"


def take_details(left: dict[str, Any], status: int | None, message: str) -> dict[str, Any]:
    """Take what OpenAI says of an error beside its message; a number as its code is a status where there is none."""
    word, param = take(left, "type", str), take(left, "param", str)
    code = left.pop("code") if type(left.get("code")) in (str, int) else None
    known = _KIND_OF_WORD.get(code) or _KIND_OF_WORD.get(word)
    by_code = type(code) is int and (status is None or status < 400)
    by_status = kind_of_words(code if by_code else status, message)
    kind = by_status if known is None or (known == "server" and by_status in _OF_SERVERS) else known
    if kind == "unknown" and word == "invalid_request_error":  # beside a status, that says more
        kind = "invalid_request"
    return {"kind": kind, "message": message, "status": status, "type": word, "code": code, "param": param}


def encode_openai_error(error: Error, wire: Wire, message_key: str | None) -> ErrorReply:
    """Write an error as servers of OpenAI and their imitators do.

    With a `message_key`, the message stands in the body itself under this key.
    """
    ledger = Ledger(wire, of="error")
    inner: dict[str, Any] = {message_key or "message": error.message}
    for field in ("type", "param", "code"):
        if (value := getattr(error, field)) is not None:
            inner[field] = value
    if message_key is not None:
        body = inner
    elif made_by(error.opaque, wire.dialect):
        body = {"error": tell_wait(left_of(error.opaque, wire.dialect, "error") | inner, error.retry_after)}
    else:
        inner["type"] = TYPE_OF_KIND.get(error.kind, "invalid_request_error")
        code = _CODE_OF_KIND.get(error.kind) or (None if str(error.code).isdecimal() else error.code)
        if error.code not in (None, code, error.status):
            ledger.lose("code", "error_detail", f"{wire.dialect} has words of its own", severity="minor")
        body = {"error": {"param": None, **inner, "code": code}}
    ledger.replay(body, error.opaque)
    if error.request_id is not None:
        ledger.lose("request_id", "request_id", f"{wire.dialect} gives it in a header")
    return reply_of(error, body, ledger)


def excerpt(body: Any, limit: int = 500) -> str:
    """Say what an error body was when it is not one of the dialect's; a word is not cut, which might be a key."""
    text = body if isinstance(body, str) else "" if body is None else _text_of(body)
    return text if len(text) <= limit else _CUT_WORD.sub("", text[:limit])


def _text_of(body: Any) -> str:
    try:
        return msgspec.json.encode(body).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(body)
