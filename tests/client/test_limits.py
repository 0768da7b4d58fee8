"""A run ends within its limits, in the middle of an answer and while tools run; both faces, five dialects."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, TOKYO, get_weather, lead
from toolwire import Client, LoopLimits, ToolCall, Usage, aio, generate, tool
from toolwire.client.failures import ProviderUnavailable
from toolwire.errors import InvalidField
from toolwire.testing import Pace, Wait, simulate
from toolwire.types import Context, Message, Request, Thinking
from toolwire.wire.transport import Bounds

SECONDS, MORE = 0.2, 0.5
LONG = "word " * 3000


@tool
def sleeps() -> str:
    """Sleep."""
    time.sleep(1.2)
    return "late"


@tool
async def asleeps() -> str:
    """Sleep."""
    await asyncio.sleep(30)
    return "late"


CALL = ToolCall(None, "sleeps", {})
CASES: dict[str, tuple[list[Any], bool]] = {
    "a stalled head": ([[Wait(20), "Late."]], False),
    "a stalled head of a stream": ([[Wait(20), "Late."]], True),
    "an endless answer": ([[Pace(0.01), LONG]], True),
    "endless thinking": ([[Pace(0.01), Thinking(text=LONG)]], True),
    "a slow tool": ([[CALL], ["Done."]], False),
    "a slow tool of a stream": ([[CALL], ["Done."]], True),
    "a slow async tool": ([[ToolCall(None, "asleeps", {})], ["Done."]], False),
}


def playing(script: list[Any]) -> Any:
    """Play the turns of a script, and mind none that nobody asks for."""
    return lambda _request, turn: script[turn.number]


def legal(messages: list[Message]) -> bool:
    """Whether each call has its result."""
    calls = [call.id for message in messages for call in message.tool_calls]
    results = [part.tool_call_id for message in messages for part in message.parts if hasattr(part, "tool_call_id")]
    return calls == results


def first(names: tuple[str, ...]) -> list[Any]:
    """One dialect in the fast suite, the others in the slow one."""
    return [names[0], *(pytest.param(name, marks=pytest.mark.slow) for name in names[1:])]


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", first(DIALECTS))
@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_within_its_seconds(case: str, name: str, face: str) -> None:
    script, shown = CASES[case]
    if "thinking" in case and name == "openai-responses":
        script = [[Pace(0.01), *[Thinking(text="hm")] * 400]]
    with simulate(["x"]) as model:
        lead(face, name, model.url, "a first request, so that all is loaded")
    took: list[float] = []
    while not took or (took[-1] >= SECONDS + MORE and len(took) < 5):  # what else runs on the machine can only add
        with simulate(playing(script), strict=False) as model:
            begun = time.monotonic()
            limits = LoopLimits(seconds=SECONDS)
            done = lead(face, name, model.url, "?", shown=shown, tools=[sleeps, asleeps], limits=limits).done
            took.append(time.monotonic() - begun)
        assert (done.ending, done.reason.split(" of ")[1]) == ("budget", f"{SECONDS:g} seconds have passed")
        assert legal(done.messages)
    assert SECONDS <= took[-1] < SECONDS + MORE, took


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", first(DIALECTS))
def test_an_answer_that_uses_all_tokens_is_given_up(name: str, face: str) -> None:
    with simulate([[Pace(0.001), LONG]]) as model:
        done = lead(face, name, model.url, "?", shown=True, limits=LoopLimits(tokens=200)).done
        assert model.requests[0].gone or model.requests[0].over.wait(10)
    assert done.ending == "budget"
    assert "more than the 200 tokens" in done.reason
    assert 200 < len(done.content or "") < 4000


PRICED = ["openai", *(pytest.param(name, marks=pytest.mark.slow) for name in ("openai-responses", "ollama"))]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", PRICED)
def test_an_answer_that_costs_all_that_is_left_is_given_up(name: str, face: str) -> None:
    with simulate([[Pace(0.001), LONG]]) as model:
        done = lead(face, name, model.url, "?", model="gpt-4o", shown=True, limits=LoopLimits(cost=0.002)).done
        assert model.requests[0].gone or model.requests[0].over.wait(10)
    assert (done.ending, done.reason) == ("budget", "the answer has used more than the 0.0020 USD that were left")
    assert 200 < len(done.content or "") < 8000


def test_what_was_read_counts_from_the_beginning_of_an_answer() -> None:
    """Messages reports the tokens of the request first, and those of the answer at its end alone."""
    with simulate([[Usage(900, 5), Pace(0.001), LONG]]) as model:
        done = lead("sync", "anthropic", model.url, "?", shown=True, limits=LoopLimits(tokens=1000)).done
    assert done.ending == "budget"
    assert 400 < len(done.content or "") < 4000


@contextlib.contextmanager
def uncounted(name: str) -> Iterator[str]:
    """A model whose server says nothing of tokens."""
    with simulate(playing([[Usage(), TOKYO], [Usage(), "Done."]]), strict=False) as model:
        yield model.url
        assert len(model.requests) == 1, f"{name} was asked again"


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["openai", "openai-responses", "gemini", "ollama"])
@pytest.mark.row("F18")
def test_where_nobody_counts_tokens_the_run_ends_and_says_so(name: str, face: str) -> None:
    with uncounted(name) as url:
        done = lead(face, name, url, "?", tools=[get_weather], limits=LoopLimits(tokens=50)).done
    assert (done.ending, done.reason) == ("limit", "the server reports no tokens, so they cannot be limited")
    assert legal(done.messages)


# What a server reports, of which nobody can say what it costs.
UNPRICED: dict[str, Any] = {
    "nothing": Usage(),
    "zeros": Usage(0, 0),
    "more from a cache than was read": Usage(10, 100, cache_read_tokens=1000),
}


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("usage", UNPRICED)
def test_where_nobody_can_price_an_answer_the_run_ends_and_says_so(usage: str, face: str) -> None:
    with simulate(playing([[UNPRICED[usage], TOKYO], "Done."]), strict=False) as model:
        limits = LoopLimits(cost=0.01)
        done = lead(face, "openai", model.url, "?", model="gpt-4o", tools=[get_weather], limits=limits).done
    assert (done.ending, done.reason) == (
        "limit",
        "the reported usage has no known price, so its cost cannot be limited",
    )
    assert legal(done.messages)


AT_ONCE = {
    "0 of 0 tokens are used": LoopLimits(tokens=0),
    "0.0000 of 0.0000 USD are used": LoopLimits(cost=0),
    "0.0 of 0 seconds have passed": LoopLimits(seconds=0),
}


@pytest.mark.parametrize("reason", AT_ONCE)
def test_a_limit_of_nothing_ends_a_run_before_it_begins(reason: str) -> None:
    with simulate(playing([])) as model:
        done = lead("sync", "openai", model.url, "?", model="gpt-4o", limits=AT_ONCE[reason]).done
    assert (done.ending, done.reason, model.requests) == ("budget", reason, [])


@pytest.mark.parametrize("seconds", [1e12, float("inf")])
def test_seconds_that_never_pass_end_no_run(seconds: float) -> None:
    with simulate([TOKYO, "Done."]) as model:
        limits = LoopLimits(seconds=seconds)
        assert lead("sync", "openai", model.url, "?", tools=[get_weather], limits=limits).done.ending == "answer"


@pytest.mark.parametrize("face", FACES)
def test_calls_of_which_none_may_run_beside_another_run_one_by_one(face: str) -> None:
    """`parallel=0` once waited for ever in async code."""
    with simulate([TOKYO, "Done."]) as model:
        done = lead(face, "openai", model.url, "?", tools=[get_weather], running={"parallel": 0, "timeout": 5}).done
    assert done.messages[1].parts[0].content == "25 degrees in Tokyo"


@pytest.mark.parametrize("face", FACES)
def test_a_limit_of_cost_without_a_price_is_refused_at_once(face: str) -> None:
    with simulate(playing([])) as model, pytest.raises(InvalidField, match="no price for 'unheard-of'"):
        lead(face, "openai", model.url, "?", model="unheard-of", limits=LoopLimits(cost=0.01))
    assert model.requests == []


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("bounds", "shown"),
    [(Bounds(bytes=20_000), False), (Bounds(bytes=20_000), True), (Bounds(events=50), True)],
    ids=["bytes", "bytes of a stream", "events"],
)
def test_an_answer_has_a_bound(bounds: Bounds, face: str, shown: bool) -> None:
    with simulate(lambda _request, _turn: [LONG * 3]) as model:
        options = {"bounds": bounds}
        if shown:
            done = lead(face, "openai", model.url, "?", shown=True, options=options).done
            assert done.error is not None
            assert (done.ending, done.error.code) == ("error", "transport_too_long")
        else:
            with pytest.raises(ProviderUnavailable, match="the answer has more than 20000 bytes"):
                lead(face, "openai", model.url, "?", options=options)
        assert len(model.requests) == 1, "it is not asked for again"


@pytest.mark.parametrize("face", FACES)
def test_what_a_sub_agent_uses_belongs_to_the_run(face: str) -> None:
    with simulate([[Usage(100, 10), "sub"]]) as inner:
        where = {"base_url": inner.url, "api_key": "k"}

        @tool
        def ask(question: str) -> str:
            """Ask another model."""
            return generate(question, "openai", "gpt-4o", options=where).content or ""

        @tool
        async def aask(question: str) -> str:
            """Ask another model."""
            return (await aio.generate(question, "openai", "gpt-4o", options=where)).content or ""

        name = "ask" if face == "sync" else "aask"
        script = [[Usage(1000, 1), ToolCall(None, name, {"question": "?"})], [Usage(2000, 2), "Done."]]
        with simulate(script) as model:
            done = lead(face, "openai", model.url, "?", model="gpt-4o", tools=[ask, aask]).done
    assert done.content == "Done."
    assert (done.usage.input_tokens, done.usage.output_tokens) == (3100, 13)
    assert done.cost == pytest.approx(3100 * 2.5e-6 + 13 * 1e-5)


def test_what_a_tool_asks_once_belongs_to_the_run_as_well() -> None:
    with simulate(lambda _request, _turn: [Usage(100, 10), "sub"], strict=False) as inner:
        request = Request(context=Context(None, [Message("user", "?")]), model="gpt-4o")

        @tool
        def ask(how: str) -> str:
            """Ask another model."""
            with Client("openai", "gpt-4o", base_url=inner.url, api_key="k") as client:
                if how == "chat":
                    client.chat("?")
                elif how == "send":
                    client.send(request)
                else:
                    list(client.send_stream(request))
            return "asked"

        for how in ("chat", "send", "stream"):
            script = [[Usage(1000, 1), ToolCall(None, "ask", {"how": how})], [Usage(2000, 2), "Done."]]
            with simulate(script) as model:
                done = lead("sync", "openai", model.url, "?", model="gpt-4o", tools=[ask]).done
            assert (done.usage.input_tokens, done.usage.output_tokens) == (3100, 13), how
            assert done.cost == pytest.approx(3100 * 2.5e-6 + 13 * 1e-5)


def test_a_sub_agent_may_use_what_is_left_and_ends_with_its_run() -> None:
    with simulate(lambda _request, _turn: [Usage(60, 10), TOKYO]) as inner:
        ends: list[Any] = []

        @tool
        def ask() -> str:
            """Ask another model."""
            with Client("openai", "gpt-4o", base_url=inner.url, api_key="k") as client:
                ends.append(client.run("?", tools=[get_weather], limits=LoopLimits(repeats=99)))
            return "asked"

        with simulate(playing([[Usage(100, 0), ToolCall(None, "ask", {})]])) as model:
            done = lead("sync", "openai", model.url, "?", tools=[ask], limits=LoopLimits(tokens=300)).done
    [end] = ends
    assert (end.ending, end.reason) == ("budget", "210 of 200 tokens are used")
    assert (done.ending, done.reason) == ("budget", "310 of 300 tokens are used")


def test_a_sub_agent_is_stopped_with_its_run() -> None:
    with simulate([[Wait(20), "late"]]) as inner:
        ended = threading.Event()

        @tool
        def ask() -> str:
            """Ask another model."""
            with Client("openai", "gpt-4o", base_url=inner.url, api_key="k") as client:
                client.run("?")
            ended.set()
            return "asked"

        with simulate(playing([[ToolCall(None, "ask", {})]])) as model:
            done = lead("sync", "openai", model.url, "?", tools=[ask], limits=LoopLimits(seconds=0.3)).done
        assert ended.wait(10), "its exchange was given up with the run"
    assert done.ending == "budget"
