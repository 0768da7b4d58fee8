"""A client of a model that writes its calls in its text, in a format that its provider names."""

from typing import Any

import pytest

from tests.client.faces import lead
from toolwire import Tool, ToolCall, tool
from toolwire.testing import simulate
from toolwire.text import UnknownFormat
from toolwire.text import format as form_of

RUN: list[str] = []


@tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    RUN.append(city)
    return f"25 degrees in {city}"


WEATHER = Tool("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}})
DIALECTS = ("openai", "responses", "anthropic", "gemini", "ollama")
TOKYO = ToolCall(None, "get_weather", {"city": "Tokyo"})


def said(name: str) -> str:
    return form_of(name).encode_call(TOKYO, [WEATHER]).text


@pytest.mark.sampled
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("provider", DIALECTS)
@pytest.mark.parametrize(("face", "name"), [("sync", "hermes"), ("async", "qwen3-coder"), ("sync", "harmony")])
def test_calls_of_a_named_format_are_run(face: Any, name: str, provider: str, native: bool) -> None:
    RUN.clear()
    options: dict[str, Any] = {} if native else {"capabilities": {"native_tool_calls": False}}
    with simulate([[said(name)], ["It is 25 degrees."]]) as model:
        done = lead(
            face, provider, model.url, "Weather?", tools=[get_weather], options={"format": name, **options}
        ).done
    assert (RUN, done.content) == (["Tokyo"], "It is 25 degrees.")
    assert bool(model.requests[0].body.get("tools")) == native


def test_without_a_format_the_reason_says_which_one_reads_the_answer() -> None:
    RUN.clear()
    with simulate([[said("hermes")]]) as model:
        done = lead("sync", "openai", model.url, "Weather?", tools=[get_weather]).done
    assert (RUN, done.ending) == ([], "unread_call")
    assert "the answer looks like a call (<tool_call>)" in done.reason
    assert "format='hermes'" in done.reason


def test_an_unknown_format_says_which_there_are() -> None:
    with pytest.raises(UnknownFormat, match="known: hermes"):
        lead("sync", "openai", "http://127.0.0.1:9", "?", tools=[get_weather], options={"format": "nope"})
