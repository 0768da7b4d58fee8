"""Errors of Responses, and of the servers that imitate it.

The body of a reply has the error under the key `error`. The event of a stream has its fields on the top level.
"""

from typing import Any

from toolwire.dialects.openai_responses.parts import WIRE
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
from toolwire.encoding.ledger import spelling_of, take_constants
from toolwire.types import Error, ErrorReply
from toolwire.types.spelling.openai_responses import ResponsesErrorSpelling


@with_retry_after
def decode_error(status: int | None, body: Any) -> Error:
    """Read the `body` of an error of OpenAI, or of a server that imitates it. `status` is the HTTP status."""
    if (opened := split_error(body)) is not None:
        unparsed, inner, message = opened
        details = take_details(inner, status, message)
        return Error(opaque=WIRE.mark(join_unparsed(unparsed, inner)), **details)
    if type(body) is not dict:
        return unparsed_error(body, status, WIRE.mark({}, ResponsesErrorSpelling(body=body)))
    unparsed = body.copy()
    if type(body.get("error")) is str:
        message = unparsed.pop("error")
        opaque = WIRE.mark(unparsed, ResponsesErrorSpelling(message_key="error"))
        return Error(kind_of_words(status, message), message, status, opaque=opaque)
    if type(body.get("message")) is not str:
        return unparsed_error(body, status, WIRE.mark({}, ResponsesErrorSpelling(body=body)))
    constants = take_constants(unparsed, {"type": "error"})
    details = take_details(unparsed, status, unparsed.pop("message"))
    spelling = ResponsesErrorSpelling(constants=constants, message_key="message")
    return Error(opaque=WIRE.mark(unparsed, spelling), **details)


def encode_error(error: Error) -> ErrorReply:
    """Write the reply of a server of this dialect to a request that failed with `error`."""
    spelling = spelling_of(error.opaque, ResponsesErrorSpelling)
    return unparsed_reply(error, spelling.body) or encode_openai_error(error, WIRE, spelling.message_key)
