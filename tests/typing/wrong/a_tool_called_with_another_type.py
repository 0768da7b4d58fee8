"""What `@tool` gives is called as before."""

from toolwire import tool


@tool
def get_weather(city: str) -> str:
    """Say the weather."""
    return city


get_weather(3)  # error: arg-type, reportArgumentType
