"""What a provider's error is as an exception: typed, with its provider, status and request id."""

from collections.abc import Sequence
from typing import Any

from toolwire.errors import ToolwireError
from toolwire.types import Error


class ProviderError(ToolwireError):
    """A provider refused a request, or could not be reached; `error` says why."""

    def __init__(self, error: Error, provider: str = "") -> None:
        self.error: Error = error
        self.provider: str = provider
        self.status: int | None = error.status
        self.request_id: str | None = error.request_id
        self.retryable: bool = error.retryable
        self.retry_after: float | None = error.retry_after
        details = [f"status {error.status}"] if error.status else []
        details += [f"request {error.request_id}"] if error.request_id else []
        super().__init__(error.message + (f" ({', '.join(details)})" if details else ""), path=provider)


class AuthenticationFailed(ProviderError):
    """The key is missing, wrong, or may not do this."""


class RateLimited(ProviderError):
    """Too many requests, or nothing left to pay them."""


class ContextTooLong(ProviderError):
    """The conversation is longer than the model can read."""


class RequestRefused(ProviderError):
    """The provider does not take the request as it is."""


class ProviderUnavailable(ProviderError):
    """The provider is overloaded, broken, or cannot be reached."""


class ProviderTimeout(ProviderUnavailable):
    """The provider took too long."""


class AllFailed(ToolwireError):
    """Several providers were tried in turn, and each failed; `causes` say how."""

    def __init__(self, causes: Sequence[Exception]) -> None:
        self.causes: tuple[Exception, ...] = tuple(causes)
        super().__init__(f"all models failed: {'; '.join(map(str, self.causes))}")


class ChoiceIgnored(ToolwireError):
    """A model did not call, although the request required a call; it was asked again in vain; `done` is the end."""

    def __init__(self, provider: str, done: Any) -> None:
        self.provider: str = provider
        self.done: Any = done
        super().__init__(f"the model did not call, although the request required a call: {done.reason}", path=provider)


_KINDS: dict[str, type[ProviderError]] = {
    "authentication": AuthenticationFailed,
    "permission": AuthenticationFailed,
    "billing": RateLimited,
    "rate_limit": RateLimited,
    "context_length": ContextTooLong,
    "too_large": ContextTooLong,
    "invalid_request": RequestRefused,
    "not_found": RequestRefused,
    "conflict": RequestRefused,
    "server": ProviderUnavailable,
    "overloaded": ProviderUnavailable,
    "timeout": ProviderTimeout,
    "unknown": ProviderError,
}


def exception_of(error: Error, provider: str = "") -> ProviderError:
    """Give the exception of an error."""
    return _KINDS.get(error.kind, ProviderError)(error, provider)
