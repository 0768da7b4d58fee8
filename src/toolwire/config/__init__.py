"""The file of settings: what it may say, read and checked whole."""

from toolwire.config.settings import (
    MODEL_NAME,
    GatewaySettings,
    MemorySettings,
    PriceSettings,
    ProviderSettings,
    RouteSettings,
    ServerSettings,
    TargetSettings,
    TranslationCacheSettings,
    UpstreamSettings,
    read_settings,
    seconds_of,
)

__all__ = [
    "MODEL_NAME",
    "GatewaySettings",
    "MemorySettings",
    "PriceSettings",
    "ProviderSettings",
    "RouteSettings",
    "ServerSettings",
    "TargetSettings",
    "TranslationCacheSettings",
    "UpstreamSettings",
    "read_settings",
    "seconds_of",
]
