import toolwire
from toolwire import TextDelta, ToolCall


def get_weather(city: str) -> str:
    """Say the weather."""
    return f"25 degrees in {city}"


with toolwire.conversation("anthropic/claude-sonnet-5-5", tools=[get_weather]) as chat:
    while prompt := input("\n> "):
        for item in chat.stream(prompt):
            if isinstance(item, TextDelta | ToolCall):
                print(item.text if isinstance(item, TextDelta) else f"[{item.name}] ", end="", flush=True)
