"""Gateways as processes of their own on one database, and a model that does what the model's name says.

Rule: only processes that were started here are signalled, by their id.
"""

import asyncio
import contextlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from toolwire.gateway.keys import Limit, limit_of, mint
from toolwire.gateway.ledger import LimitLedger
from toolwire.gateway.starting import url_of_database

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = """
[server]
database = "{database}"
[providers.local]
dialect = "openai-chat"
base_url = "{url}"
key = "$LOCAL_KEY"
[providers.claude]
dialect = "anthropic"
base_url = "{url}"
key = "$LOCAL_KEY"
[providers.away]
dialect = "openai-chat"
base_url = "http://127.0.0.1:1"
key = "$LOCAL_KEY"
[routes.several]
to = ["local/cut-head", "local/error", "away/m", "local/answer"]
[prices]
{prices}
"""
NAMES = ["answer", "silent", "slow", "partial", "breaks", "cut-head", "error", "error-in-200", "m"]
PRICES = "".join(
    f'"{provider}/{name}" = {{ input = 1.0, output = 4.0 }}\n'
    for provider in ("local", "claude", "away")
    for name in NAMES
)
WORDS = "word " * 20
PART = b'{"id": "c", "choices": [{"index": 0, "me'  # forty bytes of a whole answer
USAGE = (11, 7)  # tokens that the model reports


