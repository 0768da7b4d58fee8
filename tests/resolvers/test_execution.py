"""Running the calls of a turn: one result for each, in order, whatever happens."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from toolwire import (
    AgentResolver,
    Cancel,
    Text,
    ToolCall,
    ToolResult,
    aio,
    execute,
    tool,
)

Face = Callable[..., list[ToolResult]]


def awaited(*given: Any, **said: Any) -> list[ToolResult]:
    return asyncio.run(aio.execute(*given, **said))


GOES_ON = ", and is still running: it did not stop when it was cancelled"
FACES = pytest.mark.parametrize("run", [execute, awaited], ids=["sync", "async"])


def call(number: int, name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, arguments)


@tool
def echo(text: str) -> str:
    """Echo."""
    return text


@tool(parallel=True)
def slow_echo(text: str, wait: float) -> str:
    """Echo after a while."""
    time.sleep(wait)
    return text


@tool(parallel=True)
async def async_echo(text: str, wait: float) -> str:
    """Echo after a while."""
    await asyncio.sleep(wait)
    return text


@tool(parallel=True)
def broken() -> str:
    """Break."""
    raise ValueError("broke")


@tool(parallel=True, timeout=0.02)
def hangs(wait: float = 0.3) -> str:
    """Hang."""
    time.sleep(wait)
    return "late"


@tool(parallel=True, timeout=0.02)
async def async_hangs() -> str:
    """Hang."""
    await asyncio.sleep(30)
    return "late"


@tool(parallel=True)
async def cancelled() -> str:
    """Be cancelled from inside."""
    raise asyncio.CancelledError


TOOLS = AgentResolver([echo, slow_echo, async_echo, broken, hangs, async_hangs])


@FACES
def test_results_are_in_the_order_of_the_calls(run: Face) -> None:
    calls = [
        call(1, "slow_echo", text="a", wait=0.02),
        call(2, "async_echo", text="b", wait=0.01),
        call(3, "echo", text="c"),
        call(4, "async_echo", text="d", wait=0),
    ]
    assert run(calls, TOOLS) == [
        ToolResult("c1", "slow_echo", "a"),
        ToolResult("c2", "async_echo", "b"),
        ToolResult("c3", "echo", "c"),
        ToolResult("c4", "async_echo", "d"),
    ]
    assert run([], TOOLS) == []


@FACES
@pytest.mark.row("J6")
def test_five_calls_of_which_some_fail_have_five_results(run: Face) -> None:
    calls = [
        call(1, "slow_echo", text="a", wait=0.01),
        call(2, "broken"),
        call(3, "async_hangs"),
        call(4, "hangs"),
        call(5, "async_echo", text="e", wait=0.03),
    ]
    found = run(calls, TOOLS)
    assert [(one.tool_call_id, one.content, one.is_error) for one in found] == [
        ("c1", "a", False),
        ("c2", "Tool execution failed: broke", True),
        ("c3", "Tool execution failed: it took longer than 0.02 s", True),
        ("c4", f"Tool execution failed: it took longer than 0.02 s{GOES_ON}", True),
        ("c5", "e", False),
    ]


def overlap(parallel: bool, run: Face) -> int:
    """Say how many of four calls of one tool ran at the same time, at most."""
    lock, now, most = threading.Lock(), 0, 0
    all_here = threading.Barrier(4 if parallel else 1)

    @tool(parallel=parallel)
    def work() -> str:
        """Work."""
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        all_here.wait(20)
        time.sleep(0.02)
        with lock:
            now -= 1
        return "done"

    assert len(run([call(number, "work") for number in range(4)], AgentResolver([work]))) == 4
    return most


@FACES
def test_only_tools_that_say_so_run_in_parallel(run: Face) -> None:
    assert overlap(parallel=True, run=run) == 4
    assert overlap(parallel=False, run=run) == 1


@FACES
def test_a_call_that_is_not_parallel_runs_alone_in_its_place(run: Face) -> None:
    seen: list[str] = []

    @tool(parallel=True)
    async def note(text: str) -> str:
        """Note."""
        seen.append(f"{text} begins")
        while text != "c" and len(seen) < 2:  # noqa: ASYNC110 - each may have a loop of its own
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
        seen.append(f"{text} ends")
        return text

    @tool
    async def alone(text: str) -> str:
        """Note alone."""
        seen.append(f"{text} begins")
        await asyncio.sleep(0.02)
        seen.append(f"{text} ends")
        return text

    calls = [
        call(1, "note", text="a"),
        call(2, "note", text="b"),
        call(3, "alone", text="X"),
        call(4, "note", text="c"),
    ]
    run(calls, AgentResolver([note, alone]))
    assert seen[:2] == ["a begins", "b begins"]
    assert set(seen[2:4]) == {"a ends", "b ends"}
    assert seen[4:] == ["X begins", "X ends", "c begins", "c ends"]


@FACES
def test_parallel_calls_are_bounded(run: Face) -> None:
    lock, now, most = threading.Lock(), 0, 0
    three_here = threading.Barrier(3)

    @tool(parallel=True)
    def work() -> str:
        """Work."""
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        three_here.wait(20)
        time.sleep(0.005)
        with lock:
            now -= 1
        return "done"

    run([call(number, "work") for number in range(12)], AgentResolver([work]), parallel=3)
    assert most == 3


@FACES
def test_a_call_that_came_broken_is_not_run(run: Face) -> None:
    ran: list[str] = []

    def look(given: ToolCall) -> str:
        ran.append(given.name)
        return "looked"

    broken_call = ToolCall("c1", "look", {}, raw='{"city": ', error="not JSON", complete=False)
    [result] = run([broken_call], look)
    assert (result.is_error, ran) == (True, [])
    assert "not JSON" in str(result.content)


@FACES
@pytest.mark.row("J12")
def test_calls_of_one_id_are_not_run(run: Face) -> None:
    ran: list[str] = []

    def note(text: str) -> str:
        ran.append(text)
        return text

    calls = [
        ToolCall("same", "note", {"text": "a"}),
        ToolCall("other", "note", {"text": "b"}),
        ToolCall("same", "note", {"text": "a"}),
        ToolCall(None, "note", {"text": "c"}),
        ToolCall(None, "note", {"text": "d"}),
    ]
    found = run(calls, AgentResolver([note]))
    assert [one.is_error for one in found] == [True, False, True, False, False]
    assert "2 calls share the id 'same'" in str(found[0].content)
    assert ran == ["b", "c", "d"]


@FACES
@pytest.mark.row("J12")
def test_calls_after_the_limit_are_not_run(run: Face) -> None:
    found = run([call(number, "echo", text=str(number)) for number in range(1000)], TOOLS)
    assert [one.content for one in found[:128]] == [str(number) for number in range(128)]
    assert all("a turn may have 128 calls" in str(one.content) and one.is_error for one in found[128:])
    assert len(found) == 1000


@FACES
@pytest.mark.row("I-19", "J12")
def test_calls_that_came_broken_or_name_nothing_have_results(run: Face) -> None:
    calls = [
        ToolCall.parse("c1", "echo", '{"text": "a'),
        ToolCall("c2", "echo", {"text": "a"}, complete=False),
        ToolCall("c3", "ecco", {"text": "a"}),
        ToolCall("c4", "", {}),
        ToolCall("c5", "echo", {}),
    ]
    found = run(calls, TOOLS)
    assert all(one.is_error for one in found)
    starts = [
        "invalid arguments for 'echo': not JSON",
        "invalid arguments for 'echo': they were cut off",
        "unknown tool 'ecco'. Available: echo, slow_echo, async_echo, broken, hangs, async_hangs",
        "unknown tool ''. Available: ",
        "invalid arguments for 'echo': missing required field: text",
    ]
    assert [start for start, one in zip(starts, found, strict=True) if not str(one.content).startswith(start)] == []


@FACES
@pytest.mark.row("J15")
def test_output_is_cut_and_says_so(run: Face) -> None:
    @tool(output_limit=10)
    def much(parts: bool) -> Any:
        """Give much."""
        return [Text("abcdef"), Text("x" * 20)] if parts else "x" * 25

    first, second = run([call(1, "much", parts=False), call(2, "much", parts=True)], AgentResolver([much]))
    assert first.content == "x" * 10 + "\n[15 of 25 characters were left out]"
    assert second.content == [Text("abcdef"), Text("x" * 4 + "\n[16 of 20 characters were left out]")]
    assert len(run([call(1, "echo", text="x" * 200)], TOOLS, output=50)[0].content) < 100


@FACES
@pytest.mark.parametrize(
    ("answer", "content", "failed"),
    [
        ("text", "text", False),
        (("ok", "x"), "x", False),
        (("error", "no"), "no", True),
        ({"a": 1}, '{"a":1}', False),
        (ToolResult("elsewhere", "other", "x"), "x", False),
        (object(), "Tool execution failed: the tool returned a value that cannot be written as JSON", True),
        (ValueError("no"), "Tool execution failed: no", True),
        (SystemExit(1), "Tool execution failed: 1", True),
    ],
)
@pytest.mark.row("K8")
def test_any_function_may_resolve_calls(run: Face, answer: Any, content: str, failed: bool) -> None:
    def resolve(_call: ToolCall) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def waiting(given: ToolCall) -> Any:
        return resolve(given)

    for function in (resolve, waiting):
        [found] = run([call(1, "x")], function)
        assert (found.tool_call_id, found.name, found.is_error) == ("c1", "x", failed)
        assert str(found.content).startswith(content)


@FACES
@pytest.mark.row("J3")
def test_what_stops_the_program_goes_through(run: Face) -> None:
    def stop() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([call(1, "echo", text="a"), call(2, "stop")], AgentResolver([stop, echo]))


@pytest.mark.sampled
@FACES
@pytest.mark.parametrize("problem", [asyncio.CancelledError, GeneratorExit, BaseException])
@pytest.mark.parametrize("parallel", [False, True])
def test_whatever_a_tool_raises_each_call_has_its_result(
    run: Face, problem: type[BaseException], *, parallel: bool
) -> None:
    @tool(parallel=parallel)
    def stop() -> str:
        raise problem

    results = run([call(1, "echo", text="a"), call(2, "stop"), call(3, "echo", text="b")], AgentResolver([stop, echo]))
    assert [(result.tool_call_id, result.is_error) for result in results] == [
        ("c1", False),
        ("c2", True),
        ("c3", False),
    ]


@FACES
@pytest.mark.parametrize("stop", ["timeout", pytest.param("cancel", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_tool_that_swallows_its_cancellation_is_left_behind(
    run: Face, stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    left_behind, ended = threading.Event(), threading.Event()

    async def stubborn() -> str:
        while not left_behind.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        ended.set()
        return "done, at last"

    cancel = Cancel()
    timer = threading.Timer(0.1, cancel)
    timer.start()
    limits = {"timeout": 0.1} if stop == "timeout" else {"cancel": cancel}
    if run is execute:
        [result] = execute([call(1, "stubborn")], AgentResolver([stubborn]), **limits)
        assert not ended.is_set()
        left_behind.set()
        assert ended.wait(10), "it goes on in a thread of its own"
    else:

        async def main() -> ToolResult:
            [result] = await aio.execute([call(1, "stubborn")], AgentResolver([stubborn]), **limits)
            assert not ended.is_set()
            left_behind.set()
            return result

        result = asyncio.run(main())
    timer.cancel()
    assert result.is_error
    words = "it took longer than 0.1 s, and is still running" if stop == "timeout" else "it may have run"
    assert words in str(result.content)
    assert "tool 'stubborn' did not stop when it was cancelled" in caplog.text


@FACES
def test_a_thread_that_ends_soon_after_it_was_stopped_is_not_left_behind(
    run: Face, caplog: pytest.LogCaptureFixture
) -> None:
    cancel = Cancel()

    @tool
    def heeds() -> str:
        cancel()
        time.sleep(0.02)
        return "stopped"

    [result] = run([call(1, "heeds")], AgentResolver([heeds]), cancel=cancel)
    assert "it may have run" in str(result.content)
    assert caplog.text == ""


class Speechless(Exception):
    """Cannot be shown, and stops who tries."""

    def __str__(self) -> str:
        raise GeneratorExit


class SpeechlessToo(BaseException):
    """Cannot be shown, and would stop the task."""

    def __str__(self) -> str:
        raise ValueError


async def cancels_itself() -> str:
    """Cancel the task that it runs in."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


