"""Servers and models, as data: addresses, keys, prices and deviations."""

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
