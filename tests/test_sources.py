"""What the documents that the project was made from ask for, typed as their reader would."""

from datetime import date
from typing import Any

import pytest

from toolwire import Message, ToolCall, UnknownTool, cost, execute, generate, translate
from toolwire.codetools import CodeTools
from toolwire.dialects import NAMES
from toolwire.resolvers import AgentResolver
from toolwire.testing import simulate
from toolwire.types import Image, Text, ToolResult


def test_a_tool_message_gives_back_its_text() -> None:
    assert Message(role="tool", tool_call_id="c", name="search", content="Elixir is ...").text == "Elixir is ..."
    parts: list[Any] = [Text("one "), Image(url="https://a/b.png"), Text("two")]
    assert Message("tool", [ToolResult("c", "f", parts), ToolResult("d", "f", "!")]).text == "one two!"
    assert Message("assistant", [Text("words"), ToolCall("c", "f", {})]).text == "words"


@pytest.mark.parametrize(
    "usage", [{"prompt_tokens": 10, "completion_tokens": 5}, {"input_tokens": 10, "output_tokens": 5}]
)
def test_the_cost_of_a_map_is_that_of_its_counts(usage: dict[str, int]) -> None:
    assert cost(usage, "gpt-4o") == pytest.approx(10 * 2.5e-6 + 5 * 10e-6)
    assert cost(usage, "gpt-4o", on=date(2026, 1, 1)) is not None
    assert cost({}, "gpt-4o") is None


@pytest.mark.parametrize(
    "target", [name for name in NAMES if name not in ("openai-chat", "openai-responses", "anthropic")]
)
@pytest.mark.parametrize("strict", [True, False])
def test_a_lost_strict_has_one_severity(target: str, strict: bool) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": strict}}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    severities = {
        loss.severity for loss in translate.request(body, "openai-chat", target).losses if "strict" in loss.path
    }
    assert severities == {"minor" if strict else "formal"}


def test_an_unknown_tool_is_answered_with_the_nearest_one() -> None:
    def get_weather(city: str) -> str:
        """Return the weather."""
        return city

    [result] = execute([ToolCall("c", "getweather", {})], [get_weather])
    assert result.content == "unknown tool 'getweather'. Available: get_weather; did you mean get_weather?"
    with pytest.raises(UnknownTool, match="available: get_weather; did you mean get_weather"):
        AgentResolver([get_weather]).resolve(ToolCall("c", "get_wether", {}))


def test_a_run_that_polls_is_told_how_to_go_on() -> None:
    def build_status() -> str:
        """Return the state of the build."""
        return "running"

    with simulate([[ToolCall(None, "build_status", {})]] * 3) as model:
        done = generate("x", "openai", "m", tools=[build_status], base_url=model.url, api_key="k")
    assert done.ending == "no_progress"
    assert done.reason == "build_status had the same result 3 times; LoopLimits(repeats=...) allows more"


def test_bash_says_that_background_processes_end_with_it() -> None:
    [bash] = [tool for tool in CodeTools(".").available_tools() if tool.name == "bash"]
    assert "Processes in the background (`&`) end with the command" in str(bash.description)