class Model:
    """A model of Chat Completions and Messages that does what the name of the model says.

    `received` counts the requests that arrived whole, by name. `release` lets the slow ones end.
    """

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()
        self.open = 0
        self._released = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)

    def release(self) -> None:
        """Let the slow requests end."""
        self._loop.call_soon_threadsafe(self._released.set)

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1000)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._ended.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                size = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                asked = json.loads(await reader.readexactly(size))
                self.received[asked["model"]] += 1
                self.open += 1
                try:
                    goes_on = await self._answer(asked, "/messages" in head, reader, writer)
                finally:
                    self.open -= 1
                if not goes_on:
                    break
        writer.close()

    async def _answer(
        self, asked: dict[str, Any], messages: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer a request. Return True if the connection can be used again."""
        name, streams = asked["model"], asked.get("stream") is True
        if name == "cut-head":
            return False
        if name == "silent":
            await reader.read(1)  # until the gateway closes the connection
            return False
        if name == "error":
            writer.write(_response({"error": {"message": "broken", "type": "server_error"}}, 500))
            return True
        if name == "error-in-200":
            error = {"error": {"message": "broken", "type": "server_error"}}
            writer.write(_response({"type": "error", **error} if messages else error, 200))
            return True
        if name == "slow":
            await self._released.wait()
        if streams:
            return await self._stream(name, messages, reader, writer)
        if name in ("partial", "breaks"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n" + PART)
            await writer.drain()
            if name == "partial":
                await reader.read(1)
            return False
        writer.write(_response(_message(WORDS) if messages else _completion(WORDS), 200))
        await writer.drain()
        return True

    async def _stream(
        self, name: str, messages: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        begin, end = _frames(messages)
        writer.write(b"".join(map(_chunk, begin)))
        await writer.drain()
        if name == "partial":
            await reader.read(1)
            return False
        if name == "breaks":
            return False
        writer.write(b"".join(map(_chunk, end)) + b"0\r\n\r\n")
        await writer.drain()
        return True


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _response(body: dict[str, Any], status: int) -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


def _completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}


def _message(text: str) -> dict[str, Any]:
    usage = {"input_tokens": USAGE[0], "output_tokens": USAGE[1]}
    content = [{"type": "text", "text": text}]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    return {**head, "content": content, "stop_reason": "end_turn", "usage": usage}


def _frames(messages: bool) -> tuple[list[bytes], list[bytes]]:
    """Write a stream in two parts: WORDS, and the end with the usage."""
    if not messages:
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        delta = {"index": 0, "delta": {"role": "assistant", "content": WORDS}, "finish_reason": None}
        usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        frames = [{**head, "choices": [delta]}, {**head, "choices": [last]}, {**head, "choices": [], "usage": usage}]
        told = [b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames]
        return told[:1], [*told[1:], b"data: [DONE]\n\n"]
    whole = {**_message(""), "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "usage": {"input_tokens": USAGE[0], "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORDS}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": USAGE[1]}},
        {"type": "message_stop"},
    ]
    written = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    return written[:3], written[3:]


class Gateway:
    """A gateway as `toolwire serve`. What it logs stands in a file."""

    def __init__(self, folder: Path, name: str = "gateway", program: Sequence[str] = ("-m", "toolwire")) -> None:
        self.log = folder / f"{name}.log"
        self.killed_at: float | None = None
        self.pauses: list[list[float]] = []
        command = [sys.executable, *program, "serve", "--config", str(folder / "toolwire.toml")]
        around = {**os.environ, "LOCAL_KEY": "k", "PYTHONPATH": str(ROOT / "src")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0"], env=around, stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("toolwire serves"), self.log.read_text()
        self.url = line.split()[-1]
        self.port = urlsplit(self.url).port or 0

    def pause(self) -> None:
        """Stop the process as a suspended machine does."""
        self.pauses.append([time.time(), math.inf])
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue a process that was paused."""
        self.process.send_signal(signal.SIGCONT)
        if self.pauses:
            self.pauses[-1][1] = time.time()

    def kill(self) -> None:
        """Kill the process."""
        self.killed_at = time.time()
        self.process.kill()
        self.end()

    def ran(self, since: float, until: float) -> float:
        """Return for how long the process was not paused between two times."""
        paused = sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in self.pauses)
        return until - since - paused

    def stop(self) -> None:
        """Ask the process to end, and wait for it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.end()

    def end(self) -> None:
        """Wait until the process has ended."""
        assert self.process.stdout is not None
        self.process.wait(60)
        self.process.stdout.close()

    def records(self) -> list[dict[str, Any]]:
        """Read the lines of requests in the log."""
        lines = [line for line in self.log.read_text().splitlines() if line.startswith('{"time"')]
        return [json.loads(line) for line in lines]


class Team:
    """Gateways on one database, before one model, and one key with limits."""

    def __init__(self, folder: Path, database: str, model: Model, *limits: Limit) -> None:
        self.folder, self.model = folder, model
        (folder / "toolwire.toml").write_text(SETTINGS.format(database=database, url=model.url, prices=PRICES))
        self.ledger = LimitLedger(url_of_database(database, str(folder / "toolwire.toml")))
        usual = (limit_of("requests", "100/day"), limit_of("tokens", "1000000/day"), limit_of("budget", "10/day"))
        self.text, self.key = mint("ci", (), limits or usual, time.time(), None)
        self.ledger.add(self.key)
        self.gateways: list[Gateway] = []
        self._names = itertools.count()

    def start(self) -> Gateway:
        """Start another gateway."""
        gateway = Gateway(self.folder, f"gateway{next(self._names)}")
        self.gateways.append(gateway)
        return gateway

    def taken(self) -> list[int]:
        """Return what the database says is taken of each limit."""
        return [*self.ledger.taken(self.key, time.time()).values()]

    def close(self) -> None:
        """End all gateways."""
        self.model.release()
        for gateway in self.gateways:
            if gateway.process.poll() is None:
                gateway.go_on()
                gateway.stop()
        self.ledger.close()


@contextlib.contextmanager
def team(folder: Path, database: str, *limits: Limit) -> Iterator[Team]:
    """Prepare gateways on a database."""
    with Model() as model:
        made = Team(folder, database, model, *limits)
        try:
            yield made
        finally:
            made.close()


def until(met: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is so."""
    late = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < late, "it did not happen in time"
        time.sleep(0.01)
