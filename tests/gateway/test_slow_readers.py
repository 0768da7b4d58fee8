"""Clients that read slowly: little is read ahead and held for them, and they are waited for as long as they read."""

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.standing import TWO_WIRES, standing
from tests.gateway.test_clients import head, question, slow_model, until
from toolwire.gateway import serving

PIECE = 65_536
AHEAD = 200_000  # bytes that are read of a provider before its client reads any: two pieces, and a little
HEADERS = {"content-type": "text/event-stream"}


class Endless:
    """A provider whose answer never ends, in pieces of a size; `read` counts what the gateway has read of it."""

    status, headers = 200, HEADERS

    def __init__(self, frame: int) -> None:
        delta = {"choices": [{"index": 0, "delta": {"content": "x" * frame}}]}
        text = b"data: " + json.dumps(delta).encode() + b"\n\n"
        self._text, self.read, self.closed = text * (1 + 2 * PIECE // len(text)), 0, False

    async def asend(self, *_: Any) -> Any:
        """Begin to answer."""
        return self

    async def aread(self) -> bytes:
        """Return the next piece."""
        await asyncio.sleep(0)
        start = self.read % (len(self._text) - PIECE + 1)
        piece = self._text[start : start + PIECE]
        self.read += len(piece)
        return piece

    async def aclose(self) -> None:
        """Note that the answer is not read any more."""
        self.closed = True

    afinish = aclose


def narrow(url: str) -> socket.socket:
    """Connect a client whose own system takes little for it."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    opened.connect(("127.0.0.1", urlsplit(url).port))
    return opened


@pytest.mark.row("O15")
@pytest.mark.parametrize("frame", [20, 30_000])
@pytest.mark.parametrize("wire", TWO_WIRES)
def test_little_is_read_ahead_of_a_client_that_reads_slowly(wire: str, frame: int) -> None:
    asyncio.run(_read_slowly(wire, frame))


async def _read_slowly(wire: str, frame: int) -> None:
    provider, loop = Endless(frame), asyncio.get_running_loop()
    with standing("http://127.0.0.1:9") as stood:
        stood.gateway.tools.transport = provider
        path, body = question(wire, "openai/m")
        with narrow(stood.url) as opened:
            opened.setblocking(False)
            await loop.sock_sendall(opened, head(path, body) + body)
            before, heard = -1, 0
            while provider.read != before:  # until all that may be read ahead is
                before = provider.read
                await asyncio.sleep(0.2)
            for _ in range(50):
                heard += len(await loop.sock_recv(opened, 1024))
                await asyncio.sleep(0.01)
            assert provider.read < AHEAD + heard
        await until(lambda: provider.closed and len(stood.seen) == 1, 5)
        assert stood.seen[0]["ending"] == "client gone"


@pytest.mark.row("O15")
def test_a_client_is_waited_for_as_long_as_it_reads() -> None:
    asyncio.run(_wait_for_slow())


async def _wait_for_slow() -> None:
    stall, loop = 0.25, asyncio.get_running_loop()
    async with slow_model(words=b"word " * 20_000, pause=0.0) as (model, url):
        with standing(url, stall=stall) as stood:
            path, body = question("openai-chat", "openai/m")
            with narrow(stood.url) as opened:
                opened.setblocking(False)
                await loop.sock_sendall(opened, head(path, body) + body)
                end, heard = loop.time() + 6 * stall, 0
                while loop.time() < end:
                    piece = await asyncio.wait_for(loop.sock_recv(opened, 8192), 5)
                    assert piece, "the connection is closed"
                    heard += len(piece)
                    await asyncio.sleep(stall / 10)
                assert (model.open, len(stood.seen)) == (1, 0)
                await until(lambda: model.open == 0, 20)  # now it reads nothing any more


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="of Linux")
def test_a_client_that_has_vanished_is_noticed_by_the_system() -> None:
    with serving.listen("127.0.0.1:0") as server, socket.socket() as client:
        server.listen()
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            told = {
                name: accepted.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
                for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT", "TCP_NOTSENT_LOWAT")
            }
    assert told["TCP_KEEPIDLE"] + told["TCP_KEEPINTVL"] * told["TCP_KEEPCNT"] <= 120, "seconds of silence"
    assert told["TCP_USER_TIMEOUT"] == 120_000
    assert told["TCP_NOTSENT_LOWAT"] <= 65_536
