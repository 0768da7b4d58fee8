"""The canonical values of a record: its request and its answer, as the dialects of its wires read them."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolwire.dialects import dialect
from toolwire.errors import InvalidBody, ToolwireError
from toolwire.records.record import CANONICAL, Body, Record
from toolwire.streams.accumulation import Accumulator
from toolwire.types import Request, Response
from toolwire.wire.bodies import read_body

# The members by which a request continues what its server has stored: the request has only its end.
_STORED = ("previous_response_id", "conversation", "thread")


def request_of(record: Record) -> Request:
    """Return the canonical request of a record. Raise `InvalidBody` if it was not recorded whole.

    It is the client's request. If that has only the end of a conversation which the gateway had stored, it is the
    provider's request, which has all of it.
    """
    sides = [
        (record.wire, record.path, record.client_request),
        (record.provider_wire, _path_of(record.url), record.provider_request),
    ]
    known = [(wire, path, body) for wire, path, body in sides if wire and body.data]
    if not known:
        raise InvalidBody("was not recorded", path=f"records.{record.id}.client_request")
    if len(known) > 1 and _continues_stored(known[0][2]):
        known.reverse()
    wire, path, body = known[0]
    if body.cut:
        raise InvalidBody(f"was cut: it had {body.size} bytes", path=f"records.{record.id}.client_request")
    if wire == CANONICAL:
        return msgspec.json.decode(body.data, type=Request)
    return dialect(wire).decode_request(read_body(body.data), path)


def response_of(record: Record) -> Response | None:
    """Return the canonical answer of a record: the client's, or else the provider's. None if there is none."""
    for wire, body in ((record.wire, record.client_answer), (record.provider_wire, record.provider_answer)):
        if wire and body.data:
            return _read_answer(wire, body)
    return None


def _read_answer(wire: str, body: Body) -> Response | None:
    """Return the canonical form of an answer, whole or streamed. None if it cannot be read."""
    try:
        if wire == CANONICAL:
            return msgspec.json.decode(body.data, type=Response)
        here = dialect(wire)
        if not body.frames:
            return here.decode_response(read_body(body.data))
        decoder, received = here.decode_stream(), Accumulator()
        for event in [*decoder.feed(body.data), *decoder.close()]:
            received.feed(event)
    except (ToolwireError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return received.response


def _continues_stored(body: Body) -> bool:
    parsed: Any = body.json
    return type(parsed) is dict and any(parsed.get(name) is not None for name in _STORED)


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
