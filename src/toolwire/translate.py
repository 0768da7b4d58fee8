"""Bodies of one dialect to bodies of another, through the canonical model.

Rules of this file:
- Nothing is lost in silence: what the target cannot say is in the losses. `strict` raises before anything is sent.
- A strict translation minds losses of meaning. A minor loss (a cache mark, an order of words and calls, a default that
  had to be given) is told, and never raised.
"""

from typing import Any

from toolwire.bodies import read_body
from toolwire.dialects import Dialect, dialect
from toolwire.errors import LossyTranslation
from toolwire.types import Encoded, ErrorReply, Loss

Body = dict[str, Any] | bytes | str


def request(
    body: Body, source: str | Dialect, target: str | Dialect, path: str = "", *, strict: bool = False
) -> Encoded:
    """Translate a request's body; `path` carries what the source's URL says (Gemini's model and streaming)."""
    encoded = dialect(target).encode_request(dialect(source).decode_request(read_body(body), path))
    if strict:
        refuse(encoded.losses)
    return encoded


def response(body: Body, source: str | Dialect, target: str | Dialect, *, strict: bool = False) -> Encoded:
    """Translate a response's body."""
    encoded = dialect(target).encode_response(dialect(source).decode_response(read_body(body)))
    if strict:
        refuse(encoded.losses)
    return encoded


def error(status: int | None, body: Any, source: str | Dialect, target: str | Dialect) -> ErrorReply:
    """Translate an error's body; nothing that a server may answer is refused."""
    return dialect(target).encode_error(dialect(source).decode_error(status, body))


def refuse(losses: tuple[Loss, ...]) -> None:
    """Raise LossyTranslation if any loss is one of meaning."""
    lost = [loss for loss in losses if loss.severity == "semantic"]
    if lost:
        raise LossyTranslation(lost)
