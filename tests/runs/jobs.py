"""What a worker of the tests offers, and a server whose model asks for it three times."""

import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.runs.scripted import turns
from toolwire import tool

SAY = turns(*[[("work", {"part": part})] for part in range(3)], "all parts are done")


@tool
def work(part: int) -> str:
    """Do a part of a job, once."""
    from toolwire.work.keys import current_key

    with (Path(os.environ["JOBS"]) / "done").open("a") as file:
        file.write(f"{current_key()}\n")
        file.flush()
    time.sleep(0.2)
    return f"part {part} is done"


TOOLS = [work]


class _Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": None, **SAY(body["messages"])}
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


def serving() -> Iterator[str]:
    """Serve the model; give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
