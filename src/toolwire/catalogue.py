"""Models, prices and facts about local models, each entry with its date and source."""

from toolwire.providers.catalogue import (
    Catalogue,
    Layer,
    Model,
    Price,
    ProviderTraits,
    Retirement,
    built_in,
    cost,
    hints,
    model,
    models,
    provider,
    providers,
)

__all__ = [
    "Catalogue",
    "Layer",
    "Model",
    "Price",
    "ProviderTraits",
    "Retirement",
    "built_in",
    "cost",
    "hints",
    "model",
    "models",
    "provider",
    "providers",
]
