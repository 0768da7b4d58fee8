"""A conversation that changes its provider at every turn is taken by all, as this library writes it."""

import asyncio
import json
from typing import Any

import pytest

from tests.testing.asking import KEYS, USUAL_KEY
from tests.testing.sdks import MODELS, SCHEMA
from toolwire.dialects import NAMES, dialect
from toolwire.streams.accumulation import accumulate
from toolwire.testing.service import Service
from toolwire.types import (
    Context,
    Message,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)

pytestmark = pytest.mark.slow  # conversations are long

TOOLS = [Tool("get_weather", "The weather.", SCHEMA), Tool("find/flights", "Flights.", SCHEMA)]
ROUNDS = 20


def play(request: Request, turn: Any) -> list[Any]:
    """Think, and call one tool or two; every third time, answer."""
    city = {"city": f"City {turn.number}"}
    names = [tool.name for tool in request.tools if isinstance(tool, Tool)]
    if turn.number % 3 == 2:
        return [Thinking(text="Enough."), Text(text=f"Answer {turn.number}.")]
    called = [ToolCall(None, name, city) for name in names[: 1 + turn.number % 2]]
    return [Thinking(text="I look."), Text(text="One moment."), *called]


def answer_to(service: Service, name: str, request: Request) -> Response:
    """Send a request in one dialect, and read the answer, whole or as a stream."""
    wire = dialect(name)
    encoded = wire.encode_request(request)
    path = encoded.path if name != "gemini" or not request.stream else f"{encoded.path.partition('?')[0]}?alt=sse"
    received = service.receive("POST", path, KEYS.get(name, USUAL_KEY))
    reply = asyncio.run(service.answer(received, encoded.json))
    data = b"".join(piece for piece in reply.pieces if isinstance(piece, bytes))
    assert received.refused is None, (name, received.refused)
    if not request.stream:
        return wire.decode_response(json.loads(data))
    decoder = wire.decode_stream()
    return accumulate([*decoder.feed(data), *decoder.close()])


def converse(order: list[str], *, stream: bool) -> tuple[list[Message], Service]:
    """Have a conversation, each turn with the next provider."""
    service, messages = Service(play), [Message("How is the weather?")]
    for place in range(ROUNDS):
        name = order[place % len(order)]
        context = Context(system="Be brief.", messages=list(messages), tools=TOOLS)
        asked = Request(context=context, model=MODELS[name], max_tokens=4000, stream=stream)
        answered = answer_to(service, name, asked)
        messages.append(answered.message)
        if answered.tool_calls:
            messages += [
                Message("tool", [ToolResult(call.id, call.name, f"{call.arguments['city']}: sunny")])
                for call in answered.tool_calls
            ]
        else:
            messages.append(Message("And then?"))
    return messages, service


ORDERS = [[first, second] for first in NAMES for second in NAMES if first < second] + [
    list(NAMES),
    [*NAMES[::-1]],
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_a_conversation_that_changes_its_provider_is_taken(order: list[str], stream: bool) -> None:
    messages, service = converse(order, stream=stream)
    calls = [call for message in messages for call in message.tool_calls]
    assert service.problems == []
    assert len(calls) == sum(1 + place % 2 for place in range(ROUNDS) if place % 3 != 2)
    assert {call.name for call in calls} == {"get_weather", "find/flights"}


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_that_stays_is_taken_with_its_thinking(name: str) -> None:
    messages, service = converse([name], stream=True)
    assert service.problems == []
    thoughts = [part for message in messages for part in message.parts if isinstance(part, Thinking)]
    assert len(thoughts) == ROUNDS


def test_a_turn_that_is_lost_is_noticed() -> None:
    """A control: the same conversation with one result taken out is refused."""
    messages, service = converse(["openai-chat"], stream=False)
    place = next(place for place, message in enumerate(messages) if message.role == "tool")
    body = dialect("openai-chat").encode_request(Request(context=Context(messages=messages), model="gpt-4.1")).body
    body["messages"] = [each for each in body["messages"] if each != body["messages"][place]]
    received = service.receive("POST", "/v1/chat/completions", USUAL_KEY)
    reply = asyncio.run(service.answer(received, json.dumps(body).encode()))
    assert reply.status == 400
