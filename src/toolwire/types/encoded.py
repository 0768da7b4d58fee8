"""What an encode gives: a body to send, where to send it, and what could not be said in it."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from toolwire.errors import InvalidBody

Action = Literal["dropped", "approximated", "moved", "renamed", "merged", "defaulted", "repaired"]
Severity = Literal["semantic", "minor", "formal"]


class Loss(Struct, frozen=True):
    """One value that the target cannot express: its path in the canonical value, and what became of it.

    Its severity: `semantic`, what the model may do or sees has changed; `minor`, the model may do and sees the same,
    in other words; `formal`, an echo, an envelope or bookkeeping.
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
    """Write a body as bytes, or say why it is none."""
    try:
        return _write(value)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError, ValueError) as problem:
        raise InvalidBody(f"cannot be written as JSON: {problem}", path="body") from problem


class Encoded(Struct, frozen=True):
    """A body, the path that it is sent to, and the losses."""

    path: str
    body: dict[str, Any]
    losses: tuple[Loss, ...] = ()

    @property
    def json(self) -> bytes:
        """The body as bytes to send."""
        return write_json(self.body)


class _Bytes:
    """A body as bytes, and as a value once that was asked for."""

    __slots__ = ("body", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.body: dict[str, Any] | None = None


class EncodedBytes(Encoded, frozen=True):
    """A body that was written before it was asked for as a value: the bytes are there, the value is made of them."""

    @classmethod
    def of(cls, path: str, data: bytes, losses: tuple[Loss, ...]) -> "EncodedBytes":
        """Make it of bytes."""
        return cls(path, _Bytes(data), losses)  # type: ignore[arg-type]

    @property  # type: ignore[misc]
    def body(self) -> dict[str, Any]:
        """The body as a value; who changes it changes what is sent."""
        held: Any = _held(self)
        if held.body is None:
            held.body = msgspec.json.decode(held.data)
        return held.body  # type: ignore[no-any-return]

    @property
    def json(self) -> bytes:
        """The body as bytes to send."""
        held: Any = _held(self)
        return held.data if held.body is None else write_json(held.body)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Encoded):
            return NotImplemented
        return (self.path, self.body, self.losses) == (other.path, other.body, other.losses)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Encoded(path={self.path!r}, body={self.body!r}, losses={self.losses!r})"


_held = Encoded.__dict__["body"].__get__


class ErrorReply(Struct, frozen=True):
    """An error as a server of the dialect would answer it; `headers` are those that belong to the error."""

    status: int
    body: Any
    losses: tuple[Loss, ...] = ()
    headers: dict[str, str] = {}

    @property
    def json(self) -> bytes:
        """The body as bytes to send."""
        return write_json(self.body)
