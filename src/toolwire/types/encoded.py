"""The result of an encode: a body to send, the path to send it to, and its losses."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from toolwire.errors import InvalidBody

Action = Literal[
    "dropped", "approximated", "moved", "renamed", "merged", "defaulted", "repaired", "added", "deferred", "kept"
]
Severity = Literal["semantic", "minor", "formal"]


class Loss(Struct, frozen=True):
    """A value that the target cannot express: its path in the canonical value, and the action of the encoder.

    The severity is one of three:

    - `semantic`: the model sees something else, or may do something else.
    - `minor`: the model sees and may do the same, in other words.
    - `formal`: the value is an echo, part of an envelope, or bookkeeping.

    >>> from toolwire import Context, Request, dialect
    >>> request = Request(model="m", context=Context(messages=["Hello"]), max_tokens=9, seed=7)
    >>> [(str(loss), loss.severity) for loss in dialect("anthropic").encode_request(request).losses]
    [('seed: anthropic has no such setting (dropped)', 'semantic')]
    """

    path: str
    concept: str
    action: Action
    detail: str
    severity: Severity = "semantic"

    def __str__(self) -> str:
        return f"{self.path}: {self.detail} ({self.action})"


_write = msgspec.json.Encoder().encode


def write_json(value: Any) -> bytes:
    """Return `value` as JSON. Raise `InvalidBody` if it cannot be written as JSON."""
    try:
        return _write(value)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError, ValueError) as problem:
        raise InvalidBody(f"cannot be written as JSON: {problem}", path="body") from problem


class Encoded(Struct, frozen=True):
    """An encoded body, the path to send it to, and its losses.

    >>> from toolwire import Context, Request, dialect
    >>> encoded = dialect("openai-chat").encode_request(Request(model="m", context=Context(messages=["Hello"])))
    >>> encoded.path, encoded.json
    ('/v1/chat/completions', b'{"model":"m","messages":[{"role":"user","content":"Hello"}]}')
    """

    path: str
    body: dict[str, Any]
    losses: tuple[Loss, ...] = ()

    @property
    def json(self) -> bytes:
        """The body as JSON bytes."""
        return write_json(self.body)


class _Bytes:
    """The bytes of a body, and the value that was parsed from them, once it was needed."""

    __slots__ = ("body", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.body: dict[str, Any] | None = None


class EncodedBytes(Encoded, frozen=True):
    """An `Encoded` that was made of bytes. The body is parsed from the bytes when it is first read."""

    @classmethod
    def of(cls, path: str, data: bytes, losses: tuple[Loss, ...]) -> "EncodedBytes":
        """Make it of the bytes in `data`."""
        return cls(path, _Bytes(data), losses)  # type: ignore[arg-type]

    @property  # type: ignore[misc]
    def body(self) -> dict[str, Any]:
        """The body as a value. A change to it also changes `json`."""
        stored: Any = _stored(self)
        if stored.body is None:
            stored.body = msgspec.json.decode(stored.data)
        return stored.body  # type: ignore[no-any-return]

    @property
    def json(self) -> bytes:
        """The body as JSON bytes."""
        stored: Any = _stored(self)
        return stored.data if stored.body is None else write_json(stored.body)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Encoded):
            return NotImplemented
        return (self.path, self.body, self.losses) == (other.path, other.body, other.losses)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Encoded(path={self.path!r}, body={self.body!r}, losses={self.losses!r})"


_stored = Encoded.__dict__["body"].__get__


class ErrorReply(Struct, frozen=True):
    """An error as a server of the dialect would send it. `headers` are those of the error, such as `retry-after`.

    >>> from toolwire import Error, dialect
    >>> reply = dialect("anthropic").encode_error(Error("rate_limit", "Slow down", retry_after=7))
    >>> reply.status, reply.headers, reply.body["error"]
    (429, {'retry-after': '7'}, {'type': 'rate_limit_error', 'message': 'Slow down'})
    """

    status: int
    body: Any
    losses: tuple[Loss, ...] = ()
    headers: dict[str, str] = {}

    @property
    def json(self) -> bytes:
        """The body as JSON bytes."""
        return write_json(self.body)
