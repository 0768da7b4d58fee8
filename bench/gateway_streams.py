"""Streams for `gateway_load.py`: a provider that sends 20 frames a second, and clients that measure when they arrive.

Each is a process of its own. A frame's text holds the time at which the provider sent it, by the clock that all
processes of a machine share. So a client knows for each frame how long it was on its way, and how long the pause was
since the frame before. The provider sends the frames of its streams at different moments of a twentieth of a second,
as many models would. It speaks Chat Completions, and sends as many frames as the request allows tokens.
"""

import argparse
import asyncio
import gc
import json
import re
import time
from collections.abc import Coroutine
from typing import Any, NamedTuple

RATE = 20  # frames a second
STALL = 0.5  # seconds
MODEL = "gpt-4.1"
_OPENING = 2.0  # seconds over which the streams of a run begin
_SLOTS = 10  # moments of a twentieth of a second at which frames are sent
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_STAMP = re.compile(rb"@(\d+);")
_CHUNK = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4.1","choices":[%s]%s}'
_CHOICE = '{"index":0,"delta":{%s},"logprobs":null,"finish_reason":%s}'
_USAGE = ',"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}'
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _event(data: str) -> bytes:
    """Return a server-sent event as a chunk of HTTP."""
    event = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


_ROLE = _event(_CHUNK % (_CHOICE % ('"role":"assistant","content":""', "null"), ""))
_WORD = _event(_CHUNK % (_CHOICE % (f'"content":"@{0:018}; "', "null"), "")).decode()
_WORD_START, _WORD_END = (half.encode() for half in _WORD.split(f"{0:018}"))
_LAST = (
    _event(_CHUNK % (_CHOICE % ("", '"stop"'), "")) + _event(_CHUNK % ("", _USAGE)) + _event("[DONE]") + b"0\r\n\r\n"
)


def now() -> int:
    """Return the microseconds of the clock that all processes share."""
    return time.perf_counter_ns() // 1000


class Received(NamedTuple):
    """What the clients of a run measured. Times are milliseconds: the median, the 99th percentile, the largest."""

    complete: int  # streams that came to their end with all frames
    problem: str  # of the first stream that did not
    frames: int
    stalled: int  # streams that paused for over half a second
    late: int  # streams whose last frame was over half a second on its way: the gateway falls behind
    first: list[float]  # from a request to its first frame
    gap: list[float]  # between two frames
    delay: list[float]  # of a frame, from the provider to its client


class _Metronome:
    """Lets every stream send a frame 20 times a second."""

    def __init__(self) -> None:
        self._slots: list[set[_Provided]] = [set() for _ in range(_SLOTS)]
        self._ticks = 0
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._tick()

    def add(self, stream: "_Provided") -> None:
        """Begin with a stream's frames."""
        self._slots[self._ticks % _SLOTS].add(stream)
        stream.send_frame()

    def _tick(self) -> None:
        self._ticks += 1
        streams = self._slots[self._ticks % _SLOTS]
        for stream in [stream for stream in streams if not stream.send_frame()]:
            streams.discard(stream)
        self._loop.call_at(self._start + self._ticks / (RATE * _SLOTS), self._tick)


class _Provided(asyncio.Protocol):
    """A connection to the provider, which sends one stream after the other."""

    def __init__(self, metronome: _Metronome) -> None:
        self._metronome = metronome
        self._received = b""
        self._left = 0
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._left = 0

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or length is None or len(body) < int(length[1]):
            return
        self._received = b""
        request = json.loads(body)
        self._left = request.get("max_completion_tokens") or request["max_tokens"]
        self._transport.write(_HEAD + _ROLE)
        self._metronome.add(self)

    def send_frame(self) -> bool:
        """Send the next frame; return whether there are more."""
        if self._left <= 0 or self._transport.is_closing():
            return False
        self._left -= 1
        self._transport.write(b"%b%018d%b" % (_WORD_START, now(), _WORD_END))
        if not self._left:
            self._transport.write(_LAST)
        return self._left > 0


