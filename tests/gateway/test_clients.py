"""Clients that are slow, gone, huge or malformed: others are served meanwhile, and providers are let go of."""

import asyncio
import contextlib
import json
import random
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.conftest import Playing
from tests.gateway.standing import KEY, NAMES, TWO_WIRES, WIRES, post, standing
from toolwire.dialects import dialect
from toolwire.gateway import BodyLimits
from toolwire.testing import Scenario, simulate
from toolwire.types import Context, Message, Request

GONE = 200
READERS = 300
SENDERS = 500
ON_THE_WAY = 16 * 1024 * 1024  # bytes for one reader, in the buffers of the system most of all


class SlowModel:
    """A model that streams for ever, and notes when its clients are gone."""

    def __init__(self, words: bytes = b"word ", pause: float = 0.02) -> None:
        self.words, self.pause = words, pause
        self.open = 0
        self.asked = 0
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l")
            )
            await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        self.asked += 1
        self.open += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        delta = {"choices": [{"index": 0, "delta": {"content": self.words.decode()}}]}
        frame = b"data: " + json.dumps(delta).encode() + b"\n\n"
        piece = f"{len(frame):x}\r\n".encode() + frame + b"\r\n"
        gone = asyncio.ensure_future(reader.read(1))
        try:
            while not gone.done():
                writer.write(piece)
                self.sent += len(frame)
                await writer.drain()
                await asyncio.sleep(self.pause)
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            gone.cancel()
            writer.close()


