"""A conversation in the spellings that are taken: strings, OpenAI's maps, values."""

from toolwire import Context, Image, Message, Text, Tool, generate, tool


@tool
def get_weather(city: str) -> str:
    """Say the weather."""
    return f"25 degrees in {city}"


search = Tool("search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})
context = Context(
    "Be brief.",
    [
        "Hello",
        {"role": "assistant", "content": "Hi."},
        Message("user", [Text("What is this?"), Image("https://x/y.png")]),
    ],
    [get_weather, search, {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}],
)
empty = Context("sys", ["Hello"], [])


def ask() -> list[Message]:
    return generate(context, model="openai/gpt-6-sol", effort="low", stop=["END"]).messages
