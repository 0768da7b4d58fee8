"""Errors of Chat Completions, and of the servers that imitate it."""

from typing import Any

from msgspec.structs import replace

from toolwire.dialects.openai_chat.parts import WIRE
from toolwire.encoding.errors import (
    encode_openai_error,
    join_unparsed,
    kind_of_words,
    split_error,
    take_details,
    unparsed_error,
    unparsed_reply,
    with_retry_after,
)
from toolwire.encoding.ledger import spelling_of
from toolwire.types import Error, ErrorReply
from toolwire.types.spelling.openai_chat import ChatErrorSpelling


@with_retry_after
def decode_error(status: int | None, body: Any) -> Error:
    """Read the `body` of an error of OpenAI, or of a server that imitates it. `status` is the HTTP status."""
    outer = body[0] if type(body) is list and len(body) == 1 else body
    is_list = outer is not body
    if (opened := split_error(outer)) is not None:
        unparsed, inner, message = opened
        details = take_details(inner, status, message)
        return Error(opaque=WIRE.mark(join_unparsed(unparsed, inner), ChatErrorSpelling(is_list=is_list)), **details)
    key = "error" if type(outer) is dict and type(outer.get("error")) is str else "message"
    if type(outer) is dict and type(outer.get(key)) is str:
        unparsed = outer.copy()
        message = unparsed.pop(key)
        opaque = WIRE.mark(unparsed, ChatErrorSpelling(is_list=is_list, message_key=key))
        return Error(kind_of_words(status, message), message, status, opaque=opaque)
    return unparsed_error(body, status, WIRE.mark({}, ChatErrorSpelling(body=body)))


def encode_error(error: Error) -> ErrorReply:
    """Write the reply of a server of this dialect to a request that failed with `error`."""
    spelling = spelling_of(error.opaque, ChatErrorSpelling)
    if (kept := unparsed_reply(error, spelling.body)) is not None:
        return kept
    reply = encode_openai_error(error, WIRE, spelling.message_key)
    return replace(reply, body=[reply.body]) if spelling.is_list else reply
