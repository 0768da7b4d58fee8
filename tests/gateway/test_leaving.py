"""Clients that disconnect: the provider's request ends within a second, for bodies of any size, and is settled once."""

import asyncio
import contextlib
import itertools
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

from tests.gateway.conftest import Playing
from tests.gateway.standing import post, standing
from tests.gateway.test_clients import until
from toolwire.dialects import dialect
from toolwire.testing import Scenario
from toolwire.types import Context, Message, Request

SIZES = [1_000, 40_000, 65_536, 100_000, 300_000, 2_000_000]
CODINGS: list["Coding"] = ["content-length", "chunked"]
Coding = Literal["content-length", "chunked"]
How = Literal["fin", "reset", "half-close"]
HOWS: list[How] = ["fin", "reset", "half-close"]
WIRES = ["openai-chat", "anthropic", "openai-responses"]  # the provider speaks the first one
SECONDS = 1.0
WORD = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
BUSY = b"HTTP/1.1 429 Slow\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"


class Phase(NamedTuple):
    """Where a request is when its client leaves: what the provider has sent, and what the client has read."""

    answer: bytes = b""
    repeats: bytes = b""
    stream: bool = True
    read: bytes = b""
    sent: float = 1.0  # the part of the body that the client has sent


PHASES = {
    "while the body is sent": Phase(sent=0.5),
    "before the head of a stream": Phase(),
    "before the head of an answer": Phase(stream=False),
    "after the head": Phase(STREAM, read=b"\r\n\r\n"),
    "while the provider is silent": Phase(STREAM + WORD, read=b"word"),
    "while the provider writes": Phase(STREAM + WORD, WORD, read=b"word"),
    "while nothing more is read": Phase(STREAM + WORD, WORD * 2000, read=b"word"),
    "within an answer": Phase(WHOLE + b'{"choices":[', stream=False),
    "between two attempts": Phase(BUSY, stream=False),
}


class Provider:
    """A provider that answers as far as a phase says, and then waits for the end of the connection."""

    def __init__(self, phase: Phase, first: bytes = b"") -> None:
        self.phase, self.first, self.asked, self.open = phase, first, 0, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            await reader.readexactly(size)
            if self.first:
                writer.write(self.first)
                self.first = b""
                writer.close()
                return
            self.asked += 1
            self.open += 1
            try:
                await self._answer(reader, writer)
            finally:
                self.open -= 1
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.phase.answer)
        while self.phase.repeats and not reader.at_eof():
            writer.write(self.phase.repeats)
            await writer.drain()
            await asyncio.sleep(0.02)
        if self.phase.answer is not BUSY:
            await reader.read()


@contextlib.asynccontextmanager
async def provider(phase: Phase, first: bytes = b"") -> AsyncIterator[tuple[Provider, str]]:
    """Serve such a provider; its first request is answered with `first`."""
    made = Provider(phase, first)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 22)
    try:
        yield made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


class Client(NamedTuple):
    """A client whose request has a body of a size."""

    size: int
    coding: Coding = "content-length"
    wire: str = "openai-chat"

    def request(self, *, stream: bool) -> tuple[bytes, bytes]:
        """Write the head and the body of its request."""
        request = Request(context=Context(None, [Message("x" * self.size)]), model="openai/m", stream=stream)
        encoded = dialect(self.wire).encode_request(request)
        length = (
            f"content-length: {len(encoded.json)}" if self.coding == "content-length" else "transfer-encoding: chunked"
        )
        head = f"POST {encoded.path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{length}\r\n\r\n"
        return head.encode(), encoded.json if self.coding == "content-length" else b"".join(_chunks(encoded.json))


def _chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 16_000):
        piece = body[start : start + 16_000]
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


async def _send(url: str, client: Client, phase: Phase) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    head, body = client.request(stream=phase.stream)
    writer.write(head + body[: int(len(body) * phase.sent)])
    await writer.drain()
    if phase.read:
        await asyncio.wait_for(reader.readuntil(phase.read), 20)
    return reader, writer


def _disconnect(writer: asyncio.StreamWriter, how: How) -> None:
    opened = writer.get_extra_info("socket")
    if how == "half-close":
        opened.shutdown(socket.SHUT_WR)
        return
    if how == "reset":
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _leave(name: str, how: How, clients: list[Client]) -> float:
    """Have clients disconnect in a phase; return the seconds until the gateway has ended and reported all of it."""
    phase, count = PHASES[name], len(clients)
    async with provider(phase) as (there, url):
        with standing(url) as stood:
            held = await asyncio.gather(*(_send(stood.url, client, phase) for client in clients))
            asked = count if phase.sent == 1.0 else 0
            await until(lambda: there.asked == asked, 20)
            await asyncio.sleep(0.5 if phase.repeats else 0.1)  # until all buffers are full, where nothing is read
            assert there.open == (0 if phase.answer is BUSY else asked), "each request runs"
            assert len(stood.seen) == 0
            for _, writer in held:
                _disconnect(writer, how)
            seconds = await until(lambda: there.open == 0 and len(stood.seen) == count, 20)
            await asyncio.sleep(1.5 if phase.answer is BUSY else 0)
            for _, writer in held:
                writer.close()
        assert there.asked == asked, "nothing is asked for a client that has left"
        assert {record["ending"] for record in stood.seen} == {"client gone"}
        assert len({record["request"] for record in stood.seen}) == len(stood.seen) == count
    return seconds


