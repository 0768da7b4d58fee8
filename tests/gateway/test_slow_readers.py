"""Clients that read slowly: little is read ahead and held for them, and they are waited for as long as they read."""

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.standing import TWO_WIRES, WIRES, standing
from tests.gateway.test_clients import head, question, slow_model, until
from toolwire.dialects import dialect
from toolwire.gateway import serving
from toolwire.gateway.passthrough import PassedStream
from toolwire.streams.accumulation import events_of
from toolwire.types import Choice, Message, Response, Text, ToolCall

PIECE = 65_536
AHEAD = 200_000  # bytes that are read of a provider before its client reads any: two pieces, and a little
UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
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
        stood.gateway.context.transport = provider
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
def test_little_is_read_ahead_of_a_websocket_that_is_not_read() -> None:
    asyncio.run(_read_no_message())


async def _read_no_message() -> None:
    provider, loop = Endless(1000), asyncio.get_running_loop()
    with standing("http://127.0.0.1:9") as stood:
        stood.gateway.context.transport = provider
        with narrow(stood.url) as opened:
            opened.setblocking(False)
            await loop.sock_sendall(opened, UPGRADE)
            assert (await loop.sock_recv(opened, 4096)).startswith(b"HTTP/1.1 101")
            turn = {"type": "response.create", "model": "openai/m", "store": False, "input": "Hello"}
            await loop.sock_sendall(opened, _frame(json.dumps(turn).encode()))
            await until(lambda: provider.read > 0, 5)
            before = -1
            while provider.read != before:
                before = provider.read
                await asyncio.sleep(0.2)
            assert provider.read < AHEAD
        await until(lambda: provider.closed and len(stood.seen) == 1, 5)
        assert stood.seen[0]["ending"] == "client gone"


def _frame(text: bytes) -> bytes:
    """Write a message of up to 125 bytes as a client does, under a mask of zeros (RFC 6455, 5.2)."""
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text


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


@pytest.mark.parametrize("wire", WIRES)
def test_the_text_of_a_stream_that_passes_is_counted_and_not_kept(wire: str) -> None:
    here, call = dialect(wire), ToolCall("call_1", "look", {"at": "x"}, raw='{"at":"x"}')
    answer = Response(choices=[Choice(Message("assistant", [Text("word " * 1000), call]), "tool_calls")])
    stream, encoder = PassedStream(here, array=False), here.encode_stream()
    for event in events_of(answer):
        stream.feed(encoder.feed(event))
    stream.feed(encoder.close())
    assert stream.words == 5000
    assert sum(len(part.text) for part in stream.parts if type(part) is Text) == 0
    assert [(one.name, one.arguments) for one in stream.parts if type(one) is ToolCall] == [("look", {"at": "x"})]


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="of Linux")
def test_a_client_that_has_vanished_is_noticed_by_the_system() -> None:
    with serving.listen("127.0.0.1:0") as server, socket.socket() as client:
        server.listen()
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            told = {
                name: accepted.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
                for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_NOTSENT_LOWAT")
            }
    assert told["TCP_KEEPIDLE"] + told["TCP_KEEPINTVL"] * told["TCP_KEEPCNT"] <= 120, "seconds of silence"
    assert told["TCP_NOTSENT_LOWAT"] <= 65_536
