"""Records that a process of its own writes: what was sent is stored, whoever dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.records.test_store import full
from toolwire import records
from toolwire.records.process import ProcessWriter
from toolwire.records.writer import StoreLimits


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'records.db'}"


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def writer_of(store: records.RecordStore) -> ProcessWriter:
    writer = store._writer
    assert isinstance(writer, ProcessWriter)
    return writer


def test_what_is_sent_is_stored_and_masked(url: str) -> None:
    with records.open(url, process=True) as store:
        for index in range(300):
            assert store.write(full(f"r{index}"), ["api.example.com"])
        assert store.write(lambda: full("made"))
        assert store.flush(30)
        assert (store.written, store.lost, store.failed) == (301, 0, "")
        assert len(store.list(limit=1000).rows) == 301
        found = store.read("r7")
        assert found is not None
        assert found.url == "https://[hidden]/v1/chat/completions"


def test_a_process_that_dies_is_replaced_and_its_records_are_counted(url: str) -> None:
    with records.open(url, process=True) as store:
        store.write(full("before"))
        assert store.flush(30)
        process = writer_of(store)._process
        assert process is not None
        process.kill()
        process.wait()
        for index in range(5):
            store.write(full(f"after{index}"))
            time.sleep(0.3)
        assert store.flush(30)
        stored = {line.id for line in store.list().rows}
        assert {"before", "after4"} <= stored
        assert store.lost == 6 - len(stored)


_PROGRAM = """
import os, sys
from tests.records.test_store import full
from toolwire import records
store = records.open(sys.argv[1], process=True)
for index in range(200):
    store.write(full(f"r{index}"))
while store._writer._bytes:
    pass
print("sent", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_program_has_sent_is_stored(url: str, number: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _PROGRAM, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"sent\n"
        program.send_signal(number)
    with records.open(url) as store:
        wait_for(lambda: len(store.list(limit=1000).rows) == 200)


def test_no_secret_is_on_a_command_line(url: str) -> None:
    with records.open(url, process=True) as store:
        store.write(full(), ["a-secret-of-the-gateway"])
        assert store.flush(30)
        process = writer_of(store)._process
        assert process is not None
        line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert b"secret" not in line
    assert b"records.db" not in line


def test_a_full_queue_loses_records(url: str) -> None:
    with records.open(url, process=True) as store:
        writer = writer_of(store)
        writer._limits = StoreLimits(queue_bytes=100_000)
        body = records.Body(data=b"x" * 60_000)
        accepted = [store.write(full(f"r{index}", provider_request=body)) for index in range(50)]
        assert not all(accepted)
        assert store.flush(30)
        assert store.lost == accepted.count(False)
        assert len(store.list(limit=100).rows) == accepted.count(True)
