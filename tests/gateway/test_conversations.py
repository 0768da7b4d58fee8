"""Conversations of Responses, asked by OpenAI's own client: gone on from by models of every wire, and forgotten."""

import threading
from typing import Any

import openai
import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, TWO_WIRES, WIRES
from tests.gateway.test_keys import Guarded, guarded
from tests.gateway.test_stored import asked, client_of, said
from toolwire.testing import Cut, Scenario
from toolwire.types import Text, ToolCall

__all__ = ["guarded"]

TOOL: Any = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_a_conversation_goes_on_with_a_model_of_any_wire(wire: str, stream: bool, strict_model: Playing) -> None:
    with strict_model([[Text("I look."), ToolCall(None, "look", {})], ["Two."], ["Three."]]) as stood:
        client = client_of(stood.url)
        made = client.conversations.create(
            items=[{"role": "user", "content": "My name is Ann."}], metadata={"topic": "names"}
        )
        body: Any = {"model": f"{NAMES[wire]}/m", "tools": [TOOL], "conversation": made.id, "store": False}
        first = asked(client, stream=stream, input="Hello", **body)
        [call] = [item for item in first.output if item.type == "function_call"]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "seen"}
        second = asked(client, stream=stream, input=[result], **body)
        third = asked(client, stream=stream, input="More", **{**body, "conversation": {"id": made.id}})
        assert (second.output_text, third.output_text) == ("Two.", "Three.")
        words = [text for _, text in said(stood.requests[2]) if text]
        assert words == ["My name is Ann.", "Hello", "I look.", "Two.", "More"]
        assert all("conversation" not in (one.body or {}) for one in stood.requests)
        kinds = [item.type for item in client.conversations.items.list(made.id, order="asc")]
        assert kinds == [
            *["message", "message", "message", "function_call"],
            *["function_call_output", "message", "message", "message"],
        ]


def test_a_conversation_is_shown_changed_and_forgotten(strict_model: Playing) -> None:
    with strict_model([]) as stood:
        client = client_of(stood.url)
        made = client.conversations.create(metadata={"topic": "names"})
        assert client.conversations.retrieve(made.id) == made
        assert client.conversations.update(made.id, metadata={"topic": "x"}).metadata == {"topic": "x"}
        users: Any = [{"role": "user", "content": f"{number}"} for number in range(5)]
        added = client.conversations.items.create(made.id, items=users)
        names: list[Any] = [item.id for item in added.data]
        assert len(set(names)) == 5
        page = client.conversations.items.list(made.id, limit=2)
        assert [item.id for item in page.data] == names[:2:-1]
        assert [item.id for item in page] == names[::-1]
        assert client.conversations.items.retrieve(names[1], conversation_id=made.id).id == names[1]
        client.conversations.items.delete(names[1], conversation_id=made.id)
        assert [item.id for item in client.conversations.items.list(made.id, order="asc")] == [names[0], *names[2:]]
        assert client.conversations.delete(made.id).deleted
        for ask in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
            with pytest.raises(openai.NotFoundError):
                ask(made.id)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"items": [{"role": "user", "content": "x"}] * 21}, "items"),
        ({"items": "x"}, "items"),
        ({"items": ["x"]}, "items"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ({"items": [{"role": "user", "content": "x" * (9 << 20)}]}, "items"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_path(body: Any, where: str, strict_model: Playing) -> None:
    with strict_model([]) as stood, pytest.raises(openai.BadRequestError, match=f"{where}: "):
        client_of(stood.url).conversations.create(**body)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"conversation": 1}, "conversation: "),
        ({"conversation": "conv_1", "previous_response_id": "resp_1"}, "previous_response_id: "),
        ({"background": True}, "background: "),
    ],
)
@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "openai-responses"])
def test_what_cannot_be_asked_is_refused_by_its_path(wire: str, more: Any, where: str, strict_model: Playing) -> None:
    with strict_model([]) as stood, pytest.raises(openai.BadRequestError, match=where):
        client_of(stood.url).responses.create(model=f"{NAMES[wire]}/m", input="Hello", **more)


