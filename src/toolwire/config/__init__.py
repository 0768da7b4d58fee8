"""The file of settings: its sections, parsed and validated as a whole."""

from toolwire.config.settings import (
    MODEL_NAME,
    AdminSettings,
    GatewaySettings,
    MemorySettings,
    PageSettings,
    PriceSettings,
    ProviderSettings,
    RecordSettings,
    RouteSettings,
    ServerSettings,
    TargetSettings,
    TranslationCacheSettings,
    UpstreamSettings,
    UsageSettings,
    read_settings,
    seconds_of,
)

__all__ = [
    "MODEL_NAME",
    "AdminSettings",
    "GatewaySettings",
    "MemorySettings",
    "PageSettings",
    "PriceSettings",
    "ProviderSettings",
    "RecordSettings",
    "RouteSettings",
    "ServerSettings",
    "TargetSettings",
    "TranslationCacheSettings",
    "UpstreamSettings",
    "UsageSettings",
    "read_settings",
    "seconds_of",
]
