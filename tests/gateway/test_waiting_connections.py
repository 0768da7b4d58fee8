"""Connections that wait: so many for each address, the oldest are closed, and requests that run are not counted."""

import asyncio
import socket
import time
from urllib.parse import urlsplit

import pytest

from tests.gateway.standing import standing
from tests.gateway.test_clients import connect, head, health, question, slow_model, until
from toolwire.gateway.waiting_connections import WaitingConnections, network_of

HALF_HEAD = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: "
HALF_BODY = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n{"
METRICS = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
WHOLE = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
CONNECTIONS, EACH, MORE = 40, 10, 60  # half of the connections may wait, a quarter for one address


def test_the_oldest_of_a_network_is_closed_first_and_then_the_oldest_of_all() -> None:
    waiting = WaitingConnections[int](4)
    assert [waiting.add(number, "a") for number in range(3)] == [None, None, 0]
    assert [waiting.add(number, "b") for number in range(3, 6)] == [None, None, 3]
    assert [waiting.add(number, "c") for number in range(6, 9)] == [1, 2, 6]
    assert len(waiting) == 4


def test_a_connection_that_waits_anew_is_the_newest() -> None:
    waiting = WaitingConnections[int](4)
    for number in (0, 1, 0):
        assert waiting.add(number, "a") is None
    assert waiting.add(2, "a") == 1


def test_a_connection_that_has_its_request_is_not_counted() -> None:
    waiting = WaitingConnections[int](4)
    for number in range(100):
        assert waiting.add(number, "a") is None
        waiting.discard(number)
        waiting.discard(number)
    assert (len(waiting), waiting._networks) == (0, {})


@pytest.mark.parametrize("total", [0, 1, 2, 3])
def test_one_connection_may_always_wait(total: int) -> None:
    waiting = WaitingConnections[int](total)
    assert [waiting.add(number, "a") for number in range(3)] == [None, 0, 1]


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", bytes.fromhex("20010db800010002")),
        ("2001:db8:1:2::9", bytes.fromhex("20010db800010002")),
        ("fe80::1%eth0", bytes.fromhex("fe80000000000000")),
        ("::1", bytes(8)),
    ],
)
def test_a_client_is_counted_by_its_network(host: str, network: str | bytes) -> None:
    assert network_of(host) == network


@pytest.mark.row("O12")
@pytest.mark.parametrize("sent", [HALF_HEAD, HALF_BODY, WHOLE, b""], ids=["half a head", "half a body", "idle", "none"])
def test_waiting_connections_are_closed_and_requests_are_answered(sent: bytes) -> None:
    asyncio.run(_wait(sent))


async def _wait(sent: bytes) -> None:
    async with slow_model() as (model, url):
        with standing(url, connections=CONNECTIONS) as stood:
            running = []
            for _ in range(EACH + 5):
                running.append(await connect(stood.url))
                path, body = question("openai-chat", "openai/m")
                running[-1][1].write(head(path, body) + body)
            await until(lambda: model.open == len(running), 10)
            held = []
            for _ in range(MORE):
                held.append(await connect(stood.url))
                held[-1][1].write(sent)
            for _ in range(3):
                assert await health(stood.url) < 5
            closed = [_closed(reader) for reader, _ in held]
            await until(lambda: sum(task.done() for task in closed) >= MORE - EACH, 5)
            await asyncio.sleep(0.2)
            assert sum(task.done() for task in closed) - (MORE - EACH) in (0, 1), "those of /health wait as well"
            assert model.open == len(running), "a request that runs is not closed"
            assert all(task.done() for task in closed[: MORE - EACH]), "the oldest are closed"
            for task, (_, writer) in zip([*closed, *closed[: len(running)]], [*held, *running], strict=True):
                task.cancel()
                writer.transport.abort()
            await until(lambda: model.open == 0, 10)


@pytest.mark.row("O12")
def test_connections_that_come_at_once_are_closed_before_a_request_is_refused() -> None:
    def keep_busy() -> bytes:
        time.sleep(0.5)
        return b""

    with standing("http://127.0.0.1:9", connections=CONNECTIONS) as stood:
        stood.gateway.metrics = keep_busy
        port, held = urlsplit(stood.url).port, []
        for sent in [METRICS, *[HALF_HEAD] * MORE, WHOLE]:
            held.append(socket.create_connection(("127.0.0.1", port), 10))
            held[-1].sendall(sent)
            time.sleep(0.1 if sent is METRICS else 0)
        assert held[-1].recv(4096).startswith(b"HTTP/1.1 200")
        for opened in held:
            opened.close()


def _closed(reader: asyncio.StreamReader) -> "asyncio.Task[bytes]":
    return asyncio.ensure_future(reader.read())


@pytest.mark.row("O12")
def test_a_connection_is_used_for_many_requests_however_many_others_wait() -> None:
    async def use() -> None:
        async with slow_model() as (_, url):
            with standing(url, connections=CONNECTIONS) as stood:
                reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(stood.url).port)
                others = []
                for _ in range(EACH * 3):
                    writer.write(WHOLE)
                    assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"}"), 5)
                    others.append((await connect(stood.url))[1])
                    others[-1].write(HALF_HEAD)
                for one in (writer, *others):
                    one.transport.abort()

    asyncio.run(use())
