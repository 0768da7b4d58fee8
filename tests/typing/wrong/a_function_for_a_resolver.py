"""A function is no resolver."""

from toolwire import prefixed


def get_weather(city: str) -> str:
    """Say the weather."""
    return city


prefixed(get_weather, "my_")  # error: arg-type, reportArgumentType
