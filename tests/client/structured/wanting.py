"""Types that are wanted as answers, requests for them, and the strict servers that judge what is sent."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from toolwire.client.structured import TOO_EARLY, AnswerProblems, OutputMethod, correction_text, is_answer
from toolwire.loop.steps import ANSWER
from toolwire.providers import PROVIDERS, Provider
from toolwire.testing.rules import ServerMemory, WireRequest
from toolwire.testing.wires import refusal
from toolwire.types import Context, Message, Request, Response, Text, Tool, ToolCall, ToolResult

NATIVE, STRICT = OutputMethod("native"), OutputMethod("native", strict=True)
TOOL, INSTRUCTION = OutputMethod("tool"), OutputMethod("instruction")
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
WEATHER = Tool("get_weather", "Tells the weather.", EMPTY)
MODELS = {
    "openai": "gpt-6-sol",
    "openai-responses": "gpt-6-sol",
    "anthropic": "claude-opus-5",
    "gemini": "gemini-3.5-flash",
    "ollama": "qwen3",
}


@dataclass
class Person:
    name: str
    age: int = 3
    tags: list[str] | None = None


class Point(msgspec.Struct):
    x: int
    y: int


class Film(TypedDict):
    title: str
    year: NotRequired[int]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Tree:
    name: str
    under: list["Tree"]


Size = Literal["small", "large"]


def asking(model: str = "m", tools: Any = (), **settings: Any) -> Request:
    return Request(model=model, context=Context("Be brief.", [Message("Hi")], list(tools)), **settings)


def answering(*parts: Any, finish: Any = "stop") -> Response:
    content = [Text(part) if isinstance(part, str) else part for part in parts]
    return Response.of(Message("assistant", content), finish)


def by_tool(raw: str, number: int = 1) -> ToolCall:
    return ToolCall.parse(f"c{number}", ANSWER, raw)


def sent(provider: Provider | str, request: Request) -> dict[str, Any]:
    """Encode a request, show it to the strict server of its vendor, and give the body that it took."""
    provider = PROVIDERS[provider] if isinstance(provider, str) else provider
    body: dict[str, Any] = provider.speaks().encode_request(request).body
    asked = WireRequest(provider.dialect, body, request.model or "", provider.headers, memory=ServerMemory())
    found = refusal(asked)
    assert found is None, found
    return body


def answer_to(call: ToolCall, problems: AnswerProblems) -> ToolResult:
    """Give the result of a call of the answer's tool whose answer is not taken, as the loop does."""
    words = TOO_EARLY if problems.kind == "unfinished" else correction_text(problems)
    return ToolResult(call.id, call.name, words, is_error=True)


def next_messages(response: Response, problems: AnswerProblems) -> list[Message]:
    """Give what follows an answer without other calls: results of the answer's tool, or words of the user."""
    results = [answer_to(part, problems) for part in response.parts if is_answer(part)]
    return [Message("tool", [result]) for result in results] or [Message("user", correction_text(problems))]
