"""Many clients at once before a gateway in a process of its own: run as a program, in a network of its own.

`python -m tests.gateway.floods WHAT COUNT SECONDS` prints what was seen as one line of JSON. A control says `leak`:
then the gateway keeps what it has handed on, and the memory that is measured has to grow.
"""

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from tests.gateway.test_clients import connect, head, health, question, slow_model, until

LEAK = """
import sys
from toolwire.translation.exchange_answer import ExchangedStream
feed, kept = ExchangedStream.feed, []
def keeping(self, data):
    kept.append(bytes(4096) + data)
    return feed(self, data)
ExchangedStream.feed = keeping
from toolwire.cli import main
sys.exit(main(sys.argv[1:]))
"""


def raise_loopback() -> None:
    """Bring up this network's loopback, as a new network has it down."""
    with socket.socket() as opened:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
        fcntl.ioctl(opened, 0x8914, request)


def memory_of(pid: int) -> float:
    """Give the resident megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files(pid: int) -> int:
    """Count what a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


class Gateway:
    """A gateway as `toolwire serve` before a model."""

    def __init__(self, folder: str, model: str, *, leaks: bool) -> None:
        file = Path(folder) / "toolwire.toml"
        file.write_text(f'[providers.openai]\nbase_url = "{model}"\nkey = "$FLOOD_KEY"\n')
        program = ["-c", LEAK] if leaks else ["-m", "toolwire"]
        self.command = [sys.executable, *program, "serve", "--quiet", "--config", str(file), "--listen", "127.0.0.1:0"]
        self.url, self.pid = "", 0

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            env={**os.environ, "FLOOD_KEY": "k"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        self.url = (await self.process.stdout.readline()).decode().split()[-1]
        self.pid = self.process.pid
        return self

    async def __aexit__(self, *_: object) -> None:
        self.process.kill()
        await self.process.wait()


async def _ask(url: str, wire: str = "anthropic") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    path, body = question(wire, "openai/m")
    reader, writer = await connect(url)
    writer.write(head(path, body) + body)
    return reader, writer


async def streams(count: int, seconds: float, *, leaks: bool = False) -> dict[str, Any]:
    """Read so many streams at once for some time; give the gateway's memory and files on the way."""
    pause = max(0.25, count / 400)
    with tempfile.TemporaryDirectory() as folder:
        async with slow_model(pause=pause) as (model, url), Gateway(folder, url, leaks=leaks) as gateway:
            idle, files = memory_of(gateway.pid), open_files(gateway.pid)
            held = [await _ask(gateway.url) for _ in range(count)]
            await until(lambda: model.open == count, 120)
            read = [0] * count

            async def follow(place: int, reader: asyncio.StreamReader) -> None:
                while piece := await reader.read(65_536):
                    read[place] += len(piece)

            tasks = [asyncio.create_task(follow(place, reader)) for place, (reader, _) in enumerate(held)]
            await asyncio.sleep(max(5.0, seconds / 6))  # until all buffers are what they will be
            seen, end, slowest = [memory_of(gateway.pid)], time.monotonic() + seconds, 0.0
            while time.monotonic() < end:
                await asyncio.sleep(min(10.0, seconds / 4))
                seen.append(memory_of(gateway.pid))
                slowest = max(slowest, await health(gateway.url))
            alive, told = sum(not task.done() for task in tasks), min(read)
            for task, (_, writer) in zip(tasks, held, strict=True):
                task.cancel()
                writer.transport.abort()
            let_go = await until(lambda: model.open == 0, 60)
            await asyncio.sleep(1)
            return {
                "streams": alive,
                "least read": told,
                "idle MB": idle,
                "MB": [round(one, 1) for one in seen],
                "slope MB/min": _slope(seen, seconds),
                "slowest health s": slowest,
                "let go after s": let_go,
                "files left": open_files(gateway.pid) - files,
            }


def _slope(seen: list[float], seconds: float) -> float:
    """Give the growth a minute, by the means of the first and the last third."""
    third = max(1, len(seen) // 3)
    first, last = sum(seen[:third]) / third, sum(seen[-third:]) / third
    return round((last - first) / (seconds * 2 / 3) * 60, 3)


async def readers(count: int, seconds: float) -> dict[str, Any]:
    """Have so many clients that read nothing, while others are served; give how much the gateway holds for them."""
    with tempfile.TemporaryDirectory() as folder:
        held_up = slow_model(words=b"x" * 1000, pause=0.0)
        async with held_up as (model, url), Gateway(folder, url, leaks=False) as gateway:
            before = await _usual(gateway.url)
            idle = memory_of(gateway.pid)
            held = [await _ask(gateway.url) for _ in range(count)]
            await until(lambda: model.asked >= count + before["asked"], 120)
            sent = -1
            async with asyncio.timeout(240):
                while model.sent != sent:
                    sent = model.sent
                    await asyncio.sleep(2)
            full = memory_of(gateway.pid)
            await asyncio.sleep(seconds)
            during = await _usual(gateway.url)
            result = {
                "held": count,
                "idle MB": round(idle, 1),
                "MB when full": round(full, 1),
                "MB later": round(memory_of(gateway.pid), 1),
                "usual ms": before["median ms"],
                "meanwhile ms": during["median ms"],
            }
            for _, writer in held:
                writer.transport.abort()
            result["let go after s"] = await until(lambda: model.open == 0, 60)
            return result


async def senders(count: int, seconds: float) -> dict[str, Any]:
    """Have so many clients that never finish a request, half of them within its head; give how they ended."""
    with tempfile.TemporaryDirectory() as folder:
        async with slow_model() as (model, url), Gateway(folder, url, leaks=False) as gateway:
            before = await _usual(gateway.url)
            asked = model.asked
            path, body = question("openai-chat", "openai/m")
            held, start = [], time.monotonic()
            for number in range(count):
                reader, writer = await connect(gateway.url)
                writer.write(head(path, body)[:30] if number % 2 else head(path, body) + body[:5])
                held.append((reader, writer))
            during = await _usual(gateway.url)
            asked_by_us = model.asked - asked
            ended = await asyncio.gather(*(asyncio.wait_for(reader.read(), seconds) for reader, _ in held))
            for _, writer in held:
                writer.close()
            return {
                "held": count,
                "closed": sum(answer == b"" for answer in ended),
                "408": sum(answer.startswith(b"HTTP/1.1 408") for answer in ended),
                "all ended after s": round(time.monotonic() - start, 1),
                "usual ms": before["median ms"],
                "meanwhile ms": during["median ms"],
                "asked for them": model.asked - asked - asked_by_us,
            }


SAME, OTHER = ["127.0.0.1"], ["127.0.0.2"]
MANY = [f"127.0.1.{number}" for number in range(1, 251)]
RENEWED = 250  # connections that are opened again in a quarter of a second
HALF_HEAD = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: "
HALF_BODY = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n{"
NO_MORE = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


async def halves(count: int, seconds: float, sources: list[str] = OTHER, sent: bytes = HALF_HEAD) -> dict[str, Any]:
    """Send so many halves of a request, again where they are closed, and meanwhile 20 good requests of 127.0.0.1."""
    with tempfile.TemporaryDirectory() as folder:
        async with slow_model() as (_, url), Gateway(folder, url, leaks=False) as gateway:
            place, stop, addresses = urlsplit(gateway.url), asyncio.Event(), itertools.cycle(sources)
            held = {await _send_half(place, next(addresses), sent): None for _ in range(count)}
            await health(gateway.url)
            attack = asyncio.create_task(_renew(held, lambda: _send_half(place, next(addresses), sent), stop))
            waits = []
            for _ in range(20):
                await asyncio.sleep(seconds / 20)
                start = time.monotonic()
                reader, writer = await _ask(gateway.url)
                with contextlib.suppress(asyncio.IncompleteReadError):
                    await asyncio.wait_for(reader.readuntil(b"content_block_delta"), 30)
                    waits.append(time.monotonic() - start)
                writer.transport.abort()
            files = open_files(gateway.pid)
            stop.set()
            renewed = await attack
            for opened in held:
                opened.close()
            answered = {"answered": len(waits), "slowest s": max(waits, default=0)}
            return {"halves": count, "renewed": renewed, **answered, "files of the gateway": files}


async def _send_half(place: SplitResult, source: str, sent: bytes) -> socket.socket:
    opened, loop = socket.socket(), asyncio.get_running_loop()
    opened.setblocking(False)
    opened.bind((source, 0))
    await loop.sock_connect(opened, (place.hostname, place.port))
    with contextlib.suppress(ConnectionError):
        await loop.sock_sendall(opened, sent)
    return opened


async def _renew(
    held: dict[socket.socket, None], again: Callable[[], Awaitable[socket.socket]], stop: asyncio.Event
) -> int:
    """Open another connection for each one that was closed; return how many there were."""
    renewed = 0
    while not stop.is_set():
        for opened in [one for one in held if _is_closed(one)][:RENEWED]:
            opened.close()
            del held[opened]
            held[await again()] = None
            renewed += 1
        await asyncio.sleep(0.25)
    return renewed


def _is_closed(opened: socket.socket) -> bool:
    try:
        return opened.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


async def _usual(url: str) -> dict[str, Any]:
    """Ask for the beginning of an answer, some times; give the median of the waits."""
    waits = []
    for _ in range(20):
        start = time.monotonic()
        reader, writer = await _ask(url)
        await asyncio.wait_for(reader.readuntil(b"content_block_delta"), 30)
        waits.append(time.monotonic() - start)
        writer.transport.abort()
    return {"median ms": round(sorted(waits)[10] * 1000, 1), "asked": len(waits)}


FLOODS: dict[str, Callable[[int, float], Awaitable[dict[str, Any]]]] = {
    "streams": streams,
    "leak": lambda count, seconds: streams(count, seconds, leaks=True),
    "readers": readers,
    "senders": senders,
    "half heads of another address": halves,
    "half heads of the same address": partial(halves, sources=SAME),
    "half heads of many addresses": partial(halves, sources=MANY),
    "half bodies of another address": partial(halves, sent=HALF_BODY),
    "half bodies of the same address": partial(halves, sources=SAME, sent=HALF_BODY),
    "idle connections of another address": partial(halves, sent=NO_MORE),
}


if __name__ == "__main__":
    if os.environ.get("FLOODS_ALONE"):
        raise_loopback()
    what, count, seconds = sys.argv[1:]
    asked: Any = FLOODS[what](int(count), float(seconds))
    sys.stdout.write(json.dumps(asyncio.run(asked)))
