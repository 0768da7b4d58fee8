"""What llama.cpp does otherwise than its dialect, as it was seen; `test_llama.py` asks a real server."""

from typing import Any

import pytest

from tests.client.faces import FACES, KEY, TOKYO, get_weather, lead
from toolwire import Context, Message, Request, Tool, ToolCall, ToolChoice, dialect, tool
from toolwire.providers import provider_of
from toolwire.providers.adapting import adapted
from toolwire.testing import Expect, simulate

LLAMA = provider_of("llama.cpp")[0]


@tool
def get_time(city: str) -> str:
    """Tell the time of a city."""
    return f"noon in {city}"


def declared(choice: ToolChoice | None) -> Request:
    tools = [get_weather.definition(), get_time.definition()]
    return Request(context=Context(None, [Message("Hi")], tools), model="m", tool_choice=choice)


@pytest.mark.parametrize(
    ("choice", "offered", "said"),
    [
        (None, ["get_weather", "get_time"], None),
        (ToolChoice("required"), ["get_weather", "get_time"], ToolChoice("required")),
        (ToolChoice("required", ["get_time"]), ["get_time"], ToolChoice("required")),
        (ToolChoice("auto", ["get_weather"]), ["get_weather"], ToolChoice("auto")),
        (ToolChoice("none"), ["get_weather", "get_time"], ToolChoice("none")),
    ],
)
def test_a_choice_by_name_is_said_by_what_is_offered(
    choice: ToolChoice | None, offered: list[str], said: ToolChoice | None
) -> None:
    """It passes over a choice that is an object, and knows the words."""
    given, losses = adapted(declared(choice), LLAMA)
    assert [tool.name for tool in given.tools if type(tool) is Tool] == offered
    assert given.tool_choice == said
    named = choice is not None and choice.names is not None
    assert [(loss.path, loss.severity) for loss in losses] == ([("tool_choice.names", "minor")] if named else [])
    assert adapted(declared(choice), provider_of("openai")[0]) == (declared(choice), ())


@pytest.mark.parametrize(("raw", "lost"), [('{"city": ', True), ("Tokyo", True), ("[1]", True), ("", False)])
def test_broken_arguments_are_no_text_there(raw: str, lost: bool) -> None:
    """It fails at text that is no JSON, with an error that would be tried again."""
    history = [
        Message("Hi"),
        Message("assistant", [ToolCall.parse("c", "get_weather", raw)]),
        Message("tool", "What?", "get_weather", "c"),
    ]
    request = Request(context=Context(None, history), model="m")
    encoded = LLAMA.speaks().encode_request(request)
    [call] = encoded.body["messages"][1]["tool_calls"]
    assert call["function"] == {"name": "get_weather", "arguments": "{}"}
    assert [(loss.path, loss.concept) for loss in encoded.losses] == (
        [("messages[1].content[0].raw", "bad_arguments")] if lost else []
    )
    [usual] = dialect("openai-chat").encode_request(request).body["messages"][1]["tool_calls"]
    assert usual["function"]["arguments"] == raw


def test_too_long_is_told_from_wrong() -> None:
    body: Any = {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 9}}
    assert LLAMA.speaks().decode_error(400, body).kind == "context_length"


@pytest.mark.parametrize("face", FACES)
def test_a_conversation_there_goes_on_after_broken_arguments(face: str) -> None:
    broken = ToolCall.parse("c", "get_weather", '{"city": ')
    script = [[broken], [Expect(messages=3), TOKYO], ["Warm."]]
    with simulate(script, api_key=KEY) as model:
        led = lead(face, "llama.cpp", model.url, "Weather?", tools=[get_weather])
    assert (led.done.content, led.done.turns) == ("Warm.", 3)
    sent = model.requests[1].body["messages"][1]["tool_calls"][0]["function"]
    assert sent["arguments"] == "{}"
