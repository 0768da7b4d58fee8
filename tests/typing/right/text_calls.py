"""A model that writes its calls into its text."""

from toolwire import Client, LoopLimits, text_tagged


def get_weather(city: str) -> str:
    """Say the weather."""
    return f"25 degrees in {city}"


def ask() -> str:
    with Client("ollama", "gemma", readers=["tool_call_tag", "bare_json"], fallback=True) as client:
        done = client.run(
            "How warm is it in Oslo?",
            tools=[get_weather],
            limits=LoopLimits(turns=5),
            capabilities={"native_tool_calls": False},
        )
        return done.content or done.reason


def known() -> list[str]:
    return sorted(text_tagged.READERS)
