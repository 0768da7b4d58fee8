"""Conversations that are recorded, and stopped wherever they may be: each call of the history has one trace.

Async code is stopped at each point at which it waits, sync code at each thing that it is told.
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import FULL
from tests.client.faces import DIALECTS, get_weather, legal, options_at, tasks_left
from tests.client.test_cancelling import cancelled_at, idle, plays, waiting
from toolwire import Cancel, Message, ToolCall, ToolResult, aio, traces
from toolwire.client import sync
from toolwire.client.exchange import Retries
from toolwire.loop import Done
from toolwire.resolvers.reading import AnyTool
from toolwire.testing import simulate
from toolwire.waiting import threads

TOOLS: list[AnyTool] = [get_weather, waiting]
RETRIES = Retries(attempts=3, base=0.0001)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    """Give a store that is closed in the end."""
    with traces.open(f"sqlite:///{tmp_path / 'traces.db'}") as made:
        yield made


def busy() -> int:
    """Count the threads of ours that are doing something."""
    pool = threads._pool
    return len(pool._alive) - len(pool._idle)


def settled(holds: Callable[[], bool]) -> bool:
    """Whether this holds soon: a thread that was told to stop may need a moment."""
    late = time.monotonic() + 20
    while not holds() and time.monotonic() < late:
        time.sleep(0.005)
    return holds()


def others() -> Counter[str]:
    """Count the threads that are neither of our pool nor of the store, by their names."""
    names = [thread.name for thread in threading.enumerate()]
    return Counter(name for name in names if not name.startswith("toolwire"))


def check_traces(store: Any, conversation: str, messages: list[Message]) -> None:
    """Each call of the history has exactly one trace, which says the same as its result."""
    assert store.flush()
    found = list(store.traces(conversation=conversation).rows)
    parts = [part for message in messages for part in message.parts]
    calls = [part for part in parts if type(part) is ToolCall]
    results = {part.tool_call_id: part for part in parts if type(part) is ToolResult}
    assert [one.call_id for one in found] == [call.id for call in calls]
    for one in found:
        assert (one.result_type == "error") is results[one.call_id].is_error


async def stopped(name: str, url: str, point: int, given: Any, *, shown: bool) -> Done | None:
    """Lead a recorded conversation that is cancelled at a point; None where it came to its end before."""
    told: list[Any] = []

    async def tell(event: Any) -> None:
        told.append(event)

    client = aio.Client(name, "m", retries=RETRIES, **options_at(name, url))
    settings: dict[str, Any] = {"tools": TOOLS, "on_event": tell, "traces": given}
    stream = client.stream("Weather?", **settings) if shown else None
    work: Any = client.run("Weather?", **settings) if stream is None else stream.collect()
    count: int | None = None
    with contextlib.suppress(asyncio.CancelledError):
        count = await cancelled_at(work, point)
    left = await tasks_left()
    assert left == []
    assert idle(client.transport)
    await client.close()
    if count is not None:
        return None
    ends = [event for event in told if isinstance(event, Done)]
    if stream is not None and stream.done is not None:
        ends.append(stream.done)
    return ends[-1]


# The slow tests stop at some of the points, and at all of them where everything is to be seen.
STEP = 1 if FULL else 19


def sweep(name: str, step: int, store: Any, *, shown: bool) -> int:
    """Cancel at every so many-th point; give how many there were."""
    with simulate(plays) as model:
        for points, point in enumerate(range(1, 2000, step)):
            conversation = f"{name}-{shown}-{point}"
            given = store.of("acme", conversation, "s")
            done = asyncio.run(stopped(name, model.url, point, given, shown=shown))
            if done is None:
                return points
            assert done.ending in ("cancelled", "answer")
            assert legal([Message("Weather?"), *done.messages])
            check_traces(store, conversation, done.messages)
    raise AssertionError("it never came to its end")


@pytest.mark.row("J5")
def test_a_recorded_run_can_be_cancelled_at_some_points(store: Any) -> None:
    assert sweep("openai", 17, store, shown=False) >= 1
    assert store.verify().problems == ()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.row("J5")
def test_a_recorded_run_can_be_cancelled_at_every_point(store: Any, tally: Counter[str]) -> None:
    points = sum(sweep(name, STEP, store, shown=shown) for name in DIALECTS for shown in (False, True))
    tally["points at which a recorded run was cancelled"] += points
    assert points * STEP >= 500
    assert store.verify().problems == ()


class Stopping:
    """A listener that stops the run at the so many-th thing that it is told; a reader closes its stream."""

    def __init__(self, way: str, point: int) -> None:
        self.way, self.point, self.told = way, point, 0
        self.cancel = Cancel()
        self.done: Done | None = None

    def __call__(self, event: Any) -> None:
        if isinstance(event, Done):
            self.done = event
            return
        self.told += self.way != "close"
        if self.told == self.point:
            if self.way == "interrupt":
                raise KeyboardInterrupt
            self.cancel()


WAYS = ("cancel", "interrupt", "close")


def stopped_sync(name: str, url: str, stopping: Stopping, given: Any, *, shown: bool) -> None:
    """Lead a recorded conversation of sync code, and stop it."""
    with (
        contextlib.suppress(KeyboardInterrupt),
        sync.Client(name, "m", retries=RETRIES, **options_at(name, url)) as client,
    ):
        settings: dict[str, Any] = {
            "tools": TOOLS,
            "on_event": stopping,
            "traces": given,
            "cancel": stopping.cancel,
        }
        if stopping.way == "close":
            with client.stream("Weather?", **settings) as stream:
                while stopping.told < stopping.point and stream.next()[1] is not None:
                    stopping.told += 1
        elif shown:
            client.stream("Weather?", **settings).collect()
        else:
            client.run("Weather?", **settings)


def sweep_sync(name: str, way: str, step: int, store: Any, *, shown: bool) -> int:
    """Stop at every so many-th thing that is told; give how many there were."""
    with simulate(plays) as model:
        # Another test may have left a call behind that hangs: it is not ours.
        before, hanging = others(), busy()
        for points, point in enumerate(range(1, 2000, step)):
            conversation = f"{name}-{way}-{shown}-{point}"
            stopping = Stopping(way, point)
            given = store.of("acme", conversation, "s")
            stopped_sync(name, model.url, stopping, given, shown=shown)
            done = stopping.done
            assert done is not None
            if stopping.told < point:
                assert done.ending == "answer"
                return points
            assert done.ending in ("cancelled", "answer")
            assert legal([Message("Weather?"), *done.messages])
            check_traces(store, conversation, done.messages)
            assert settled(lambda: busy() <= hanging), "a thread still works"
            assert others() <= before
            for received in model.requests:
                assert received.over.wait(10), "the server still answers"
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("way", ["cancel", *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS[1:])])
@pytest.mark.row("J5")
def test_sync_code_can_be_stopped_at_some_points(way: str, store: Any) -> None:
    assert sweep_sync("gemini", way, 90 if way == "close" else 3, store, shown=way == "close") >= 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.row("J5")
def test_sync_code_can_be_stopped_at_every_point(store: Any, tally: Counter[str]) -> None:
    points = sum(
        sweep_sync(name, way, STEP, store, shown=shown)
        for name in DIALECTS
        for way in WAYS
        for shown in ((True,) if way == "close" else (False, True))
    )
    tally["points at which sync code was stopped"] += points
    assert points * STEP >= 500
    assert store.verify().problems == ()


@pytest.mark.row("J5")
def test_an_end_that_cannot_be_recorded_is_told_all_the_same(store: Any) -> None:
    """Cancelled while the last traces are written, when the answer is there already."""
    told: list[Any] = []

    async def tell(event: Any) -> None:
        told.append(event)

    async def main(url: str) -> None:
        waits = asyncio.Event()

        async def never() -> bool:
            waits.set()
            await asyncio.sleep(20)
            return True

        store.aflush = never
        options = options_at("openai", url)
        work = aio.generate("?", "openai", "m", tools=TOOLS, on_event=tell, traces=store, options=options)
        task = asyncio.ensure_future(work)
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with simulate([[ToolCall(None, "waiting", {"city": "Oslo"})], ["Done."]]) as model:
        asyncio.run(main(model.url))
    assert isinstance(told[-1], Done)
    assert (told[-1].ending, told[-1].content) == ("answer", "Done.")
