"""Clients by the names that other libraries gave them, and one of several that works."""

import json
from typing import Any

import pytest

from tests.client.canned import Canned
from tests.client.faces import FACES, KEY, TOKYO, awaited, get_weather
from toolwire import Error, Response, aio, dialect
from toolwire.client import sync
from toolwire.client.factory import LLMFactory, LLMResponse
from toolwire.client.failures import AllFailed, AuthenticationFailed
from toolwire.loop import Done
from toolwire.providers import PROVIDERS, UnknownProvider
from toolwire.testing import Fail, simulate
from toolwire.types import TextDelta, ToolCall

BASH: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Execute shell command",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
@pytest.mark.row("R001-01", "R001-55", "R001-56", "R001-57", "R001-58", "R001-59", "R001-60")
def test_one_tool_in_one_spelling_is_called_through_three_providers(provider: str) -> None:
    with simulate([[ToolCall(None, "bash", {"command": "ls"})]]) as model:
        url = model.url + ("/v1" if provider == "ollama" else "")
        with LLMFactory.create(provider, base_url=url, api_key=KEY) as llm:
            response = llm.chat(messages=[{"role": "user", "content": "List the files."}], tools=[BASH])
    assert isinstance(response, Response)
    assert isinstance(response, LLMResponse)
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("bash", {"command": "ls"})]
    sent = model.requests[0].body["tools"]
    assert (sent == [BASH]) is (provider != "anthropic")


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("openai", "openai", "gpt-4o"),
        ("anthropic", "anthropic", "claude-sonnet-4-20250514"),
        ("ollama", "ollama-v1", "qwen2.5-coder:32b"),
        ("gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("claude-opus-4-20250514", "anthropic", "claude-opus-4-20250514"),
        ("llama3.1", "ollama-v1", "llama3.1"),
        ("groq/llama-4", "groq", "llama-4"),
        (None, "openai", "gpt-4o"),
    ],
)
@pytest.mark.row("I-25")
def test_a_name_means_a_provider_and_a_model(
    name: Any, provider: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("MODEL", "TOOLWIRE_MODEL", "VISHWA_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    made = LLMFactory.create(name)
    assert (made.provider.name, made.model) == (provider, model)
    monkeypatch.setenv("TOOLWIRE_MODEL", "anthropic/m")
    assert LLMFactory.create().provider.name == "anthropic"


@pytest.mark.row("R001-54", "I-23")
def test_a_response_is_made_and_read_as_others_do() -> None:
    call = ToolCall("call_1", "bash", {"command": "ls"})
    make: Any = LLMResponse
    made = make("I look.", [call], "tool_calls", "gpt-4o")
    assert isinstance(made, LLMResponse)
    assert (made.content, made.tool_calls, made.finish_reason) == ("I look.", [call], "tool_calls")
    empty = make()
    assert (empty.content, empty.tool_calls, empty.finish_reason, empty.model) == (None, [], "stop", "")
    for read, name in ((LLMResponse.from_openai, "openai"), (LLMResponse.from_anthropic, "anthropic")):
        body = dialect(name).encode_response(made).body
        found = read(body)
        assert isinstance(found, LLMResponse)
        assert (found.content, found.has_tool_calls(), found.tool_calls[0].name) == ("I look.", True, "bash")
    assert not isinstance("I look.", LLMResponse)


def test_a_name_that_means_nothing_lists_what_there_is() -> None:
    with pytest.raises(UnknownProvider, match=r"PROVIDER/gpt-nonsense\. Known: openai"):
        LLMFactory.create("gpt-nonsense")


def several(url: str, refusing: str) -> list[Any]:
    """Give two providers, of which the first refuses."""
    return [
        {"name": "anthropic", "base_url": refusing, "api_key": "wrong", "default_model": "a"},
        {"name": "openai", "base_url": url, "api_key": KEY, "default_model": "b"},
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("I-26")
def test_the_next_provider_is_asked_where_one_fails(face: str, shown: bool) -> None:
    with simulate([], api_key="right") as refusing, simulate([[TOKYO], ["Warm."]], api_key=KEY) as model:
        given: Any = several(model.url, refusing.url)
        told: list[Any] = []
        items: list[Any] = []
        settings: dict[str, Any] = {"tools": [get_weather], "on_event": told.append}
        if face == "sync":
            with sync.Client(given) as client:
                items = list(client.stream("?", **settings)) if shown else [client.run("?", **settings)]
        else:

            async def main() -> None:
                async with aio.Client(given) as client:
                    if shown:
                        items.extend([item async for item in client.stream("?", **settings)])
                    else:
                        items.append(await client.run("?", **settings))

            awaited(main())
    assert [item.ending for item in items if isinstance(item, Done)] == ["answer"]
    assert [event.ending for event in told if isinstance(event, Done)] == ["answer"]
    assert items[-1].content == "Warm."


def test_the_next_provider_reads_the_same_history() -> None:
    with simulate([], api_key="right") as refusing, simulate(["Warm."], api_key=KEY) as model:
        history: Any = iter(["How is it?"])
        with sync.Client(several(model.url, refusing.url)) as client:
            client.run("And now?", messages=history)
        assert [one["content"] for one in model.requests[0].body["messages"]] == ["How is it?", "And now?"]


@pytest.mark.row("I-26")
def test_all_that_failed_are_named() -> None:
    with (
        simulate([], api_key="right") as one,
        simulate([], api_key="right") as other,
        sync.Client(several(other.url, one.url)) as client,
        pytest.raises(AllFailed) as caught,
    ):
        client.chat("?")
    assert [type(cause) for cause in caught.value.causes] == [AuthenticationFailed] * 2
    assert "anthropic: " in str(caught.value)
    assert "openai: " in str(caught.value)
    assert KEY not in str(caught.value)


def test_nobody_else_is_asked_once_something_was_said() -> None:
    with simulate([["Half a", Fail(Error("server", "broken"))]]) as model, simulate([]) as other:
        given = several(other.url, model.url)
        given[0]["api_key"] = KEY
        with sync.Client(given) as client:
            items = list(client.stream("?"))
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == "Half a"
    assert items[-1].ending == "error"  # type: ignore[union-attr]
    assert other.requests == []


def test_the_factory_makes_one_of_several() -> None:
    made = LLMFactory.create_with_fallback(["anthropic", "gpt-4o", "ollama/m"])
    found = [(one.provider.name, one.model) for one in (made, *made.others)]
    assert found == [
        ("anthropic", "claude-sonnet-4-20250514"),
        ("openai", "gpt-4o"),
        ("ollama-v1", "m"),
    ]
    assert made.provider == PROVIDERS["anthropic"]


def test_a_model_of_the_call_is_for_the_first_alone() -> None:
    with simulate([], api_key="right") as refusing, simulate([["Hi."]], api_key=KEY) as model:
        given = several(model.url, refusing.url)
        with sync.Client(given) as client:
            client.chat("?", model="mine")
    assert model.requests[0].body["model"] == "b"


OPENAI = {
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
CLAUDE = {
    "content": [{"type": "tool_use", "id": "call_1", "name": "bash", "input": {"command": "ls"}}],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 1, "output_tokens": 2},
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("name", "body"), [("openai", OPENAI), ("anthropic", CLAUDE), ("ollama", OPENAI)])
@pytest.mark.row("R001-46", "R001-52", "R001-59")
def test_chat_converts_asks_and_reads_whatever_carries_it(name: str, body: dict[str, Any], face: str) -> None:
    transport: Any = Canned({"id": "1", "model": "m", **body})
    messages = [{"role": "user", "content": "List the files."}]
    if face == "sync":
        response = LLMFactory.create(name, transport=transport, api_key=KEY).chat(messages=messages, tools=[BASH])
    else:
        provider = LLMFactory.create(name).provider.name
        client = aio.Client(provider, "m", transport=transport, api_key=KEY)
        response = awaited(client.chat(messages=messages, tools=[BASH]))
    assert isinstance(response, LLMResponse)
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("call_1", "bash", {"command": "ls"})
    ]
    assert (response.content, response.finish_reason, response.model) == (None, "tool_calls", "m")
    assert response.usage is not None
    assert (response.usage["prompt_tokens"], response.usage["total_tokens"]) == (1, 3)
    [request] = transport.sent
    said = dict(BASH["function"])
    converted = {"input_schema": said.pop("parameters"), **said} if name == "anthropic" else BASH
    assert json.loads(request.body)["tools"] == [converted]


def test_a_model_that_has_the_name_of_its_provider_goes_by_all_of_it() -> None:
    assert LLMFactory.create("groq/groq/compound", api_key=KEY).model == "groq/compound"
