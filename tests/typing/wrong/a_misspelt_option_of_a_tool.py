"""An option of a tool that is none."""

from toolwire import tool


@tool(descripton="Says the weather.")  # error: call-overload, reportCallIssue
def get_weather(city: str) -> str:
    """Say the weather."""
    return city
