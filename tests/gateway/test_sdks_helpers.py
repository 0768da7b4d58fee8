"""What the vendors' SDKs do for their users, through the gateway: answers read into types, and loops that run tools."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from pydantic import BaseModel, TypeAdapter

from tests.gateway.conftest import Playing
from tests.gateway.standing import NAMES, WIRES
from tests.gateway.talkers import Clients
from tests.gateway.test_sdks import MODELS, SIGNED, clients
from toolwire.testing import Expect, Raw, Scenario
from toolwire.types import Request, Thinking, ToolCall

__all__ = ["clients"]
ASKED: Any = [{"role": "user", "content": "Where?"}]


class City(BaseModel):
    """A city."""

    name: str
    people: int | None
    parts: list[str]


CITY = City(name="K\u00f6ln", people=None, parts=["Deutz", '"Altstadt"'])


def _chat(client: openai.OpenAI, model: str) -> Any:
    return client.chat.completions.parse(model=model, messages=ASKED, response_format=City).choices[0].message.parsed


def _chat_stream(client: openai.OpenAI, model: str) -> Any:
    with client.chat.completions.stream(model=model, messages=ASKED, response_format=City) as events:
        return events.get_final_completion().choices[0].message.parsed


def _responses(client: openai.OpenAI, model: str) -> Any:
    return client.responses.parse(model=model, input=ASKED, text_format=City).output_parsed


def _responses_stream(client: openai.OpenAI, model: str) -> Any:
    with client.responses.stream(model=model, input=ASKED, text_format=City) as events:
        return events.get_final_response().output_parsed


def _messages(client: anthropic.Anthropic, model: str, kind: Any = City) -> Any:
    return client.messages.parse(model=model, max_tokens=99, messages=ASKED, output_format=kind).parsed_output


def _messages_stream(client: anthropic.Anthropic, model: str, kind: Any = City) -> Any:
    with client.messages.stream(model=model, max_tokens=99, messages=ASKED, output_format=kind) as events:
        return events.get_final_message().parsed_output


def _gemini(client: genai.Client, model: str, kind: Any = City) -> Any:
    config = genai.types.GenerateContentConfig(response_mime_type="application/json", response_schema=kind)
    return client.models.generate_content(model=model, contents="Where?", config=config).parsed


def _ollama(client: Any, model: str, kind: Any = City) -> Any:
    read = TypeAdapter(kind)
    return read.validate_json(client.chat(model=model, messages=ASKED, format=read.json_schema()).message.content)


PARSERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "chat.completions.parse": ("openai-chat", _chat),
    "chat.completions.stream": ("openai-chat", _chat_stream),
    "responses.parse": ("openai-responses", _responses),
    "responses.stream": ("openai-responses", _responses_stream),
    "messages.parse": ("anthropic", _messages),
    "messages.stream": ("anthropic", _messages_stream),
    "response_schema": ("gemini", _gemini),
    "format": ("ollama", _ollama),
}


@pytest.mark.sampled
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("how", PARSERS)
def test_an_answer_is_read_into_a_type(how: str, wire: str, strict_model: Playing, clients: Clients) -> None:
    sdk, parse = PARSERS[how]
    turn: list[Any] = [Expect(where=lambda request: _schema(request.output)), CITY.model_dump_json()]
    with strict_model(Scenario([turn])) as stood:
        assert parse(clients.at(stood.url, sdk, "sync"), f"{NAMES[wire]}/{MODELS[wire]}") == CITY


CITIES, LISTED = [CITY, CITY], TypeAdapter(list[City])


def _listed_gemini_stream(client: genai.Client, model: str) -> Any:
    config = genai.types.GenerateContentConfig(response_mime_type="application/json", response_schema=list[City])
    chunks = client.models.generate_content_stream(model=model, contents="Where?", config=config)
    return LISTED.validate_json("".join(chunk.text or "" for chunk in chunks))


LISTS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "messages.parse": ("anthropic", partial(_messages, kind=list[City])),
    "messages.stream": ("anthropic", partial(_messages_stream, kind=list[City])),
    "response_schema": ("gemini", partial(_gemini, kind=list[City])),
    "response_schema, streamed": ("gemini", _listed_gemini_stream),
    "format": ("ollama", partial(_ollama, kind=list[City])),
}


@pytest.mark.sampled
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("how", LISTS)
def test_an_answer_is_read_into_a_list(how: str, wire: str, strict_model: Playing, clients: Clients) -> None:
    sdk, parse = LISTS[how]
    said = LISTED.dump_json(CITIES).decode()
    told = f'{{"value": {said}}}' if wire.startswith("openai") else said  # OpenAI refuses what is no object
    with strict_model(Scenario([[told]])) as stood:
        assert parse(clients.at(stood.url, sdk, "sync"), f"{NAMES[wire]}/{MODELS[wire]}") == CITIES


def _schema(output: Any) -> bool:
    return set(output.schema["properties"]) == {"name", "people", "parts"}


def get_weather(city: str, days: list[int]) -> str:
    """Say the weather.

    Args:
        city: where
        days: when
    """
    return f"{city} {days}: sunny"


def now() -> str:
    """Say the time."""
    return "noon"


RUN: dict[str, Callable[..., str]] = {"get_weather": get_weather, "now": now}


def _run_messages(client: Any, model: str, *, stream: bool) -> str:
    tools = [anthropic.beta_tool(get_weather), anthropic.beta_tool(now)]
    asked: Any = {"model": model, "max_tokens": 99, "messages": list(ASKED), "tools": tools}
    last: Any = None
    for turn in client.beta.messages.tool_runner(**asked, stream=stream):
        last = turn.get_final_message() if stream else turn
    return "".join(block.text for block in last.content if block.type == "text")


def _run_gemini(client: genai.Client, model: str, *, stream: bool) -> str:
    config = genai.types.GenerateContentConfig(tools=[get_weather, now])
    asked: Any = {"model": model, "contents": "Where?", "config": config}
    if stream:
        return "".join(chunk.text or "" for chunk in client.models.generate_content_stream(**asked))
    return client.models.generate_content(**asked).text or ""


def _run_chat(client: genai.Client, model: str, *, stream: bool) -> str:
    chat = client.chats.create(model=model, config=genai.types.GenerateContentConfig(tools=[get_weather, now]))
    if stream:
        return "".join(chunk.text or "" for chunk in chat.send_message_stream("Where?"))
    return chat.send_message("Where?").text or ""


def _run_ollama(client: Any, model: str, *, stream: bool) -> str:
    messages: list[Any] = list(ASKED)
    for _ in range(3):
        given = client.chat(model=model, messages=messages, tools=[get_weather, now], stream=stream)
        chunks = list(given) if stream else [given]
        calls = [call for chunk in chunks for call in chunk.message.tool_calls or ()]
        text = "".join(chunk.message.content or "" for chunk in chunks)
        if not calls:
            return text
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for call in calls:
            result = RUN[call.function.name](**call.function.arguments)
            messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    raise AssertionError


RUNNERS: dict[str, tuple[str, Callable[..., str]]] = {
    "tool_runner": ("anthropic", _run_messages),
    "generate_content": ("gemini", _run_gemini),
    "chats": ("gemini", _run_chat),
    "chat": ("ollama", _run_ollama),
}


def _thoughts(request: Request) -> str:
    return "".join(part.text for message in request.messages for part in message.parts if isinstance(part, Thinking))


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("how", RUNNERS)
def test_an_sdk_runs_the_tools_by_itself(
    how: str, wire: str, stream: bool, strict_model: Playing, clients: Clients
) -> None:
    calls = [ToolCall(None, "get_weather", {"city": "K\u00f6ln", "days": [1, 2]}), ToolCall(None, "now", {})]
    results = {"get_weather": "K\u00f6ln [1, 2]: sunny", "now": "noon"}
    back = Expect(results=results, where=lambda request: wire not in SIGNED or _thoughts(request) == "Both.")
    turns = [[Expect(tools=list(results)), Thinking("Both."), *calls], [back, "Done."]]
    with strict_model(Scenario(turns)) as stood:
        model = f"{NAMES[wire]}/{MODELS[wire]}"
        sdk, run = RUNNERS[how]
        assert run(clients.at(stood.url, sdk, "sync"), model, stream=stream) == "Done."


# A server that says that it calls, and has lost the end of what it calls with.
HALF = '{"city": "K\u00f6ln", "days": [1'


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_sdk_does_not_run_half_a_call(stream: bool, lenient_model: Playing, clients: Clients) -> None:
    ran: list[str] = []

    def get_weather(city: str, days: list[int] | None = None) -> str:
        """Say the weather."""
        ran.append(f"{city} {days}")
        return "sunny"

    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": HALF}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    shell: dict[str, Any] = {"id": "c", "created": 1, "model": "m", "object": "chat.completion"}
    told = {**shell, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    data = json.dumps(told).encode()
    if stream:
        chunks = [[{"index": 0, "delta": message, "finish_reason": None}]]
        chunks += [[{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]]
        frames = [{**shell, "object": "chat.completion.chunk", "choices": choices} for choices in chunks]
        data = b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames) + b"data: [DONE]\n\n"
    with lenient_model(Raw(data, content_type="text/event-stream" if stream else None)) as stood:
        client: Any = clients.at(stood.url, "anthropic", "sync")
        asked: Any = {"model": "openai/m", "max_tokens": 99, "messages": list(ASKED)}
        runner = client.beta.messages.tool_runner(**asked, tools=[anthropic.beta_tool(get_weather)], stream=stream)
        for turn in runner:
            last = turn.get_final_message() if stream else turn
        assert ran == []
        assert [block.type for block in last.content] == (["tool_use"] if stream else [])
        assert last.stop_reason == "max_tokens"
        assert len(stood.requests) == 1
