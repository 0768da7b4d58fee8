"""The file of settings: what it may say, read and checked whole."""

from toolwire.config.settings import (
    MODEL_NAME,
    MemorySettings,
    Price,
    ProviderSettings,
    RouteSettings,
    ServerSettings,
    Settings,
    Target,
    read_settings,
    seconds_of,
)

__all__ = [
    "MODEL_NAME",
    "MemorySettings",
    "Price",
    "ProviderSettings",
    "RouteSettings",
    "ServerSettings",
    "Settings",
    "Target",
    "read_settings",
    "seconds_of",
]
