"""Errors of Responses, in an answer (`{"error": {...}}`) and in a stream (flat), and of its imitators."""

from typing import Any

from toolwire.dialects.openai_responses.parts import DIALECT, WIRE
from toolwire.encoding.error_kinds import (
    CODE_OF_KIND,
    KIND_OF_WORD,
    TYPE_OF_KIND,
    excerpt,
    kind_of_status,
    status_of,
)
from toolwire.encoding.ledger import Ledger, form_of, made_by
from toolwire.types import Error, ErrorReply


def decode_error(status: int | None, body: Any) -> Error:
    """Read an error's body, whatever the server made of it."""
    inner = body.get("error") if type(body) is dict else None
    if type(inner) is dict and type(inner.get("message")) is str:
        rest, left = body.copy(), inner.copy()
        del rest["error"]
        fields = _take_fields(left, status)
        if left:
            rest["error"] = left
        return Error(status=status, opaque=WIRE.own(rest), **fields)
    if type(inner) is str:
        rest = body.copy()
        del rest["error"]
        return Error(kind_of_status(status), inner, status, opaque=WIRE.own(rest, {"key": "error"}))
    if type(body) is dict and type(body.get("message")) is str:
        rest = body.copy()
        form: dict[str, Any] = {"key": "message"}
        if rest.get("type") == "error":
            form["said"] = {"type": rest.pop("type")}
        return Error(status=status, **_take_fields(rest, status), opaque=WIRE.own(rest, form))
    return Error(kind_of_status(status), excerpt(body), status, opaque=WIRE.own({}, {"whole": body}))


def _take_fields(left: dict[str, Any], status: int | None) -> dict[str, Any]:
    fields = {key: left.pop(key) for key in ("message", "type", "param") if type(left.get(key)) is str}
    code = left.pop("code") if type(left.get("code")) in (str, int) else None
    known = KIND_OF_WORD.get(code) or KIND_OF_WORD.get(fields.get("type"))
    if code is not None:
        fields["code"] = code
    by_code = type(code) is int and kind_of_status(status) == "unknown"
    return {**fields, "kind": known or kind_of_status(code if by_code else status)}


def encode_error(error: Error) -> ErrorReply:
    """Write an error as a server of this dialect answers it."""
    ledger = Ledger(WIRE)
    form = form_of(error.opaque, DIALECT)
    if "whole" in form and error.message == excerpt(form["whole"]):
        return ErrorReply(status_of(error), form["whole"])
    key = form.get("key", "message")
    inner: dict[str, Any] = {key: error.message}
    for field in ("type", "param", "code"):
        if (value := getattr(error, field)) is not None:
            inner[field] = value
    if "key" in form:
        return ErrorReply(status_of(error), ledger.replay(inner, error.opaque))
    if made_by(error.opaque, DIALECT):
        left = error.opaque.value.get("error") if error.opaque else None
        inner = {**left, **inner} if isinstance(left, dict) else inner
    else:
        inner["type"] = TYPE_OF_KIND.get(error.kind, "invalid_request_error")
        inner = {"param": None, "code": CODE_OF_KIND.get(error.kind), **inner}
    body = ledger.replay({"error": inner}, error.opaque)
    if error.request_id is not None:
        ledger.lose("request_id", "request_id", f"{DIALECT} gives it in a header", severity="minor")
    return ErrorReply(status_of(error), body, tuple(ledger.losses))
