"""Servers of tests: in a thread with a real socket, or in a process."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from tests.mcp import official, served
from toolwire import (
    ToolCall,
    ToolResult,
    mcp,
)
from toolwire.mcp import McpResolver

HERE = Path(__file__).parent
OFFICIAL = str(HERE / "official.py")
BY_HAND = str(HERE / "by_hand.py")
SERVED = str(HERE / "served.py")
FAST = ["-I", "-S"]
PATHS = {"PYTHONPATH": os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE.parents[1])])}


@contextlib.contextmanager
def in_thread(serve: Callable[[Callable[[str], None]], Coroutine[Any, Any, None]]) -> Iterator[str]:
    """Serve in a thread, and give the URL that `serve` says when it is ready."""
    urls: list[str] = []
    ready = threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []

    def tell(url: str) -> None:
        urls.append(url)
        ready.set()

    async def main() -> None:
        task = asyncio.create_task(serve(tell))
        running.append((asyncio.get_running_loop(), task))
        with contextlib.suppress(asyncio.CancelledError):
            await task

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield urls[0]
    finally:
        loop, task = running[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)


def wait_for(condition: Callable[[], Any], seconds: float = 20) -> bool:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def by_hand(*args: str, **said: Any) -> McpResolver:
    return mcp.stdio(sys.executable, [*FAST, BY_HAND, *args], **said)


def do(resolver: McpResolver, deed: str, given: Any = None) -> ToolResult:
    return resolver.resolve(ToolCall("c1", "do", {deed: given}))


def about(resolver: McpResolver) -> tuple[int, str, dict[str, str]]:
    return tuple(json.loads(do(resolver, "about").content))  # type: ignore[arg-type]


async def serve_app(app: Any, ready: Callable[[str], None]) -> None:
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    ready(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving


async def serve_official(ready: Callable[[str], None]) -> None:
    await serve_app(official.make().streamable_http_app(), ready)


async def serve_ours(ready: Callable[[str], None]) -> None:
    await mcp.aserve(served.resolver(), transport="http", port=0, ready=ready)
