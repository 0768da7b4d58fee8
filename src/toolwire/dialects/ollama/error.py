"""Errors of Ollama: a bare text, or an object of the servers that imitate another API."""

from typing import Any

from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.encoding.error_kinds import excerpt, kind_of_status, status_of
from toolwire.encoding.ledger import Ledger, form_of, made_by, take
from toolwire.types import Error, ErrorReply

LONG = ("exceeds the context length", "exceeds the available context size", "maximum context length")
DETAILS = ("type", "param", "code")


def decode_error(status: int | None, body: Any) -> Error:
    """Read an error's body, whatever the server made of it."""
    inner = body.get("error") if type(body) is dict else None
    if type(inner) is str:
        rest = body.copy()
        del rest["error"]
        return Error(_kind(status, inner), inner, status, opaque=WIRE.own(rest))
    if type(inner) is not dict or type(inner.get("message")) is not str:
        return Error(kind_of_status(status), excerpt(body), status, opaque=WIRE.own({}, {"whole": body}))
    rest, left = body.copy(), inner.copy()
    del rest["error"]
    message = left.pop("message")
    fields: dict[str, Any] = {key: take(left, key, str) for key in DETAILS}
    if fields["code"] is None:
        fields["code"] = take(left, "code", int)
    if left:
        rest["error"] = left
    return Error(_kind(status, message), message, status, opaque=WIRE.own(rest, {"nested": True}), **fields)


def _kind(status: int | None, message: str) -> Any:
    return "context_length" if any(words in message for words in LONG) else kind_of_status(status)


def encode_error(error: Error) -> ErrorReply:
    """Write an error as this server answers it: in words, under the status of its kind."""
    ledger = Ledger(WIRE)
    form = form_of(error.opaque, DIALECT)
    if "whole" in form and error.message == excerpt(form["whole"]):
        return ErrorReply(status_of(error), form["whole"])
    details = {field: value for field in DETAILS if (value := getattr(error, field)) is not None}
    inner: Any = error.message
    if "nested" in form:
        inner = {"message": error.message, **details}
        left = error.opaque.value.get("error") if error.opaque else None
        inner = {**left, **inner} if isinstance(left, dict) else inner
        details = {}
    for field in (*details, *(["request_id"] if error.request_id is not None else ())):
        ledger.lose(field, "error_detail", f"{DIALECT} has no place for it", severity="minor")
    if not made_by(error.opaque, DIALECT) and error.kind != _kind(status_of(error), error.message):
        ledger.lose("kind", "error_kind", f"{DIALECT} says it by status alone", "approximated", "minor")
    return ErrorReply(status_of(error), ledger.replay({"error": inner}, error.opaque), tuple(ledger.losses))