def test_a_later_answer_is_not_for_keys_with_limits(guarded: Guarded) -> None:
    for limits, refused in (({"tokens": "100000/day"}, True), ({}, False)):
        client = client_of(guarded.stood.url, guarded.make(**limits))
        asking = pytest.raises(openai.BadRequestError, match="background: ") if refused else _nothing()
        with asking:
            client.responses.create(model="openai-responses/m", input="Hello", background=True)


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.parametrize("wire", TWO_WIRES)
def test_a_conversation_belongs_to_its_key(wire: str, guarded: Guarded) -> None:
    mine, yours = (client_of(guarded.stood.url, guarded.make()) for _ in range(2))
    made = mine.conversations.create(items=[{"role": "user", "content": "Mine."}])
    for ask in (
        lambda: yours.conversations.retrieve(made.id),
        lambda: yours.conversations.delete(made.id),
        lambda: yours.conversations.items.list(made.id),
        lambda: yours.responses.create(model=f"{NAMES[wire]}/m", input="Hello", conversation=made.id),
    ):
        with pytest.raises(openai.NotFoundError):
            ask()
    assert guarded.model.requests == []
    assert mine.conversations.retrieve(made.id).id == made.id


def test_an_answer_of_a_conversation_is_gone_on_from_with_all_of_it(strict_model: Playing) -> None:
    with strict_model([["One."], ["Two."]]) as stood:
        client = client_of(stood.url)
        made = client.conversations.create(items=[{"role": "user", "content": "Before."}])
        first = client.responses.create(model="anthropic/m", input="Hello", conversation=made.id)
        client.responses.create(model="gemini/m", input="More", previous_response_id=first.id)
        assert [text for _, text in said(stood.requests[1])] == ["Before.", "Hello", "One.", "More"]


def test_an_answer_of_a_conversation_does_not_repeat_it_and_does_not_bring_back_what_was_deleted(
    strict_model: Playing,
) -> None:
    with strict_model([["One."], ["Two."], ["Three."], ["Four."], ["Five."]]) as stood:
        client = client_of(stood.url)
        made = client.conversations.create(items=[{"role": "user", "content": "x" * 100_000}])
        names: list[Any] = [item.id for item in client.conversations.items.list(made.id)]
        first = client.responses.create(model="anthropic/m", input="Hello", conversation=made.id)
        client.conversations.items.create(made.id, items=[{"role": "user", "content": "Later."}])
        second = client.responses.create(model="anthropic/m", input="More", conversation=made.id)
        stored = stood.gateway.context.memory.bytes  # type: ignore[attr-defined]
        assert 100_000 < stored < 120_000, "each item is stored once"
        client.responses.create(model="gemini/m", input="On", previous_response_id=first.id)
        assert [text[:7] for _, text in said(stood.requests[-1])] == ["x" * 7, "Hello", "One.", "On"]
        third = client.responses.create(model="gemini/m", input="On", previous_response_id=second.id)
        texts = [text[:7] for _, text in said(stood.requests[-1])]
        assert "".join(texts) == "xxxxxxxHelloOne.Later.MoreTwo.On"
        client.conversations.items.delete(names[0], conversation_id=made.id)
        with pytest.raises(openai.BadRequestError) as lost:  # its place in the conversation is gone
            client.responses.create(model="gemini/m", input="On", previous_response_id=first.id)
        assert lost.value.code == "previous_response_not_found"
        stood.requests.clear()
        client.responses.create(model="gemini/m", input="End", previous_response_id=third.id)
        assert "".join(text for _, text in said(stood.requests[-1])) == "HelloOne.Later.MoreTwo.OnFour.End"


def test_an_answer_that_broke_off_adds_nothing(lenient_model: Playing) -> None:
    with lenient_model(Scenario([["One.", Cut()]], complete=False)) as stood:
        client = client_of(stood.url)
        made = client.conversations.create()
        with client.responses.stream(model="anthropic/m", input="Hello", conversation=made.id) as events:
            assert list(events)[-1].type == "response.failed"
        assert list(client.conversations.items.list(made.id)) == []


def test_answers_at_once_are_all_added(guarded: Guarded) -> None:
    key = guarded.make()
    made = client_of(guarded.stood.url, key).conversations.create()

    def ask(number: int) -> None:
        client_of(guarded.stood.url, key).responses.create(model="anthropic/m", input=f"{number}", conversation=made.id)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    listed: Any = list(client_of(guarded.stood.url, key).conversations.items.list(made.id, limit=100))
    assert len(listed) == 16
    assert sorted(item.content[0].text for item in listed if item.role == "user") == [str(one) for one in range(8)]
