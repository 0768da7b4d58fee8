"""Conversations that are recorded: one trace for each call, whatever became of it."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, KEY, TOKYO, get_weather, lead
from toolwire import Cancel, CodeTools, Limits, ToolCall, ToolError, ToolResult, aio, tool, traces
from toolwire.client import sync
from toolwire.errors import InvalidField, StoreFailed
from toolwire.testing import simulate

SECRET = "opensesame-1234567"  # noqa: S105 - it opens nothing


@tool
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@tool
def crash() -> str:
    """Crash."""
    raise RuntimeError("the tool broke")


@tool
async def wait() -> str:
    """Wait for ever."""
    await asyncio.sleep(30)
    return "never"


@tool(timeout=0.05)
async def hang() -> str:
    """Take longer than it may."""
    return await asyncio.sleep(30, "never")


@tool(sensitive=["password"])
def log_in(user: str, password: str) -> str:
    """Log in."""
    return f"{user} is logged in with {password}"


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """Give a store that is closed in the end."""
    with traces.open(f"sqlite:///{tmp_path / 'traces.db'}") as made:
        yield made


ENDINGS: dict[str, tuple[ToolCall, str, str]] = {
    "ok": (TOKYO, "ok", "25 degrees in Tokyo"),
    "error": (ToolCall(None, "fail", {"why": "no such city"}), "error", "no such city"),
    "a tool that broke": (ToolCall(None, "crash", {}), "error", "the tool broke"),
    "unknown": (ToolCall(None, "get_moon", {}), "unknown_tool", "unknown tool 'get_moon'"),
    "invalid": (ToolCall(None, "get_weather", {"town": "Oz"}), "invalid", "city"),
    "timed out": (ToolCall(None, "hang", {}), "timed_out", "took longer than"),
}


@pytest.mark.sampled
@pytest.mark.parametrize(("face", "shown"), [("sync", False), ("async", True)])
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.row("R002-96", "R002-97", "R002-104", "K1", "I13")
def test_every_call_has_one_trace(name: str, face: str, shown: bool, store: Any) -> None:
    calls = [call for call, _, _ in ENDINGS.values()]
    with simulate([["I look.", *calls], [TOKYO], ["Done."]], api_key=KEY) as model:
        done = lead(
            face,
            name,
            model.url,
            "Go",
            shown=shown,
            tools=[get_weather, fail, crash, hang],
            running=Limits(timeout=30),
            traces=store.of("acme", "c-1", "s-1"),
        ).done
    assert done.ending == "answer"
    found = list(store.traces().rows)
    assert [(one.tool_name, one.ending) for one in found] == [
        (call.name, ending) for call, ending, _ in [*ENDINGS.values(), ENDINGS["ok"]]
    ]
    for one, (call, ending, words) in zip(found, ENDINGS.values(), strict=False):
        assert one.result_type == ("ok" if ending == "ok" else "error")
        assert words in one.result["content"]
        assert one.arguments == call.arguments
    results = [result for message in done.messages for result in message.parts if hasattr(result, "is_error")]
    assert [one.call_id for one in found] == [result.tool_call_id for result in results]
    assert [one.iteration for one in found] == [0] * len(calls) + [1]
    assert {(one.tenant_id, one.conversation_id, one.session) for one in found} == {("acme", "c-1", "s-1")}
    assert {one.model for one in found} == {"m"}
    assert all(one.provider and one.dialect for one in found)
    assert len({(one.request_digest, one.response_digest) for one in found}) == 2
    assert all(len(one.request_digest or "") == 64 for one in found)
    assert found[-2].duration_ms >= 50
    assert store.verify().problems == ()


@pytest.mark.sampled
@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("face", FACES)
def test_approval_is_recorded(face: str, answer: bool, store: Any) -> None:
    with simulate([[TOKYO], ["Done."]]) as model:
        lead(
            face,
            "openai",
            model.url,
            "Go",
            tools=[get_weather],
            approve=lambda _call, _shown: answer,
            traces=store,
        )
    [one] = store.traces().rows
    assert (one.ending, one.approval) == (("ok", "granted") if answer else ("denied", "denied"))


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.slow
def test_what_a_person_took_is_no_time_of_the_tool(answer: bool, store: Any) -> None:
    def think(*_: Any) -> bool:
        time.sleep(0.5)
        return answer

    with simulate([[TOKYO], ["Done."]], api_key=KEY) as model:
        lead("sync", "openai", model.url, "Go", tools=[get_weather], approve=think, traces=store)
        model.play([[TOKYO], ["Done."]])
        lead("sync", "openai", model.url, "Go", tools=[get_weather], traces=store)
    asked, unasked = store.traces().rows
    assert 500 <= asked.waited_ms < 20_000
    assert asked.duration_ms < 450
    assert unasked.waited_ms is None
    assert max(one.longest_ms for one in store.stats()) < 450


@pytest.mark.parametrize("face", FACES)
@pytest.mark.slow
def test_a_cancelled_call_is_recorded(face: str, store: Any) -> None:
    cancel = Cancel()
    calls = [ToolCall(None, "wait", {}), TOKYO]
    with simulate([calls]) as model:
        threading.Timer(0.2, cancel).start()
        done = lead(face, "anthropic", model.url, "Go", tools=[wait, get_weather], cancel=cancel, traces=store).done
    assert done.ending == "cancelled"
    assert [one.ending for one in store.traces().rows] == ["cancelled", "cancelled"]


def test_an_interrupted_call_is_recorded(store: Any) -> None:
    @tool
    def stop() -> str:
        """Stop the program."""
        raise KeyboardInterrupt

    with simulate([[ToolCall(None, "stop", {}), TOKYO]]) as model, pytest.raises(KeyboardInterrupt):
        lead("sync", "openai", model.url, "Go", tools=[stop, get_weather], traces=store)
    assert [one.ending for one in store.traces().rows] == ["cancelled", "cancelled"]


def test_a_task_that_is_cancelled_records_its_calls(store: Any) -> None:
    async def main(url: str) -> None:
        begun = asyncio.Event()

        @tool
        async def wait() -> str:
            begun.set()
            return await asyncio.sleep(30, "never")

        options = {"base_url": url, "api_key": KEY}
        work = aio.generate("Go", "openai", "m", tools=[wait], traces=store, options=options)
        task = asyncio.create_task(work)
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with simulate([[ToolCall(None, "wait", {})]]) as model:
        asyncio.run(main(model.url))
    assert store.flush()
    assert [one.ending for one in store.traces().rows] == ["cancelled"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("L1", "L10")
def test_what_is_sensitive_is_in_no_row_of_the_database(face: str, store: Any, tmp_path: Path) -> None:
    """The tool itself gets the original."""
    call = ToolCall(None, "log_in", {"user": "ann", "password": SECRET})
    with simulate([[call], ["Done."]]) as model:
        done = lead(face, "gemini", model.url, "Go", tools=[log_in], traces=store).done
    assert SECRET in str(done.messages)
    [one] = store.traces().rows
    assert one.arguments["user"] == "ann"
    assert SECRET not in str(one)
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.row("T8")
def test_a_store_that_fails_stops_the_run_before_the_next_tool(face: str, store: Any) -> None:
    """No tool runs unaudited."""
    ran: list[int] = []

    @tool
    def count() -> str:
        """Count."""
        ran.append(1)
        store._writer.failed = StoreFailed("the disk is full")
        return "counted"

    script = [[ToolCall(None, "count", {})]] * 2
    with simulate(script[:1]) as model, pytest.raises(StoreFailed, match="the disk is full"):
        lead(face, "openai", model.url, "Go", tools=[count], traces=store)
    assert ran == [1]
    store.resume()


def test_a_store_that_may_fail_lets_the_run_go_on(tmp_path: Path) -> None:
    def broken(*_given: Any, **_more: Any) -> Any:
        raise OSError("the disk is full")

    with traces.open(f"sqlite:///{tmp_path / 'traces.db'}", failing="continue", patience=0.0) as store:
        store._writer._committer.commit = broken  # type: ignore[method-assign]
        with simulate([[TOKYO], ["Done."]]) as model:
            done = lead("sync", "openai", model.url, "Go", tools=[get_weather], traces=store).done
        assert (done.ending, store.lost) == ("answer", 1)


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(InvalidField, match=r"traces\.open"):
        sync.Client("openai", "m", api_key=KEY).run("Go", traces="traces.db")  # type: ignore[call-overload]


def test_a_store_takes_no_time_of_the_loop(store: Any) -> None:
    """A trace is put into a queue; the control waits for the disk each time."""
    given = store.of("acme")
    one = given.trace(
        tool_name="t", arguments={"a": 1}, result={"b": 2}, result_type="ok", duration_ms=1.0, iteration=0
    )
    begun = time.perf_counter()
    for _ in range(200):
        store.record(traces.Trace.new(one, id=None))
    queued = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(20):
        store.record(traces.Trace.new(one, id=None)).wait()
    assert queued / 200 < (time.perf_counter() - begun) / 20


LOST = {"openai": {}, "anthropic": {"seed": "seed: anthropic has no such setting (dropped)"}}


@pytest.mark.parametrize("name", LOST)
def test_a_trace_keeps_what_was_lost_and_nothing_formal(name: str, store: Any) -> None:
    @tool(metadata={"owner": "ann"})
    def noted(city: str) -> str:
        return f"25 degrees in {city}"

    with simulate([[ToolCall(None, "noted", {"city": "Tokyo"})], "Done."]) as model:
        done = lead("sync", name, model.url, "Go", tools=[noted], seed=7, traces=store).done
    formal = {loss.path for loss in done.losses if loss.severity == "formal"}
    assert "tools[0].metadata" in formal
    assert [one.losses for one in store.traces().rows] == [tuple(LOST[name].values())]


@pytest.mark.row("B31")
@pytest.mark.parametrize("name", ["edit_file", "write_file"])
def test_a_change_of_a_line_with_a_secret_is_recorded_without_it(name: str, store: Any, tmp_path: Path) -> None:
    project, key = tmp_path / "project", f"sk-ant-{SECRET}"
    project.mkdir()
    line, after = f"API_KEY = {key!r}\n", "API_KEY = None  # taken out\n"
    (project / "settings.py").write_text(line)
    change = {"oldText": line, "newText": after} if name == "edit_file" else {"content": after}
    shown: list[Any] = []

    def approve(_: ToolCall, preview: Any) -> bool:
        shown.append(preview)
        return True

    path = {"path": "settings.py"}
    with simulate([ToolCall(None, "read_file", path), ToolCall(None, name, path | change), "Done."]) as model:
        led = lead("sync", "openai", model.url, "Go", tools=CodeTools(project), approve=approve, traces=store)
    results = [part for message in led.done.messages for part in message.parts if type(part) is ToolResult]
    assert [key in str(found) for found in (shown, results[0].content)] == [True, True], "a person and the model see it"
    *_, recorded = store.traces().rows
    assert (recorded.tool_name, recorded.ending, (project / "settings.py").read_text()) == (name, "ok", after)
    held = b"".join(file.read_bytes() for file in tmp_path.glob("traces.db*"))
    assert [word in held for word in (b"taken out", SECRET.encode())] == [True, False]
