"""Errors of Chat Completions and of the servers that imitate it."""

from typing import Any

from toolwire.dialects.openai_chat.parts import WIRE
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
    outer = body[0] if type(body) is list and len(body) == 1 else body
    form = {} if outer is body else {"listed": True}
    if (opened := open_error(outer)) is not None:
        rest, left, message = opened
        details = take_details(left, status, message)
        return Error(opaque=WIRE.own(join_left(rest, left), form), **details)
    key = "error" if type(outer) is dict and type(outer.get("error")) is str else "message"
    if type(outer) is dict and type(outer.get(key)) is str:
        rest = outer.copy()
        message = rest.pop(key)
        return Error(kind_of_words(status, message), message, status, opaque=WIRE.own(rest, form | {"key": key}))
    return keep_error(body, status, WIRE)


def encode_error(error: Error) -> ErrorReply:
    """Write an error as a server of this dialect answers it."""
    return encode_openai_error(error, WIRE)
