"""Running the calls of a turn under limits: time, cancellation, threads, and what a caller may say."""

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from tests.resolvers.test_execution import FACES, GOES_ON, TOOLS, Face, awaited, call, echo
from toolwire import AgentResolver, Cancel, Limits, Tool, ToolCall, aio, approved, execute, session_tools, tool
from toolwire.errors import InvalidField
from toolwire.waiting.results import CallRecord, Ran
from toolwire.waiting.threads import MAX_THREADS, TooManyThreads, in_thread


@pytest.mark.row("J5")
def test_a_cancelled_task_cancels_its_tools() -> None:
    ended: list[str] = []
    begun = asyncio.Semaphore(0)

    @tool(parallel=True)
    async def work(name: str) -> str:
        """Work."""
        begun.release()
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(name)
        return name

    async def main() -> None:
        calls = [call(1, "work", name="a"), call(2, "work", name="b")]
        running = asyncio.ensure_future(aio.execute(calls, AgentResolver([work])))
        for _ in calls:
            await begun.acquire()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sorted(ended) == ["a", "b"]
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(main())


@FACES
def test_cancel_gives_every_call_a_result(run: Face) -> None:
    cancel = Cancel()
    begun: list[str] = []

    @tool(parallel=True)
    async def waits(name: str) -> str:
        """Wait."""
        begun.append(name)
        if len(begun) == 2:
            threading.Thread(target=cancel).start()
        await asyncio.sleep(30)
        return name

    calls = [
        call(1, "echo", text="a"),
        call(2, "waits", name="b"),
        call(3, "waits", name="c"),
        call(4, "echo", text="d"),
    ]
    found = run(calls, AgentResolver([echo, waits]), cancel=cancel)
    assert [(one.content, one.is_error) for one in found] == [
        ("a", False),
        ("cancelled before it was done; it may have run", True),
        ("cancelled before it was done; it may have run", True),
        ("not run: everything was cancelled before", True),
    ]
    assert all(one.is_error for one in run(calls, AgentResolver([echo, waits]), cancel=cancel)), "it stays cancelled"


def test_limits_may_be_a_value_and_unknown_ones_are_refused() -> None:
    found = execute([call(1, "async_echo", text="a", wait=5)], TOOLS, limits=Limits(timeout=0.01))
    assert "longer than 0.01 s" in str(found[0].content)
    wrong: list[Any] = [float("nan"), -1, "5", True]
    for amount in wrong:
        with pytest.raises(InvalidField, match="execute: timeout must be a number, 0 or more, not "):
            execute([], TOOLS, timeout=amount)
    with pytest.raises(InvalidField, match="time is not a limit; there are: timeout, output, calls, parallel"):
        execute([], TOOLS, time=3)  # type: ignore[call-arg]


def test_metadata_that_is_no_amount_is_not_minded() -> None:
    for value in (True, 0, -1, "3", None):
        declared = Tool.new(name="x", description="", parameters={"type": "object"}, metadata={"timeout": value})
        assert execute([call(1, "x")], lambda given: given.name, tools=[declared])[0].content == "x"


def test_a_session_says_how_its_tools_run() -> None:
    _, resolve = session_tools.prepare(TOOLS, ["hangs"], {})
    assert "longer than 0.02 s" in str(execute([call(1, "hangs")], resolve)[0].content)


@pytest.mark.row("J4")
def test_threads_that_hang_are_bounded() -> None:
    release = threading.Event()

    async def main() -> int:
        waiting: list[asyncio.Future[Any]] = []
        while len(waiting) <= MAX_THREADS:
            waiting.append(asyncio.ensure_future(in_thread(release.wait)))
            await asyncio.sleep(0)
            if waiting[-1].done():
                break
        with pytest.raises(TooManyThreads):
            await waiting.pop()
        release.set()
        return len(await asyncio.gather(*waiting))

    with contextlib.ExitStack() as stack:
        stack.callback(release.set)
        assert 0 < asyncio.run(main()) <= MAX_THREADS
    assert awaited([call(1, "echo", text="a")], TOOLS)[0].content == "a", "threads that ended are free again"


@pytest.mark.parametrize("run", [execute, awaited], ids=["sync", "async"])
def test_a_call_that_waits_for_approval_when_all_is_stopped_was_not_run(run: Face) -> None:
    cancel, ran, told = Cancel(), list[str](), list[Ran]()

    async def ask(_call: ToolCall, _preview: str) -> bool:
        threading.Thread(target=cancel).start()
        await asyncio.sleep(30)
        return True

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "done"

    resolver = approved(AgentResolver([act]), ask)
    [result] = run([call(1, "act")], resolver, cancel=cancel, record=CallRecord(told.append))
    assert result.content == "not run: nobody had approved it when everything was stopped"
    assert [(one.ending, one.approval) for one in told] == [("cancelled", "unanswered")]
    assert told[0].waited > 0
    assert ran == []


def test_the_time_of_a_person_is_not_the_time_of_a_tool() -> None:
    told = list[Ran]()

    def ask(_call: ToolCall, _preview: str) -> bool:
        time.sleep(0.2)
        return True

    @tool
    def act() -> str:
        """Act."""
        time.sleep(0.02)
        return "done"

    resolver = approved(AgentResolver([act]), ask)
    assert execute([call(1, "act")], resolver, record=CallRecord(told.append))[0].content == "done"
    [one] = told
    assert (one.ending, one.approval) == ("ok", "granted")
    assert one.waited >= 0.2
    assert 0.02 <= one.seconds < 0.2


@pytest.mark.parametrize("run", [pytest.param(execute, marks=pytest.mark.slow), awaited], ids=["sync", "async"])
def test_a_tool_has_its_whole_time_after_a_person_has_taken_longer(run: Face) -> None:
    told = list[Ran]()

    def ask(given: ToolCall, _preview: str) -> bool:
        time.sleep(0.5)
        return given.id != "c3"

    @tool(timeout=0.2)
    def act(wait: float) -> str:
        """Act."""
        time.sleep(wait)
        return "done"

    resolver = approved(AgentResolver([act]), ask)
    calls = [call(1, "act", wait=0.02), call(2, "act", wait=5), call(3, "act", wait=0.02)]
    begun = time.monotonic()
    found = run(calls, resolver, record=CallRecord(told.append))
    assert time.monotonic() - begun < 4
    assert [one.content for one in found] == [
        "done",
        f"Tool execution failed: it took longer than 0.2 s{GOES_ON}",
        "the call was not approved",
    ]
    assert [(one.ending, one.approval) for one in told] == [
        ("ok", "granted"),
        ("timed_out", "granted"),
        ("denied", "denied"),
    ]
    assert all(one.waited >= 0.4 for one in told)
    assert told[1].seconds >= 0.1


@pytest.mark.parametrize("how", ["timeout", "cancel"])
@pytest.mark.parametrize("ends", ["value", "error"])
def test_a_tool_that_ends_upon_its_cancellation_is_reported_once_as_its_result_says(how: str, ends: str) -> None:
    told, cancel = list[Ran](), Cancel()

    @tool(timeout=0.1 if how == "timeout" else None)
    async def work() -> str:
        """Work."""
        if how == "cancel":
            threading.Timer(0.1, cancel).start()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            if ends == "error":
                raise ValueError("interrupted") from None
        return "stopped"

    [result] = awaited([call(1, "work")], AgentResolver([work]), cancel=cancel, record=CallRecord(told.append))
    [one] = told
    assert result.is_error
    assert (one.result, one.ending) == (result, "timed_out" if how == "timeout" else "cancelled")
    assert 0.05 <= one.seconds < 5, "it is that of the tool"
