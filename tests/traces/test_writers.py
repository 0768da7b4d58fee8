"""Many writers on one database, a full queue, a fork, and the end of a process."""

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import FULL
from tests.timing import within
from tests.traces.making import Between, asked, made
from toolwire import traces
from toolwire.traces.store import Store

pytestmark = pytest.mark.slow  # threads and processes write at the same time

REPOSITORY = Path(__file__).resolve().parents[2]
THREADS, PROCESSES, ROWS = (50, 10, 1000) if FULL else (10, 4, 200)


def process(*arguments: Any) -> "subprocess.Popen[bytes]":
    """Start a process that writes to a store."""
    path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    command = [sys.executable, "-m", "tests.traces.writers", *map(str, arguments)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, cwd=REPOSITORY)


def whole(url: str, rows: int) -> None:
    """Assert that all rows are there, in order, with every conversation gapless."""
    with traces.open(url, create=False) as store:
        found = store.verify()
        assert (found.problems, found.rows) == ((), rows)
    counted = asked(url, "SELECT count(*), max(sequence) FROM tool_traces GROUP BY tenant_id, conversation_id")
    assert all(number == last for number, last in counted)


@pytest.mark.row("T5")
def test_threads_write_to_one_store(store: Store, store_url: str) -> None:
    def work(name: str) -> None:
        for index in range(100):
            store.record(made(tenant_id=name, iteration=index))

    run_all([threading.Thread(target=work, args=(f"{n}",)) for n in range(8)])
    store.flush()
    whole(store_url, 800)
    assert [row.iteration for row in store.traces(tenant="3", limit=200).rows] == list(range(100))


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.slow
@pytest.mark.row("T5")
def test_threads_with_a_store_each(store_url: str, tally: Counter[str]) -> None:
    def work(name: str) -> None:
        with traces.open(store_url, patience=120) as store:
            for index in range(ROWS):
                store.record(made(tenant_id=name, conversation_id="", iteration=index))
                if index % 100 == 0:
                    store.flush()

    run_all([threading.Thread(target=work, args=(f"{n}",)) for n in range(THREADS)])
    whole(store_url, THREADS * ROWS)
    tally["rows of threads with a store each, gapless"] += THREADS * ROWS


@pytest.mark.slow
@pytest.mark.row("T5")
def test_processes(store_url: str, tally: Counter[str]) -> None:
    running = [process("write", store_url, f"w{n}", ROWS) for n in range(PROCESSES)]
    assert [one.wait(300) for one in running] == [0] * PROCESSES
    whole(store_url, PROCESSES * ROWS)
    tally["rows of processes, gapless"] += PROCESSES * ROWS


class Held(Between):
    """A writer whose commits wait until they may go on."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.go, self.sizes = threading.Event(), list[int]()

    def commit(self, rows: Any, *, again: bool = False) -> Any:
        self.go.wait(30)
        self.sizes.append(len(rows))
        return self.committer.commit(rows, again=again)


def test_a_full_queue_holds_back_who_records(store_url: str) -> None:
    with traces.open(store_url, queue=10, batch=4) as store:
        held = Held(store)
        done = threading.Event()

        def work() -> None:
            for index in range(30):
                store.record(made(iteration=index))
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        assert not done.wait(0.05)
        assert store._writer.last == 10
        assert not store.flush(timeout=0.01)
        held.go.set()
        thread.join()
        store.flush()
        assert sum(held.sizes) == 30
        assert max(held.sizes) <= 4
        assert store.count() == 30


def test_a_full_queue_does_not_hold_back_the_loop(store_url: str) -> None:
    async def main() -> None:
        async with traces.open(store_url, queue=2) as store:
            held = Held(store)
            recording = asyncio.gather(*(store.arecord(made(iteration=n)) for n in range(20)))
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not recording.done()
            assert store._writer.last == 2
            held.go.set()
            await recording
            await store.aflush()
            assert store.count() == 20

    asyncio.run(main())


def test_a_cancelled_wait_leaves_the_store_whole(store_url: str) -> None:
    async def main() -> None:
        async with traces.open(store_url, queue=2) as store:
            held = Held(store)
            tasks = [asyncio.create_task(store.arecord(made(iteration=n))) for n in range(10)]
            await asyncio.sleep(0.01)
            for task in tasks[2:]:
                task.cancel()
            held.go.set()
            await asyncio.wait(tasks)
            await store.aflush()
            assert store.count() == 2

    asyncio.run(main())


def test_what_waits_goes_into_one_commit(store_url: str) -> None:
    with traces.open(store_url) as store:
        held = Held(store)
        for index in range(101):
            store.record(made(iteration=index))
        held.go.set()
        store.flush()
        assert len(held.sizes) <= 3


def test_a_ticket_is_done_when_its_row_can_be_read(store_url: str) -> None:
    with traces.open(store_url) as store:
        held = Held(store)
        ticket = store.record(made())
        assert not ticket.done
        assert not ticket.wait(0.01)
        held.go.set()
        assert ticket.wait(30)
        assert asked(store_url, "SELECT count(*) FROM tool_traces") == [(1,)]


def test_recording_takes_microseconds(store_url: str) -> None:
    trace = made()
    with traces.open(store_url) as store:
        held = Held(store)
        with within(1):
            for _ in range(1000):
                store.record(trace)
        held.go.set()


@pytest.mark.slow
def test_the_exit_of_a_process_flushes(store_url: str) -> None:
    assert process("exits", store_url, 300).wait(60) == 0
    whole(store_url, 300)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 500])
def test_parent_and_child_of_a_fork_write_both(store_url: str, rows: int) -> None:
    assert process("forks", store_url, rows).wait(60) == 0
    whole(store_url, 3 * rows)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_hosts_open_file_is_not_written_to_after_a_fork(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'traces.db'}"
    assert process("forks_with_an_engine", url).wait(60) == 0
    whole(url, 2)
