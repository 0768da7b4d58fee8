"""What a worker of the tests offers, and a server whose model asks for it as often as the prompt says."""

import json
import os
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
    """Ask for the parts of a job, one in a turn: `Job 7 of 10 parts.` has ten of them, `Go.` none."""
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    part = sum(message["role"] == "assistant" for message in messages)
    if prompt == "Go." or part == int(prompt.split()[3]):
        return {"content": "all parts are done"}
    return calls(("work", {"part": part}), turn=part)


def started(runs: Runs, number: int, base_url: str, parts: int = PARTS) -> Run:
    """Put a job into the queue."""
    given: Any = {"tools": TOOLS, "options": {"base_url": base_url}, "limits": {"turns": parts + 1}}
    return runs.start(f"Job {number} of {parts} parts.", "openai", "m", id=f"job-{number}", queue="jobs", **given)


@tool
def work(part: int) -> str:
    """Do a part of a job, once."""
    from toolwire.work.keys import current_key

    with (Path(os.environ["JOBS"]) / "done").open("a") as file:
        file.write(f"{current_key()}\n")
        file.flush()
    time.sleep(float(os.environ.get("JOBS_PAUSE", "0.2")))
    return f"part {part} is done"


TOOLS = [work]


SERVED: list[int] = []
"""How many questions were open when each of them came."""
_OPEN, _PAUSE = [0], [0.0]
_LOCK = threading.Lock()


class _Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        with _LOCK:
            _OPEN[0] += 1
            SERVED.append(_OPEN[0])
        try:
            self._answer()
        finally:
            with _LOCK:
                _OPEN[0] -= 1

    def _answer(self) -> None:
        time.sleep(_PAUSE[0])
        sent = self.rfile.read(int(self.headers["content-length"]))
        if not sent:  # who asked was killed
            return
        body = json.loads(sent)
        message = {"role": "assistant", "content": None, **say(body["messages"])}
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        said = json.dumps({"id": "x", "model": "m", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serving(seconds: float = 0.0) -> Iterator[str]:
    """Serve the model, which takes so long; give its address."""
    _PAUSE[0] = seconds
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
