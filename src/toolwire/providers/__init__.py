"""Servers and models, as data: who serves what, where, for how much, and how it wants to be asked."""

from toolwire.providers.known import (
    ALIASES,
    PROVIDERS,
    AnyProvider,
    Capabilities,
    Provider,
    ProviderOptions,
    UnknownProvider,
    named,
    provider_of,
    put_key,
    quirks_of,
)

__all__ = [
    "ALIASES",
    "PROVIDERS",
    "AnyProvider",
    "Capabilities",
    "Provider",
    "ProviderOptions",
    "UnknownProvider",
    "named",
    "provider_of",
    "put_key",
    "quirks_of",
]
