"""Errors of generateContent: a status in words beside the HTTP status, sometimes in a list of one."""

from typing import Any

from toolwire.dialects.gemini.parts import DIALECT, WIRE
from toolwire.encoding.errors import (
    join_unparsed,
    kind_of_status,
    recognizable_message,
    reply_of,
    split_error,
    status_of,
    unparsed_error,
    unparsed_reply,
    with_retry_after,
    with_retry_info,
)
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, unparsed_of
from toolwire.types import Error, ErrorKind, ErrorReply
from toolwire.types.spelling.gemini import GeminiErrorSpelling

# google.rpc.Code, https://cloud.google.com/apis/design/errors (2026-11-20).
_KIND_OF_STATUS_WORD: dict[object, ErrorKind] = {
    "INVALID_ARGUMENT": "invalid_request",
    "FAILED_PRECONDITION": "invalid_request",
    "OUT_OF_RANGE": "invalid_request",
    "UNIMPLEMENTED": "invalid_request",
    "UNAUTHENTICATED": "authentication",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "not_found",
    "ALREADY_EXISTS": "conflict",
    "ABORTED": "conflict",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "INTERNAL": "server",
    "UNKNOWN": "server",
    "DATA_LOSS": "server",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
}
_WORD_OF_KIND: dict[ErrorKind, str] = {
    "authentication": "UNAUTHENTICATED",
    "billing": "FAILED_PRECONDITION",
    "permission": "PERMISSION_DENIED",
    "not_found": "NOT_FOUND",
    "conflict": "ABORTED",
    "rate_limit": "RESOURCE_EXHAUSTED",
    "server": "INTERNAL",
    "overloaded": "UNAVAILABLE",
    "timeout": "DEADLINE_EXCEEDED",
    "unknown": "UNKNOWN",
}
# google.api.ErrorReason, error_reason.proto (2026-11-20).
_KIND_OF_REASON: dict[object, ErrorKind] = {
    "API_KEY_INVALID": "authentication",
    "API_KEY_SERVICE_BLOCKED": "permission",
    "BILLING_DISABLED": "billing",
}
# Words of the server's errors, as the recorded bodies say them (2026-11-20).
_LONG = ("The input token count exceeds the maximum number of tokens", "exceeds the maximum number of tokens")


@with_retry_after
def decode_error(status: int | None, body: Any) -> Error:
    """Read an error's body, whatever stands in it."""
    outer = body[0] if type(body) is list and len(body) == 1 else body
    if (opened := split_error(outer)) is None:
        return unparsed_error(body, status, WIRE.mark({}, GeminiErrorSpelling(body=body)))
    unparsed, inner, message = opened
    word, code = take(inner, "status", str), take(inner, "code", int)
    kind = _kind(message, word, inner.get("details")) or kind_of_status(status if status is not None else code)
    opaque = WIRE.mark(join_unparsed(unparsed, inner), GeminiErrorSpelling(is_list=outer is not body))
    return Error(kind, message, status, word, code, opaque=opaque)


def _kind(message: str, word: str | None, details: Any) -> ErrorKind | None:
    for detail in details if type(details) is list else ():
        reason = detail.get("reason") if type(detail) is dict else None
        if type(reason) is str and reason in _KIND_OF_REASON:
            return _KIND_OF_REASON[reason]
    kind = _KIND_OF_STATUS_WORD.get(word)
    return "context_length" if kind == "invalid_request" and any(words in message for words in _LONG) else kind


def encode_error(error: Error) -> ErrorReply:
    """Write an error as this API answers it."""
    spelling = spelling_of(error.opaque, GeminiErrorSpelling)
    if (kept := unparsed_reply(error, spelling.body)) is not None:
        return kept
    ledger = Ledger(WIRE, of="error")
    if is_native := made_by(error.opaque, DIALECT):
        fields = {"code": error.code, "message": error.message, "status": error.type}
        inner = {key: value for key, value in fields.items() if value is not None}
        inner = unparsed_of(error.opaque, DIALECT, "error") | inner
    else:
        word = _WORD_OF_KIND.get(error.kind, "INVALID_ARGUMENT")
        inner = {"code": status_of(error), "message": recognizable_message(error, _LONG, ledger), "status": word}
        ledger.lose_fields(error, "error_detail", "code")
    ledger.lose_fields(error, "error_detail", "param", "request_id")
    inner = with_retry_info(inner, error.retry_after, add=not is_native)
    body = ledger.replay({"error": inner}, error.opaque)
    return reply_of(error, [body] if spelling.is_list else body, ledger)
