"""The record of one request: a line of the log, and what metrics and spans are made of.

Rule: no key, no header and no body is in a record. `key` is the id of a key.
"""

from msgspec import UNSET, Struct, UnsetType


class RequestRecord(Struct, frozen=True, kw_only=True):
    """One answered request. As JSON it is one line of the log."""

    time: str
    """When the response ended, in UTC: `2026-11-27T12:00:00.000Z`."""
    request: str
    """The id that the gateway gave the request. The client receives it in the header `x-toolwire-request`."""
    key: str
    """The id of the client's key. Empty if the gateway has no keys, or if it rejected the key."""
    key_name: str
    """The name of the client's key. Empty as `key` is."""
    path: str
    """The path, up to 200 characters, without its query. `(unknown)` is a model that the gateway does not have."""
    wire: str
    """The wire that the client speaks."""
    status: int
    """The HTTP status that the client received, or 0 if the client left before the response began."""
    model: str
    """The model that the request names, up to 200 characters. Empty if the gateway has no such model."""
    provider: str
    """The provider that answered and its model, as `provider/model`. Empty if no provider was asked."""
    ending: str
    """How the answer ended: `answer`, `continued`, `broke off`, `client gone` or `error`. Empty for other replies."""
    seconds: float
    """The time from the head of the request to the end of the response."""
    input_tokens: int | None
    """The tokens that the providers read. None if no provider can bill the request."""
    output_tokens: int | None
    """The tokens that the providers wrote."""
    cache_read_tokens: int | UnsetType = UNSET
    """The tokens of the input that were read from a provider's prompt cache. Left out if no provider was asked."""
    cache_write_tokens: int | UnsetType = UNSET
    """The tokens of the input that were written to a provider's prompt cache. Left out if no provider was asked."""
    cache_write_long_tokens: int | UnsetType = UNSET
    """Those of `cache_write_tokens` that were written for the longer lifetime. Left out if there are none."""
    estimated: bool
    """True if a provider reported no tokens, so that the gateway estimated them."""
    cost: float
    """The cost in US dollars."""
    continued_by: list[str] | UnsetType = UNSET
    """The providers that continued the answer, in order. Left out if there is none."""

    @property
    def provider_name(self) -> str:
        """The name of the provider in `provider`."""
        return self.provider.partition("/")[0]

    @property
    def provider_model(self) -> str:
        """The name of the model in `provider`, as its provider knows it."""
        return self.provider.partition("/")[2]
