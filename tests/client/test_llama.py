"""Our clients against a real llama.cpp server; `scripts/llama-server` says how.

What a model says is its own affair, a random one's above all. So what is asserted is the form of what comes,
and, where the server can hold a model to something (a schema, a required call), that it is kept to.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client.faces import FACES, awaited, legal
from toolwire import AnyMessage, Message, Output, TextDelta, ToolCall, ToolChoice, ToolResult, aio, tool
from toolwire.client import sync
from toolwire.client.exchange import Retries
from toolwire.client.failures import ContextTooLong, ProviderUnavailable, RequestRefused
from toolwire.loop import Done, LoopLimits

URL = os.environ.get("TOOLWIRE_LLAMA_URL", "").rstrip("/")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not URL, reason="TOOLWIRE_LLAMA_URL names no llama.cpp server"),
]
SHORT: dict[str, Any] = {"max_tokens": 200, "seed": 1, "temperature": 0}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
ANSWERED = {"stop", "length", "tool_calls"}
RUN: list[tuple[str, Any]] = []


@tool
def look(number: int) -> str:
    """Look at a thing."""
    RUN.append(("look", number))
    return f"thing {number}"


@tool
def weigh(number: int) -> str:
    """Weigh a thing."""
    RUN.append(("weigh", number))
    return f"{number} grams"


@pytest.fixture(params=FACES)
def ask(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Ask once, in sync or in async code."""
    options: dict[str, Any] = {"base_url": f"{URL}/v1"}
    if request.param == "sync":
        with sync.Client("llama.cpp", "any", **options) as client:
            yield client.chat
        return

    async def chat(messages: Any, **settings: Any) -> Any:
        async with aio.Client("llama.cpp", "any", **options) as client:
            return await client.chat(messages, **settings)

    yield lambda messages, **settings: awaited(chat(messages, **settings))


def lead(prompt: Any, *, shown: bool, **settings: Any) -> tuple[Done, list[Any]]:
    """Lead a conversation; gives its end and what was shown."""
    given = {"model": "any", "options": {"base_url": f"{URL}/v1"}, **SHORT, **settings}
    if not shown:
        return sync.generate(prompt, "llama.cpp", **given), []
    stream = sync.stream(prompt, "llama.cpp", **given)
    items = list(stream)
    assert stream.done is not None
    return stream.done, items


def test_a_chat_is_answered(ask: Any) -> None:
    response = ask("Hello.", **SHORT)
    assert response.message.role == "assistant"
    assert response.finish_reason in ANSWERED
    assert response.usage.input_tokens > 0
    assert response.usage.output_tokens > 0
    assert response.model


@pytest.mark.parametrize("words", [["Hi", Message("assistant", "Hello."), "And you?"], ["One", "Two"]])
def test_a_history_is_taken(ask: Any, words: list[Any]) -> None:
    assert ask(words, system="Be brief.", **SHORT).finish_reason in ANSWERED


def test_a_stream_shows_what_the_answer_says() -> None:
    done, items = lead("Hello.", shown=True)
    words = "".join(item.text for item in items if isinstance(item, TextDelta))
    assert done.error is None
    assert done.response is not None
    assert done.response.usage is not None
    assert done.response.usage.total_tokens > 0
    assert words == (done.response.content or "")


def test_a_required_call_comes_and_fits_its_tool(ask: Any) -> None:
    response = ask("Look at thing 3.", tools=[look, weigh], tool_choice="required", **SHORT)
    assert response.finish_reason == "tool_calls"
    assert response.broken_calls == []
    for call in response.tool_calls:
        assert (call.name in {"look", "weigh"}, call.arguments.keys(), bool(call.id)) == (
            True,
            {"number"},
            True,
        )
    assert response.tool_calls


@pytest.mark.parametrize("name", ["look", "weigh"])
def test_a_choice_by_name_is_kept_to(ask: Any, name: str) -> None:
    """The server passes over a choice that names a tool; so only that one is offered."""
    response = ask("Go.", tools=[look, weigh], tool_choice=ToolChoice("required", [name]), **SHORT)
    assert {call.name for call in response.tool_calls} == {name}


