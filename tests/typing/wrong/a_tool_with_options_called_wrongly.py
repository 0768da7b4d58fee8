"""What `@tool(...)` gives is called as before."""

from toolwire import tool


@tool(sensitive=["city"])
def get_weather(city: str) -> str:
    """Say the weather."""
    return city


degrees: int = get_weather("Oslo")  # error: assignment, reportAssignmentType