async def provide(port: int) -> None:
    """Be the provider, until this process is ended."""
    metronome = _Metronome()
    server = await asyncio.get_running_loop().create_server(
        lambda: _Provided(metronome), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


class Wire(NamedTuple):
    """Where clients of a wire ask for a stream, and how its end looks."""

    path: str
    headers: str
    end: bytes


WIRES = {
    "chat": Wire("/v1/chat/completions", "", b"data: [DONE]"),
    "messages": Wire("/v1/messages", "anthropic-version: 2023-06-01\r\n", b"event: message_stop"),
}


def _request(port: int, model: str, wire: Wire, number: int, frames: int) -> bytes:
    """Return the bytes of a request for a stream; both wires read the same body."""
    question = f"Client {number} at {now()} asks for a story."
    messages = [{"role": "user", "content": question}]
    body = json.dumps({"model": model, "max_tokens": frames, "stream": True, "messages": messages}).encode()
    head = f"POST {wire.path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    return f"{head}{wire.headers}content-length: {len(body)}\r\n\r\n".encode() + body


class _Client(asyncio.Protocol):
    """A client of one stream. All times are microseconds."""

    def __init__(self, request: bytes, end: bytes) -> None:
        self.first = 0  # from the request to the first frame
        self.gaps: list[int] = []
        self.delays: list[int] = []
        self.error = "its end did not come in time"
        self.ended = asyncio.Event()
        self._request, self._end = request, end
        self._rest = b""
        self._begin = self._last = now()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._begin = self._last = now()
        transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.is_set():
            self._finish(f"the connection was closed: {exc or 'no error'}")

    def data_received(self, data: bytes) -> None:
        arrival = now()
        if not self.first and not self._rest and b" 200 " not in data[:16]:
            self._finish(data[-200:].decode("utf-8", "replace"))
            return
        data, end = self._rest + data, 0
        for stamp in _STAMP.finditer(data):
            end = stamp.end()
            self._note(arrival, int(stamp[1]))
        self._rest = data[max(end, len(data) - 64) :]
        if self._end in data:
            self._finish("")

    def _note(self, arrival: int, sent: int) -> None:
        if self.first:
            self.gaps.append(arrival - self._last)
        else:
            self.first = arrival - self._begin
        self.delays.append(arrival - sent)
        self._last = arrival

    def _finish(self, error: str) -> None:
        self.error = error
        self.ended.set()
        self._transport.close()

    def give_up(self) -> None:
        """Close the stream; its present pause counts as a gap."""
        if not self.ended.is_set():
            self.gaps.append(now() - self._last)
            self._finish(self.error)


async def receive(port: int, model: str, wire: Wire, streams: int, seconds: float) -> Received:
    """Open streams over two seconds, receive them to their end, and return what was measured."""
    loop = asyncio.get_running_loop()
    frames = round(seconds * RATE)
    clients = []
    begin = loop.time()
    for number in range(streams):
        await asyncio.sleep(begin + _OPENING * number / streams - loop.time())
        client = _Client(_request(port, model, wire, number, frames), wire.end)
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port)
        clients.append(client)
    waiting = [asyncio.ensure_future(client.ended.wait()) for client in clients]
    await asyncio.wait(waiting, timeout=2 * seconds + 5)
    for client in clients:
        client.give_up()
    return _summary(clients, frames)


def _summary(clients: list[_Client], frames: int) -> Received:
    complete = [not client.error and len(client.delays) == frames for client in clients]
    short = [f"{len(client.delays)} of {frames} frames came" for client in clients if len(client.delays) != frames]
    errors = [client.error for client in clients if client.error]
    return Received(
        complete=sum(complete),
        problem="" if all(complete) else [*errors, *short][0],
        frames=sum(len(client.delays) for client in clients),
        stalled=sum(max(client.gaps, default=0) > STALL * 1e6 for client in clients),
        late=sum(client.delays[-1] > STALL * 1e6 for client in clients if client.delays),
        first=_percentiles([client.first for client in clients if client.first]),
        gap=_percentiles([gap for client in clients for gap in client.gaps]),
        delay=_percentiles([delay for client in clients for delay in client.delays]),
    )


def _percentiles(values: list[int]) -> list[float]:
    """Return the median, the 99th percentile and the largest of `values` (microseconds), in milliseconds."""
    ordered = sorted(values) or [0]
    return [ordered[min(len(ordered) - 1, int(len(ordered) * part))] / 1000 for part in (0.5, 0.99, 1)]


def _run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run with uvloop where it is installed, and without pauses for garbage."""
    gc.disable()
    try:
        import uvloop  # noqa: PLC0415 - only where it is installed
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def main() -> None:
    """Be the provider, or the clients, whose figures are printed as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["provider", *WIRES])
    parser.add_argument("port", type=int)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    if options.role == "provider":
        _run(provide(options.port))
    else:
        wire = WIRES[options.role]
        received = _run(receive(options.port, options.model, wire, options.streams, options.seconds))
        print(json.dumps(received._asdict()))


if __name__ == "__main__":
    main()
