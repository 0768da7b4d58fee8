"""The HTTP client under streamable HTTP: one request that fails, or answers too much, costs only itself.

Rules of this file:
- A failure of the network is the error of the request that met it; the session and other requests go on.
- A body of JSON has a limit, and comes as it is: what is compressed could be any size.
- What answers a request is its answer, whatever number it has, and is mended as the lines of a process are.
- A session that the server does not know any more is over: a 404 says so, or a 400 in words.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from toolwire.mcp.lines import mended, read_message
from toolwire.mcp.targets import Http, Terms

_FAREWELL = 1.0
_OK = 200
_BAD = 400
_MISSING = 404  # an unknown method, or a session that is no more: the official transport tells them apart
_SESSION = "mcp-session-id"
_EVENTS = "text/event-stream"
_MARK = 64  # bytes, at most, in which an event says that it has data


class _GuardedClient(httpx2.AsyncClient):
    """A client whose failures are answers, and whose answers have a limit."""

    def __init__(self, limit: int, **options: Any) -> None:
        super().__init__(**options)
        self._limit = limit

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; what cannot be sent is answered here, and a farewell is not waited for."""
        if request.method == "DELETE":
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _FAREWELL)
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as problem:
            return _answer(request, f"cannot be reached: {_words_of(problem)}")
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith(_EVENTS):
            response.stream = _Mended(response.stream, self._limit)
            return response
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return _answer(request, "answered with a compressed body, which nobody asked for", response.status_code)
        response.stream = _Limited(response.stream, self._limit)
        if response.status_code < _BAD and not kind.startswith("application/json"):
            return response
        return await _read(request, response)


async def _read(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Read a body of JSON or a refusal, and give it as the official transport reads it without fault."""
    try:
        body = await response.aread()
    except httpx2.StreamError as problem:
        return _answer(request, str(problem))
    status = response.status_code
    if status >= _BAD:
        if _is_forgotten(request, status, body):
            return httpx2.Response(_MISSING, request=request)
        told = status == _MISSING or _is_message(body)
        return response if told else _answer(request, f"answered {status} {response.reason_phrase}".rstrip(), status)
    if request.method != "POST" or status != _OK:
        return response
    messages = [body] if _is_message(body) else [text.encode() for text in mended(body)]
    if not messages:
        return _answer(request, "the answer cannot be read: it is not a message")
    kept = {name: value for name in (_SESSION,) if (value := response.headers.get(name)) is not None}
    events = b"".join(b"data: " + b" ".join(message.splitlines()) + b"\n\n" for message in messages)
    return httpx2.Response(status, headers={"content-type": _EVENTS, **kept}, content=events, request=request)


def _is_forgotten(request: httpx2.Request, status: int, body: bytes) -> bool:
    words = body.lower()
    said = b"session" in words or b"not initialized" in words
    return _SESSION in request.headers and (status == _MISSING or (status == _BAD and said))


def _is_message(body: bytes) -> bool:
    try:
        read_message(body)
    except ValueError:
        return False
    return True


class _Limited(httpx2.AsyncByteStream):
    """A body that has no more than so many bytes."""

    def __init__(self, body: Any, limit: int) -> None:
        self._body = body
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        try:
            async for chunk in self._body:
                left -= len(chunk)
                if left < 0:
                    raise httpx2.StreamError(f"the answer has more than {self._limit} bytes")
                yield chunk
        except httpx2.TransportError as problem:
            raise httpx2.StreamError(f"the answer broke off: {_words_of(problem)}") from problem

    async def aclose(self) -> None:
        await self._body.aclose()


class _Mended(_Limited):
    """A stream of events: what is almost a message in a line of data is mended, all else passes as it is.

    The limit is that of a line, which is given on in parts if it is longer.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        async for chunk in self._body:
            rest += chunk
            if b"\n" in chunk or b"\r" in chunk:
                lines = bytes(rest).splitlines(keepends=True)
                rest = bytearray(lines.pop() if lines[-1][-1:] not in b"\r\n" else b"")
                yield b"".join(map(_mended_data, lines))
            elif len(rest) > self._limit:
                yield bytes(rest)
                rest = bytearray()
        yield bytes(rest)


def _mended_data(line: bytes) -> bytes:
    """Mend a line of data; one that holds no whole JSON is a piece of a message, and stays as it is."""
    data = line.removeprefix(b"data:")
    if not line.startswith(b"data:") or not data.strip() or _is_message(data):
        return line
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return line
    return b"\n\n".join(b"data: " + text.encode() for text in mended(data)) + line[len(line.rstrip(b"\r\n")) :]


def _words_of(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


def _answer(request: httpx2.Request, reason: str, status: int = 502) -> httpx2.Response:
    """Answer a request with an error that the session gives to the one who waits for it."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": reason}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(max(status, _BAD), headers=headers, content=json.dumps(error).encode(), request=request)


@contextlib.asynccontextmanager
async def http_streams(target: Http, terms: Terms) -> AsyncIterator[tuple[Any, Any]]:
    """Give the streams of messages from a server and to it; calls have their own limits of time."""
    timeout = httpx2.Timeout(terms.connect_timeout, read=None)
    headers = {"accept-encoding": "identity", **target.headers}
    async with (
        _GuardedClient(terms.max_message, timeout=timeout, headers=headers) as client,
        streamable_http_client(target.url, http_client=client, max_sse_event_size=terms.max_message + _MARK) as streams,
    ):
        yield streams
