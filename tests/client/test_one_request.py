"""The transport of `toolwire ask`: what the other transport answers, it answers too, and fails as that one does."""

import socket
import threading
import time
from contextlib import closing
from typing import Any

import pytest

from tests.client.faces import DIALECTS, TOKYO, get_weather, options_at
from tests.client.test_faults_network import LOST, hang_up, serving, stall, stall_in_the_body
from toolwire import Cancel, Client, TextDelta
from toolwire.client.failures import ProviderError
from toolwire.client.httpx import HttpxTransport
from toolwire.client.one_request import OneRequestTransport
from toolwire.testing import Expect, Fail, Wait, simulate
from toolwire.types import Error
from toolwire.wire.transport import HttpRequest, Timeouts, TransportError


def request(url: str, body: bytes = b"{}") -> HttpRequest:
    return HttpRequest("POST", url, {"content-type": "application/json", "Authorization": "Bearer secret"}, body)


def failure(transport: Any, url: str, timeouts: Timeouts | None = None, stop: Any = None) -> TransportError:
    """Give the error of sending a request and reading its answer."""
    with pytest.raises(TransportError) as raised:  # noqa: PT012 - sending or reading fails
        answer = transport.send(request(url), timeouts or Timeouts(connect=2, first=2, between=2, total=4), stop)
        try:
            while answer.read():
                pass
        finally:
            answer.close()
    assert "secret" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("name", DIALECTS)
def test_a_conversation_goes_over_it_as_over_the_other(name: str, *, shown: bool) -> None:
    with (
        simulate([[TOKYO], [Expect(results={"get_weather": "25 degrees in Tokyo"}), "Warm."]]) as model,
        Client(name, "m", transport=OneRequestTransport(), **options_at(name, model.url)) as client,
    ):
        if shown:
            items = list(client.stream("Tokyo?", tools=[get_weather]))
            assert "".join(item.text for item in items if isinstance(item, TextDelta)) == "Warm."
        else:
            assert client.run("Tokyo?", tools=[get_weather]).content == "Warm."


@pytest.mark.parametrize("case", [case for case in LOST if case != "no gzip where it says so"])
def test_what_is_lost_fails_as_with_the_other(case: str) -> None:
    answer, scheme = LOST[case]
    with serving(answer, scheme) as (url, _), closing(HttpxTransport()) as peer:
        own, other = failure(OneRequestTransport(), url), failure(peer, url)
    if case == "no TLS where it is wanted":
        assert own.kind == "connect"
    else:
        assert (own.kind, own.sent) == (other.kind, other.sent)


def compress(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 6\r\n\r\nno zip")


def test_a_server_that_hangs_up_is_named_in_words() -> None:
    with serving(hang_up) as (url, _):
        problem = failure(OneRequestTransport(), url)
    assert (problem.kind, "the server closed the connection without an answer" in str(problem)) == ("reset", True)


def test_an_answer_that_is_compressed_is_no_answer() -> None:
    with serving(compress) as (url, _):
        error = failure(OneRequestTransport(), url)
    assert error.kind == "protocol"
    assert "compressed (gzip), which was not asked for" in str(error)


def drip(connection: socket.socket) -> None:
    connection.recv(65536)
    for byte in b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


@pytest.mark.parametrize("answer", [stall, drip])
def test_a_head_that_does_not_come_ends_in_time(answer: Any) -> None:
    began = time.monotonic()
    with serving(answer) as (url, _):
        assert failure(OneRequestTransport(), url, Timeouts(connect=1, first=0.3, total=9)).kind == "timeout"
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("timeouts", [Timeouts(between=0.3), Timeouts(total=0.5)])
def test_a_body_that_stalls_ends_in_time(timeouts: Timeouts) -> None:
    began = time.monotonic()
    with serving(stall_in_the_body) as (url, _):
        assert failure(OneRequestTransport(), url, timeouts).kind == "timeout"
    assert time.monotonic() - began < 3


def test_a_stop_from_another_thread_ends_a_read_at_once() -> None:
    stop = Cancel()
    with serving(stall) as (url, _):
        threading.Timer(0.2, stop).start()
        began = time.monotonic()
        error = failure(OneRequestTransport(), url, Timeouts(first=30, total=30), stop)
    assert (error.kind, time.monotonic() - began < 3) == ("cancelled", True)


def test_a_cancelled_run_ends_as_with_the_other() -> None:
    with simulate([["It is ", Wait(30), "warm."]]) as model:
        client = Client("openai", "m", transport=OneRequestTransport(), base_url=model.url, api_key="x")
        cancel = Cancel()
        with client.stream("How is it?", cancel=cancel) as stream:
            for _ in stream:
                cancel()
            done = stream.collect()
    assert (done.ending, done.messages[0].text.strip() in ("It", "It is")) == ("cancelled", True)


def test_nobody_there_and_no_such_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    error = failure(OneRequestTransport(), f"http://127.0.0.1:{port}/v1")
    assert (error.kind, error.sent) == ("connect", False)
    assert f"POST http://127.0.0.1:{port}/v1: ConnectionRefusedError" in str(error)
    assert failure(OneRequestTransport(), "http://no.such.host.invalid/").kind == "connect"
    for url in ("ftp://localhost/", "http://", "http://localhost:99999/"):
        assert failure(OneRequestTransport(), url).kind == "protocol"


def test_the_head_is_that_of_a_request_for_one_answer() -> None:
    heads: list[bytes] = []

    def keep(connection: socket.socket) -> None:
        heads.append(connection.recv(65536))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with serving(keep) as (url, _):
        answer = OneRequestTransport().send(request(f"{url}/v1/x?y=1", b"abc"), Timeouts())
        assert (answer.status, answer.read()) == (204, b"")
        answer.close()
    head = heads[0].decode().lower()
    assert head.startswith("post /v1/x?y=1 http/1.1\r\n")
    for line in ("accept-encoding: identity", "connection: close", "content-length: 3", "authorization: bearer secret"):
        assert f"\r\n{line}\r\n" in head
    assert f"\r\nhost: {url.removeprefix('http://')}\r\n" in head


def test_an_error_of_a_provider_is_the_same_over_both() -> None:
    texts = []
    for transport in (OneRequestTransport(), HttpxTransport()):
        with simulate([[Fail(Error("authentication", "Who?", 401))]]) as model:
            options: dict[str, Any] = {"transport": transport, "base_url": model.url, "api_key": "any", "retries": 1}
            with Client("openai", "m", **options) as client, pytest.raises(ProviderError) as raised:
                client.run("Hi.")
            texts.append((type(raised.value), raised.value.error.status))
    assert texts[0] == texts[1]
