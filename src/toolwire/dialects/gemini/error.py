"""Decode and encode the errors of generateContent. They have the name of a status, and may be in a list of one."""

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
_KIND_OF_STATUS_NAME: dict[object, ErrorKind] = {
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
_STATUS_NAME_OF_KIND: dict[ErrorKind, str] = {
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
# Parts of the messages of Google's errors for a prompt that is too long (recorded, 2026-11-20).
_TOO_LONG_MESSAGES = (
    "The input token count exceeds the maximum number of tokens",
    "exceeds the maximum number of tokens",
)


@with_retry_after
def decode_error(status: int | None, body: Any) -> Error:
    """Decode the body of an error. Any body is accepted."""
    error_body = body[0] if type(body) is list and len(body) == 1 else body
    if (parsed := split_error(error_body)) is None:
        return unparsed_error(body, status, WIRE.mark({}, GeminiErrorSpelling(body=body)))
    unparsed, inner, message = parsed
    status_name, code = take(inner, "status", str), take(inner, "code", int)
    kind = _find_kind(message, status_name, inner.get("details")) or kind_of_status(
        status if status is not None else code
    )
    opaque = WIRE.mark(join_unparsed(unparsed, inner), GeminiErrorSpelling(is_list=error_body is not body))
    return Error(kind, message, status, status_name, code, opaque=opaque)


def _find_kind(message: str, status_name: str | None, details: Any) -> ErrorKind | None:
    for detail in details if type(details) is list else ():
        reason = detail.get("reason") if type(detail) is dict else None
        if type(reason) is str and reason in _KIND_OF_REASON:
            return _KIND_OF_REASON[reason]
    kind = _KIND_OF_STATUS_NAME.get(status_name)
    return (
        "context_length"
        if kind == "invalid_request" and any(words in message for words in _TOO_LONG_MESSAGES)
        else kind
    )


def encode_error(error: Error) -> ErrorReply:
    """Encode `error` as this API sends it."""
    spelling = spelling_of(error.opaque, GeminiErrorSpelling)
    if (reply := unparsed_reply(error, spelling.body)) is not None:
        return reply
    ledger = Ledger(WIRE, of="error")
    if is_native := made_by(error.opaque, DIALECT):
        fields = {"code": error.code, "message": error.message, "status": error.type}
        inner = {key: value for key, value in fields.items() if value is not None}
        inner = unparsed_of(error.opaque, DIALECT, "error") | inner
    else:
        status_name = _STATUS_NAME_OF_KIND.get(error.kind, "INVALID_ARGUMENT")
        inner = {
            "code": status_of(error),
            "message": recognizable_message(error, _TOO_LONG_MESSAGES, ledger),
            "status": status_name,
        }
        ledger.lose_fields(error, "error_detail", "code")
    ledger.lose_fields(error, "error_detail", "param", "request_id")
    inner = with_retry_info(inner, error.retry_after, add=not is_native)
    body = ledger.replay({"error": inner}, error.opaque)
    return reply_of(error, [body] if spelling.is_list else body, ledger)
