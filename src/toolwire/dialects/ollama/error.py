"""Errors of Ollama: a bare text, or an object of the servers that imitate another API."""

from typing import Any

from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.encoding.errors import (
    LONG,
    join_left,
    keep_error,
    kept_error,
    kind_of_words,
    open_error,
    reply_of,
    status_of,
    tell_length,
    timed,
)
from toolwire.encoding.ledger import Ledger, form_of, left_of, made_by, take
from toolwire.types import Error, ErrorReply

_DETAILS = ("type", "param", "code")


@timed
def decode_error(status: int | None, body: Any) -> Error:
    """Read an error's body, whatever the server made of it."""
    inner = body.get("error") if type(body) is dict else None
    if type(inner) is str:
        rest = body.copy()
        del rest["error"]
        return Error(kind_of_words(status, inner), inner, status, opaque=WIRE.own(rest))
    if (opened := open_error(body)) is None:
        return keep_error(body, status, WIRE)
    rest, left, message = opened
    fields: dict[str, Any] = {key: take(left, key, str) for key in _DETAILS}
    if fields["code"] is None:
        fields["code"] = take(left, "code", int)
    opaque = WIRE.own(join_left(rest, left), {"nested": True})
    return Error(kind_of_words(status, message), message, status, opaque=opaque, **fields)


def encode_error(error: Error) -> ErrorReply:
    """Write an error as this server answers it: in words, under the status of its kind."""
    if (kept := kept_error(error, DIALECT)) is not None:
        return kept
    ledger = Ledger(WIRE, of="error")
    details = {field: value for field in _DETAILS if (value := getattr(error, field)) is not None}
    inner: Any = tell_length(error, LONG, ledger)
    if not made_by(error.opaque, DIALECT) and error.kind != kind_of_words(status_of(error), inner):
        ledger.lose("kind", "error_kind", f"{DIALECT} says it by status alone", "approximated")
    if "nested" in form_of(error.opaque, DIALECT):
        inner = left_of(error.opaque, DIALECT, "error") | {"message": inner, **details}
        details = {}
    for field in (*details, *(["request_id"] if error.request_id is not None else ())):
        ledger.lose(field, "error_detail", f"{DIALECT} has no place for it")
    return reply_of(error, ledger.replay({"error": inner}, error.opaque), ledger)
