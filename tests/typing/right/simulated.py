"""A test of one's own agent, with a simulated model."""

from toolwire import Error, Text, ToolCall, generate, stream
from toolwire.testing import Cut, Fail, simulate


def get_weather(city: str) -> str:
    """Say the weather."""
    return f"25 degrees in {city}"


def test_the_weather() -> None:
    with simulate([ToolCall(None, "get_weather", {"city": "Oslo"}), "Warm."], api_key="any") as model:
        options = {"base_url": model.url, "api_key": "any"}
        done = generate("How warm is it?", "anthropic", "claude", tools=[get_weather], options=options)
        assert (done.ending, done.turns) == ("answer", 2)
        asked = model.requests[0].request
        assert asked is not None
        assert asked.messages[-1].text == "How warm is it?"


def test_words() -> None:
    with simulate([[Text("Warm "), Text("enough.")], Fail(Error("rate_limit", "later")), [Text("Hm"), Cut()]]) as model:
        end = stream("?", "openai", "gpt-6-sol", options={"base_url": model.url, "api_key": "any"}).collect()
        assert end.message.text == "Warm enough."
