from toolwire import generate


def get_weather(city: str) -> str:
    """Say the weather."""
    return f"25 degrees in {city}"


options = {"capabilities": {"native_tool_calls": False}, "readers": ["tool_call_tag"]}
print(generate("How warm is it in Oslo?", "ollama", "gemma", tools=get_weather, options=options).content)
