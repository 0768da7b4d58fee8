"""Whatever stops a conversation, and wherever: the upstream is closed at once, and the history is valid."""

import asyncio
import contextlib
import gc
import threading
import time
import types
from collections import Counter
from collections.abc import Awaitable, Generator
from typing import Any

import pytest

from tests.amounts import FULL
from tests.client.faces import DIALECTS, FACES, TOKYO, awaited, get_weather, lead, legal, options_at, tasks_left
from toolwire import Cancel, Context, Message, TextDelta, ToolCall, aio
from toolwire.client import sync
from toolwire.client.exchange import Retries
from toolwire.loop import Done
from toolwire.testing import Fail, Pace, Wait, simulate
from toolwire.types import Error

pytestmark = pytest.mark.slow

WORDS = [f"word{number} " for number in range(60)]


async def waiting(city: str) -> str:
    """Tell the weather, after a while."""
    for _ in range(3):
        await asyncio.sleep(0)
    return f"rain in {city}"


@types.coroutine
def cancelled_at(work: Awaitable[Any], point: int) -> Generator[Any, Any, int]:
    """Await something, and cancel the task when it waits for the so many-th time; say how often it waited."""
    steps: Any = work.__await__()
    given: Any = None
    raised: BaseException | None = None
    count = 0
    while True:
        try:
            future = steps.send(given) if raised is None else steps.throw(raised)
        except StopIteration:
            return count
        given = raised = None
        count += 1
        if count == point:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
        try:
            given = yield future
        except BaseException as problem:  # noqa: BLE001 - it is passed on
            raised = problem


def plays(request: Any, turn: Any) -> list[Any]:
    """Call two tools, fail once, then answer slowly; a history that goes on is answered at once."""
    if request.messages[-1].text == "Go on.":
        return ["I go on."]
    if turn.round == 0:
        return ["I look. ", TOKYO, ToolCall(None, "waiting", {"city": "Oslo"})]
    failed = turn.number % 3 == 1
    return [Fail(Error("overloaded", "Later."))] if failed else [Pace(0.0005), *WORDS]


def idle(transport: Any) -> bool:
    """Whether no connection of any event loop is in use."""
    pools = [client._transport._pool for client in transport._async.values()]
    return all(connection.is_idle() or connection.is_closed() for pool in pools for connection in pool.connections)


def run_until(name: str, url: str, point: int, *, shown: bool) -> tuple[int | None, list[Message], Any]:
    """Lead a conversation that is cancelled at a point; None where it came to its end before."""
    told: list[Any] = []

    async def tell(event: Any) -> None:
        told.append(event)

    async def main() -> tuple[int | None, list[Message], Any]:
        retries = Retries(attempts=3, base=0.0001)
        client = aio.Client(name, "m", retries=retries, **options_at(name, url))
        settings: dict[str, Any] = {"tools": [get_weather, waiting], "on_event": tell}
        if shown:
            stream = client.stream("Weather?", **settings)
            work: Any = stream.collect()
        else:
            work = client.run("Weather?", **settings)
        count: int | None = None
        with contextlib.suppress(asyncio.CancelledError):
            count = await cancelled_at(work, point)
        left = await tasks_left()
        assert left == [], left
        assert idle(client.transport)
        ends = [event for event in told if isinstance(event, Done)]
        if shown and stream.done is not None:
            ends.append(stream.done)
        await client.close()
        return count, list(ends[-1].messages) if ends else [], ends[-1] if ends else None

    return asyncio.run(main())


def sweep(name: str, step: int, *, shown: bool) -> int:
    """Cancel at every so many-th point; give how many there were."""
    points = 0
    with simulate(plays) as model:
        for point in range(1, 1000, step):
            before = len(model.requests)
            count, messages, done = run_until(name, model.url, point, shown=shown)
            for received in model.requests[before:]:
                assert received.over.wait(10), "the server still answers"
            if count is not None:
                assert done.ending == "answer"
                return points
            points += 1
            assert done is not None
            assert done.ending == "cancelled"
            assert legal([Message("Weather?"), *messages])
            check_history(name, model, messages)
    raise AssertionError("it never came to its end")


def check_history(name: str, model: Any, messages: list[Message]) -> None:
    """The strict server takes the history up to where it was stopped."""
    tools = [get_weather.definition(), *aio_tools()]
    context = Context(None, [Message("Weather?"), *messages, Message("Go on.")], tools)
    done = lead("sync", name, model.url, context).done
    assert done.content == "I go on."


def aio_tools() -> list[Any]:
    from toolwire import AgentResolver

    return AgentResolver([waiting]).available_tools()


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("J5")
def test_a_run_can_be_cancelled_at_some_points(name: str) -> None:
    assert sweep(name, 6, shown=False) >= 2
    assert sweep(name, 29, shown=True) >= 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.row("J5")
def test_a_run_can_be_cancelled_at_every_point(tally: Counter[str]) -> None:
    step = 1 if FULL else 3
    points = sum(sweep(name, step, shown=shown) for name in DIALECTS for shown in (False, True))
    tally["points at which a run was cancelled"] += points
    assert points * step >= 500


