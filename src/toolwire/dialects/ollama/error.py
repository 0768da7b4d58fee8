"""Errors of Ollama: a text, or an object as servers send it that implement several APIs, such as llama.cpp."""

from typing import Any

from toolwire.dialects.ollama.parts import DIALECT, WIRE
from toolwire.encoding.errors import (
    LENGTH_PHRASES,
    join_unparsed,
    kind_of_words,
    recognizable_message,
    reply_of,
    split_error,
    status_of,
    unparsed_error,
    unparsed_reply,
    with_retry_after,
)
from toolwire.encoding.ledger import Ledger, made_by, spelling_of, take, unparsed_of
from toolwire.types import Error, ErrorReply
from toolwire.types.spelling.ollama import OllamaErrorSpelling

_DETAILS = ("type", "param", "code")


@with_retry_after
def decode_error(status: int | None, body: Any) -> Error:
    """Decode the `body` of an error, of any JSON type or text.

    `status` is the HTTP status, or None for an error in a stream. A body that is no error of this wire is kept whole.
    """
    inner = body.get("error") if type(body) is dict else None
    if type(inner) is str:
        unparsed = body.copy()
        del unparsed["error"]
        return Error(kind_of_words(status, inner), inner, status, opaque=WIRE.mark(unparsed))
    if (opened := split_error(body)) is None:
        return unparsed_error(body, status, WIRE.mark({}, OllamaErrorSpelling(body=body)))
    unparsed, inner, message = opened
    fields: dict[str, Any] = {key: take(inner, key, str) for key in _DETAILS}
    if fields["code"] is None:
        fields["code"] = take(inner, "code", int)
    opaque = WIRE.mark(join_unparsed(unparsed, inner), OllamaErrorSpelling(is_object=True))
    return Error(kind_of_words(status, message), message, status, opaque=opaque, **fields)


def encode_error(error: Error) -> ErrorReply:
    """Encode an error as Ollama replies with it: the status of its kind, and the message as text."""
    spelling = spelling_of(error.opaque, OllamaErrorSpelling)
    if (kept := unparsed_reply(error, spelling.body)) is not None:
        return kept
    ledger = Ledger(WIRE, of="error")
    details = {field: value for field in _DETAILS if (value := getattr(error, field)) is not None}
    inner: Any = recognizable_message(error, LENGTH_PHRASES, ledger)
    if not made_by(error.opaque, DIALECT) and error.kind != kind_of_words(status_of(error), inner):
        ledger.lose("kind", "error_kind", f"{DIALECT} expresses it by the status alone", "approximated")
    if spelling.is_object:
        inner = unparsed_of(error.opaque, DIALECT, "error") | {"message": inner, **details}
        details = {}
    for field in (*details, *(["request_id"] if error.request_id is not None else ())):
        ledger.lose(field, "error_detail", f"{DIALECT} has no field for it")
    return reply_of(error, ledger.replay({"error": inner}, error.opaque), ledger)
