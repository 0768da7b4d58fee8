"""Kinds of provider errors and their HTTP statuses, which all dialects share."""

from typing import Any

from toolwire.types import Error, ErrorKind

KIND_OF_STATUS: dict[int, ErrorKind] = {
    400: "invalid_request",
    401: "authentication",
    402: "billing",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    422: "invalid_request",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
STATUS_OF_KIND: dict[ErrorKind, int] = {
    "invalid_request": 400,
    "context_length": 400,
    "authentication": 401,
    "billing": 402,
    "permission": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "rate_limit": 429,
    "server": 500,
    "overloaded": 503,
    "timeout": 504,
    "unknown": 500,
}

# The words of OpenAI, and of the many servers that imitate it.
KIND_OF_WORD: dict[object, ErrorKind] = {
    "insufficient_quota": "billing",
    "context_length_exceeded": "context_length",
    "exceed_context_size_error": "context_length",
    "rate_limit_exceeded": "rate_limit",
    "invalid_api_key": "authentication",
    "model_not_found": "not_found",
    "server_error": "server",
    "vector_store_timeout": "timeout",
    "invalid_prompt": "invalid_request",
    "authentication_error": "authentication",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "rate_limit_error": "rate_limit",
    "timeout_error": "timeout",
}
TYPE_OF_KIND: dict[ErrorKind, str] = {
    "authentication": "authentication_error",
    "permission": "permission_error",
    "billing": "insufficient_quota",
    "not_found": "not_found_error",
    "rate_limit": "rate_limit_error",
    "server": "server_error",
    "overloaded": "server_error",
    "timeout": "timeout_error",
    "unknown": "server_error",
}
CODE_OF_KIND: dict[ErrorKind, str] = {
    "context_length": "context_length_exceeded",
    "billing": "insufficient_quota",
}


def kind_of_status(status: int | None) -> ErrorKind:
    """Name the kind of error that a status means when the body says nothing better."""
    if status is None:
        return "unknown"
    known = KIND_OF_STATUS.get(status)
    if known is not None:
        return known
    return "server" if status >= 500 else "invalid_request" if status >= 400 else "unknown"


def status_of(error: Error) -> int:
    """Give the status to answer with: the error's own, or the usual one of its kind."""
    return error.status if error.status is not None else STATUS_OF_KIND[error.kind]


def excerpt(body: Any, limit: int = 500) -> str:
    """Say what an error body was when it is not one of the dialect's."""
    text = body if isinstance(body, str) else "" if body is None else repr(body)
    return text[:limit]
