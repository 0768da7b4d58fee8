"""Traces in a store: recorded once, read back as they were, on both databases."""

import asyncio
import gc
import math
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.traces.making import ATTRS, asked, kept_by, made, record
from toolwire import traces
from toolwire.errors import InvalidField, InvalidTrace, StoreFailed
from toolwire.traces import Trace
from toolwire.traces.store import Store


def content(trace: Trace) -> dict[str, Any]:
    """Give what a trace says itself."""
    filled = ("position", "sequence", "previous", "hash", "ledger", "inserted_at")
    return {name: getattr(trace, name) for name in trace.__struct_fields__ if name not in filled}


FULL = made(
    ending="timed_out",
    result_type="error",
    call_id="call_1",
    model="gpt-4",
    provider="openai",
    dialect="openai-chat",
    session="s",
    sandbox="bubblewrap",
    approval="granted",
    losses=["messages[0]: lost"],
    repair="closed a bracket",
    request_digest="a" * 64,
    response_digest="b" * 64,
    started_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
)


def test_a_trace_comes_back_as_it_was(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    ticket = store.record(FULL)
    assert ticket.wait(30)
    assert ticket.done
    assert ticket.problem is None
    found = store.get(FULL.id)
    assert found is not None
    assert content(found) == content(FULL)
    assert (found.position, found.sequence, found.previous) == (1, 1, "0" * 64)
    assert found.inserted_at is not None
    assert before < found.inserted_at < datetime.now(UTC) + timedelta(seconds=1)


def test_an_unknown_id_is_none(store: Store) -> None:
    assert store.get("nothing") is None
    assert store.anchor() is None
    assert store.traces() == traces.Page(())


VALUES = {
    "empty": {},
    "nul": {"a\x00b": "c\x00d"},
    "lone surrogate": {"a\ud800": "\udfff\\u0041 \\"},
    "a pair of lone surrogates": {"a": "\ud83d\ude00"},
    "text like a form": {"$float:nan": "$text:x", "b": ["$bytes:YQ=="]},
    "not a number": {"a": [math.inf, -math.inf]},
    "2^63": {"a": 2**63, "b": -(2**200)},
    "5,000 digits": {"a": 10**5000 + 1, "b": -(10**5000)},
    "bytes": {"a": b"\xff\xfe\x00"},
    "keys": {1: "a", "1": "b", None: "c", "null": "d", 1.5: "e"},
    "floats": {"a": 0.1, "b": 1e300, "c": 5e-324, "d": -0.0},
    "unicode": {"é": "e\u0301", "b": "\u2028\u0085\U0001f600"},
    "1 MiB": {"a": "x" * 2**20},
    "injected": {"a": "'; DROP TABLE tool_traces; --", "b": "%s {0} :x ?"},
}


@pytest.mark.row("T11", "4.3.11")
def test_any_value_is_kept(store: Store) -> None:
    for name, value in VALUES.items():
        trace = made(arguments=value, result={"content": value}, repair="a\x00\ud800")
        assert content(kept_by(store, trace)) == content(trace), name
    assert store.verify().ok


@pytest.mark.row("T11")
def test_not_a_number_is_no_null(store: Store) -> None:
    assert math.isnan(kept_by(store, made(result={"a": math.nan})).result["a"])
    assert store.verify().ok


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def deep() -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"a": value}
    return value


def wide() -> dict[str, Any]:
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    return {"a": value}


@pytest.mark.row("T11")
def test_what_json_cannot_say_is_marked(store: Store) -> None:
    for value in ({"a": Odd()}, {"a": {1, 2}}, {"a": object}, {Odd(): 1}, circle(), deep()):
        assert kept_by(store, made(result=value))
    assert store.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 2**20, 50 * 2**20])
