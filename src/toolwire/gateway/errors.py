"""The gateway's own errors, encoded in the wire of the client.

Rule: a message states what was wrong and what to do instead. It reveals nothing about the inside of the gateway.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from toolwire.dialects import dialect
from toolwire.gateway.headers import content_type_of
from toolwire.gateway.masking import ProviderSecrets
from toolwire.providers import Provider
from toolwire.translation.paths import vendor_of
from toolwire.types import Error, ErrorKind, ErrorReply
from toolwire.wire.bodies import read_error_body
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

# The field with which a client relies on a conversation that its server stores, and the vendor's error for "not
# stored". The vendor's SDK then resends the whole conversation (anthropic 2.11.0, lib/threads; OpenAI's words as
# users report them, 2026-11).
UNKNOWN_HISTORY: dict[str, tuple[str, dict[str, Any]]] = {
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


class GatewayError(Exception):
    """An error that ends the request. The gateway sends `error` in the client's wire, with `headers`."""

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
    def method(cls, method: str, path: str, allowed: Iterable[str]) -> "GatewayError":
        """Return the 405 error for a `method` that `path` does not allow; `allowed` are the methods that it allows."""
        problem = cls("invalid_request", f"{method} is not possible on {path}", 405)
        problem.headers = {"allow": ", ".join(allowed)}
        return problem

    @classmethod
    def unknown_response(cls, wire: str) -> "GatewayError":
        """Return the error for a request that relies on a stored response or thread that no server has."""
        problem = cls("invalid_request", "nothing is held of a conversation")
        problem.error = dialect(wire).decode_error(400, {"error": UNKNOWN_HISTORY[wire][1]})
        return problem


def _status_of(answer: AwaitedResponse) -> int:
    """Return the status of an error answer, or 502 if its status is none of an error."""
    return answer.status if answer.status in _ERRORS else 502


async def error_in(answer: AwaitedResponse, secrets: ProviderSecrets) -> tuple[int, bytes, Any]:
    """Read a provider's error. Return its status, its body with the secrets masked, and the parsed body."""
    data = bytearray()
    while len(data) < _ERROR_BYTES and (piece := await answer.aread()):
        data += piece
    body = secrets.mask_error(bytes(data[:_ERROR_BYTES]))
    return _status_of(answer), body, read_error_body(body)


def error_of(provider: Provider, answer: AwaitedResponse, read: Any, secrets: ProviderSecrets) -> Error:
    """Return the error of an answer without an error body of the wire, such as a page for people or an empty body."""
    status = _status_of(answer)
    error = provider.speaks().decode_error(status, read, answer.headers)
    content_type = content_type_of(answer.headers, "no type", secrets)[:80]
    is_no_error = answer.status not in _ERRORS
    description = f" ({content_type}), which is no answer" if is_no_error else " and no word"
    message = "" if is_no_error and answer.status < _ERRORS.start else error.message
    message = message or f"{provider.name} answered with {answer.status}{description}"
    return Error("server" if is_no_error else error.kind, message, status, retry_after=error.retry_after)


def wire_near(path: str, headers: Mapping[str, str]) -> str:
    """Return the wire whose errors a client will understand that requested an unknown path."""
    wire_of_path = next((wire for beginning, wire in _BEGINNINGS if path.startswith(beginning)), None)
    return wire_of_path or vendor_of(headers) or "openai-chat"


def reply_of(error: Error, wire: str) -> ErrorReply:
    """Encode `error` in the wire `wire`."""
    return dialect(wire).encode_error(error)
