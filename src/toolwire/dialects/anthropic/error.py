"""Errors of the Messages API."""

from typing import Any

from toolwire.dialects.anthropic.parts import DIALECT, WIRE
from toolwire.encoding.errors import (
    join_left,
    keep_error,
    kept_error,
    kind_of_status,
    open_error,
    reply_of,
    tell_length,
    timed,
)
from toolwire.encoding.ledger import Ledger, left_of, made_by, take
from toolwire.types import Error, ErrorKind, ErrorReply

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
_TYPE_OF_KIND = {kind: word for word, kind in _KIND_OF_TYPE.items()} | {"context_length": "invalid_request_error"}
# Words of the server's errors, as the recorded bodies say them (2026-11-20).
_LONG = ("prompt is too long", "exceed context limit")
_KIND_OF_WORDS: dict[str, ErrorKind] = {
    **dict.fromkeys(_LONG, "context_length"),
    "credit balance is too low": "billing",
}


@timed
def decode_error(status: int | None, body: Any) -> Error:
    """Read an error's body, whatever stands in it."""
    if (opened := open_error(body)) is None:
        return keep_error(body, status, WIRE)
    rest, left, message = opened
    form = {"said": {"type": rest.pop("type")}} if rest.get("type") == "error" else None
    word, request_id = take(left, "type", str), take(rest, "request_id", str)
    kind = _KIND_OF_TYPE.get(word) or kind_of_status(status)
    if kind == "invalid_request":
        kind = next((known for words, known in _KIND_OF_WORDS.items() if words in message), kind)
    return Error(kind, message, status, word, request_id=request_id, opaque=WIRE.own(join_left(rest, left), form))


def encode_error(error: Error) -> ErrorReply:
    """Write an error as this API answers it."""
    if (kept := kept_error(error, DIALECT)) is not None:
        return kept
    ledger = Ledger(WIRE, of="error")
    mine = made_by(error.opaque, DIALECT)
    word = error.type if mine else _TYPE_OF_KIND.get(error.kind, "api_error")
    message = tell_length(error, _LONG, ledger)
    inner: dict[str, Any] = {"message": message} if word is None else {"type": word, "message": message}
    inner = left_of(error.opaque, DIALECT, "error") | inner
    body: dict[str, Any] = {"error": inner} if mine else {"type": "error", "error": inner}
    if error.request_id is not None:
        body["request_id"] = error.request_id
    for field in ("code", "param"):
        if getattr(error, field) is not None:
            ledger.lose(field, "error_detail", f"{DIALECT} has no place for it")
    return reply_of(error, ledger.replay(body, error.opaque), ledger)
