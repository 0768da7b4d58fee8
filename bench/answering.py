"""A server on loopback that gives one answer, in two wires; it runs in a process of its own.

It prints its address, and ends when its standard input does. A request that lacks any of what it should have
is refused: so nobody is measured who sent less.
"""

import http.server
import json
import sys
import threading
from typing import Any

import msgspec

EVENTS = 50
WHOLE = "It is warm."
STREAMED = "".join(f" word{place}" for place in range(EVENTS))
MESSAGES, TOOLS = 41, 10


def chat() -> dict[str, Any]:
    """Give the answer as Chat Completions says it."""
    message = {"role": "assistant", "content": WHOLE}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    }


def chat_stream() -> bytes:
    """Give the answer as a stream of Chat Completions."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[dict[str, Any]] = [{"content": f" word{place}"} for place in range(EVENTS)]
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def messages() -> dict[str, Any]:
    """Give the same answer as Messages says it."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": WHOLE}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 4},
    }


def messages_stream() -> bytes:
    """Give the same answer as a stream of Messages."""
    shell = {**messages(), "content": [], "stop_reason": None}
    text = {"type": "text", "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": shell},
        {"type": "content_block_start", "index": 0, "content_block": text},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": f" word{place}"},
            }
            for place in range(EVENTS)
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


ANSWERS = {
    "/v1/chat/completions": (json.dumps(chat()).encode(), chat_stream()),
    "/v1/messages": (json.dumps(messages()).encode(), messages_stream()),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what is whole."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request."""
        body = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
        asked = len(body["messages"]), len(body["tools"])
        if asked != (MESSAGES, TOOLS):
            self._send("400 Bad Request", "application/json", f'{{"error": "{asked}"}}'.encode())
            return
        streams = body.get("stream") is True
        kind = "text/event-stream" if streams else "application/json"
        self._send("200 OK", kind, ANSWERS[self.path.partition("?")[0]][streams])

    def _send(self, status: str, kind: str, data: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n"
        self.wfile.write(head.encode() + data)

    def log_message(self, *_said: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until nobody listens any more."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
