"""Spans of a conversation: one for it, one for each exchange, one for each call, each of them ended."""

import builtins
import json
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.client.faces import FACES, lead
from toolwire import tool
from toolwire.client.spans import Spans
from toolwire.errors import MissingExtra, ToolwireError
from toolwire.loop.steps import AskModel, Broken, Cancelled, Done, RunTools
from toolwire.testing import Raw, simulate
from toolwire.types import (
    Choice,
    Context,
    Error,
    ErrorEnd,
    Message,
    MessageEnd,
    MessageStart,
    PartEnd,
    PartStart,
    Request,
    Response,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageDelta,
)
from toolwire.waiting.results import Ran

SECRET = "SENTINEL-5f2c9e1b7a"  # noqa: S105 - a stand-in
KEY = "sk-SENTINEL-5f2c9e1b7a"
CALLS = [ToolCall("a", "read", {"path": "x", "card": SECRET}), ToolCall("b", "list", {"n": 1})]
ASKED = Request(
    context=Context("Be kind.", [Message("user", f"Say {KEY}")]), model="m-1", max_tokens=5, temperature=0.5
)
FIRST = Response.of(Message("assistant", [*CALLS]), "tool_calls", model="m-1-1", id="r1", usage=Usage(3, 4))
LAST = Response.of(Message("assistant", f"It is {SECRET}."), "stop", model="m-1-1", id="r2", usage=Usage(5, 6))
RESULTS = [
    ToolResult("a", "read", f"read with {SECRET}"),
    ToolResult("b", "list", f"failed: Bearer {KEY}", is_error=True),
]
DONE = Done("answer", [], LAST, Usage(8, 10), 2)