def test_no_call_comes_where_none_may(ask: Any) -> None:
    assert ask("Look at thing 3.", tools=[look], tool_choice="none", **SHORT).tool_calls == []


@pytest.mark.parametrize("shown", [False, True])
def test_tools_are_run_and_the_history_stays_legal(shown: bool) -> None:
    RUN.clear()
    limits = LoopLimits(turns=3, repeats=2)
    prompt = "Look at thing 3."
    done, items = lead(prompt, shown=shown, tools=[look, weigh], tool_choice="required", limits=limits, max_tokens=400)
    assert done.error is None
    assert RUN
    assert legal(done.messages)
    results = [part for message in done.messages for part in message.parts if type(part) is ToolResult]
    assert [result.content for result in results if not result.is_error][:1] == [
        f"thing {RUN[0][1]}" if RUN[0][0] == "look" else f"{RUN[0][1]} grams"
    ]
    if shown:
        assert [type(item) for item in items if isinstance(item, ToolCall | ToolResult)][:2] == [
            ToolCall,
            ToolResult,
        ]


BROKEN: list[AnyMessage] = [
    "Look.",
    Message("assistant", [ToolCall.parse("c1", "look", '{"number": ')]),
    Message("tool", "Those are no arguments.", "look", "c1"),
    Message("assistant", [ToolCall("c2", "look", {})]),
    Message("tool", "A number is missing.", "look", "c2"),
]


def test_a_call_that_came_broken_can_stay_in_the_history(ask: Any) -> None:
    """The server fails at argument text that is no JSON; so no arguments are sent."""
    assert ask(BROKEN, tools=[look], **SHORT).finish_reason in ANSWERED


def test_the_server_still_fails_at_broken_arguments() -> None:
    """A control: should this fail one day, the quirk of the preset can go."""
    options: dict[str, Any] = {"quirks": {"arguments_json": False}, "retries": Retries(attempts=1)}
    with (
        sync.Client("llama.cpp", "any", base_url=f"{URL}/v1", **options) as client,
        pytest.raises(ProviderUnavailable, match="arguments"),
    ):
        client.chat(BROKEN, tools=[look], **SHORT)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_held_to_a_schema(stream: bool) -> None:
    done, _ = lead("The weather.", shown=stream, output=Output("schema", SCHEMA, "weather"))
    assert done.ending == "answer"
    value = json.loads(done.content or "")
    assert (value.keys(), type(value["city"]), type(value["degrees"])) == ({"city", "degrees"}, str, int)


def test_any_json_can_be_asked_for(ask: Any) -> None:
    response = ask("Anything.", output=Output("json"), **SHORT)
    if response.finish_reason == "stop":
        json.loads(response.content or "")


@pytest.mark.parametrize("shown", [False, True])
def test_tools_can_be_told_of_in_the_text(shown: bool) -> None:
    """Whether a model keeps to the protocol is its own affair; nothing is offered on the wire either way."""
    done, _ = lead(
        "Look at thing 3.",
        shown=shown,
        tools=[look],
        limits=LoopLimits(turns=2),
        options={"base_url": f"{URL}/v1", "capabilities": {"native_tool_calls": False}},
    )
    assert done.error is None
    assert legal(done.messages)


def test_what_is_too_long_is_said_to_be(ask: Any) -> None:
    with pytest.raises(ContextTooLong) as raised:
        ask("word " * 200_000, **SHORT)
    assert raised.value.status == 400


def test_what_is_wrong_is_refused(ask: Any) -> None:
    with pytest.raises(RequestRefused) as raised:
        ask("Hi", output=Output("schema", {"type": "nonsense"}, "n"), **SHORT)
    assert (raised.value.status, raised.value.provider) == (400, "llama.cpp")


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with (
        sync.Client("llama.cpp", "any", base_url="http://127.0.0.1:9/v1") as client,
        pytest.raises(ProviderUnavailable),
    ):
        client.chat("Hi")
