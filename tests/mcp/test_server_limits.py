"""What the clients of a server over HTTP can hold of it, and for how long."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.mcp.serving import in_thread, wait_for
from toolwire import AgentResolver, mcp, tool
from toolwire.errors import InvalidField

pytestmark = pytest.mark.slow  # servers are begun and ended

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT}
HEAD = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
WHOLE = b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n"

HALF_OPEN = {
    "nothing": b"",
    "half a line": b"POST /mc",
    "half a head": HEAD,
    "half a body": HEAD + b"content-length: 100\r\n\r\n{",
    "half a chunk": HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\n{",
}


@tool
async def rest() -> str:
    """Take longer than a request may."""
    await asyncio.sleep(1)
    return "rested"


@contextlib.contextmanager
def serving(**limits: float) -> Iterator[str]:
    chosen = mcp.HttpLimits(**limits)  # type: ignore[arg-type]
    with in_thread(
        lambda ready: mcp.aserve(AgentResolver([rest]), transport="http", port=0, ready=ready, http_limits=chosen)
    ) as url:
        yield url


def connection(url: str) -> socket.socket:
    place = urlsplit(url)
    return socket.create_connection((place.hostname, place.port), timeout=10)


def ended_after(line: socket.socket) -> float:
    """Wait until the server ends a connection, and give the seconds."""
    begun = time.monotonic()
    with contextlib.suppress(ConnectionResetError):
        while line.recv(65536):
            pass
    return time.monotonic() - begun


def answered(line: socket.socket) -> None:
    """Ask for what is not there, and take the answer."""
    line.sendall(WHOLE)
    answer = b""
    while not answer.endswith(b"Not Found"):
        more = line.recv(65536)
        assert more, "the connection was ended"
        answer += more


def opened(url: str) -> httpx2.Response:
    return httpx2.post(url, json=HELLO, headers=ACCEPT)


@pytest.mark.parametrize("case", HALF_OPEN)
@pytest.mark.parametrize("later", [False, True], ids=["at first", "after a whole one"])
def test_a_request_that_does_not_arrive_whole_ends_its_connection(case: str, later: bool) -> None:
    if later and not HALF_OPEN[case]:
        pytest.skip("that is an idle connection")
    with serving(request_seconds=0.5) as url, connection(url) as line:
        if later:
            answered(line)
        line.sendall(HALF_OPEN[case])
        assert 0.2 < ended_after(line) < 20


def test_a_request_that_drips_is_not_waited_for_longer() -> None:
    with serving(request_seconds=0.6) as url, connection(url) as line:
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            for _ in range(200):
                line.sendall(b"P")
                time.sleep(0.05)
        assert time.monotonic() - begun < 8, "to send all of it takes ten seconds"


def test_what_arrived_whole_may_take_its_time() -> None:
    with serving(request_seconds=0.3) as url:
        headers = ACCEPT | {"mcp-session-id": opened(url).headers["mcp-session-id"]}
        httpx2.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "rest", "arguments": {}}}
        with httpx2.stream("GET", url, headers=headers) as stream:
            answer = httpx2.post(url, json=call, headers=headers, timeout=10)
            assert "rested" in answer.text
            httpx2.delete(url, headers=headers)
            assert stream.status_code == 200
            stream.read()


def test_connections_have_a_limit() -> None:
    with serving(connections=3) as url:
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(connection(url)) for _ in range(3)]
            for line in held:
                answered(line)
            with connection(url) as one_more:
                assert ended_after(one_more) < 2
            answered(held[0])
        assert wait_for(lambda: _answers(url))


def _answers(url: str) -> bool:
    try:
        return opened(url).status_code == 200
    except httpx2.TransportError:
        return False


def test_sessions_have_a_limit_and_those_that_nobody_uses_are_freed() -> None:
    with serving(sessions=2, idle_seconds=1) as url:
        first, second, third = (opened(url) for _ in range(3))
        assert [one.status_code for one in (first, second, third)] == [200, 200, 503]
        assert json.loads(third.text)["error"]["message"] == "Too many open sessions"
        assert wait_for(lambda: opened(url).status_code == 200)
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        headers = ACCEPT | {"mcp-session-id": first.headers["mcp-session-id"]}
        assert httpx2.post(url, json=ping, headers=headers).status_code == 404


@pytest.mark.parametrize("name", ["connections", "request_seconds", "sessions", "idle_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_is_more_than_nothing(name: str, value: float) -> None:
    with pytest.raises(InvalidField, match=f"mcp.HttpLimits: {name} must be more than 0"):
        mcp.HttpLimits(**{name: value})  # type: ignore[arg-type]
