"""What a worker of the tests offers, and a server whose model asks for it as often as the prompt says."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.runs.scripted import calls
from toolwire import Run, Runs, tool

PARTS = 3


def say(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Ask for the parts of a job, one in a turn: `Job 7 of 10 parts.` has ten of them, `Go.` none.

    Those of `Burst 7 of 10 parts.` end the process.
    """
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    part = sum(message["role"] == "assistant" for message in messages)
    if prompt == "Go." or part == int(prompt.split()[3]):
        return {"content": "all parts are done"}
    return calls(("burst" if prompt.startswith("Burst") else "work", {"part": part}), turn=part)


def started(runs: Runs, number: int, base_url: str, parts: int = PARTS, *, kind: str = "Job") -> Run:
    """Put a job into the queue."""
    given: Any = {"tools": TOOLS, "options": {"base_url": base_url}, "limits": {"turns": parts + 1}}
    return runs.start(f"{kind} {number} of {parts} parts.", "openai", "m", id=f"job-{number}", queue="jobs", **given)


@tool
def work(part: int) -> str:
    """Do a part of a job, once."""
    from toolwire.waiting.call_keys import current_key

    with (Path(os.environ["JOBS"]) / "done").open("a") as file:
        file.write(f"{current_key()}\n")
        file.flush()
    time.sleep(float(os.environ.get("JOBS_PAUSE", "0.2")))
    return f"part {part} is done"


@tool(effects="none")
def burst(part: int) -> str:
    """Do a part of a job that ends the process each time."""
    os.kill(os.getpid(), signal.SIGKILL)
    return f"part {part} is done"


TOOLS = [work, burst]


class Model(ThreadingHTTPServer):
    """A served model: `open` says how many questions it has, `asked` how many there were when each one came.

    It answers none before it has had `until` of them at once.
    """

    def __init__(self, seconds: float, until: int) -> None:
        super().__init__(("127.0.0.1", 0), _Question)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.seconds, self.open = seconds, 0
        self.asked: list[int] = []
        self.until = until
        self.full = threading.Event()
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            self.open += 1
            self.asked.append(self.open)
            if self.open >= self.until:
                self.full.set()

    def end(self) -> None:
        with self._lock:
            self.open -= 1


class _Question(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    server: Model

    def do_POST(self) -> None:
        self.server.begin()
        try:
            said = self._answer()
        finally:
            self.server.end()  # before the answer is sent, for the next question may come with it
        if not said:  # who asked was killed
            return
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _answer(self) -> bytes:
        self.server.full.wait(30)
        time.sleep(self.server.seconds)
        sent = self.rfile.read(int(self.headers["content-length"]))
        if not sent:
            return b""
        body = json.loads(sent)
        message = {"role": "assistant", "content": None, **say(body["messages"])}
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return json.dumps({"id": "x", "model": "m", "choices": [choice], "usage": usage}).encode()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serving(seconds: float = 0.0, until: int = 0) -> Iterator[Model]:
    """Serve the model, which takes so long."""
    server = Model(seconds, until)
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
