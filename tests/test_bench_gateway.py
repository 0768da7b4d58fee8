"""The gateway's benchmarks measure what they say: new bodies are new, and a stream that pauses is counted."""

import http.server
import importlib
import json
import math
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"
pytestmark = pytest.mark.slow


@contextmanager
def serving(answer: Callable[[http.server.BaseHTTPRequestHandler, bytes], None]) -> Iterator[int]:
    """Serve POST with `answer`, and yield the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer(self, self.rfile.read(int(self.headers["content-length"])))

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def measured_bodies(monkeypatch: pytest.MonkeyPatch, folder: Path, *, new: bool) -> list[dict[str, Any]]:
    """Let wrk send requests for a second, and return the bodies that arrived."""
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed: apt-get install wrk")
    monkeypatch.syspath_prepend(str(BENCH))
    requests, processes = importlib.import_module("gateway_requests"), importlib.import_module("processes")
    bodies: list[dict[str, Any]] = []

    def answer(handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        bodies.append(json.loads(body))
        handler.send_response(200)
        handler.send_header("content-length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    with serving(answer) as port, processes.running(["sleep", "60"], folder) as program:
        wrk = requests.Wrk(port, program, folder)
        found = wrk.measure(requests.agent_request("m", 3), 1, 2, new=new)
    assert found.answers > 0
    assert found.errors == 0
    return bodies


def words(body: dict[str, Any]) -> list[str]:
    """Return what each message says, without its role and names."""
    return [json.dumps([message["content"], message.get("tool_calls")]) for message in body["messages"]]


def test_every_message_of_a_new_body_is_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bodies = measured_bodies(monkeypatch, tmp_path, new=True)
    for messages in zip(*map(words, bodies), strict=True):
        assert len(set(messages)) == len(bodies)


def test_the_same_body_is_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bodies = measured_bodies(monkeypatch, tmp_path, new=False)
    assert all(earlier == later for earlier, later in pairwise(bodies))


def test_latencies_of_every_unit_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    read = importlib.import_module("gateway_requests")._latency
    printed = "  Latency Distribution\n     50%  830.00us\n     75%    2.50ms\n     90%    1.21s \n     99%    2.00m \n"
    assert [read(percentile, printed) for percentile in (50, 75, 90, 99)] == pytest.approx(
        [0.83, 2.5, 1210.0, 120_000.0]
    )
    assert math.isnan(read(50, "     50%    0.00us\n"))


def received(port: int, streams: int, seconds: float) -> dict[str, Any]:
    """Run the benchmark's clients, and return their figures."""
    command = [sys.executable, str(BENCH / "gateway_streams.py"), "chat", str(port), "--streams", str(streams)]
    ran = subprocess.run([*command, "--seconds", str(seconds)], capture_output=True, text=True, check=True)
    return dict(json.loads(ran.stdout))


def send_frames(handler: http.server.BaseHTTPRequestHandler, pause: float, age: float, end: bytes) -> None:
    """Send a stream of 20 frames that pauses in the middle, and whose last frames were sent `age` seconds ago."""
    handler.close_connection = True
    handler.send_response(200)
    handler.end_headers()
    for index in range(20):
        time.sleep(pause if index == 10 else 0.01)
        sent = time.perf_counter_ns() // 1000 - round(1e6 * age if index > 10 else 0)
        handler.wfile.write(b"data: @%d;\n\n" % sent)
    handler.wfile.write(end)


DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("pause", "age", "end", "complete", "stalled", "late"),
    [
        (0.01, 0.0, DONE, 2, 0, 0),
        (0.7, 0.0, DONE, 2, 2, 0),
        (0.01, 0.9, DONE, 2, 0, 2),
        (0.01, 0.0, b"", 0, 0, 0),
    ],
    ids=["on time", "a pause", "behind", "cut"],
)
def test_clients_count_streams(pause: float, age: float, end: bytes, complete: int, stalled: int, late: int) -> None:
    with serving(lambda handler, _: send_frames(handler, pause, age, end)) as port:
        found = received(port, 2, 1)
    assert found["frames"] == 40
    assert (found["complete"], found["stalled"], found["late"]) == (complete, stalled, late)
    assert (found["problem"] == "") == (complete == 2)


def test_an_operators_questions_are_answered() -> None:
    command = [sys.executable, str(BENCH / "gateway_load.py"), "--quick", "--alone"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "LiteLLM: not measured: --alone was set" in printed
    questions = ["ready after", "memory, idle", "streams of messages > chat", "streams of chat > chat"]
    if shutil.which("nginx") and shutil.which("wrk"):
        questions += ["requests a second, chat > chat", "  CPU a request, chat > messages"]
    else:
        assert "requests: not measured: " in printed
    table = printed.partition("\n\n")[2].splitlines()
    for question in questions:
        assert [line for line in table if line.startswith(f"  {question}  ") and "not measured" not in line], printed