class Told:
    """A tracer whose spans are kept."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")
        self.spans = Spans(self.tracer, provider="gemini", conversation_id="c", fields=["card"], **options)

    def count(self) -> list[Any]:
        """List the spans that begin from now on."""
        begun: list[Any] = []

        def begin(*given: Any, **more: Any) -> Any:
            begun.append(self.tracer.start_span(*given, **more))
            return begun[-1]

        self.spans._tracer = SimpleNamespace(start_span=begin)
        return begun

    def hear(self, *events: Any) -> "Told":
        for event in events:
            self.spans(event)
        return self

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> Any:
        return next(span for span in self.ended if span.name == name)


WHOLE = (AskModel(ASKED, 0), FIRST, RunTools(CALLS, 0), *RESULTS, AskModel(ASKED, 1), LAST, DONE)


def test_a_conversation_its_exchanges_and_its_calls_are_nested() -> None:
    told = Told().hear(*WHOLE)
    whole = told.named("invoke_agent")
    assert [span.name for span in told.ended] == [
        "chat m-1", "execute_tool read", "execute_tool list", "chat m-1", "invoke_agent",
    ]  # fmt: skip
    assert all(span.parent and span.parent.span_id == whole.context.span_id for span in told.ended if span is not whole)
    assert [span.kind.name for span in told.ended] == ["CLIENT", "INTERNAL", "INTERNAL", "CLIENT", "INTERNAL"]
    assert dict(told.ended[0].attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.conversation.id": "c",
        "gen_ai.request.model": "m-1",
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.id": "r1",
        "gen_ai.response.model": "m-1-1",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
    }
    assert dict(told.named("execute_tool list").attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.conversation.id": "c",
        "gen_ai.tool.name": "list",
        "gen_ai.tool.call.id": "b",
        "gen_ai.tool.type": "function",
        "error.type": "tool_error",
    }
    assert whole.attributes["gen_ai.usage.input_tokens"] == 8
    assert whole.status.status_code is StatusCode.UNSET


def test_what_was_said_is_told_only_if_it_is_asked_for() -> None:
    names = {name for span in Told().hear(*WHOLE).ended for name in span.attributes or {}}
    assert not any(word in name for name in names for word in ("messages", "arguments", "result", "instructions"))
    told = Told(content=True).hear(*WHOLE)
    asked = told.named("chat m-1").attributes
    assert json.loads(asked["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be kind."}]
    assert json.loads(asked["gen_ai.input.messages"])[0]["role"] == "user"
    assert json.loads(asked["gen_ai.output.messages"])[0]["finish_reason"] == "tool_calls"
    run = told.named("execute_tool read").attributes
    assert json.loads(run["gen_ai.tool.call.arguments"]) == {"path": "x", "card": "[hidden:card]"}
    assert json.loads(run["gen_ai.tool.call.result"]) == {"result": "read with [hidden]"}


ERROR = Error("rate_limit", f"too often with {KEY} and {SECRET}", 429)
RAN = [Ran(call, result, "denied", 4e9, 2.5) for call, result in zip(CALLS, RESULTS, strict=True)]
ENDINGS: dict[str, tuple[Any, ...]] = {
    "whole": WHOLE,
    "error": (AskModel(ASKED, 0), ERROR, Done("error", [], None, None, 1, "", ERROR)),
    "error without an outcome": (AskModel(ASKED, 0), Done("error", [], None, None, 1, "", ERROR)),
    "broken": (AskModel(ASKED, 0), Broken(FIRST, ERROR), Done("error", [], FIRST, None, 1, "", ERROR)),
    "cancelled": (AskModel(ASKED, 0), Cancelled(), Done("cancelled", [])),
    "cancelled tools": (*WHOLE[:4], Done("cancelled", [], FIRST)),
    "limit": (*WHOLE[:-2], Done("limit", [], FIRST, reason=SECRET)),
    "stream": (
        *(AskModel(ASKED, 0), MessageStart(response=Response()), PartStart(key=0, part=Text(""))),
        *(TextDelta(key=0, text=SECRET), PartEnd(key=0, part=Text("")), MessageEnd(), DONE),
    ),
    "stream with an error": (
        *(AskModel(ASKED, 0), MessageStart(response=Response()), ErrorEnd(error=ERROR)),
        *(MessageEnd(complete=False), Done("error", [], None, None, 1, "", ERROR)),
    ),
    "ran": (*WHOLE[:3], *RAN, *RESULTS, *WHOLE[5:]),
    "abandoned": WHOLE[:3],
    "names": (AskModel(ASKED, 0), RunTools([ToolCall(KEY, KEY, {KEY: KEY})], 0), DONE),
    "nothing but the end": (DONE,),
    "strange": ("x", None, RESULTS[0], FIRST, MessageEnd(), DONE),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.row("L1", "L6")
def test_whatever_ends_it_every_span_is_ended_and_none_has_a_secret(ending: str, content: bool) -> None:
    """Names, texts, attributes and the words of a status."""
    told = Told(content=content, secrets=[SECRET])
    started = told.count()
    told.hear(*ENDINGS[ending])
    told.spans.close()
    assert len(told.ended) == len(started)
    assert not any("SENTINEL" in span.to_json() for span in told.ended)
    assert told.spans._conversation is told.spans._exchange is None
    told.hear(*WHOLE)
    assert len(told.ended) == len(started), "the next conversation has spans of its own"


@pytest.mark.parametrize(
    ("ending", "kinds"),
    [
        ("error", ["rate_limit", "rate_limit"]),
        ("error without an outcome", ["rate_limit", "rate_limit"]),
        ("broken", ["rate_limit", "rate_limit"]),
        ("cancelled", ["cancelled", "cancelled"]),
        ("cancelled tools", [None, None, "cancelled", "cancelled"]),
        ("limit", [None, None, "tool_error", "limit", "limit"]),
        ("stream", [None, None]),
        ("stream with an error", ["rate_limit", "rate_limit"]),
        ("ran", [None, "denied", "denied", None, None]),
    ],
)
def test_an_ending_that_is_none_is_told(ending: str, kinds: list[str | None]) -> None:
    told = Told().hear(*ENDINGS[ending])
    assert [(span.attributes or {}).get("error.type") for span in told.ended] == kinds
    assert [span.status.status_code is StatusCode.ERROR for span in told.ended] == [one is not None for one in kinds]


def test_a_call_that_says_when_it_ended_is_believed() -> None:
    assert Told().hear(*ENDINGS["ran"]).named("execute_tool read").end_time == int((4e9 + 2.5) * 1e9)


def test_a_stream_tells_what_it_cost() -> None:
    told = Told(content=True).hear(
        *(AskModel(ASKED, 0), MessageStart(response=Response(id="r", model="m-2"))),
        *(PartStart(key=0, part=Text("")), TextDelta(key=0, text="Hi."), PartEnd(key=0, part=Text(""))),
        *(UsageDelta(usage=Usage(7, 8)), MessageEnd(), AskModel(ASKED, 1)),
    )
    said = told.named("chat m-1").attributes
    assert said["gen_ai.usage.output_tokens"] == 8
    assert said["gen_ai.response.model"] == "m-2"
    assert "Hi." in said["gen_ai.output.messages"]


def test_the_present_span_is_above() -> None:
    told = Told()
    with told.tracer.start_as_current_span("above") as above:
        told.hear(*WHOLE)
    assert told.named("invoke_agent").parent.span_id == above.get_span_context().span_id


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtra, match=r"pip install 'toolwire\[telemetry\]'"):
        Spans()


def test_a_choice_is_a_choice() -> None:
    two = Response(choices=[Choice(Message("assistant", "a"), "stop"), Choice(Message("assistant", "b"), "length")])
    told = Told().hear(AskModel(ASKED, 0), two, DONE)
    assert told.ended[0].attributes["gen_ai.response.finish_reasons"] == ("stop", "length")  # type: ignore[index]


@tool(sensitive=["card"])
def pay(card: str) -> str:
    """Pay with a card."""
    raise ValueError(f"the card {card} was refused")


PAYING = ToolCall(None, "pay", {"card": SECRET})


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", FACES)
def test_a_client_is_listened_to(face: str, shown: bool) -> None:
    told = Told(content=True)
    with (
        told.tracer.start_as_current_span("above") as above,
        simulate([[PAYING], [f"It was {SECRET}."]]) as model,
    ):
        lead(face, "openai", model.url, f"Pay, with {KEY}", shown=shown, tools=[pay], on_event=told.spans)
    assert [span.name for span in told.ended] == [
        "chat m",
        "execute_tool pay",
        "chat m",
        "invoke_agent",
        "above",
    ]
    assert told.named("invoke_agent").parent.span_id == above.get_span_context().span_id
    assert told.named("execute_tool pay").attributes["error.type"]
    assert not any("SENTINEL" in span.to_json() for span in told.ended)


@pytest.mark.parametrize("face", FACES)
def test_an_error_of_the_provider_ends_the_spans_too(face: str) -> None:
    told = Told(content=True)
    answer = Raw(f'{{"error": {{"message": "Wrong key: {KEY}"}}}}'.encode(), 401)
    with simulate([answer], strict=False) as model, pytest.raises(ToolwireError):
        lead(face, "openai", model.url, "?", on_event=told.spans, options={"api_key": KEY})
    assert [(span.attributes or {})["error.type"] for span in told.ended] == ["authentication"] * 2
    assert "Wrong key: [hidden" in str(told.ended[0].status.description)
    assert not any("SENTINEL" in span.to_json() for span in told.ended)
