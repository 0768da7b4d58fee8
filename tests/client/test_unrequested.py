"""Unrequested answers on the connections of clients and gateway: each answer reaches its own request.

A server answers the first request of a connection well, and later writes something more on it. A control shows what
happens to a client that does not look.
"""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx2
import pytest

from toolwire.client.httpx import HttpxTransport
from toolwire.gateway.upstream import Uplink
from toolwire.wire.transport import HttpRequest, Timeouts, TransportError

Ask = Callable[[str], Awaitable[str]]
EXTRA = {
    "408": b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n",
    "408 without length": b"HTTP/1.1 408 Request Timeout\r\n\r\n",
    "sized": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nextra",
    "chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nextra\r\n0\r\n\r\n",
    "byte": b"x",
    "line break": b"\r\n",
    "informational": b"HTTP/1.1 100 Continue\r\n\r\n",
}
FORMS = ("sized", "chunked")


def answer(text: bytes, form: str) -> bytes:
    if form == "sized":
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)


class Server:
    """Repeats the body of each request; after the first answer of each connection it writes `extra` as well.

    `delay` is None where `extra` comes in one packet with the answer; `slow` is the time that a later answer takes.
    """

    def __init__(self, extra: bytes, delay: float | None, form: str, slow: float) -> None:
        self.extra, self.delay, self.form, self.slow = extra, delay, form, slow
        self.extras = self.written = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for number in itertools.count():
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                told = answer(await reader.readexactly(length), self.form)
                if number:
                    await asyncio.sleep(self.slow)
                    writer.write(told)
                    continue
                self.extras += 1
                writer.write(told + (self.extra if self.delay is None else b""))
                if self.delay is not None:
                    await asyncio.sleep(self.delay)
                    writer.write(self.extra)
                self.written += 1

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Serve in a thread, on a free port; give the address."""
        loop, ready = asyncio.new_event_loop(), threading.Event()
        port: list[int] = []

        async def serve() -> None:
            server = await asyncio.start_server(self.talk, "127.0.0.1", 0)
            port.append(server.sockets[0].getsockname()[1])
            ready.set()
            await stop.wait()
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0)  # a transport gives its socket back one turn of the loop after it is closed

        stop = asyncio.Event()
        thread = threading.Thread(target=lambda: (loop.run_until_complete(serve()), loop.close()))
        thread.start()
        ready.wait(5)
        try:
            yield f"http://127.0.0.1:{port[0]}/"
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(5)


def posting(url: str, text: str) -> HttpRequest:
    return HttpRequest("POST", url, {}, text.encode())


@contextlib.asynccontextmanager
async def gateway(url: str) -> AsyncIterator[Ask]:
    up = Uplink()

    async def ask(text: str) -> str:
        return await heard(await up.asend(posting(url, text), Timeouts()))

    try:
        yield ask
    finally:
        await up.aclose()


@contextlib.asynccontextmanager
async def async_client(url: str) -> AsyncIterator[Ask]:
    transport = HttpxTransport()

    async def ask(text: str) -> str:
        return await heard(await transport.asend(posting(url, text), Timeouts()))

    try:
        yield ask
    finally:
        await transport.aclose()


@contextlib.asynccontextmanager
async def sync_client(url: str) -> AsyncIterator[Ask]:
    transport = HttpxTransport()

    def send(text: str) -> str:
        said = transport.send(posting(url, text), Timeouts())
        data = b""
        try:
            while piece := said.read():
                data += piece
        finally:
            said.finish()
        return data.decode()

    async def ask(text: str) -> str:
        return await asyncio.to_thread(send, text)

    try:
        yield ask
    finally:
        transport.close()


@contextlib.asynccontextmanager
async def one_that_does_not_look(url: str) -> AsyncIterator[Ask]:
    """The control: httpx2 as it is."""
    async with httpx2.AsyncClient(trust_env=False) as client:

        async def ask(text: str) -> str:
            return (await client.post(url, content=text)).text

        yield ask


FACES: dict[str, Any] = {"gateway": gateway, "async": async_client, "sync": sync_client}


async def heard(said: Any) -> str:
    data = b""
    try:
        while piece := await said.aread():
            data += piece
    finally:
        await said.afinish()
    return data.decode()


async def wrong(face: Any, url: str, gap: float, requests: int = 6, server: Server | None = None) -> int:
    """Count the answers that are another request's; an error is none.

    With `server`, each next request is sent only after the server has written all of its extra bytes.
    """
    count = 0
    async with face(url) as ask:
        for number in range(requests):
            with contextlib.suppress(TransportError):
                count += await ask(f"request {number}") != f"request {number}"
            while server is not None and server.written < server.extras:  # noqa: ASYNC110 - it runs in a thread of its own
                await asyncio.sleep(0.001)
            await asyncio.sleep(gap)
    return count


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("extra", EXTRA.values(), ids=EXTRA)
@pytest.mark.parametrize("gap", [0.0, 0.08], ids=["at once", "later"])
def test_an_answer_that_nobody_asked_for_reaches_nobody(face: Any, form: str, extra: bytes, gap: float) -> None:
    server = Server(extra, 0.02, form, 0.0)
    with server.running() as url:
        assert asyncio.run(wrong(face, url, gap, 4, server if gap else None)) == 0
    assert server.extras


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("extra", EXTRA.values(), ids=EXTRA)
def test_bytes_beyond_the_end_of_an_answer_close_its_connection(face: Any, form: str, extra: bytes) -> None:
    server = Server(extra, None, form, 0.0)
    with server.running() as url:
        assert asyncio.run(wrong(face, url, 0.06, 3)) == 0
    assert server.extras == 3


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("extra", ["408", "sized", "chunked"])
@pytest.mark.parametrize("slow", [0.0, 0.3])
@pytest.mark.parametrize("delay", [0.0, 0.04, 0.1, 0.15, 0.4])
def test_at_most_one_answer_of_a_connection_is_another_one(
    face: Any, form: str, extra: str, slow: float, delay: float
) -> None:
    """Bytes that come after the next request was sent look like its answer: that one may be wrong, and no later one."""
    server = Server(EXTRA[extra], delay, form, slow)
    with server.running() as url:
        assert asyncio.run(wrong(face, url, 0.0, 8)) <= 1


def test_without_looking_every_later_answer_is_another_one() -> None:
    server = Server(EXTRA["sized"], 0.02, "sized", 0.05)
    with server.running() as url:
        assert asyncio.run(wrong(one_that_does_not_look, url, 0.0)) == 5


@pytest.mark.parametrize("face", ["gateway", "async"])
def test_a_cancelled_request_closes_its_connection(face: str) -> None:
    """Before the head, within the body, and while the server is silent."""

    async def run(before: bytes) -> float:
        closed = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(before)
            begun.set()
            await reader.read()
            with contextlib.suppress(ConnectionError):
                await reader.read()
            closed.set()
            writer.close()

        begun = asyncio.Event()
        async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            async with FACES[face](url) as ask:
                asking = asyncio.ensure_future(ask(""))
                await begun.wait()
                await asyncio.sleep(0.05)
                asking.cancel()
                start = time.monotonic()
                await asyncio.wait_for(closed.wait(), 5)
                return time.monotonic() - start

    for before in (b"", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"):
        assert asyncio.run(run(before)) < 1
