"""Blocks that change from request to request are named in the report, and nothing else is."""

import json
import random
from typing import Any

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES, post
from tests.gateway.test_losses import get
from toolwire import translate
from toolwire.gateway.prefix_cache import OwnerCache, PrefixCache
from toolwire.testing import Scenario

TARGETS = [wire for wire in WIRES if wire not in ("anthropic", "ollama")]  # translations for Ollama are not cached
LONG = "You are careful. " * 100


def messages_body(turn: int, system: list[str], first: list[str], *, call: str = "toolu_1") -> dict[str, Any]:
    """Return a turn of Messages: the marks move, and the history grows."""
    mark = {"cache_control": {"type": "ephemeral"}}
    history: list[Any] = [{"role": "user", "content": [{"type": "text", "text": text} for text in first]}]
    for before in range(turn):
        one = call if before == 0 else f"{call}_{before}"
        use = {"type": "tool_use", "id": one, "name": "look", "input": {"at": before}}
        result = {"type": "tool_result", "tool_use_id": one, "content": "seen"}
        history += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    history[-1]["content"][-1] |= mark
    blocks = [{"type": "text", "text": text, **(mark if turn % 2 else {})} for text in system]
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    return {"model": "m", "max_tokens": 9, "system": blocks, "tools": tools, "messages": history}