@pytest.mark.sampled
@pytest.mark.row("O13")
@pytest.mark.parametrize("wire", WIRES[:2])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", PHASES)
def test_a_client_that_disconnects_ends_its_request_whatever_its_body(name: str, how: How, wire: str) -> None:
    clients = [Client(size, coding, wire) for size in (1_000, 100_000, 2_000_000) for coding in CODINGS]
    asyncio.run(_leave(name, how, clients))


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.row("O13")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", PHASES)
def test_every_size_coding_and_wire_is_ended_within_a_second(name: str, how: How) -> None:
    clients = [Client(*one) for one in itertools.product(SIZES, CODINGS, WIRES)]
    assert asyncio.run(_leave(name, how, clients)) < SECONDS


TEXT = "x" * 300_000
TURN: dict[str, Any] = {"role": "user", "content": TEXT}
OTHER_PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "embeddings": ("/v1/embeddings", {"model": "openai/m", "input": TEXT}),
    "tokens of Messages": ("/v1/messages/count_tokens", {"model": "anthropic/m", "messages": [TURN]}),
    "tokens of Responses": ("/v1/responses/input_tokens", {"model": "openai-responses/m", "input": TEXT}),
    "a summary by its vendor": ("/v1/responses/compact", {"model": "openai-responses/m", "input": TEXT}),
    "a summary by another model": ("/v1/responses/compact", {"model": "openai/m", "input": TEXT}),
    "Gemini": (
        "/v1beta/models/gemini%2Fm:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": TEXT}]}]},
    ),
    "Ollama": ("/api/chat", {"model": "openai/m", "messages": [TURN]}),
}


@pytest.mark.row("O13")
@pytest.mark.parametrize("name", OTHER_PATHS)
def test_a_client_of_any_path_ends_its_request(name: str) -> None:
    path, body = OTHER_PATHS[name]
    asyncio.run(_leave_path("POST", path, json.dumps(body).encode()))


@pytest.mark.row("O13")
def test_a_client_that_fetches_a_stored_answer_ends_the_fetch() -> None:
    whole = b'{"id":"resp_1","object":"response","status":"completed","model":"m","output":[]}'
    first = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(whole), whole)
    asyncio.run(_leave_path("GET", "/v1/responses/resp_1", b"", first))


async def _leave_path(method: str, path: str, body: bytes, first: bytes = b"") -> None:
    async with provider(Phase(), first) as (there, url):
        with standing(url) as stood:
            if first:
                asked = json.dumps({"model": "openai-responses/m", "input": "Hello"}).encode()
                answered = await asyncio.to_thread(post, stood.url, "/v1/responses", asked)
                assert answered.status == 200, answered
                stood.seen.clear()
            _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(stood.url).port)
            head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await until(lambda: there.open == 1, 20)
            writer.transport.abort()
            await until(lambda: there.open == 0 and len(stood.seen) == 1, 5)
            assert stood.seen[0]["ending"] == "client gone"


@pytest.mark.row("O13")
@pytest.mark.parametrize("closes", [True, False], ids=["with a close frame", "without"])
@pytest.mark.parametrize("name", ["before the head of a stream", "while the provider is silent"])
def test_a_client_of_a_websocket_ends_the_requests_of_all_lanes(name: str, closes: bool) -> None:
    asyncio.run(_leave_lanes(PHASES[name], closes=closes))


async def _leave_lanes(phase: Phase, *, closes: bool) -> None:
    sizes = [1_000, 100_000, 2_000_000]
    async with provider(phase) as (there, url):
        with standing(url) as stood:
            opened = await connect(f"ws{stood.url.removeprefix('http')}/v1/responses", max_size=None)
            for size in sizes:
                turn = {"type": "response.create", "model": "openai/m", "store": False, "stream_id": str(size)}
                await opened.send(json.dumps({**turn, "input": "x" * size}))
            await until(lambda: there.open == len(sizes), 20)
            if phase.read:
                heard = [await asyncio.wait_for(opened.recv(), 20) for _ in sizes]
                assert all("response" in str(one) for one in heard)
            if closes:
                await opened.close()
            else:
                opened.transport.abort()
            await until(lambda: there.open == 0 and len(stood.seen) == len(sizes), 5)
            assert {record["ending"] for record in stood.seen} == {"client gone"}
            await opened.close()


@pytest.mark.row("O13")
@pytest.mark.parametrize("size", [10, 50_000], ids=["of one packet", "of several"])
def test_a_client_that_has_sent_its_next_request_ends_the_first(size: int) -> None:
    asyncio.run(_leave_pipelined(size))


async def _leave_pipelined(size: int) -> None:
    async with provider(Phase(stream=False)) as (there, url):
        with standing(url) as stood:
            _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(stood.url).port)
            for one in (300_000, size):
                writer.write(b"".join(Client(one).request(stream=False)))
            await until(lambda: there.open == 1, 20)
            await asyncio.sleep(0.1)
            writer.transport.abort()
            await until(lambda: there.open == 0 and len(stood.seen) == 1, 5)
            await asyncio.sleep(0.3)
            assert there.asked == 1, "the second one is not begun"


@pytest.mark.parametrize("size", [10, 300_000])
def test_requests_that_are_sent_before_the_answer_are_answered_in_order(size: int, lenient_model: Playing) -> None:
    with lenient_model(Scenario(lambda request, _turn: str(len(request.messages[-1].text)))) as stood:
        asked = [b"".join(Client(size + number).request(stream=False)) for number in range(4)]
        with socket.create_connection(("127.0.0.1", urlsplit(stood.url).port or 0), 10) as opened:
            opened.sendall(b"".join(asked))
            heard = b""
            while heard.count(b"HTTP/1.1 200 OK") < len(asked) or not heard.endswith(b"}"):
                heard += opened.recv(65536)
        told = re.findall(rb'"content":"(\d+)"', heard)
        assert [int(one) for one in told] == [size + number for number in range(len(asked))]
