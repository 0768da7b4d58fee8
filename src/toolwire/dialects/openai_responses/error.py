"""Errors of Responses, in an answer (`{"error": {...}}`) and in a stream (flat), and of its imitators."""

from typing import Any

from toolwire.dialects.openai_responses.parts import WIRE
from toolwire.encoding.errors import (
    encode_openai_error,
    join_left,
    keep_error,
    kind_of_words,
    open_error,
    take_details,
    timed,
)
from toolwire.types import Error, ErrorReply


@timed
def decode_error(status: int | None, body: Any) -> Error:
    """Read an error's body, whatever the server made of it."""
    if (opened := open_error(body)) is not None:
        rest, left, message = opened
        details = take_details(left, status, message)
        return Error(opaque=WIRE.own(join_left(rest, left)), **details)
    if type(body) is not dict:
        return keep_error(body, status, WIRE)
    rest = body.copy()
    if type(body.get("error")) is str:
        message = rest.pop("error")
        return Error(kind_of_words(status, message), message, status, opaque=WIRE.own(rest, {"key": "error"}))
    if type(body.get("message")) is not str:
        return keep_error(body, status, WIRE)
    form: dict[str, Any] = {"key": "message"}
    if rest.get("type") == "error":
        form["said"] = {"type": rest.pop("type")}
    details = take_details(rest, status, rest.pop("message"))
    return Error(opaque=WIRE.own(rest, form), **details)


def encode_error(error: Error) -> ErrorReply:
    """Write an error as a server of this dialect answers it."""
    return encode_openai_error(error, WIRE)
