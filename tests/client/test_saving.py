"""Conversations that are saved, loaded, and gone on with elsewhere; and those that a provider keeps."""

import json
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, KEY, TOKYO, get_weather, lead, legal, options_at, with_history
from toolwire import Context, Image, Message, Text, Thinking, Tool, ToolCall, ToolResult
from toolwire.client import sync
from toolwire.client.saving import load, save
from toolwire.errors import InvalidBody, InvalidField
from toolwire.loop import Done
from toolwire.testing import Expect, simulate
from toolwire.types import Opaque

CONTEXT = Context(
    "Be brief.",
    [
        Message("Hi"),
        Message(
            "assistant",
            [Thinking("Hm.", signature="sig"), Text("Yes."), ToolCall("c1", "f", {"a": [1, 2.5]})],
        ),
        Message("tool", [ToolResult("c1", "f", [Text("ok"), Image(data="aGk=", media_type="image/png")])]),
        Message("user", [Text("And?", opaque=Opaque("anthropic", {"x": None}))]),
    ],
    [Tool("f", "Does it.", {"type": "object"}, {"parallel": True})],
    {"previous_response_id": "resp_1"},
)


def test_what_is_loaded_is_what_was_saved() -> None:
    text = save(CONTEXT, "openai-responses", "gpt-5")
    found = load(text)
    assert (found.context, found.provider, found.model) == (CONTEXT, "openai-responses", "gpt-5")
    assert json.loads(text)["version"] == 1
    assert save(found.context, found.provider, found.model) == text


def test_the_mark_of_an_editor_is_passed_over() -> None:
    text = save(CONTEXT)
    assert load("\ufeff" + text) == load(b"\xef\xbb\xbf" + text.encode()) == load(text)


def test_what_json_cannot_hold_is_refused() -> None:
    odd = Message("assistant", [ToolCall("c", "f", {"a": float("nan")})])
    with pytest.raises(InvalidField, match=r"context\.messages\[1\]"):
        save(Context(None, [Message("Hi"), odd]))
    with pytest.raises(InvalidBody):
        save(Context(None, [Message("assistant", [ToolCall("c", "f", {"a": object()})])]))
    with pytest.raises(InvalidBody):
        save(Context(None, [Message("\ud800")]))


@pytest.mark.parametrize(
    "text", ["", "[", "[]", "{}", '{"context": 3}', '{"version": 2, "context": {}}', b"\xff", '{"\ud800": 1}']
)
def test_what_was_not_saved_here_is_refused(text: Any) -> None:
    with pytest.raises((InvalidField, InvalidBody)):
        load(text)


def test_losses_are_said_before_it_is_gone_on_with() -> None:
    saved = load(save(CONTEXT, "openai-responses"))
    context, losses = saved.at("anthropic")
    assert context.provider_state is None
    assert "provider_state.previous_response_id" in [loss.path for loss in losses]
    same, _ = saved.at("openai-responses")
    assert same.provider_state == {"previous_response_id": "resp_1"}


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_a_conversation_goes_on_at_another_provider(source: str, target: str, face: str) -> None:
    context = Context("Be brief.", [Message("Weather in Tokyo?")], [get_weather.definition()])
    with simulate([[Thinking("I look."), TOKYO], ["25 degrees."]], api_key=KEY) as model:
        done = lead(face, source, model.url, context, tools=[get_weather]).done
        text = save(with_history(Context("Be brief.", context.messages), done), source)
        assert KEY not in text
        found, losses = load(text).at(target)
        model.play([[Expect(last="And now?"), TOKYO], ["26 degrees."]])
        messages = [*found.messages, Message("And now?")]
        led = lead(face, target, model.url, Context(found.system, messages), tools=[get_weather])
        assert [received.refused for received in model.requests] == [None] * 4
    assert led.done.content == "26 degrees."
    said = [loss for loss in losses if loss.concept != "provider_state"]
    assert {loss.path for loss in said} <= {loss.path for loss in led.done.losses}
    if source == target:
        assert [loss for loss in said if loss.severity == "semantic"] == []


@pytest.mark.parametrize("shown", [False, True])
def test_a_conversation_changes_its_provider_at_every_turn(shown: bool) -> None:
    """Ten turns with tools over all five wires, each request taken by a strict server."""
    context = Context("Be brief.", [])

    def plays(request: Any, _turn: Any) -> list[Any]:
        last = request.messages[-1]
        if any(type(part) is ToolResult for part in last.parts):
            return [Thinking("It is told."), f"It is warm, {len(request.messages)}."]
        calls = [ToolCall(None, "get_weather", {"city": city}) for city in ("Tokyo", "Oslo")]
        return [Thinking("I look."), "I look. ", *calls]

    with simulate(plays, api_key=KEY) as model:
        for turn in range(10):
            name = DIALECTS[turn % len(DIALECTS)]
            context = Context(context.system, [*context.messages, Message(f"Question {turn}?")])
            led = lead(FACES[turn % 2], name, model.url, context, shown=shown, tools=[get_weather])
            assert led.done.ending == "answer", (turn, name, led.done)
            context = load(save(with_history(context, led.done), name)).at(DIALECTS[(turn + 1) % 5])[0]
            assert legal(context.messages)
        assert [received.refused for received in model.requests] == [None] * 20
    results = [part for message in context.messages for part in message.parts if type(part) is ToolResult]
    assert [part.content for part in results] == ["25 degrees in Tokyo", "25 degrees in Oslo"] * 10
    asked = [message.text for message in context.messages if message.role == "user"]
    assert asked == [f"Question {turn}?" for turn in range(10)]


@pytest.mark.row("R003-08", "R003-55")
class TestProviderState:
    """Only new items are sent, to whoever keeps the others."""

    @pytest.mark.sampled
    @pytest.mark.parametrize("face", FACES)
    @pytest.mark.parametrize("shown", [False, True])
    def test_only_new_items_are_sent(self, face: str, shown: bool) -> None:
        with simulate([["Hi Ann."], [TOKYO], ["25 degrees."], ["Ann."]]) as model:
            context = Context(None, [Message("I am Ann.")], provider_state={})
            for question in ("Weather?", "Who am I?", None):
                done = lead(face, "openai-responses", model.url, context, shown=shown, tools=[get_weather]).done
                context = with_history(context, done)
                context = Context(
                    context.system, [*context.messages, Message(question or "")], (), context.provider_state
                )
            assert done.content == "Ann."
            bodies = [received.body for received in model.requests]
        assert "previous_response_id" not in bodies[0]
        assert all(body["previous_response_id"] for body in bodies[1:])
        kinds = [[item.get("type", "message") for item in body["input"]] for body in bodies if body["input"]]
        assert kinds[1:] == [["message"], ["function_call_output"], ["message"]]

    @pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "ollama"])
    def test_the_state_of_another_provider_is_refused(self, name: str) -> None:
        with simulate([]) as model, pytest.raises(InvalidField, match="previous_response_id"):
            lead("sync", name, model.url, CONTEXT)

    def test_without_state_all_is_sent(self) -> None:
        with simulate([["Hi Ann."], ["Ann."]]) as model:
            options = options_at("openai-responses", model.url)
            with sync.Client("openai-responses", "m", **options) as client:
                first: Done = client.run("I am Ann.")
                client.run("Who am I?", messages=[Message("I am Ann."), *first.messages])
            assert "previous_response_id" not in model.requests[1].body
            assert len(model.requests[1].body["input"]) == 3
