"""A fetch that is cancelled leaves nothing behind, however far it came."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.amounts import FULL
from tests.codetools.web_lab import PUBLIC, Mapped, Server, serving
from toolwire.codetools.addresses import FetchRules
from toolwire.codetools.fetching import build_headers, fetch

OPEN_FILES = Path("/proc/self/fd")


def descriptors() -> int:
    """Count what is open; 0 where the system does not say."""
    return len(list(OPEN_FILES.iterdir())) if OPEN_FILES.is_dir() else 0


Stage = Callable[[Server, bytes, socket.socket], None]


def _silent(server: Server, _request: bytes, connection: socket.socket) -> None:
    server.wait_until_left(connection)


def _body(server: Server, _request: bytes, connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
    server.wait_until_left(connection)


def _flood(server: Server, _request: bytes, connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        while True:
            connection.sendall(b"1\r\nx\r\n")
            time.sleep(0.001)
    except OSError:
        server.gone.set()


STAGES: dict[str, Stage] = {"before the head": _silent, "in the body": _body, "in a flood": _flood}


async def _cancelled(stage: str, scheme: str = "http") -> float:
    """Cancel a fetch that has begun, and say how long its connection stayed open."""
    with serving() as server:
        server.say = lambda request, connection: STAGES[stage](server, request, connection)
        network = Mapped({PUBLIC: server}, {"a.example": [PUBLIC]})
        task = asyncio.create_task(
            fetch(f"{scheme}://a.example/", build_headers(None), FetchRules(), 1024 * 1024, network=network)
        )
        while not (server.requests if scheme == "http" else server.connections):  # noqa: ASYNC110 - of a thread
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
        task.cancel()
        begun = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if scheme == "http":
            await asyncio.to_thread(server.gone.wait, 5)
            assert server.gone.is_set()
        return time.monotonic() - begun


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.row("E22")
def test_a_cancelled_fetch_closes_its_connection_at_once(stage: str) -> None:
    assert asyncio.run(_cancelled(stage)) < 1


@pytest.mark.row("E22")
def test_a_fetch_cancelled_while_tls_begins_closes_its_connection() -> None:
    before = descriptors()

    async def several() -> None:
        for _ in range(5):
            await _cancelled("before the head", "https")

    asyncio.run(several())
    assert descriptors() <= before


@pytest.mark.slow
@pytest.mark.row("E22")
def test_no_cancelled_fetch_leaves_anything(tally: Counter[str]) -> None:
    times = 200 if FULL else 20

    async def many() -> list[float]:
        return [await _cancelled(stage) for _ in range(times // len(STAGES) + 1) for stage in STAGES]

    before = descriptors()
    spent = asyncio.run(many())
    assert max(spent) < 1
    assert descriptors() <= before
    tally["fetches cancelled on their way, each connection closed within a second"] += len(spent)
