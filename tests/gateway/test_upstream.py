"""Requests as they are written to a provider's connection, and what becomes of the connection."""

import asyncio
import base64
import contextlib
import socket
import ssl
import subprocess
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.standing import at
from toolwire.config import GatewaySettings
from toolwire.gateway.routes import Routes, UpstreamNetwork
from toolwire.gateway.upstream import Uplink
from toolwire.wire.transport import HttpRequest, Timeouts, TransportError

RESTED = 0.08  # longer than a connection rests after a short answer
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
        talks = list[asyncio.Task[Any]]()

        async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            talks.append(asyncio.ensure_future(self.talk(reader, writer)))

        server = await asyncio.start_server(begin, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            await asyncio.wait_for(asyncio.gather(*talks, return_exceptions=True), 5)


@contextlib.asynccontextmanager
async def uplink(*upstream_network: UpstreamNetwork) -> AsyncIterator[Uplink]:
    made = Uplink(*upstream_network)
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
                await asyncio.sleep(RESTED)
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
            asked.set()
            await asyncio.wait_for(server.closed.wait(), 1)

    asyncio.run(run())


@pytest.mark.parametrize(("method", "again"), [("GET", True), ("DELETE", True), ("POST", False)])
def test_what_changes_nothing_is_asked_again_where_a_kept_connection_was_lost(method: str, again: bool) -> None:
    async def run() -> None:
        server = Server(ANSWER, b"", ANSWER)
        async with server.standing() as url, uplink() as up:
            await heard(await up.asend(posting(url + "/"), Timeouts()))
            await asyncio.sleep(RESTED)
            if again:
                assert await heard(await up.asend(posting(url + "/", method), Timeouts())) == b"{}"
                return
            with pytest.raises(TransportError, match="Ended") as raised:
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
        async with server.standing() as url, uplink(UpstreamNetwork(url.replace("//", "//me:word@"))) as up:
            for _ in range(2):
                await heard(await up.asend(posting("http://models.example/v1/a"), Timeouts()))
            for said in server.heard:
                assert said.startswith(b"POST http://models.example/v1/a HTTP/1.1\r\nhost: models.example\r\n")
                assert b"\r\nproxy-authorization: Basic bWU6d29yZA==\r\n" in said

    asyncio.run(run())


@pytest.fixture
def identity(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Make a certificate for 127.0.0.1: what a server shows, and what a client trusts."""
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-keyout", "key.pem", "-out", "ca.pem", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    return shown, ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))


class Proxy:
    """A proxy that connects to whatever it is asked for."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.answer, self.heads = answer, list[bytes]()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        place = self.heads[-1].split(b" ")[1].decode()
        there, away = await asyncio.open_connection(place.partition(":")[0], int(place.rpartition(":")[2]))
        await asyncio.gather(_pump(reader, away), _pump(there, writer))


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65_536):
            target.write(data)
    target.close()


needs_openssl = pytest.mark.skipif(not Path("/usr/bin/openssl").exists(), reason="openssl makes the certificates")


@needs_openssl
def test_an_encrypted_connection_is_used_again_and_an_unknown_authority_is_refused(identity: Any) -> None:
    async def run() -> None:
        server = Server(ANSWER, ANSWER)
        listening = await asyncio.start_server(server.talk, "127.0.0.1", 0, ssl=identity[0])
        url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        async with listening, uplink(UpstreamNetwork(trusted=identity[1])) as up, uplink() as suspicious:
            for _ in range(2):
                assert await heard(await up.asend(posting(url), Timeouts())) == b"{}"
                await asyncio.sleep(RESTED)
            assert server.connections == 1
            with pytest.raises(TransportError) as raised:
                await suspicious.asend(posting(url), Timeouts())
            assert raised.value.kind == "connect"
            await up.aclose()
            await asyncio.wait_for(server.closed.wait(), 5)

    asyncio.run(run())


@needs_openssl
def test_an_encrypted_connection_goes_through_a_tunnel_of_the_proxy(identity: Any) -> None:
    async def run() -> None:
        server, proxy = Server(ANSWER), Proxy()
        listening = await asyncio.start_server(server.talk, "127.0.0.1", 0, ssl=identity[0])
        between = await asyncio.start_server(proxy.talk, "127.0.0.1", 0)
        port, near = (one.sockets[0].getsockname()[1] for one in (listening, between))
        way = UpstreamNetwork(f"http://me:w%2Frd@127.0.0.1:{near}", trusted=identity[1])
        async with listening, between, uplink(way) as up:
            assert await heard(await up.asend(posting(f"https://127.0.0.1:{port}/a"), Timeouts())) == b"{}"
            login = base64.b64encode(b"me:w/rd").decode()
            head = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
            assert proxy.heads == [f"{head}proxy-authorization: Basic {login}\r\n\r\n".encode()]
            assert b"proxy-authorization" not in server.heard[0]
            await up.aclose()
            await asyncio.wait_for(server.closed.wait(), 5)

    asyncio.run(run())


def test_a_proxy_that_refuses_is_told() -> None:
    async def run() -> None:
        refusing = Server(b"HTTP/1.1 407 Who?\r\ncontent-length: 0\r\n\r\n")
        async with refusing.standing() as url, uplink(UpstreamNetwork(url)) as up:
            with pytest.raises(TransportError, match="ProxyError") as raised:
                await up.asend(posting("https://models.example/v1/a"), Timeouts())
            assert raised.value.kind == "connect"

    asyncio.run(run())


def compressed(data: bytes, bits: int) -> bytes:
    writer = zlib.compressobj(wbits=bits)
    body = writer.compress(data) + writer.flush()
    name = b"gzip" if bits == 31 else b"deflate"
    return b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n%s" % (name, len(body), body)


@pytest.mark.parametrize("bits", [31, 15])
def test_what_a_server_compressed_unasked_is_read_a_piece_at_a_time(bits: int) -> None:
    """64 MiB of zeros in 64 KB: whoever reads decides how much of it is decompressed."""

    async def run() -> None:
        data = bytes(64 << 20)
        async with Server(compressed(data, bits)).standing() as url, uplink() as up:
            answer = await up.asend(posting(url + "/"), Timeouts())
            start = time.process_time()
            pieces = [await answer.aread() for _ in range(16)]
            assert time.process_time() - start < 0.1
            assert b"".join(pieces) == data[: 16 * 65_536]
            await answer.aclose()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\n{}", "protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}", "protocol"),
        (compressed(b"x" * 1000, 31)[:-4].replace(b"length: ", b"length: 0"), "reset"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000 + b"\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "protocol"),
    ],
    ids=["unknown encoding", "not compressed", "cut", "long head", "two lengths"],
)
def test_what_cannot_be_read_is_an_error_of_the_transport(answer: bytes, kind: str) -> None:
    async def run() -> None:
        async with Server(answer, b"").standing() as url, uplink() as up:
            with pytest.raises(TransportError) as raised:
                await heard(await up.asend(posting(url + "/"), Timeouts(first=1, between=1)))
            assert raised.value.kind in (kind, "timeout" if kind == "reset" else kind)

    asyncio.run(run())


