"""Requests as they are written to a provider's connection, and what becomes of the connection."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.gateway.standing import at
from toolwire.config import GatewaySettings
from toolwire.gateway.routes import Routes, Upward
from toolwire.gateway.upstream import Uplink
from toolwire.wire.transport import HttpRequest, Timeouts, TransportError

ANSWER = b"HTTP/1.1 200 OK\r\nX-Said: it\r\ncontent-length: 2\r\n\r\n{}"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


class Server:
    """A server that notes what it is sent."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.heard, self.connections = list(answers), list[bytes](), 0
        self.began, self.closed = asyncio.Event(), asyncio.Event()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give an answer for each request; an empty one ends the connection."""
        self.connections += 1
        while data := await reader.read(1 << 20):
            self.heard.append(data)
            self.began.set()
            if not (answer := self.answers.pop(0)):
                break
            writer.write(answer)
        writer.close()
        self.closed.set()

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[str]:
        """Stand on a port; give the address."""
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()


@contextlib.asynccontextmanager
async def uplink(*upward: Upward) -> AsyncIterator[Uplink]:
    made = Uplink(*upward)
    try:
        yield made
    finally:
        await made.aclose()


async def heard(answer: Any) -> bytes:
    data = b""
    try:
        while piece := await answer.aread():
            data += piece
    finally:
        await answer.afinish()
    return data


def posting(url: str, method: str = "POST", body: bytes = b"{}") -> HttpRequest:
    return HttpRequest(method, url, {"x-key": "k"}, body)


def test_a_request_is_written_in_one_piece_with_the_headers_that_it_has_and_no_other() -> None:
    async def run() -> None:
        server = Server(ANSWER)
        async with server.standing() as url, uplink() as up:
            answer = await up.asend(posting(f"{url}/v1/a?b=c"), Timeouts())
            assert (answer.status, answer.headers["x-said"]) == (200, "it")
            assert await heard(answer) == b"{}"
            host = url.removeprefix("http://").encode()
            head = b"POST /v1/a?b=c HTTP/1.1\r\nhost: %s\r\nx-key: k\r\naccept-encoding: identity\r\n" % host
            assert server.heard == [head + b"content-length: 2\r\n\r\n{}"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answers", "asked", "connections"),
    [
        ([ANSWER, ANSWER], "whole", 1),
        ([ANSWER + b"HTTP/1.1 408 Gone\r\n\r\n", ANSWER], "whole", 2),
        ([ANSWER.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), ANSWER], "whole", 2),
        ([ANSWER.replace(b": 2", b": 20"), ANSWER], "closed", 2),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n" + ANSWER, ANSWER], "whole", 1),
    ],
    ids=["whole", "more than asked", "said so", "not read", "informational"],
)
def test_a_connection_is_used_again_when_all_of_its_answer_was_read(
    answers: list[bytes], asked: str, connections: int
) -> None:
    async def run() -> None:
        server = Server(*answers)
        async with server.standing() as url, uplink() as up:
            for _ in range(2):
                answer = await up.asend(posting(url + "/"), Timeouts())
                assert answer.status == 200
                if asked == "whole":
                    assert await heard(answer) == b"{}"
                await answer.aclose()
            assert server.connections == connections

    asyncio.run(run())


def test_a_connection_on_which_the_request_was_not_all_written_is_closed_at_once() -> None:
    async def run() -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
            await asked.wait()
            with contextlib.suppress(ConnectionError):
                while await reader.read(1 << 20):
                    continue
            writer.close()
            server.closed.set()

        asked = asyncio.Event()
        server = Server()
        server.talk = refuse  # type: ignore[method-assign]
        async with server.standing() as url, uplink() as up:
            answer = await up.asend(posting(url + "/", body=b"x" * (8 << 20)), Timeouts())
            assert await heard(answer) == b"{}"
            assert up._connector is not None
            assert not up._connector._conns
            asked.set()
            await asyncio.wait_for(server.closed.wait(), 1)

    asyncio.run(run())


@pytest.mark.parametrize(("method", "again"), [("GET", True), ("DELETE", True), ("POST", False)])
def test_what_changes_nothing_is_asked_again_where_a_kept_connection_was_lost(method: str, again: bool) -> None:
    async def run() -> None:
        server = Server(ANSWER, b"", ANSWER)
        async with server.standing() as url, uplink() as up:
            await heard(await up.asend(posting(url + "/"), Timeouts()))
            if again:
                assert await heard(await up.asend(posting(url + "/", method), Timeouts())) == b"{}"
                return
            with pytest.raises(TransportError, match="ServerDisconnectedError") as raised:
                await up.asend(posting(url + "/", method), Timeouts())
            assert raised.value.kind == "reset"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/", {"x-said": said}) for said in ("a\r\nb: c", "a\nb: c", "a\rb")] + [("/a b HTTP/1.1\r\nb: c", {})],
)
def test_nothing_is_sent_that_would_be_more_than_one_line(path: str, headers: dict[str, str]) -> None:
    async def run() -> None:
        server = Server(ANSWER)
        async with server.standing() as url, uplink() as up:
            with pytest.raises(TransportError) as raised:
                await up.asend(HttpRequest("POST", url + path, headers, b"{}"), Timeouts())
            assert raised.value.kind == "protocol"
            assert not server.heard

    asyncio.run(run())


@pytest.mark.parametrize(
    ("said", "timeouts"),
    [
        (b"HTTP/1.1 102 Processing\r\n\r\n", Timeouts(total=0.02)),
        (ANSWER.replace(b": 2", b": 20"), Timeouts(total=0.02)),
        (b"HTTP/1.1 102 Processing\r\n\r\n", Timeouts(first=0.02, between=0.01)),
        (ANSWER.replace(b": 2", b": 20"), Timeouts(first=0.02, between=0.01)),
    ],
    ids=["no head in all", "no end in all", "no head", "no more"],
)
def test_an_answer_has_a_time_for_its_pieces_and_one_for_all_of_it(said: bytes, timeouts: Timeouts) -> None:
    async def run() -> None:
        server = Server(said)
        async with server.standing() as url, uplink() as up:
            with pytest.raises(TransportError) as raised:
                await heard(await up.asend(posting(url + "/"), timeouts))
            assert raised.value.kind == "timeout"
            await asyncio.wait_for(server.closed.wait(), 1)

    asyncio.run(run())


def test_a_request_that_is_cancelled_closes_its_connection_at_once() -> None:
    async def run() -> None:
        server = Server(b"HTTP/1.1 102 Processing\r\n\r\n")
        async with server.standing() as url, uplink() as up:
            asking = asyncio.ensure_future(up.asend(posting(url + "/"), Timeouts()))
            await asyncio.wait_for(server.began.wait(), 1)
            asking.cancel()
            await asyncio.wait_for(server.closed.wait(), 1)

    asyncio.run(run())


def test_a_provider_may_be_called_by_another_name_than_its_address() -> None:
    async def run() -> None:
        server = Server(ANSWER)
        async with server.standing() as url, uplink() as up:
            named = at(url, "openai", headers={"Host": "models.example"})
            headers = Routes(GatewaySettings(), {"openai": named}).headers(named)
            await heard(await up.asend(HttpRequest("POST", url + "/", headers, b"{}"), Timeouts()))
            lines = server.heard[0].lower().split(b"\r\n")
            assert [line for line in lines if line.startswith(b"host:")] == [b"host: models.example"]

    asyncio.run(run())


def test_what_is_no_http_is_an_error_of_the_protocol() -> None:
    async def run() -> None:
        async with Server(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").standing() as url, uplink() as up:
            with pytest.raises(TransportError) as raised:
                await up.asend(posting(url + "/"), Timeouts())
            assert raised.value.kind == "protocol"

    asyncio.run(run())


def test_a_proxy_is_told_its_password_and_the_whole_address_each_time() -> None:
    async def run() -> None:
        server = Server(ANSWER, ANSWER)
        async with server.standing() as url, uplink(Upward(url.replace("//", "//me:word@"))) as up:
            for _ in range(2):
                await heard(await up.asend(posting("http://models.example/v1/a"), Timeouts()))
            for said in server.heard:
                assert said.startswith(b"POST http://models.example/v1/a HTTP/1.1\r\nhost: models.example\r\n")
                assert b"\r\nproxy-authorization: Basic bWU6d29yZA==\r\n" in said

    asyncio.run(run())
