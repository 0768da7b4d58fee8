"""How each wire is told that something is wrong: an error of the gateway's own, in the client's words.

Rule: it says what was wrong and what would be right, and nothing of what is inside.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from toolwire.dialects import dialect
from toolwire.gateway.headers import kind_of
from toolwire.gateway.masking import ProviderSecrets
from toolwire.providers import Provider
from toolwire.translation.paths import vendor_of
from toolwire.translation.translate import read_error
from toolwire.types import Error, ErrorKind, ErrorReply
from toolwire.wire.transport import AwaitedResponse

_BEGINNINGS = (
    ("/v1/messages", "anthropic"),
    ("/v1/responses", "openai-responses"),
    ("/v1/conversations", "openai-responses"),
    ("/v1beta", "gemini"),
    ("/api/", "ollama"),
)
_STATUSES: dict[ErrorKind, int] = {
    "invalid_request": 400,
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "rate_limit": 429,
    "server": 502,
    "timeout": 504,
    "overloaded": 503,
}
_ERRORS = range(400, 600)
_ERROR_BYTES = 1024 * 1024

# The field by which a client counts on what its server holds of a conversation, and the vendor's words for "I hold
# nothing": its SDK then sends all of it (anthropic 2.11.0, lib/threads; OpenAI's words as users report them, 2026-11).
FORGOTTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": (
        "thread",
        {
            "type": "invalid_request_error",
            "message": "thread: this model's server holds no threads; send the whole conversation without it",
            "details": {"error_code": "thread_unsupported_request", "unsupported": ["model"]},
        },
    ),
    "openai-responses": (
        "previous_response_id",
        {
            "type": "invalid_request_error",
            "message": "Previous response not found: this model's server holds none; send the whole conversation",
            "param": "previous_response_id",
            "code": "previous_response_not_found",
        },
    ),
}


class Refused(Exception):
    """A request that ends here; `error` is told in the client's wire, with `headers`."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.headers: dict[str, str] = {}
        self.error: Error = Error(kind, message, status or _STATUSES.get(kind, 500), code=code, retry_after=retry_after)

    @classmethod
    def method(cls, method: str, place: str, allowed: Iterable[str]) -> "Refused":
        """Refuse a method that a place does not know."""
        refused = cls("invalid_request", f"{method} is not possible on {place}", 405)
        refused.headers = {"allow": ", ".join(allowed)}
        return refused

    @classmethod
    def forgotten(cls, wire: str) -> "Refused":
        """Refuse a request that counts on what no server of another wire holds."""
        refused = cls("invalid_request", "nothing is held of a conversation")
        refused.error = dialect(wire).decode_error(400, {"error": FORGOTTEN[wire][1]})
        return refused


def _status_of(answer: AwaitedResponse) -> int:
    """Give the status of an error; one that HTTP does not have, or that is none, is a 502."""
    return answer.status if answer.status in _ERRORS else 502


async def error_in(answer: AwaitedResponse, secrets: ProviderSecrets) -> tuple[int, bytes, Any]:
    """Read a provider's error: a status that HTTP has, the body with its secrets masked, and what it says."""
    data = bytearray()
    while len(data) < _ERROR_BYTES and (piece := await answer.aread()):
        data += piece
    body = secrets.mask_error(bytes(data[:_ERROR_BYTES]))
    return _status_of(answer), body, read_error(body)


def error_of(provider: Provider, answer: AwaitedResponse, read: Any, secrets: ProviderSecrets) -> Error:
    """Give the error that a provider has told in no wire's form: to people, or by its status alone."""
    status = _status_of(answer)
    said = provider.speaks().decode_error(status, read, answer.headers)
    form = kind_of(answer.headers, "no type", secrets)[:80]
    none = answer.status not in _ERRORS
    what = f" ({form}), which is no answer" if none else " and no word"
    message = "" if none and answer.status < _ERRORS.start else said.message
    message = message or f"{provider.name} answered with {answer.status}{what}"
    return Error("server" if none else said.kind, message, status, retry_after=said.retry_after)


def wire_near(path: str, headers: Mapping[str, str]) -> str:
    """Say whose words a client will understand that asked for a path of no wire."""
    near = next((wire for beginning, wire in _BEGINNINGS if path.startswith(beginning)), None)
    return near or vendor_of(headers) or "openai-chat"


def reply_of(error: Error, wire: str) -> ErrorReply:
    """Write an error in a client's wire."""
    return dialect(wire).encode_error(error)
