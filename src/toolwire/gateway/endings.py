"""How each wire is told that something is wrong: an error of the gateway's own, in the client's words.

Rule: it says what was wrong and what would be right, and nothing of what is inside.
"""

from toolwire.dialects import dialect
from toolwire.types import Error, ErrorKind, ErrorReply

_BEGINNINGS = (("/v1/messages", "anthropic"), ("/v1/responses", "openai-responses"), ("/v1beta", "gemini"))
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


class Refused(Exception):
    """A request that ends here; `error` is told in the client's wire."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.error = Error(kind, message, status or _STATUSES.get(kind, 500), code=code, retry_after=retry_after)


def wire_near(path: str) -> str:
    """Say whose words a client will understand that asked for a path of no wire."""
    if path.startswith("/api/"):
        return "ollama"
    return next((wire for beginning, wire in _BEGINNINGS if path.startswith(beginning)), "openai-chat")


def reply_of(error: Error, wire: str) -> ErrorReply:
    """Write an error in a client's wire."""
    return dialect(wire).encode_error(error)
