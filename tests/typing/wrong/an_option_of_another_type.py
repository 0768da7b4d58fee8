"""A text for timeouts."""

from toolwire import Client

Client("openai", timeouts="5")  # error: arg-type, reportArgumentType
