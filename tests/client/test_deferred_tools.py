"""Deferred tools in a run: requests to other wires hold them back, and the run answers the model's searches."""

import asyncio
import json
from typing import Any

import pytest

from tests.gateway.standing import NAMES
from tests.translation.test_deferred_tools import SEARCHES, names_in
from toolwire import Client, Done, Opaque, Tool, ToolCall, aio
from toolwire.testing import Scenario, simulate

SOURCES = ("anthropic", "openai-responses")
PAIRS = [(source, target) for source in SOURCES for target in NAMES if source != target]
SEARCH = ToolCall(None, "tool_search", {"query": "weather"})
WEATHER = ToolCall(None, "get_weather", {"city": "Oslo"})


def deferred(name: str, source: str) -> Tool:

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    return Tool(name, f"Does {name}.", schema, opaque=Opaque(source, {"defer_loading": True}))


class Weather:
    """A tool that is deferred, and that runs."""

    def __init__(self, source: str) -> None:
        self.source, self.cities = source, list[str]()

    def definition(self) -> Tool:
        """Declare it."""
        return deferred("get_weather", self.source)

    def execute(self, arguments: dict[str, Any]) -> str:
        """Give the weather."""
        self.cities.append(arguments["city"])
        return "sunny"


def tools_of(source: str, weather: Weather, count: int = 100) -> list[Any]:
    return [SEARCHES[source], *(deferred(f"tool_{number}", source) for number in range(count - 1)), weather]


def led(face: str, name: str, url: str, *, streamed: bool, **settings: Any) -> Done:
    if face == "sync":
        with Client(name, "m", base_url=url, api_key="any") as client:
            done: Done = client.run("Weather?", stream=streamed, **settings)
            return done

    async def run() -> Done:
        async with aio.Client(name, "m", base_url=url, api_key="any") as client:
            done: Done = await client.run("Weather?", stream=streamed, **settings)
            return done

    return asyncio.run(run())


def called(done: Done) -> list[str]:
    return [call.name for message in done.history for call in message.tool_calls]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_run_finds_one_of_a_hundred_tools(source: str, target: str, face: str, *, streamed: bool) -> None:
    weather = Weather(source)
    with simulate(Scenario([[SEARCH], [WEATHER], ["Sunny."]])) as model:
        done = led(face, NAMES[target], model.url, streamed=streamed, tools=tools_of(source, weather))
        bodies: list[Any] = [one.body for one in model.requests]
    assert done.content == "Sunny."
    assert weather.cities == ["Oslo"]
    assert [names_in(body) for body in bodies] == [["tool_search"], *[["tool_search", "get_weather"]] * 2]
    assert "tool_17" not in json.dumps(bodies)
    assert called(done) == ["tool_search", "get_weather"]
    assert sum(loss.action == "deferred" for loss in done.losses) >= 99
    assert [loss for loss in done.losses if loss.severity == "semantic"] == []


def test_the_history_of_a_run_goes_on() -> None:
    weather = Weather("anthropic")
    tools = tools_of("anthropic", weather, 5)
    with simulate(Scenario([[SEARCH], [WEATHER], ["Sunny."], ["As before."]])) as model:
        with Client("openai", "m", base_url=model.url, api_key="any") as client:
            done = client.run("Weather?", tools=tools)
            assert client.run([*done.history, "And now?"], tools=tools).content == "As before."
        assert names_in(model.requests[3].body) == ["tool_search", "get_weather"]


def test_who_approves_is_not_asked_about_a_search() -> None:
    asked, weather = list[str](), Weather("anthropic")

    def approve(call: ToolCall, _preview: str) -> bool:
        asked.append(call.name)
        return True

    with (
        simulate(Scenario([[SEARCH], [WEATHER], ["Sunny."]])) as model,
        Client("openai", "m", base_url=model.url, api_key="any") as client,
    ):
        assert client.run("Weather?", tools=tools_of("anthropic", weather, 5), approve=approve).content == "Sunny."
    assert asked == ["get_weather"]


def test_a_run_that_ends_for_approval_has_answered_the_search() -> None:
    weather = Weather("anthropic")
    with (
        simulate(Scenario([[SEARCH], [WEATHER]])) as model,
        Client("openai", "m", base_url=model.url, api_key="any") as client,
    ):
        done = client.run("Weather?", tools=tools_of("anthropic", weather, 5), approve=True)
    assert called(done) == ["tool_search", "get_weather"]
    assert [call.name for call in done.calls] == ["get_weather"]
    assert weather.cities == []


def test_a_run_that_runs_no_tools_holds_them_back_and_says_that_the_search_is_lost() -> None:
    weather = Weather("anthropic")
    with (
        simulate(Scenario(["Hi."])) as model,
        Client("openai", "m", base_url=model.url, api_key="any") as client,
    ):
        done = client.run("Weather?", tools=tools_of("anthropic", weather, 5), auto_tools=False)
        assert names_in(model.requests[0].body) == []
    assert [loss.path for loss in done.losses if loss.severity == "semantic"] == ["tools[0]"]


def test_its_own_wire_gets_all_tools() -> None:
    weather = Weather("anthropic")
    with (
        simulate(Scenario(["Hi."])) as model,
        Client("anthropic", "m", base_url=model.url, api_key="any") as client,
    ):
        client.run("Weather?", tools=tools_of("anthropic", weather, 5))
        body: Any = model.requests[0].body
    assert len(body["tools"]) == 6
    assert sum(tool.get("defer_loading", False) for tool in body["tools"]) == 5
