"""The HTTP client for streamable HTTP: a failed or oversized request affects only itself.

Rules of this file:
- A network failure is the error of the request that met it. The session and other requests continue.
- A JSON body has a size limit and must not be compressed, because a compressed body could expand to any size.
- The body that answers a request is its answer, whatever id it has, and is repaired like the lines of a process.
- A session is over if the server does not know it any more: a 404 says so, or the text of a 400.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from toolwire.mcp.lines import read_message, repair_messages
from toolwire.mcp.targets import Http, Terms

_GOODBYE_SECONDS = 1.0
_OK = 200
_FIRST_ERROR = 400
_MISSING = 404  # an unknown method or an ended session: the official transport distinguishes them
_SESSION = "mcp-session-id"
_EVENTS = "text/event-stream"
_MARK = 64  # the most bytes of an event beside its data


class _GuardedClient(httpx2.AsyncClient):
    """A client that returns failures as answers, and limits the size of answers."""

    def __init__(self, limit: int, **options: Any) -> None:
        super().__init__(**options)
        self._limit = limit

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request.

        A network failure becomes an answer, and the DELETE that ends a session has a short timeout.
        """
        if request.method == "DELETE":
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _GOODBYE_SECONDS)
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as problem:
            return _answer(request, f"cannot be reached: {_error_text(problem)}")
        content_type = response.headers.get("content-type", "").lower()
        if content_type.startswith(_EVENTS):
            response.stream = _RepairedEvents(response.stream, self._limit)
            return response
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return _answer(request, "answered with a compressed body, which was not requested", response.status_code)
        response.stream = _Limited(response.stream, self._limit)
        if response.status_code < _FIRST_ERROR and not content_type.startswith("application/json"):
            return response
        return await _read(request, response)


async def _read(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Read a JSON body or an error and return it in a form that the official transport parses without failing."""
    try:
        body = await response.aread()
    except httpx2.StreamError as problem:
        return _answer(request, str(problem))
    status = response.status_code
    if status >= _FIRST_ERROR:
        if _is_session_lost(request, status, body):
            return httpx2.Response(_MISSING, request=request)
        is_for_transport = status == _MISSING or _is_message(body)
        return (
            response
            if is_for_transport
            else _answer(request, f"answered {status} {response.reason_phrase}".rstrip(), status)
        )
    if request.method != "POST" or status != _OK:
        return response
    messages = [body] if _is_message(body) else [text.encode() for text in repair_messages(body)]
    if not messages:
        return _answer(request, "the answer cannot be read: it is not a message")
    session = {name: value for name in (_SESSION,) if (value := response.headers.get(name)) is not None}
    events = b"".join(b"data: " + b" ".join(message.splitlines()) + b"\n\n" for message in messages)
    return httpx2.Response(status, headers={"content-type": _EVENTS, **session}, content=events, request=request)


def _is_session_lost(request: httpx2.Request, status: int, body: bytes) -> bool:
    text = body.lower()
    names_session = b"session" in text or b"not initialized" in text
    return _SESSION in request.headers and (status == _MISSING or (status == _FIRST_ERROR and names_session))


def _is_message(body: bytes) -> bool:
    try:
        read_message(body)
    except ValueError:
        return False
    return True


class _Limited(httpx2.AsyncByteStream):
    """A body of at most `limit` bytes."""

    def __init__(self, body: Any, limit: int) -> None:
        self._body = body
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = self._limit
        try:
            async for chunk in self._body:
                remaining -= len(chunk)
                if remaining < 0:
                    raise httpx2.StreamError(f"the answer has more than {self._limit} bytes")
                yield chunk
        except httpx2.TransportError as problem:
            raise httpx2.StreamError(f"the answer broke off: {_error_text(problem)}") from problem

    async def aclose(self) -> None:
        await self._body.aclose()


class _RepairedEvents(_Limited):
    """An event stream. Data lines that are almost messages are repaired, all others pass unchanged.

    The limit is that of a line; a longer line is passed on in pieces.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        buffer = bytearray()
        async for chunk in self._body:
            buffer += chunk
            if b"\n" in chunk or b"\r" in chunk:
                lines = bytes(buffer).splitlines(keepends=True)
                buffer = bytearray(lines.pop() if lines[-1][-1:] not in b"\r\n" else b"")
                yield b"".join(map(_repair_data, lines))
            elif len(buffer) > self._limit:
                yield bytes(buffer)
                buffer = bytearray()
        yield bytes(buffer)


def _repair_data(line: bytes) -> bytes:
    """Return a data line with its message repaired.

    A line without whole JSON is a piece of a message, and stays unchanged.
    """
    data = line.removeprefix(b"data:")
    if not line.startswith(b"data:") or not data.strip() or _is_message(data):
        return line
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return line
    return b"\n\n".join(b"data: " + text.encode() for text in repair_messages(data)) + line[len(line.rstrip(b"\r\n")) :]


def _error_text(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


def _answer(request: httpx2.Request, reason: str, status: int = 502) -> httpx2.Response:
    """Return an error that the session delivers to the request that waits for it."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": reason}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(
        max(status, _FIRST_ERROR), headers=headers, content=json.dumps(error).encode(), request=request
    )


@contextlib.asynccontextmanager
async def http_streams(target: Http, terms: Terms) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the message streams from a server and to it. Calls have time limits of their own."""
    timeout = httpx2.Timeout(terms.connect_timeout, read=None)
    headers = {"accept-encoding": "identity", **target.headers}
    async with (
        _GuardedClient(terms.max_message, timeout=timeout, headers=headers) as client,
        streamable_http_client(target.url, http_client=client, max_sse_event_size=terms.max_message + _MARK) as streams,
    ):
        yield streams
