"""Errors of the Messages API: their types, and the kinds of error that these mean."""

from typing import Any

from toolwire.dialects.anthropic.parts import DIALECT, WIRE
from toolwire.encoding.errors import (
    join_unparsed,
    kind_of_status,
    recognizable_message,
    reply_of,
    split_error,
    unparsed_error,
    unparsed_reply,
    with_retry_after,
)
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, take_constants, unparsed_of
from toolwire.types import Error, ErrorKind, ErrorReply
from toolwire.types.spelling.anthropic import MessagesErrorSpelling

# anthropic 2.11.0, types/shared/error_object.py (2026-11-20).
_KIND_OF_TYPE: dict[object, ErrorKind] = {
    "invalid_request_error": "invalid_request",
    "authentication_error": "authentication",
    "billing_error": "billing",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "conflict_error": "conflict",
    "request_too_large": "too_large",
    "rate_limit_error": "rate_limit",
    "api_error": "server",
    "timeout_error": "timeout",
    "overloaded_error": "overloaded",
}
_TYPE_OF_KIND = {kind: name for name, kind in _KIND_OF_TYPE.items()} | {"context_length": "invalid_request_error"}
# Phrases of the error messages that Anthropic's server sends, from recorded bodies (2026-11-20).
_TOO_LONG = ("prompt is too long", "exceed context limit")
_KIND_OF_PHRASE: dict[str, ErrorKind] = {
    **dict.fromkeys(_TOO_LONG, "context_length"),
    "credit balance is too low": "billing",
}


@with_retry_after
def decode_error(status: int | None, body: Any) -> Error:
    """Decode the `body` of an error, of any JSON type or text.

    `status` is the HTTP status, or None for an error in a stream. A body that is no error of this wire is kept whole.
    """
    if (opened := split_error(body)) is None:
        return unparsed_error(body, status, WIRE.mark({}, MessagesErrorSpelling(body=body)))
    unparsed, inner, message = opened
    spelling = MessagesErrorSpelling(constants=take_constants(unparsed, {"type": "error"}))
    error_type, request_id = take(inner, "type", str), take(unparsed, "request_id", str)
    error_kind = _KIND_OF_TYPE.get(error_type) or kind_of_status(status)
    if error_kind == "invalid_request":
        error_kind = next((known for phrase, known in _KIND_OF_PHRASE.items() if phrase in message), error_kind)
    opaque = WIRE.mark(join_unparsed(unparsed, inner), spelling)
    return Error(error_kind, message, status, error_type, request_id=request_id, opaque=opaque)


def encode_error(error: Error) -> ErrorReply:
    """Encode an error as Anthropic's server replies with it: the status, the headers and the body."""
    if (kept := unparsed_reply(error, spelling_of(error.opaque, MessagesErrorSpelling).body)) is not None:
        return kept
    ledger = Ledger(WIRE, of="error")
    is_native = made_by(error.opaque, DIALECT)
    error_type = error.type if is_native else _TYPE_OF_KIND.get(error.kind, "api_error")
    message = recognizable_message(error, _TOO_LONG, ledger)
    inner: dict[str, Any] = {"message": message} if error_type is None else {"type": error_type, "message": message}
    inner = unparsed_of(error.opaque, DIALECT, "error") | inner
    body: dict[str, Any] = {"error": inner} if is_native else {"type": "error", "error": inner}
    if error.request_id is not None:
        body["request_id"] = error.request_id
    for field in ("code", "param"):
        if getattr(error, field) is not None:
            ledger.lose(field, "error_detail", f"{DIALECT} has no field for it")
    return reply_of(error, ledger.replay(body, error.opaque), ledger)
