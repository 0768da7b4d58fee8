"""Errors of Chat Completions and of the servers that imitate it."""

from typing import Any

from toolwire.dialects.openai_chat.parts import DIALECT, WIRE
from toolwire.encoding.error_kinds import (
    CODE_OF_KIND,
    KIND_OF_WORD,
    TYPE_OF_KIND,
    excerpt,
    kind_of_status,
    status_of,
)
from toolwire.encoding.ledger import Ledger, form_of, made_by, take
from toolwire.types import Error, ErrorReply


def decode_error(status: int | None, body: Any) -> Error:
    """Read an error's body, whatever the server made of it."""
    outer = body[0] if type(body) is list and len(body) == 1 else body
    form = {} if outer is body else {"listed": True}
    inner = outer.get("error") if type(outer) is dict else None
    if type(inner) is dict and type(inner.get("message")) is str:
        return _decode_usual(status, outer, inner, form)
    key = "error" if type(inner) is str else "message"
    if type(outer) is dict and type(outer.get(key)) is str:
        rest = outer.copy()
        message = rest.pop(key)
        return Error(kind_of_status(status), message, status, opaque=WIRE.own(rest, form | {"key": key}))
    return Error(kind_of_status(status), excerpt(body), status, opaque=WIRE.own({}, {"whole": body}))


def _decode_usual(status: int | None, outer: dict[str, Any], inner: dict[str, Any], form: dict[str, Any]) -> Error:
    rest, left = outer.copy(), inner.copy()
    del rest["error"]
    message, word, param = left.pop("message"), take(left, "type", str), take(left, "param", str)
    code = left.pop("code") if type(left.get("code")) in (str, int) else None
    kind = KIND_OF_WORD.get(code) or KIND_OF_WORD.get(word) or kind_of_status(_status(status, code))
    if left:
        rest["error"] = left
    return Error(kind, message, status, word, code, param, opaque=WIRE.own(rest, form))


def _status(status: int | None, code: object) -> int | None:
    return code if (status is None or status < 400) and isinstance(code, int) else status


def encode_error(error: Error) -> ErrorReply:
    """Write an error as a server of this dialect answers it."""
    ledger = Ledger(WIRE)
    form = form_of(error.opaque, DIALECT)
    if "whole" in form and error.message == excerpt(form["whole"]):
        return ErrorReply(status_of(error), form["whole"])
    if "key" in form:
        body = ledger.replay({form["key"]: error.message}, error.opaque)
        return ErrorReply(status_of(error), [body] if "listed" in form else body)
    mine = made_by(error.opaque, DIALECT)
    inner: dict[str, Any] = {"message": error.message}
    for field in ("type", "param", "code"):
        if (value := getattr(error, field)) is not None:
            inner[field] = value
    if mine:
        left = error.opaque.value.get("error") if error.opaque else None
        inner = {**left, **inner} if isinstance(left, dict) else inner
    else:
        inner["type"] = TYPE_OF_KIND.get(error.kind, "invalid_request_error")
        inner = {"param": None, "code": CODE_OF_KIND.get(error.kind), **inner}
    body = ledger.replay({"error": inner}, error.opaque)
    if error.request_id is not None:
        ledger.lose("request_id", "request_id", f"{DIALECT} gives it in a header", severity="minor")
    return ErrorReply(status_of(error), [body] if "listed" in form else body, tuple(ledger.losses))
