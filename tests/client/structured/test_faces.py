"""Structured output through both faces: `generate`, `run` and `stream`, on every provider."""

import asyncio
from typing import Any

import pytest

from tests.client.faces import FACES, KEY, legal, options_at
from tests.client.structured.test_conversations import BAD, GOOD, answers
from tests.client.structured.wanting import MODELS, Point
from toolwire import Message, Output, TextDelta, ToolCall, aio, tool
from toolwire.client import sync
from toolwire.errors import InvalidField, NoStructuredOutput
from toolwire.loop import Done
from toolwire.loop.steps import ANSWER
from toolwire.testing import Finish, simulate

WITHOUT: dict[str, dict[str, bool]] = {
    "native": {},
    "tool": {"structured_output": False},
    "instruction": {"structured_output": False, "native_tool_calls": False},
}
EITHER = ("native", "tool", "instruction")


@tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


def asked(face: str, name: str, url: str, **settings: Any) -> Any:
    """Ask for a point."""
    given = {"options": {"base_url": url, "api_key": KEY}, "output": Point, **settings}
    prompt = given.pop("prompt", "Where?")
    if face == "sync":
        return sync.generate(prompt, name, MODELS[name], **given)
    return asyncio.run(aio.generate(prompt, name, MODELS[name], **given))


def kinds_of(name: str) -> list[str]:
    """Say which ways a provider can be made to take by what is said of it."""
    return [kind for kind in EITHER if not (name == "ollama" and kind == "tool")]


CASES = [(name, kind) for name in MODELS for kind in kinds_of(name)]


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.row("R001-10", "I-34")
def test_a_value_of_the_type_comes_back(name: str, kind: str, face: str) -> None:
    """Each provider, each way, with a bad answer first."""
    with simulate(answers(kind, BAD, GOOD)) as model:
        assert asked(face, name, model.url, capabilities=WITHOUT[kind]) == Point(1, 2)
    assert len(model.requests) == 2
    sent = model.requests[-1].body
    assert (ANSWER in str(sent)) is (kind == "tool")


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_tools_are_run_before_the_answer(name: str, kind: str, face: str) -> None:
    first = [[ToolCall(None, "get_weather", {"city": "Oslo"})]]
    capabilities = {**WITHOUT[kind], "native_tool_calls": True}
    if kind == "instruction":
        capabilities["tool_choice"] = False
    if name == "ollama" and kind == "native":
        kind = "instruction"  # with tools, its form keeps the model from calling them
    with simulate([*first, *answers(kind, GOOD)]) as model:
        value = asked(face, name, model.url, tools=[get_weather], capabilities=capabilities)
    assert value == Point(1, 2)


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_run_gives_the_end_with_the_value_and_a_history_without_the_tool(name: str, kind: str, shown: bool) -> None:
    told: list[Any] = []
    with simulate([*answers(kind, BAD, GOOD), "You are welcome."]) as model:
        options = {**options_at(name, model.url), "capabilities": WITHOUT[kind]}
        with sync.Client(name, MODELS[name], **options) as client:
            if shown:
                stream = client.stream("Where?", output=Point, on_event=told.append)
                items = list(stream)
                done: Any = stream.done
            else:
                items = []
                done = client.run("Where?", output=Point, on_event=told.append)
            assert isinstance(done, Done)
            assert (done.ending, done.output) == ("answer", Point(1, 2))
            assert done.calls == done.tool_calls == []
            assert legal(done.messages)
            assert ANSWER not in repr((done, items))
            assert not any(isinstance(item, ToolCall) for item in items)
            history = [Message("Where?"), *done.messages]
            assert client.run("Thanks.", messages=history).content == "You are welcome."


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_mending_is_bounded(name: str, kind: str, face: str) -> None:
    with simulate(answers(kind, BAD, BAD, BAD)) as model, pytest.raises(NoStructuredOutput) as caught:
        asked(face, name, model.url, capabilities=WITHOUT[kind])
    assert len(model.requests) == 3
    assert (caught.value.kind, "x" in caught.value.problems[0]) == ("invalid", True)
    assert caught.value.response is not None


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", MODELS)
def test_an_answer_that_was_cut_off_is_none(name: str, face: str) -> None:
    with simulate([['{"x": 1,', Finish("length")]]) as model, pytest.raises(NoStructuredOutput) as caught:
        asked(face, name, model.url)
    assert caught.value.kind == "cut_off"
    assert len(model.requests) == 1


def test_a_setting_of_the_wire_stays_one() -> None:
    with (
        simulate(['{"x": 1}']) as model,
        sync.Client("openai", "m", **options_at("openai", model.url)) as client,
    ):
        done = client.run("Where?", output=Output("json"))
    assert (done.content, done.output) == ('{"x": 1}', None)
    assert model.requests[0].body["response_format"] == {"type": "json_object"}


def test_any_annotation_may_be_wanted() -> None:
    with simulate(['{"value": [1, 2]}', '{"value": null}']) as model:
        options = {"base_url": model.url, "api_key": KEY}
        assert sync.generate("?", "openai", "m", output=list[int], options=options) == [1, 2]
        assert sync.generate("?", "openai", "m", output=int | None, options=options) is None


def test_words_of_a_stream_are_shown_as_they_come() -> None:
    with (
        simulate(['{"x": 1, "y": 2}']) as model,
        sync.Client("openai", "m", **options_at("openai", model.url)) as client,
    ):
        items = list(client.stream("Where?", output=Point))
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == '{"x": 1, "y": 2}'
    assert isinstance(items[-1], Done)
    assert items[-1].output == Point(1, 2)


def test_an_end_of_ones_own_is_refused_beside_it() -> None:
    with pytest.raises(InvalidField, match="terminal_tool"):
        sync.Client("openai", "m").run("?", output=Point, terminal_tool="finish")
