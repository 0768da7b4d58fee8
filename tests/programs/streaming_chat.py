from toolwire import Client, Message, TextDelta, ToolCall


def get_weather(city: str) -> str:
    """Say the weather."""
    return f"25 degrees in {city}"


messages: list[Message] = []
with Client("anthropic", "claude-sonnet-5-5") as client:
    while prompt := input("\n> "):
        stream = client.stream(prompt, messages=messages, tools=[get_weather])
        for item in stream:
            if isinstance(item, TextDelta | ToolCall):
                print(item.text if isinstance(item, TextDelta) else f"[{item.name}] ", end="", flush=True)
        messages += [Message(prompt), *stream.collect().messages]
