"""A function where several tools are taken."""

from toolwire import generate


def get_weather(city: str) -> str:
    """Say the weather."""
    return city


generate("Hello", tools=get_weather)  # error: call-overload, reportArgumentType