def test_a_body_that_ends_with_its_connection_is_read_to_its_end() -> None:
    async def run() -> None:
        server = Server(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        server.answers.append(b"")

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(server.answers[0])
            writer.close()

        server.talk = talk  # type: ignore[method-assign]
        async with server.standing() as url, uplink() as up:
            assert await heard(await up.asend(posting(url + "/"), Timeouts())) == b"all of it"

    asyncio.run(run())


def test_a_reader_that_waits_holds_the_server_back() -> None:
    async def run() -> None:
        written = 0

        async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal written
            await reader.readuntil(b"\r\n\r\n")
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
            writer.transport.set_write_buffer_limits(0)
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(b"4000\r\n" + bytes(0x4000) + b"\r\n")
                    await writer.drain()
                    written += 0x4000

        server = Server()
        server.talk = pour  # type: ignore[method-assign]
        async with server.standing() as url, uplink() as up:
            answer = await up.asend(posting(url + "/"), Timeouts())
            read = sum([len(await answer.aread()) for _ in range(10)])
            before = -1
            while before != written:
                before = written
                await asyncio.sleep(0.2)
            await answer.aclose()
            assert 0 < written - read < 600_000

    asyncio.run(run())


def test_an_error_says_whether_the_server_can_have_received_the_request() -> None:
    async def run() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        closing, waiting = Server(b""), Server()
        waiting.talk = silent  # type: ignore[method-assign]
        quick = Timeouts(first=0.1, between=0.1)
        async with closing.standing() as ends, waiting.standing() as waits, uplink() as up:
            for url, kind, sent in (
                (ends, "reset", True),
                (waits, "timeout", True),
                ("http://127.0.0.1:1", "connect", False),
                ("http://127.0.0.1:1/a b", "protocol", False),
            ):
                with pytest.raises(TransportError) as raised:
                    await up.asend(posting(url), quick)
                assert (raised.value.kind, raised.value.sent) == (kind, sent), url

    asyncio.run(run())
