"""Measure what a client adds to the bare HTTP request that it sends, beside the clients of peers.

A server on loopback answers every request with the same bytes. The history has 41 messages with 10 tools, and
is another one each time. What is bare is a POST of the same bytes with the HTTP client that toolwire uses,
measured right before each client; the figures are medians of what is spent beyond it.
"""

import contextlib
import gc
import http.server
import importlib.util
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import msgspec

from toolwire.sync import Client

ROUNDS = 40
TARGET = 1000.0
EVENTS = 50
Work = Callable[[list[dict[str, Any]]], Any]
_numbers = itertools.count(1)

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "It is warm."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Does one thing, and says what came of it.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}},
                "required": ["path"],
            },
        },
    }
    for number in range(10)
]


def history() -> list[dict[str, Any]]:
    """Make a history of 41 messages that nobody has seen before."""
    number = next(_numbers)
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Task {number}. {'Words. ' * 20}"}]
    for turn in range(20):
        call = {"name": f"tool_{turn % 10}", "arguments": f'{{"path":"file{number}.py","lines":{turn + 1}}}'}
        entry = {"id": f"call_{number}_{turn}", "type": "function", "function": call}
        messages.append({"role": "assistant", "content": "I look.", "tool_calls": [entry]})
        messages.append({"role": "tool", "tool_call_id": entry["id"], "content": "A line. " * 50})
    return messages


def stream() -> bytes:
    """Write an answer as a stream."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[dict[str, Any]] = [{"content": f" word{place}"} for place in range(EVENTS)]
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return (
        b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    )


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    whole, streamed = msgspec.json.encode(ANSWER), stream()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        streams = b'"stream":true' in body.replace(b" ", b"")
        data = self.streamed if streams else self.whole
        kind = "text/event-stream" if streams else "application/json"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n"
        self.wfile.write(head.encode() + data)

    def log_message(self, *_said: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Answer on loopback."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()


def bare(client: httpx2.Client, url: str, *, shown: bool) -> Work:
    """Send bytes and read bytes; writing them as JSON is not counted."""

    def work(messages: list[dict[str, Any]]) -> float:
        body = msgspec.json.encode({"model": "m", "messages": messages, "tools": TOOLS, "stream": shown})
        begun = time.perf_counter()
        with client.stream(
            "POST", f"{url}/chat/completions", content=body, headers={"content-type": "application/json"}
        ) as answer:
            for _ in answer.iter_bytes():
                pass
        return time.perf_counter() - begun

    return work


def timed(work: Work) -> Work:
    """Time a whole call."""

    def timing(messages: list[dict[str, Any]]) -> float:
        begun = time.perf_counter()
        work(messages)
        return time.perf_counter() - begun

    return timing


def contestants(url: str, *, shown: bool) -> dict[str, Work]:
    """Give the clients that are installed, each asking the same."""
    ours = Client("groq", "m", base_url=url, api_key="k")

    def shows(messages: list[dict[str, Any]]) -> None:
        assert ours.stream(messages, tools=TOOLS).collect().content

    def chats(messages: list[dict[str, Any]]) -> None:
        assert ours.chat(messages, tools=TOOLS).content == "It is warm."

    found: dict[str, Work] = {"toolwire": shows if shown else chats}
    for name, make in (("openai", _openai), ("litellm", _litellm)):
        if importlib.util.find_spec(name) is not None:
            found[name] = make(url, shown=shown)
    return found


def _openai(url: str, *, shown: bool) -> Work:
    import openai  # noqa: PLC0415 - where it is installed

    client: Any = openai.OpenAI(base_url=url, api_key="k", max_retries=0)

    def work(messages: list[dict[str, Any]]) -> None:
        given = client.chat.completions.create(model="m", messages=messages, tools=TOOLS, stream=shown)
        for _ in given if shown else ():
            pass

    return work


def _litellm(url: str, *, shown: bool) -> Work:
    import litellm  # noqa: PLC0415 - where it is installed

    litellm.suppress_debug_info = True

    def work(messages: list[dict[str, Any]]) -> None:
        given = litellm.completion(
            model="openai/m",
            api_base=url,
            api_key="k",
            messages=messages,
            tools=TOOLS,
            stream=shown,
            num_retries=0,
        )
        for _ in given if shown else ():
            pass

    return work


def measure(*, shown: bool, rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
    """Give the microseconds of what is bare and of what each client adds to it."""
    with serving() as url, httpx2.Client(trust_env=False) as client:
        floor = bare(client, url, shown=shown)
        works = {name: timed(work) for name, work in contestants(url, shown=shown).items()}
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
        for number in range(rounds + 3):
            for name, work in works.items():
                gc.collect()
                floor(history())
                below = floor(history()) * 1e6
                whole = work(history()) * 1e6
                if number >= 3:
                    pairs[name].append((below, whole - below))
    median = statistics.median
    return {
        name: (median(below for below, _ in told), median(more for _, more in told))
        for name, told in pairs.items()
    }


def report(*, short: bool = False) -> None:
    """Print what each client adds."""
    print("\nWhat a client adds to a bare HTTP request (41 messages, 10 tools), microseconds")
    for name, shown in (("chat", False), (f"stream of {EVENTS} events", True)):
        found = measure(shown=shown, rounds=10 if short else ROUNDS)
        floor, ours = found["toolwire"]
        told = "  ".join(f"{peer} {more:,.0f}" for peer, (_, more) in found.items())
        kept = ours <= TARGET and ours == min(more for _, more in found.values())
        print(f"  {name:20} bare {floor:,.0f}   adds: {told}   ({'met' if kept else 'MISSED'})")
    print(f"  target: at most {TARGET:,.0f}, and less than every peer")


if __name__ == "__main__":
    report()