STALLS: dict[str, tuple[list[Any], bool]] = {
    "before the answer": ([Wait(20), "Late."], True),
    "before an answer that comes whole": ([Wait(20), "Late."], False),
    "in the middle of a stream": (["Some words. ", Wait(20), "Late."], True),
    "in the pause before another attempt": ([Fail(Error("rate_limit", "Later."), retry_after=20)], True),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("case", STALLS)
@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_cancel_ends_what_waits(name: str, case: str, face: str) -> None:
    steps, shown = STALLS[case]
    cancel = Cancel()
    with simulate([steps]) as model:
        timer = threading.Timer(0.3, cancel)
        timer.start()
        begun = time.monotonic()
        done = lead(face, name, model.url, "?", shown=shown, cancel=cancel).done
        assert 0.2 < time.monotonic() - begun < 15
        assert model.requests[0].over.wait(10)
        assert model.requests[0].gone or "pause" in case
        timer.join()
    assert done.ending == "cancelled"
    if "middle" in case:
        assert done.content == "Some words. "
        assert [message.text for message in done.messages] == ["Some words. "]


@pytest.mark.parametrize("face", FACES)
def test_a_cancel_ends_a_tool_that_waits(face: str) -> None:
    cancel = Cancel()

    async def hanging(city: str) -> str:
        await asyncio.sleep(20)
        return city

    with simulate([[TOKYO, ToolCall(None, "hanging", {"city": "Oslo"})]]) as model:
        timer = threading.Timer(0.3, cancel)
        timer.start()
        done = lead(face, "openai", model.url, "?", tools=[get_weather, hanging], cancel=cancel).done
        timer.join()
    assert done.ending == "cancelled"
    assert legal(done.messages)
    said = [message.parts[0].content for message in done.messages[1:]]
    assert said[0] == "25 degrees in Tokyo"
    assert "cancelled" in said[1]


@pytest.mark.parametrize("face", FACES)
def test_a_cancel_from_before_sends_nothing(face: str) -> None:
    cancel = Cancel()
    cancel()
    with simulate([]) as model:
        assert lead(face, "openai", model.url, "?", cancel=cancel).done.ending == "cancelled"
        assert model.requests == []


SLOW = [["Some words. ", Wait(20), "Late."]]


@pytest.mark.usefixtures("little_garbage")
@pytest.mark.parametrize("way", ["close", "with", "drop"])
def test_a_stream_that_is_left_closes_its_connection(way: str) -> None:
    with simulate(SLOW) as model:
        stream = sync.stream("?", "openai", "m", options=options_at("openai", model.url))
        assert isinstance(stream.next()[0][0], TextDelta)
        if way == "close":
            stream.close()
            stream.close()
        elif way == "with":
            with stream:
                pass
        if way == "drop":
            del stream
            gc.collect()
        else:
            assert stream.done is not None
            assert (stream.done.ending, stream.done.reason) == ("cancelled", "the stream was closed")
            assert "Some words. ".startswith(stream.done.content or "-")
            assert stream.next() == ([], None)
        assert model.requests[0].over.wait(10)
        assert model.requests[0].gone


@pytest.mark.usefixtures("little_garbage")
@pytest.mark.parametrize("way", ["close", "with", "drop", "cancel"])
def test_an_awaited_stream_that_is_left_closes_its_connection(way: str) -> None:
    async def main(model: Any) -> None:
        stream = aio.stream("?", "openai", "m", options=options_at("openai", model.url))
        assert isinstance((await stream.next())[0][0], TextDelta)
        if way == "close":
            await stream.close()
            await stream.close()
            assert stream.done is not None
            assert stream.done.reason == "the stream was closed"
        elif way == "with":
            async with stream:
                pass
        elif way == "cancel":
            task = asyncio.ensure_future(stream.collect())
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        if way == "drop":
            del stream
            gc.collect()
            await asyncio.sleep(0.1)
        else:
            assert stream.done is not None
            assert stream.done.ending == "cancelled"
            assert "Some words. ".startswith(stream.done.content or "-")
            assert await stream.next() == ([], None)
        assert await asyncio.to_thread(model.requests[0].over.wait, 1)
        assert model.requests[0].gone

    with simulate(SLOW) as model:
        awaited(main(model))


@pytest.mark.parametrize("face", FACES)
def test_what_stops_the_program_goes_through_and_leaves_the_history(face: str) -> None:
    kept: list[Any] = []

    def stop(event: Any) -> None:
        if isinstance(event, Done):
            kept.append(event)
        elif isinstance(event, TextDelta):
            raise KeyboardInterrupt

    with simulate(SLOW) as model:
        with pytest.raises(KeyboardInterrupt):
            lead(face, "openai", model.url, "?", shown=True, on_event=stop)
        assert model.requests[0].over.wait(10)
        assert model.requests[0].gone
    [done] = kept
    assert done.ending == "cancelled"
    assert "Some words. ".startswith(done.content or "-")


def test_connections_are_used_again() -> None:
    """A control of the others: what was read to its end is not closed."""
    with (
        simulate(lambda *_: ["Hi."]) as model,
        sync.Client("openai", "m", **options_at("openai", model.url)) as client,
    ):
        transport: Any = client.transport
        for _ in range(3):
            assert client.run("?").content == "Hi."
            pool = transport._own._transport._pool
            assert [connection.is_idle() for connection in pool.connections] == [True]
        for _ in range(3):
            assert client.stream("?").collect().content == "Hi."
            assert [connection.is_idle() for connection in pool.connections] == [True]
        assert len({id(connection) for connection in pool.connections}) == 1