@contextlib.asynccontextmanager
async def slow_model(**how: Any) -> AsyncIterator[tuple[SlowModel, str]]:
    """Serve such a model."""
    model = SlowModel(**how)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    try:
        yield model, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def head(path: str, body: bytes, size: int | None = None) -> bytes:
    """Write the head of a request."""
    length = len(body) if size is None else size
    return f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {length}\r\n\r\n".encode()


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection."""
    place, opened = urlsplit(url), socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    opened.setblocking(False)
    await asyncio.get_running_loop().sock_connect(opened, (place.hostname, place.port))
    return await asyncio.open_connection(sock=opened)


async def until(met: Callable[[], bool], seconds: float) -> float:
    """Wait until something is so; give the seconds that it took."""
    start = time.monotonic()
    while not met():
        assert time.monotonic() - start < seconds, "it did not happen in time"
        await asyncio.sleep(0.01)
    return time.monotonic() - start


def question(wire: str, model: str, *, stream: bool = True, text: str = "Hello") -> tuple[str, bytes]:
    """Write a short request of a wire."""
    encoded = dialect(wire).encode_request(
        Request(context=Context(None, [Message(text)]), model=model, stream=stream, max_tokens=9)
    )
    return encoded.path, encoded.json


async def health(url: str) -> float:
    """Ask for the health, and give the seconds that it took."""
    start = time.monotonic()
    reader, writer = await connect(url)
    writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
    assert b"200 OK" in await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return time.monotonic() - start


@pytest.mark.sampled
@pytest.mark.row("O13")
@pytest.mark.parametrize("when", ["before the first byte", "in the middle", "by a reset"])
@pytest.mark.parametrize("wire", ["openai-chat", "anthropic"])
def test_a_client_that_goes_away_ends_the_request_of_its_provider(wire: str, when: str) -> None:
    asyncio.run(_leave(wire, when, 20, 15))


@pytest.mark.row("O13")
@pytest.mark.slow
@pytest.mark.alone
def test_two_hundred_clients_go_away_and_every_provider_is_let_go_of_within_a_second() -> None:
    for wire in WIRES:
        asyncio.run(_leave(wire, "in the middle", GONE, 1.5 + GONE / 200))


async def _leave(wire: str, when: str, count: int, seconds: float) -> None:
    async with slow_model() as (model, url):
        with standing(url) as stood:
            path, body = question(wire, "openai/m")
            writers = []
            for _ in range(count):
                reader, writer = await connect(stood.url)
                writer.write(head(path, body) + body)
                writers.append((reader, writer))
            await until(lambda: model.open == count, 20)
            if when != "before the first byte":
                for reader, _ in writers:
                    await reader.readuntil(b"word")
            for _, writer in writers:
                if when == "by a reset":
                    writer.transport.abort()
                else:
                    writer.close()
            await until(lambda: model.open == 0, seconds)
            await until(lambda: len(stood.seen) == count, 20)
            assert {one["ending"] for one in stood.seen} == {"client gone"}


@pytest.mark.row("O15")
@pytest.mark.slow
@pytest.mark.alone
def test_slow_readers_hold_up_their_provider_and_nobody_else() -> None:
    asyncio.run(_read_slowly())


async def _read_slowly() -> None:
    async with slow_model(words=b"x" * 60_000, pause=0.0) as (model, url):
        with standing(url) as stood:
            path, body = question("anthropic", "openai/m")
            held = []
            for _ in range(READERS):
                reader, writer = await connect(stood.url)
                writer.write(head(path, body) + body)
                held.append((reader, writer))
            await until(lambda: model.asked == READERS, 30)
            sent, still = -1, 0
            async with asyncio.timeout(120):  # until the buffers are full; who is not held up never rests
                while still < 5:
                    still = still + 1 if model.sent == sent else 0
                    sent = model.sent
                    await asyncio.sleep(1)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await asyncio.sleep(2)
            # The system may still take a little after a rest: it asks a full receiver ever more seldom.
            assert model.sent < READERS * ON_THE_WAY, "the provider is not held up"
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
            assert await health(stood.url) < 1
            for _, writer in held:
                writer.transport.abort()
            await until(lambda: model.open == 0, 20)


@pytest.mark.row("O12")
@pytest.mark.slow
def test_slow_senders_are_given_up_and_others_are_served() -> None:
    asyncio.run(_send_slowly())


async def _send_slowly() -> None:
    with simulate(Scenario([], complete=False)) as model, standing(model.url) as stood:
        stood.gateway.limits = BodyLimits(seconds=3)
        path, body = question("openai-chat", "openai/m")
        held = []
        for number in range(SENDERS):
            reader, writer = await connect(stood.url)
            writer.write(head(path, body)[: 30 if number % 2 else None] + (b"" if number % 2 else body[:5]))
            held.append((reader, writer))
        assert await health(stood.url) < 2
        answers = [asyncio.wait_for(reader.read(), 25) for reader, _ in held]
        ended = await asyncio.gather(*answers)
        assert {answer[:12] for answer in ended} <= {b"", b"HTTP/1.1 408"}
        assert sum(answer.startswith(b"HTTP/1.1 408") for answer in ended) == SENDERS // 2
        assert model.requests == []
        for _, writer in held:
            writer.close()


@pytest.mark.parametrize("wire", WIRES)
def test_a_model_that_thinks_long_is_waited_for_with_a_sign_of_life(wire: str) -> None:
    from toolwire.testing import Wait

    seconds, speaks = 0.15, wire in ("openai-chat", "openai-responses", "anthropic")
    while True:
        turn: Any = ["One", Wait(seconds), " two"]
        with simulate(Scenario([turn]), strict=False) as model, standing(model.url, keep_alive=0.03) as stood:
            target = "anthropic" if wire == "openai-chat" else "openai-chat"
            path, body = question(wire, f"{NAMES[target]}/m")
            answered = post(stood.url, path, body)
        decoder = dialect(wire).decode_stream()
        events = [*decoder.feed(answered.data), *decoder.close()]
        assert "".join(event.text for event in events if hasattr(event, "text")) == "One two"
        signs = answered.data.count(b": waiting\n\n") + answered.data.count(b'data: {"type":"ping"}')
        if not speaks or signs >= 2 or seconds > 5:
            break
        seconds *= 4  # a machine with much to do is slow to say it
    assert signs >= 2 if speaks else signs == 0


@pytest.mark.row("O11")
def test_a_body_that_is_too_large_is_refused_before_it_is_read(lenient_model: Playing) -> None:
    with lenient_model(Scenario([], complete=False)) as stood:
        limits, stood.gateway.limits = stood.gateway.limits, BodyLimits(body=1000)
        try:
            assert post(stood.url, "/v1/messages", b"x" * 2000).status == 413
            assert stood.requests == []
        finally:
            stood.gateway.limits = limits


@pytest.mark.row("O25")
def test_a_page_of_a_browser_is_refused(lenient_model: Playing) -> None:
    path, body = question("openai-chat", "openai/m", stream=False)
    with lenient_model(Scenario(["yes"], complete=False)) as stood:
        assert post(stood.url, path, body, {"origin": "https://evil.example"}).status == 403
        assert post(stood.url, path, body, {"host": "evil.example"}).status == 403
        assert post(stood.url, path, body, {"origin": "http://localhost:3000"}).status == 200


@pytest.mark.row("O8")
def test_headers_go_by_a_table(lenient_model: Playing) -> None:
    sent = {
        "anthropic-beta": "x-2026",
        "cookie": "secret=1",
        "x-api-key": "client",
        "authorization": "Bearer client",
        "x-forwarded-for": "1.2.3.4",
        "x-portkey-custom-host": "http://evil",
    }
    with lenient_model(Scenario(["a", "b"])) as stood:
        for target in ("anthropic", "openai"):
            path, body = question("anthropic", f"{target}/m", stream=False)
            assert post(stood.url, path, body, sent).status == 200
        own, foreign = (request.headers for request in stood.requests)
        assert own["anthropic-beta"] == "x-2026"
        assert "anthropic-beta" not in foreign
        for headers in (own, foreign):
            assert not {"cookie", "x-forwarded-for", "x-portkey-custom-host"} & set(headers)
            assert "client" not in str(dict(headers))
            assert KEY in str(dict(headers))


@pytest.mark.row("O9")
@pytest.mark.parametrize(
    "model",
    [
        "openai/../x",
        "gemini/a?b=c",
        "gemini/a#b",
        "gemini/a/../../b",
        "gemini/%2e%2e",
        "openai/",
        "/x",
        "x" * 3000,
        "a b",
    ],
)
def test_a_name_that_is_no_models_becomes_no_part_of_an_address(model: str, lenient_model: Playing) -> None:
    with lenient_model(Scenario([], complete=False)) as stood:
        answered = post(stood.url, "/v1/chat/completions", json.dumps({"model": model, "messages": []}).encode())
        assert answered.status == 404
        assert stood.requests == []


@pytest.mark.row("O3")
@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_no_request_of_chance_is_a_fault_of_ours(wire: str, lenient_model: Playing) -> None:
    chance = random.Random(wire)  # noqa: S311 - the same every time
    path, body = question(wire, "openai/m" if wire != "openai-chat" else "anthropic/m")
    seen = set[int]()
    with lenient_model(Scenario(lambda _request, _turn: "ok", complete=False)) as stood:
        for _ in range(4000):
            answered = post(stood.url, path, _damaged(body, chance))
            seen.add(answered.status)
            assert answered.status < 500, (answered, body)
    assert seen & {200}
    assert seen & {400}


def _damaged(body: bytes, chance: random.Random) -> bytes:
    """Give a body with something wrong in its bytes or in its values."""
    if chance.random() < 0.5:
        place = chance.randrange(len(body))
        return body[:place] + bytes([chance.randrange(256)]) * chance.randrange(3) + body[place + chance.randrange(3) :]
    value = json.loads(body)
    for _ in range(chance.randint(1, 3)):
        _damage(value, chance)
    return json.dumps(value).encode()


def _damage(value: Any, chance: random.Random) -> None:
    odd: list[Any] = [None, True, -1, 1e300, "", "\ud83d", [], {}, [[]], {"type": "x"}, [None], "x" * 1000, {"text": 1}]
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = chance.choice(keys)
    if isinstance(value[key], dict | list) and value[key] and chance.random() < 0.7:
        _damage(value[key], chance)
    elif key != "model":
        value[key] = chance.choice(odd)


@pytest.mark.row("O15")
@pytest.mark.parametrize("wire", TWO_WIRES)
def test_who_reads_nothing_for_a_time_is_let_go_of(wire: str) -> None:
    async def stalled() -> None:
        async with slow_model(words=b"word " * 20_000, pause=0.0) as (model, url):
            with standing(url, stall=0.15) as stood:
                reader, writer = await connect(stood.url)
                path, body = question(wire, "openai/m")
                writer.write(head(path, body) + body)
                await reader.readuntil(b"\r\n\r\n")
                await until(lambda: model.open == 1, 5)
                await until(lambda: model.open == 0, 20)
                await until(lambda: bool(stood.seen), 5)
                assert stood.seen[0]["ending"] == "client gone"
                writer.transport.abort()
                await asyncio.sleep(0)

    asyncio.run(stalled())