@pytest.mark.row("T11")
def test_results_of_any_size(store: Store, size: int) -> None:
    trace = made(result="é" * (size // 2))
    assert kept_by(store, trace).result == trace.result
    assert store.verify().ok


LONG = "long " * 2000


def test_a_name_that_is_too_long_for_an_index_is_found(store: Store) -> None:
    for index in range(3):
        store.record(made(tenant_id=LONG, conversation_id=LONG, tool_name=LONG, iteration=index))
    store.flush()
    page = store.traces(tenant=LONG, conversation=LONG, tool=LONG)
    assert [row.sequence for row in page.rows] == [1, 2, 3]
    assert {row.tool_name[:20] for row in page.rows} == {page.rows[0].tool_name[:20]}
    assert page.rows[0].tool_name.startswith("$long:")
    assert store.traces(tool=LONG + "x").rows == ()


@pytest.mark.row("R002-103")
def test_ids_are_opaque(store: Store) -> None:
    known = uuid.uuid4()
    for value in (known, known.bytes, str(known)):
        store.record(made(tenant_id=value, conversation_id=value))
    store.record(made(tenant_id=None, conversation_id="any text"))
    store.flush()
    assert [row.sequence for row in store.traces(tenant=known.bytes, conversation=known).rows] == [1, 2, 3]
    assert [row.conversation_id for row in store.traces(tenant="").rows] == ["any text"]


def test_a_record_is_a_snapshot(store: Store) -> None:
    arguments = {"city": "Tokyo"}
    trace = made(arguments=arguments)
    arguments["city"] = "elsewhere"
    store.record(trace)
    trace.arguments["city"] = "elsewhere too"
    store.flush()
    found = store.get(trace.id)
    assert found is not None
    assert found.arguments == {"city": "Tokyo"}


def test_a_map_is_recorded_too_and_a_wrong_one_is_refused(store: Store) -> None:
    store.record({name: ATTRS[name] for name in Trace.REQUIRED})
    with pytest.raises(InvalidTrace, match="Trace needs tool_name"):
        store.record({"arguments": {}})
    store.flush()
    assert store.count() == 1


@pytest.mark.row("T16")
def test_an_id_is_recorded_once(store: Store) -> None:
    trace = made()
    tickets = [store.record(trace) for _ in range(3)]
    store.flush()
    again = store.record(trace)
    other = store.record(made(id=trace.id, tool_name="another"))
    fine = store.record(made())
    store.flush()
    assert [ticket.done for ticket in (*tickets, again, other, fine)] == [True, True, True, True, False, True]
    assert isinstance(other.problem, InvalidField)
    with pytest.raises(InvalidField, match="another trace"):
        other.wait()
    assert (store.count(), store.lost) == (2, 1)
    assert store.verify().ok


@pytest.mark.slow
def test_async_code_records_without_blocking(store_url: str) -> None:
    async def main() -> list[int | None]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.0005)

        async with traces.open(store_url, queue=5, batch=3) as store:
            ticking = asyncio.create_task(tick())
            tickets = await asyncio.gather(*(store.arecord(made(iteration=n)) for n in range(100)))
            await store.aflush()
            ticking.cancel()
            assert all(ticket.done for ticket in tickets)
            assert ticks > 10
            return [row.position for row in store.traces(limit=1000).rows]

    assert asyncio.run(main()) == list(range(1, 101))


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "toolwire traces"}


def test_no_thread_is_left_after_close(store_url: str) -> None:
    before = threads()
    store = traces.open(store_url)
    store.record(made())
    assert len(threads() - before) == 1
    store.close()
    store.close()
    assert threads() <= before
    for using in (lambda: store.record(made()), store.traces, store.verify, store.anchor):
        with pytest.raises(StoreFailed, match="closed"):
            using()
    assert asked(store_url, "SELECT count(*) FROM tool_traces") == [(1,)]


@pytest.mark.usefixtures("little_garbage")
def test_a_store_that_is_dropped_is_flushed(store_url: str) -> None:
    before = threads()
    store = traces.open(store_url)
    for index in range(60):
        store.record(made(iteration=index))
    writer = store._writer._thread
    assert writer is not None
    del store
    gc.collect()
    writer.join(30)
    assert threads() <= before
    assert asked(store_url, "SELECT count(*) FROM tool_traces") == [(60,)]


@pytest.mark.slow
def test_the_store_goes_on_where_it_ended(store_url: str) -> None:
    for _ in range(3):
        with traces.open(store_url) as store:
            record(store, 4)
    with traces.open(store_url) as store:
        assert store.verify().ok
        assert [row.position for row in store.traces().rows] == list(range(1, 13))
        assert [row.sequence for row in store.traces(conversation="talk 0").rows] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_two_stores_write_to_one_database(store_url: str) -> None:
    with traces.open(store_url) as one, traces.open(store_url) as other:
        for index in range(20):
            (one, other)[index % 2].record(made(iteration=index)).wait(30)
        assert one.verify() == other.verify()
        assert one.verify().rows == 20
        assert one.verify().ok


def test_namespaces_are_apart(store_url: str) -> None:
    with traces.open(store_url, namespace="one") as one, traces.open(store_url, namespace="two") as two:
        record(one, 2)
        assert (one.count(), two.count()) == (2, 0)


@pytest.mark.sampled
@pytest.mark.parametrize("namespace", ["", "a-b", 'a"b', "1a", "a" * 41, "a;b", 5])
def test_a_namespace_is_a_plain_name(store_url: str, namespace: Any, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidField, match="namespace"):
        traces.open(store_url, namespace=namespace)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_a_store_with_a_key_is_not_written_to_with_another(store_url: str) -> None:
    with traces.open(store_url, key="secret") as store:
        record(store, 3)
        assert store.verify().ok
    for key in (None, "other"):
        store = traces.open(store_url, key=key)
        assert store.verify().count == 6
        store.record(made())
        with pytest.raises(StoreFailed, match="another key"):
            store.flush()
        with pytest.raises(StoreFailed, match="another key"):
            store.close()
    with traces.open(store_url, key=b"secret") as store:
        record(store, 1)
        assert store.verify().ok
        assert store.count() == 4