async def speechless() -> str:
    """Raise what cannot be shown."""
    raise Speechless


def speechless_too() -> str:
    """Raise what cannot be shown either."""
    raise SpeechlessToo


@FACES
@pytest.mark.parametrize(
    ("odd", "content"),
    [(cancels_itself, "CancelledError"), (speechless, "Speechless"), (speechless_too, "SpeechlessToo")],
)
def test_a_tool_that_stops_itself_stops_nothing_else(run: Face, odd: Any, content: str) -> None:
    calls = [call(1, "echo", text="a"), call(2, odd.__name__), call(3, "echo", text="b")]
    results = run(calls, AgentResolver([odd, echo]))
    assert [result.is_error for result in results] == [False, True, False]
    assert results[1].content == f"Tool execution failed: {content}"


def test_a_thread_that_an_async_tool_has_begun_is_left_behind() -> None:
    """Only in sync code: there the event loop is ours, and to close one waits for its threads."""
    over = threading.Event()

    async def work() -> str:
        await asyncio.to_thread(over.wait, 10)
        return "late"

    begun = time.monotonic()
    [result] = execute([call(1, "work")], AgentResolver([work]), timeout=0.1)
    assert time.monotonic() - begun < 5
    over.set()
    assert result.content == "Tool execution failed: it took longer than 0.1 s"


def test_a_sync_tool_does_not_block_the_event_loop() -> None:
    enough = threading.Event()

    @tool
    def work() -> bool:
        """Work for as long as the loop needs to count."""
        return enough.wait(5)

    async def main() -> int:
        ticks = 0
        working = asyncio.ensure_future(aio.execute([call(1, "work")], AgentResolver([work])))
        while not working.done():
            await asyncio.sleep(0.005)
            ticks += 1
            if ticks > 5:
                enough.set()
        return ticks

    assert asyncio.run(main()) > 5


@pytest.mark.row("J18")
def test_sync_code_works_in_an_event_loop_too() -> None:
    async def main() -> list[ToolResult]:
        calls = [call(1, "echo", text="a"), call(2, "async_echo", text="b", wait=0), call(3, "hangs")]
        return execute(calls, TOOLS)

    found = [str(result.content) for result in asyncio.run(main())]
    assert found == ["a", "b", f"Tool execution failed: it took longer than 0.02 s{GOES_ON}"]
