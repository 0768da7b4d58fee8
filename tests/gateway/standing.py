"""A gateway on a socket of its own, before a simulated model, while a test lasts."""

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest
import uvicorn
from msgspec.structs import replace

from toolwire.config import read_settings
from toolwire.dialects import dialect
from toolwire.gateway import Gateway, serving
from toolwire.gateway.context import GatewayContext
from toolwire.gateway.memory import ProcessMemory
from toolwire.gateway.reports import Reports
from toolwire.gateway.request_record import RequestRecord
from toolwire.gateway.routes import Routes
from toolwire.gateway.upstream import Uplink
from toolwire.providers import PROVIDERS, Provider
from toolwire.streams.accumulation import Accumulator
from toolwire.testing.service import Received
from toolwire.types import ErrorEnd, Request, Response
from toolwire.wire.transport import HttpRequest

NAMES = {
    "openai-chat": "openai",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "ollama": "ollama",
}
WIRES = tuple(NAMES)
# Where a wire changes little of what is tried: two in the fast suite, the others in the slow one.
TWO_WIRES = (*WIRES[:2], *(pytest.param(wire, marks=pytest.mark.slow) for wire in WIRES[2:]))
KEY = "sk-sentinel-0123456789abcdef"


class Seen(list[dict[str, Any]]):
    """What a gateway has reported: it does so a moment after its client has read the end, which is waited for."""

    def __getitem__(self, index: Any) -> Any:
        late = time.monotonic() + 10
        while isinstance(index, int) and not -len(self) <= index < len(self) and time.monotonic() < late:
            time.sleep(0.005)
        return super().__getitem__(index)

    def first(self, count: int) -> list[dict[str, Any]]:
        """Give all reports, once there are so many."""
        _ = self[count - 1]
        return list(self)

    def note(self, record: RequestRecord) -> None:
        """Append a record as the log prints it."""
        self.append(msgspec.to_builtins(record))


class Stood(NamedTuple):
    """A gateway that stands. `settle` waits until it is done with every request."""

    url: str
    gateway: Gateway
    seen: Seen
    settle: Callable[[], None] = lambda: None


class Before(NamedTuple):
    """A gateway that stands before a model that plays a scenario.

    `requests` are those that the model got, and `model` is where it is for who asks it without the gateway.
    """

    url: str
    gateway: Gateway
    seen: Seen
    requests: list[Received]
    model: str = ""


class Answered(NamedTuple):
    """What a client was answered."""

    status: int
    headers: dict[str, str]
    data: bytes
    broken: bool


def at(url: str, name: str, **more: Any) -> Provider:
    """Give a provider of a wire whose server is elsewhere."""
    return PROVIDERS[name].with_options(base_url=url, api_key=KEY, paths=(), **more)


class There:
    """A server that answers once, and what it was asked."""

    def __init__(self, status: int, headers: dict[str, str], pieces: list[bytes]) -> None:
        self.status, self.headers, self._pieces, self.url = status, headers, pieces, ""

    async def asend(self, request: HttpRequest, *_: Any) -> Any:
        """Note what is asked."""
        self.url = request.url
        return self

    async def aread(self) -> bytes:
        """Give the next piece."""
        return self._pieces.pop() if self._pieces else b""

    async def aclose(self) -> None:
        """Let go of nothing."""

    afinish = aclose


class _Prompt(uvicorn.Server):
    """A server that ends when it is told to: uvicorn looks ten times a second, and then waits a tenth."""

    def end(self) -> None:
        """Say from another thread that it ends."""
        self._loop.call_soon_threadsafe(self._told.set)

    def settle(self) -> None:
        """Wait until no request is being answered; one that hangs is left."""
        late = time.monotonic() + 5
        while self.server_state.tasks and time.monotonic() < late:
            time.sleep(0.005)

    async def main_loop(self) -> None:
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        while not self._told.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), 1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        for _ in range(1000):
            if not (self.server_state.connections or self.server_state.tasks):
                break
            await asyncio.sleep(0.005)
        await self.lifespan.shutdown()


@contextlib.contextmanager
def standing(
    url: str,
    settings: str = "",
    providers: dict[str, Provider] | None = None,
    *,
    connections: int = 4096,
    **tools: Any,
) -> Iterator[Stood]:
    """Serve a gateway before the servers at an address."""
    known = {name: at(url, name) for name in NAMES.values()} | (providers or {})
    seen = Seen()
    made = GatewayContext(
        Routes(read_settings(settings), known), Uplink(), ProcessMemory(1 << 24, 3600), Reports(), **tools
    )
    gateway = Gateway(made, log=seen.note)
    opened = serving.listen("127.0.0.1:0")
    server = _Prompt(serving.config_of(gateway, connections))
    thread = threading.Thread(target=server.run, args=([opened],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield Stood(f"http://127.0.0.1:{opened.getsockname()[1]}", gateway, seen, server.settle)
    finally:
        server.end()
        thread.join(10)


def post(url: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> Answered:
    """Post a body, and read all of the answer."""
    return send(url, "POST", path, body, headers)


def send(url: str, method: str, path: str, body: bytes | None, headers: dict[str, str] | None = None) -> Answered:
    """Send a request, and read all of its answer; `broken` says that the connection ended too early."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    try:
        connection.request(method, path, body, {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        try:
            return Answered(answer.status, told, answer.read(), broken=False)
        except (TimeoutError, http.client.IncompleteRead, ConnectionError) as problem:
            return Answered(answer.status, told, getattr(problem, "partial", b""), broken=True)
    finally:
        connection.close()


def ask(url: str, wire: str, request: Request, headers: dict[str, str] | None = None) -> tuple[Response, Answered]:
    """Ask a canonical request in a wire, as one of its clients does, and read the answer."""
    here = dialect(wire)
    encoded = here.encode_request(request)
    body = dict(encoded.body)
    if request.stream and wire == "openai-chat":
        body["stream_options"] = {"include_usage": True}
    answered = post(url, encoded.path, json.dumps(body).encode(), headers)
    assert answered.status == 200, answered.data
    if not request.stream:
        return here.decode_response(json.loads(answered.data)), answered
    decoder, heard = here.decode_stream(), Accumulator()
    for event in [*decoder.feed(answered.data), *decoder.close()]:
        assert type(event) is not ErrorEnd, answered.data
        heard.feed(event)
    return heard.response, answered


def streamed(request: Request, *, stream: bool) -> Request:
    """Give a request that asks for a stream, or not."""
    return replace(request, stream=stream)