def chat_body(turn: int, system: list[str], first: list[str]) -> dict[str, Any]:
    messages: list[Any] = [{"role": "system", "content": text} for text in system]
    messages += [{"role": "user", "content": text} for text in first]
    for before in range(turn):
        function = {"name": "look", "arguments": json.dumps({"at": before})}
        call = {"id": f"call_{before}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "seen"})
    return {"model": "m", "messages": messages}


def responses_body(turn: int, system: list[str], first: list[str]) -> dict[str, Any]:
    items: list[Any] = [{"role": "developer", "content": text} for text in system[1:]]
    items += [{"role": "user", "content": text} for text in first]
    for before in range(turn):
        arguments = json.dumps({"at": before})
        items.append({"type": "function_call", "call_id": f"call_{before}", "name": "look", "arguments": arguments})
        items.append({"type": "function_call_output", "call_id": f"call_{before}", "output": "seen"})
    return {"model": "m", "instructions": system[0], "input": items}


BODIES: dict[str, Any] = {"anthropic": messages_body, "openai-chat": chat_body, "openai-responses": responses_body}
NAMED = {
    "anthropic": ("system[1]", "messages[0].content[0]"),
    "openai-chat": ("messages[1].content", "messages[2].content"),
    "openai-responses": ("messages[0].content", "messages[1].content"),
}


def named(held: OwnerCache, body: dict[str, Any], source: str = "anthropic", target: str = "gemini") -> list[str]:
    """Return the paths of the blocks that the report of a request names."""
    data = json.dumps(body).encode()
    losses = translate.exchange(data, source=source, target=target, model="m", translation_cache=held).encoded.losses
    found = [loss for loss in losses if loss.concept == "volatile"]
    assert all((loss.severity, loss.action) == ("formal", "kept") for loss in found)
    return [loss.path for loss in found]


@pytest.fixture
def held() -> OwnerCache:
    return PrefixCache(1 << 20).of("k1")


@pytest.mark.parametrize("source", BODIES)
def test_a_block_that_changes_is_named_from_the_second_call_on(source: str, held: OwnerCache) -> None:
    system, first = NAMED[source]
    target = "gemini"

    def at(turn: int, time: str, seen: str = "clean") -> list[str]:
        return named(held, BODIES[source](turn, [LONG, f"Now: {time}"], [f"State: {seen}", "Go."]), source, target)

    assert [at(0, "9:00"), at(0, "9:01"), at(1, "9:02")] == [[], [], []]  # without a call nothing is compared
    assert at(2, "9:03") == [system]
    assert at(3, "9:04", "dirty") == [system, first]
    assert at(4, "9:04", "dirty") == []
    assert at(5, "9:04", "clean") == [first]


def test_a_longer_conversation_that_does_not_change_names_nothing(held: OwnerCache) -> None:
    for turn in range(12):
        assert (
            named(held, messages_body(turn, [LONG, "Today's date is 2026-08-20."], ["# gitStatus: clean", "Go."])) == []
        )


def test_what_was_found_in_the_cache_repeats_no_report(held: OwnerCache) -> None:
    times = ["9:00", "9:01", "9:02", *["9:03"] * 9]
    reports = [named(held, messages_body(turn, [LONG, f"Now: {time}"], ["Go."])) for turn, time in enumerate(times)]
    assert reports[:4] == [[], [], ["system[1]"], ["system[1]"]]
    assert reports[4:] == [[]] * 8


def test_conversations_side_by_side_are_not_compared_with_each_other(held: OwnerCache) -> None:
    """Subagents share a session, and have another prompt and another task."""
    for turn in range(4):
        assert named(held, messages_body(turn, [LONG, "You lead."], ["Go."])) == []
        assert named(held, messages_body(turn, [LONG, "You search."], ["Find it."])) == []
        assert named(held, messages_body(turn, [LONG, "You test."], ["Go."], call="toolu_9")) == []
        assert named(PrefixCache(1 << 20).of("k2"), messages_body(turn, [LONG, "Else."], ["Go."])) == []


def test_a_request_that_is_sent_again_has_the_same_report(held: OwnerCache) -> None:
    for turn, time in ((1, "9:00"), (2, "9:01")):
        body = messages_body(turn, [LONG, f"Now: {time}"], ["Go."])
        reports = [named(held, body, target=target) for target in ("gemini", "openai-chat")]
    assert reports == [["system[1]"]] * 2


def test_of_more_or_fewer_blocks_the_first_that_differs_is_named(held: OwnerCache) -> None:
    assert named(held, messages_body(1, [LONG, "b", "c"], ["Go."])) == []
    assert named(held, messages_body(2, [LONG, "a", "b", "c"], ["Go."])) == ["system[1]"]
    assert named(held, messages_body(3, [LONG], ["Go."])) == []


def test_without_a_cache_or_on_one_wire_nothing_is_named(held: OwnerCache) -> None:
    for turn in range(1, 4):
        body = messages_body(turn, [LONG, f"Now: {turn}"], ["Go."])
        assert named(held, body, target="anthropic") == []
        losses = translate.exchange(json.dumps(body), source="anthropic", target="gemini", model="m").encoded.losses
        assert [loss for loss in losses if loss.concept == "volatile"] == []


def test_odd_beginnings_raise_nothing(held: OwnerCache) -> None:
    rng = random.Random(5)  # noqa: S311 - the same in each run
    odd = ["", [], [{"type": "text", "text": "\U0001f600"}], [{"type": "text", "text": ""}], LONG]
    for turn in range(60):
        body = messages_body(turn % 4, [LONG], ["Go."])
        body["system"] = rng.choice(odd)
        body["messages"][0]["content"] = rng.choice(odd)
        data = json.dumps(body).encode()
        translate.exchange(data, source="anthropic", target="gemini", model="m", translation_cache=held).encoded  # noqa: B018


@pytest.mark.parametrize("wire", TARGETS)
def test_the_report_of_a_request_names_what_changes(wire: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario(["Yes."], repeat=True)) as stood:
        found = []
        for turn in range(4):
            system = [f"x-anthropic-billing-header: cch={turn};", LONG, f"Now: {turn}"]
            body = messages_body(turn, system, ["Go."], call=f"toolu_{wire}")
            body["model"] = f"{NAMES[wire]}/m"
            answered = post(stood.url, "/v1/messages", json.dumps(body).encode())
            assert answered.status == 200, answered.data
            _, report = get(stood.url, f"/toolwire/requests/{answered.headers['x-toolwire-request']}/losses")
            found.append([loss["path"] for loss in report["losses"] if loss["concept"] == "volatile"])
            texts = json.dumps(stood.requests[-1].body)
            assert f"Now: {turn}" in texts  # it stays where it is
            assert texts.index(LONG) < texts.index("Now: ")
    assert found == [[], [], ["system[2]"], ["system[2]"]]
