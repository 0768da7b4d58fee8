"""A request and an answer of one wire as they came: bytes that are handed on, and read on the side.

Rules of this file:
- A body goes up as it came but for its model's name: no other byte is touched.
- An answer comes down as it is. One that breaks off is ended in the wire's own form of an error; where it broke
  within a frame, no client could read on, and its connection is to break as well.
- What an answer says of its cost, and who signed what, is read on the side.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from toolwire.dialects import Dialect
from toolwire.encoding.finish import ending
from toolwire.streams.accumulation import Accumulator
from toolwire.types import Error, ErrorEnd, Event, Loss, MessageEnd, Opaque, Part, Thinking, ToolCall, Usage, UsageDelta
from toolwire.wire.bodies import members_of, place_of

# The members of an answer in which the wires count its tokens.
_COUNTED = ("usage", "usageMetadata", "prompt_eval_count", "eval_count")
# The keys under which the wires write what only its maker can read.
_SIGNED = (b'"signature"', b'"encrypted_content"', b'"thoughtSignature"', b'"thought_signature"')


def with_model(body: bytes, members: dict[str, Any], model: str) -> bytes:
    """Give a body with another model's name; every other byte stays."""
    start, end = place_of(body, "model", members)
    return body[:start] + msgspec.json.encode(model) + body[end:]


def with_models(body: bytes, members: dict[str, Any], model: str) -> bytes:
    """Give a body of Gemini's that names its model within, as those of several requests at once do, with another."""
    inner = [name for name in ("requests", "generateContentRequest") if name in members]
    if not inner:
        return body
    read = msgspec.json.decode(body)
    for name in inner:
        for request in read[name] if type(read[name]) is list else [read[name]]:
            if type(request) is dict and "model" in request:
                request["model"] = model
    return msgspec.json.encode(read)


def counts_in(body: bytes) -> dict[str, Any]:
    """Give of an answer what says how many tokens it took."""
    members = members_of(body)
    return {name: msgspec.json.decode(members[name]) for name in _COUNTED if name in members}


def may_be_signed(body: bytes) -> bool:
    """Whether a body may hold what only its maker can read."""
    return any(mark in body for mark in _SIGNED)


def signatures_of(parts: list[Part]) -> Iterator[str]:
    """Name what only the maker of these parts can read."""
    for part in parts:
        match part:
            case Thinking(signature=str(signature)) if signature:
                yield f"made:{hashlib.sha256(signature.encode()).hexdigest()}"
            case ToolCall(opaque=Opaque(value=dict(value))) if "thoughtSignature" in value:
                yield f"made:{hashlib.sha256(str(value['thoughtSignature']).encode()).hexdigest()}"


class PassedStream:
    """An answer's stream that is handed on as it is; `usage` and `parts` are read on the side."""

    losses: tuple[Loss, ...] = ()

    def __init__(self, dialect: Dialect, *, array: bool) -> None:
        self.usage: Usage | None = None
        self.broken: bool = False
        self._dialect, self._array = dialect, array
        self._decoder = dialect.decode_stream()
        self._heard = Accumulator()
        self._last = b"\n"
        self._failed = False
        self.whole: bool = False

    def feed(self, data: bytes) -> bytes:
        """Give the bytes as they are."""
        self._hear(self._decoder.feed(data))
        self._last = data[-1:]
        return data

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case UsageDelta():
                    self.usage = event.usage
                case ErrorEnd():
                    self._failed = True
                case MessageEnd():
                    self.whole = event.complete
            self._heard.feed(event)

    @property
    def parts(self) -> list[Part]:
        """What the answer is made of."""
        return self._heard.response.message.parts

    def close(self, error: Error | None = None) -> bytes | None:
        """Give what is left to say: an error, if the answer broke off; None where no word can follow any more."""
        failed = self._failed
        self._hear(self._decoder.close())
        told = failed is self._failed  # else it is what was cut off that is wrong, and nobody said so
        reason = self._heard.response.finish_reason if told else None
        broken = ending(reason, complete=self.whole, failed=failed)
        self.broken = self._failed or broken is not None
        if broken is None:
            return b""
        if self._array or not self._last.endswith((b"\n", b"\r")):
            return None
        encoder = self._dialect.encode_stream()
        gap = b"" if self._dialect.DIALECT == "ollama" else b"\n"  # it ends a frame whose lines are whole
        return gap + encoder.feed(ErrorEnd(error or broken)) + encoder.close()
