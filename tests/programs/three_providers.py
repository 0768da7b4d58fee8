from toolwire import generate


def get_weather(city: str) -> str:
    """Say the weather."""
    return f"25 degrees in {city}"


for model in ("openai/gpt-6-sol", "anthropic/claude-sonnet-5-5", "gemini/gemini-3.5-flash"):
    print(generate("How warm is it in Oslo?", model=model, tools=[get_weather]).content)
