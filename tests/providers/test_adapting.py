"""Servers that do not know all of their dialect, and calls of a client that say otherwise."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.client.faces import DIALECTS, FACES, RUN, TOKYO, chat, get_weather, lead
from toolwire import Context, Message, Request, Tool, ToolCall, ToolChoice, catalogue, dialect, tool
from toolwire.client import sync
from toolwire.client.failures import ChoiceIgnored
from toolwire.encoding.quirks import PLAIN
from toolwire.loop import AskModel, Done, RunTools
from toolwire.providers import provider_of
from toolwire.providers.adapting import MOST_TOKENS, adapted
from toolwire.testing import Expect, simulate

LOOSE = ("ollama", "ollama-v1")


@tool
def get_time(city: str) -> str:
    """Tell the time of a city."""
    return f"noon in {city}"


def declared(**settings: Any) -> Request:
    """Make a request with two tools."""
    return Request(context=Context(None, [Message("Hi")], [get_weather.tool, get_time.tool]), model="m", **settings)


@pytest.mark.parametrize(
    ("choice", "offered"),
    [
        (None, ["get_weather", "get_time"]),
        (ToolChoice("auto"), ["get_weather", "get_time"]),
        (ToolChoice("required"), ["get_weather", "get_time"]),
        (ToolChoice("required", ["get_time"]), ["get_time"]),
        (ToolChoice("none"), []),
    ],
)
def test_a_server_without_tool_choice_is_offered_what_may_be_chosen(choice: Any, offered: list[str]) -> None:
    given, losses = adapted(declared(tool_choice=choice), provider_of("ollama-v1")[0])
    assert [tool.name for tool in given.tools if type(tool) is Tool] == offered
    assert given.tool_choice is None
    told = [loss.path for loss in losses]
    assert told == ([] if choice in (None, ToolChoice("auto")) else ["tool_choice"])


@pytest.mark.parametrize("name", ["openai", "anthropic", "ollama"])
def test_other_servers_are_asked_as_their_dialect_can(name: str) -> None:
    given = declared(tool_choice=ToolChoice("required"), max_tokens=9)
    assert adapted(given, provider_of(name)[0]) == (given, ())


BLANK, WORDS = {"type": "text", "text": " \n"}, {"type": "text", "text": "Hi. "}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "s"}
BLANKS: list[tuple[str, list[Any], list[int]]] = [
    ("claude-opus-4-5", [BLANK, CALL], [0]),
    ("claude-opus-4-5", [WORDS, BLANK, CALL], [1]),
    ("claude-opus-4-5", [THOUGHT, BLANK, THOUGHT, CALL], [1]),
    ("claude-opus-4-5", [BLANK], [0]),
    ("claude-opus-4-5", [WORDS, CALL], []),
    ("claude-sonnet-5-5", [THOUGHT, BLANK, CALL], [1]),
    ("claude-sonnet-5-5", [BLANK, THOUGHT, BLANK, CALL], [2]),
]


@pytest.mark.parametrize(("model", "blocks", "lost"), BLANKS)
def test_a_text_without_a_word_that_claude_wrote_is_not_sent_back(
    model: str, blocks: list[Any], lost: list[int]
) -> None:
    body = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn"}
    said = dialect("anthropic").decode_response(body).message
    request = Request(context=Context(messages=[Message("Hi"), said]), model=model)
    given, losses = adapted(request, provider_of("anthropic")[0])
    kept = [block for place, block in enumerate(blocks) if place not in lost]
    turns = dialect("anthropic").encode_request(given).body["messages"]
    assert turns[:2] == [{"role": "user", "content": "Hi"}, *([{"role": "assistant", "content": kept}] if kept else [])]
    assert [(loss.path, loss.severity) for loss in losses] == [(f"messages[1].content[{n}]", "minor") for n in lost]


@pytest.mark.parametrize("face", FACES)
def test_a_conversation_goes_on_after_a_text_without_a_word(face: str) -> None:
    with simulate([["\n\n", TOKYO], "Warm."]) as model:
        done = lead(face, "anthropic", model.url, "?", shown=True, tools=[get_weather]).done
    assert (done.content, done.messages[0].text) == ("Warm.", "\n\n")
    assert "messages[1].content[0]" in [loss.path for loss in done.losses]


@pytest.mark.parametrize(("asked", "written"), [(None, None), (1, 1), (65_536, 65_536), (128_000, 65_536)])
def test_a_model_is_not_asked_for_more_than_it_gives(asked: int | None, written: int | None) -> None:
    wire, provider = dialect("gemini"), provider_of("gemini")[0]
    model = next(known for known in catalogue.models() if known.max_output == 65_536)
    given = replace(declared(max_tokens=asked), model=model.name)
    told, losses = adapted(given, provider)
    assert told == replace(given, max_tokens=written)
    lost = [(loss.path, loss.action, loss.severity) for loss in losses]
    assert lost == [("max_tokens", "approximated", "minor")] * (asked != written)
    own = replace(wire.decode_request(wire.encode_request(given).body), model=model.name)
    assert adapted(own, provider) == (own, ())
    unknown = replace(given, model="unheard-of")
    assert adapted(unknown, provider) == (unknown, ())


@pytest.mark.parametrize("face", FACES)
def test_a_provider_that_has_to_be_told_is_told_what_the_catalogue_knows(face: str) -> None:
    [known, *_] = [model for model in catalogue.models() if "anthropic" in model.providers and model.max_output]
    for model, shown, tokens in (
        (known.name, False, MOST_TOKENS),
        (known.name, True, known.max_output),
        ("unheard-of", False, PLAIN.default_max_tokens),
    ):
        with simulate([["Hi."]]) as served:
            lead(face, "anthropic", served.url, "Hi", shown=shown, model=model)
        assert served.requests[0].body["max_tokens"] == tokens


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", LOOSE)
def test_a_call_that_has_to_come_is_asked_for_again(name: str, face: str) -> None:
    """Restrict, check, ask again; `chat` and the loop alike."""
    script = [["I would rather not."], [Expect(last="get_weather"), TOKYO], ["It is warm."]]
    with simulate(script[:2]) as model:
        response = chat(face, name, model.url, "Weather?", tools=[get_weather], tool_choice="required")
    assert [call.name for call in response.tool_calls] == ["get_weather"]
    assert len(model.requests) == 2
    with simulate(script) as model:
        done = lead(face, name, model.url, "Weather?", tools=[get_weather], tool_choice="required").done
    assert (done.ending, done.content, done.turns) == ("answer", "It is warm.", 3)


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", LOOSE)
def test_a_call_that_never_comes_is_an_error(name: str, face: str) -> None:
    with simulate([["I would rather not."]] * 6) as model:
        with pytest.raises(ChoiceIgnored, match="the model called no tool") as caught:
            chat(face, name, model.url, "Weather?", tools=[get_weather], tool_choice="required")
        assert caught.value.done.content == "I would rather not."
        done = lead(face, name, model.url, "Weather?", tools=[get_weather], tool_choice="get_weather").done
    assert (done.ending, done.turns) == ("error", 3)
    assert "get_weather" in done.reason


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R003-07")
def test_a_context_may_hold_tools_that_run(name: str, face: str) -> None:
    RUN.clear()
    declared_only = Tool("get_rain", "Tell the rain.", {"type": "object", "properties": {}})
    context = Context(None, [Message("Weather?")], [get_weather, declared_only])
    with simulate([[Expect(tools=["get_weather", "get_rain"]), TOKYO], ["It is warm."]]) as model:
        done = lead(face, name, model.url, context).done
    assert (RUN, done.content) == (["Tokyo"], "It is warm.")
    assert legal_context(context)


def legal_context(context: Context) -> bool:
    """Whether a context has its tools as declarations, whatever was given."""
    return all(type(tool) is Tool for tool in context.tools)


@pytest.mark.parametrize("answer", [True, False, "not on Sundays"])
@pytest.mark.parametrize("face", FACES)
def test_calls_are_approved_one_by_one(face: str, answer: Any) -> None:
    RUN.clear()
    asked: list[tuple[ToolCall, str]] = []

    def ask(call: ToolCall, shown: str) -> Any:
        asked.append((call, shown))
        return answer

    with simulate([[TOKYO], ["Done."]]) as model:
        done = lead(face, "openai", model.url, "?", tools=[get_weather], approve=ask).done
    assert [call.name for call, _ in asked] == ["get_weather"]
    assert "Tokyo" in asked[0][1]
    assert ["Tokyo"] * (answer is True) == RUN
    [result] = [part for message in done.messages for part in message.parts if hasattr(part, "is_error")]
    assert result.is_error is (answer is not True)
    if isinstance(answer, str):
        assert answer in result.content


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
def test_each_step_is_told_before_it_is_done(face: str, shown: bool) -> None:
    with simulate([[TOKYO], ["It is warm."]]) as model:
        led = lead(face, "anthropic", model.url, "?", shown=shown, tools=[get_weather])
    steps = [type(told) for told in led.told if isinstance(told, AskModel | RunTools | Done)]
    assert steps == [AskModel, RunTools, AskModel, Done]
    assert not any(isinstance(item, AskModel | RunTools) for item in led.items)


def test_what_is_learnt_of_a_model_is_not_told_to_other_clients() -> None:
    one, other = sync.Client("ollama", "m"), sync.Client("ollama", "m")
    one.upstream.text_call_models.add("m")
    assert other.upstream.text_call_models == set()
