"""The vendors' own SDKs talk to the simulated model: whole conversations with tools, streaming and not."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.testing.sdks import QUESTION, TALKERS, Said, talk_responses
from toolwire.testing import Expect, Scenario, SimulatedModel, simulate
from toolwire.types import Thinking, ToolCall

CITIES = ("Tokyo", "Osaka")
THOUGHT = "Two cities: I ask for each, and then once more."
ANSWER = "It is sunny in both cities, says the weather service."


def call(city: str) -> ToolCall:
    return ToolCall(None, "get_weather", {"city": city})


TURNS: list[Any] = [
    [
        Expect(last=QUESTION, tools=["get_weather"]),
        Thinking(text=THOUGHT),
        "One moment, please.",
        *map(call, CITIES),
    ],
    [Expect(results={"get_weather": "Osaka: sunny"}), call("Kyoto")],
    [Expect(results={"get_weather": "Kyoto: sunny"}), ANSWER],
]


@pytest.fixture(scope="module")
def model() -> Iterator[SimulatedModel]:
    with simulate(Scenario(TURNS, by="round")) as model:
        yield model


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", TALKERS)
def test_an_sdk_has_a_conversation_with_tools(model: SimulatedModel, name: str, stream: bool) -> None:
    said = TALKERS[name](model.url, stream)
    rounds = [[("get_weather", {"city": city}) for city in CITIES], [("get_weather", {"city": "Kyoto"})]]
    assert said == Said(rounds, THOUGHT, ANSWER)
    assert model.problems == []


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "settings",
    [{"stateful": True}, {"store": False, "include": ["reasoning.encrypted_content"]}],
    ids=["by its id", "nothing kept"],
)
def test_responses_are_remembered_or_carried_along(
    model: SimulatedModel, settings: dict[str, Any], stream: bool
) -> None:
    assert talk_responses(model.url, stream, **settings).text == ANSWER
    assert model.problems == []
