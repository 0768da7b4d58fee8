"""Errors of the Messages API."""

from typing import Any

from toolwire.dialects.anthropic.parts import DIALECT, WIRE
from toolwire.encoding.error_kinds import excerpt, kind_of_status, status_of
from toolwire.encoding.ledger import Ledger, form_of, made_by, take
from toolwire.types import Error, ErrorKind, ErrorReply

KIND_OF_TYPE: dict[object, ErrorKind] = {
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
TYPE_OF_KIND = {kind: word for word, kind in KIND_OF_TYPE.items()} | {"context_length": "invalid_request_error"}
LONG = ("prompt is too long", "exceed context limit")


def decode_error(status: int | None, body: Any) -> Error:
    """Read an error's body, whatever stands in it."""
    inner = body.get("error") if type(body) is dict else None
    if type(inner) is not dict or type(inner.get("message")) is not str:
        return Error(kind_of_status(status), excerpt(body), status, opaque=WIRE.own({}, {"whole": body}))
    rest, left = body.copy(), inner.copy()
    del rest["error"]
    form = {"said": {"type": rest.pop("type")}} if rest.get("type") == "error" else None
    message, word = left.pop("message"), take(left, "type", str)
    kind = KIND_OF_TYPE.get(word) or kind_of_status(status)
    if kind == "invalid_request" and any(words in message for words in LONG):
        kind = "context_length"
    if left:
        rest["error"] = left
    return Error(kind, message, status, word, request_id=take(rest, "request_id", str), opaque=WIRE.own(rest, form))


def encode_error(error: Error) -> ErrorReply:
    """Write an error as this API answers it."""
    ledger = Ledger(WIRE)
    form = form_of(error.opaque, DIALECT)
    if "whole" in form and error.message == excerpt(form["whole"]):
        return ErrorReply(status_of(error), form["whole"])
    mine = made_by(error.opaque, DIALECT)
    word = error.type if mine else TYPE_OF_KIND.get(error.kind, "api_error")
    inner: dict[str, Any] = {"message": error.message} if word is None else {"type": word, "message": error.message}
    left = error.opaque.value.get("error") if mine and error.opaque else None
    if isinstance(left, dict):
        inner = {**left, **inner}
    body: dict[str, Any] = {"error": inner} if mine else {"type": "error", "error": inner}
    if error.request_id is not None:
        body["request_id"] = error.request_id
    for field in ("code", "param"):
        if getattr(error, field) is not None:
            ledger.lose(field, "error_detail", f"{DIALECT} has no place for it", severity="minor")
    return ErrorReply(status_of(error), ledger.replay(body, error.opaque), tuple(ledger.losses))
