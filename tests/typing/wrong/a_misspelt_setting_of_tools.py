"""`tool` for `tools`."""

from toolwire import generate


def get_weather(city: str) -> str:
    """Say the weather."""
    return city


generate("Hello", tool=[get_weather])  # error: call-overload, reportCallIssue
