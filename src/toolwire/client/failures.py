"""A provider's errors as exceptions: typed, with the provider, the status and the request id."""

from collections.abc import Sequence
from typing import Any

from toolwire.errors import ToolwireError
from toolwire.types import Error


class ProviderError(ToolwireError):
    """A provider rejected a request, or could not be reached; `error` holds the details.

    >>> from toolwire import Error, ProviderError, generate
    >>> from toolwire.testing import Fail, simulate
    >>> with simulate([[Fail(Error("authentication", "Wrong key."))]]) as model:
    ...     try:
    ...         generate("Hi.", "openai", "gpt-6-sol", base_url=model.url, api_key="any")
    ...     except ProviderError as error:
    ...         print(type(error).__name__, error.error.message)
    AuthenticationFailed Wrong key.
    """

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
    """The key is missing, wrong, or lacks the permission."""


class RateLimited(ProviderError):
    """Too many requests, or the account has no credit left."""


class ContextTooLong(ProviderError):
    """The conversation is longer than the model can read."""


class RequestRefused(ProviderError):
    """The provider rejects the request as invalid."""


class ProviderUnavailable(ProviderError):
    """The provider is overloaded, broken, or cannot be reached."""


class ProviderTimeout(ProviderUnavailable):
    """The provider took too long."""


class AllFailed(ToolwireError):
    """Several providers were tried in turn, and each failed; `causes` are their exceptions."""

    def __init__(self, causes: Sequence[Exception]) -> None:
        self.causes: tuple[Exception, ...] = tuple(causes)
        super().__init__(f"all models failed: {'; '.join(map(str, self.causes))}")


class ChoiceIgnored(ToolwireError):
    """A model did not call a tool, although the request required it and retries followed; `done` is the end."""

    def __init__(self, provider: str, done: Any) -> None:
        self.provider: str = provider
        self.done: Any = done
        super().__init__(
            f"the model called no tool, although the request required a call: {done.reason}", path=provider
        )


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
    """Return the exception for an error."""
    return _KINDS.get(error.kind, ProviderError)(error, provider)
